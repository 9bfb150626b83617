"""A log without files: the lines of one on files, byte by byte, and all that a plane asks of it."""

import inspect
from itertools import count

from hypothesis import given, strategies as st

from memplane.event import Draft, encode
from memplane.log import FileLog, MemoryLog

NOW = "2026-01-05T12:00:{:02}.000000Z"


def ticking():
    numbers = count()
    return lambda: NOW.format(next(numbers) % 60)


def draft(id_, text, ts=None):
    rest = encode({"kind": "message", "text": text})[1:-1].encode()
    return Draft(id_, True, ts, "message", "/global", None, None, None, text, rest)


ROWS = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.text(max_size=40), st.booleans()), max_size=4),
    max_size=8,
)


@given(ROWS, st.sampled_from([400, 900, 4_000_000]))
def test_the_same_drafts_give_the_same_bytes_in_memory_and_on_files(tmp_path_factory, rows, most):
    home = tmp_path_factory.mktemp("log")
    memory = MemoryLog("demo", clock=ticking(), segment_bytes_max=most)
    with FileLog(home, "demo", clock=ticking(), segment_bytes_max=most) as files:
        for row in rows:
            drafts = [
                draft(f"m{number}", text, "2026-01-04T00:00:00.000000Z" if given_ts else None)
                for number, text, given_ts in row
            ]
            answers = []
            for log in (files, memory):
                try:
                    answers.append(log.append(drafts))
                except Exception as error:  # noqa: BLE001 - both are to say the same
                    answers.append((type(error), str(error)))
            assert answers[0] == answers[1]
            assert memory.head() == files.head()
        assert list(memory.read()) == list(files.read())
        written = [path.read_bytes() for path in sorted((home / "log").glob("*.jsonl"))]
    for number, data in enumerate(written, 1):
        assert memory.bytes_before(number, len(data), len(data)) == data
        assert memory.bytes_before(number, len(data) + 1, len(data) + 1) == data


@given(ROWS)
def test_positions_of_one_log_match_in_the_other_and_no_others_do(tmp_path_factory, rows):
    log = MemoryLog("demo", clock=ticking(), segment_bytes_max=600)
    for at, row in enumerate(rows):
        log.append([draft(f"r{at}-{n}", text) for n, (_, text, _) in enumerate(row)])
    lines = list(log.read())
    for at, line in enumerate(lines):
        assert log.matches(line.position)
        assert list(log.read_from(line.position)) == lines[at + 1 :]
        assert not log.matches(line.position._replace(offset=line.end + 1))
        assert not log.matches(line.position._replace(h="0" * 16))
        assert log.line(line.event.seq) == log.find(line.event.id) == line


def test_a_log_in_memory_has_all_that_a_plane_asks_of_one_on_files():
    own = {"home", "exclusive"}  # of who repairs files
    for name, member in inspect.getmembers(FileLog):
        if name.startswith("_") or name in own:
            continue
        there = inspect.getattr_static(MemoryLog, name)
        if inspect.isfunction(member):
            assert list(inspect.signature(member).parameters) == list(
                inspect.signature(there).parameters
            ), name
