"""Bounds by what can hide an event: the law, and what a reader sees of every group that is open."""

from builders_journal import Journal
from checks_law import fold, holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.projections.files import AllFiles, Files
from memplane.projections.groups import GROUPS_MAX, VisibilityGroup, share_of
from memplane.projections.hotset import BYTES_MAX, STATED, STATED_BYTES, Hotset, Hotsets
from memplane.projections.ledger import Cards, Decisions, LedgersProjector
from memplane.projections.system_map import PlaneMap, PlaneMaps
from tests.examples import examples


class Words:
    name = "words"

    def count(self, text: str) -> int:
        return sum(len(line.split()) or 1 for line in text.split("\n"))


def projectors(only=None):
    return [
        Hotsets(Words(), only=only), LedgersProjector(Decisions, only=only),
        LedgersProjector(Cards, only=only), PlaneMaps(only=only), AllFiles(only=only),
    ]  # fmt: skip


AGENTS = [f"/agent/a{n}" for n in range(14)]
ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            ["message", "message", "tool_call", "tool_result", "decision", "fact", "task",
             "session", "forget", "pin", "secret"]
        ),
        "text": st.text(max_size=12),
        "ns": st.sampled_from(["/global", "/global", "/global", "/task/t", *AGENTS]),
        "sensitivity": st.sampled_from(["normal", "normal", "low", "high", "high", "secret"]),
    },
    optional={
        "session": st.sampled_from([f"s{n}" for n in range(10)]),
        "role": st.sampled_from(["user", "assistant", "tool"]),
        "key": st.sampled_from(["a", "b.c", "b.d"]),
        "tags": st.lists(st.sampled_from("xyz"), max_size=2).map(tuple),
        "markers": st.sampled_from([(), ("constraint",), ("goal", "failure")]),
        "refs": st.lists(st.integers(1, 9).map("e{}".format), max_size=2).map(tuple),
        "task": st.sampled_from(["t", "u"]),
        "data": st.one_of(
            st.just({"forget": {"session": "s1"}}),
            st.just({"forget": {"key": "a", "ns": "/global"}}),
            st.fixed_dictionaries(
                {
                    "tool": st.sampled_from([f"tool{n}" for n in range(20)]),
                    "status": st.sampled_from(["ok", "error", "checkpoint", "done"]),
                    "path": st.sampled_from([f"src/{n}.py" for n in range(40)]),
                    "branch": st.sampled_from(["main", "fix"]),
                }
            ),
        ),
    },
)  # fmt: skip


@settings(max_examples=examples(40))
@given(st.lists(ROW, max_size=60))
def test_any_split_of_the_log_folds_to_the_same_bytes(rows):
    lines = Journal(rows).lines
    for projector in projectors():
        holds_the_law(projector, lines)


@settings(max_examples=examples(40))
@given(rows=st.lists(ROW, max_size=80), who=st.sets(st.sampled_from(AGENTS), max_size=3))
def test_what_is_folded_alone_is_what_is_kept_where_all_is_kept(rows, who):
    def sees(high, space):
        return not high and (not space or space in who)

    lines = Journal(rows).lines
    for every, alone in zip(projectors(), projectors(sees), strict=True):
        kept, own = fold(every, lines), fold(alone, lines)
        for group, state in own.groups.items():
            if group in kept.groups and group not in kept.lost:
                part = every.part(group)
                assert part.fields(kept.groups[group]) == part.fields(state)
            else:
                assert group in kept.missing(sees, who)


TURN = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["message", "tool_call", "decision", "session"]),
        "text": st.integers(1, 30).map(lambda n: "word " * n),
        "session": st.sampled_from(["s1", "s2"]),
        "sensitivity": st.sampled_from(["normal", "high"]),
        "role": st.sampled_from(["user", "assistant"]),
        "markers": st.sampled_from([(), ("constraint",)]),
    }
)
PIN = st.fixed_dictionaries(
    {
        "kind": st.just("pin"),
        "refs": st.integers(1, 60).map(lambda n: (f"e{n}",)),
        "data": st.sampled_from([{}, {}, {"undo": True}]),
    }
)


def stated(state):
    return {
        ring.id: (ring.stated, ring.stated_bytes, ring.shed) for ring in state.sessions.values()
    }


def rings(state):
    return {
        ring.id: (
            ring.epoch, ring.marked, ring.seen, ring.count, ring.spent, ring.prompts, ring.ring,
            ring.partial,
        )
        for ring in state.sessions.values()
    }  # fmt: skip


@settings(max_examples=examples(20))
@given(st.lists(TURN | PIN, max_size=260), st.integers(1, 8))
def test_who_sees_all_groups_sees_what_one_fold_of_all_would_have(rows, times):
    lines = Journal(rows * times).lines[:600]
    apart = fold(Hotsets(Words()), lines).seen()
    whole = fold(Hotset(Words()), lines)
    assert apart.plane == whole.plane
    assert rings(apart) == rings(whole)
    if len(lines) <= STATED:  # two groups state more than one may
        assert stated(apart) == stated(whole)
    assert {seq: apart.items[seq].text for seq in apart.plane} == {
        seq: whole.items[seq].text for seq in whole.plane
    }


