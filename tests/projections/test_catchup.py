"""Catching up: one pass, each line once, and from the start again when the log is another one."""

import gc

import pytest
from builders_journal import HISTORIES, Journal
from hypothesis import given, settings, strategies as st

from memplane.projections.in_force import MemoryChains
from memplane.projections.ledger import Cards, Decisions
from memplane.projections.memories import Memories
from memplane.projections.projector import Folded, catch_up, fold, followers_behind
from memplane.projections.tasks import Tasks
from tests.examples import examples

ROWS = [
    {"kind": ("decision", "fact")[n % 2], "text": str(n), "key": f"k{n % 5}"} for n in range(60)
]


def three(journal, folder=None):
    parts = [
        Folded(projector, journal, folder, plane="plane") for projector in (Decisions(), Cards())
    ]
    return [*parts, Memories(journal, folder, plane="plane")]


def dumps(followers):
    return [
        one.dump() if isinstance(one, Memories) else one.projector.dump(one.state)
        for one in followers
    ]


def test_projections_at_one_place_share_one_pass_that_reads_each_line_once():
    journal = Journal(ROWS)
    followers = three(journal)
    assert catch_up(journal, followers) == 60
    assert (journal.passes, journal.lines_read) == (1, 60)
    assert {one.position for one in followers} == {journal.head()}


def test_nothing_is_read_when_nothing_is_new():
    for journal in (Journal(), Journal(ROWS)):
        followers = three(journal)
        catch_up(journal, followers)
        passes = journal.passes
        assert catch_up(journal, followers) == 0
        assert followers_behind(journal, followers) == []
        assert journal.passes == passes


def test_projections_at_different_places_still_share_one_pass():
    journal = Journal(ROWS[:10])
    first, second, third = three(journal)
    second.catch_up()
    journal.extend(ROWS[10:40])
    third.catch_up()
    journal.extend(ROWS[40:])
    journal.lines_read = journal.passes = 0
    assert catch_up(journal, [first, second, third]) == 60
    assert (journal.passes, journal.lines_read) == (1, 60)
    fresh = three(journal)
    catch_up(journal, fresh)
    assert dumps([first, second, third]) == dumps(fresh)


def test_the_ones_that_are_up_to_date_do_not_make_the_others_start_earlier():
    journal = Journal(ROWS[:50])
    followers = three(journal)
    catch_up(journal, followers)
    journal.extend(ROWS[50:])
    journal.lines_read = 0
    followers[0].catch_up()
    assert catch_up(journal, followers) == 10
    assert journal.lines_read == 20


@settings(max_examples=examples(30), deadline=None)
@given(HISTORIES, HISTORIES, st.integers(0, 40))
def test_a_log_whose_tail_was_cut_is_folded_again_whatever_followed(before, after, at):
    journal = Journal(before)
    followers = three(journal)
    catch_up(journal, followers)
    journal.cut(at)
    journal.extend(after)
    catch_up(journal, followers)
    fresh = three(journal)
    catch_up(journal, fresh)
    assert dumps(followers) == dumps(fresh)
    if journal.lines:
        assert {one.position for one in followers} == {journal.head()}


@settings(max_examples=examples(20), deadline=None)
@given(HISTORIES)
def test_what_a_projector_is_not_shown_would_have_changed_nothing(rows):
    lines = Journal(rows).lines
    for projector in (Decisions(), Cards(), MemoryChains(), Tasks()):
        shown, every = projector.initial(), projector.initial()
        fold(projector, shown, lines)
        for line in lines:
            projector.apply(every, line)
        assert projector.dump(shown) == projector.dump(every)


def test_a_fold_that_was_interrupted_begins_again_and_no_line_counts_twice():
    journal = Journal(ROWS)
    followers = three(journal)
    want = three(Journal(ROWS))
    catch_up(Journal(ROWS), want)
    torn = followers[1].projector

    class Torn(type(torn)):
        def apply(self, state, line):
            super().apply(state, line)
            if line.event.seq == 40:
                raise KeyboardInterrupt

    followers[1].projector = Torn()
    with pytest.raises(KeyboardInterrupt):
        catch_up(journal, followers)
    assert followers[1].position is None
    followers[1].projector = torn
    catch_up(journal, followers)
    assert dumps(followers) == dumps(want)
    assert {one.position for one in followers} == {journal.head()}


