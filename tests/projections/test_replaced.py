"""All that was replaced and forgotten, at once: what masks are made of."""

from itertools import pairwise

from builders_journal import HISTORIES, Journal
from hypothesis import given, settings, strategies as st

from memplane.projections.memories import Memories
from tests.examples import examples


def expected(memories, lines):
    """(by, seq) of every value that another followed, from the histories of the keys."""
    places = {(line.event.ns, line.event.key) for line in lines if line.event.key is not None}
    chains = ([row.seq for row in memories.history(*place)] for place in sorted(places))
    return sorted((by, seq) for chain in chains for seq, by in pairwise(chain))


@settings(max_examples=examples(20))
@given(st.lists(HISTORIES, min_size=1, max_size=4), st.data())
def test_all_that_was_replaced_is_told_however_it_was_folded(tmp_path_factory, parts, data):
    folder = tmp_path_factory.mktemp("memories")
    journal = Journal()
    memories = Memories(journal, folder, plane="plane")
    for part in parts:
        journal.extend(part)
        memories.catch_up()
        if data.draw(st.booleans(), "asked"):
            assert memories.replaced() == expected(memories, journal.lines)
        if data.draw(st.booleans(), "saved"):
            memories.save()
        if data.draw(st.booleans(), "opened again"):
            memories.close()
            memories = Memories(journal, folder, plane="plane")
            memories.catch_up()
    told = memories.replaced()
    assert told == expected(memories, journal.lines)
    for after in {0, 3, len(journal.lines)}:
        assert memories.replaced(after) == [pair for pair in told if pair[0] > after]
        acts = memories.forgets(after)
        assert [act.seq for act in acts] == sorted(act.seq for act in acts)
        assert all(act.seq > after and act.target.form != "pin" for act in acts)
    memories.close()


def test_who_follows_learns_that_all_was_folded_anew():
    journal = Journal([{"kind": "fact", "key": "k"}] * 5)
    memories = Memories(journal, None, plane="plane")
    memories.catch_up()
    assert memories.replaced() == [(2, 1), (3, 2), (4, 3), (5, 4)]
    before = memories.resets
    journal.cut(2)
    journal.extend([{"kind": "fact", "key": "k", "text": "other"}] * 2)
    memories.catch_up()
    assert memories.resets > before
    assert memories.replaced() == [(2, 1), (3, 2), (4, 3)]


def test_asking_costs_what_was_folded_since():
    """Thousands of values recorded while nobody asks are looked at as they come."""
    journal = Journal()
    memories = Memories(journal, None, plane="plane")
    assert memories.replaced() == []
    journal.extend({"kind": "fact", "key": f"k{number % 7}"} for number in range(3_000))
    memories.catch_up()
    assert len(memories._fresh) <= 1_064
    assert len(memories.replaced()) == 3_000 - 7
    assert memories._fresh == []
