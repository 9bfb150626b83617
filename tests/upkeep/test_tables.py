"""`export --sqlite`: five tables to be read, of what the owner may see, whole or not at all."""

import json
import sqlite3
import stat
import subprocess
import sys

import pytest

import memplane
from memplane import home as home_room
from memplane.errors import FormatError, InputError, WriteError
from memplane.upkeep import export

SECRET = "AKIA" + "Q3EGTZ7XKJ2M4NPR"


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False) as opened:
        yield opened


def rows(path, ask):
    with sqlite3.connect(path) as file:
        return file.execute(ask).fetchall()


def test_the_five_tables_hold_what_is_in_force(plane, tmp_path):
    plane.record("One cursor.", kind="decision", key="ledger.cursor", tags=["ledger"], session="s1")
    plane.record("Two cursors.", kind="decision", key="ledger.cursor", role="user")
    plane.record("Ana has a dog.", kind="fact", ns="/global")
    plane.record("How many?", role="user", session="s1", id="q")
    gone = plane.record("Forget me.", kind="fact", key="gone")
    plane.forget("gone")
    plane.work.tasks.open("T1", "Fix the parser.\nIt drops the last line.", tags=["parser"])
    (tmp_path / "report.csv").write_text("a,b\n")
    plane.work.artifacts.add(tmp_path / "report.csv")
    report = plane.upkeep.export_tables(tmp_path / "out.sqlite")
    out = tmp_path / "out.sqlite"
    assert rows(out, "PRAGMA user_version") == [(export.VERSION,)]
    names = rows(out, "SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")
    assert [name for (name,) in names] == sorted(export.NAMES)
    atoms = rows(out, "SELECT type, key, text, tags, task_id FROM atoms ORDER BY created_at")
    assert atoms == [
        ("decision", "ledger.cursor", "Two cursors.", "[]", None),
        ("fact", None, "Ana has a dog.", "[]", None),
    ]
    assert rows(out, "SELECT title, status, tags FROM tasks") == [
        ("Fix the parser.", "open", '["parser"]')
    ]
    (digest,) = rows(out, "SELECT task_id, short, paragraph, tokens FROM task_digests")
    assert digest[0] == "T1"
    assert "Fix the parser." in digest[1]
    assert digest[3] > 0
    ((mime, digest),) = rows(out, "SELECT mime, sha256 FROM artifacts")
    assert (mime, len(digest)) == ("text/csv", 64)
    kept = dict(rows(out, "SELECT id, payload_json FROM events"))
    assert gone.id not in kept
    assert json.loads(kept["q"])["text"] == "How many?"
    assert rows(out, "SELECT session_id, role, text FROM events WHERE id='q'") == [
        ("s1", "user", "How many?")
    ]
    for name in export.NAMES:
        assert report.rows[name] == rows(out, f"SELECT count(*) FROM {name}")[0][0]
    assert report.withheld == {"forgotten": 1}
    assert rows(out, "PRAGMA integrity_check") == [("ok",)]


def test_what_is_secret_stays_unless_asked_for_and_secrets_are_masked_in_every_column(
    plane, tmp_path
):
    plane.record("A hidden thing.", sensitivity="secret", id="hidden")
    plane.record(f"The key is {SECRET}", kind="fact", key="key", id="masked")
    out = tmp_path / "out.sqlite"
    report = plane.upkeep.export_tables(out)
    assert report.withheld == {"hidden": 1}
    assert b"hidden thing" not in out.read_bytes()
    assert SECRET.encode() not in out.read_bytes()
    plane.upkeep.export_tables(out, secret=True, kind="message", replace=True)
    assert rows(out, "SELECT id FROM events") == [("hidden",)]


def test_a_filter_takes_what_it_names(plane, tmp_path):
    for n in range(6):
        plane.record(f"Turn {n}.", role="user", session=f"s{n % 2}")
    plane.upkeep.export_tables(tmp_path / "out.sqlite", session="s1")
    assert rows(tmp_path / "out.sqlite", "SELECT DISTINCT session_id FROM events") == [("s1",)]


def test_a_plane_in_memory_is_exported_too(tmp_path):
    with memplane.open(":memory:") as plane:
        plane.record("A fact of a moment.", kind="fact")
        plane.upkeep.export_tables(tmp_path / "out.sqlite")
    assert rows(tmp_path / "out.sqlite", "SELECT text FROM atoms") == [("A fact of a moment.",)]


