"""plane.work.artifacts: what is added and how it is named, what is refused."""

import os
import socket
from pathlib import Path

import pytest

import memplane
from memplane.errors import InputError, NotFoundError
from memplane.log.segments import body_path


def body_of(plane, added):
    return Path(body_path(str(plane.home), added.facts.sha256))


# --- adding ---


def test_a_copy_has_its_bytes_in_the_plane_and_its_facts_in_an_event(plane, file):
    added = plane.work.artifacts.add(
        file(), "on herons", task="t", session="s", tags=["birds"], sensitivity="low", actor="ann"
    )
    event = added.receipt.event
    assert (event.kind, event.ns, event.task, event.session) == ("artifact", "/task/t", "t", "s")
    assert (event.text, event.tags, event.actor) == ("on herons", ("birds",), "ann")
    digest = added.facts.sha256
    assert event.data == {
        "uri": f"artifact://sha256/{digest}", "name": "report.md", "mime": "text/markdown",
        "bytes": 30, "sha256": digest, "stored": "copy",
    }  # fmt: skip
    path = body_of(plane, added)
    assert path.read_bytes() == file().read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_reference_stays_where_it_is(plane, file):
    path = file("deep/notes.txt")
    link = path.with_name("link.txt")
    link.symlink_to(path)
    added = plane.work.artifacts.add(link, reference=True)
    assert added.facts.path == str(path)
    assert (added.facts.stored, added.facts.name) == ("reference", "notes.txt")
    assert not body_of(plane, added).exists()


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a.md", "x", "text/markdown"), ("a.py", "x", "text/x-python"), ("a.json", "{}", "application/json"),
        ("a.yaml", "x: 1", "application/yaml"), ("a", "words", "text/plain"), ("a.png", "words", "text/plain"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", "image/png"), ("a.txt", b"\0\1\2", "application/octet-stream"),
        ("a.md", b"\xff\xfe\0", "application/octet-stream"), ("a.tar.gz", b"\x1f\x8b\0", "application/gzip"),
        ("empty.txt", "", "text/plain"),
    ],
)  # fmt: skip
def test_the_type_is_what_the_name_says_unless_the_bytes_say_otherwise(
    plane, file, name, data, mime
):
    assert plane.work.artifacts.add(file(name, data)).facts.mime == mime


def test_the_same_file_twice_is_one_event(plane, file):
    first = plane.work.artifacts.add(file(), "on herons")
    again = plane.work.artifacts.add(file(), "on herons", session="another")
    assert (again.receipt.seq, again.receipt.duplicate) == (first.receipt.seq, True)
    others = [
        plane.work.artifacts.add(file(), "on herons", name="other.md"),
        plane.work.artifacts.add(file(), "on herons", key="k"),
        plane.work.artifacts.add(file(), "on herons", ns="/task/t"),
        plane.work.artifacts.add(file(), "on birds"),
        plane.work.artifacts.add(file(), "on herons", sensitivity="high"),
        plane.work.artifacts.add(file(), "on herons", reference=True),
    ]
    assert [one.receipt.duplicate for one in others] == [False] * 6
    assert len({one.receipt.id for one in (first, *others)}) == 7


def test_what_was_forgotten_is_added_again_as_another_that_nobody_approved(plane, file):
    first = plane.work.artifacts.add(file())
    plane.work.artifacts.approve(first.receipt.seq)
    plane.forget(id=first.receipt.id)
    again = plane.work.artifacts.add(file())
    assert again.receipt.duplicate is False
    assert plane.work.artifacts.show(again.receipt.seq).approved is False
    assert plane.work.artifacts.add(file()).receipt.seq == again.receipt.seq
    with pytest.raises(NotFoundError, match=f"artifact {first.receipt.seq} is forgotten"):
        plane.work.artifacts.approve(first.receipt.seq)


def test_under_a_key_a_newer_file_takes_the_place_of_the_older(plane, file):
    first = plane.work.artifacts.add(file(data="one"), key="report")
    second = plane.work.artifacts.add(file(data="two"), key="report")
    third = plane.work.artifacts.add(file(data="one"), key="report")
    assert not third.receipt.duplicate
    assert [one.seq for one in plane.work.artifacts.list()] == [third.receipt.seq]
    listed = plane.work.artifacts.list(all=True)
    assert [(one.seq, one.archived) for one in listed] == [
        (third.receipt.seq, None), (second.receipt.seq, "superseded"),
        (first.receipt.seq, "superseded"),
    ]  # fmt: skip


def test_an_id_of_the_callers_own_is_the_key_of_the_log(plane, file):
    first = plane.work.artifacts.add(file(), id="mine")
    assert first.receipt.id == "mine"
    assert plane.work.artifacts.add(file(), id="mine").receipt.duplicate


