"""Making a plane: it is there when a power cut would leave it there, and not before."""

import errno
import os
import stat

import pytest

import memplane
from memplane.errors import HomeError


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_plane_whose_folders_were_not_synced_is_not_there(tmp_path, monkeypatch, failing):
    home, fsync, seen = tmp_path / "plane", os.fsync, []

    def refuse(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            seen.append(fd)
            if len(seen) == failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(HomeError, match="cannot make a plane here"):
        memplane.init(home)
    with pytest.raises(HomeError, match="memplane init"):
        memplane.open(home)
    monkeypatch.undo()
    with memplane.init(home) as plane:
        assert plane.record("now it is").seq == 2


def test_a_plane_is_made_in_the_folder_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memplane.init(".").close()
    assert (tmp_path / "plane.json").is_file()
    with memplane.open(tmp_path, environment={}) as plane:
        assert plane.record("the lock is shut").seq == 2
