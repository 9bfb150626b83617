"""The questions over agents' transcripts. The transcripts are no part of this repository."""

import re

from memplane.evaluate import read_dataset

KEYS = {"conversation_id", "question_id", "question", "category", "evidence_event_ids"}
CATEGORIES = {
    "error", "fix", "decision", "request", "file", "command", "result", "cross-session",
}  # fmt: skip
EVENT = re.compile(r"claude-code:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+")


def test_there_are_at_least_sixty_questions_each_asked_once(questions):
    assert len(questions) >= 60
    for key in ("question_id", "question"):
        assert len({row[key] for row in questions}) == len(questions), key


def test_every_category_is_known_and_has_several_questions(questions):
    asked = [row["category"] for row in questions]
    assert set(asked) == CATEGORIES
    assert min(asked.count(name) for name in CATEGORIES) >= 5


def test_every_question_names_one_to_five_events_as_the_importer_names_them(questions):
    for row in questions:
        evidence = row["evidence_event_ids"]
        assert 1 <= len(evidence) == len(set(evidence)) <= 5, row["question_id"]
        assert all(EVENT.fullmatch(each) for each in evidence), row["question_id"]


def test_the_file_holds_questions_and_ids_and_nothing_else(questions):
    for row in questions:
        assert set(row) == KEYS, row
        assert len(row["question"]) <= 160, row["question_id"]
        assert "\n" not in row["question"], row["question_id"]


def test_eval_reads_the_file(questions, tmp_path):
    events = tmp_path / "events.jsonl"
    events.write_text(
        '{"conversation_id": "claude_code", "event_id": "1", "text": "x", "role": "user"}\n'
    )
    from pathlib import Path

    dataset = read_dataset(events, Path(__file__).with_name("claude_code.questions.jsonl"))
    assert len(dataset.asked) == len(questions)
