"""Catching up: one pass, each line once, and from the start again when the log is another one."""

from hypothesis import given, settings
from hypothesis import strategies as st
from journal import HISTORIES, Journal

from memplane.projections.catchup import Folded, behind, catch_up
from memplane.projections.decisions import Cards, Decisions
from memplane.projections.memories import Memories

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
        assert behind(journal, followers) == []
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


@settings(max_examples=30, deadline=None)
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
