"""Every file that a plane has, replaced by what is none: nothing hangs, and nothing outside changes.

The names are those that commands open, seen by an audit hook and by strace; the odd things are
links (out of the plane, to another of its files, to a device), pipes, devices, folders, and hard
links to a file of the user.
"""

import io
import os
import re
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import memplane
from memplane.__main__ import main
from memplane.adapters.claude_sessions import TranscriptIndex
from memplane.home import HOME_NAME

pytestmark = pytest.mark.timeout(120)  # what hangs is a fault
OUTSIDE = b'{"of":"the user","who":"never gave it away"}\n' * 40
LONG = "a text that does not fit a line of the log, word by word. " * 2000
COMMANDS = (
    ("record", "more of the ledger", "--key", "k1"), ("pack", "ledger", "--session", "s1"),
    ("search", "ledger"), ("log",), ("verify",), ("doctor",), ("policy", "check"), ("stats",),
    ("replay", "last"), ("show", "long"), ("export", "-o"), ("audit",), ("session", "end", "s1"),
    ("purge", "f2", "--yes"), ("repair",), ("rebuild",), ("record", "once more"),
)  # fmt: skip
FEW = (0, 1, 2, 4, 8)  # those that open the most
# Made by what a test does not do, or gone again when it is done.
NAMES_BESIDE = (
    "hooks.log", "log/00000002.jsonl", "log/00000001.broken", "log/.purging",
    "log/spool/20260105120000000000-412-9f86d081884c7d65.spool", "index/ids/00000001.ids",
    "projections/cache.sqlite-journal", "projections/cache.sqlite-wal",
    "projections/cache.sqlite-shm", "projections/cache.sqlite.tmp", "projections/hotset.json.tmp",
    "views/rules.project.md", "policies/.privacy.yaml.tmp",
)  # fmt: skip


def fill(home):
    """A plane with a file of every sort."""
    with memplane.init(home, durability="os") as plane:
        for number in range(70):
            plane.record(f"fact {number} of the ledger", kind="fact", key=f"k{number % 5}",
                         id=f"f{number}", session="s1")  # fmt: skip
        plane.record(LONG, id="long")
        plane.pack("ledger", budget=2000, session="s1")
        plane.search("ledger")
        transcripts = TranscriptIndex(plane._log, home / "projections", plane=plane.id)
        transcripts.catch_up()
        transcripts.close()
    (home / "views" / "notes.md").write_text("# Notes\n")
    (home / "log" / "quarantine").mkdir()
    (home / "log" / "quarantine" / "00000001-12-9f86d081884c7d65").write_bytes(b"torn")
    (home / "log" / "spool").mkdir(exist_ok=True)
    (home / "projections" / "hooks").mkdir()
    (home / "projections" / "hooks" / "0123.json").write_text("{}")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    home = tmp_path_factory.mktemp("filled") / HOME_NAME
    fill(home)
    return home


def names(home):
    files = [path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()]
    return sorted({*files, *NAMES_BESIDE})


def device(path, _):
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))


ODD = {
    "link out": lambda path, outside: path.symlink_to(outside),
    "link within": lambda path, _: path.symlink_to(within(path)),
    "link to a device": lambda path, _: path.symlink_to("/dev/zero"),
    "pipe": lambda path, _: os.mkfifo(path),
    "device": device,
    "folder": lambda path, _: path.mkdir(),
    "hard link": lambda path, outside: path.hardlink_to(outside),
}


