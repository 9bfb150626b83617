"""`verify`: each thing that a plane keeps, damaged in turn, is found, named, and nothing is written."""

import errno
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess

import pytest
from fakes_embedder import Anagrams

import memplane
from memplane import policy
from memplane.log import repair_log
from memplane.log.reader import MAGIC
from memplane.projections import projector
from memplane.projections.memories import put_sum
from memplane.search.service import index_service
from memplane.upkeep import verify
from memplane.upkeep.verify import witnesses
from memplane.wiring import open_plane
from tests.examples import sampled

NOW = "2026-01-05T12:00:00.000000Z"


def opened(home, **options):
    return memplane.open(home, durability="os", clock=lambda: NOW, embedder=Anagrams(), **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A plane with everything that verify looks at: bodies, artifacts, reports, index, vectors."""
    folder = tmp_path_factory.mktemp("verify")
    home = folder / "plane"
    memplane.init(home).close()
    (home / "views").mkdir(exist_ok=True)
    (home / "views" / "identity.md").write_text("You are a heron.\n")
    file = folder / "notes.md"
    file.write_text("# Herons\n\nThey nest in trees.\n")
    with opened(home) as plane:
        for number in range(300):
            plane.record(f"turn {number} of the herons", role="user", session=f"s{number % 4}")
        plane.record("x" * 2_000_000, kind="observation", id="big")
        plane.record("SQLite", kind="decision", key="db")
        plane.work.tasks.open("nests", "look for nests")
        plane.work.artifacts.add(file)
        plane.upkeep.index()
        plane.upkeep.embed()
        plane.pack("herons", session="s1", save_report=True)
        plane.work.sessions.list()
        with plane.context.lock:
            plane.context.caught_up().save()
    return home


@pytest.fixture
def home(made, tmp_path):
    return shutil.copytree(made, tmp_path / "plane")


def verified(home):
    with open_plane(home, read_only=True, clock=lambda: NOW) as plane:
        return plane.upkeep.verify()


def tree(home):
    return {
        path.relative_to(home).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


def found(home):
    """The files that findings name; all of them say where, what, what else, and a way out."""
    before = tree(home)
    report = verified(home)
    assert tree(home) == before
    for one in report.problems:
        assert one.found
        assert one.expected
        assert "`memplane " in one.command or "from a copy" in one.command
        assert "\n" not in str(one)
        assert str(one).startswith(f"{one.file}: byte {one.offset}: ")
    return [one.file for one in report.problems]


def test_of_a_whole_plane_nothing_is_found_and_nothing_is_written(home):
    report = verified(home)
    assert (report.problems, report.notes, report.mistakes) == ((), (), ())
    assert report.ok
    assert report.log.bodies == 1
    assert found(home) == []


def body(home, digest):
    return home / "bodies" / "sha256" / digest[:2] / digest[2:]


def digests(home):
    """The hashes of the spilled text, the artifact's copy, and a policy and view of the report."""
    with open_plane(home, read_only=True) as plane:
        text = plane.event("big").data["body"]["sha256"]
        artifact = next(plane.events(kind="artifact")).data["sha256"]
    (file,) = (home / "reports").glob("*.json")
    report = json.loads(file.read_text())
    return text, artifact, report["policies"]["budgets.yaml"], next(iter(report["views"].values()))


@pytest.mark.parametrize("which", range(4), ids=["text", "artifact", "policy", "view"])
def test_a_body_that_does_not_have_its_hash_is_named_with_who_names_it(home, which):
    digest = digests(home)[which]
    path = body(home, digest)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert found(home) == [f"bodies/sha256/{digest[:2]}/{digest[2:]}"]
    assert "damaged" in verified(home).problems[0].found
    path.unlink()
    if which < 2:
        assert "missing" in verified(home).problems[0].found
    else:  # a pack can be without them, only its replay cannot
        assert verified(home).ok
        assert any("no replay" in note for note in verified(home).notes)


def test_files_that_nothing_names_are_a_note(home):
    data = b"left by a crash"
    path = body(home, hashlib.sha256(data).hexdigest())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    report = verified(home)
    assert report.ok
    assert report.notes == (f"bodies: 1 files of {len(data)} bytes that nothing names",)


NAMES = ("hotset", "decisions", "tasks", "plane_map", "artifacts", "sessions", "files", "digests")


@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_a_projection_that_says_something_else_than_the_log_is_found(home, name):
    """Whole, of this plane and at its place in the log: only a fold from the start can tell."""
    path = home / "projections" / f"{name}.json"
    there = projector.read_checkpoint(path)
    with opened(home) as plane:
        folds = plane.context.caught_up()
        folds.open_files()
        opened_late = {"files": folds._files, "digests": folds.open_digests()}
        folded = opened_late[name] if name in opened_late else getattr(folds, name)
        fresh = folded.projector.dump(folded.projector.initial())
    assert fresh != there.state
    path.write_bytes(projector.encode_checkpoint(there._replace(state=fresh)))
    assert found(home) == []  # it has the sum that it states
    assert deeply(home) == [f"projections/{name}.json"]
    with opened(home) as plane:
        plane.upkeep.rebuild()
    assert deeply(home) == []


def test_what_nobody_keeps_is_not_folded_to_be_compared(home):
    for name in ("sessions.json", "files.json", "digests.json"):
        (home / "projections" / name).unlink()
    with open_plane(home, read_only=True, clock=lambda: NOW) as plane:
        assert plane.upkeep.verify(deep=True).ok
        folds = plane.context._folds
        assert not folds.sessions_opened
        assert not folds.files_opened
        assert not folds.digests_opened


def test_a_table_of_keys_that_says_something_else_than_the_log_is_found(home):
    with sqlite3.connect(home / "projections" / "cache.sqlite") as cache:
        cache.execute("UPDATE memories SET importance=1")
    cache.close()
    assert deeply(home) == []  # it has not its sum, so nobody believes it
    assert [note.partition(":")[0] for note in verified(home).notes] == ["cache.sqlite"]
    put_sum(home / "projections" / "cache.sqlite")
    assert verified(home).notes == ()
    assert deeply(home) == ["projections/cache.sqlite"]


def deeply(home):
    with open_plane(home, read_only=True, clock=lambda: NOW) as plane:
        return [one.file for one in plane.upkeep.verify(deep=True).problems]


def test_deep_holds_the_parsed_policies_against_the_policies(home):
    assert deeply(home) == []
    (form,) = (home / "projections").glob("policy-*.json")
    key = form.name.removeprefix("policy-").removesuffix(".json")
    kept = policy.form_of(key, form.read_bytes())
    kept.documents["budgets.yaml"]["default_pack_tokens"] = 77
    form.write_bytes(policy.packed_form(key, kept))
    assert found(home) == []
    assert deeply(home) == ["projections/policy-*.json"]


def test_an_index_whose_bytes_changed_behind_its_stamps_is_found(home):
    for path in sorted((home / "index").glob("*.bin")):
        state = path.stat()
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        assert f"index/{path.name}" in found(home)
    with opened(home) as plane:
        plane.upkeep.rebuild()
    assert found(home) == []


def test_caches_that_would_not_be_believed_anyway_are_notes(home):
    (home / "projections" / "hotset.json").write_bytes(b"torn")
    (home / "index" / "dense" / "rows.i8").write_bytes(b"torn")
    report = verified(home)
    assert report.ok
    assert len(report.notes) == 2
    assert all("made again" in note for note in report.notes)


def shortened(home, lines):
    file = home / "log" / "00000001.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:lines]))


@pytest.mark.parametrize("kept", ["projections", "index", "reports"])
def test_a_log_that_is_shorter_than_what_was_made_from_it_is_found_by_each_that_knows(home, kept):
    shortened(home, 200)
    for name in {"projections", "index", "reports"} - {kept}:
        shutil.rmtree(home / name)
    assert {file.partition("/")[0] for file in found(home)} == {kept}
    assert all("log ends with seq 200" in one.found for one in verified(home).problems)
    assert repaired(home) == [("ended", 200)]
    assert found(home) == []
    assert repaired(home) == []


def repaired(home):
    with open_plane(home, read_only=True) as plane:
        told, name = list(witnesses(home, plane.id)), plane.id
    done = repair_log(home, name, clock=lambda: NOW, witnesses=told)
    return [(event.data["case"], event.data["last_seq"]) for event in done.events]


def test_a_plane_whose_log_is_gone_is_read_and_not_begun_anew_until_a_repair_says_so(home):
    shutil.rmtree(home / "log")
    assert "projections/hotset.json" in found(home)
    with opened(home) as plane:
        plane.pack("herons")
        with pytest.raises(memplane.CorruptError, match="`memplane repair`"):
            plane.record("the first of another log")
    assert repaired(home) == [("ended", 0)]
    with opened(home) as plane:
        assert plane.record("the first of another log").seq == 3
        assert plane.upkeep.differing() == []
    assert found(home) == []


def test_a_table_of_ids_that_says_something_else_than_its_segment_is_found(home):
    """With sums and place right: made by a memplane that was wrong."""
    from memplane.log import FileLog

    shutil.rmtree(home)
    memplane.init(home).close()
    with memplane.open(home) as plane:
        name = plane.id
    log = FileLog(home, name, clock=lambda: NOW, segment_bytes_max=2_000)
    with opened(home) as plane:
        drafts = [plane.context.drafting()({"text": f"t{n}", "id": f"e{n}"}, "") for n in range(30)]
    with log:
        for draft in drafts:
            log.append([draft])
        assert log.find("e0") is not None
    assert found(home) == []
    path = home / "index" / "ids" / "00000001.ids"
    data = bytearray(path.read_bytes())
    assert data.startswith(MAGIC)
    data[-40] ^= 1
    data[-16:] = hashlib.sha256(data[:-16]).digest()[:16]
    path.write_bytes(data)
    assert found(home) == ["index/ids/00000001.ids"]


def test_what_lies_in_the_spool_and_cannot_be_taken_in_is_found(home):
    folder = home / "log" / "spool"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "20260105120000000000-5-9f86d081884c7d65.spool").write_bytes(b"torn\n")
    assert found(home) == ["log/spool/20260105120000000000-5-9f86d081884c7d65.spool"]
    with opened(home) as plane:
        plane.record("the next writer sets it aside")
    assert found(home) == []


