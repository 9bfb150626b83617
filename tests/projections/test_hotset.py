"""The hotset: bounded at every event, the same however the log was cut."""

import pytest
from builders_journal import Journal
from checks_law import fold, holds_the_law
from hypothesis import example, given, settings, strategies as st

from memplane.event import encode
from memplane.projections.files import FILES
from memplane.projections.hotset import (
    BYTES_MAX,
    PLANE_RING,
    SESSION_RING,
    SESSIONS,
    TOOLS,
    Hotset,
)
from tests.examples import examples, sampled

FILE_BYTES_MAX = 512 * 1024


class Words:
    """A counter of words, so that these tests need no tables: additive over lines."""

    name = "words"

    def count(self, text: str) -> int:
        return sum(len(line.split()) or 1 for line in text.split("\n"))


PROJECTOR = Hotset(Words())

TEXT = st.one_of(
    st.text(max_size=40),
    st.integers(1, 900).map(lambda n: "word " * n),
    st.integers(1, 3000).map(lambda n: "\x01" * n),
)
ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            ["message", "tool_call", "tool_result", "decision", "fact", "task", "session", "forget"]
        ),
        "text": TEXT,
    },
    optional={
        "session": st.sampled_from([f"s{n}" for n in range(12)]),
        "role": st.sampled_from(["user", "assistant", "tool"]),
        "key": st.sampled_from(["a", "b"]),
        "ns": st.sampled_from(["/global", "/task/t"]),
        "task": st.sampled_from([f"t{n}" for n in range(30)]),
        "tags": st.lists(st.text(max_size=6), max_size=2).map(tuple),
        "markers": st.sampled_from([(), ("constraint",), ("goal", "failure")]),
        "refs": st.lists(st.integers(1, 9).map("e{}".format), max_size=2).map(tuple),
        "tokens": st.one_of(st.none(), st.integers(0, 2000)),
        "sensitivity": st.sampled_from(["normal", "high", "secret"]),
        "data": st.one_of(
            st.just({"forget": {"session": "s1"}}),
            st.just({"forget": {"session": "s1"}, "undo": True}),
            st.just({"forget": {"key": "a", "ns": "/global"}}),
            st.just({"forget": {"ids": ["e2", "e3"]}}),
            st.just({"forget": {"source": "e"}}),
            st.fixed_dictionaries(
                {
                    "tool": st.sampled_from([f"tool{n}" for n in range(20)]),
                    "status": st.sampled_from(["ok", "error", "start", "checkpoint", "done"]),
                    "path": st.sampled_from([f"src/{n}.py" for n in range(60)]),
                }
            ),
        ),
    },
)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(ROW, max_size=60))
def test_any_split_of_the_log_folds_to_the_same_bytes(rows):
    holds_the_law(PROJECTOR, Journal(rows).lines)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(ROW, max_size=40))
def test_who_reads_in_between_and_who_never_did_find_the_same(rows):
    lines = Journal(rows).lines
    read = PROJECTOR.initial()
    for line in lines:
        PROJECTOR.apply(read, line)
        assert set(read.items) == set(read.holds)
        PROJECTOR.finish(read)
    assert PROJECTOR.dump(read) == PROJECTOR.dump(fold(PROJECTOR, lines))


LONG = st.builds(
    lambda row, character, length: {**row, "text": character * length},
    ROW,
    st.sampled_from(["a", " ", "\x01", "\u00e9", "\ud7ff", "\U0001f600"]),
    st.integers(0, 4000),
)
EVERY_FIELD = {
    "kind": "custom:" + "k" * 40, "ns": "/task/t", "session": "s", "task": "t", "actor": "a",
    "role": "assistant", "key": "k", "tags": ("x",), "markers": ("constraint",),
    "sensitivity": "high", "importance": 0.12345678901234567,
    "valid_from": "2026-01-01T00:00:00.000000Z", "valid_until": "2027-01-01T00:00:00.000000Z",
    "data": {"tool": "tool", "call": "call", "status": "error", "path": "a.py"},
}  # fmt: skip


