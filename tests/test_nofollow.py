"""Files below a plane: what is opened, what is refused, and that nothing outside is touched."""

import os
import socket
import stat
from pathlib import Path

import pytest

from memplane import nofollow
from memplane.errors import HomeError, StrangeFileError

OUTSIDE = b"bytes of the user\n"
FDS = Path("/proc/self/fd")


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    (folder / "log" / "spool").mkdir(parents=True)
    return folder


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    file = tmp_path / "outside" / "file"
    file.write_bytes(OUTSIDE)
    return file


def bound(path, _):
    with socket.socket(socket.AF_UNIX) as one:
        fd = nofollow.enter(path.parent)
        one.bind(f"/proc/self/fd/{fd}/{path.name}")  # a socket's name is short
        os.close(fd)


ODD = {
    "a link": lambda path, outside: path.symlink_to(outside),
    "a link to nothing": lambda path, outside: path.symlink_to(outside.with_name("none")),
    "a link within": lambda path, _: path.symlink_to("other"),
    "a pipe": lambda path, _: os.mkfifo(path),
    "a directory": lambda path, _: path.mkdir(),
    "a socket": bound,
}
if not FDS.exists():  # no name for a folder that is open
    del ODD["a socket"]


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_APPEND])
@pytest.mark.parametrize("name", ODD)
def test_what_is_no_file_is_refused_at_once_and_named(home, outside, name, flags):
    path = home / "log" / "file"
    (home / "log" / "other").write_bytes(b"within")
    ODD[name](path, outside)
    with pytest.raises(StrangeFileError) as refused:
        nofollow.open_file(path, flags)
    assert isinstance(refused.value, HomeError)
    assert str(refused.value).startswith(
        f"{path}: is {name.removesuffix(' to nothing').removesuffix(' within')}"
    )
    assert "expected a file" in str(refused.value)
    assert outside.read_bytes() == OUTSIDE
    assert sorted(one.name for one in outside.parent.iterdir()) == ["file"]


@pytest.mark.parametrize("name", ["log", "log/spool"])
def test_a_folder_that_is_a_link_is_entered_by_no_call(home, outside, name):
    (home / "log" / "spool").rmdir()
    if name == "log":
        (home / "log").rmdir()
    (home / name).symlink_to(outside.parent)
    path = home / "log" / "spool" / "file" if name == "log/spool" else home / "log" / "file"
    calls = [
        lambda: nofollow.read(path, home=home),
        lambda: nofollow.create(path, home=home),
        lambda: nofollow.remove(path, home=home),
        lambda: nofollow.rename(path, path.with_name("new"), home=home),
        lambda: nofollow.link(path, path.with_name("new"), home=home),
        lambda: nofollow.names(path.parent, home),
        lambda: nofollow.make_folder(path.parent / "new", home),
        lambda: nofollow.remove_tree(path.parent, home),
        lambda: nofollow.sync_folder(path.parent, home),
    ]
    for call in calls:
        with pytest.raises(StrangeFileError, match="is a link to"):
            call()
    assert nofollow.files(path.parent, home) == []
    assert sorted(one.name for one in outside.parent.iterdir()) == ["file"]
    assert outside.read_bytes() == OUTSIDE


def test_the_home_itself_may_be_reached_by_a_link_where_it_is_named(home, tmp_path):
    (tmp_path / "named").symlink_to(home)
    (home / "log" / "file").write_bytes(b"here")
    named = tmp_path / "named"
    assert nofollow.read(named / "log" / "file", home=named) == b"here"


def test_a_name_that_leads_out_of_the_home_is_refused(home, outside):
    with pytest.raises(OSError, match="leads out of the plane"):
        nofollow.read(home / "log" / ".." / ".." / "outside" / "file", home=home)
    with pytest.raises(ValueError, match="expected a folder below"):
        nofollow.read(outside, home=home)


def test_a_new_file_takes_the_name_of_whatever_has_it_and_is_the_owners_alone(home, outside):
    for name, odd in ODD.items():
        if name == "a directory":
            continue
        path = home / "log" / "draft"
        odd(path, outside)
        os.close(nofollow.create(path))
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert path.lstat().st_size == 0
        path.unlink()
    os.link(outside, home / "log" / "draft")
    os.close(nofollow.create(home / "log" / "draft"))
    assert outside.read_bytes() == OUTSIDE


def test_a_tree_goes_with_the_links_in_it_and_not_with_what_they_name(home, outside):
    (home / "log" / "to").symlink_to(outside.parent)
    (home / "log" / "spool" / "to").symlink_to(outside)
    nofollow.remove_tree(home / "log")
    assert not (home / "log").exists()
    assert outside.read_bytes() == OUTSIDE


def test_a_file_with_other_names_gets_bytes_of_its_own_once(home, outside):
    path = home / "log" / "file"
    os.link(outside, path)
    nofollow.separate(path)
    assert (path.read_bytes(), path.stat().st_nlink, outside.stat().st_nlink) == (OUTSIDE, 1, 1)
    before = path.stat().st_ino
    nofollow.separate(path)
    assert path.stat().st_ino == before
    nofollow.separate(home / "log" / "none")
    assert sorted(one.name for one in path.parent.iterdir()) == ["file", "spool"]


@pytest.mark.parametrize("most", [-1, 0, 1, 5, 10_000, 70_000])
def test_reading_gives_so_many_bytes_and_no_more(home, most):
    data = os.urandom(66_000)
    (home / "log" / "file").write_bytes(data)
    assert nofollow.read(home / "log" / "file", most) == (data if most < 0 else data[:most])


def test_no_descriptor_is_left_open(home, outside):
    (home / "log" / "file").write_bytes(b"here")
    os.mkfifo(home / "log" / "pipe")
    before = len(list(FDS.iterdir())) if FDS.exists() else 0
    for _ in range(3):
        nofollow.read(home / "log" / "file", home=home)
        nofollow.names(home / "log" / "spool", home)
        for name in ("pipe", "none", "spool/none"):
            with pytest.raises(OSError):
                nofollow.read(home / "log" / name, home=home)
        nofollow.rename(home / "log" / "file", home / "log" / "spool" / "file", home=home)
        nofollow.rename(home / "log" / "spool" / "file", home / "log" / "file", home=home)
    assert before == (len(list(FDS.iterdir())) if FDS.exists() else 0)
