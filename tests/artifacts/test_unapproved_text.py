"""The text of an artifact is in no block, report, hit, listing or expansion until it is approved.

What counts as its text: what the file says, and what somebody said of it.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.__main__ import main
from memplane.errors import MemplaneError, ScopeError
from memplane.log.segments import body_path
from tests.examples import examples

MARKER = "quokka"
BODY = f"# Birds\n\nHerons nest near the {MARKER} in tall trees.\n" + "They fish at dawn. " * 40
QUERIES = ("herons nest", "report", "what fishes at dawn?", "tall trees near herons", "")
END = 2**63

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), st.integers(0, 1),
            st.sampled_from([{}, {"ns": "/task/t"}, {"key": "k"}, {"session": "s"}, {"task": "t"}, {"reference": True}]),
        ),
        st.tuples(st.just("by hand"), st.integers(0, 1), st.just({})),
        st.tuples(
            st.sampled_from(["approve", "approve", "revoke", "forget", "unforget", "approve badly", "forget approval"]),
            st.integers(0, 5), st.just({}),
        ),
        st.tuples(st.just("say"), st.sampled_from(["herons", "we fish at dawn", "the report is late"]), st.just({})),
    ),
    min_size=2,
    max_size=14,
)  # fmt: skip
CONTENTS = ("quokka", "wombat")


class History:
    """Artifacts of two files, each event with a word of its own in what is said of it."""

    def __init__(self, plane, folder):
        self.plane, self.added, self.said = plane, [], []
        self.files = [folder / f"report{number}.md" for number in range(2)]
        for file, word in zip(self.files, CONTENTS, strict=True):
            file.write_text(BODY.replace(MARKER, word))

    def do(self, what, how, fields):
        """One step; what a plane refuses is not there."""
        plane, added, said = self.plane, self.added, self.said
        word = f"zebra{len(added)}x"
        if what == "add":
            done = plane.work.artifacts.add(self.files[how], f"notes on a {word}", **fields)
            added.append((done.receipt.id, word, CONTENTS[how]))
        elif what == "by hand":
            added.append((plane.record(f"a {word}", kind="artifact", task="t").id, word, "none"))
        elif what == "say":
            plane.record(how, role="user", session="s")
        elif what == "forget approval":
            if said:
                plane.forget(id=said[how % len(said)])
        elif added:
            id_ = added[how % len(added)][0]
            if what == "approve badly":
                said.append(plane.record(kind="approval", refs=[id_], data={"sha256": "0" * 64}).id)
            elif what in ("approve", "revoke"):
                said.append(getattr(plane.work.artifacts, what)(id_).id)
            else:
                getattr(plane, what)(id=id_)

    def hidden_words(self):
        """The words that nobody may read: of events that no approval covers, and of their files."""
        context = self.plane.context
        with context.lock:
            covered = context.approvals().covered(as_of=END, now=context.clock())
        shown = {word for id_, *words in self.added for word in words if self.seq(id_) in covered}
        return {word for _, *words in self.added for word in words} - shown - {"none"}

    def seq(self, id_):
        return self.plane.event(id_).seq


def command(home, *argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main([*map(str, argv), "--home", str(home)])
    return out.getvalue() + err.getvalue()


def everything(plane, ids):
    """All that a plane says to whoever asks it by the library."""
    said = {}
    handles = [f"expand://artifact/{one.sha256}" for one in plane.work.artifacts.list(all=True)]
    for intent in ("deep", "fast"):
        for query in QUERIES:
            block = plane.pack(query, intent=intent, session="s", budget=3000)
            said[f"block {intent} {query}"] = block.text
            said[f"report {intent} {query}"] = json.dumps([block.report, block.omissions])
    for handle in handles:
        block = plane.pack("herons", expand=[handle], budget=3000)
        said[f"expanded block {handle}"] = block.text
    for query in QUERIES:
        said[f"hits {query}"] = repr(plane.search(query)) if query else ""
    for handle in [*handles, *(f"expand://event/{plane.event(one).seq}" for one in ids)]:
        try:
            said[f"expand {handle}"] = repr(plane.expand(handle, budget=500))
        except MemplaneError as error:
            said[f"expand {handle}"] = str(error)
    said["events"] = repr([*plane.events()])
    said["one by one"] = repr([(plane.event(one), plane.text(plane.event(one))) for one in ids])
    said["tasks"] = repr(plane.work.tasks.list(all=True)) + repr(plane.work.tasks.get("t"))
    said["listed"] = repr(plane.work.artifacts.list(all=True))
    said["shown"] = repr(
        [plane.work.artifacts.show(one.seq) for one in plane.work.artifacts.list(all=True)]
    )
    said["value"] = repr([plane.get("k"), plane.history("k")])
    return said


@settings(max_examples=examples(12))
@given(STEPS)
def test_the_text_of_what_nobody_approved_is_nowhere(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("a")
    with memplane.init(folder / "plane", durability="os") as plane:
        plane.work.tasks.open("t", "count birds")
        plane.record("what about herons?", role="user", session="s")
        history = History(plane, folder)
        for number, step in enumerate(steps, 1):
            with contextlib.suppress(MemplaneError):
                history.do(*step)
            if step[0] not in ("revoke", "forget", "forget approval") and number < len(steps):
                continue
            hidden = history.hidden_words()
            for where, told in everything(plane, [one[0] for one in history.added]).items():
                assert not [word for word in hidden if word in told], where


@settings(max_examples=examples(6))
@given(STEPS)
def test_no_command_prints_it_either(tmp_path_factory, steps):
    prints_nothing(tmp_path_factory.mktemp("a"), steps)


@pytest.mark.long
@settings(max_examples=examples(33))
@given(STEPS)
def test_no_command_prints_it_either_whatever_was_done(tmp_path_factory, steps):
    prints_nothing(tmp_path_factory.mktemp("a"), steps)


def prints_nothing(folder, steps):
    """No command prints the text of an artifact that nobody approved."""
    home = folder / "plane"
    with memplane.init(home, durability="os") as plane:
        plane.work.tasks.open("t", "count birds")
        history = History(plane, folder)
        for step in steps:
            with contextlib.suppress(MemplaneError):
                history.do(*step)
        hidden = history.hidden_words()
        handles = [one.handle for one in plane.work.artifacts.list()]
    added = [one[0] for one in history.added]
    for argv in (
        ["log", "--limit", "0"], ["log", "--json"], ["search", "report herons"], ["task", "show", "t"],
        ["pack", "herons nest", "--no-report"], ["artifact", "list", "--all"], ["history", "k"],
        ["artifact", "list", "--all", "--json"], *(["artifact", "show", one] for one in added),
        *(["show", one] for one in added), *(["show", one, "--json"] for one in added),
        *(["expand", one] for one in handles),
    ):  # fmt: skip
        told = command(home, *argv)
        assert not [word for word in hidden if word in told], argv


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.md"
    path.write_text(BODY)
    return path


@pytest.fixture
def added(plane, report):
    plane.work.tasks.open("t", "count birds")
    return plane.work.artifacts.add(report, "on wombats", task="t")


def test_before_approval_a_block_has_name_size_and_handle_of_it(plane, added):
    card = f"report.md (812 bytes, text/markdown) {added.facts.handle}"
    text = plane.pack("where is the report?", intent="deep", budget=2000).text
    assert f"artifact: {card}\n" in text
    assert f"- artifact: {card}\n" in text
    assert MARKER not in text
    assert "wombats" not in text
    (hit,) = plane.search("report")
    assert (hit.text, hit.event.text) == (card, "")
    assert plane.work.tasks.get("t").artifacts == (card,)
    assert "not approved" in refusal(plane, added.facts.handle)


def refusal(plane, handle, **asked):
    with pytest.raises(ScopeError) as error:
        plane.expand(handle, **asked)
    return str(error.value)


def test_with_approval_it_is_found_shown_and_opened(plane, added):
    plane.work.artifacts.approve("report.md")
    (hit,) = plane.search(f"where is the {MARKER}?")
    assert hit.text == f"Herons nest near the {MARKER} in tall trees."
    block = plane.pack(f"where is the {MARKER}?", intent="deep", budget=2000)
    assert f"near the {MARKER} in tall trees" in block.text
    assert "- artifact: on wombats report.md (812 bytes" in block.text
    assert MARKER in plane.expand(added.facts.handle).text
    assert plane.event(added.receipt.seq).text == "on wombats"
    expanded = plane.pack("x", expand=[added.facts.handle], budget=2000).text
    assert "## Expansions: quoted data" in expanded
    assert MARKER in expanded
    entry = [e for e in block.entries if added.receipt.id in (*e.events, *e.parts)]
    assert entry


def test_as_of_a_seq_before_the_approval_it_is_not_shown(plane, added):
    before = plane.head().seq
    approved = plane.work.artifacts.approve("report.md").seq
    for asked, there in (({"as_of": before}, False), ({"as_of": approved}, True), ({}, True)):
        block = plane.pack("herons nest in trees", intent="deep", budget=2000, **asked)
        assert (MARKER in block.text) is there
        hits = plane.search(f"{MARKER} nest", **asked)
        assert (MARKER in repr(hits)) is there
        opened = plane.pack("x", expand=[added.facts.handle], budget=2000, **asked)
        assert (MARKER in opened.text) is there
    with plane.at(before) as past:
        assert "not approved" in refusal(past, added.facts.handle)
    with plane.at(approved) as past:
        assert MARKER in past.expand(added.facts.handle).text


def test_the_clock_of_the_request_decides_what_is_still_approved(plane, added):
    plane.work.artifacts.approve("report.md", valid_until="2026-03-01T00:00:00Z")
    for now, there in (("2026-02-01T00:00:00Z", True), ("2026-04-01T00:00:00Z", False)):
        block = plane.pack("herons nest in trees", intent="deep", budget=2000, now=now)
        assert (MARKER in block.text) is there
        assert (MARKER in repr(plane.search("herons nest", now=now))) is there


def test_a_revoke_and_a_forgotten_approval_end_it_at_once(plane, added):
    for way in ("revoke", "forget"):
        said = plane.work.artifacts.approve("report.md")
        assert plane.search(MARKER)
        if way == "revoke":
            plane.work.artifacts.revoke("report.md")
        else:
            plane.forget(id=said.id)
        assert plane.search(MARKER) == []
        assert MARKER not in plane.pack("herons nest", intent="deep").text


def test_an_approval_covers_the_event_that_it_names_and_no_other_with_the_same_bytes(plane, report):
    plane.work.artifacts.add(report, "first", ns="/task/a")
    second = plane.work.artifacts.add(report, "second", ns="/task/b").receipt.seq
    plane.work.artifacts.approve(second)
    assert [hit.event.seq for hit in plane.search(MARKER)] == [second]
    assert [one.text for one in plane.work.artifacts.list()] == ["second", ""]


def test_a_changed_copy_is_left_out_and_the_report_says_so(plane, added):
    plane.work.artifacts.approve("report.md")
    assert plane.search(MARKER)
    Path(body_path(str(plane.home), added.facts.sha256)).write_text("They nest on roofs.")
    block = plane.pack(f"where is the {MARKER}?", intent="deep", budget=2000)
    assert MARKER not in block.text
    assert "roofs" not in block.text
    assert block.report["omissions"]["counts"]["changed"] == 1
    assert (added.receipt.id, "changed") in [(one.id, one.reason) for one in block.omissions]
    assert plane.search(MARKER) == []


def test_a_reference_is_found_by_its_name_and_what_was_said_and_opened_by_its_handle(plane, report):
    added = plane.work.artifacts.add(report, "on wombats", reference=True)
    plane.work.artifacts.approve("report.md")
    assert plane.search(MARKER) == []
    assert plane.search("wombats")[0].text == "on wombats"
    assert MARKER in plane.expand(added.facts.handle).text
    report.write_text("something else")
    assert "wombats" in plane.search("wombats")[0].text
    with pytest.raises(memplane.ChangedError):
        plane.expand(added.facts.handle)


def test_an_artifact_is_no_turn_of_its_session(plane, report):
    """Approving one must not move the window of a live session."""
    for number in range(8):
        plane.record(f"turn {number}", role="user", session="s")
    plane.work.artifacts.add(report, "on wombats", session="s")
    before = plane.pack("", session="s", budget=2000)
    plane.work.artifacts.approve("report.md", session="s")
    after = plane.pack("", session="s", budget=2000)
    assert after.text == before.text
    assert "wombats" not in after.text


def test_what_redaction_finds_today_leaves_no_page(plane, report):
    report.write_text("one <<key abc>> two\n" * 200)
    added = plane.work.artifacts.add(report)
    plane.work.artifacts.approve("report.md")
    (plane.home / "policies" / "privacy.yaml").write_text(
        "version: 1\nstore: {redact_patterns: ['<<key [^>]*>>']}\n"
    )
    handle = added.facts.handle
    while handle is not None:
        page = plane.expand(handle, budget=50)
        assert "abc" not in page.text
        handle = page.next
    assert "abc" not in plane.search("one two")[0].text


# --- pages ---


TEXTS = st.lists(
    st.sampled_from(["words ", "a line\n", "\n\n", "é" * 30, "x" * 300, "// "]), max_size=120
)


@settings(max_examples=examples(16))
@given(TEXTS, st.integers(40, 300))
def test_pages_joined_are_the_text_and_each_keeps_to_the_budget(tmp_path_factory, parts, budget):
    folder = tmp_path_factory.mktemp("a")
    file = folder / "a.txt"
    text = "".join(parts) + "end"
    file.write_text(text)
    with memplane.init(folder / "plane", durability="os") as plane:
        added = plane.work.artifacts.add(file)
        plane.work.artifacts.approve(added.receipt.seq)
        pages, handle = [], added.facts.handle
        while handle is not None:
            page = plane.expand(handle, budget=budget)
            numbered = plane.expand(f"{added.facts.handle}?page={len(pages) + 1}", budget=budget)
            assert numbered.text == page.text
            assert page.tokens <= budget
            pages.append(page.text)
            handle = page.next
        assert "".join(pages) == text
        with pytest.raises(memplane.NotFoundError, match=f"has {len(pages)} page"):
            plane.expand(f"{added.facts.handle}?page={len(pages) + 1}", budget=budget)


@pytest.mark.parametrize(
    "handle",
    ["expand://artifact/", "expand://artifact/abc", "expand://artifact/" + "A" * 64,
     "expand://artifact/" + "a" * 64 + "?page=x", "expand://artifact/" + "a" * 64 + "&page=1"],
)  # fmt: skip
def test_what_is_no_handle_is_said(plane, handle):
    with pytest.raises(memplane.InputError, match=r"^(handle|page): expected|artifact takes page"):
        plane.expand(handle)


def test_a_handle_of_nothing_and_a_page_of_none(plane, added):
    with pytest.raises(memplane.NotFoundError, match="no artifact 00000000"):
        plane.expand("expand://artifact/00000000")
    with pytest.raises(memplane.InputError, match="page: expected 1 or more"):
        plane.expand(f"{added.facts.handle}?page=0")
    plane.work.artifacts.approve("report.md")
    with pytest.raises(memplane.InputError, match="expected 1 token or more"):
        plane.expand(added.facts.handle, budget=0)


def test_what_is_no_text_has_no_page_and_its_bytes_are_searched_by_name_alone(plane, tmp_path):
    path = tmp_path / "birds.png"
    path.write_bytes(b"\x89PNG\0herons")
    added = plane.work.artifacts.add(path)
    plane.work.artifacts.approve("birds.png")
    with pytest.raises(memplane.NotFoundError, match=r"is no text but image/png; .* export"):
        plane.expand(added.facts.handle)
    assert plane.search("herons") == []
    assert plane.search("birds")[0].event.seq == added.receipt.seq


def test_a_process_that_adds_an_artifact_imports_nothing_heavy(plane, report):
    import subprocess

    code = (
        "import memplane, sys\n"
        "with memplane.open(sys.argv[1]) as p: p.artifacts.add(sys.argv[2]); p.artifacts.list()\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, plane.home, report], capture_output=True, text=True, check=True
    )
    assert not {"numpy", "typer", "jsonschema", "asyncio"} & set(ran.stdout.split())
