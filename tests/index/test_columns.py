"""Which documents are out of force, whatever was asked before."""

import numpy as np
from hypothesis import given, strategies as st

from memplane.index.columns import Fates

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
