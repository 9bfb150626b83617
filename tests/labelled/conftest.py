"""The labelled sets, as they stand in the files beside this one."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def rows(name):
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def questions():
    return rows("claude_code.questions.jsonl")


@pytest.fixture(scope="session")
def notes():
    return rows("scripts.jsonl")
