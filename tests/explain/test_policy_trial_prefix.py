"""A plane of a prefix that moves forward is at each place the plane of that prefix."""

import itertools
import re

import pytest
from builders_planes import rows
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.context.folds import Folds, Prefix
from memplane.errors import InputError
from tests.examples import examples


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A plane of 240 events, a third of its log's lines in damaged places."""
    home = tmp_path_factory.mktemp("lived") / "plane"
    with memplane.init(home, durability="os", clock=lambda: "2026-01-05T12:00:00.000000Z") as plane:
        plane.record_many(rows(31, 240))
    (segment,) = (home / "log").glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    for seq in (40, 41, 97, 200):
        lines[seq - 1] = re.sub(rb'"text":"..', b'"text":"##', lines[seq - 1])
    segment.write_bytes(b"".join(lines))
    with memplane.open(home, durability="os") as plane:
        yield plane


def folded(folds: Folds) -> tuple:
    """All that is folded, and where it stands."""
    states = (folds.hotset, folds.decisions, folds.cards, folds.tasks, folds.plane_map)
    dumps = [one.projector.dump(one.state) for one in states]
    _ = folds.files
    return folds.log.head(), dumps, folds.memories.dump(), [one.position for one in states]


@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.integers(0, 241), min_size=1, max_size=6).map(sorted), data=st.data())
def test_it_folds_to_the_same_however_it_got_there(lived, places, data):
    context = lived.context
    policies = lived.upkeep.policies
    with lived.at(places[0]) as moving:
        for seq in places:
            moving.advance(seq)
            if data.draw(st.booleans()):  # else it goes on before anybody has folded
                there = moving.context.prefix(seq, policies)
                alone = Folds(
                    Prefix(context.log, seq),
                    None,
                    lived.id,
                    context.counter(policies),
                    there.variant,
                )
                alone.catch_up()
                assert folded(there) == folded(alone)


class Counting:
    """A log that notes what is read on from a place."""

    def __init__(self, log):
        self.log, self.seen = log, []
        self.head, self.matches, self.read = log.head, log.matches, log.read

    def read_from(self, position):
        for line in self.log.read_from(position):
            self.seen.append(line.event.seq)
            yield line


def test_on_its_way_every_line_is_read_once(lived):
    log = Counting(lived._log)
    moving = Prefix(log, 5)
    every = [line.event.seq for line in lived._log.read()]
    for upto in (20, 20, 70, 150, 230):
        before = moving.head()
        moving.advance(upto)
        fresh = [line.event.seq for line in moving.read_from(before)]
        assert fresh == [seq for seq in every if before.seq < seq <= upto]
    assert len(log.seen) == len(set(log.seen))


def test_it_does_not_move_back_nor_beyond_the_log(lived):
    with lived.at(50) as moving:
        for seq, _ in itertools.product((49, lived.head().seq + 1, 10**9), range(2)):
            with pytest.raises(InputError, match="advance: expected a seq from 50 to 241"):
                moving.advance(seq)
    with pytest.raises(InputError, match="advance"):
        lived.advance(10)
