"""Two small conversations of our own, questions about them, and what makes planes for them."""

import gzip
import json
from pathlib import Path

import pytest

import memplane
from memplane.evaluate import PlainIndex, SystemFactory, read_dataset
from memplane.wiring import make_counter

LEN4 = b"version: 1\ncounter: len4\n"  # a counter without a table: quick to start

TALKS = {
    "garden": [
        ("g1", "s1", "user", "Ann", "The tomatoes stand by the south wall this year."),
        ("g2", "s1", "assistant", "Bo", "Water them at dawn, never at noon."),
        ("g3", "s1", "user", "Ann", "My neighbour lent me a blue wheelbarrow."),
        ("g4", "s2", "user", "Ann", "Frost took the beans on Tuesday."),
        ("g5", "s2", "assistant", "Bo", "Cover the seedlings with fleece."),
    ],
    "boat": [
        ("b1", "s1", "user", "Cy", "The mast is eleven metres of spruce."),
        ("b2", "s1", "assistant", "Di", "Varnish it twice before the season."),
        ("b3", "s1", "user", "Cy", "We renamed her Petrel after the storm."),
    ],
}
QUESTIONS = [
    ("garden", "q1", "What did the frost take?", "fact", ["g4"]),
    ("garden", "q2", "What was said about tomatoes and seedlings?", "list", ["g1", "g5"]),
    ("garden", "q3", "Who won the race?", "nothing", []),
    ("boat", "q1", "What is the mast made of?", "fact", ["b1"]),
]


def event_rows(talks=TALKS):
    return [
        {
            "conversation_id": name, "event_id": event, "ts": f"2026-01-05T12:{at:02}:00Z",
            "session_id": session, "role": role, "speaker": speaker, "text": text,
        }
        for name, turns in talks.items()
        for at, (event, session, role, speaker, text) in enumerate(turns)
    ]  # fmt: skip


def question_rows(questions=QUESTIONS):
    return [
        {
            "conversation_id": name, "question_id": one, "question": text, "category": category,
            "asked_at": "2026-02-01T09:00:00Z", "evidence_event_ids": evidence,
        }
        for name, one, text, category, evidence in questions
    ]  # fmt: skip


@pytest.fixture
def write(tmp_path):
    """Write rows (or lines as they are) as JSON lines; gzip where the name says so."""

    def write(name, rows) -> Path:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        data = "".join(line + "\n" for line in lines).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture
def files(write):
    """The two files of the small set."""
    return write("events.jsonl", event_rows()), write("questions.jsonl", question_rows())


def make_plane(folder, policies):
    memplane.init(folder, durability="os").close()
    for name, data in {"budgets.yaml": LEN4, **policies}.items():
        (folder / "policies" / name).write_bytes(data)
    return memplane.open(folder, durability="os")


@pytest.fixture
def builders():
    return SystemFactory(make_plane, make_counter, PlainIndex)


@pytest.fixture
def asking(write):
    """Read a set of the small talks with other questions: (conversation, id, text, category, ids)."""

    def asking(questions, talks=TALKS):
        events = write("events.jsonl", event_rows(talks))
        return read_dataset(events, write("asked.jsonl", question_rows(questions)))

    return asking


@pytest.fixture
def rows():
    """The rows of the two files of the small set, to be broken."""
    return event_rows(), question_rows()