def test_with_a_mistake_in_the_policies_the_log_is_still_verified(home):
    (home / "policies" / "budgets.yaml").write_text("version: 1\nacb_total_max_tokens: many\n")
    report = verified(home)
    assert report.ok
    assert not report.compared
    assert len(report.mistakes) == 1


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("processes", [1, 2])
def test_progress_goes_through_all_parts_and_never_back(home, beside, deep, processes):
    told = []
    with open_plane(home, read_only=True) as plane:
        plane.upkeep.verify(
            lambda done, total: told.append(done / total), deep=deep, processes=processes
        )
    assert told == sorted(told)
    assert told[-1] == 1
    assert len(set(told)) > (20 if deep else 2)


def kept_files(home):
    folders = [home / "projections", home / "index"]
    names = (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())
    unsummed = {".lock", "stamps.json", "imports.json", "projects.json", "segments.json", "shown"}
    return [path for path in names if not unsummed & {path.name, path.parent.name}]


def test_whatever_byte_of_a_projection_or_an_index_changed_is_told(home):
    """In a file with a sum: by a finding or a note, also where nobody would believe it."""
    assert verified(home).notes == ()
    for path in kept_files(home):
        if path.name.startswith("policy-") or path.parent.name in ("ids", "dense", "static"):
            continue  # their readers check them: see the tests above
        data, state = path.read_bytes(), path.stat()
        for at in {0, len(data) // 3, len(data) // 2, len(data) - 3}:
            harmed = bytearray(data)
            harmed[at] ^= 1
            path.write_bytes(harmed)
            report = verified(home)
            assert report.problems or report.notes, (path, at)
        path.write_bytes(data)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.fixture
def beside(monkeypatch):
    """Logs of any length are long enough for a process beside."""
    monkeypatch.setattr(verify, "_LINES_MIN", 1)


def forged_index(home):
    """An index that was made of another log, whole and with its sums."""
    with opened(home) as plane:
        service = index_service(plane.context)
        indexed = service.index(plane.context.watched.policies())
        documents = indexed._documents
        indexed._documents = lambda event, **known: [
            one._replace(text=one.text.upper()) for one in documents(event, **known)
        ]
        indexed._restart()
        indexed.catch_up(save=False)
        assert indexed.save()


@pytest.mark.parametrize("processes", [1, 2])
def test_an_index_that_says_something_else_than_the_log_is_found_by_however_many(
    home, beside, processes
):
    forged_index(home)
    assert found(home) == []
    with open_plane(home, read_only=True, clock=lambda: NOW) as plane:
        report = plane.upkeep.verify(deep=True, processes=processes)
    assert [one.file for one in report.problems] == ["index/manifest.json"]


def test_where_no_process_can_be_started_or_it_dies_one_does_it_all(home, beside, monkeypatch):
    forged_index(home)
    before = tree(home)
    popen, tried = subprocess.Popen, []

    def refused(*_, **__):
        tried.append("refused")
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def dying(words, **more):
        tried.append("died")
        return popen([words[0], "-c", "import sys; sys.stdin.read(); print('[1, 2]')"], **more)

    for starts in (refused, dying):
        monkeypatch.setattr(subprocess, "Popen", starts)
        with open_plane(home, read_only=True, clock=lambda: NOW) as plane:
            report = plane.upkeep.verify(deep=True, processes=2)
        assert [one.file for one in report.problems] == ["index/manifest.json"]
    assert {"refused", "died"} <= set(tried)
    assert tree(home) == before
