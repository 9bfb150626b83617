"""The table of the watermark, a case a test: what is cut, what is kept, what stops the writers."""

import json

import pytest
from builders_damaged_logs import (
    PLANE,
    QuickDisk,
    clock,
    copied,
    draft,
    filled,
    messages,
    opened,
    quarantined,
    segment,
)

from memplane.errors import CorruptError
from memplane.log import repair_log, verify_log


def repairs(home):
    with opened(home, read_only=True) as log:
        return [line.event.data for line in log.read() if line.event.kind == "repair"]


def appended(home):
    """Append once more, and give the ids that are there then."""
    with opened(home) as log:
        log.append([draft("next")])
    assert verify_log(home, PLANE).problems == ()
    assert repair_log(home, PLANE, clock=clock).events == ()
    return messages(home)[0]


def one(home, events=9, durability="os"):
    """A log of one segment, at level `os` by default: nothing behind the first append is durable."""
    lines = filled(home, events, durability=durability, segment_bytes_max=1 << 20)
    return lines, segment(home, 1).read_bytes()


def all_of(lines):
    return [line.event.id for line in lines if line.event.kind == "message"]


def test_1_a_last_line_without_newline_is_cut_into_quarantine_and_told(tmp_path):
    lines, data = one(tmp_path)
    torn = data[lines[-1].offset : -1]
    segment(tmp_path, 1).write_bytes(data[:-1])
    assert messages(tmp_path) == (all_of(lines[:-1]), ())
    (finding,) = verify_log(tmp_path, PLANE).problems
    assert (finding.file, finding.offset) == ("log/00000001.jsonl", lines[-1].offset)
    assert "`memplane repair` sets them aside" in finding.command
    assert appended(tmp_path) == [*all_of(lines[:-1]), "next"]
    assert quarantined(tmp_path) == [torn]
    (said,) = repairs(tmp_path)
    assert (said["case"], said["segment"], said["offset"]) == ("torn", 1, lines[-1].offset)
    assert said["bytes"] == len(torn)
    assert (tmp_path / "log" / "quarantine" / said["quarantine"]).read_bytes() == torn


@pytest.mark.parametrize("broken", [b"\0" * 40, b"x" * 40, b"\n" * 40, b"{}\n" * 9])
def test_2_a_bad_region_above_the_watermark_with_nothing_behind_it_is_cut(tmp_path, broken):
    lines, data = one(tmp_path)
    at = lines[6].offset
    bad = data[at : at + 8] + broken
    segment(tmp_path, 1).write_bytes(data[:at] + bad)
    assert messages(tmp_path)[0] == all_of(lines[:6])
    assert appended(tmp_path) == [*all_of(lines[:6]), "next"]
    assert quarantined(tmp_path) == [bad]
    assert [said["case"] for said in repairs(tmp_path)] == ["torn"]


def test_3_lines_that_verify_behind_such_a_region_are_recorded_again_with_their_ids(tmp_path):
    lines, data = one(tmp_path)
    start, end = lines[4].offset, lines[4].end
    segment(tmp_path, 1).write_bytes(data[:start] + bytes(end - start - 1) + data[end - 1 :])
    kept = [*all_of(lines[:4]), *all_of(lines[6:])]  # the hash of line 4 is what line 5 chains from
    assert sorted(messages(tmp_path)[0]) == sorted(kept)
    assert appended(tmp_path) == [*kept, "next"]
    assert [said["case"] for said in repairs(tmp_path)] == ["scattered"]
    with opened(tmp_path, read_only=True) as log:
        texts = {line.event.id: line.event.text for line in log.read()}
        assert log.gaps() == ()
    assert all(texts[line.event.id] == line.event.text for line in lines if line.event.id in kept)


@pytest.mark.parametrize("where", ["active", "sealed"])
def test_4_at_or_below_the_watermark_writers_refuse_readers_list_and_salvage_goes_on(
    tmp_path, where
):
    if where == "active":
        lines, _ = one(tmp_path, durability="sync")
    else:
        lines = filled(tmp_path, 12)
    line = lines[3]
    path = segment(tmp_path, line.segment)
    data = bytearray(path.read_bytes())
    data[line.offset + 9] ^= 1
    path.write_bytes(data)
    ids, (gap,) = messages(tmp_path)
    assert ids == [id_ for id_ in all_of(lines) if id_ != line.event.id]
    assert (gap.segment, gap.offset, gap.end, gap.first, gap.last) == (
        line.segment, line.offset, line.end, line.event.seq, line.event.seq,
    )  # fmt: skip
    with opened(tmp_path) as log:
        list(log.read())
        with pytest.raises(CorruptError, match="`memplane repair --salvage`"):
            log.append([draft("next")])
    assert path.read_bytes() == data
    with pytest.raises(CorruptError, match="`memplane repair --salvage`"):
        repair_log(tmp_path, PLANE, clock=clock)
    (event,) = repair_log(tmp_path, PLANE, clock=clock, salvage=True).events
    assert event.data["case"] == "salvaged"
    assert quarantined(tmp_path) == [bytes(data[line.offset : line.end])]
    assert path.read_bytes() == data
    assert appended(tmp_path) == [*ids, "next"]
    assert verify_log(tmp_path, PLANE).salvaged == (gap,)


