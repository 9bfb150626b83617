"""Sessions of the real clients, as recorded: what memplane makes of them, and gives back.

`tests/agents/process_clients.py` says what is said in them.
"""

import re

import pytest

import memplane
from memplane.clients import AGENTS, words_of
from memplane.importers import import_paths

SAID = "The mast of the Albatros is made of spruce"
DECIDED = "The Albatros gets red sails"
NOTED = "Noted: spruce, and two coats of varnish"
PROMPTS = [
    SAID,
    "Which wood is the mast of the Albatros made of?",
    "Again: which wood is the mast of the Albatros made of?",
    "So which wood is the mast of the Albatros?",
    "What about its rudder?",
]
MEANWHILE = "Its keel is of oak, by the way"  # while the agent is at work
ANSWERS = [
    NOTED,
    "Spruce",
    "Still spruce",
    "Spruce, as before",
    "Nobody has told me about a rudder",
]
VARNISH = "varnish of the mast: two coats, in May"
FAILED = "there is no drawing of a rudder"
BOLTED = "the keel is bolted, eight bolts"  # seen by a sub-agent
SUMMARY = "Ann asked about the wood of a mast"
ALSO = {"claude-code": [MEANWHILE], "codex": []}


def texts(plane, kind, role=None):
    return [one.text.strip() for one in plane.events(kind=kind) if role in (None, one.role)]


def told_of(plane):
    """The events, without the summaries that are made of quotations."""
    return [event for event in plane.events() if not event.data.get("extract")]


def contexts(calls):
    """What the agent was given, as one text."""
    return "\n".join(call.context for call in calls)


def shown(context):
    """The numbers of the events in it, each with its text as far as it is given."""
    lines = re.findall(r"(?m)^\w.* #(\d+)(?: [\d-]+)?: (.*?)(?: ….*)?$", context)
    return [(int(seq), text) for seq, text in lines]


def starts(calls, source):
    """Where a session starts so: the index in its calls."""
    [at] = [n for n, call in enumerate(calls) if call.said.get("source") == source]
    return at


def test_every_call_is_one_that_the_install_asked_for_and_each_of_these_is_made(replay):
    made = {(call.event, "--catch-up" in call.argv) for call in replay.calls}
    table = {(hook.event, hook.catch_up) for hook in AGENTS[replay.agent].hooks}
    installed = {
        (event, "--catch-up" in words_of(handler))
        for event, groups in replay.settings.items()
        for group in groups
        for handler in group["hooks"]
    }
    assert made == table == installed


def test_all_that_was_said_is_in_the_log_once_and_in_its_order(replay, plane):
    assert texts(plane, "message", "user") == [*PROMPTS, *ALSO[replay.agent]]
    assert texts(plane, "message", "assistant") == ANSWERS
    assert texts(plane, "tool_result")[0] == VARNISH
    assert VARNISH in texts(plane, "tool_call")[0]


def test_the_second_session_is_told_what_the_first_one_said_with_its_number_and_day(replay, plane):
    start, prompt = replay.of(replay.sessions[1])[:2]
    [said] = [event for event in plane.events(kind="message") if event.text == SAID]
    assert start.context.index(said.ts[:10]) < start.context.index(SAID)
    assert any(SAID in plane.event(seq).text for seq, _ in shown(start.context))
    assert prompt.context == ""  # it asks what the start has said
    for seq, text in shown(contexts(replay.calls)):
        assert text in plane.event(seq).text


def test_nothing_is_shown_twice_until_the_client_compacts_and_then_it_comes_again(replay):
    calls = replay.of(replay.sessions[1])
    at = starts(calls, "compact")
    for held in (calls[:at], calls[at:]):
        numbers = [seq for seq, _ in shown(contexts(held))]
        assert len(numbers) == len(set(numbers))
        assert SAID in contexts(held)


def test_a_session_that_goes_on_is_told_what_was_said_meanwhile_and_not_what_it_holds(replay):
    calls = replay.of(replay.sessions[0])
    assert PROMPTS[3] in calls[starts(calls, "resume")].context
    assert SAID not in contexts(calls)
    assert NOTED not in contexts(calls)


