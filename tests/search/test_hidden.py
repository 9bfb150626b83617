"""What may not be seen is not found, lends nothing to others, and changes no score of theirs."""

import pytest
from builders_searches import NOW, find, seqs
from hypothesis import given, settings, strategies as st

import memplane
from memplane.policy import ChannelRule
from tests.examples import examples

LATER = "2026-04-01T00:00:00.000000Z"
PAST = "2026-02-01T00:00:00.000000Z"
CAREFUL = ChannelRule(("high",), ("views/preferences.md",), ("tool_result",))

# By reason: the fields of an event that a careful request for task `a` may not see, and what is
# recorded when it is there.
HIDDEN = {
    "sensitivity": ({"sensitivity": "high"}, None),
    "kind": ({"kind": "tool_result", "role": "tool"}, None),
    "view": ({"kind": "preference"}, None),
    "task": ({"ns": "/task/b", "task": "b"}, None),
    "agent": ({"ns": "/agent/bob"}, None),
    "spec": ({"ns": "/spec/other"}, None),
    "expired": ({"kind": "fact", "valid_until": PAST}, None),
    "not yet valid": ({"kind": "fact", "valid_from": LATER}, None),
    "superseded": ({"kind": "decision", "key": "k"}, {"kind": "decision", "key": "k", "text": "ok"}),
    "forgotten": ({"id": "x:1"}, {"forget": "x:1"}),
    "source": ({"id": "src:1"}, {"forget_source": "src"}),
    "excluded": ({"id": "out"}, None),
    "artifact": ({"kind": "artifact"}, None),
    "too early": ({"ts": "2026-01-01T00:00:00.000000Z"}, None),
}  # fmt: skip
ASKED = {
    "rule": CAREFUL, "task": "a", "agent": "ann", "specs": ("mine",), "since": "2026-01-02T00:00:00.000000Z",
    "exclude": frozenset({"out"}),
}  # fmt: skip
# Of the same length: how far it is past a hidden turn is a matter of its length.
TEXTS = (
    "two birds nest near the lakes",
    "three geese were seen today",
    "the ledger stays as it is",
    "birds are counted here in May",
    "the geese dance at dawn",
    "we talked about the budget again",
)
QUERIES = ("geese nest", "birds", "where do geese dance?", "what did Zed say about geese?")


def make(plane, events):
    """Record visible and hidden events, (reason or None, text) each, in one session."""
    for number, (reason, text) in enumerate(events):
        fields, then = ({}, None) if reason is None else HIDDEN[reason]
        fields = {"ts": NOW, "session": "s", "actor": "zed" if reason else "ann"} | fields
        if "id" in fields and fields["id"] != "out":
            fields["id"] += f":{number}"
        elif fields.get("id") == "out" and number:
            fields["id"] = "out2"
        if "key" in fields:
            fields["key"] += str(number)
        plane.record(text, **fields)
        if then is None:
            continue
        if "forget" in then:
            plane.forget(id=fields["id"])
        elif "forget_source" in then:
            plane.forget(source="src")
        else:
            plane.record(ts=NOW, **then | {"key": fields["key"]})


def answers(home, events):
    with memplane.init(home, durability="os") as plane:
        make(plane, events)
        excluded = frozenset({"out", "out2"})
        found = [find(plane, query, **ASKED | {"exclude": excluded}) for query in QUERIES]
        hidden = {
            line.event.seq for line in plane._log.read() if line.event.actor == "zed"
        }  # fmt: skip
        return found, hidden


@pytest.mark.parametrize("reason", HIDDEN)
def test_what_is_hidden_is_not_found_and_lends_nothing(plane, reason):
    make(plane, [(None, "we talked about the budget"), (reason, "the herons nest by the lake")])
    assert seqs(plane, "herons nest", **ASKED | {"exclude": frozenset({"out", "out2"})}) == []
    assert seqs(plane, "birds", **ASKED | {"exclude": frozenset({"out", "out2"})}) == []


@settings(max_examples=examples(10))
@given(
    st.lists(
        st.tuples(st.sampled_from((None, None, *HIDDEN)), st.sampled_from(TEXTS)), max_size=10
    ),
    st.randoms(use_true_random=False),
)
def test_which_hidden_event_says_what_changes_nothing(tmp_path_factory, events, chance):
    """The statistics are those of all events; which of the hidden ones holds a word is not told."""
    events = [
        (reason if reason != "excluded" or at < 2 else None, text)
        for at, (reason, text) in enumerate(events)
    ]
    said = [text for reason, text in events if reason is not None]
    chance.shuffle(said)
    shuffled = [(reason, text if reason is None else said.pop()) for reason, text in events]
    found, hidden = answers(tmp_path_factory.mktemp("plane") / "home", events)
    other, _ = answers(tmp_path_factory.mktemp("plane") / "home", shuffled)
    assert found == other
    assert all(one.seq not in hidden for finding in found for one in finding.found)


def test_a_query_for_itself_finds_others(plane):
    asked = plane.record("where do the herons nest?", role="user", session="s")
    told = plane.record("by the lake", role="assistant", session="s")
    assert asked.seq in seqs(plane, "where do the herons nest?")
    assert seqs(plane, "where do the herons nest?", never=(asked.seq,)) == []
    plane.record("herons nest in reeds")
    assert told.seq not in seqs(plane, "where do the herons nest?", never=(asked.seq,))


def test_what_comes_back_is_found_again(plane):
    event = plane.record("the herons nest", id="cc:1")
    plane.forget(id="cc:1")
    assert seqs(plane, "herons") == []
    plane.unforget(id="cc:1")
    assert seqs(plane, "herons") == [event.seq]
    head = plane.head().seq
    assert seqs(plane, "herons", upto=head, as_of=head - 1) == []


def test_a_correction_acts_on_answers_of_then(plane):
    """Evidence is retrieved as of a prompt; what was forgotten since stays out of it."""
    event = plane.record("the herons nest", id="cc:1")
    then = plane.head().seq
    assert seqs(plane, "herons", upto=then, as_of=then) == [event.seq]
    plane.forget(id="cc:1")
    assert seqs(plane, "herons", upto=then, as_of=plane.head().seq) == []


def test_the_texts_are_of_one_length(plane):
    assert len({plane.event(plane.record(text).seq).tokens for text in TEXTS}) == 1
