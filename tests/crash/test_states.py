"""After a power cut at any moment everything that was acknowledged is there."""

import random

import pytest
from builders_crash_states import Recording, put, states
from builders_log_operations import LOG
from builders_plane_operations import PLANES
from checks_layers import LONG, both, split
from checks_promises import broken_by_log, broken_by_plane

from tests.examples import sampled


def flat(promised):
    return [one for several in promised for one in several]


def recorded(operation, top, rng):
    """The trace of an operation; some of its syncs fail."""
    top.mkdir()
    home = top / "home"
    operation.prepare(home, rng)
    failing = [rng.randrange(1, 40) for _ in range(rng.choice((0, 0, 1, 2)))]
    recording = Recording(top, failing)
    with recording.running():
        operation.act(home, recording.ack, rng)
    return recording.trace


def worlds(operation, place, seed):
    """Yield one run of the operation after another: its trace, and the dice for its crashes."""
    import shutil

    while True:
        seed += 1
        rng = random.Random(f"{operation.name} {seed}")
        shutil.rmtree(place / "top", ignore_errors=True)
        yield recorded(operation, place / "top", rng), rng


def crash_log(operation, place, count, share, each=3):
    """Check trees that a power cut in this operation may leave, until the share is done."""
    for trace, rng in worlds(operation, place, 0):
        for promised, tree in states(trace, rng, each):
            put(tree, place / "after")
            count.add(
                broken_by_log(
                    place / "after" / "home",
                    flat(promised),
                    damaged=operation.damaged,
                    named=count.name,
                )
            )
            if not count.goes_on(share):
                return


def crash_recovery(operation, place, count, share):
    """The same, where the recovery from a first power cut is cut short by a second one."""
    for trace, rng in worlds(operation, place, 1000):
        found = list(states(trace, rng, 1))
        for promised, tree in rng.sample(found, min(len(found), 4)):
            put(tree, place / "after")
            again = Recording(place / "after")
            with again.running():
                count.add(
                    broken_by_log(
                        place / "after" / "home",
                        flat(promised),
                        damaged=operation.damaged,
                        named=count.name,
                        disk=None,
                    ),
                    done=0,
                )
            for _, second in states(again.trace, rng, 2):
                put(second, place / "twice")
                broken = broken_by_log(
                    place / "twice" / "home", flat(promised), damaged=operation.damaged
                )
                count.add([f"after a second cut: {one}" for one in broken])
                if not count.goes_on(share):
                    return


def crash_plane(operation, place, count, share):
    """Check a sample of the trees through everything that a plane does."""
    for trace, rng in worlds(operation, place, 2000):
        found = list(states(trace, rng, 2))
        for promised, tree in rng.sample(found, min(len(found), 40)):
            put(tree, place / "after")
            count.add(broken_by_plane(place / "after" / "home", flat(promised), named=count.name))
            if not count.goes_on(share):
                return


@pytest.mark.parametrize("name", LOG)
@both
def test_a_power_cut_at_any_moment_costs_a_log_nothing_acknowledged(place, counted, name, shares):
    count = counted("states of the log", name)
    each = 12 if shares is LONG else 3
    crash_log(LOG[name], place, count, split(shares["states of the log"], len(LOG)), each)
    assert count.violations == []


@pytest.mark.parametrize("name", LOG)
@both
def test_a_power_cut_during_the_recovery_from_one_costs_nothing_either(
    place, counted, name, shares
):
    count = counted("states of a recovery", name)
    crash_recovery(LOG[name], place, count, split(shares["states of a recovery"], len(LOG)))
    assert count.violations == []


@pytest.mark.parametrize("name", sampled(PLANES, 2, first=1))
@both
def test_a_plane_opens_packs_and_agrees_with_its_log_after_a_power_cut(
    place, counted, name, shares
):
    count = counted("states of a plane", name)
    crash_plane(PLANES[name], place, count, shares["states of a plane"])
    assert count.violations == []