def test_nothing_that_was_recalled_is_recorded(replay, plane):
    assert SAID in contexts(replay.calls)
    for event in plane.events():
        assert "memplane:begin" not in event.text
        assert "recalled by memplane" not in event.text
    assert [event.role for event in told_of(plane) if SAID in event.text] == ["user"]


def test_an_import_of_the_transcripts_says_nothing_twice_and_a_second_one_adds_nothing(
    replay, copied
):
    before = copied.head().seq
    report = import_paths(copied, replay.agent, replay.transcripts)
    assert not report.refused
    for text in (*PROMPTS, *ANSWERS, *ALSO[replay.agent], VARNISH):
        found = [event for event in told_of(copied) if event.text.strip().endswith(text)]
        assert len(found) == 1, text
    for text in (SAID, DECIDED) if replay.spoken else (SAID,):
        assert sum(text in event.text for event in told_of(copied)) == 1
    results = [event for event in copied.events(kind="tool_result") if FAILED in event.text]
    assert [event.data["status"] for event in results if "status" in event.data] == ["error"]
    summaries = [
        event.seq for event in told_of(copied) if event.kind == "summary" and SUMMARY in event.text
    ]
    assert len(summaries) == 1
    added = [event.text for event in copied.events() if event.seq > before]
    assert [
        text for text in added if "recalled by memplane" in text or "__memplane__" in text
    ] == []
    after = copied.head()
    import_paths(copied, replay.agent, replay.transcripts)
    assert copied.head() == after
    assert copied.upkeep.verify(deep=True).ok


def test_without_hooks_the_transcripts_alone_say_all_of_it_once(replay, tmp_path):
    with memplane.init(tmp_path / "another", durability="os") as plane:
        import_paths(plane, replay.agent, replay.transcripts)
        typed = [text for text in texts(plane, "message", "user") if not text.startswith("/")]
        assert sorted(typed) == sorted([*PROMPTS, *ALSO[replay.agent]])
        answered = texts(plane, "message", "assistant")
        assert sorted(text for text in answered if text in ANSWERS) == sorted(ANSWERS)
        head = plane.head()
        import_paths(plane, replay.agent, replay.transcripts)
        assert plane.head() == head


def test_no_hook_had_a_fault_and_the_plane_is_whole(replay, plane):
    home = replay.home / ".memplane"
    assert not (home / "hooks.log").exists(), (home / "hooks.log").read_text()
    assert not [*(home / "log").glob("spool/*")]
    assert plane.upkeep.verify(deep=True).ok


def test_what_a_sub_agent_did_is_marked_as_its_own(replay, copied):
    import_paths(copied, replay.agent, replay.transcripts)
    found = [event for event in copied.events(kind="tool_result") if event.text.strip() == BOLTED]
    assert len(found) == (replay.agent == "claude-code")
    for event in found:
        assert "sidechain" in event.tags
        assert event.actor
    assert [
        one for one in copied.events(kind="message") if one.role == "user" and "bolt" in one.text
    ] == []


def test_the_server_answers_every_line_and_finds_what_was_said_before(replay, plane):
    if not replay.spoken:
        pytest.skip("memplane[mcp] is not installed")
    asked = [(line, answer) for line, answer in replay.spoken if "id" in line]
    # A client whose probe was answered late asks by the older protocol too, and then goes on.
    refused = [line["method"] for line, answer in asked if "result" not in answer]
    assert set(refused) <= {"initialize"}
    results = [answer["result"] for line, answer in asked if line["method"] == "tools/call"]
    stored, found = (one["structuredContent"] for one in results)
    assert plane.event(stored["seq"]).text == DECIDED
    assert texts(plane, "decision") == [DECIDED]
    assert SAID in [hit["text"] for hit in found["hits"]]
    assert DECIDED in replay.of(replay.sessions[1])[0].context
