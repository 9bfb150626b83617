"""memplane with one thing left out or done in another order: what the layers must catch.

Each is a small change of real code by `monkeypatch`. A fault harness that does not notice these
would not notice the mistake either.
"""

import fcntl
import shutil
import time
from pathlib import Path

from memplane.errors import WriteError
from memplane.log import writer
from memplane.log.disk import Disk, LogLock, SharedSync
from memplane.log.log import FileLog
from memplane.log.writer import Writer
from memplane.upkeep import purge


def no_sync(patch):
    patch.setattr(Disk, "fdatasync", lambda *_: None)


def no_directory_sync(patch):
    patch.setattr(Disk, "sync_directory", lambda *_: None)


def unchecked_short_write(patch):
    def write(self, active, batch):
        try:
            self.disk.write(active.fd, batch)
        except OSError as error:
            self._take_back(active)
            raise WriteError(str(error)) from error

    patch.setattr(Writer, "write", write)


def no_tail_repair(patch):
    real = writer.judge

    def judge(data, believed, known):
        judged = real(data, believed, known)
        return judged._replace(case="whole") if judged.case == "torn" else judged

    patch.setattr(writer, "judge", judge)


def acknowledged_before_the_sync(patch):
    """Each append syncs what the one before it acknowledged."""
    real, late = FileLog._settle, {}

    def settle(self, active, receipts, *, alone):
        before = late.get(id(self))
        late[id(self)] = (active, receipts)
        if before is not None:
            real(self, *before, alone=alone)

    patch.setattr(FileLog, "_settle", settle)


def sync_retried(patch):
    real = Disk.fdatasync

    def fdatasync(self, fd):
        try:
            real(self, fd)
        except OSError:
            real(self, fd)

    patch.setattr(Disk, "fdatasync", fdatasync)


def covered_by_any_sync(patch):
    """A sync of this file by another process spares one, whenever it was."""
    patch.setattr(
        SharedSync, "_covers", lambda self, _fd, file, _end: self._mark().startswith(file)
    )


def seq_before_the_write(patch):
    """The seq counts on although nothing was written."""
    real = Writer.write

    def write(self, active, batch):
        lines = batch.count(b"\n")
        active.seq += lines
        real(self, active, batch)
        active.seq -= lines

    patch.setattr(Writer, "write", write)


def repair_without_the_lock(patch):
    held = []
    acquire, set_aside = LogLock.acquire, Writer._set_aside

    def remembered(self, *args, **options):
        held[:] = [self]
        return acquire(self, *args, **options)

    def unlocked(self, *args):
        fcntl.flock(held[0]._fd, fcntl.LOCK_UN)
        time.sleep(0.03)  # on a loaded machine too, another writer comes in between
        set_aside(self, *args)
        fcntl.flock(held[0]._fd, fcntl.LOCK_EX)

    patch.setattr(LogLock, "acquire", remembered)
    patch.setattr(Writer, "_set_aside", unlocked)


def projection_ahead_of_the_log(patch):
    """A checkpoint is believed whether or not the log still has its place."""
    patch.setattr(FileLog, "matches", lambda *_: True)


def purge_without_the_index(patch):
    patch.setattr(purge, "_erase_from_index", lambda *_: None)


def purge_by_rename(patch):
    real = writer._overwrite_in

    def overwrite_in(path, *args):
        beside = f"{path}.beside"
        shutil.copyfile(path, beside)
        done = real(beside, *args)
        Path(beside).replace(path)
        return done

    patch.setattr(writer, "_overwrite_in", overwrite_in)
