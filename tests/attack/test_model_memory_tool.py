"""A model with Anthropic's memory tool reads and rewrites what its channel may not see."""

import contextlib

import pytest

import memplane
from memplane.adapters.memory_tool import COMMANDS, MemoryFiles
from memplane.errors import MemplaneError, ScopeError
from memplane.event import FIELDS, Draft, encode
from tests.examples import paired

WORD = "quibblefrost"
PAST, FUTURE = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
# What the memory tool's channel, `agent`, may not read now.
HIDDEN = {
    "high": {"sensitivity": "high"},
    "secret": {"sensitivity": "secret"},
    "expired": {"valid_until": PAST},
    "pending": {"valid_from": FUTURE},
}
# Hidden whatever the time is: the owner's to replace.
WITHHELD = ("high", "secret")
SEES = ("private", "public", "team", "agent")


def said(files, **command):
    """The answer, or the refusal with its type."""
    try:
        return files.run(command)
    except MemplaneError as error:
        return f"{type(error).__name__}: {error}"


def every(path, other):
    """Each command about a path, in a form that a file at the path would let succeed."""
    return {
        "view": {"path": path},
        "create": {"path": path, "file_text": "x"},
        "str_replace": {"path": path, "old_str": WORD, "new_str": "y"},
        "insert": {"path": path, "insert_line": 0, "insert_text": "y"},
        "delete": {"path": path},
        "rename": {"old_path": path, "new_path": other},
    }


def archived(plane, seq):
    """Why an event is out of force, whoever may see it."""
    return plane.context.caught_up().memories.archived(plane._log.line(seq).event)


def shown(plane, channel):
    """What a channel is given of a plane as of now."""
    block = plane.pack(WORD, budget=4000, channel=channel, intent="deep")
    yield block.text
    yield from (hit.text for hit in plane.search(WORD, channel=channel))
    for key in plane.keys("", None, channel=channel):
        with contextlib.suppress(MemplaneError):
            yield plane.expand(f"memory/global{key}", channel=channel).text


@pytest.mark.parametrize("why", HIDDEN)
def test_the_tool_shows_nothing_that_its_channel_may_not_see(plane, why):
    plane.record(WORD, kind="fact", key="/memories/dir/file.md", **HIDDEN[why])
    files = MemoryFiles(plane)
    for path in ("/memories", "/memories/dir", "/memories/dir/file.md"):
        answer = said(files, command="view", path=path)
        assert WORD not in answer
        assert "does not exist" in answer or answer.endswith("4K\t/memories")


@pytest.mark.parametrize("why", HIDDEN)
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "create"])
def test_a_hidden_file_answers_like_none_and_nothing_is_written(tmp_path, clock, why, name):
    answers = []
    for number, fields in enumerate(({"key": "/elsewhere"}, {"key": "/memories/a/b.md"})):
        with memplane.init(tmp_path / str(number), durability="os", clock=clock) as plane:
            plane.record(WORD, kind="fact", **fields, **HIDDEN[why])
            files, head = MemoryFiles(plane), plane.head().seq
            for path in ("/memories/a/b.md", "/memories/a"):
                answers.append(said(files, command=name, **every(path, "/memories/c.md")[name]))
                if name != "rename":  # the SDK's own makes the folder that was to take it, too
                    assert plane.head().seq == head
            assert archived(plane, 2) is None
    assert answers[:2] == answers[2:]


@pytest.mark.parametrize(("name", "why"), paired(COMMANDS, HIDDEN, 2))
def test_no_command_brings_a_hidden_text_into_a_public_block(plane, why, name):
    plane.record(WORD, kind="fact", key="/memories/sec.md", **HIDDEN[why])
    files = MemoryFiles(plane)
    said(files, command=name, **every("/memories/sec.md", "/memories/open.md")[name])
    said(files, command="rename", old_path="/memories", new_path="/memories/x")
    for channel in ("public", "team", "agent"):
        assert not [text for text in shown(plane, channel) if WORD in text]
    texts = [line.event.text for line in plane._log.read()]
    assert sum(WORD in text for text in texts) == 1


@pytest.mark.parametrize("why", WITHHELD)
@pytest.mark.parametrize("how", ["create", "rename", "rename a folder"])
def test_a_hidden_value_is_not_replaced(plane, why, how):
    plane.record(WORD, kind="fact", key="/memories/d/sec.md", **HIDDEN[why])
    files = MemoryFiles(plane)
    files.create("/memories/e/sec.md", "mine")
    head = plane.head().seq
    command = {
        "create": {"command": "create", "path": "/memories/d/sec.md", "file_text": "x"},
        "rename": {
            "command": "rename", "old_path": "/memories/e/sec.md",
            "new_path": "/memories/d/sec.md",
        },
        "rename a folder": {
            "command": "rename", "old_path": "/memories/e", "new_path": "/memories/d",
        },
    }[how]  # fmt: skip
    answer = said(files, **command)
    assert answer == (
        "ScopeError: '/memories/d/sec.md' in '/global' is not for channel agent to write; "
        "choose another place"
    )
    assert plane.head().seq == head
    assert archived(plane, 2) is None


def test_a_file_that_the_channel_may_see_keeps_all_that_limits_it_when_it_is_moved(plane):
    first = plane.record(
        WORD, kind="preference", key="/memories/a.md", sensitivity="high", valid_until=FUTURE,
        valid_from=PAST, role="user", actor="Ana", tags=["tea"], importance=900,
        markers=["constraint"],
    )  # fmt: skip
    files = MemoryFiles(plane, channel="private", actor="bot")
    files.rename("/memories/a.md", "/memories/b/c.md")
    files.rename("/memories/b", "/memories/d")
    moved = plane.get("/memories/d/c.md")
    (between,) = (event for event in plane.events() if event.key == "/memories/b/c.md")
    old = plane.event(first.seq)
    for name in ("kind", "role", "actor", "sensitivity", "valid_from", "valid_until", "tags",
                 "importance", "markers"):  # fmt: skip
        assert getattr(moved, name) == getattr(old, name), name
    assert between.refs == (first.id,)
    assert moved.refs == (between.id,)
    for channel in ("public", "team", "agent"):
        assert not [text for text in shown(plane, channel) if WORD in text]