@pytest.fixture
def collector():
    was = gc.isenabled()
    yield gc
    (gc.enable if was else gc.disable)()


class Watching(Decisions):
    """Notes whether the cyclic collector runs while it folds, and fails where it is told to."""

    def __init__(self, fails_at=0):
        super().__init__()
        self.saw, self.fails_at = set(), fails_at

    def apply(self, state, line):
        self.saw.add(gc.isenabled())
        if line.event.seq == self.fails_at:
            raise KeyboardInterrupt
        super().apply(state, line)


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("fails_at", [0, 1500])
def test_a_long_fold_rests_the_cyclic_collector_and_leaves_it_as_it_was(collector, runs, fails_at):
    (collector.enable if runs else collector.disable)()
    projector = Watching(fails_at)
    follower = Folded(projector, Journal(ROWS * 40), None, plane="plane")
    if fails_at:
        with pytest.raises(KeyboardInterrupt):
            follower.catch_up()
    else:
        follower.catch_up()
    assert projector.saw == {False}
    assert collector.isenabled() == runs


def test_a_short_fold_leaves_the_cyclic_collector_alone(collector):
    collector.enable()
    projector = Watching()
    Folded(projector, Journal(ROWS), None, plane="plane").catch_up()
    assert projector.saw == {True}
    assert collector.isenabled()


def test_followers_join_one_pass_wherever_they_stand_in_it():
    rows = [{"kind": "decision", "text": str(n), "key": f"k{n % 7}"} for n in range(700)]
    journal = Journal(rows)
    followers = three(journal)
    for one, seq in zip(followers, (0, 255, 513), strict=True):
        if seq:
            catch_up(Journal(rows[:seq]), [one])
    assert catch_up(journal, followers) == 700
    fresh = three(journal)
    catch_up(journal, fresh)
    assert dumps(followers) == dumps(fresh)


class Counting:
    """A follower that counts the lines it folds, and how often it begins again."""

    def __init__(self):
        self.position, self.folded, self.resets = None, [], 0

    def fold(self, lines):
        self.folded += [line.event.seq for line in lines]
        self.position = lines[-1].position

    def reset(self):
        self.position, self.folded, self.resets = None, [], self.resets + 1


def purge_of(*seqs):
    said = {"seqs": list(seqs), "ids": [f"id-{seq}" for seq in seqs], "documents": [1] * len(seqs)}
    return {"kind": "purge", "data": {"purge": said}}


@pytest.mark.parametrize("named", [1, 40, 61, 62, 70, 1_000])
def test_a_purge_of_a_line_that_the_log_still_gives_has_all_folded_again_once(named):
    journal = Journal([*ROWS, purge_of(named), *ROWS])
    followers = [Counting(), Counting()]
    assert catch_up(journal, followers) <= 2 * 121
    assert journal.passes <= 2
    for one in followers:
        assert one.resets <= 1
        assert one.folded == list(range(1, 122))
    assert catch_up(journal, followers) == 0


def test_any_number_of_such_purges_has_all_folded_again_once():
    journal = Journal([*ROWS, *(purge_of(at, 60 + at, 500) for at in range(1, 60)), *ROWS])
    (one,) = followers = [Counting()]
    catch_up(journal, followers)
    assert (one.resets, journal.passes) == (1, 2)
    assert one.folded == list(range(1, journal.head().seq + 1))


def test_a_purge_that_comes_while_all_is_folded_again_has_it_folded_once_more():
    journal = Journal([*ROWS, purge_of(3)])
    one = Counting()
    reset = one.reset

    def purged_meanwhile():
        reset()
        if one.resets == 1:
            journal.extend([purge_of(4)])

    one.reset = purged_meanwhile
    catch_up(journal, [one])
    assert one.resets == 2
    assert one.folded == list(range(1, 63))
