"""The store of trusts: what it keeps, and which planes are located."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane.home import open_home
from memplane.trust import (
    TrustRecord,
    TrustStore,
    is_own_plane,
    located,
    location_of,
    printable,
    record_of,
    shell_word,
    state_folder,
    upward,
)


@pytest.fixture
def store(tmp_path):
    return TrustStore({"XDG_STATE_HOME": str(tmp_path / "state")})


@given(st.dictionaries(st.text(max_size=9), st.none() | st.binary(max_size=99), max_size=4))
def test_any_bytes_come_back_as_they_were_kept(tmp_path_factory, files):
    kept = TrustStore({"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))})
    record = TrustRecord("/a/\udcff/.memplane", "/b", "plane", "now", "0.1.0", "salt", files)
    kept.put(record)
    assert kept.get(record.location) == (record, "")
    assert kept.records() == [record]


def test_folders_are_for_the_owner_alone_and_no_draft_is_left(store, tmp_path):
    store.put(TrustRecord("/a", "/a", "p", "now", "0", "s", {}))
    store.meet("/b")
    below = [*(tmp_path / "state" / "memplane").rglob("*")]
    assert sorted(path.suffix for path in below) == ["", ".json", ".met"]
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in below}
    assert modes == {"": 0o700, ".json": 0o600, ".met": 0o600}


def test_what_was_met_is_listed_while_it_is_there_and_not_trusted(store, tmp_path):
    home = tmp_path / "plane"
    memplane.init(home, trusted=False).close()
    store.meet(str(home))
    store.meet("/nowhere/.memplane")
    assert [(one.location, one.asked) for one in store.met()] == [(str(home), False)]
    store.meet(str(home), asked=True)
    store.meet(str(home))
    assert store.was_asked(str(home))
    store.put(record_of(open_home(home), str(home), {}, "now"))
    assert store.met() == []


def test_a_relative_folder_of_state_or_home_is_not_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for environment in ({"XDG_STATE_HOME": "state", "HOME": "."}, {"HOME": ""}, {}):
        assert Path(state_folder(environment)).is_absolute()
        assert not state_folder(environment).startswith(str(tmp_path))
    assert not is_own_plane(str(tmp_path / "~" / ".memplane"), "~")
    memplane.init(tmp_path / "~" / ".memplane", trusted=False).close()
    assert located({}, str(tmp_path), "~") == (None, None, "")


def test_a_plane_is_found_by_its_place_whatever_way_leads_there(store, tmp_path):
    home = tmp_path / "work" / ".memplane"
    memplane.init(home, trusted=False).close()
    store.put(record_of(open_home(home), str(home), {}, "now"))
    (tmp_path / "way").symlink_to(tmp_path / "work")
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    for folder in ("work", "way", "work/.memplane", "work/.memplane/log", "work/./"):
        found = upward(environment, f"{tmp_path}/{folder}", "/nobody")
        assert found.home is not None, folder
        assert location_of(found.home.folder) == str(home)


@given(st.text())
def test_a_printed_path_is_one_line_and_a_shell_reads_the_quoted_one_back(text):
    assert printable(text).isprintable() or not text
    if text.isprintable() and "\0" not in text:
        import shlex

        assert shlex.split(shell_word(text)) == [text]


def on_terminal(words, cwd, environment, *answers):
    """Run a command on a terminal of its own; give back its code and all that was shown."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "memplane", *words], cwd=cwd, env=environment, stdin=theirs,
        stdout=theirs, stderr=theirs, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    shown, waiting, end = b"", list(answers), time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
            if waiting and shown.count(b"[y/N]") > len(answers) - len(waiting):
                os.write(ours, f"{waiting.pop(0)}\n".encode())
    os.close(ours)
    return child.wait(60), shown.decode()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["stats"], "y"), (["stats"], "n"), (["doctor"], "n"),
        (["install", "codex", "--project"], "y"),
    ],
)  # fmt: skip
def test_on_a_terminal_a_person_is_asked_once(tmp_path, words, answer):
    memplane.init(tmp_path / "work" / ".memplane", trusted=False).close()
    here = {"HOME": str(tmp_path / "ann"), "XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "ann").mkdir()
    environment = {**os.environ, **here, "MEMPLANE_HOME": ""}
    code, shown = on_terminal(words, tmp_path / "work", environment, answer)
    assert shown.count("[y/N]") == 1, shown
    assert "user id" in shown
    again, more = on_terminal(words, tmp_path / "work", environment)
    assert "[y/N]" not in more
    if answer == "y":
        assert (code == 3, again == 3) == (False, False), shown + more
        kept = [*(tmp_path / "state" / "memplane" / "trust").glob("*.json")]
        assert json.loads(kept[0].read_bytes())["location"] == str(tmp_path / "work" / ".memplane")
    else:
        assert (code, again) == (3, 3), shown + more
        assert "memplane trust" in more