@pytest.mark.parametrize("command", ["str_replace", "insert"])
def test_an_edit_keeps_what_limits_the_file_and_names_what_it_was(plane, command):
    first = plane.record(
        f"{WORD} {WORD}x", kind="preference", key="/memories/a.md", sensitivity="high",
        valid_until=FUTURE, role="tool", actor="web",
    )  # fmt: skip
    files = MemoryFiles(plane, channel="private", actor="bot")
    given = {"old_str": f"{WORD}x", "new_str": "y"}
    given = {"insert_line": 1, "insert_text": "y"} if command == "insert" else given
    files.run({"command": command, "path": "/memories/a.md", **given})
    edited = plane.get("/memories/a.md")
    assert (edited.kind, edited.sensitivity, edited.valid_until) == (
        "preference", "high", "2099-01-01T00:00:00.000000Z"
    )  # fmt: skip
    # What a tool printed does not become the assistant's own words.
    assert (edited.role, edited.actor, edited.refs) == ("tool", "bot", (first.id,))
    for channel in ("public", "team", "agent"):
        assert not [text for text in shown(plane, channel) if WORD in text]


def test_a_kind_that_a_channel_does_not_see_stays_of_that_kind(plane):
    plane.record(WORD, kind="preference", key="/memories/a.md")
    files = MemoryFiles(plane)
    files.insert("/memories/a.md", 1, "more")
    files.rename("/memories/a.md", "/memories/b.md")
    assert plane.get("/memories/b.md", channel="agent").kind == "preference"
    assert not [text for text in shown(plane, "public") if WORD in text]
    assert WORD not in said(MemoryFiles(plane, channel="public"), command="view",
                            path="/memories/b.md")  # fmt: skip


def test_the_folder_that_a_hidden_file_leaves_empty_is_as_hidden(plane):
    plane.record("x", kind="fact", key="/memories/layoffs/ana.md", sensitivity="high")
    files = MemoryFiles(plane, channel="private")
    files.delete("/memories/layoffs/ana.md")
    assert "layoffs/" in files.view("/memories")
    for channel in ("public", "agent"):
        assert "layoffs" not in MemoryFiles(plane, channel=channel).view("/memories")
        assert not [key for key in plane.keys(channel=channel) if "layoffs" in key]


def test_what_hides_in_a_folder_stays_when_the_rest_is_deleted_or_moved(plane):
    plane.record(WORD, kind="fact", key="/memories/d/sec.md", sensitivity="high")
    plane.record("open", kind="fact", key="/memories/d/open.md")
    plane.record(WORD, kind="fact", key="/memories/e/sec.md", sensitivity="secret")
    files = MemoryFiles(plane)
    assert files.rename("/memories/d", "/memories/f") == (
        "Successfully renamed /memories/d to /memories/f"
    )
    assert said(files, command="view", path="/memories/d").startswith("InputError: The path")
    assert plane.get("/memories/d/sec.md").seq == 2
    files.clear()
    assert plane.get("/memories/d/sec.md").seq == 2
    assert archived(plane, 4) is None


def test_an_event_that_is_no_file_is_neither_shown_nor_replaced(plane, tmp_path):
    (tmp_path / "paper.txt").write_text(WORD)
    plane.work.artifacts.add(tmp_path / "paper.txt", WORD, key="/memories/paper.md")
    files = MemoryFiles(plane)
    assert said(files, command="view", path="/memories/paper.md").startswith("InputError: The path")
    assert said(files, command="create", path="/memories/paper.md", file_text="x").startswith(
        "ScopeError: '/memories/paper.md' in '/global' is not for channel agent to write"
    )


def test_an_agents_files_are_for_that_agent_alone(plane):
    MemoryFiles(plane, ns="/agent/a").create("/memories/a.md", WORD)
    assert WORD in MemoryFiles(plane, ns="/agent/a").view("/memories/a.md")
    for command, given in every("/memories/a.md", "/memories/b.md").items():
        with pytest.raises(ScopeError, match="namespace '/agent/a' is not for agent 'b'"):
            MemoryFiles(plane, ns="/agent/a", agent="b").run({"command": command, **given})


def test_an_unknown_channel_is_refused_at_once(plane):
    with pytest.raises(memplane.InputError, match="unknown channel"):
        MemoryFiles(plane, channel="everybody").view("/memories")


def test_what_an_older_version_recorded_of_an_actor_that_reads_like_a_role_is_still_moved_and_ended(
    plane,
):
    for number, fields in enumerate(
        (
            {"kind": "session", "session": "s", "actor": "System", "data": {"status": "start"}},
            {"kind": "fact", "session": "s", "actor": "System", "text": WORD, "key": "/memories/a"},
        )
    ):
        rest = encode({name: fields[name] for name in FIELDS if name in fields})[1:-1].encode()
        plane._log.append(
            [Draft(f"old{number}", True, None, fields["kind"], "/global", None, "s",
                   fields.get("key"), fields.get("text", ""), rest)]
        )  # fmt: skip
    MemoryFiles(plane).rename("/memories/a", "/memories/b")
    assert plane.get("/memories/b").actor == "actor system"
    plane.work.sessions.end("s")
    assert [one.status for one in plane.work.sessions.list()] == ["ended"]