def within(path):
    home = next(one for one in path.parents if one.name == HOME_NAME)
    return home / "log" / "00000001.jsonl"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command on a plane, here; its exit code, after a look at what it said."""

    def run(*words, home):
        monkeypatch.setenv("MEMPLANE_HOME", str(home))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
        if words[0] == "export":
            target = tmp_path / "export"
            target.unlink(missing_ok=True)
            words = ("export", "-o", str(target))
        capsys.readouterr()
        code = main([*words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err, (words, said.err)
        assert "of the user" not in said.out, words
        return code

    return run


def check(case, filled, tmp_path, run, commands):
    """Replace one file, run the commands, put it back: nothing outside changed, the plane works."""
    name, kind = case
    home, outside = tmp_path / HOME_NAME, tmp_path / "user" / "file"
    shutil.copytree(filled, home)
    outside.parent.mkdir()
    outside.write_bytes(OUTSIDE)
    os.utime(outside, ns=(10**18, 10**18))
    path, kept = home / name, tmp_path / "kept"
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        path.rename(kept)
    try:
        ODD[kind](path, outside)
    except PermissionError:
        pytest.skip(f"no {kind} may be made here")
    for words in commands:
        run(*words, home=home)
        assert outside.read_bytes() == OUTSIDE, words
        assert outside.stat().st_mtime_ns == 10**18, words
        assert [one.name for one in outside.parent.iterdir()] == ["file"], words
    if name.startswith("log/0") and kind == "hard link":
        return  # another file's bytes in the place of the log: what followed was recorded on them
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kept.exists():
        kept.rename(path)
    if run("verify", home=home):
        run("repair", "--salvage", home=home)
        run("rebuild", home=home)
    assert run("verify", home=home) == 0
    assert run("record", "as before", home=home) == 0
    assert run("pack", "ledger", home=home) == 0


def cases(home):
    return [(name, kind) for name in names(home) for kind in ODD]


def test_what_a_plane_keeps_may_be_anything_and_nothing_outside_changes(filled, tmp_path, run):
    """One name of each folder and sort, one odd thing each; the whole table is a long test."""
    of_a_sort = {re.sub(r"[0-9a-f]{8,}", "#", name): name for name in names(filled)}
    kinds = [*ODD]
    for number, name in enumerate(sorted(of_a_sort.values())[::4]):
        folder = tmp_path / str(number)
        folder.mkdir()
        commands = [COMMANDS[at] for at in FEW[number % 2 :: 2]]
        with suppress(pytest.skip.Exception):
            check((name, kinds[number % len(kinds)]), filled, folder, run, commands)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_name_and_every_odd_thing_and_every_command(filled, tmp_path, run):
    for number, case in enumerate(cases(filled)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with suppress(pytest.skip.Exception):
            check(case, filled, folder, run, COMMANDS)
        shutil.rmtree(folder)


WATCHED = """
import io, os, sys
home = os.environ["MEMPLANE_HOME"]
found = []
def hook(event, given):
    if event in ("open", "os.listdir", "os.scandir", "sqlite3.connect"):
        found.append((event, *given))
sys.addaudithook(hook)
from memplane.__main__ import main
for words in {commands!r}:
    sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
    main([*words])
for event, path, *rest in found:
    path = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else path
    if isinstance(path, str):
        print(event, path.replace("\\n", ""), rest[1] if event == "open" else 0, sep="\\t", file=sys.stderr)
"""


def test_no_command_opens_a_file_of_the_plane_by_a_path_that_follows_links(filled, tmp_path):
    """Seen by Python's own audit hook: names relative to a folder, and each with O_NOFOLLOW."""
    home = tmp_path / HOME_NAME
    shutil.copytree(filled, home)
    commands = [("export", "-o", str(tmp_path / "e")) if c[0] == "export" else c for c in COMMANDS]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(commands=commands)], capture_output=True, text=True,
        check=False, timeout=100, env={**os.environ, "MEMPLANE_HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = [line.split("\t") for line in done.stderr.splitlines() if line.count("\t") == 2]
    inside, bad = 0, []
    for event, path, flags in seen:
        ours = path.startswith(f"{home}/") or not path.startswith(("/", "."))
        if event == "sqlite3.connect":
            assert path == ":memory:" or path.startswith(
                ("file:///proc/self/fd/", "file:" + str(home))
            )
        if not ours or path.startswith((":", "file:", "<")):
            continue
        inside += 1
        if event != "open" or not int(flags) & os.O_NOFOLLOW:
            bad.append((event, path))
    assert inside > 100
    assert bad == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here")
def test_no_system_call_opens_a_file_of_the_plane_by_a_path_that_follows_links(filled, tmp_path):
    """As the audit hook, but of all code: sqlite's too, whose file was looked at before."""
    home = tmp_path / HOME_NAME
    shutil.copytree(filled, home)
    script = (
        "import io, sys\nfrom memplane.__main__ import main\n"
        f"for words in {[COMMANDS[at] for at in FEW]!r}:\n"
        "    sys.stdin = io.TextIOWrapper(io.BytesIO(b''))\n    main([*words])\n"
    )
    done = subprocess.run(
        ["strace", "-f", "-y", "-s", "400", "-o", str(tmp_path / "trace"), "-e",
         "trace=open,openat,creat,truncate", sys.executable, "-c", script],
        capture_output=True, text=True, check=False, timeout=100,
        env={**os.environ, "MEMPLANE_HOME": str(home)},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    seen, bad = 0, []
    for line in (tmp_path / "trace").read_text(errors="replace").splitlines():
        found = re.search(r'\w+\((?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)", ([A-Z_|]+)', line)
        if found is None:
            continue
        folder, name, flags = found.groups()
        path = os.path.normpath(Path(folder or "/", name))
        if path != str(home) and Path(path).is_relative_to(home):
            seen += 1
            if "O_NOFOLLOW" not in flags:
                bad.append(line)
    assert seen > 50
    assert bad == []
