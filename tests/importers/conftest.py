"""Small transcripts and repositories, made up here, and a plane to import them into."""

import json

import pytest
from builders_git import Made

from memplane.importers.claude_code import ClaudeCode


class Transcript:
    """Builds the records of one transcript as its client writes them."""

    def __init__(self, session="s-one", folder="/proj"):
        self.records = []
        self.common = {
            "sessionId": session,
            "cwd": folder,
            "gitBranch": "main",
            "isSidechain": False,
        }

    def add(self, kind, **fields):
        number = len(self.records)
        self.records.append(
            {
                "type": kind,
                "uuid": f"{self.common['sessionId']}-{number:04}",
                "timestamp": f"2026-03-01T10:{number // 60:02}:{number % 60:02}.000Z",
                **self.common,
                **fields,
            }
        )
        return self

    def user(self, content, **fields):
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def says(self, *blocks, message="msg_1", **fields):
        blocks = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        message = {"role": "assistant", "id": message, "content": blocks}
        return self.add("assistant", message=message, **fields)

    def calls(self, tool, call, **arguments):
        return self.says({"type": "tool_use", "id": call, "name": tool, "input": arguments})

    def result(self, call, content, **fields):
        block = {"type": "tool_result", "tool_use_id": call, "content": content, **fields}
        return self.user([block], toolUseResult={"stdout": "never read"})

    @property
    def bytes(self):
        return b"".join(json.dumps(record).encode() + b"\n" for record in self.records)

    def rows(self, **options):
        reader = ClaudeCode(**options)
        reader.begin({})
        outcomes = [reader.read(record, json.dumps(record).encode()) for record in self.records]
        rows = [row for outcome in outcomes for row in outcome.rows]
        skipped = [reason for outcome in outcomes for reason in outcome.skipped]
        return rows, skipped


@pytest.fixture
def transcript():
    return Transcript


@pytest.fixture
def plane(tmp_path_factory):
    import memplane

    # Months after the transcripts: their sessions are over.
    now = "2026-06-01T12:00:00.000000Z"
    with memplane.init(tmp_path_factory.mktemp("project") / "home", clock=lambda: now) as plane:
        yield plane


@pytest.fixture
def repository(tmp_path):
    made = Made(tmp_path / "work")
    made.commit("Begin", {"a.py": "1\n2\n3\n4\n5\n6\n"})
    return made
