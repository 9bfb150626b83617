"""Events found, by columns: they read as the rows that they are made of."""

import numpy as np
from hypothesis import given, strategies as st

from memplane.index.fill_order import STEP_COLUMNS, FillingParameters, filling_steps, steps_of
from memplane.ports import Candidates, FoundEvent

rows = st.lists(
    st.builds(
        FoundEvent,
        seq=st.integers(1, 1 << 40),
        score=st.integers(1, 1 << 22),
        tokens=st.integers(0, 5_000),
        importance=st.integers(0, 1_000),
        standing=st.booleans(),
        doc=st.integers(0, 1 << 30),
        **dict.fromkeys(
            ("words", "similar", "neighbours", "markers", "tags", "key"), st.integers(0, 1 << 20)
        ),
    ),
    unique_by=lambda one: one.seq,
    max_size=60,
).map(lambda found: sorted(found, key=lambda one: (-one.score, -one.importance, -one.seq)))


def candidates(found: list[FoundEvent]) -> Candidates:
    columns = list(zip(*found, strict=True)) or [()] * len(FoundEvent._fields)
    return Candidates([np.array(column) for column in columns])


@given(rows)
def test_columns_read_as_the_rows_they_are_made_of(found):
    made = candidates(found)
    assert len(made) == len(found)
    assert list(made) == found
    assert made == candidates(found)
    assert not found or made != candidates(found[1:])
    assert made[:7] == found[:7]
    assert made[-1:] == found[-1:]
    assert made.rows(range(len(found))[::2]) == found[::2]
    assert [made.doc(at) for at in range(len(found))] == [one.doc for one in found]
    assert made.standing() == [at for at, one in enumerate(found) if one.standing]


@given(rows, st.integers(0, 1 << 22))
def test_those_above_a_floor_come_first(found, floor):
    made = candidates(found)
    assert list(made)[: made.above(floor)] == [one for one in found if one.score >= floor]


@given(rows, st.data(), st.sampled_from((500, 4_000)))
def test_steps_that_are_ordered_as_they_are_asked_for_are_those_of_all_at_once(found, data, budget):
    which = data.draw(
        st.lists(st.sampled_from(range(len(found))), unique=True) if found else st.just([])
    )
    made, packing = candidates(found), FillingParameters()
    columns = [made.columns[name] for name in STEP_COLUMNS]
    chosen = (np.array([column[at] for at in which], np.int64) for column in columns)
    whole = filling_steps(*chosen, budget, packing)
    wanted = list(zip(whole.places.tolist(), whole.grows.tolist(), strict=True))
    assert list(steps_of(columns, which, budget, packing)) == wanted


packings = st.builds(
    FillingParameters, passage_tokens=st.integers(0, 400), passage_mean=st.integers(1, 400),
    whole_tokens=st.integers(0, 400), passage_permille=st.integers(10, 999),
    base_tokens=st.integers(1, 100), power=st.integers(0, 16), powers=st.just(()),
)  # fmt: skip


@given(rows, packings, st.sampled_from((500, 4_000)))
def test_steps_without_arrays_are_those_with_arrays(found, packing, budget):
    made = candidates(found)
    columns = [made.columns[name] for name in STEP_COLUMNS]
    few = steps_of([column.tolist() for column in columns], range(len(found)), budget, packing)
    assert list(few) == list(steps_of(columns, range(len(found)), budget, packing))


def test_steps_far_behind_the_best_come_in_order_too():
    draw = np.random.default_rng(7)
    size = 3_000
    columns = [
        np.sort(draw.integers(1, 400, size))[::-1] * 1_000,
        draw.integers(1, 300, size),
        draw.integers(0, 3, size),
        draw.permutation(size) + 1,
    ]
    whole = filling_steps(*columns, 4_000, FillingParameters())
    wanted = list(zip(whole.places.tolist(), whole.grows.tolist(), strict=True))
    assert len(wanted) > 4_000
    assert list(steps_of(columns, range(size), 4_000, FillingParameters())) == wanted