def test_what_is_there_stays_unless_it_is_to_be_replaced(plane, tmp_path):
    out = tmp_path / "out.sqlite"
    out.write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        plane.upkeep.export_tables(out)
    assert out.read_text() == "mine"
    plane.upkeep.export_tables(out, replace=True)
    assert rows(out, "SELECT count(*) FROM events") == [(0,)]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_link_is_replaced_and_not_followed(plane, tmp_path):
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "out.sqlite").symlink_to(tmp_path / "other")
    plane.upkeep.export_tables(tmp_path / "out.sqlite", replace=True)
    assert (tmp_path / "other").read_text() == "theirs"
    assert not (tmp_path / "out.sqlite").is_symlink()


JOURNALED = """
import os, sqlite3, sys
file = sqlite3.connect(sys.argv[1])
file.execute("PRAGMA journal_mode=WAL")
file.execute("CREATE TABLE mine (x)")
file.commit()
os._exit(0)
"""


def test_a_file_whose_newest_pages_lie_in_a_journal_is_not_replaced(plane, tmp_path):
    out = tmp_path / "out.sqlite"
    subprocess.run([sys.executable, "-c", JOURNALED, str(out)], check=True)
    assert (tmp_path / "out.sqlite-wal").exists()
    with pytest.raises(InputError, match=r"out\.sqlite-wal' is there"):
        plane.upkeep.export_tables(out, replace=True)
    assert rows(out, "SELECT name FROM sqlite_master") == [("mine",)]
    (tmp_path / "new.sqlite-journal").write_bytes(b"of a database that is there no more")
    with pytest.raises(InputError, match=r"new\.sqlite-journal' is there"):
        plane.upkeep.export_tables(tmp_path / "new.sqlite")
    assert not (tmp_path / "new.sqlite").exists()


def test_the_planes_own_folders_and_a_folder_that_is_none_are_refused(plane, tmp_path):
    with pytest.raises(InputError, match="the plane's own folder log/"):
        plane.upkeep.export_tables(plane.home / "log" / "00000009.jsonl")
    with pytest.raises(WriteError):
        plane.upkeep.export_tables(tmp_path / "nowhere" / "out.sqlite")
    with pytest.raises(InputError, match="expected a file"):
        plane.upkeep.export_tables(f"{tmp_path}/a\0b")


KILLED = """
import os, signal, sys, memplane
from memplane.upkeep import export
whole = export._rows
def killing(event, row, *, in_force):
    if event.seq > 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(event, row, in_force=in_force)
export._rows = killing
with memplane.open(sys.argv[1]) as plane:
    plane.upkeep.export_tables(sys.argv[2])
"""


def test_a_process_killed_meanwhile_leaves_no_file_of_that_name(plane, tmp_path):
    plane.record_many({"text": f"Turn {n}.", "role": "user"} for n in range(40))
    out = tmp_path / "out.sqlite"
    done = subprocess.run([sys.executable, "-c", KILLED, str(plane.home), str(out)], check=False)
    assert done.returncode == -9
    assert not out.exists()
    assert len(list(tmp_path.glob("*.new"))) == 1
    plane.upkeep.export_tables(out)
    assert rows(out, "SELECT count(*) FROM events") == [(40,)]
    assert not list(tmp_path.glob("*.new"))


def test_nothing_is_left_beside_it(plane, tmp_path):
    plane.record("x", role="user")
    plane.upkeep.export_tables(tmp_path / "out.sqlite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.sqlite", "plane"]


# The format of a plane, both ways.


def formatted(plane, found):
    file = plane.home / "plane.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": found}))
    return plane.home


@pytest.mark.parametrize("found", [0, -1, "1", 1.0, None, True, [1]])
def test_a_format_that_no_memplane_wrote_is_refused(plane, found):
    with pytest.raises(FormatError, match="no memplane wrote it"):
        memplane.open(formatted(plane, found))


def test_a_newer_format_and_an_older_one_without_a_migration_are_refused(plane, monkeypatch):
    with pytest.raises(FormatError, match="upgrade memplane"):
        memplane.open(formatted(plane, 2))
    monkeypatch.setattr(home_room, "FORMAT", 3)
    monkeypatch.setitem(home_room.MIGRATIONS, 2, lambda _: pytest.fail("not from the middle"))
    with pytest.raises(FormatError, match="cannot bring format 1 up to 3"):
        memplane.open(formatted(plane, 1))


def test_migrations_run_in_order_once(plane, monkeypatch):
    done = []
    monkeypatch.setattr(home_room, "FORMAT", 3)
    for step in (1, 2):
        monkeypatch.setitem(home_room.MIGRATIONS, step, lambda _, step=step: done.append(step))
    with memplane.open(formatted(plane, 1), read_only=True) as opened:
        assert opened.head().seq == 0
    assert done == [1, 2]
