"""`repair` at each step that can fail: nothing is lost, the next run finishes, nothing is silent."""

import errno
import shutil
from contextlib import suppress

import pytest
from damaging import (
    OTHER,
    PLANE,
    QuickDisk,
    clock,
    copied,
    draft,
    filled,
    messages,
    opened,
    quarantined,
    segment,
    tree,
)

from memplane.errors import PlaneError
from memplane.log import repair, verify


def torn(home, _):
    path = segment(home, 4)
    path.write_bytes(path.read_bytes() + b'{"seq":99,"id":')


def broken(home, _):
    (home / "log" / "00000004.broken").write_text('{"segment":4,"watermark":24,"plane":"demo"}')


def flipped(home, _):
    path = segment(home, 2)
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)


def several(home, theirs):
    """Damage in a sealed segment, two files that are no segments, and a torn end."""
    flipped(home, theirs)
    torn(home, theirs)
    shutil.copy(segment(theirs, 1), segment(home, 7))
    segment(home, 5).mkdir()


DAMAGE = [torn, broken, flipped, several]


class FailingDisk(QuickDisk):
    """The k-th call that changes something fails with an error, or ends the process before it."""

    def __init__(self, k, error):
        self.calls, self.k, self.error = 0, k, error

    def due(self):
        self.calls += 1
        if self.calls == self.k:
            raise self.error

    def write(self, fd, data):
        self.due()
        return super().write(fd, data)

    def fdatasync(self, fd):
        self.due()
        super().fdatasync(fd)

    def ftruncate(self, fd, size):
        self.due()
        super().ftruncate(fd, size)

    def replace(self, source, target):
        self.due()
        super().replace(source, target)

    def sync_directory(self, path):
        self.due()
        super().sync_directory(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    filled(folder / "ours")
    filled(folder / "theirs", plane=OTHER)
    return folder


@pytest.mark.parametrize("error", [OSError(errno.EIO, "no"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_whichever_call_fails_a_second_repair_finishes_and_no_byte_is_lost(
    tmp_path, made, damage, error
):
    base = copied(made / "ours", tmp_path / "base")
    damage(base, made / "theirs")
    whole = copied(base, tmp_path / "whole")
    counting = FailingDisk(0, error)
    repair(whole, PLANE, clock=clock, salvage=True, disk=counting)
    ids, kept = messages(whole)[0], quarantined(whole)
    assert counting.calls > 4
    for k in range(1, counting.calls + 1):
        home = copied(base, tmp_path / "home")
        failing = FailingDisk(k, error)
        with suppress(PlaneError, KeyboardInterrupt):
            repair(home, PLANE, clock=clock, salvage=True, disk=failing)
        assert messages(home)[0] == ids
        repair(home, PLANE, clock=clock, salvage=True, disk=QuickDisk())
        report = verify(home, PLANE)
        assert report.problems == ()
        assert messages(home)[0] == ids
        assert set(kept) <= set(quarantined(home))
        with opened(home, read_only=True) as log:
            told = [line.event.data for line in log.read() if line.event.kind == "repair"]
        named = {one["quarantine"] for one in told if one["quarantine"]}
        there = {path.name for path in (home / "log").glob("quarantine/*")}
        assert {name for name in there if ".new" not in name} <= named  # nothing without a word
        with opened(home) as log:
            log.append([draft("next")])


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_dry_run_says_what_a_repair_does_and_touches_nothing(tmp_path, made, damage):
    home = copied(made / "ours", tmp_path / "home")
    damage(home, made / "theirs")
    before = tree(home)
    plain = repair(home, PLANE, clock=clock, dry_run=True)
    full = repair(home, PLANE, clock=clock, salvage=True, dry_run=True)
    assert tree(home) == before
    assert plain.events == full.events == ()
    assert len(plain.steps) == len(full.steps) > 0
    needs = [step for step in plain.steps if "--salvage" in step.what]
    assert bool(needs) == (damage in (flipped, several))
    done = repair(home, PLANE, clock=clock, salvage=True)
    assert done.steps == full.steps
    assert {event.data["bytes"] for event in done.events} >= {
        step.bytes for step in full.steps if step.bytes
    }


def test_a_repair_of_a_whole_log_writes_nothing(tmp_path, made):
    home = copied(made / "ours", tmp_path / "home")
    before = {name: found[1] for name, found in tree(home).items() if "jsonl" in name}
    for salvage in (False, True):
        assert repair(home, PLANE, clock=clock, salvage=salvage) == ((), ())
    after = {name: found[1] for name, found in tree(home).items() if "jsonl" in name}
    assert after == before


@pytest.mark.parametrize(
    "damage", [None, *DAMAGE], ids=lambda damage: getattr(damage, "__name__", "none")
)
def test_verify_changes_nothing(tmp_path, made, damage):
    home = copied(made / "ours", tmp_path / "home")
    if damage is not None:
        damage(home, made / "theirs")
    before = tree(home)
    report = verify(home, PLANE)
    assert tree(home) == before
    assert report.ok == (damage is None)
