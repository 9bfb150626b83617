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
        lambda: nofollow.read_bytes(path, home=home),
        lambda: nofollow.create_draft(path, home=home),
        lambda: nofollow.remove_name(path, home=home),
        lambda: nofollow.rename_name(path, path.with_name("new"), home=home),
        lambda: nofollow.link(path, path.with_name("new"), home=home),
        lambda: nofollow.folder_names(path.parent, home),
        lambda: nofollow.make_folder(path.parent / "new", home),
        lambda: nofollow.remove_tree(path.parent, home),
        lambda: nofollow.sync_folder(path.parent, home),
    ]
    for call in calls:
        with pytest.raises(StrangeFileError, match="is a link to"):
            call()
    assert nofollow.file_names(path.parent, home) == []
    assert sorted(one.name for one in outside.parent.iterdir()) == ["file"]
    assert outside.read_bytes() == OUTSIDE


def test_the_home_itself_may_be_reached_by_a_link_where_it_is_named(home, tmp_path):
    (tmp_path / "named").symlink_to(home)
    (home / "log" / "file").write_bytes(b"here")
    named = tmp_path / "named"
    assert nofollow.read_bytes(named / "log" / "file", home=named) == b"here"


def test_the_home_may_be_the_folder_that_one_stands_in(home, monkeypatch):
    (home / "log" / "file").write_bytes(b"here")
    monkeypatch.chdir(home)
    here = Path()
    assert nofollow.read_bytes(here / "log" / "file", home=here) == b"here"
    with pytest.raises(OSError, match="leads out of the plane"):
        nofollow.read_bytes(here / ".." / "outside" / "file", home=here)
    with pytest.raises(ValueError, match="expected a folder below"):
        nofollow.read_bytes(home / "log" / "file", home=here)