@settings(max_examples=examples(33), deadline=None)
@given(st.lists(st.one_of(ROW, LONG), max_size=12))
@example([{**EVERY_FIELD, "text": "\x01" * 2001}])
@example([{**EVERY_FIELD, "text": "\U0001f600" * 4000}])
@example([{**EVERY_FIELD, "text": "", "role": "user"}])
def test_an_item_is_never_counted_as_less_than_its_row(rows):
    state = fold(PROJECTOR, Journal(rows).lines)
    PROJECTOR.finish(state)
    for item in state.items.values():
        item.superseded = item.forgotten = True
        assert len(encode(item.fields()).encode(errors="surrogatepass")) <= item.size


def long_history(count: int, text: str) -> Journal:
    return Journal(
        {
            "kind": "message" if n % 3 else "tool_call",
            "role": "user" if n % 9 == 0 else "assistant",
            "session": f"s{n // 40 % 30}",
            "text": text,
            "data": {"tool": f"tool{n % 40}", "path": f"src/{n % 200}.py"},
            "tokens": len(text.split()),
        }
        for n in range(count)
    )


@pytest.mark.sized
def test_the_law_holds_where_every_bound_is_at_work():
    holds_the_law(PROJECTOR, long_history(600, "word " * 700).lines)


@pytest.mark.sized
@pytest.mark.parametrize(
    "text", sampled(["word " * 5000, "長い文" * 3000, '\x01\\"' * 4000, "x" * 50_000], 4), ids=len
)
def test_the_file_stays_within_its_bound_whatever_the_texts_are(text):
    state = fold(PROJECTOR, long_history(1200, text).lines)
    assert state.bytes <= BYTES_MAX, (len(state.items), len(state.tools))
    assert len(PROJECTOR.dump(state)) <= FILE_BYTES_MAX


def test_every_table_is_bounded_and_holds_the_newest():
    state = fold(PROJECTOR, long_history(4000, "short").lines)
    assert len(state.plane) == PLANE_RING
    assert state.plane[-1] == 4000
    assert len(state.sessions) == SESSIONS
    assert all(len(ring.ring) <= SESSION_RING for ring in state.sessions.values())
    assert len(state.files) <= SESSIONS + 1
    assert max(len(table.touches) for table in state.files.values()) == FILES
    assert len(state.tools) == TOOLS


def test_no_item_outlives_the_last_ring_or_table_that_holds_it():
    state = fold(PROJECTOR, long_history(3000, "short").lines)
    held = set(state.plane)
    for ring in state.sessions.values():
        held |= {turn.seq for turn in ring.ring} | set(ring.prompts) | set(ring.stated)
    tables = state.files.values()
    held |= {touch.seq for table in tables for touch in table.touches.values()}
    held |= {seq for seqs in state.tools.values() for seq in seqs if seq}
    assert set(state.items) == held


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=80))
def test_of_sessions_without_a_word_one_at_most_takes_the_place_of_one_with_words(told):
    rows = [
        {"kind": "session", "session": f"s{n}", "data": {"status": "start"}}
        if silent
        else {"kind": "message", "session": f"s{n}", "text": "word"}
        for n, silent in told
    ]
    state = fold(PROJECTOR, Journal(rows).lines)
    spoken = {n for n, silent in told if not silent}
    words = [ring for ring in state.sessions.values() if ring.count]
    assert len(words) >= min(len(spoken), SESSIONS - 1)


def test_a_later_value_marks_the_older_one_even_if_it_is_secret():
    lines = Journal(
        [
            {"kind": "fact", "key": "a", "text": "old"},
            {"kind": "fact", "key": "a", "text": "new", "sensitivity": "secret"},
        ]
    ).lines
    state = fold(PROJECTOR, lines)
    assert state.items[1].superseded
    assert 2 not in state.items


def test_forgetting_can_be_taken_back_and_acts_on_earlier_events_only():
    rows = [
        {"text": "one", "session": "s1"},
        {"kind": "forget", "data": {"forget": {"session": "s1"}}},
        {"text": "two", "session": "s1"},
    ]
    state = fold(PROJECTOR, Journal(rows).lines)
    assert state.items[1].forgotten
    assert not state.items[3].forgotten
    rows.append({"kind": "forget", "data": {"forget": {"session": "s1"}, "undo": True}})
    assert not fold(PROJECTOR, Journal(rows).lines).items[1].forgotten
