"""Forgetting and purging by tag, age and reason: said first, and what lasts stays."""

from datetime import timedelta

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import InputError
from tests.examples import examples

NOW = "2026-06-01T00:00:00Z"


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        for seq, (text, kind, tags, ts) in enumerate(
            [
                ("old chatter", "message", ("spike",), "2026-01-01T00:00:00Z"),
                ("old output", "tool_result", (), "2026-01-01T00:00:00Z"),
                ("old decision", "decision", ("spike",), "2026-01-01T00:00:00Z"),
                ("old rule", "rule", (), "2026-01-01T00:00:00Z"),
                ("old pinned fact", "fact", ("Spike",), "2026-01-01T00:00:00Z"),
                ("new chatter", "message", ("spike",), "2026-05-31T00:00:00Z"),
                ("new fact", "fact", (), "2026-05-31T00:00:00Z"),
            ],
            2,
        ):
            plane.record(text, kind=kind, tags=list(tags), ts=ts, id=f"e{seq}")
        plane.pin("e6")
        yield plane


def taken(done):
    return [event.id for event in done.taken]


def test_a_dry_run_says_what_a_tag_takes_and_writes_nothing(plane):
    head = plane.head()
    done = plane.work.forget_many(tag="SPIKE", dry_run=True)
    assert (taken(done), done.kept, done.receipts) == (["e2", "e7"], 2, ())
    assert plane.head() == head


def test_what_a_tag_or_an_age_takes_is_archived_and_can_be_taken_back(plane):
    done = plane.work.forget_many(tag="spike", older_than="30d", reason="over", now=NOW)
    assert taken(done) == ["e2"]
    assert plane.work.standing(plane.event("e2")).reason == "forgotten"
    assert plane.event(done.receipts[0].seq).text == "over"
    assert taken(plane.work.forget_many(older_than=timedelta(days=30), now=NOW)) == ["e3"]
    plane.unforget(id="e2")
    assert taken(plane.work.forget_many(tag=["spike", "other"])) == ["e2", "e7"]
    assert not plane.work.forget_many(tag="spike").taken


def test_decisions_rules_constraints_and_pins_stay_unless_they_are_asked_for(plane):
    assert taken(
        plane.work.forget_many(older_than="30d", kind="decision", now=NOW, dry_run=True)
    ) == ["e4"]
    every = plane.work.forget_many(older_than="30d", decisions=True, now=NOW)
    assert (taken(every), every.kept) == (["e2", "e3", "e4", "e5", "e6"], 0)


def test_words_name_what_has_every_one_of_them_in_its_whole_text(plane):
    assert taken(plane.work.forget_many(query="old CHATTER", dry_run=True)) == ["e2"]
    assert taken(plane.work.forget_many(query="chatter", dry_run=True)) == ["e2", "e7"]
    assert taken(plane.work.forget_many(query="chat", dry_run=True)) == []
    done = plane.work.forget_many(query="old", dry_run=True)
    assert (taken(done), done.kept) == (["e2", "e3"], 3)
    plane.record("x " * 40_000 + "at the very end", id="long")
    assert taken(plane.work.forget_many(query="very end", dry_run=True)) == ["long"]


def test_ids_name_each_of_them_and_no_other_with_one_write(plane):
    rows = [plane.record(f"Heron {number}", role="user") for number in range(5)]
    head = plane.head().seq
    done = plane.work.forget_many(ids=[rows[1].id, rows[3].id, "never"], reason="seen")
    assert [event.id for event in done.taken] == [rows[1].id, rows[3].id]
    assert plane.head().seq == head + 1
    archived = [plane.work.archived(row.event) is not None for row in rows]
    assert archived == [False, True, False, True, False]
    with pytest.raises(memplane.InputError):
        plane.work.forget_many(kind="message")


def test_a_time_or_an_age_names_what_happened_since(plane):
    since = {"since": "2026-05-01T00:00:00Z"}
    assert taken(plane.work.forget_many(**since, dry_run=True)) == ["e7", "e8"]
    assert taken(plane.work.forget_many(**since, query="fact", dry_run=True)) == ["e8"]
    assert taken(plane.work.forget_many(since="2d", now=NOW, dry_run=True)) == ["e7", "e8"]
    assert taken(plane.work.forget_many(since="2d", older_than="3d", now=NOW, dry_run=True)) == []


WORDS = st.lists(st.sampled_from(["heron", "Lake", "may", "İ", "1"]), min_size=1, max_size=4)


