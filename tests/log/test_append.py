"""Appending, looking up, rotating, repeating: the log on a disk that does its duty."""

import json
import stat
from hashlib import sha256

import pytest
from fakes_clock import Ticking, draft

from memplane.errors import (
    ConflictError,
    FormatError,
    HomeError,
    InputError,
    NotFoundError,
)
from memplane.event import FIELDS
from memplane.log import FileLog, verify_log
from memplane.log.segments import genesis
from memplane.ports import Position


def segments(tmp_path):
    return sorted(path.name for path in (tmp_path / "log").glob("*.jsonl"))


def test_a_line_is_the_documented_bytes(opened, tmp_path):
    log = opened()
    log.append([draft("m1")])
    log.append([draft("m2", ts="2026-01-01T00:00:00.000000Z")])
    raw = (tmp_path / "log" / "00000001.jsonl").read_bytes().splitlines()
    h = genesis("demo")
    for line in raw:
        body, said = line[:-24], line[-24:]
        h = sha256(h + body).hexdigest()[:16].encode()
        assert said == b',"h":"' + h + b'"}'
        fields = list(json.loads(line))
        assert fields == sorted(fields, key=FIELDS.index)
    header, first, second = map(json.loads, raw)
    assert header["kind"] == "segment"
    assert header["data"] == {
        "format": 1,
        "plane": "demo",
        "prev_seq": 0,
        "prev_h": genesis("demo").decode(),
    }
    assert "dur" not in header
    assert (first["seq"], first["dur"], "rec" in first) == (2, 1, False)
    assert (second["seq"], second["dur"]) == (3, 2)
    assert second["ts"] < first["ts"] < second["rec"]


def test_the_first_event_of_a_plane_has_seq_2_and_receipts_say_what_is_stored(opened):
    log = opened()
    receipts = log.append([draft("a"), draft("b", ts="2026-01-01T00:00:00.000000Z")])
    lines = list(log.read())
    assert [receipt.seq for receipt in receipts] == [2, 3]
    assert [(r.seq, r.id, r.ts) for r in receipts] == [
        (line.event.seq, line.event.id, line.event.ts) for line in lines[1:]
    ]
    assert log.head() == Position(3, lines[-1].event.h, 1, lines[-1].end)


def test_rec_never_runs_backwards(opened):
    clock = Ticking()
    clock.at = 500
    log = opened(clock=clock)
    log.append([draft("a")])
    clock.at = 3
    log.append([draft("b", ts="2026-01-01T00:00:00.000000Z"), draft("c")])
    recs = [line.event.rec for line in log.read()]
    assert recs == sorted(recs)
    assert [line.event.ts for line in log.read()][2] == "2026-01-01T00:00:00.000000Z"


