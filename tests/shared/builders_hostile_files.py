"""Device files that no device writes: lines that chain and say what they must not, and odd files."""

import os

from builders_folders import event

from memplane.shared.device_file import ENTRY_BYTES_MAX, DeviceLines, FilePlace

DEVICE = "0123456789abcdef"


def hostile_line(said, place=None):
    """A line that chains behind a place (else the header), whatever it says; bytes are as given."""
    if isinstance(said, bytes):
        return said
    lines = DeviceLines(DEVICE, place or FilePlace())
    if place is None:
        lines.header(DEVICE, "01PLANE", "theirs")
    return lines.line("e99", said)


DEEP = {"a": 1}
for _ in range(200):
    DEEP = {"a": DEEP}

HOSTILE = {
    "an agent's namespace": ({"event": event(0, text="x", ns="/agent/a1")}, "never travels"),
    "a segment": ({"event": event(0, kind="segment", text="x")}, "which only a log writes"),
    "a repair": ({"event": event(0, kind="repair", text="x")}, "which only a log writes"),
    "a purge event": ({"event": event(0, kind="purge", text="x")}, "which only a log writes"),
    "a project": ({"event": event(0, kind="project", text="x")}, "which only a log writes"),
    "no kind": ({"event": {"ts": "2026-01-01T12:00:00Z", "text": "x"}}, "which only a log"),
    "an unknown field": ({"event": {**event(0, text="x"), "seq": 3}}, "has a field 'seq'"),
    "no time": ({"event": {**event(0, text="x"), "ts": None}}, "without a time"),
    "no origin": ({"event": {**event(0, text="x"), "data": {}}}, "from which plane"),
    "a device in the origin": (
        {"event": {**event(0, text="x"),
                       "data": {"origin": {"plane": "p", "seq": 1, "device": DEVICE}}}},
        "only the reader of a folder writes",
    ),
    "deep data": (
        {"event": {**event(0, text="x"), "data": {**event(0)["data"], "deep": DEEP}}},
        "nested deeper",
    ),
    "a body elsewhere": (
        {"event": {**event(0, text="x"),
                       "data": {**event(0)["data"], "body": {"sha256": "0" * 64, "bytes": 3}}}},
        "memplane itself writes this key",
    ),
    "an actor like a role": ({"event": event(0, text="x", actor="User")}, "reads like"),
    "an id with controls": (
        b"".join([DeviceLines(DEVICE, FilePlace()).line("x", {})]), "does not follow",
    ),
    "parts that are missing": ({"event": event(0), "parts": 2}, "all parts of its text"),
    "a part without text": ({"text": ""}, "a part of a text"),
    "a line of another sort": ({"run": "rm -rf"}, "is no line of a device's file"),
    "too many ids": ({"purge": ["x"] * 500}, "at most 200 ids"),
    "a purge of no ids": ({"purge": [1]}, "at most 200 ids"),
    "no event": ({"event": []}, "expected an event"),
    "no JSON": (b'{"seq":2,nonsense,"h":"0000000000000000"}\n', "does not follow"),
}  # fmt: skip


PLACES = {
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a pipe": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
    "nothing in it": lambda path: path.write_bytes(b""),
    "bytes that are no UTF-8": lambda path: path.write_bytes(b"\xff\xfe\x00\n"),
    "a line without end": lambda path: path.write_bytes(b"x" * (ENTRY_BYTES_MAX + 5)),
    "deep JSON": lambda path: path.write_bytes(b"[" * 100_000 + b"\n"),
    "another's log": lambda path: path.write_bytes(
        b'{"seq":1,"id":"x","ts":"","kind":"segment"}\n'
    ),
}
