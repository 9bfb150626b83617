"""Purging what is no line any more: lost events, damaged segments, what was purged before."""

import json

import pytest
from builders_purges import SECRET, check_gone, fill, holds

import memplane
from memplane.errors import NotFoundError
from memplane.log import repair_log, verify_log


def flip(home, what, segment=1):
    """Flip a bit of these bytes where they stand first in a segment."""
    path = home / "log" / f"{segment:08d}.jsonl"
    raw = bytearray(path.read_bytes())
    raw[raw.index(what)] ^= 1
    path.write_bytes(raw)


def lost(home, what):
    """A plane in which a line is damaged that a salvage has told as lost."""
    with memplane.init(home) as plane:
        fill(plane, 5)
        plane.record(SECRET, id="it", session="s1", role="user")
        fill(plane, 8)
    flip(home, what)
    repair_log(home, plane.id, clock=lambda: "2026-03-02T10:00:00.000000Z", salvage=True)
    assert len(holds(home)) == 2
    return memplane.open(home)


@pytest.mark.parametrize("named", ["it", 7])
@pytest.mark.parametrize("what", [b"third door", b'"user","text":"The'])
def test_an_event_that_a_salvage_told_as_lost_is_erased_where_it_lay(tmp_path, named, what):
    with lost(tmp_path / "home", what) as plane:
        planned = plane.upkeep.purge(named, dry_run=True)
        assert (planned.events, planned.by, planned.quarantine) == ((), (), 1)
        (place,) = planned.lost
        assert (place.first, place.last, place.ids) == (7, 7, ("it",))
        assert len(holds(plane.home)) == 2
        before = [event.id for event in plane.events()]
        done = plane.upkeep.purge(named)
        assert done.lost == planned.lost
        assert [event.id for event in plane.events() if event.seq not in done.by] == before
        assert holds(plane.home) == []
        assert plane.upkeep.differing() == []
        report = verify_log(plane.home, plane.id)
        assert report.ok, report.problems
        (again,) = plane.upkeep.purge(named).already
        assert again.by == done.by[0]
        plane.record("The herons are back", id="later")


def test_what_quotes_a_lost_event_and_the_copy_of_its_long_text_are_found(tmp_path):
    home = tmp_path / "home"
    with memplane.init(home) as plane:
        plane.record(f"{SECRET}\n" * 30_000, id="it")
        plane.record(f"Noted: {SECRET}!", id="quote")
    flip(home, b'"kind":"message"')
    repair_log(home, plane.id, clock=lambda: "2026-03-02T10:00:00.000000Z", salvage=True)
    with memplane.open(home) as plane:
        report = plane.upkeep.purge("it", cascade=True)
        assert [id_ for _, id_ in report.events] == ["quote"]
        assert (report.bodies, report.cascaded) == (1, 1)
        assert holds(home) == []


def test_an_event_that_was_never_acknowledged_is_erased_from_quarantine(plane):
    fill(plane, 3)
    plane.close()
    path = plane.home / "log" / "00000001.jsonl"
    path.write_bytes(path.read_bytes() + b'{"seq":9,"id":"torn","text":"%b' % SECRET.encode())
    with memplane.open(plane.home) as other:
        other.record("herons")
        assert len(holds(plane.home)) == 1
        with pytest.raises(NotFoundError):
            other.upkeep.purge("none")
        report = other.upkeep.purge("torn")
        assert (report.quarantine, len(report.by)) == (1, 1)
        check_gone(other)
        assert [one.by for one in other.upkeep.purge("torn").already] == list(report.by)


def test_a_session_takes_what_was_lost_of_it(tmp_path):
    with lost(tmp_path / "home", b"third door") as plane:
        report = plane.upkeep.purge(session="s1")
        assert len(report.events) == 3
        assert report.quarantine == 1
        assert holds(plane.home) == []


def test_a_segment_of_nothing_but_damage_keeps_no_erased_text(plane):
    home = plane.home
    plane._log._writer.segment_bytes_max = 600
    fill(plane, 3)
    plane.record(SECRET, id="old", session="s1")
    fill(plane, 9)
    plane.close()
    (one,) = (home / name for name in holds(home))
    lines = one.read_bytes().splitlines(keepends=True)
    one.write_bytes(b"".join(line[:-5] + bytes([line[-5] ^ 1]) + line[-4:] for line in lines))
    repair_log(home, plane.id, clock=lambda: "2026-03-02T10:00:00.000000Z", salvage=True)
    with memplane.open(home) as other:
        other.record(SECRET, id="new", session="s1")
        assert int(one.stem) not in {line.segment for line in other._log.read()}
        before = [event.id for event in other.events()]
        report = other.upkeep.purge("new")
        left = [event.id for event in other.events() if event.seq not in report.by]
        assert left == [id_ for id_ in before if id_ != "new"]
        assert holds(home) == []
        assert verify_log(home, plane.id).ok


def test_purging_a_second_time_says_when_it_was_done_and_does_nothing(plane):
    fill(plane, 3)
    plane.record(SECRET, id="it")
    (by,) = plane.upkeep.purge("it").by
    before = plane._log.head()
    for named in ("it", 5):
        report = plane.upkeep.purge(named)
        assert (report.events, report.by) == ((), ())
        assert [one[:3] for one in report.already] == [(5, "it", by)]
        assert report.already[0].ts == plane.event(by).ts
    assert plane._log.head() == before
    both = plane.upkeep.purge("it", "h1")
    assert (len(both.events), len(both.already)) == (1, 1)
    assert json.dumps(both.as_json())