def test_files_are_0600_and_directories_0700(opened, tmp_path):
    log = opened(segment_bytes_max=600)
    text = "long " * 200
    digest = sha256(text.encode()).hexdigest()
    data = {"body": {"sha256": digest, "bytes": len(text)}}
    log.append([draft("big", "long", data=data, body=text.encode())])
    for n in range(5):
        log.append([draft(f"m{n}")])
    log.find("m0")
    for folder in ("log", "bodies", "index"):
        for path in [tmp_path / folder, *(tmp_path / folder).rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path


def test_segments_seal_at_their_limit_and_chain_through_their_headers(opened, tmp_path):
    log = opened(segment_bytes_max=1500)
    for n in range(60):
        log.append([draft(f"m{n}")])
    names = segments(tmp_path)
    assert len(names) > 4
    assert all((tmp_path / "log" / name).stat().st_size <= 1500 for name in names)
    lines = list(log.read())
    assert [line.event.seq for line in lines] == list(range(1, len(lines) + 1))
    for line in lines:
        if line.offset == 0 and line.event.seq > 1:
            before = lines[line.event.seq - 2].event
            assert line.event.data["prev_seq"] == before.seq
            assert line.event.data["prev_h"] == before.h
    report = verify_log(tmp_path, "demo")
    assert report.ok
    assert (report.events, report.segments) == (len(lines), len(names))
    assert report.head == log.head()


def test_any_line_and_any_id_is_found_without_reading_on_in_any_process(opened, tmp_path):
    log = opened(segment_bytes_max=1500)
    odd = ['q"uote', "back\\slash", '","ts":"x', "~!@#$%^&*()"]
    for id_ in [*odd, *(f"m{n}" for n in range(40))]:
        log.append([draft(id_, id_)])
    lines = list(log.read())
    caches = tmp_path / "index" / "ids"
    for each in (log, opened(), opened(read_only=True)):
        for line in lines:
            assert each.line(line.event.seq) == line
            assert each.find(line.event.id) == line
        assert each.find("nobody") is None
        assert each.line(0) is None
        assert each.line(len(lines) + 1) is None
    made = sorted(caches.iterdir())
    assert len(made) == len(segments(tmp_path)) - 1
    made[0].write_bytes(b"damaged")
    made[1].write_bytes(made[2].read_bytes())
    fresh = opened()
    assert [fresh.find(line.event.id) for line in lines] == lines


def test_a_repeat_is_a_duplicate_and_another_event_a_conflict_over_all_segments(opened, tmp_path):
    log = opened(segment_bytes_max=1500)
    first = [log.append([draft(f"m{n}", f"text {n}")])[0] for n in range(40)]
    size = sum(path.stat().st_size for path in (tmp_path / "log").glob("*.jsonl"))
    for each in (log, opened()):
        for n in (0, 17, 39):
            (again,) = each.append([draft(f"m{n}", f"text {n}")])
            assert again == first[n]._replace(duplicate=True)
            with pytest.raises(ConflictError) as error:
                each.append([draft("new"), draft(f"m{n}", "other")])
            assert (error.value.id, error.value.seq) == (f"m{n}", first[n].seq)
    assert log.find("new") is None
    assert sum(path.stat().st_size for path in (tmp_path / "log").glob("*.jsonl")) == size


def test_repeats_within_a_batch_count_as_repeats(opened):
    log = opened()
    log.append([draft("old")])
    receipts = log.append([draft("a"), draft("old"), draft("a"), draft("b"), draft("old")])
    assert [(r.seq, r.duplicate) for r in receipts] == [
        (3, False),
        (2, True),
        (3, True),
        (4, False),
        (2, True),
    ]
    with pytest.raises(ConflictError):
        log.append([draft("c"), draft("c", "other")])
    with pytest.raises(ConflictError):
        log.append([draft("old"), draft("old", "other")])
    assert log.head().seq == 4


def test_the_caller_may_say_what_same_means(opened):
    log = opened(same=lambda event, draft: event.text.lower() == draft.text.lower())
    log.append([draft("a", "Hello")])
    assert log.append([draft("a", "hELLO")])[0].duplicate
    assert log.append([draft("b", "x"), draft("b", "X")])[1].duplicate


def test_an_append_at_another_seq_than_expected_is_refused(opened):
    log = opened()
    log.append([draft("a")], expected_seq=1)
    with pytest.raises(ConflictError) as error:
        log.append([draft("b")], expected_seq=1)
    assert error.value.seq == log.head().seq == 2


def test_a_large_text_lies_in_a_body_before_its_line_and_is_read_back_whole(opened, tmp_path):
    text = "söme text " * 1000
    digest = sha256(text.encode()).hexdigest()
    data = {"body": {"sha256": digest, "bytes": len(text.encode())}}
    big = draft("big", text[:100], data=data, body=text.encode())._replace(text=text)
    log = opened()
    log.append([big])
    path = tmp_path / "bodies" / "sha256" / digest[:2] / digest[2:]
    assert path.read_text() == text
    event = log.find("big").event
    assert log.text(event) == text
    assert event.text == text[:100]
    assert log.append([big])[0].duplicate
    with pytest.raises(ConflictError):
        log.append([big._replace(text="other", body=b"other")])
    path.write_text("damaged")
    assert not verify_log(tmp_path, "demo").ok
    with pytest.raises(NotFoundError):
        log.text(event)
    path.unlink()
    (problem,) = verify_log(tmp_path, "demo").problems
    assert "missing" in problem.found


def test_a_body_name_never_leads_out_of_the_bodies(opened):
    log = opened()
    log.append([draft("x", data={"body": {"sha256": "../../../../etc/passwd" + "0" * 42}})])
    assert log.text(log.find("x").event) == "hello"


def test_drafts_that_would_break_a_line_are_refused(opened):
    log = opened()
    for bad in (
        draft("a")._replace(rest=b'"kind":"message"\n'),
        draft("a")._replace(rest=b'"text":"x"'),
        draft("a", ts="yesterday"),
        draft(""),
    ):
        with pytest.raises(InputError):
            log.append([draft("fine"), bad])
    assert log.head().seq == 0


def test_a_log_of_another_plane_or_a_newer_format_is_refused(opened, tmp_path):
    log = opened()
    log.append([draft("a")])
    log.close()
    other = FileLog(tmp_path, "other", clock=Ticking())
    with pytest.raises(HomeError):
        other.append([draft("b")])
    from memplane.log.segments import own_draft, prepared, stamp_line

    data = {"format": 2, "plane": "demo", "prev_seq": 0, "prev_h": genesis("demo").decode()}
    newer = own_draft("segment", data, "x")
    line, _ = stamp_line(1, 0, prepared(newer), None, Ticking()(), newer.rest, genesis("demo"))
    (tmp_path / "log" / "00000001.jsonl").write_bytes(line)
    fresh = opened()
    with pytest.raises(FormatError):
        fresh.append([draft("b")])
    with pytest.raises(FormatError):
        verify_log(tmp_path, "demo")


def test_a_log_that_vanished_is_not_begun_anew(opened, tmp_path):
    log = opened()
    log.append([draft("a")])
    (tmp_path / "log" / "00000001.jsonl").unlink()
    with pytest.raises(HomeError):
        log.append([draft("b")])


def test_an_empty_append_does_nothing(opened):
    log = opened()
    assert log.append([]) == []
    assert log.append([draft("a")])[0].seq == 2
