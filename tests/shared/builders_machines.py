"""Machines that share one log: drafts, followers in folders, and the bytes that they end with."""

from itertools import count

from memplane.event import Draft, encode
from memplane.shared.apply import Derivation, MemorySharedLog, beginning
from memplane.shared.follower import FollowerLog

PLANE = "01KE68AHX0S9HNAPC8C6XVDB1V"


class Ticking:
    """A clock of the engine: a second a call, now and then back."""

    def __init__(self):
        self._numbers = count()

    def __call__(self):
        number = next(self._numbers)
        number -= 5 if number % 7 == 6 else 0
        return (
            f"2026-01-05T{12 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000000Z"
        )


def draft(id_, text="hello", *, ts=None, kind="message", data=None, body=None, recalled=()):
    fields = {"kind": kind, "text": text if body is None else text[:40]}
    if data is not None:
        fields["data"] = data
    rest = encode(fields)[1:-1].encode()
    return Draft(id_, True, ts, kind, "/global", None, None, None, text, rest, body, recalled)


def begun(clock=None):
    """An engine whose log has its first entry."""
    engine = MemorySharedLog(clock or Ticking())
    engine.publish([beginning(PLANE)])
    return engine


def follower(home, engine, **options):
    """A machine that follows the engine."""
    home.mkdir(exist_ok=True)
    options = {"clock": Ticking(), "catch_up_ms": 5_000, **options}
    return FollowerLog(home, PLANE, connect=lambda: engine, **options)


def written(home):
    """The bytes of a machine's segments."""
    return [path.read_bytes() for path in sorted((home / "log").glob("0*.jsonl"))]


def derived(entries, segment_bytes):
    """The segments that the entries give, by the function alone."""
    place, segments, known = Derivation(None, segment_bytes=segment_bytes), [], set()
    for entry in entries:
        one = place.take(entry, known.__contains__)
        if one is None:
            continue
        known.add(one.id)
        if one.header:
            segments.append(b"")
            segments[-1] += one.header
        segments[-1] += one.line
    return segments
