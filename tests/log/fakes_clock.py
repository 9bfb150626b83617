"""A clock that ticks, drafts to append, and what a log and its spool then hold."""

from memplane.event import Draft, encode


class Ticking:
    """A clock that goes on by a microsecond a call; `at` can be set back."""

    def __init__(self):
        self.at = 0

    def __call__(self):
        self.at += 1
        return f"2026-01-05T12:00:00.{self.at:06d}Z"


def draft(
    id_, text="hello", *, given=True, ts=None, key=None, body=None, data=None, kind="message"
):
    fields = {"kind": kind, "role": "user", "text": text}
    if key is not None:
        fields["key"] = key
    if data is not None:
        fields["data"] = data
    rest = encode(fields)[1:-1].encode()
    return Draft(id_, given, ts, kind, "/global", "user", None, key, text, rest, body)


def files(tmp_path, folder="spool"):
    where = tmp_path / "log" / folder
    return sorted(where.iterdir()) if where.is_dir() else []


def stored(log):
    return [line.event for line in log.read() if line.event.kind != "segment"]


def ids(log):
    return [event.id for event in stored(log)]
