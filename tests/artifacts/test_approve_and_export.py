"""plane.work.artifacts: approving and exporting, what a changed file does, research with its sources."""

import json
import os
import shutil
from pathlib import Path

import pytest

from memplane.errors import ChangedError, InputError, NotFoundError, ScopeError
from memplane.log.segments import body_path

SOURCE = {
    "id": "s1",
    "url": "https://example.org/a",
    "title": "On herons",
    "accessed": "2026-01-05",
}
SIDECAR = {
    "title": "Herons", "question": "Where do herons nest?", "created": "2026-01-05",
    "sources": [SOURCE], "claims": [{"text": "In trees.", "sources": ["s1"]}],
}  # fmt: skip


def body_of(plane, added):
    return Path(body_path(str(plane.home), added.facts.sha256))


def refused(plane, *argv, **asked):
    before = plane.head()
    with pytest.raises(InputError) as error:
        plane.work.artifacts.add(*argv, **asked)
    assert plane.head() == before
    return str(error.value)


# --- approving ---


def test_to_approve_and_to_revoke_are_one_event_each(plane, file):
    added = plane.work.artifacts.add(file(), ns="/task/t", task="t", sensitivity="high")
    approved = plane.work.artifacts.approve("report.md", "fine", actor="ann", session="s").event
    assert (approved.kind, approved.refs, approved.text) == (
        "approval",
        (added.receipt.id,),
        "fine",
    )
    assert (approved.ns, approved.sensitivity, approved.session) == ("/task/t", "high", "s")
    assert approved.data == {"sha256": added.facts.sha256}
    revoked = plane.work.artifacts.revoke("report.md").event
    assert revoked.data == {"sha256": added.facts.sha256, "undo": True}
    with pytest.raises(NotFoundError, match="is not approved"):
        plane.work.artifacts.revoke("report.md")
    plane.work.artifacts.approve("report.md")
    assert plane.work.artifacts.show("report.md").approved


def test_what_nobody_approved_cannot_be_revoked(plane, file):
    plane.work.artifacts.add(file())
    with pytest.raises(NotFoundError, match="was never approved"):
        plane.work.artifacts.revoke("report.md")


def test_a_changed_file_cannot_be_approved(plane, file):
    path = file()
    plane.work.artifacts.add(path, reference=True)
    path.write_text("something else")
    before = plane.head()
    with pytest.raises(ChangedError):
        plane.work.artifacts.approve("report.md")
    assert plane.head() == before


def test_an_approval_ends_at_its_time(plane, file, clock):
    added = plane.work.artifacts.add(file())
    plane.work.artifacts.approve("report.md", valid_until="2026-01-06T00:00:00Z")
    assert plane.expand(added.facts.handle).text
    clock.now = "2026-01-07T00:00:00.000000Z"
    assert not plane.work.artifacts.show("report.md").approved
    with pytest.raises(ScopeError, match="not approved"):
        plane.expand(added.facts.handle)


# --- exporting ---


def test_an_export_is_what_was_added_byte_for_byte(plane, file, tmp_path):
    data = bytes(range(256)) * 100
    plane.work.artifacts.add(file("a.bin", data))
    (out,) = plane.work.artifacts.export("a.bin", tmp_path / "b.bin")
    assert out.read_bytes() == data
    folder = tmp_path / "folder"
    folder.mkdir()
    assert plane.work.artifacts.export("a.bin", folder) == [folder / "a.bin"]
    with pytest.raises(InputError, match="is there already"):
        plane.work.artifacts.export("a.bin", folder)
    (folder / "a.bin").write_text("in the way")
    plane.work.artifacts.export("a.bin", folder, replace=True)
    assert (folder / "a.bin").read_bytes() == data
    assert [one.name for one in folder.iterdir()] == ["a.bin"]
    with pytest.raises(InputError, match="No such file"):
        plane.work.artifacts.export("a.bin", tmp_path / "missing" / "x")


def test_an_export_follows_no_link(plane, file, tmp_path):
    plane.work.artifacts.add(file("a.txt", "new"))
    victim, folder = file("victim.txt", "old"), tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").symlink_to(victim)
    with pytest.raises(InputError):
        plane.work.artifacts.export("a.txt", folder)
    plane.work.artifacts.export("a.txt", folder, replace=True)
    assert victim.read_text() == "old"
    assert not (folder / "a.txt").is_symlink()


def test_a_name_that_somebody_wrote_by_hand_leads_nowhere(plane, file, tmp_path):
    added = plane.work.artifacts.add(file())
    data = {**added.receipt.event.data, "name": "../../evil.md"}
    seq = plane.record(kind="artifact", data=data).seq
    (out,) = plane.work.artifacts.export(seq, tmp_path)
    assert out == tmp_path / added.facts.sha256[:16]


@pytest.mark.parametrize("reference", [False, True])
def test_a_file_that_changed_is_named_with_both_hashes_and_not_used(
    plane, file, tmp_path, reference
):
    path = file()
    added = plane.work.artifacts.add(path, reference=reference)
    plane.work.artifacts.approve("report.md")
    there = path if reference else body_of(plane, added)
    Path(there).write_text("They nest on roofs.")
    for call in (
        lambda: plane.expand(added.facts.handle),
        lambda: plane.expand(f"#{added.receipt.seq}"),
        lambda: plane.work.artifacts.export("report.md", tmp_path / "out"),
    ):
        with pytest.raises(ChangedError) as error:
            call()
        assert (error.value.path, error.value.expected) == (str(there), added.facts.sha256)
        assert error.value.found in str(error.value)
        assert len(error.value.found) == 64
    assert plane.work.artifacts.show("report.md").changed == str(error.value)
    assert not (tmp_path / "out").exists()
    block = plane.pack("x", expand=[added.facts.handle], budget=2000, intent="deep")
    assert "roofs" not in block.text
    assert block.report["omissions"]["counts"]["changed"] == 1
    Path(there).unlink()
    with pytest.raises(ChangedError, match="found no file"):
        plane.expand(added.facts.handle)
    os.mkfifo(there)
    with pytest.raises(ChangedError, match="is a pipe"):
        plane.expand(added.facts.handle)


