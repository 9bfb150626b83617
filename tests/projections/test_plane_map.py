"""The map: names and counts as of any seq, within bounds, told to who may see a witness."""

from builders_journal import FORGETS, HISTORIES, ROWS, Journal
from checks_law import fold, holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.projections.system_map import SORTS, PlaneMap
from tests.examples import examples

NAMED = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["tool_call", "task", "fact", "message"]),
        "ns": st.sampled_from(["/global", "/agent/a", "/task/a", "/spec/x", "/spec/y"]),
        "session": st.sampled_from(["s1", "s2", "s3"]),
    },
    optional={
        "key": st.sampled_from(["db.engine", "ui"]),
        "tags": st.lists(st.sampled_from("abcdef"), max_size=2).map(tuple),
        "task": st.sampled_from(["a", "b", "c"]),
        "sensitivity": st.sampled_from(["low", "high", "secret"]),
        "data": st.sampled_from(
            [{"tool": "Bash"}, {"tool": "Read", "status": "done"}, {"status": "open"}]
        ),
        "valid_until": st.just("2026-02-01T00:00:00.000000Z"),
    },
)
MIXED = st.lists(st.one_of(NAMED, NAMED, NAMED, FORGETS, ROWS), max_size=40)


def folded(rows, projector=None):
    return fold(projector or PlaneMap(), Journal(rows).lines)


def told(state, sort, upto=2**63):
    """The names of a sort as of a seq, whoever asks."""
    return [
        name
        for name, one in state.names[sort].items()
        if any(
            cell.first <= upto and any(not w.forgotten for w in cell.witnesses)
            for cell in one.cells.values()
        )
        and (sort != "tasks" or one.is_open(upto))
    ]


@settings(max_examples=examples(40), deadline=None)
@given(st.one_of(MIXED, HISTORIES), st.integers(1, 4), st.sampled_from([900, 3000, 500_000]))
def test_any_split_of_any_history_folds_to_the_same_bytes_whatever_the_bounds(rows, most, size):
    holds_the_law(PlaneMap(names_max=most, bytes_max=size), Journal(rows).lines)


@settings(max_examples=examples(40), deadline=None)
@given(MIXED, st.integers(0, 40))
def test_what_was_told_as_of_a_seq_stays_the_same_until_something_is_corrected(rows, at):
    """Nothing that is added later changes what the map said before it."""
    lines = Journal(rows).lines
    early, rest = lines[:at], lines[at:]
    before = fold(PlaneMap(), early)
    corrects = any(one.event.kind == "forget" or one.event.key is not None for one in rest)
    after = fold(PlaneMap(), rest, fold(PlaneMap(), early))
    assert after.session_count(at) == before.session_count(at)
    for kind in ("fact", "message", "tool_call"):
        assert after.count(kind, frozenset(), at) == before.count(kind, frozenset(), at)
    if not corrects and after.shed_seq == before.shed_seq:
        for sort in SORTS:
            assert told(after, sort, at) == told(before, sort, at)


@settings(max_examples=examples(26), deadline=None)
@given(MIXED, st.integers(1, 5), st.sampled_from([900, 2000, 4000]))
def test_the_bounds_hold_after_every_event(rows, most, size):
    projector = PlaneMap(names_max=most, bytes_max=size)
    state = projector.initial()
    for line in Journal(rows).lines:
        projector.apply(state, line)
        for names in state.names.values():
            assert len(names) <= most + 1  # /global is never given up
        assert len(projector.dump(state)) <= size + 2500


@settings(max_examples=examples(26), deadline=None)
@given(MIXED)
def test_no_witness_is_superseded_forgotten_or_secret(rows):
    from memplane.projections.memories import Memories

    journal = Journal(rows)
    memories = Memories(journal, None, plane="plane")
    memories.catch_up()
    by_seq = {line.event.seq: line.event for line in journal.lines}
    state = folded(rows)
    for names in state.names.values():
        for one in names.values():
            for cell in one.cells.values():
                for witness in cell.witnesses:
                    event = by_seq[witness.seq]
                    assert event.sensitivity != "secret"
                    if not witness.forgotten:
                        assert memories.archived(event) is None