@settings(max_examples=examples(12))
@given(texts=st.lists(WORDS, min_size=1, max_size=4), asked=WORDS)
def test_undo_always_brings_back_all_that_words_took(tmp_path_factory, texts, asked):
    with memplane.init(tmp_path_factory.mktemp("u") / "p", trusted=False) as plane:
        for number, words in enumerate(texts):
            plane.record(", ".join(words), kind="fact", id=f"e{number}")
        found = [
            f"e{number}"
            for number, words in enumerate(texts)
            if {one.casefold() for one in asked} <= {one.casefold() for one in words}
        ]
        assert taken(plane.work.forget_many(query=" ".join(asked))) == found
        gone = [plane.work.archived(plane.event(f"e{n}")) is not None for n in range(len(texts))]
        assert gone == [f"e{n}" in found for n in range(len(texts))]
        if found:
            plane.work.undo()
        assert not any(plane.work.archived(plane.event(f"e{n}")) for n in range(len(texts)))


def test_more_than_one_forget_can_hold_is_taken_back_whole(plane):
    plane.record_many([{"text": f"gull {n}", "id": f"g{n}"} for n in range(450)])
    done = plane.work.forget_many(query="gull", reason="noise")
    assert (len(done.taken), len(done.receipts)) == (450, 3)
    plane.work.undo()
    assert not [n for n in range(450) if plane.work.archived(plane.event(f"g{n}"))]


def test_a_summary_that_quotes_what_is_forgotten_goes_with_it(tmp_path):
    with memplane.init(tmp_path / "s", trusted=False) as plane:
        plane.work.sessions.start("s1")
        for number in range(4):
            plane.record(f"We saw heron {number}", kind="fact", tags=["birds"], session="s1")
        plane.record("Keep PostgreSQL", kind="decision", session="s1")
        plane.work.sessions.end("s1")
        (summary,) = list(plane.events(kind="summary"))
        plane.work.forget_many(kind="decision", older_than="0s", now="2099-01-01T00:00:00Z")
        assert plane.work.standing(summary).reason == "forgotten"


def test_a_purge_by_tag_and_age_erases_what_lasts_only_if_asked(plane):
    dry = plane.upkeep.purge(tag="spike", older_than="30d", now=NOW, dry_run=True)
    assert ([id_ for _, id_ in dry.events], dry.kept) == (["e2"], 2)
    plane.upkeep.purge(tag="spike", older_than="30d", now=NOW)
    with pytest.raises(memplane.NotFoundError, match="was purged"):
        plane.event("e2")
    assert plane.event("e4").text == "old decision"
    plane.upkeep.purge(older_than="30d", now=NOW, decisions=True)
    assert {one.id for one in plane.events() if one.kind in ("message", "fact")} == {"e7", "e8"}
    assert plane.upkeep.verify(deep=True).ok


def test_a_purge_of_what_is_archived_can_be_narrowed_by_reason_tag_and_age(plane):
    plane.forget(id="e2", reason="user asked")
    plane.forget(id="e7", reason="outdated")
    plane.forget(id="e3", reason="outdated")

    def named(**asked):
        return [id_ for _, id_ in plane.upkeep.purge(**asked, now=NOW, dry_run=True).events]

    assert named(archived=["forgotten:outdated"]) == ["e3", "e7"]
    assert named(archived=["forgotten:outdated"], older_than="30d") == ["e3"]
    assert named(archived=["forgotten"], tag="spike") == ["e2", "e7"]
    assert named(archived=["forgotten"], kind="tool_result") == ["e3"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "expected a tag, words, a time or a project, found none"),
        ({"kind": "fact"}, "expected a tag, words, a time or a project, found none"),
        ({"ns": "/global"}, "expected a tag, words, a time or a project, found none"),
        ({"query": "?!"}, "query: expected words, found '\\?!'"),
        ({"since": "lately"}, "since: "),
        ({"tag": "x", "ns": "/global", "project": "/project/a"}, "ns: expected one of ns and"),
        ({"older_than": "soon"}, "expected a number and s, m, h, d or w"),
        ({"older_than": -timedelta(days=1)}, "expected an age"),
        ({"older_than": "999999w"}, "longer than time goes back"),
        ({"tag": "x", "kind": "purge"}, "expected a kind of events, found 'purge'"),
        ({"tag": "x", "kind": "facts"}, "expected a kind of events, found 'facts'"),
        ({"tag": "x", "ns": "nowhere"}, "ns: "),
    ],
)
def test_what_describes_nothing_is_refused(plane, given, said):
    head = plane.head()
    with pytest.raises(InputError, match=said):
        plane.work.forget_many(**given)
    assert plane.head() == head


def test_a_purge_is_named_or_described_and_not_both(plane):
    for what in ({"key": "x", "tag": "spike"}, {"session": "s", "older_than": "1d"}):
        with pytest.raises(InputError, match="expected exactly one of id, key, session and source"):
            plane.upkeep.purge(**what, dry_run=True)