# --- research ---


def test_a_report_comes_back_with_its_sidecar_byte_for_byte(plane, file, tmp_path):
    text, sidecar = "In trees [@s1].\n", json.dumps(SIDECAR, indent=3)
    path, beside = file("herons.md", text), file("herons.json", sidecar)
    added = plane.work.artifacts.add(path, "on herons", type="research_report")
    assert added.facts.sidecar.name == "herons.json"
    assert added.facts.card == "herons.md (16 bytes, research_report)"
    out = tmp_path / "out"
    out.mkdir()
    assert plane.work.artifacts.export(added.receipt.seq, out) == [
        out / "herons.md",
        out / "herons.json",
    ]
    assert (out / "herons.md").read_bytes() == path.read_bytes()
    assert (out / "herons.json").read_bytes() == beside.read_bytes()
    named = plane.work.artifacts.add(
        path, type="research_report", sidecar=shutil.copy(beside, out / "x.json")
    )
    assert named.facts.sidecar.name == "x.json"


def test_a_report_is_held_to_its_schema_and_its_citations(plane, file):
    path = file("herons.md", "one\nIn trees [@s2].\n")
    assert "there is no" in refused(plane, path, type="research_report")
    beside = file("herons.json", json.dumps(SIDECAR))
    said = refused(plane, path, type="research_report")
    assert said == "herons.md:2: cites 's2', which is no source; there are s1"
    beside.write_text(json.dumps({**SIDECAR, "claims": "none"}))
    assert "herons.json: claims: expected a list of claims" in refused(
        plane, path, type="research_report"
    )
    beside.write_text("password: hunter2swordfish")
    assert "holds what looks like a secret" in refused(plane, path, type="research_report")


def test_a_report_whose_sidecar_is_lost_is_not_exported_in_part(plane, file, tmp_path):
    file("herons.json", json.dumps(SIDECAR))
    added = plane.work.artifacts.add(file("herons.md", "In trees."), type="research_report")
    Path(body_path(str(plane.home), added.facts.sidecar.sha256)).unlink()
    assert "no file" in plane.work.artifacts.show(added.receipt.seq).changed
    with pytest.raises(ChangedError):
        plane.work.artifacts.export(added.receipt.seq, tmp_path / "out.md")
    assert not (tmp_path / "out.md").exists()
    with pytest.raises(ChangedError):
        plane.work.artifacts.approve(added.receipt.seq)


def test_a_bundle_keeps_its_sources_and_they_are_found(plane, file, tmp_path):
    bundle = {
        **SIDECAR,
        "report": "See [@s1].",
        "sources": [{**SOURCE, "text": "A quokka is no heron."}],
    }
    path = file("herons.json", json.dumps(bundle))
    added = plane.work.artifacts.add(path, type="research_bundle")
    plane.work.artifacts.approve(added.receipt.seq)
    assert "## [@s1] On herons" in plane.expand(added.facts.handle).text
    assert "quokka" in plane.search("what is a quokka?")[0].text
    (out,) = plane.work.artifacts.export(added.receipt.seq, tmp_path / "out.json")
    assert out.read_bytes() == path.read_bytes()
    assert "expected" in refused(plane, file("bad.json", "{}"), type="research_bundle")


# --- who may see it ---


def test_a_pack_says_nothing_of_an_artifact_that_it_may_not_see(plane, file):
    hidden = plane.work.artifacts.add(file("quince.bin", b"\0\1"), "said", ns="/agent/al")
    text = plane.work.artifacts.add(file("medlar.md"), "said", ns="/agent/al")
    for added in (hidden, text):
        plane.work.artifacts.approve(added.receipt.seq)
    for name in (f"artifact/{hidden.facts.sha256}", f"artifact/{text.facts.sha256}?page=99"):
        for asked in ({"agent": "bo"}, {"channel": "public"}):
            with pytest.raises(NotFoundError, match=r"^no artifact [0-9a-f]+$"):
                plane.pack("x", budget=800, expand=[name], **asked)
            said = json.dumps(plane.pack("x", budget=800, **asked).report)
            assert "quince" not in said
            assert "medlar" not in said


def test_a_forgotten_artifact_stops_no_pack(plane, file):
    added = plane.work.artifacts.add(file("quince.bin", b"\0\1"), "said")
    plane.work.artifacts.approve(added.receipt.seq)
    plane.forget(id=added.receipt.id)
    assert "quince" not in plane.pack("x", expand=[f"artifact/{added.facts.sha256}"]).text


def test_an_agent_lists_and_shows_its_own_and_no_other_agents(plane, file):
    own = plane.work.artifacts.add(file(), "said", ns="/agent/al").receipt.seq
    listed = plane.work.artifacts.list(channel="agent", agent="al")
    assert [one.seq for one in listed] == [own]
    assert plane.work.artifacts.show(own, channel="agent", agent="al").seq == own
    assert plane.work.artifacts.list(agent="bo") == []
    with pytest.raises(NotFoundError):
        plane.work.artifacts.show(own, agent="bo")
