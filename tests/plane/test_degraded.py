"""A damaged log: packing goes on with what verifies and says what is missing; writing stops."""

import shutil

import pytest

import memplane
from memplane.errors import CorruptError


def damaged(plane, needle: bytes):
    """Flip a bit in the line that holds the needle, with the projections gone."""
    plane.close()
    shutil.rmtree(plane.home / "projections")
    shutil.rmtree(plane.home / "index", ignore_errors=True)
    (file,) = (plane.home / "log").glob("*.jsonl")
    data = bytearray(file.read_bytes())
    data[data.index(needle)] ^= 1
    file.write_bytes(bytes(data))


def test_a_pack_of_a_corrupt_log_answers_and_lists_the_gap(tmp_path):
    plane = memplane.init(
        tmp_path / "synced"
    )  # what was synced is durable: damage to it is corruption
    for number in range(20):
        plane.record(f"turn number {number} about heron{number}", role="user", session="s")
    damaged(plane, b"heron7")
    with memplane.open(plane.home) as again:
        block = again.pack("turn", session="s", budget=3000)
        assert "heron6" in block.text
        assert "heron19" in block.text
        assert "heron7 " not in block.text
        assert sum(gap["missing"] for gap in block.report["gaps"]) >= 1
        assert block.report["omissions"]["counts"]["gap"] >= 1
        before = (again.home / "log" / "00000001.jsonl").read_bytes()
        with pytest.raises(CorruptError, match="memplane repair --salvage"):
            again.record("one more")
        assert (again.home / "log" / "00000001.jsonl").read_bytes() == before
    with memplane.open(plane.home) as later:
        assert later.pack("turn", session="s").report["gaps"], "the checkpoint forgot the gap"


def test_what_the_index_remembers_and_the_log_has_lost_is_a_gap_and_no_answer(tmp_path):
    plane = memplane.init(tmp_path / "synced")
    for number in range(20):
        plane.record(f"turn number {number} about heron{number}", role="user", session=f"s{number}")
    plane.index()
    plane.close()
    (file,) = (plane.home / "log").glob("*.jsonl")
    data = bytearray(file.read_bytes())
    data[data.index(b"about heron7")] ^= 1
    file.write_bytes(bytes(data))
    with memplane.open(plane.home) as again:
        block = again.pack("what about heron7 and heron6?", budget=3000)
        assert "about heron6" in block.text
        assert "heron7\n" not in block.text
        assert all(omission.id for omission in block.omissions)
        assert "heron6" in again.search("heron6")[0].text
        assert all("heron7" not in hit.text for hit in again.search("heron7 turn"))


def test_a_broken_policy_stops_packing_and_not_recording(plane):
    policy = plane.home / "policies" / "budgets.yaml"
    policy.write_text("version: 1\nacb_total_max_tokens: many\n")
    with pytest.raises(memplane.PolicyError, match=r"budgets\.yaml:2"):
        plane.pack("x")
    assert plane.record("still taken: password = hunter2hunter2").seq == 2
    policy.unlink()
    assert "hunter2" not in plane.event(2).text
    assert "still taken" in plane.pack("taken").text


def test_a_plane_made_read_only_packs_and_does_not_record(plane):
    plane.record("a turn about herons", role="user")
    plane.close()
    with memplane.wiring.open_plane(plane.home, read_only=True) as again:
        assert "herons" in again.pack("herons", save_report=True).text
        with pytest.raises(memplane.HomeError, match="read-only"):
            again.record("no")
    assert not list((plane.home / "reports").iterdir())


def test_a_broken_policy_never_lets_through_what_privacy_named(plane):
    folder = plane.home / "policies"
    (folder / "privacy.yaml").write_text(
        'version: 1\nstore: {redact_patterns: ["CUST-[0-9]+", "\\\\bID\\\\d{4}\\\\b"]}\n'
    )
    (folder / "budgets.yaml").write_text("version: 1\nacb_total_max_tokens: many\n")
    with memplane.open(plane.home) as other:
        seq = other.record("id CUST-123").seq
    (folder / "budgets.yaml").unlink()
    text = (folder / "privacy.yaml").read_text()
    (folder / "privacy.yaml").write_text(text + "chanel_rules: [\n")
    with memplane.open(plane.home) as other:
        other.record("id CUST-456 and ID1234")
    (folder / "privacy.yaml").unlink()
    said = [event.text for event in plane.events(after=seq - 1)]
    assert not any(word in " ".join(said) for word in ("CUST-", "ID1234"))


def test_init_gives_a_log_its_lost_identity_back(plane):
    plane.record("a turn about herons")
    plane.close()
    (plane.home / "plane.json").unlink()
    with memplane.init(plane.home) as again:
        assert again.id == plane.id
        assert "herons" in again.pack("herons").text
