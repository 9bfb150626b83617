"""The ledgers: what is in force, within bounds."""

import json

import pytest
from builders_journal import HISTORIES, Journal
from checks_law import fold, holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.projections.ledger import Cards, Decisions
from memplane.projections.memories import Memories
from tests.examples import examples


def decision(text="", **fields):
    return {"kind": "decision", "text": text, **fields}


def forget(undo=False, **named):
    return {"kind": "forget", "data": {"forget": named, **({"undo": True} if undo else {})}}


def folded(rows, projector=None):
    return fold(projector or Decisions(), Journal(rows).lines)


def active(rows, projector=None):
    return [one.event.text for one in folded(rows, projector).active()]


@settings(max_examples=examples(20), deadline=None)
@given(HISTORIES, st.integers(1, 6), st.sampled_from([700, 2000, 500_000]))
def test_any_split_of_any_history_folds_to_the_same_bytes_whatever_the_bounds(rows, kept, size):
    lines = Journal(rows).lines
    holds_the_law(Decisions(kept_max=kept, bytes_max=size), lines)
    holds_the_law(Cards(kept_max=kept, bytes_max=size), lines)


@settings(max_examples=examples(20), deadline=None)
@given(HISTORIES, st.integers(1, 4), st.sampled_from([700, 2000]))
def test_the_bounds_hold_after_every_event(rows, kept, size):
    projector = Decisions(kept_max=kept, bytes_max=size)
    state = projector.initial()
    for line in Journal(rows).lines:
        projector.apply(state, line)
        dumped = projector.dump(state)
        assert len(dumped) <= size + len(b'{"items":[]}')
        flags = [
            (row[-1], row[17] or "constraint" in row[12]) for row in json.loads(dumped)["items"]
        ]
        for rank in ((1, True), (1, False)):
            assert flags.count(rank) <= kept
        assert flags.count((0, True)) <= kept
        assert flags.count((0, False)) <= kept


@settings(max_examples=examples(26), deadline=None)
@given(HISTORIES)
def test_ledger_and_memories_always_agree_on_what_is_in_force(rows):
    journal = Journal(rows)
    memories = Memories(journal, None, plane="plane")
    memories.catch_up()
    state = folded(rows)
    mine = {one.seq: one.pinned_at for one in state.active()}
    for line in journal.lines:
        event = line.event
        if event.kind == "decision" and event.sensitivity != "secret":
            assert (event.seq in mine) == (memories.archived(event) is None)
            if event.key is not None and event.seq in mine:
                row = memories.current(event.ns, event.key)
                assert (row.seq, row.pinned) == (event.seq, mine[event.seq] > 0)


def test_a_later_event_of_any_kind_with_the_key_supersedes_and_enters_only_if_it_is_a_decision():
    assert active([decision("old", key="k"), decision("new", key="k")]) == ["new"]
    assert active([decision("old", key="k"), {"kind": "message", "key": "k"}]) == []
    assert active([decision("here", key="k"), decision("there", key="k", ns="/task/a")]) == [
        "here",
        "there",
    ]


@pytest.mark.parametrize(
    "kind", ["forget", "pin", "touch", "purge", "repair", "segment", "session"]
)
def test_upkeep_and_sessions_supersede_nothing(kind):
    assert active([decision("kept", key="k"), {"kind": kind, "key": "k"}]) == ["kept"]


def test_a_decision_without_a_key_is_filed_under_its_number_and_nothing_supersedes_it():
    rows = [decision("one"), decision("two"), decision("three", key="#1")]
    state = folded(rows)
    assert [(one.key, one.event.text) for one in state.active()] == [
        (None, "one"),
        (None, "two"),
        ("#1", "three"),
    ]
    assert [row[6] for row in Decisions().fields(state)["items"]] == ["#1", "#2", "#1"]


