"""A search gives what answers a query, the best first, and nothing that whoever asks may not see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.event import GLOBAL
from memplane.recall.documents import labels_of
from tests.examples import examples

STOPPED = "[Request interrupted by user]"


def ids(hits):
    return [hit.event.id for hit in hits]


@pytest.fixture
def herons(plane):
    """Talk about birds: two sessions, a decision, a fact of a task, a tagged note."""
    plane.record("Grey herons nest near the lake", id="nest", role="user", session="s1")
    plane.record("They stand still for hours", id="still", role="assistant", session="s1")
    plane.record("We count herons in May", id="count", kind="decision", key="count", session="s2")
    plane.record("A heron eats frogs", id="frogs", kind="fact", task="birds", tags=("Food",))
    plane.record("The printer is out of ink", id="ink", role="user", session="s3")
    return plane


def test_the_best_answer_comes_first_and_what_says_nothing_of_it_is_no_hit(herons):
    hits = herons.search("herons near the lake")
    assert ids(hits)[0] == "nest"
    assert "ink" not in ids(hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_hit_has_its_passage_its_event_and_a_score_that_is_the_sum_of_named_parts(herons):
    for hit in herons.search("herons near the lake"):
        assert list(hit.parts) == ["words", "similar", "neighbours", "markers", "tags", "key"]
        assert hit.score == sum(hit.parts.values())
        assert all(isinstance(part, int) and part >= 0 for part in hit.parts.values())
        assert (hit.text, hit.whole) == (hit.event.text, True)
        assert hit.event == herons.event(hit.event.id)
        assert herons.expand(hit.handle).event == hit.event


def test_of_equal_hits_the_more_important_comes_first_then_the_newer(plane):
    for name, importance in (("a", 500), ("b", 500), ("c", 900), ("d", 100)):
        plane.record("grey herons", id=name, importance=importance)
    hits = plane.search("herons")
    assert ids(hits) == ["c", "b", "a", "d"]
    assert len({hit.score for hit in hits}) == 1


def test_at_most_k_hits_are_given_and_they_are_the_first_of_more(herons):
    every = herons.search("herons frogs", 1000)
    assert len(every) >= 3
    for k in range(1, len(every) + 1):
        assert herons.search("herons frogs", k) == every[:k]


@pytest.mark.parametrize("query", ["", "  \n", "the of and", "zygote", "?!"])
def test_what_matches_nothing_finds_nothing(herons, query):
    assert herons.search(query) == []


def test_an_empty_plane_finds_nothing(plane):
    assert plane.search("herons") == []


def test_what_was_recorded_is_found_at_once(herons):
    herons.search("herons")
    herons.record("A bittern booms", id="boom")
    assert ids(herons.search("bittern")) == ["boom"]


# --- filters ---


@pytest.mark.parametrize(
    ("given_filter", "found"),
    [
        ({"kind": "decision"}, {"count"}),
        ({"kind": ["decision", "fact"]}, {"count", "frogs"}),
        ({"kind": "plan"}, set()),
        ({"ns": "/task/birds"}, {"frogs"}),
        ({"ns": [GLOBAL, "/task/birds"]}, {"nest", "still", "count", "frogs"}),
        ({"session": "s1"}, {"nest", "still"}),
        ({"session": ("s1", "s2")}, {"nest", "still", "count"}),
        ({"session": "s1", "kind": "decision"}, set()),
        ({"tag": "food"}, {"frogs"}),
        ({"tag": ["FOOD", "drink"]}, {"frogs"}),
        ({"tag": "drink"}, set()),
        ({"kind": []}, {"nest", "still", "count", "frogs"}),
    ],
)
def test_filters_leave_only_what_has_one_of_the_values_of_each(herons, given_filter, found):
    assert set(ids(herons.search("heron", **given_filter))) == found


NAMES = st.lists(st.sampled_from(["src", "nests", "pay.py", "y.py", "a"]), min_size=1, max_size=5)


@settings(max_examples=examples(12))
@given(paths=st.lists(NAMES, min_size=1, max_size=4), asked=NAMES, root=st.sampled_from(["", "/"]))
def test_a_file_is_always_found_by_its_path_and_any_end_of_it_and_by_nothing_else(
    tmp_path_factory, paths, asked, root
):
    with memplane.init(tmp_path_factory.mktemp("p") / "p", trusted=False) as plane:
        for number, path in enumerate(paths):
            data = {"tool": "Edit", "path": root + "/".join(path)}
            plane.record("heron count", id=f"e{number}", kind="tool_call", data=data)
        plane.record("a heron in y.py", id="other")
        ends = {f"e{n}" for n, path in enumerate(paths) if path[-len(asked) :] == asked}
        assert set(ids(plane.search("heron", file="/".join(asked)))) == ends
        assert set(ids(plane.search("heron", file=["./" + "/".join(asked), "none"]))) == ends
        exact = {f"e{n}" for n, path in enumerate(paths) if root and path == asked}
        assert set(ids(plane.search("heron", file="/" + "/".join(asked)))) == exact


def test_a_path_from_the_root_of_the_plane_is_that_file_and_no_other_of_its_name(tmp_path):
    (tmp_path / ".git").mkdir()
    with memplane.init(tmp_path / ".memplane", trusted=False) as plane:
        for name in ("README.md", "docs/README.md", f"{tmp_path}/README.md", "/else/README.md"):
            data = {"tool": "Edit", "path": name}
            plane.record("heron count", id=name, kind="tool_call", data=data)
        root = f"{tmp_path}/README.md"
        assert set(ids(plane.search("heron", file=root))) == {"README.md", root}
        below = set(ids(plane.search("heron", file=[root, "docs/README.md"])))
        assert below == {"README.md", root, "docs/README.md"}
        assert set(ids(plane.search("heron", file=f"{tmp_path}/docs/README.md"))) == {
            "docs/README.md"
        }
        assert len(ids(plane.search("heron", file="README.md"))) == 4


def test_of_a_deep_path_a_bounded_number_of_ends_is_indexed(plane):
    deep = "/" + "/".join("d" * 99)
    event = plane.record("heron", kind="tool_call", data={"tool": "Read", "path": deep}).event
    assert len([one for one in labels_of(event) if one.startswith("file:")]) == 17
    assert ids(plane.search("heron", file=deep)) == [event.id]
    long = plane.record("heron", kind="tool_call", data={"tool": "Read", "path": "d" * 301}).event
    assert not [one for one in labels_of(long) if one.startswith("file:")]


def test_what_a_filter_leaves_out_lends_nothing_to_the_events_beside_it(herons):
    assert ids(herons.search("lake", session="s1")) == ["nest", "still"]
    herons.record("They are patient", id="patient", kind="observation", session="s1")
    assert "patient" in ids(herons.search("lake"))
    assert herons.search("lake", kind="observation") == []


def test_a_span_of_time_is_of_when_it_happened_and_takes_text_or_datetime(plane):
    for day in (1, 2, 3):
        plane.record("herons", id=f"d{day}", ts=f"2025-03-0{day}T09:00:00Z")
    assert set(ids(plane.search("herons", since="2025-03-02T00:00:00Z"))) == {"d2", "d3"}
    assert set(ids(plane.search("herons", until="2025-03-02T09:00:00Z"))) == {"d1", "d2"}
    span = {"since": datetime(2025, 3, 2, tzinfo=UTC), "until": datetime(2025, 3, 3, tzinfo=UTC)}
    assert ids(plane.search("herons", **span)) == ["d2"]


def test_a_task_sees_itself_and_global_and_only_an_agent_sees_its_own(plane):
    for name in ("/global", "/task/birds", "/task/other", "/agent/ann", "/agent/bob"):
        plane.record("herons", id=name, ns=name)
    open_to_all = {"/global", "/task/birds", "/task/other"}
    assert set(ids(plane.search("herons"))) == open_to_all
    assert set(ids(plane.search("herons", agent="ann"))) == open_to_all | {"/agent/ann"}
    assert set(ids(plane.search("herons", task="birds"))) == {"/global", "/task/birds"}
    with pytest.raises(memplane.ScopeError):
        plane.search("herons", ns="/agent/bob", agent="ann")


def test_what_does_not_hold_at_the_clock_is_no_hit(plane):
    plane.record("herons are back", id="old", valid_until="2026-02-01T00:00:00Z")
    plane.record("herons are gone", id="new", valid_from="2026-02-01T00:00:01Z")
    assert ids(plane.search("herons")) == ["old"]
    assert ids(plane.search("herons", now="2026-03-01T00:00:00Z")) == ["new"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"k": 0}, "k: expected 1 to 1000, found 0"),
        ({"k": 1001}, "k: expected 1 to 1000, found 1001"),
        ({"k": True}, "k: expected 1 to 1000, found True"),
        ({"kind": "decisoin"}, "kind: unknown kind 'decisoin'; known: "),
        ({"kind": 4}, "kind: expected a list of texts, found 4"),
        ({"session": [1]}, "session: expected a list of texts, found [1]"),
        ({"tag": 7}, "tag: expected a list of texts, found 7"),
        ({"ns": "birds"}, "ns: "),
        ({"since": "2026-01-01T08:00:00"}, "since: "),
        ({"as_of": 99}, "as_of: expected a seq from 0 to "),
        ({"channel": "nobody"}, "channel: unknown channel 'nobody'; known: "),
        ({"task": 5}, "task: expected a text, found 5"),
        ({"query": 5}, "query: expected a text, found int"),
    ],
)
def test_a_wrong_argument_is_named(herons, arguments, said):
    given_arguments = {"query": "herons", **arguments}
    with pytest.raises(memplane.InputError) as raised:
        herons.search(given_arguments.pop("query"), **given_arguments)
    assert str(raised.value).startswith(said)


# --- what may not be seen ---


def test_what_is_replaced_or_forgotten_is_no_hit_until_it_is_brought_back(herons):
    herons.record("We count egrets in June", id="egrets", kind="decision", key="count")
    assert "count" not in ids(herons.search("count herons in May"))
    herons.forget(id="nest")
    assert "nest" not in ids(herons.search("lake"))
    assert herons.search("lake") == []  # nor does it lend anything
    herons.unforget(id="nest")
    assert ids(herons.search("lake"))[0] == "nest"


def test_what_a_channel_may_not_see_is_no_hit_and_lends_nothing(plane):
    plane.record("the safe opens with herons", id="hidden", sensitivity="high", session="s")
    plane.record("good to know", id="beside", session="s")
    plane.record("I like herons", id="liked", kind="preference")
    assert set(ids(plane.search("herons"))) == {"hidden", "beside", "liked"}
    assert ids(plane.search("herons", channel="public")) == []
    assert ids(plane.search("herons", channel="agent")) == ["liked"]


def test_hiding_an_event_changes_nothing_of_the_others_but_what_it_lent_them(plane):
    plane.record("herons by the river", id="a", session="one")
    plane.record("herons on the roof", id="b", sensitivity="high", session="two")
    plane.record("herons in the reeds", id="c", session="three")
    everything = {hit.event.id: hit for hit in plane.search("herons river")}
    shown = {hit.event.id: hit for hit in plane.search("herons river", channel="team")}
    assert shown == {name: everything[name] for name in ("a", "c")}


def test_a_hit_is_redacted_by_the_policy_of_today(plane):
    plane.record("The herons are ringed: CUST-771 and CUST-772", id="ring")
    (before,) = plane.search("herons ringed")
    assert "CUST-771" in before.text
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text("version: 1\nstore: {redact_patterns: ['CUST-[0-9]+']}\n")
    (after,) = plane.search("herons ringed")
    assert "CUST" not in after.text + after.event.text
    assert "herons" in after.text


def test_no_passage_shows_a_part_of_what_redaction_would_take_whole(plane):
    filler = "Nothing of note happened on the shore that day. " * 12
    plane.record(f"{filler}\nBEGIN-PRIVATE herons\nwere ringed\nEND-PRIVATE {filler}", id="long")
    privacy = plane.home / "policies" / "privacy.yaml"
    pattern = "BEGIN-PRIVATE[^#]{0,200}END-PRIVATE"
    privacy.write_text(f"version: 1\nstore: {{redact_patterns: ['{pattern}']}}\n")
    for hit in plane.search("herons ringed"):
        assert "herons" not in hit.text
        assert "ringed" not in hit.text


def test_of_a_long_text_the_passage_that_says_most_is_shown_and_the_handle_opens_the_rest(plane):
    filler = "Nothing of note happened on the shore that day. " * 40
    plane.record(f"{filler}The herons came back on Friday. {filler}", id="long")
    (hit,) = plane.search("when did the herons come back")
    assert "The herons came back on Friday." in hit.text
    assert not hit.whole
    assert len(hit.text) < 400
    assert plane.expand(hit.handle, budget=5_000).event == hit.event


def test_a_word_deep_in_a_text_that_fills_a_body_is_found(plane):
    filler = "Nothing of note happened on the shore that day. " * 24_000
    plane.record(f"{filler}\nThe bittern boomed at last.", id="body")
    (hit,) = plane.search("bittern")
    assert (hit.event.id, hit.whole) == ("body", False)
    assert "bittern boomed" in hit.text


WORDS = ("heron", "frog", "lake", "reed")
EVENTS = st.fixed_dictionaries(
    {
        "text": st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
        "kind": st.sampled_from(["message", "decision", "preference", "tool_result"]),
        "ns": st.sampled_from(["/global", "/task/t", "/agent/ann"]),
        "sensitivity": st.sampled_from(["low", "normal", "high"]),
        "session": st.sampled_from(["s1", "s2", None]),
        "tags": st.sampled_from([(), ("a",), ("a", "b")]),
    }
)
ASKED = st.fixed_dictionaries(
    {
        "channel": st.sampled_from(["private", "public", "team"]),
        "kind": st.sampled_from([[], ["message"], ["decision", "preference"]]),
        "session": st.sampled_from([[], ["s1"], ["s1", "s2"]]),
        "tag": st.sampled_from([None, "a", "b"]),
        "ns": st.sampled_from([None, "/task/t"]),
        "agent": st.sampled_from([None, "ann"]),
    }
)


def allowed(event, asked):
    """What the rules of the default policies and the filters say, in other words than the code."""
    return not (
        (event.sensitivity == "high" and asked["channel"] != "private")
        or (event.kind == "preference" and asked["channel"] == "public")
        or (event.ns == "/agent/ann" and asked["agent"] != "ann")
        or (asked["ns"] and event.ns != asked["ns"])
        or (asked["kind"] and event.kind not in asked["kind"])
        or (asked["session"] and event.session not in asked["session"])
        or (asked["tag"] and asked["tag"] not in event.tags)
    )


@settings(max_examples=examples(16))
@given(rows=st.lists(EVENTS, min_size=1, max_size=12), asked=ASKED, word=st.sampled_from(WORDS))
def test_a_search_always_finds_every_event_with_the_word_that_may_be_seen_and_no_hidden_one(
    tmp_path_factory, rows, asked, word
):
    home = tmp_path_factory.mktemp("any")
    with memplane.init(home, durability="os") as plane:
        plane.record_many(rows)
        hits = plane.search(word, 1000, **asked)
        events = [*plane.events(), *plane.events(ns="/agent/ann")]
        holding = [e.id for e in events if word in e.text.split() and allowed(e, asked)]
    assert all(allowed(hit.event, asked) for hit in hits)
    own = [hit.event.id for hit in hits if hit.parts["words"]]
    assert sorted(own) == sorted(holding)


# --- as of then, several processes, the same everywhere ---


def test_as_of_a_seq_and_in_the_plane_of_then_the_answer_is_that_of_then(herons):
    then = herons.search("herons near the lake", 100)
    head = herons.head().seq
    herons.record("More herons at the other lake", id="later", session="s1")
    herons.forget(id="nest")
    herons.record("We count egrets", kind="decision", key="count")
    assert herons.search("herons near the lake", 100) != then
    assert herons.search("herons near the lake", 100, as_of=head) == then
    assert herons.at(head).search("herons near the lake", 100) == then
    with pytest.raises(memplane.InputError):
        herons.at(head).search("herons", as_of=head + 1)


def test_a_search_never_writes_the_log_and_works_on_a_plane_that_is_read_only(herons):
    head = herons.head()
    with memplane.open(herons.home, read_only=True) as other:
        now = "2026-01-05T12:00:00.000000Z"
        assert other.search("herons", now=now) == herons.search("herons", now=now)
    assert herons.head() == head


RECORD = """
import memplane, sys
with memplane.open(sys.argv[1], durability="os") as plane:
    before = [hit.event.id for hit in plane.search("egrets")]
    plane.record("egrets came along", id=sys.argv[2])
    print(before, [hit.event.id for hit in plane.search("egrets")])
