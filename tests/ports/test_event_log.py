"""The contract of `memplane.ports.EventLog`, run on every log there is."""

import pytest

from memplane.errors import ConflictError
from memplane.event import Draft, encode
from memplane.log import FileLog, MemoryLog
from memplane.ports import EventLog

BACKENDS = {
    "files": {},
    "files, level os": {"durability": "os"},
    "files, small segments": {"segment_bytes_max": 700},
    "memory": {},
    "memory, small segments": {"segment_bytes_max": 700},
}


def draft(id_, text="hello", *, given=True):
    rest = encode({"kind": "message", "text": text})[1:-1].encode()
    return Draft(id_, given, None, "message", "/global", None, None, None, text, rest)


@pytest.fixture(params=BACKENDS)
def log(request, tmp_path):
    def clock():
        return "2026-01-05T12:00:00.000000Z"

    more = BACKENDS[request.param]
    if request.param.startswith("memory"):
        yield MemoryLog("demo", clock=clock, **more)
        return
    with FileLog(tmp_path, "demo", clock=clock, **more) as opened:
        yield opened


def own(lines):
    return [line.event.id for line in lines if line.event.kind == "message"]


def test_an_empty_log_has_no_lines_and_a_head_at_seq_0(log: EventLog):
    assert log.head().seq == 0
    assert list(log.read()) == []


def test_what_was_appended_is_read_in_the_order_of_the_receipts(log: EventLog):
    ids = [f"m{n}" for n in range(25)]
    receipts = [
        receipt
        for n in range(0, 25, 5)
        for receipt in log.append([draft(i) for i in ids[n : n + 5]])
    ]
    assert [receipt.id for receipt in receipts] == ids
    lines = list(log.read())
    assert own(lines) == ids
    by_seq = {line.event.seq: line.event for line in lines}
    assert [by_seq[receipt.seq].id for receipt in receipts] == ids
    assert [by_seq[receipt.seq].ts for receipt in receipts] == [receipt.ts for receipt in receipts]


def test_seqs_are_dense_from_1_and_the_head_is_the_last(log: EventLog):
    for n in range(25):
        log.append([draft(f"m{n}", given=n % 2 == 0)])
        assert log.head().seq == list(log.read())[-1].event.seq
    assert [line.event.seq for line in log.read()] == list(range(1, log.head().seq + 1))


def test_reading_takes_any_part_of_the_log(log: EventLog):
    log.append([draft(f"m{n}") for n in range(4)])
    for n in range(10):
        log.append([draft(f"n{n}")])
    lines = list(log.read())
    for after in range(len(lines) + 2):
        assert list(log.read(after)) == lines[after:]
        for upto in (0, after, after + 1, after + 3, len(lines) + 5):
            assert list(log.read(after, upto)) == lines[after : max(upto, after)]


def test_a_repeated_id_is_acknowledged_once_stored_and_never_replaced(log: EventLog):
    (first,) = log.append([draft("a")])
    for n in range(10):
        log.append([draft(f"m{n}")])
    assert log.append([draft("a")]) == [first._replace(duplicate=True)]
    with pytest.raises(ConflictError) as error:
        log.append([draft("b"), draft("a", "other")])
    assert (error.value.id, error.value.seq) == ("a", first.seq)
    assert own(log.read()) == ["a", *(f"m{n}" for n in range(10))]


def test_an_append_is_refused_where_the_log_has_moved_on(log: EventLog):
    log.append([draft("a")])
    seq = log.head().seq
    log.append([draft("b")], expected_seq=seq)
    with pytest.raises(ConflictError):
        log.append([draft("c")], expected_seq=seq)
    assert own(log.read()) == ["a", "b"]
