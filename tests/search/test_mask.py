"""What a search may not see is what `Scope` says, event by event, whatever the log says of it.

The card of an artifact is seen where the event may be named.
"""

from hypothesis import given, settings, strategies as st

import memplane
from memplane.context.folds import items_of_event
from memplane.errors import MemplaneError
from memplane.policy import ChannelRule
from memplane.recall.documents import CARD
from memplane.recall.suppress import Filter, Scope
from memplane.search.service import index_service
from tests.examples import examples

PATTERNS = ("/task/*", "/spec/*", "/agent/*")
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
        "tags": st.sampled_from((["storage"], ["Storage", "Other"])),
        "importance": st.sampled_from((300, 700)),
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
# Two contents: an approval may name the one that the artifact does not have.
DIGESTS = ("a" * 64, "b" * 64)
ARTIFACTS = st.fixed_dictionaries(
    {
        "kind": st.just("artifact"),
        "text": st.sampled_from(("herons", "", "the herons nest. " * 200)),
        "data": st.builds(
            lambda digest: {
                "sha256": digest, "bytes": 12, "stored": "copy", "name": "herons.md", "mime": "text/plain",
            },
            st.sampled_from(DIGESTS),
        ),
    },
    optional={
        "ns": st.sampled_from(SPACES), "key": st.sampled_from(("k1", "k2")),
        "sensitivity": st.sampled_from(LEVELS), "valid_until": st.sampled_from(TIMES),
    },
)  # fmt: skip
APPROVALS = st.fixed_dictionaries(
    {
        "approves": st.integers(0, 40),
        "digest": st.sampled_from((*DIGESTS, *DIGESTS, "c" * 64)),
        "undo": st.sampled_from((False, False, True)),
    },
    optional={"valid_until": st.sampled_from(TIMES), "key": st.sampled_from(("k1", "k3"))},
)
STEPS = st.lists(
    st.one_of(EVENTS, EVENTS, EVENTS, ARTIFACTS, APPROVALS, FORGETS), min_size=1, max_size=30
)
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
        "ns": st.lists(
            st.sampled_from((*SPACES, *PATTERNS)), min_size=1, max_size=3, unique=True
        ).map(tuple),
        "task": st.sampled_from(("a", "b")),
        "specs": st.just(("x",)),
        "agent": st.sampled_from(("ann", "bob", "")),
        "shared": st.sampled_from((("/agent/bob",), ("/agent/ann", "/agent/zed"), ("/agent/*",))),
        "owner": st.booleans(),
        "since": st.sampled_from(TIMES),
        "until": st.sampled_from(TIMES),
        "exclude": st.just(frozenset({"cc:1:0", "git:2:1", "none"})),
        "only": st.builds(
            Filter,
            st.sampled_from(((), ("storage",), ("other",), ("storage", "other"))),
            st.sampled_from(((), ("storage",), ("other",))),
            st.sampled_from((0, 300, 500, 501)),
        ),
        "held": st.tuples(st.sampled_from(("s1", "s2", "none")), st.integers(0, 30)),
    },
)
ASKED = st.lists(st.tuples(SCOPES, st.one_of(st.just({}), NARROW)), min_size=1, max_size=4)


def do(plane, step, ids):
    """Record an event, an approval or a forget; what a plane refuses is not there."""
    if "approves" in step:
        if ids:
            fields = {name: value for name, value in step.items() if name in ("valid_until", "key")}
            data = {"sha256": step["digest"], **({"undo": True} if step["undo"] else {})}
            refs = [ids[step["approves"] % len(ids)]]
            ids.append(plane.record(kind="approval", refs=refs, data=data, **fields).id)
        return
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
    plane.context.write({"kind": "forget", "data": {"forget": named, "undo": step["undo"]}})


def asked_of(plane, fields):
    """A scope that knows of the approvals."""
    return Scope(**fields, approvals=plane.context.approvals())


def judged(plane, scope):
    """The events that the scope hides, and those of which it hides even the name."""
    context = plane.context
    folds = context.caught_up()
    counter = context.counter(plane.upkeep.policies)
    hidden, unnamed = set(), set()
    for line in context.log.read():
        item = items_of_event(line.event, counter)
        archived = folds.memories.archived(line.event, upto=scope.as_of)
        if archived is not None:
            item.superseded, item.forgotten = (
                archived[0] == r for r in ("superseded", "forgotten")
            )
        # That a copy was changed is found where its text is read.
        if scope.hides(item) not in (None, "changed"):
            hidden.add(line.event.seq)
        if not scope.names(item):
            unnamed.add(line.event.seq)
    return hidden, unnamed


def masked(plane, scope, upto=None):
    """The seqs of documents, of those that the mask hides and does not; cards apart."""
    context = plane.context
    folds = context.caught_up()
    retriever = index_service(context).retriever(plane.upkeep.policies, folds)
    view = retriever._indexed.view(upto)
    hidden = retriever._hidden(view, scope, (), ())
    seqs, cards = view.column("seq"), view.column("flags") & CARD != 0

    def split(which):
        return (
            set(seqs[which].tolist()),
            set(seqs[which & hidden].tolist()),
            set(seqs[which & ~hidden].tolist()),
        )

    return split(~cards), split(cards)


@settings(max_examples=examples(32))
@given(STEPS, STEPS, ASKED)
def test_the_mask_hides_exactly_what_the_scope_hides(tmp_path_factory, first, second, scopes):
    home = tmp_path_factory.mktemp("plane")
    with memplane.init(home, durability="os") as plane:
        ids = []
        for part in (first, second):
            for step in part:
                do(plane, step, ids)
            for fields, narrow in scopes:
                scope = asked_of(plane, fields | narrow)
                wanted = judged(plane, scope)
                for found, hides in zip(masked(plane, scope), wanted, strict=True):
                    there, hidden, visible = found
                    assert hidden == hides & there
                    assert not hidden & visible


@settings(max_examples=examples(12))
@given(STEPS, SCOPES, st.integers(0, 40))
def test_a_mask_as_of_a_seq_knows_what_was_forgotten_later(tmp_path_factory, steps, fields, upto):
    with memplane.init(tmp_path_factory.mktemp("plane"), durability="os") as plane:
        ids = []
        for step in steps:
            do(plane, step, ids)
        scope = asked_of(plane, fields)
        wanted = judged(plane, scope)
        for (there, hidden, _), hides in zip(masked(plane, scope, upto), wanted, strict=True):
            assert all(seq <= upto for seq in there)
            assert hidden == hides & there


def test_what_no_channel_may_see_is_not_indexed(plane):
    plane.record("herons in the safe", sensitivity="secret")
    plane.record("a mark", kind="session", session="s", data={"status": "start"})
    plane.record("herons", id="cc:1")
    plane.forget(id="cc:1")
    (there, _, _), _ = masked(plane, Scope(ChannelRule(), now=TIMES[0], as_of=99))
    assert [plane.event(seq).id for seq in sorted(there)] == ["cc:1"]
