"""Real clients, offline: what was said in one session is before the model in the next."""

import process_clients as sessions
import pytest
from fakes_model_server import Model

import memplane
from memplane.importers import import_paths

with_claude = pytest.mark.skipif(sessions.CLAUDE is None, reason="no Claude Code: MEMPLANE_CLAUDE")
with_codex = pytest.mark.skipif(sessions.CODEX is None, reason="no Codex: MEMPLANE_CODEX")
CLIENTS = [
    pytest.param("claude-code", sessions.with_claude_code, "tool_result", marks=with_claude),
    pytest.param("codex", sessions.with_codex, "function_call_output", marks=with_codex),
]
PROMPTS = [
    sessions.SAID, sessions.ASKED, sessions.AGAIN, sessions.AFTER, sessions.RESUMED,
]  # fmt: skip
ANSWERS = [
    sessions.NOTED, sessions.ANSWERED, sessions.STILL, sessions.LAST, sessions.UNKNOWN,
]  # fmt: skip


@pytest.fixture
def model():
    model = Model()
    yield model
    model.close()


def words_of(plane, role):
    said = [event.text for event in plane.events(kind="message") if event.role == role]
    return [text for text in said if text != sessions.MEANWHILE]


@pytest.mark.parametrize(("source", "run", "result"), CLIENTS)
def test_a_client_remembers_the_session_before(tmp_path, model, source, run, result):
    person = sessions.Person(tmp_path)
    transcripts = run(person, model)
    assert model.steps == []
    asked = [text for text in model.seen() if sessions.ASKED in text]
    assert sessions.SAID in asked[0]  # from a hook
    assert any(sessions.SAID in text[text.index(f'"{result}"') :] for text in asked[1:2])
    # After a compaction: the first prompt itself may be left out, as the second one holds its words.
    assert sessions.SAID in next(text for text in model.seen() if sessions.AFTER in text)
    with memplane.open(person.home / ".memplane", environment={}) as plane:
        assert words_of(plane, "user") == PROMPTS
        assert words_of(plane, "assistant") == ANSWERS
        assert len([one for one in transcripts if "subagents" not in one.parts]) == 2
        assert import_paths(plane, source, transcripts).items
        assert [text for text in words_of(plane, "user") if not text.startswith("/")] == PROMPTS
        assert plane.upkeep.verify(deep=True).ok
