"""Which documents are out of force, whatever was asked before; who speaks in those that are seen."""

import numpy as np
from hypothesis import given, settings, strategies as st

from memplane.index.ranking import Columns, Fates, Speakers
from memplane.index.store import SegmentedIndex
from memplane.index.terms import Document, exact_term

COLUMN = np.arange(1, 21)  # an event a document


def fates(acts):
    made = Fates()
    for number, (docs, undo) in enumerate(acts):
        made.forget(100 + number, np.array(sorted(docs), np.int64), COLUMN, undo=undo)
    return made


def test_documents_behind_the_first_that_were_asked_for_are_forgotten_too():
    made = fates([({15}, False)])
    assert not made.hidden(200, 3).any()
    assert np.flatnonzero(made.hidden(200, 20)).tolist() == [15]


acts = st.lists(st.tuples(st.sets(st.integers(0, 19), min_size=1), st.booleans()), max_size=6)
asked = st.lists(st.tuples(st.integers(99, 107), st.integers(0, 20)), min_size=1, max_size=8)


@given(acts, asked)
def test_an_answer_depends_on_nothing_that_was_asked_before(acts, asked):
    made = fates(acts)
    for upto, size in asked:
        assert made.hidden(upto, size).tolist() == fates(acts).hidden(upto, size).tolist()


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["", "ana", "ben", "cy", "dora"]), min_size=1, max_size=40), st.data()
)
def test_speakers_are_always_counted_as_those_of_the_documents_that_are_seen(names, data):
    index, columns, speakers = SegmentedIndex(), Columns(), Speakers()
    stops = data.draw(st.sets(st.integers(0, len(names) - 1)))
    for seq, name in enumerate(names):
        index.add(Document(seq + 1, speaker=name))
        if seq in stops:  # they grow with the index
            speakers.follow(columns.frame(index.view()))
    speakers.follow(columns.frame(index.view()))
    hidden = np.array(data.draw(st.lists(st.booleans(), min_size=1, max_size=len(names))))
    seen = [name for name, hides in zip(names, hidden, strict=False) if not hides]
    shown = [speakers.labels[number] for number in speakers.visible(hidden)]
    wanted = [exact_term(name) if name else 0 for name in dict.fromkeys(names)]
    having = [exact_term(name) if name else 0 for name in seen]
    ranked = sorted(wanted, key=lambda label: (-having.count(label), wanted.index(label)))
    assert speakers.labels == wanted
    named = any(names)
    assert shown == ([label for label in ranked if label in having] if named else [])
    assert speakers.firsts == [names.index(name) for name in dict.fromkeys(names)]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(101, 106), st.integers(1, 22)), max_size=4), max_size=3
    ),
    st.lists(st.integers(99, 108), min_size=1, max_size=6),
    st.integers(0, 20),
)
def test_a_value_is_out_of_force_from_the_event_on_that_took_its_place(told, asked, size):
    made, by = Fates(), {}
    for pairs in told:
        made.replace(pairs, COLUMN)
        by |= {seq: until for until, seq in pairs}
    for upto in asked:
        expected = [by.get(seq, upto + 1) <= upto for seq in COLUMN[:size].tolist()]
        assert made.hidden(upto, size).tolist() == expected


class Given:
    """Events of some documents each, with a group and the tokens of each document."""

    def __init__(self, events):
        rows = [(seq, group, one) for seq, (group, each) in enumerate(events) for one in each]
        seq, group, tokens = np.array(rows, np.int64).reshape(-1, 3).T
        self.count, self.known = len(rows), {"seq": seq, "group": group, "tokens": tokens}

    def run(self, column, start, end):
        return self.known.get(column, np.zeros(self.count))[start:end]


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(1, 9), min_size=1, max_size=3)), max_size=30
)


@given(EVENTS, st.lists(st.integers(0, 30), max_size=3))
def test_chains_join_the_documents_of_a_group_however_they_came(events, stops):
    columns = Columns()
    for stop in sorted(stops):
        columns.frame(Given(events[:stop]))
    given_ = Given(events)
    frame = columns.frame(given_)
    links, strides, last = [-1] * 2 * given_.count, [0] * 2 * given_.count, {}
    seq, group, tokens = (given_.known[name].tolist() for name in ("seq", "group", "tokens"))
    for doc in range(given_.count):
        strides[2 * doc] = strides[2 * doc + 1] = tokens[doc]
        left = last.get(group[doc]) if group[doc] else None
        if left is not None:
            links[2 * doc], links[2 * left + 1] = 2 * left, 2 * doc + 1
            turn = 10 * (seq[left] != seq[doc])
            strides[2 * doc] += turn
            strides[2 * left + 1] += turn
        last[group[doc]] = doc
    assert frame.links.tolist() == links
    assert frame.strides.tolist() == strides