# --- after a failed sync ---


def marked(home, number, note):
    path = home / "log" / f"{number:08d}.broken"
    path.write_bytes(note if isinstance(note, bytes) else json.dumps(note).encode())
    return path


def marker(watermark, number=1, plane=PLANE):
    return {"segment": number, "watermark": watermark, "plane": plane}


@pytest.mark.parametrize(
    "note",
    [
        marker(3), b"", b'{"segment":1,"water', b"\0" * 50, b"[]", marker(99, plane="another"),
        marker(99, number=7), marker("many"), marker(None),
    ],
    ids=str,
)  # fmt: skip
def test_behind_a_failed_sync_what_verifies_stays_and_the_log_goes_on_in_a_new_segment(
    tmp_path, note
):
    lines, data = one(tmp_path)
    path = marked(tmp_path, 1, note)
    assert "a sync of this segment failed" in verify_log(tmp_path, PLANE).problems[0].found
    assert messages(tmp_path)[0] == all_of(lines)
    assert appended(tmp_path) == [*all_of(lines), "next"]
    assert segment(tmp_path, 1).read_bytes() == data
    assert not path.exists()
    assert [said["case"] for said in repairs(tmp_path)] == ["broken"]


def test_what_was_durable_before_the_sync_failed_and_is_gone_is_corruption(tmp_path):
    lines, data = one(tmp_path)
    segment(tmp_path, 1).write_bytes(data[: lines[4].end])
    marked(tmp_path, 1, marker(8))
    with opened(tmp_path) as log, pytest.raises(CorruptError, match="up to seq 8 was durable"):
        log.append([draft("next")])
    (finding,) = [one for one in verify_log(tmp_path, PLANE).problems if "durable" in one.found]
    assert "seq 6 to 8" in finding.found
    with pytest.raises(CorruptError):
        repair_log(tmp_path, PLANE, clock=clock)
    repair_log(tmp_path, PLANE, clock=clock, salvage=True)
    assert appended(tmp_path) == [*all_of(lines[:5]), "next"]


def test_a_marker_of_a_segment_that_is_gone_or_sealed_stops_nobody_and_a_repair_removes_it(
    tmp_path,
):
    lines = filled(tmp_path)
    newest = lines[-1].segment
    paths = [marked(tmp_path, 2, marker(9, 2)), marked(tmp_path, newest + 3, marker(9, 50))]
    assert verify_log(tmp_path, PLANE).problems == ()
    assert len(verify_log(tmp_path, PLANE).notes) == len(paths)
    with opened(tmp_path) as log:
        log.append([draft("next")])
        assert log.head().segment == newest
    repair_log(tmp_path, PLANE, clock=clock)
    assert not any(path.exists() for path in paths)
    assert verify_log(tmp_path, PLANE).notes == ()
    assert messages(tmp_path) == ([*all_of(lines), "next"], ())


def test_what_is_cut_behind_a_failed_sync_is_in_quarantine_before_it_is_gone(tmp_path):
    lines, data = one(tmp_path / "made")
    segment(tmp_path / "made", 1).write_bytes(data + b'{"seq":99,"id":')
    marked(tmp_path / "made", 1, marker(3))

    class Dies(QuickDisk):
        """The process ends before the k-th rename."""

        def __init__(self, left):
            self.left = left

        def replace(self, source, target, home=None):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            super().replace(source, target, home)

    for left in range(3):  # the file anew, the quarantine, the next segment
        home = copied(tmp_path / "made", tmp_path / "home")
        log = opened(home, disk=Dies(left))
        with pytest.raises(KeyboardInterrupt):
            log.append([draft("next")])
        here = b"".join([segment(home, 1).read_bytes(), *quarantined(home)])
        assert b'{"seq":99,"id":' in here
        assert appended(home) == [*all_of(lines), "next"]
        assert b'{"seq":99,"id":' in quarantined(home)
