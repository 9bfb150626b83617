"""A small log in memory, and histories for hypothesis."""

import hashlib
from collections.abc import Iterator

from hypothesis import strategies as st

from memplane.event import Event, encode
from memplane.ports import Line, Position

LINES_A_SEGMENT = 50


class Journal:
    """A log that keeps the promises of `Replayable`; `passes` counts readings, `lines_read` lines."""

    def __init__(self, rows=(), *, plane="plane"):
        self.lines: list[Line] = []
        self.passes = self.lines_read = 0
        self._genesis = hashlib.sha256(plane.encode()).hexdigest()[:16]
        self.extend(rows)

    def extend(self, rows) -> None:
        for row in rows:
            seq = len(self.lines) + 1
            fields = {
                "id": f"e{seq}",
                "ts": f"2026-01-01T00:00:{seq % 60:02}.000000Z",
                "kind": "message",
                **row,
            }
            said = repr(sorted(fields.items())).encode("utf-8", "surrogatepass")
            h = hashlib.sha256(self.head().h.encode() + said).hexdigest()[:16]
            at = self.lines[-1].end if (seq - 1) % LINES_A_SEGMENT else 0
            event = Event(**{"seq": seq, "rec": fields["ts"], "h": h, **fields})
            end = at + len(encode(event._asdict()).encode("utf-8", "surrogatepass")) + 1
            self.lines.append(Line(event, 1 + (seq - 1) // LINES_A_SEGMENT, at, end))

    def cut(self, seq: int) -> None:
        """Lose every line behind seq, as a repair does."""
        del self.lines[seq:]

    def head(self) -> Position:
        if not self.lines:
            return Position(0, self._genesis, 1, 0)
        return place(self.lines[-1])

    def matches(self, position: Position) -> bool:
        at = position.seq - 1
        return 0 <= at < len(self.lines) and place(self.lines[at]) == position

    def read(self, after: int = 0, upto: int | None = None) -> Iterator[Line]:
        self.passes += 1
        for line in self.lines[after:upto]:
            self.lines_read += 1
            yield line

    def read_from(self, position: Position) -> Iterator[Line]:
        assert self.matches(position)
        return self.read(position.seq)

    def may_be_purged_behind(self, position: Position) -> bool:
        return any(line.event.kind == "purge" for line in self.lines[position.seq :])


def place(line: Line) -> Position:
    return Position(line.event.seq, line.event.h, line.segment, line.end)


# Few, so that they collide.
KEYS = st.sampled_from(["db", "db.engine", "#3"])
SPACES = st.sampled_from(["/global", "/global", "/task/a"])
SESSIONS = st.sampled_from(["s1", "s2"])
IDS = st.integers(1, 24).map(lambda n: f"e{n}")
CONTENT = ["decision", "decision", "decision", "fact", "rule", "message", "task", "session"]
STATEMENTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(CONTENT),
        "ns": SPACES,
        "text": st.text(max_size=30),
    },
    optional={
        "key": KEYS,
        "session": SESSIONS,
        "id": st.builds(
            "{}:{}:{}".format,
            st.sampled_from(["jsonl", "cc"]),
            st.integers(1, 9**9),
            st.integers(0, 3),
        ),
        "markers": st.sampled_from([("constraint",), ("goal",), ("constraint", "goal")]),
        "sensitivity": st.sampled_from(["low", "high", "secret"]),
        "valid_until": st.just("2026-02-01T00:00:00.000000Z"),
        "data": st.sampled_from(
            [{"rationale": "because"}, {"rationale": 3}, {"body": {"bytes": 9}}]
        ),
    },
)
FORGOTTEN = st.one_of(
    st.fixed_dictionaries({"key": KEYS}, optional={"ns": SPACES}),
    st.fixed_dictionaries({"ids": st.lists(IDS, max_size=4)}),
    st.fixed_dictionaries({"session": SESSIONS}),
    st.fixed_dictionaries({"source": st.sampled_from(["jsonl", "cc", "cc:1", "e"])}),
    st.just({"unheard": "of"}),
    st.just(7),
)
UNDO = st.sampled_from([{}, {}, {"undo": True}])
WHY = st.sampled_from([{}, {}, {"reason": "evicted"}, {"reason": 7}])
FORGETS = st.builds(
    lambda named, undo, why: {"kind": "forget", "data": {"forget": named, **undo, **why}},
    FORGOTTEN,
    UNDO,
    WHY,
)
PINS = st.builds(
    lambda refs, undo: {"kind": "pin", "refs": tuple(refs), "data": undo},
    st.lists(IDS, min_size=1, max_size=3),
    UNDO,
)
TOUCHES = st.builds(
    lambda refs, minute: {
        "kind": "touch",
        "refs": tuple(refs),
        "ts": f"2026-01-02T00:{minute:02}:00.000000Z",
    },
    st.lists(IDS, min_size=1, max_size=3),
    st.integers(0, 59),
)
ROWS = st.one_of(STATEMENTS, STATEMENTS, STATEMENTS, FORGETS, PINS, TOUCHES)

ORIGINS = st.sampled_from(
    [{}, {}, {"time": "2026-01-01T00:00:09.000000Z", "turn": 2}, {"time": "later", "turn": -1}]
)


def from_elsewhere(rows):
    """Rows as a merge records those of another plane: with their times there."""
    return st.builds(
        lambda row, second, more: {
            **row,
            "ts": f"2026-01-01T00:00:{second:02}.000000Z",
            "data": {**row.get("data", {}), "origin": {"plane": "other", "seq": 7, **more}},
        },
        rows,
        st.integers(0, 59),
        ORIGINS,
    )


HISTORIES = st.one_of(st.lists(ROWS, max_size=8), st.lists(ROWS, min_size=16, max_size=40))