"""


def test_what_another_process_records_is_found_here_and_there_at_once(herons):
    herons.search("herons")
    seen = []
    for name in ("e1", "e2", "e3"):
        ran = subprocess.run(
            [sys.executable, "-c", RECORD, str(herons.home), name],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ran.stdout == f"{seen[::-1]} {[name, *seen[::-1]]}\n"
        seen.append(name)
        assert ids(herons.search("egrets")) == seen[::-1]


def test_any_process_prints_the_same_bytes_whatever_its_hash_seed_and_whatever_is_cached(herons):
    herons.close()
    command = [
        sys.executable, "-m", "memplane", "search", "herons near the lake frogs", "--json",
        "--home", str(herons.home),
    ]  # fmt: skip
    printed = set()
    for seed in ("0", "1", "77"):
        ran = subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        printed.add(ran.stdout)
    (one,) = printed
    assert len(json.loads(one)) >= 4


def test_a_long_build_of_the_index_tells_how_far_it_is(plane):
    plane.record_many({"text": f"turn {number} about herons"} for number in range(2_500))
    told = []
    assert plane.search("herons", progress=lambda done, total: told.append((done, total)))
    assert told
    assert all(0 <= done <= total for done, total in told)
    assert told == sorted(told)


def test_a_prompt_typed_again_behind_an_interruption_is_one_hit(plane):
    for id_, text in (("a", "count the herons"), ("b", STOPPED), ("c", "count the herons")):
        plane.record(text, id=id_, role="user", session="s1")
    plane.record("count the herons", id="d", role="user", session="s2")
    plane.record("count the herons", id="e", role="user", session="s2")  # nothing was interrupted
    assert sorted(ids(plane.search("count herons"))) == ["a", "d", "e"]


def test_of_another_day_than_was_asked_for_nothing_is_found(tmp_path):
    with memplane.init(tmp_path / "plane", clock=lambda: "2026-11-27T10:00:00.000000Z") as plane:
        plane.record("The ferry leaves at nine")
        assert [hit.text for hit in plane.search("Friday")] == ["The ferry leaves at nine"]
        for asked in ("Sundays", "Saturday in October"):
            assert list(plane.search(asked)) == []