def test_a_temporary_folder_is_empty_and_the_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = Path(nofollow.temporary_folder())
    assert folder.parent == tmp_path
    assert not list(folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_name_that_leads_out_of_the_home_is_refused(home, outside):
    with pytest.raises(OSError, match="leads out of the plane"):
        nofollow.read_bytes(home / "log" / ".." / ".." / "outside" / "file", home=home)
    with pytest.raises(ValueError, match="expected a folder below"):
        nofollow.read_bytes(outside, home=home)


def test_a_new_file_takes_the_name_of_whatever_has_it_and_is_the_owners_alone(home, outside):
    for name, odd in ODD.items():
        if name == "a directory":
            continue
        path = home / "log" / "draft"
        odd(path, outside)
        os.close(nofollow.create_draft(path))
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert path.lstat().st_size == 0
        path.unlink()
    os.link(outside, home / "log" / "draft")
    os.close(nofollow.create_draft(home / "log" / "draft"))
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


def test_a_file_is_renamed_into_no_folder_that_is_a_link(home, outside):
    (home / "log" / "file").write_bytes(b"here")
    (home / "log" / "to").symlink_to(outside.parent)
    with pytest.raises(StrangeFileError, match="is a link to"):
        nofollow.rename_name(home / "log" / "file", home / "log" / "to" / "file")
    assert outside.read_bytes() == OUTSIDE
    assert nofollow.file_names(home / "log") == ["file"]


@pytest.mark.parametrize("most", [-1, 0, 1, 5, 10_000, 70_000])
def test_reading_gives_so_many_bytes_and_no_more(home, most):
    data = os.urandom(66_000)
    (home / "log" / "file").write_bytes(data)
    assert nofollow.read_bytes(home / "log" / "file", most) == (data if most < 0 else data[:most])


def test_what_a_thread_opens_reads_and_maps_is_counted_and_an_inner_count_stands_for_itself(home):
    one, other = home / "log" / "one", home / "log" / "other"
    one.write_bytes(b"0123456789")
    other.write_bytes(b"abc")
    with nofollow.counting(nofollow.Tally()) as outer:
        assert nofollow.read_bytes(one, 4) == b"0123"
        with nofollow.open_regular(one) as file:
            assert file.read(3) == b"012"
            assert nofollow.pread(file.fileno(), 2, 8) == b"89"
            nofollow.map_file(file).close()
        with nofollow.open_regular(other) as file:
            assert file.read() == b"abc"
        os.close(nofollow.create_draft(home / "log" / "new"))
        with nofollow.counting(nofollow.Tally()) as inner:
            nofollow.read_bytes(other)
        counted = (list(outer.files), outer.read, outer.mapped)
        assert (list(inner.files), inner.read, inner.mapped) == ([str(other)], 3, 0)
    with nofollow.open_regular(one) as file:
        nofollow.pread(file.fileno(), 2, 0)
        nofollow.map_file(file).close()
    assert (list(outer.files), outer.read, outer.mapped) == counted
    files, read, mapped = counted
    assert (files, mapped) == ([str(one), str(other)], 10)
    assert read == 4 + 10 + 2 + 3  # a buffered file is read to its end, or as far as its buffer
    outer.add(inner)
    assert (list(outer.files), outer.read) == ([str(one), str(other)], read + 3)


def test_what_a_library_reads_is_counted_as_far_as_the_system_says_it(home, monkeypatch):
    path = home / "log" / "file"
    path.write_bytes(bytes(1000))

    def elsewhere(opens):
        tally = nofollow.Tally()
        with nofollow.counting(tally), nofollow.reading_elsewhere(path, opens=opens):
            path.read_bytes()
        return list(tally.files), tally.read

    with nofollow.reading_elsewhere(path, opens=True):
        path.read_bytes()  # nobody counts
    if Path("/proc/thread-self/io").exists():
        assert elsewhere(opens=True) == ([str(path)], 1000)
        assert elsewhere(opens=False) == ([], 1000)
    really = os.open

    def without_proc(name, *rest, **more):
        if str(name).startswith("/proc/"):
            raise FileNotFoundError(name)
        return really(name, *rest, **more)

    monkeypatch.setattr(os, "open", without_proc)  # as on a system that counts nothing
    assert elsewhere(opens=True) == ([str(path)], 1000)
    assert elsewhere(opens=False) == ([], 0)


def test_a_folder_is_made_with_those_above_it_for_the_owner_alone(tmp_path):
    home = tmp_path / "some" / "home"
    nofollow.make_folder(home / "log" / "spool", home)
    nofollow.make_folder(home / "log" / "spool", home)
    for folder in (home, home / "log", home / "log" / "spool"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_walk_gives_regular_files_in_order_or_all_there_is_and_enters_no_link(home, outside):
    (home / "log" / "to").symlink_to(outside.parent)
    (home / "log" / "b").write_bytes(b"")
    (home / "log" / "spool" / "a").write_bytes(b"")
    top = f"{home}/log"
    assert list(nofollow.walk_files(top)) == [f"{top}/b", f"{top}/spool/a"]
    assert list(nofollow.walk_files(top, folders=True)) == [
        f"{top}/b", f"{top}/spool", f"{top}/spool/a", f"{top}/to",
    ]  # fmt: skip
    assert list(nofollow.walk_files(home / "none")) == []
    assert nofollow.file_names(home / "log") == ["b"]
    assert nofollow.folder_names(home / "none") == []


def test_a_call_that_fails_names_the_whole_path_and_leaves_what_is_there(home):
    folder, file = home / "log" / "spool", home / "log" / "file"
    (folder / "in").write_bytes(b"")
    file.write_bytes(b"here")
    for call in (
        lambda: nofollow.remove_name(home / "log" / "none"),
        lambda: nofollow.rename_name(home / "log" / "none", file),
        lambda: nofollow.rename_name(file, folder),
        lambda: nofollow.remove_folder(folder),
        lambda: nofollow.link(file, folder / "in"),
    ):
        with pytest.raises(OSError) as failed:
            call()
        assert failed.value.filename is not None
    assert file.read_bytes() == b"here"
    assert nofollow.file_names(folder) == ["in"]
    nofollow.link(file, folder / "other")
    nofollow.sync_folder(folder)
    assert nofollow.read_bytes(folder / "other") == b"here"


def test_whether_a_path_still_names_a_file_is_asked_of_the_path_itself(home, outside):
    file, link = home / "log" / "file", home / "log" / "to"
    file.write_bytes(b"")
    link.symlink_to(file)
    assert (nofollow.is_file(file), nofollow.is_file(link), nofollow.is_file("a\0b")) == (
        True, False, False,
    )  # fmt: skip
    nofollow.refuse_link(file, "a file")
    nofollow.refuse_link(home / "none", "a file")
    with pytest.raises(StrangeFileError, match="is a link to"):
        nofollow.refuse_link(link, "a file")


def test_a_copy_that_fails_leaves_the_file_with_its_names_and_no_draft(home, outside, monkeypatch):
    path = home / "log" / "file"
    os.link(outside, path)

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        nofollow.separate(path)
    assert (path.read_bytes(), path.stat().st_nlink) == (OUTSIDE, 2)
    assert nofollow.file_names(home / "log") == ["file"]


def test_no_descriptor_is_left_open(home, outside):
    (home / "log" / "file").write_bytes(b"here")
    os.mkfifo(home / "log" / "pipe")
    before = len(list(FDS.iterdir())) if FDS.exists() else 0
    for _ in range(3):
        nofollow.read_bytes(home / "log" / "file", home=home)
        nofollow.folder_names(home / "log" / "spool", home)
        for name in ("pipe", "none", "spool/none"):
            with pytest.raises(OSError):
                nofollow.read_bytes(home / "log" / name, home=home)
        nofollow.rename_name(home / "log" / "file", home / "log" / "spool" / "file", home=home)
        nofollow.rename_name(home / "log" / "spool" / "file", home / "log" / "file", home=home)
    assert before == (len(list(FDS.iterdir())) if FDS.exists() else 0)