def test_counts_are_told_in_steps_and_as_of_any_seq():
    state = folded([{"kind": "fact"}] * 57)
    assert [state.count("fact", frozenset(), n) for n in (0, 1, 2, 3, 4, 5, 9, 10, 29, 57)] == [
        0, 1, 2, 3, 3, 5, 5, 10, 20, 50,
    ]  # fmt: skip


def test_an_agents_own_events_are_in_no_count():
    state = folded([{"kind": "fact", "ns": "/agent/a", "session": "s"}] * 5)
    assert state.count("fact", frozenset(), 9) == 0
    assert state.session_count(9) == 0


def test_a_closed_task_is_open_before_it_was_closed_and_not_after():
    state = folded(
        [
            {"kind": "task", "task": "t", "ns": "/task/t", "data": {"status": "open"}},
            {"kind": "message"},
            {"kind": "task", "task": "t", "ns": "/task/t", "data": {"status": "done"}},
            {"kind": "message"},
            {"kind": "task", "task": "t", "ns": "/task/t", "data": {"status": "active"}},
        ]
    )
    assert [told(state, "tasks", n) for n in range(1, 6)] == [["t"], ["t"], [], [], ["t"]]


def test_a_task_that_a_hidden_event_closed_is_closed():
    state = folded(
        [
            {"kind": "task", "task": "t", "ns": "/task/t"},
            {
                "kind": "task", "task": "t", "ns": "/task/t", "sensitivity": "secret",
                "data": {"status": "done"},
            },
        ]
    )  # fmt: skip
    assert told(state, "tasks") == []


def test_a_name_that_only_forgotten_events_said_is_told_no_more_until_it_is_said_again():
    said = {"kind": "fact", "ns": "/spec/x", "session": "s"}
    forget = {"kind": "forget", "data": {"forget": {"session": "s"}}}
    undo = {"kind": "forget", "data": {"forget": {"session": "s"}, "undo": True}}
    assert told(folded([said, forget]), "namespaces") == []
    assert told(folded([said, forget, undo]), "namespaces") == ["/spec/x"]
    again = folded([said, forget, {**said, "session": "t"}])
    assert told(again, "namespaces") == ["/spec/x"]
    assert told(again, "namespaces", 2) == []  # not among what was known before
    assert told(folded([said, {**said, "session": "t"}, forget]), "namespaces") == ["/spec/x"]


def test_a_name_goes_with_the_value_that_a_secret_one_replaced():
    old = {"kind": "fact", "ns": "/spec/x", "key": "ui.colour"}
    state = folded([old, {**old, "sensitivity": "secret"}])
    assert told(state, "keys") == []
    assert told(folded([old, old]), "keys", 1) == ["ui"]


def test_a_name_takes_the_place_of_the_one_said_longest_ago_when_it_is_said_the_third_time():
    tags = ["a", "b", "a", "c", "d", "c"]
    rows = [{"kind": "message", "tags": (tag,)} for tag in tags]
    waiting = folded(rows, PlaneMap(names_max=2))
    assert told(waiting, "tags") == ["a", "b"]
    assert waiting.shed_seq == 0
    state = folded([*rows, rows[3]], PlaneMap(names_max=2))
    assert told(state, "tags") == ["a", "c"]
    assert state.shed_seq == 7


def test_tags_that_importers_and_hooks_give_are_no_names_of_the_map():
    rows = [
        {"kind": "message", "tags": ("queued", "harbour")},
        {"kind": "decision", "tags": ("pick", "option"), "data": {"derived": True}},
        {"kind": "decision", "tags": ("pick",)},
        {"kind": "summary", "tags": ("compact",)},
    ]
    assert told(folded([*rows, *rows]), "tags") == ["harbour", "pick"]


def test_names_that_occur_once_never_move_a_full_map():
    rows = [{"kind": "message", "tags": (f"t{n}",)} for n in range(500)]
    state = folded(rows)
    assert told(state, "tags") == [f"t{n}" for n in range(SORTS["tags"])]
    assert state.shed_seq == 0


def test_of_tasks_a_closed_one_goes_before_an_open_one_that_was_said_earlier():
    def task(name, status):
        return {"kind": "task", "task": name, "ns": f"/task/{name}", "data": {"status": status}}

    rows = [task("a", "open"), task("b", "open"), task("b", "done"), task("c", "open")]
    assert told(folded(rows, PlaneMap(names_max=2)), "tasks") == ["a", "c"]
