"""A whole export, and the plane that comes back from it: the same bytes, and a file that is made whole or not at all."""

import io
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import threading

import pytest
from builders_exports import (
    SEED,
    TEXTS,
    clock,
    exported,
    fill,
    in_short_segments,
    is_well,
    made,
    opened,
    refused,
    small,
    tree,
)
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import InputError, PlaneError, WriteError
from memplane.log import Disk, verify_log
from memplane.log.export import read_export
from memplane.upkeep.export import ExportFilter, export_plane
from memplane.upkeep.restore import check_export
from tests.examples import examples


def test_a_restored_plane_has_the_same_bytes_in_log_and_bodies_and_is_well(filled, tmp_path):
    report = exported(filled, tmp_path / "e.jsonl")
    assert (report.whole, report.damaged, report.lost) == (True, 0, 0)
    assert len(list((filled / "log").glob("*.jsonl"))) > 3
    assert report.bodies == 4
    back = memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    assert back.merged is None
    assert tree(tmp_path / "back") == tree(filled)
    assert json.loads((tmp_path / "back" / "plane.json").read_text())["plane"] == report.plane
    is_well(tmp_path / "back")


def test_what_was_restored_is_for_its_owner_alone(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    assert stat.S_IMODE((tmp_path / "e.jsonl").stat().st_mode) == 0o600
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    for path in [tmp_path / "back", *(tmp_path / "back").rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == wanted & 0o077, path


def test_every_pack_of_a_restored_plane_has_the_bytes_of_the_original(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    rng = random.Random(SEED)
    with opened(filled) as ours, opened(tmp_path / "back") as theirs:
        head = ours.head().seq
        for _ in range(40):
            asked = {
                "budget": rng.choice((150, 600, 1500, 4000, 20000)),
                "channel": rng.choice(("private", "team", "agent")),
                "intent": rng.choice(("auto", "fast", "deep", "orient")),
                "session": rng.choice(("s1", "s2", None)),
                "as_of": rng.choice((head, rng.randrange(1, head + 1))),
                "now": rng.choice(("2026-01-05T12:00:00Z", "2027-01-05T12:00:00Z")),
            }
            query = rng.choice(TEXTS)
            assert ours.pack(query, **asked).text == theirs.pack(query, **asked).text, asked


@settings(max_examples=examples(8))
@given(seed=st.integers(0, 2**32), events=st.integers(0, 25))
def test_export_restore_export_gives_the_same_bytes(tmp_path_factory, seed, events):
    folder = tmp_path_factory.mktemp("again")
    with made(folder / "plane") as plane:
        fill(plane, random.Random(seed), events)
        first = plane.upkeep.export(folder / "1.jsonl")
    memplane.restore(folder / "1.jsonl", folder / "back", clock=clock)
    with opened(folder / "back") as plane:
        second = plane.upkeep.export(folder / "2.jsonl")
    assert second._replace(path=None) == first._replace(path=None)
    assert (folder / "1.jsonl").read_bytes() == (folder / "2.jsonl").read_bytes()
    shutil.rmtree(folder)


def test_a_stream_gets_the_bytes_of_the_file(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    stream = io.BytesIO()
    assert exported(filled, stream).path is None
    assert stream.getvalue() == (tmp_path / "e.jsonl").read_bytes()
    memplane.restore(stream, tmp_path / "back", clock=clock)
    assert tree(tmp_path / "back") == tree(filled)


def test_a_restored_plane_goes_on_where_the_original_stood(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    lines = []
    for home in (filled, tmp_path / "back"):
        with opened(home) as plane:
            plane.record("one more", id="more")
            lines.append(plane.event("more"))
    assert lines[0]._replace(h="", dur=0) == lines[1]._replace(h="", dur=0)
    is_well(tmp_path / "back")


def test_what_a_damaged_plane_has_lost_is_told_and_no_more_is_lost(filled, tmp_path):
    sealed = sorted((filled / "log").glob("*.jsonl"))[1]
    data = bytearray(sealed.read_bytes())
    data[len(data) // 2] ^= 1
    sealed.write_bytes(data)
    sorted((filled / "log").glob("*.jsonl"))[3].unlink()
    body = next(path for path in (filled / "bodies").rglob("*") if path.is_file())
    body.unlink()
    with opened(filled) as plane:
        report = plane.upkeep.export(tmp_path / "e.jsonl")
    assert (report.damaged, report.lost) == (2, 1)
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    assert tree(tmp_path / "back") == tree(filled)
    theirs, ours = (verify_log(home, report.plane) for home in (filled, tmp_path / "back"))
    assert theirs.problems
    assert (ours.head, len(ours.problems)) == (theirs.head, len(theirs.problems))


def test_an_export_is_of_one_head_while_writers_go_on(filled, tmp_path):
    stop = threading.Event()

    def write(name):
        with opened(filled) as plane:
            in_short_segments(plane)
            n = 0
            while not stop.is_set():
                plane.record(f"{name} {n}", id=f"{name}-{n}")
                n += 1

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    try:
        for n in range(2):
            before = memplane.open(filled, read_only=True, environment={})
            with before:
                least = before.head().seq
            report = exported(filled, tmp_path / f"{n}.jsonl")
            assert report.seq >= least
            back = tmp_path / f"back{n}"
            memplane.restore(tmp_path / f"{n}.jsonl", back, clock=clock)
            with opened(back) as plane:
                assert (plane.head().seq, plane.head().h) == (report.seq, report.h)
            assert verify_log(back, report.plane).problems == ()
        is_well(back)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_file_that_is_there_is_replaced_only_if_that_is_said(filled, tmp_path):
    (tmp_path / "e.jsonl").write_text("mine")
    with opened(filled) as plane:
        with pytest.raises(InputError, match="is there already"):
            plane.upkeep.export(tmp_path / "e.jsonl")
        assert (tmp_path / "e.jsonl").read_text() == "mine"
        plane.upkeep.export(tmp_path / "e.jsonl", replace=True)
    check_export(io.BytesIO((tmp_path / "e.jsonl").read_bytes()), "e.jsonl")


def test_a_pipe_or_folder_is_not_replaced_even_if_that_is_said(filled, tmp_path):
    """Nor a device: an export to /dev/null by root would leave a file in its place."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with opened(filled) as plane:
        for name in ("pipe", "folder"):
            with pytest.raises(InputError, match="no file that could be replaced"):
                plane.upkeep.export(tmp_path / name, replace=True)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(tmp_path.iterdir()) == before


def test_no_export_is_written_among_the_files_of_the_plane_itself(filled, tmp_path):
    before = tree(filled, caches=True)
    (tmp_path / "link").symlink_to(filled / "log")
    with opened(filled) as plane:
        for folder in (filled / "log", filled / "bodies" / "sha256", tmp_path / "link"):
            with pytest.raises(InputError, match="own folder"):
                plane.upkeep.export(folder / "00000009.jsonl")
    assert tree(filled, caches=True) == before


def test_a_plane_that_may_only_be_read_can_be_exported(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    before = tree(filled, caches=True)
    with memplane.open(filled, read_only=True, environment={}) as plane:
        plane.upkeep.export(tmp_path / "2.jsonl")
        plane.upkeep.export(tmp_path / "3.jsonl", kind="decision")
    assert (tmp_path / "2.jsonl").read_bytes() == (tmp_path / "e.jsonl").read_bytes()
    assert tree(filled, caches=True) == before


class RefusingDisk(Disk):
    """The k-th call that could be refused is."""

    def __init__(self, k):
        self.calls, self.k = 0, k

    def count(self):
        self.calls += 1
        if self.calls == self.k:
            raise OSError(28, "No space left on device")

    def write(self, fd, data):
        self.count()
        return super().write(fd, data[: len(data) // 2 + 1])  # and never all of it at once

    def fdatasync(self, _):
        self.count()

    def replace(self, source, target, home=None):
        self.count()
        super().replace(source, target, home)

    def sync_directory(self, *_):
        self.count()


def test_an_export_that_the_disk_refuses_leaves_no_file_at_any_step(tmp_path):
    home, data = small(tmp_path)
    with opened(home) as plane:
        counting = RefusingDisk(0)
        export_plane(
            plane.context,
            tmp_path / "e",
            ExportFilter(),
            replace=False,
            progress=None,
            disk=counting,
        )
        assert (tmp_path / "e").read_bytes() == data
        (tmp_path / "e").unlink()
        before = sorted(tmp_path.iterdir())
        for k in range(1, counting.calls):
            with pytest.raises(WriteError, match="nothing was exported"):
                export_plane(
                    plane.context, tmp_path / "e", ExportFilter(), replace=False, progress=None,
                    disk=RefusingDisk(k),
                )  # fmt: skip
            assert sorted(tmp_path.iterdir()) == before


def test_a_stream_that_was_overtaken_by_a_repair_has_no_last_line(filled, monkeypatch):
    stream = io.BytesIO()
    with opened(filled) as plane:
        monkeypatch.setattr(plane._log, "matches", lambda _: False)
        with pytest.raises(PlaneError, match="no last line"):
            plane.upkeep.export(stream)
    refused(stream.getvalue())


def test_reading_an_export_holds_no_more_than_a_part_of_it_at_once(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    with (tmp_path / "e.jsonl").open("rb") as file:
        sizes = [len(getattr(item, "data", b"")) for item in read_export(file, "e.jsonl")]
    assert sum(sizes) > 1_500_000
    assert max(sizes) <= 1024 * 1024


def test_what_exports_to_the_same_name_left_that_died_goes_and_nothing_else(filled, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f"e.jsonl.{ended.pid}.new"
    others = [
        tmp_path / f"e.jsonl.{os.getppid()}.new", tmp_path / f"other.jsonl.{ended.pid}.new",
        tmp_path / "e.jsonl.new", tmp_path / "e.jsonl.x.new",
    ]  # fmt: skip
    for path in (left, *others):
        path.write_bytes(b"half of a plane")
    exported(filled, tmp_path / "e.jsonl")
    assert not left.exists()
    assert all(path.exists() for path in others)
