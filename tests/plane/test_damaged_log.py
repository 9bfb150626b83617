"""A damaged log: packing goes on with what verifies and says what is missing; writing stops."""

import shutil

import pytest

import memplane
from memplane import wiring
from memplane.errors import CorruptError
from memplane.log import FileLog


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


def torn(data, lines):
    """1: the last line has no newline."""
    return data[:-1], [lines[-1]]


def trailing(data, lines):
    """2: a bad region above the watermark, nothing behind it verifies."""
    return data[: lines[-3].offset] + bytes(len(data) - lines[-3].offset), lines[-3:]


def scattered(data, lines):
    """3: the same, but later lines verify; the zeroed line takes the next one with it."""
    hit = lines[-5]
    return data[: hit.offset] + bytes(hit.end - hit.offset - 1) + data[hit.end - 1 :], lines[-5:-3]


@pytest.mark.parametrize("damage", [torn, trailing, scattered], ids=lambda one: one.__name__)
@pytest.mark.parametrize("cached", [False, True], ids=["bare", "cached"])
def test_above_the_watermark_packs_and_searches_do_without_and_recording_goes_on(
    plane, damage, cached
):
    for number in range(20):
        plane.record(f"turn number {number} about heron{number}", role="user", session="s")
    if cached:
        plane.upkeep.index()
        plane.upkeep.rebuild()
    lines = list(plane._log.read())
    plane.close()
    if not cached:
        shutil.rmtree(plane.home / "projections", ignore_errors=True)
        shutil.rmtree(plane.home / "index", ignore_errors=True)
    file = plane.home / "log" / "00000001.jsonl"
    bad, lost = damage(file.read_bytes(), lines)
    # A process that closes makes all durable; a power cut before that would not have.
    assert max(line.event.dur for line in lines) < min(line.event.seq for line in lost)
    file.write_bytes(bad)
    gone = [line.event.text.split()[-1] for line in lost]
    with memplane.open(plane.home, durability="os") as again:
        block = again.pack("turn", session="s", budget=3000)
        hits = again.search("turn", k=30)
        for said in (block.text, " ".join(hit.text for hit in hits)):
            assert "heron1" in said
            # Caches may know what the log has lost, until a writer says that it did.
            assert cached or not any(one in said.split() for one in gone)
        again.record("one more", session="s", role="user")
        block = again.pack("more", session="s", budget=3000)
        hits = again.search("turn", k=30)
        assert "one more" in block.text
        for said in (block.text, " ".join(hit.text for hit in hits)):
            assert not any(one in said.split() for one in gone)
        assert [event.kind for event in again.events(kind="repair")] == ["repair"]
        report = again.upkeep.verify(deep=True)
    assert report.problems == ()
    assert sum(path.stat().st_size for path in (plane.home / "log" / "quarantine").iterdir()) > 0


@pytest.mark.parametrize("which", ["first", "middle", "newest"])
def test_without_a_segment_packs_and_searches_answer_from_the_rest_and_list_the_gap(
    tmp_path, which
):
    with memplane.init(tmp_path / "p") as made:
        home, drafting = made.home, made.context.drafting()
        drafts = [
            drafting({"text": f"turn {n} about heron{n}", "role": "user", "session": "s"}, "")
            for n in range(40)
        ]
        name = made.id
    shutil.rmtree(home / "log")
    with FileLog(home, name, clock=wiring.clock, segment_bytes_max=2500) as log:
        for draft in drafts:
            log.append([draft])
        lines = list(log.read())
    newest = lines[-1].segment
    number = {"first": 1, "middle": newest // 2 + 1, "newest": newest}[which]
    lost = [line for line in lines if line.segment == number]
    (home / "log" / f"{number:08d}.jsonl").unlink()
    with memplane.open(home) as plane:
        block = plane.pack("turn", session="s", budget=6000)
        hits = plane.search("heron", k=50)
        kept = {line.event.id for line in lines} - {line.event.id for line in lost}
        assert {hit.event.id for hit in hits} <= kept
        if which == "newest":  # nothing in the log says that there was more
            assert block.report["gaps"] == []
        else:
            first, last = lost[0].event.seq, lost[-1].event.seq
            assert block.report["gaps"] == [
                {"first": first, "last": last, "missing": last - first + 1}
            ]
            assert block.report["omissions"]["counts"]["gap"] == len(lost)
            assert plane.upkeep.verify(deep=True).problems
            with pytest.raises(CorruptError, match="memplane repair --salvage"):
                plane.record("one more")


def test_what_the_index_remembers_and_the_log_has_lost_is_a_gap_and_no_answer(tmp_path):
    plane = memplane.init(tmp_path / "synced")
    for number in range(20):
        plane.record(f"turn number {number} about heron{number}", role="user", session=f"s{number}")
    plane.upkeep.index()
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
    with wiring.open_plane(plane.home, read_only=True) as again:
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
