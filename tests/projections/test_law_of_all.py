"""The law of every projector, asked of one kind of history: everything that a log may hold.

Values recorded, superseded, forgotten, evicted, taken back, pinned and touched, tasks, sessions,
artifacts and what approves them, in any order and interleaved as they come.
"""

import pytest
from builders_histories import APPROVAL_ROWS, ARTIFACT_ROWS, MARKS, TASK_ROW, WORK
from builders_journal import ROWS, Journal, from_elsewhere
from checks_law import holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.context.folds import Folds
from memplane.policy.records import CHAT
from memplane.projections.in_force import MemoryChains
from memplane.projections.memories import Memories
from memplane.projections.projector import Stretch, fold
from memplane.tokens import make
from tests.examples import examples

COUNTER = make("len4", scale_ppm=1_000_000, table=bytes)
ELSEWHERE = from_elsewhere(st.one_of(ROWS, ROWS, TASK_ROW, APPROVAL_ROWS))
EVERYTHING = st.lists(
    st.one_of(ROWS, ROWS, ROWS, TASK_ROW, MARKS, WORK, ARTIFACT_ROWS, APPROVAL_ROWS, ELSEWHERE),
    max_size=40,
)
STEPS = st.lists(
    st.tuples(st.integers(1, 15), st.sampled_from(["go on", "save", "reopen", "save and reopen"])),
    max_size=8,
)


def opened(journal, folder):
    folds = Folds(journal, folder, "plane", COUNTER, "len4")
    folds.catch_up()
    return folds


def followers(folds):
    """Every one of them: those that open for who asks are asked."""
    assert folds.sessions is not None
    assert folds.files is not None
    assert folds.digests is not None
    assert folds.episodes(CHAT) is not None
    return folds.followers


def dumps(folds):
    return {
        "memories" if isinstance(one, Memories) else one.projector.name: one.dump()
        if isinstance(one, Memories)
        else one.projector.dump(one.state)
        for one in followers(folds)
    }


PROJECTORS = [
    MemoryChains() if isinstance(one, Memories) else one.projector
    for one in followers(opened(Journal(), None))
]


@pytest.mark.parametrize("projector", PROJECTORS, ids=lambda projector: projector.name)
@settings(max_examples=examples(25))
@given(rows=EVERYTHING)
def test_any_split_of_a_history_of_everything_folds_to_the_same_bytes(projector, rows):
    holds_the_law(projector, Journal(rows).lines)


@pytest.mark.parametrize("projector", PROJECTORS, ids=lambda projector: projector.name)
@settings(max_examples=examples(25))
@given(rows=EVERYTHING)
def test_what_a_projector_is_not_shown_of_a_stretch_would_have_changed_nothing(projector, rows):
    lines = Journal(rows).lines
    shown, every = projector.initial(), projector.initial()
    fold(projector, shown, Stretch(lines))
    for line in lines:
        projector.apply(every, line)
    assert projector.dump(shown) == projector.dump(every)


def test_the_law_is_asked_of_every_projector():
    names = [projector.name for projector in PROJECTORS]
    assert len(names) == len(set(names)) >= 9
    assert {
        "hotset",
        "decisions",
        "cards",
        "tasks",
        "memories",
        "sessions",
        "files",
        "digests",
        "episodes",
    } <= set(names)


@settings(max_examples=examples(40))
@given(rows=EVERYTHING, steps=STEPS)
def test_processes_that_fold_save_and_come_back_at_any_time_agree_with_one_that_folds_at_once(
    tmp_path_factory, rows, steps
):
    folder = tmp_path_factory.mktemp("projections")
    journal = Journal()
    folds, at = opened(journal, folder), 0
    for count, then in [*steps, (len(rows), "go on")]:
        journal.extend(rows[at : at + count])
        at = min(at + count, len(rows))
        folds.catch_up()
        if "save" in then:
            folds.save()
        if "reopen" in then:
            folds.close()
            folds = opened(journal, folder)
    assert dumps(folds) == dumps(opened(Journal(rows), None))
    folds.close()