@pytest.mark.parametrize(
    "named",
    [
        {"key": "k"},
        {"key": "k", "ns": "/global"},
        {"ids": ["cc:7:0"]},
        {"session": "s"},
        {"source": "cc"},
        {"source": "cc:7"},
    ],
)
def test_each_form_of_forget_hides_and_its_undo_brings_back_in_log_order(named):
    rows = [decision("a"), decision("b", key="k", id="cc:7:0", session="s"), decision("c")]
    assert active([*rows, forget(**named)]) == ["a", "c"]
    assert active([*rows, forget(**named), forget(undo=True, **named)]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "named",
    [
        {"key": "k", "ns": "/task/a"},
        {"ids": ["cc"]},
        {"session": "S"},
        {"source": "c"},
        {"source": "cc:7:0"},
    ],
)
def test_a_forget_that_names_something_else_hides_nothing(named):
    assert active([decision("b", key="k", id="cc:7:0", session="s"), forget(**named)]) == ["b"]


def test_a_forget_acts_on_what_was_there_and_not_on_what_comes_later():
    assert active([forget(session="s"), decision("later", session="s")]) == ["later"]
    assert active([decision("old", key="k"), forget(key="k"), decision("new", key="k")]) == ["new"]


def test_a_decision_superseded_while_forgotten_never_comes_back():
    rows = [decision("old", key="k", id="x:1"), forget(ids=["x:1"]), decision("new", key="k")]
    assert active([*rows, forget(undo=True, ids=["x:1"])]) == ["new"]
    assert active([*rows, forget(key="k"), forget(undo=True, ids=["x:1"])]) == []


def test_the_last_forget_or_undo_that_names_a_decision_holds():
    rows = [
        decision("a", session="s", id="x:1"),
        forget(session="s"),
        forget(undo=True, ids=["x:1"]),
    ]
    assert active(rows) == ["a"]
    assert active([*rows, forget(source="x")]) == []


def test_pins_and_constraints_outlive_newer_plain_decisions_and_an_unpinned_one_does_not():
    rows = [
        decision("pinned", id="p"),
        {"kind": "pin", "refs": ("p",)},
        decision("rule", markers=("constraint",)),
    ]
    rows += [decision(str(n)) for n in range(150)]
    assert active(rows) == ["pinned", "rule", *map(str, range(50, 150))]
    assert active([*rows, {"kind": "pin", "refs": ("p",), "data": {"undo": True}}])[0] == "rule"


def test_beyond_a_hundred_protected_the_oldest_unpinned_go_before_the_pinned():
    rows = [decision("p", id="p"), {"kind": "pin", "refs": ("p",)}]
    rows += [decision(f"c{n}", markers=("constraint",)) for n in range(120)]
    assert active(rows) == ["p", *[f"c{n}" for n in range(21, 120)]]


def test_of_more_than_a_hundred_pinned_the_oldest_go():
    rows = [
        row
        for n in range(120)
        for row in (decision(str(n), id=f"p{n}"), {"kind": "pin", "refs": (f"p{n}",)})
    ]
    assert active(rows) == [str(n) for n in range(20, 120)]


@pytest.mark.sized
def test_five_thousand_long_decisions_stay_within_half_a_mebibyte():
    rows = [
        decision(
            "\x01" * 5000,
            data={"rationale": "é" * 3000},
            tags=("t" * 64,) * 32,
            markers=("constraint",) if n % 3 else (),
        )
        for n in range(5000)
    ]
    state = folded(rows)
    assert len(Decisions().dump(state)) <= 512 * 1024 - 4096 + 16
    assert state.active()[-1].seq == 5000
    assert not state.active()[-1].whole
    last = state.active()[-1].event
    assert (len(last.text), len(last.data["rationale"])) == (4000, 1000)


def test_five_thousand_short_decisions_keep_the_newest_hundred():
    state = folded([decision(str(n), key=f"k{n}") for n in range(5000)])
    assert [one.event.text for one in state.active()] == [str(n) for n in range(4900, 5000)]


def left(rows, projector=None):
    return [one.key for one in folded(rows, projector).left_in_force()]


def keyed(count):
    return [decision("long " * 50, key=f"k{n}", id=f"x:{n}", session=f"s{n}") for n in range(count)]


