"""`memplane search`: hits on stdout, one sentence on stderr where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import memplane


@pytest.fixture
def herons(home):
    with memplane.open(home) as plane:
        plane.record(
            "Grey herons nest near the lake", id="nest", role="user", actor="ann", session="s1",
            ts="2025-05-04T10:00:00Z",
        )  # fmt: skip
        plane.record("We count herons in May", id="count", kind="decision", key="birds.count")
        plane.record("herons\x1b[2Jin \nplastic", id="odd", tags=("food",), sensitivity="high")
        plane.record(f"{'The shore was empty. ' * 60} Then herons.", id="long", session="s2")
    return home


def test_each_hit_has_its_score_date_id_what_it_is_and_its_passage_with_the_handle(run, herons):
    done = run("search", "herons near the lake", "-k", "1", "--home", herons)
    assert (done.code, done.err) == (0, "")
    with memplane.open(herons) as plane:
        (hit,) = plane.search("herons near the lake", 1)
    assert done.out == (
        f"{hit.score:>5}  2025-05-04  nest  message user ann s1\n"
        f"       Grey herons nest near the lake #{hit.event.seq}\n"
    )


def test_a_passage_that_is_not_the_whole_says_so_and_its_handle_opens_the_event(run, herons):
    done = run("search", "herons", "--session", "s2", "--home", herons)
    (_, passage) = done.out.splitlines()
    assert passage.endswith("Then herons. … #5")
    opened = run("expand", "#5", "--home", herons)
    assert opened.code == 0
    assert "The shore was empty. Then herons." in " ".join(opened.out.split())


def test_what_an_event_says_cannot_drive_a_terminal(run, herons):
    done = run("search", "herons plastic", "--tag", "food", "--home", herons)
    assert done.code == 0
    assert "\x1b" not in done.out
    assert len(done.out.splitlines()) == 2


def test_json_has_scores_parts_passage_and_provenance_in_the_same_order(run, herons):
    found = json.loads(run("search", "herons", "--home", herons, "--json").out)
    with memplane.open(herons) as plane:
        hits = plane.search("herons")
    assert [row["event"]["id"] for row in found] == [hit.event.id for hit in hits]
    for row, hit in zip(found, hits, strict=True):
        assert list(row) == [
            "score",
            "text",
            "whole",
            "stale",
            "said_by",
            "handle",
            "parts",
            "event",
        ]
        assert (row["score"], row["parts"], row["whole"]) == (hit.score, hit.parts, hit.whole)
        assert (row["text"], row["handle"]) == (hit.text, f"#{hit.event.seq}")
        assert row["event"]["seq"] == hit.event.seq
        assert "text" not in row["event"]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--kind", "decision"], ["count"]),
        (["--kind", "fact", "--kind", "decision"], ["count"]),
        (["--session", "s1"], ["nest"]),
        (["--session", "s1", "--session", "s2"], ["nest", "long"]),
        (["--tag", "food"], ["odd"]),
        (["--until", "2025-06-01T00:00:00Z"], ["nest"]),
        (["--since", "2025-06-01T00:00:00Z", "--kind", "message", "--tag", "food"], ["odd"]),
        (["--ns", "/global", "--channel", "team", "--session", "s1"], ["nest"]),
        (["--as-of", "3", "--kind", "decision"], ["count"]),
        (["--as-of", "2"], ["nest"]),
        (["--task", "t", "--agent", "a", "--session", "s1"], ["nest"]),
    ],
)
def test_options_leave_out_what_they_say(run, herons, options, ids):
    done = run("search", "herons", *options, "--home", herons, "--json")
    assert done.code == 0
    assert sorted(row["event"]["id"] for row in json.loads(done.out)) == sorted(ids)


def test_where_nothing_is_found_one_sentence_says_what_was_searched_and_what_to_try(run, herons):
    done = run("search", "zygote", "--home", herons)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "memplane: nothing found for `zygote` on channel private; try other words\n"
    )
    done = run(
        "search", "herons", "--kind", "plan", "--tag", "a", "--tag", "b", "--home", herons, "--json"
    )
    assert (done.code, done.out) == (1, "[]\n")
    assert done.err == (
        "memplane: nothing found for `herons` on channel private with --kind plan --tag a --tag b; "
        "try other words or fewer filters\n"
    )


def test_the_sentence_about_nothing_shows_no_secret_of_the_query(run, herons):
    secret = "ghp_" + "a1B2" * 9
    done = run("search", f"zygote {secret}", "--kind", "plan", "--home", herons)
    assert (done.code, "zygote" in done.err, secret in done.err) == (1, True, False)


def test_a_channel_finds_nothing_of_what_it_may_not_see(run, herons):
    assert run("search", "plastic", "--home", herons).code == 0
    done = run("search", "plastic", "--channel", "agent", "--home", herons)
    assert (done.code, done.out) == (1, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-k", "0"], "memplane: k: expected 1 to 1000, found 0\n"),
        (["--kind", "decisoin"], "memplane: kind: unknown kind 'decisoin'; known: "),
        (["--since", "yesterday"], "memplane: since: "),
        (["--as-of", "99"], "memplane: as_of: expected a seq from 0 to 5, found 99\n"),
        (["--channel", "nobody"], "memplane: channel: unknown channel 'nobody'"),
    ],
)
def test_wrong_use_is_named_and_exits_2(run, herons, options, said):
    done = run("search", "herons", *options, "--home", herons)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)


def test_a_search_writes_nothing_into_the_log(run, herons, stored):
    before = stored(herons)
    assert run("search", "herons", "--home", herons).code == 0
    assert stored(herons) == before


def test_similar_finds_what_says_the_like_in_other_words(run, home):
    with memplane.open(home) as plane:
        plane.record("We adopted a puppy from the shelter", id="puppy")
        plane.record("The parser fails on empty lines", id="parser")
    assert run("search", "dog", "--kind", "message", "--home", home, "--similar").code == 0
    (best, *_) = json.loads(run("search", "dog", "--similar", "--home", home, "--json").out)
    assert best["event"]["id"] == "puppy"
    assert best["score"] == best["parts"]["similar"]
    done = run("search", "dog", "--similar", "--kind", "decision", "--home", home)
    assert done.code == 1
    assert "nothing found for `dog`" in done.err


def test_search_and_pack_filter_by_tag_and_importance(run, home):
    for text, tag, importance in (("one", "a", "900"), ("two", "b", "0.2"), ("three", "a", "100")):
        run("record", f"heron {text}", "--kind", "fact", "--tag", tag, "--importance", importance, "--home", home)  # fmt: skip
    for given, words in (
        (["--tag", "A"], {"one", "three"}),
        (["--without-tag", "a"], {"two"}),
        (["--importance-min", "0.2"], {"one", "two"}),
        (["--tag", "a", "--importance-min", "200"], {"one"}),
    ):
        found = run("search", "heron", *given, "--home", home).out
        packed = run("pack", "which heron?", *given, "--no-report", "--home", home).out
        for word in ("one", "two", "three"):
            assert (f"heron {word}" in found) == (f"heron {word}" in packed) == (word in words)
    none = run("search", "heron", "--without-tag", "a", "--without-tag", "b", "--home", home)
    assert none.code == 1
    assert "with --without-tag a --without-tag b" in none.err
    assert run("pack", "x", "--importance-min", "much", "--home", home).code == 2


ASKED_BRIEFLY = """
import os, sys
from memplane.cli.run import run_brief_command
assert run_brief_command(["search", "keel", "--home", sys.argv[1]]) == 0
assert "numpy" in sys.modules
print(len(os.listdir("/proc/self/task")), os.environ["OPENBLAS_NUM_THREADS"])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads as Linux lists them")
@pytest.mark.parametrize("given", [None, "2"])
def test_a_search_starts_no_threads_that_wait_for_work_unless_told_to(tmp_path, given):
    with memplane.init(tmp_path / "plane", durability="os", trusted=False) as plane:
        plane.record(text="The keel is of oak.")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "OMP_"))}
    if given is not None:
        environment["OPENBLAS_NUM_THREADS"] = given
    done = subprocess.run(
        [sys.executable, "-c", ASKED_BRIEFLY, str(tmp_path / "plane")],
        env=environment, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    threads, said = done.stdout.splitlines()[-1].split()
    assert said == (given or "1")
    assert given or threads == "1"
