"""What a search may not see is what `Scope` says, event by event, whatever the log says of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

import memplane
from memplane.errors import MemplaneError
from memplane.plane.folds import items_of_event
from memplane.policy import ChannelRule
from memplane.recall.suppress import Scope

SPACES = ("/global", "/task/a", "/task/b", "/spec/x", "/spec/y", "/agent/ann", "/agent/bob")
TIMES = tuple(f"2026-01-0{day}T12:00:00.000000Z" for day in range(1, 8))
LEVELS = ("low", "normal", "high", "secret")
KINDS = ("message", "tool_result", "fact", "decision", "preference", "artifact", "task", "summary")

EVENTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "text": st.sampled_from(("herons", "the herons nest. " * 200, "", "cranes")),
        "ts": st.sampled_from(TIMES),
        "ns": st.one_of(st.just("/global"), st.sampled_from(SPACES)),
    },
    optional={
        "key": st.sampled_from(("k1", "k2")),
        "session": st.sampled_from(("s1", "s2")),
        "sensitivity": st.sampled_from(LEVELS),
        "id": st.builds("{}:{}:{}".format, st.sampled_from(("cc", "git")), st.integers(1, 99), st.integers(0, 2)),
        "valid_from": st.sampled_from(TIMES),
        "valid_until": st.sampled_from(TIMES),
        "tags": st.just(["storage"]),
        "role": st.sampled_from(("user", "assistant")),
        "actor": st.sampled_from(("Ann", "Bob")),
    },
)  # fmt: skip
FORGETS = st.fixed_dictionaries(
    {
        "forget": st.one_of(
            st.fixed_dictionaries({"key": st.sampled_from(("k1", "k2")), "ns": st.just("/global")}),
            st.fixed_dictionaries({"session": st.sampled_from(("s1", "s2"))}),
            st.fixed_dictionaries({"source": st.sampled_from(("cc", "git", "cc:1", "git:12"))}),
            st.fixed_dictionaries({"number": st.integers(0, 40)}),
        ),
        "undo": st.booleans(),
    }
)  # fmt: skip
STEPS = st.lists(st.one_of(EVENTS, EVENTS, EVENTS, FORGETS), min_size=1, max_size=30)
# Mostly nothing is asked for: each reason must be the only one now and then.
SCOPES = st.fixed_dictionaries(
    {
        "rule": st.one_of(
            st.just(ChannelRule()),
            st.builds(
                ChannelRule,
                st.lists(st.sampled_from(LEVELS), max_size=2).map(tuple),
                st.lists(st.just("views/preferences.md"), max_size=1).map(tuple),
                st.lists(st.sampled_from(("fact", "tool_result")), max_size=2).map(tuple),
            ),
        ),
        "now": st.sampled_from(TIMES),
        "as_of": st.one_of(st.just(10**6), st.just(2**63), st.integers(0, 40)),
    }
)
NARROW = st.fixed_dictionaries(
    {},
    optional={
        "ns": st.lists(st.sampled_from(SPACES), min_size=1, max_size=3, unique=True).map(tuple),
        "task": st.sampled_from(("a", "b")),
        "specs": st.just(("x",)),
        "agent": st.sampled_from(("ann", "bob", "")),
        "since": st.sampled_from(TIMES),
        "until": st.sampled_from(TIMES),
        "exclude": st.just(frozenset({"cc:1:0", "git:2:1", "none"})),
    },
)
ASKED = st.lists(st.tuples(SCOPES, st.one_of(st.just({}), NARROW)), min_size=1, max_size=4)


def do(plane, step, ids):
    """Record an event or a forget; what a plane refuses is not there."""
    if "forget" not in step:
        try:
            ids.append(plane.record(**step).id)
        except MemplaneError:
            return
        return
    named = dict(step["forget"])
    if "number" in named:
        if not ids:
            return
        named = {"ids": [ids[named["number"] % len(ids)]]}
    plane._engine.write({"kind": "forget", "data": {"forget": named, "undo": step["undo"]}})


def judged(plane, scope):
    """The seqs of indexed events that the scope hides, as it says itself."""
    engine = plane._engine
    folds = engine.caught_up()
    counter = engine.counter(plane.policies)
    hidden = set()
    for line in engine.log.read():
        item = items_of_event(line.event, counter)
        archived = folds.memories.archived(line.event, upto=scope.as_of)
        if archived is not None:
            item.superseded, item.forgotten = (
                archived[0] == r for r in ("superseded", "forgotten")
            )
        if scope.hides(item) is not None:
            hidden.add(line.event.seq)
    return hidden


def masked(plane, scope, upto=None):
    """The seqs of documents, and of those that the mask hides."""
    engine = plane._engine
    folds = engine.caught_up()
    retriever = engine.retriever(plane.policies, folds)
    view = retriever._indexed.view(upto)
    hidden = retriever._hidden(view, scope, (), ())
    seqs = view.column("seq")
    return set(seqs.tolist()), set(seqs[hidden].tolist()), set(seqs[~hidden].tolist())


@settings(max_examples=80)
@given(STEPS, STEPS, ASKED)
def test_the_mask_hides_exactly_what_the_scope_hides(tmp_path_factory, first, second, scopes):
    home = tmp_path_factory.mktemp("plane")
    with memplane.init(home, durability="os") as plane:
        ids = []
        for part in (first, second):
            for step in part:
                do(plane, step, ids)
            for fields, narrow in scopes:
                scope = Scope(**fields, **narrow)
                there, hidden, visible = masked(plane, scope)
                assert hidden == judged(plane, scope) & there
                assert not hidden & visible


@settings(max_examples=30)
@given(STEPS, SCOPES, st.integers(0, 40))
def test_a_mask_as_of_a_seq_knows_what_was_forgotten_later(tmp_path_factory, steps, fields, upto):
    with memplane.init(tmp_path_factory.mktemp("plane"), durability="os") as plane:
        ids = []
        for step in steps:
            do(plane, step, ids)
        scope = Scope(**fields)
        there, hidden, _ = masked(plane, scope, upto)
        assert all(seq <= upto for seq in there)
        assert hidden == judged(plane, scope) & there


def test_what_no_channel_may_see_is_not_indexed(plane):
    plane.record("herons in the safe", sensitivity="secret")
    plane.record("a mark", kind="session", session="s", data={"status": "start"})
    plane.record("herons", id="cc:1")
    plane.forget(id="cc:1")
    there, _, _ = masked(plane, Scope(ChannelRule(), now=TIMES[0], as_of=99))
    assert [plane.event(seq).id for seq in sorted(there)] == ["cc:1"]