def test_adding_again_brings_a_lost_copy_back(plane, file):
    added = plane.work.artifacts.add(file())
    body_of(plane, added).unlink()
    assert "no file" in plane.work.artifacts.show("report.md").changed
    assert plane.work.artifacts.add(file()).receipt.duplicate
    assert plane.work.artifacts.show("report.md").changed is None


# --- what is refused ---


def refused(plane, *argv, **asked):
    before = plane.head()
    with pytest.raises(InputError) as error:
        plane.work.artifacts.add(*argv, **asked)
    assert plane.head() == before
    return str(error.value)


def test_what_is_no_file_is_refused_by_what_it_is(plane, tmp_path, file, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    sockets = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)  # a socket's name must be short
    sockets.bind("sock")
    sockets.close()
    assert refused(plane, tmp_path) == f"path: '{tmp_path}': is a folder; expected a file"
    assert "is a pipe; expected a file" in refused(plane, tmp_path / "pipe")
    assert refused(plane, tmp_path / "sock").startswith("path: ")
    assert "is a device; expected a file" in refused(plane, "/dev/null")
    assert "No such file" in refused(plane, tmp_path / "missing")
    assert "expected a path" in refused(plane, "")
    assert "expected a path" in refused(plane, 7)
    assert "its name cannot stand on one line" in refused(plane, file("a\nb.txt"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(plane, file):
    path = file()
    path.chmod(0)
    assert "Permission denied" in refused(plane, path)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(plane, tmp_path, monkeypatch):
    path = tmp_path / "large.bin"
    with path.open("wb") as large:
        large.truncate(64 * 1024 * 1024 + 1)
    said = refused(plane, path)
    assert "has 67108865 bytes; expected at most 67108864; add it by reference" in said
    assert plane.work.artifacts.add(path, reference=True).facts.bytes == 67_108_865
    with path.open("wb") as large:
        large.truncate(1024**3 + 1)
    assert "expected at most 1073741824" in refused(plane, path, reference=True)


def test_a_value_of_another_form_is_refused(plane, file):
    for asked in (
        {"name": "a/b"}, {"name": ""}, {"name": "x" * 300}, {"name": "a\nb"}, {"mime": "text"},
        {"mime": "a b/c"}, {"type": "essay"}, {"sidecar": "x.json"}, {"kind": "fact"}, {"data": {}},
        {"reference": True, "redact": True}, {"reference": True, "type": "research_bundle"},
        {"sensitivity": "none"}, {"ns": "nowhere"},
    ):  # fmt: skip
        refused(plane, file(), **asked)
    refused(plane, file(), "x" * 4_001)
    refused(plane, file(), 7)


def test_a_text_with_a_secret_is_refused_with_its_line_or_stored_without_it(plane, file):
    path = file(data="one\ntwo\npassword: hunter2swordfish\nfour\n")
    said = refused(plane, path)
    assert "'report.md', line 3: holds what looks like a secret (rule policy-2)" in said
    assert "hunter2" not in said
    added = plane.work.artifacts.add(path, redact=True)
    assert dict(added.redactions) == {"policy-2": 1}
    stored = body_of(plane, added).read_bytes()
    assert stored == b"one\ntwo\n[redacted:policy-2]\nfour\n"
    assert plane.work.artifacts.show(added.receipt.seq).changed is None
    assert b"hunter2swordfish" not in b"".join(
        one.read_bytes() for one in plane.home.rglob("*") if one.is_file()
    )


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_secret_in_another_encoding_is_refused_too(plane, file, encoding):
    path = file(data="für alle\npassword: hunter2swordfish\n".encode(encoding))
    assert "line 2: holds what looks like a secret" in refused(plane, path)
    assert "it is not UTF-8" in refused(plane, path, redact=True)


def test_a_name_with_a_secret_is_refused(plane, file):
    assert refused(plane, file(), name="password=hunter2swordfish").startswith("name: holds what")


def test_a_policy_that_would_mask_the_hash_is_an_error_and_no_broken_artifact(plane, file):
    (plane.home / "policies" / "privacy.yaml").write_text(
        "version: 1\nstore: {redact_patterns: ['[0-9a-f]{40}']}\n"
    )
    assert "holds what looks like a secret" in refused(plane, file())


def test_a_plane_of_the_past_takes_no_artifact(plane, file):
    plane.work.artifacts.add(file())
    with plane.at(1) as past, pytest.raises(memplane.HomeError):
        past.work.artifacts.add(file("other.md", "other"))


# --- naming, listing, showing ---


def test_an_artifact_is_named_by_seq_id_hash_uri_handle_and_name(plane, file):
    added = plane.work.artifacts.add(file())
    facts, receipt = added.facts, added.receipt
    for named in (
        receipt.seq, str(receipt.seq), receipt.id, facts.sha256, facts.sha256[:8], facts.uri,
        facts.handle, "report.md",
    ):  # fmt: skip
        assert plane.work.artifacts.show(named).seq == receipt.seq
    for unknown in (99, "99", "nobody", "0" * 64, "abcd", facts.sha256[:7]):
        with pytest.raises(NotFoundError):
            plane.work.artifacts.show(unknown)


def test_where_several_are_meant_they_are_listed(plane, file):
    first = plane.work.artifacts.add(file()).receipt.seq
    second = plane.work.artifacts.add(file(), ns="/task/t").receipt.seq
    with pytest.raises(InputError, match=f"may be event {second}, {first}; name one of them"):
        plane.work.artifacts.approve("report.md")
    plane.work.artifacts.approve(first)
    assert [one.approved for one in plane.work.artifacts.list()] == [False, True]


def test_a_list_is_the_newest_first_and_can_be_narrowed(plane, file):
    for number in range(4):
        fields = {"task": "t"} if number == 1 else {"session": "s"} if number == 2 else {}
        plane.work.artifacts.add(file(f"{number}.md", str(number)), **fields)
    assert [one.name for one in plane.work.artifacts.list()] == ["3.md", "2.md", "1.md", "0.md"]
    assert [one.name for one in plane.work.artifacts.list(limit=2)] == ["3.md", "2.md"]
    assert [one.name for one in plane.work.artifacts.list(task="t")] == ["1.md"]
    assert [one.name for one in plane.work.artifacts.list(session="s")] == ["2.md"]
    assert [one.name for one in plane.work.artifacts.list(ns="/global")] == ["3.md", "2.md", "0.md"]
    with pytest.raises(InputError):
        plane.work.artifacts.list(limit=0)


def test_what_was_said_of_it_is_shown_once_it_is_approved_or_to_who_decides(plane, file):
    added = plane.work.artifacts.add(file(), "on quokkas")
    assert plane.work.artifacts.show("report.md").text == ""
    assert plane.work.artifacts.list()[0].text == ""
    assert plane.work.artifacts.show("report.md", review=True).text == "on quokkas"
    plane.work.artifacts.approve(added.receipt.id, "I read it", actor="ann")
    shown = plane.work.artifacts.show("report.md")
    assert (shown.text, shown.approved) == ("on quokkas", True)
    (said,) = shown.approvals
    assert (said.by, said.reason, said.holds, said.revokes) == ("ann", "I read it", True, False)
    plane.work.artifacts.revoke(added.receipt.id, actor="bob")
    shown = plane.work.artifacts.show("report.md")
    assert (shown.text, shown.approved) == ("", False)
    assert [(one.by, one.revokes, one.holds) for one in shown.approvals] == [
        ("ann", False, False), ("bob", True, False),
    ]  # fmt: skip


def test_a_channel_sees_no_artifact_that_is_not_for_it(plane, file):
    added = plane.work.artifacts.add(file(), sensitivity="high")
    plane.work.artifacts.approve(added.receipt.seq)
    assert plane.work.artifacts.list(channel="public") == []
    for call in (
        plane.work.artifacts.show,
        lambda *a, **k: plane.work.artifacts.export(*a, "x", **k),
    ):
        with pytest.raises(NotFoundError, match=r"^no artifact 'report.md'$"):
            call("report.md", channel="public")
    with pytest.raises(NotFoundError, match=r"^no artifact [0-9a-f]+$"):
        plane.expand(added.facts.handle, channel="public")
    assert "nest in trees" in plane.expand(added.facts.handle).text
    assert plane.record("x").event is not None


def test_reading_artifacts_writes_nothing(plane, file, tmp_path):
    plane.work.artifacts.add(file())
    before = plane.head()
    plane.work.artifacts.list(all=True)
    plane.work.artifacts.show("report.md", review=True)
    plane.work.artifacts.export("report.md", tmp_path / "out.md")
    assert plane.head() == before


def test_a_list_is_the_same_after_a_rebuild_and_in_another_process(plane, file):
    plane.work.artifacts.add(file(), "on herons")
    plane.work.artifacts.approve("report.md", valid_until="2027-01-01T00:00:00Z")
    before = plane.work.artifacts.show("report.md")
    plane.upkeep.rebuild()
    assert plane.work.artifacts.show("report.md") == before
    assert (plane.home / "projections" / "artifacts.json").exists()
    assert plane.upkeep.differing() == []
    with memplane.open(plane.home, clock=lambda: "2026-01-05T12:00:00.000000Z") as other:
        assert other.work.artifacts.show("report.md") == before