@settings(max_examples=examples(26), deadline=None)
@given(HISTORIES, st.integers(1, 3))
def test_what_is_kept_and_what_left_are_all_that_is_in_force(rows, kept):
    journal = Journal(rows)
    memories = Memories(journal, None, plane="plane")
    memories.catch_up()
    state = folded(rows, Decisions(kept_max=kept))
    found = [one.seq for one in (*state.left_in_force(), *state.active())]
    decisions = (line.event for line in journal.lines if line.event.kind == "decision")
    assert sorted(found) == [
        event.seq
        for event in decisions
        if event.sensitivity != "secret" and memories.archived(event) is None
    ]
    assert not state.more


def test_of_what_left_the_last_two_hundred_are_known_without_their_texts_and_that_there_were_more():
    state = folded(keyed(300))
    assert [one.key for one in state.left_in_force()] == [f"k{n}" for n in range(200)]
    assert {one.event.text for one in state.left_in_force()} == {""}
    assert not state.more
    state = folded(keyed(303))
    assert [one.key for one in state.left_in_force()] == [f"k{n}" for n in range(3, 203)]
    assert state.more


@pytest.mark.parametrize(
    "later",
    [
        decision("new", key="k0"),
        {"kind": "fact", "text": "new", "key": "k0"},
        decision("hush", key="k0", sensitivity="secret"),
        forget(key="k0"),
        forget(ids=["x:0"]),
        forget(session="s0"),
        forget(source="x"),
    ],
)
def test_what_left_counts_no_longer_once_it_is_replaced_or_forgotten(later):
    few = Decisions(kept_max=2)
    assert left(keyed(4), few) == ["k0", "k1"]
    assert "k0" not in left([*keyed(4), later], few)


def test_what_left_and_was_forgotten_counts_again_when_that_is_taken_back():
    few = Decisions(kept_max=2)
    named = {"ids": ["x:0"]}
    rows = [*keyed(4), forget(**named)]
    assert left(rows, few) == ["k1"]
    assert left([*rows, forget(undo=True, **named)], few) == ["k0", "k1"]


def test_what_left_takes_no_bytes_from_what_is_kept():
    projector = Decisions(bytes_max=60_000)
    state = folded(keyed(600), projector)
    assert len(state.active()) == 100
    assert len(projector.dump(state)) <= 60_000
    assert 0 < len(state.left_in_force()) < 200
    assert state.more


def test_a_text_that_spilled_into_a_body_is_not_whole():
    short, spilled = folded(
        [decision("short"), decision("begin", data={"body": {"sha256": "", "bytes": 9}})]
    ).active()
    assert (short.whole, spilled.whole) == (True, False)


def test_a_secret_decision_supersedes_and_is_not_kept():
    assert active([decision("old", key="k"), decision("hush", key="k", sensitivity="secret")]) == []


def test_cards_and_observations_are_those_of_the_plane_as_a_whole():
    kinds = ["preference", "rule", "insight", "fact", "decision", "observation"]
    rows = [{"kind": kind, "text": kind} for kind in kinds] + [
        {"kind": "fact", "ns": "/task/a", "text": "local"}
    ]
    assert active(rows, Cards()) == ["preference", "rule", "insight", "fact", "observation"]


def test_short_observations_have_bounds_of_their_own_and_go_first():
    rows = [{"kind": "fact", "text": f"fact {n}"} for n in range(3)]
    rows += [{"kind": "observation", "text": f"seen {n}"} for n in range(5)]
    rows += [{"kind": "observation", "text": "x" * 601}]
    kept = active(rows, Cards(kept_max=3))
    assert kept == ["fact 0", "fact 1", "fact 2", "seen 2", "seen 3", "seen 4"]
    # What no block has shown is not told as shed; one that recurs may have been.
    assert folded(rows, Cards(kept_max=3)).shed_seq == 0
    again = [*rows[:3], *({"kind": "observation", "text": "same"} for _ in range(4))]
    assert folded(again, Cards(kept_max=3)).shed_seq == 4