def test_at_most_twelve_groups_are_kept_and_the_one_longest_silent_goes():
    spaces = [f"/agent/a{n}" for n in range(20)]
    rows = [{"text": "first"}, *({"text": "word", "ns": ns} for ns in spaces)]
    state = fold(Hotsets(Words()), Journal(rows).lines)
    assert len(state.groups) == GROUPS_MAX
    assert VisibilityGroup(False, "") in state.groups
    assert state.groups.keys() - {(False, "")} == {(False, ns) for ns in spaces[-11:]}
    assert state.lost.keys() == {(False, ns) for ns in spaces[:-11]}
    again = fold(Hotsets(Words()), Journal([*rows, {"text": "back", "ns": spaces[0]}]).lines)
    assert (False, spaces[0]) in again.groups
    assert (False, spaces[0]) in again.missing(lambda _, space: space == spaces[0], ())


def test_names_of_lost_groups_are_bounded_and_who_asks_for_an_unnamed_one_is_told():
    rows = [{"text": "word", "ns": f"/agent/a{n}"} for n in range(400)]
    projector = Hotsets(Words())
    state = fold(projector, Journal(rows).lines)
    assert len(state.lost) <= 256
    assert state.shed
    assert state.missing(lambda high, space: not high and space == "/agent/a3", ["/agent/a3"])
    holds_the_law(projector, Journal(rows).lines)


def test_the_usual_group_keeps_all_that_a_fold_of_its_own_would_whatever_hides_beside_it():
    usual = [{"text": "word " * 300, "session": f"s{n // 60}", "tokens": 300} for n in range(400)]
    bare = fold(Hotset(Words()), Journal(usual).lines)
    hidden = [
        {**row, "sensitivity": "high", "ns": f"/agent/a{n % 14}"} for n, row in enumerate(usual)
    ]
    state = fold(Hotsets(Words()), Journal([*usual, *hidden]).lines)
    assert state.groups[VisibilityGroup(False, "")].plane == bare.plane
    for group, one in state.groups.items():
        assert one.bytes <= share_of(group, BYTES_MAX)


def test_what_others_state_in_a_session_takes_no_place_of_what_is_open():
    own = {"session": "s", "role": "user", "markers": ("constraint",)}
    opened = [{**own, "text": f"open {n}"} for n in range(100)]
    closed = [
        {**own, "text": f"closed {n}", **hide}
        for n in range(300)
        for hide in ({"sensitivity": "high"}, {"ns": "/agent/a1"})
    ]
    pin = [{"kind": "pin", "refs": ("e3",)}]
    rows = [*opened[:50], *closed, *opened[50:], *pin]
    state = fold(Hotsets(Words()), Journal(rows).lines)
    for group, one in state.groups.items():
        ring = one.sessions["s"]
        assert 0 < len(ring.stated) <= (100 if group == (False, "") else STATED)
        assert ring.stated_bytes <= min(STATED_BYTES, share_of(group, BYTES_MAX) // 3)
        assert bool(ring.shed) == (group != (False, ""))
    visible = state.seen(lambda high, space: not high and not space).sessions["s"]
    assert len(visible.stated) == 100
    assert [seq for seq in visible.stated if visible.stated[seq]] == [3]
    every = state.seen().sessions["s"]
    assert visible.stated.items() <= every.stated.items()
    assert every.stated_bytes == sum(state.find(seq).size for seq in every.stated)


def test_an_epoch_that_a_reader_sees_ends_what_was_stated_in_each_group():
    own = {"session": "s", "kind": "rule"}
    start = {"session": "s", "kind": "session", "data": {"status": "start"}}
    rows = [
        {**own, "text": "open"}, {**own, "text": "closed", "sensitivity": "high"},
        {**start, "sensitivity": "high"}, {**own, "text": "later", "sensitivity": "high"},
    ]  # fmt: skip
    state = fold(Hotsets(Words()), Journal(rows).lines)
    assert list(state.seen().sessions["s"].stated) == [4]
    assert list(state.seen(lambda high, _: not high).sessions["s"].stated) == [1]


def test_tags_of_a_session_are_those_of_the_groups_that_a_reader_sees():
    rows = [
        {"text": "open", "session": "s", "tags": ("a", "b")},
        *({"text": "x", "session": "s", "tags": (f"h{n}",), "ns": "/agent/a"} for n in range(9)),
        {"text": "open", "session": "s", "tags": ("a",)}, {"text": "t", "session": "t"},
    ]  # fmt: skip
    state = fold(Hotsets(Words()), Journal(rows).lines)
    assert state.seen(lambda _, space: not space).topics == {"s": {"b": 1, "a": 2}}
    assert list(state.seen().topics["s"]) == [*(f"h{n}" for n in range(3, 9)), "b", "a"]


def test_a_plane_with_one_group_costs_what_its_fold_costs():
    rows = [
        {"text": f"turn {n}", "session": "s", "role": "user", "kind": "message",
         "data": {"path": f"src/{n}.py"}}
        for n in range(300)
    ]  # fmt: skip
    lines = Journal(rows).lines
    for every, alone in ((Hotsets(Words()), Hotset(Words())), (PlaneMaps(), PlaneMap()),
                         (AllFiles(), Files()), (LedgersProjector(Decisions), Decisions())):  # fmt: skip
        state, one = fold(every, lines), fold(alone, lines)
        assert 0 <= len(every.dump(state)) - len(alone.dump(one)) <= 80
        if state.groups:
            assert alone.dump(state.groups[VisibilityGroup(False, "")]) == alone.dump(one)
