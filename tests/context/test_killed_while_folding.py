"""Who is killed over a long log has kept most of it: the next process folds what is left."""

import os
import shutil

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane.context import folds
from memplane.projections import projector
from memplane.projections.digests import Digests
from memplane.projections.projector import read_checkpoint

EVENTS, EVERY, KILLED = 901, 256, 700  # with the first of a plane, which it writes itself
NAMES = ("hotset", "decisions", "cards", "tasks", "plane_map", "artifacts", "files", "digests")


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(folds, "_SAVED_EVERY", EVERY)


def written(home, count=EVENTS):
    """A plane that nobody has folded."""
    with memplane.init(home) as plane:
        plane.record_many(
            {"text": f"{n} boats", "kind": "fact", "key": f"boat.{n % 7}"}
            if n % 3 == 0
            else {"text": f"heron {n} in the pond", "session": f"s{n // 50}", "role": "user"}
            for n in range(1, count)
        )
    unfolded(home)
    return home


def unfolded(home):
    for file in (home / "projections").iterdir():
        file.unlink()


def all_of(plane, die):
    plane.context.caught_up(progress=lambda done, _: die(done))


def digests_alone(plane, die):
    """As in a plane into which a process that asks for nothing has written."""
    folds = plane.context.caught_up(lines_max=0, save_after=0)
    apply = Digests.apply

    def dying(projector, state, line):
        die(line.event.seq)
        apply(projector, state, line)

    Digests.apply = dying
    assert folds.digests


def folding(home, *, killed, what=all_of):
    """A process of its own that is killed once it has folded so many lines; whether it was."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 7)
        return code == 7
    code = 1
    try:
        plane = memplane.open(home)
        with plane.context.lock:
            what(plane, lambda done: os._exit(7) if done >= killed else None)
        code = 0
    finally:
        os._exit(code)


def kept(home):
    """Of each projection where its checkpoint stands, and its state."""
    found = {name: read_checkpoint(home / "projections" / f"{name}.json") for name in NAMES}
    return {name: (one.position.seq, one.state) for name, one in found.items() if one is not None}


def caught_up(home):
    """Fold the rest; how many lines that was, and what the memories are then."""
    seen = []
    with memplane.open(home) as plane, plane.context.lock:
        behind = plane.context.lines_to_fold(plane.upkeep.policies)
        plane.context.caught_up(progress=lambda done, _: seen.append(done))
        plane.context.save_all()
        rows = plane.context.caught_up().memories.replaced()
    assert seen[-1:] in ([], [EVENTS])
    return behind, rows


def test_the_next_process_folds_what_is_left(tmp_path, often):
    home = written(tmp_path / "p")
    assert folding(home, killed=KILLED)
    assert {seq for seq, _ in kept(home).values()} == {KILLED // EVERY * EVERY}
    behind, rows = caught_up(home)
    assert behind == EVENTS - KILLED // EVERY * EVERY
    assert len(rows) == len(range(3, EVENTS, 3)) - 7


def test_so_with_what_is_folded_later_than_all_others(tmp_path, often):
    home = written(tmp_path / "p")
    assert folding(home, killed=KILLED, what=digests_alone)
    found = {name: seq for name, (seq, _) in kept(home).items()}
    assert (found["digests"], found["hotset"]) == (KILLED // EVERY * EVERY, EVENTS)
    assert "files" not in found


def test_a_short_stretch_is_written_at_its_end_alone(tmp_path):
    home = written(tmp_path / "p")
    assert folding(home, killed=KILLED)
    assert not kept(home)


@given(st.lists(st.integers(1, EVENTS), min_size=1, max_size=3), st.integers(64, EVENTS))
def test_wherever_it_is_killed_the_states_are_those_of_one_fold(twins, stops, every):
    home, whole = twins
    unfolded(home)
    before, folds._SAVED_EVERY = folds._SAVED_EVERY, every
    try:
        for stop in stops:
            folding(home, killed=stop)
        _, rows = caught_up(home)
    finally:
        folds._SAVED_EVERY = before
    assert rows == caught_up(whole)[1]
    assert kept(home) == kept(whole)


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two planes of one log, of which the second is folded at once."""
    home = written(tmp_path_factory.mktemp("planes") / "p")
    whole = home.with_name("whole")
    shutil.copytree(home, whole)
    caught_up(whole)
    return home, whole


def test_before_a_purge_that_is_to_come_nothing_is_kept(tmp_path, often):
    home = written(tmp_path / "p", EVENTS - 2)
    with memplane.open(home) as plane:
        gone = plane.record("heron 7 must go")
        plane.upkeep.purge(gone.id)
    unfolded(home)
    assert folding(home, killed=KILLED)
    assert not kept(home)


@pytest.mark.parametrize("purged", [False, True])
def test_whether_one_is_to_come_is_not_looked_for_line_by_line(tmp_path, monkeypatch, purged):
    home = written(tmp_path / "p", EVENTS - 2 * purged)
    if purged:
        with memplane.open(home) as plane:
            plane.upkeep.purge(plane.record("heron 7 must go").id)
    asked, overtaken = [], projector.overtaken
    monkeypatch.setattr(projector, "overtaken", lambda *of: asked.append(of) or overtaken(*of))

    def count(every):
        unfolded(home)
        monkeypatch.setattr(folds, "_SAVED_EVERY", every)
        asked.clear()
        caught_up(home)
        return len(asked)

    assert (count(EVERY) == count(2 * EVENTS)) == purged


def test_a_plane_that_is_read_only_keeps_nothing(tmp_path, often):
    home = written(tmp_path / "p")
    with memplane.open(home, read_only=True) as plane:
        plane.pack("boats")
    assert not kept(home)
