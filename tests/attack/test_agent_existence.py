"""An agent asks for what it may not see, and compares the answer with that for what is not there.

Each question is put to two planes: in one the name belongs to something hidden, in the other to
nothing. Answers are the same byte for byte, and take the same reads of the log.
"""

import contextlib
import os
import re
import sys
from collections import Counter

import pytest

import memplane
from memplane.__main__ import main
from memplane.errors import MemplaneError

HIDDEN = {
    "high": {"sensitivity": "high"},
    "secret": {"sensitivity": "secret"},
    "an agent's": {"ns": "/agent/bo"},
}
READERS = ({"channel": "agent"}, {"channel": "agent", "agent": "al"}, {"channel": "public"})
READS = frozenset(("open", "pread", "read", "listdir", "scandir"))


def record(plane, name, tmp_path, **fields):
    """One of everything under a name; what memplane itself needs to find it again is in no text."""
    plane.record("w", id=f"id-{name}", kind="fact", key=f"key-{name}", **fields)
    plane.record("w", kind="decision", key=f"older-{name}", **fields)
    plane.record("w", kind="decision", key=f"older-{name}", **fields)
    for _ in range(4):
        plane.record("w", session=f"session-{name}", role="user", **fields)
    plane.work.tasks.open(f"task-{name}", "w", **fields)
    file = tmp_path / f"{name}.txt"
    file.write_text(name)
    plane.work.artifacts.add(file, "w", id=f"art-{name}", **fields)


@pytest.fixture
def planes(tmp_path):
    """A maker of two planes of equal length: with what is hidden under `x`, and under `other`."""
    with contextlib.ExitStack() as stack:

        def make(fields):
            found = []
            for name in ("x", "q"):
                home = tmp_path / f"home-{name}"
                memplane.init(home).close()
                for file in (home / "policies").iterdir():
                    os.utime(file, (0, 0))  # what was written just now is read again
                plane = stack.enter_context(memplane.open(home, durability="os"))
                record(plane, "seen", tmp_path)
                record(plane, name, tmp_path, **fields)
                found.append(plane)
            return found

        yield make


def questions(plane, who):
    """What may be asked by a name."""
    digits = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # of the text `x`
    yield lambda: plane.get("key-x", **who)
    yield lambda: plane.history("key-x", **who)
    yield lambda: plane.keys("", **who)
    yield lambda: plane.keys("key-x", **who)
    yield lambda: plane.event("id-x", **who)
    for depth in range(4):
        yield lambda depth=depth: plane.expand(f"task/task-x?depth={depth}", **who)
        yield lambda depth=depth: plane.expand(f"session/session-x?depth={depth}", **who)
    for depth in range(2):
        for key in ("key-x", "older-x"):
            yield lambda key=key, depth=depth: plane.expand(
                f"memory/global/{key}?depth={depth}", **who
            )
    yield lambda: plane.expand("event/id-x", **who)
    yield lambda: plane.expand(f"artifact/{digits}", **who)
    yield lambda: plane.work.artifacts.show("x.txt", **who)
    yield lambda: plane.work.artifacts.show("art-x", **who)
    yield lambda: plane.work.artifacts.show(digits[:12], **who)
    yield lambda: plane.work.artifacts.export("x.txt", "/nowhere", **who)
    yield lambda: plane.work.artifacts.list(all=True, **who)
    yield lambda: plane.work.tasks.get("task-x", **who)
    yield lambda: plane.work.tasks.get("task-xx", **who)  # a hint would name it
    yield lambda: plane.work.tasks.list(all=True, **who)
    yield lambda: plane.work.sessions.get("session-x", **who)
    yield lambda: plane.work.sessions.get("session-xx", **who)
    yield lambda: plane.work.sessions.list(channel=who["channel"])
    yield lambda: plane.expand("memory/global/key-xx", **who)
    yield lambda: plane.work.files("x", **who)
    yield lambda: plane.search("key-x task-x session-x", **who)
    for handle in ("event/id-x", "task/task-x", "session/session-x", "memory/global/key-x",
                   f"artifact/{digits}"):  # fmt: skip
        yield lambda handle=handle: plane.pack(expand=[handle], **who).text


def answer(ask):
    """The answer or the refusal, as one would compare it: times and chains are the log's."""
    try:
        said = ask()
    except MemplaneError as error:
        return f"{type(error).__name__}: {error}"
    return repr(said)


def steps(ask):
    """How often something is read, by call; a first time fills what is kept."""
    answer(ask)
    seen = Counter()

    def look(_frame, event, called):
        if event == "c_call" and called.__name__ in READS and called.__module__ in ("posix", "io"):
            seen[called.__name__] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        answer(ask)
    finally:
        sys.setprofile(before)
    return seen


def neutral(said):
    """An answer without what differs between any two planes: ids, times, hashes."""
    said = re.sub(r"[0-9A-HJKMNP-TV-Z]{26}", "ULID", said)
    said = re.sub(r"\b[0-9a-f]{16,64}\b", "HASH", said)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", said)


@pytest.mark.parametrize("why", HIDDEN)
def test_what_is_hidden_is_answered_as_what_is_not_there(planes, why):
    there, absent = planes(HIDDEN[why])
    for who in READERS:
        pairs = zip(questions(there, who), questions(absent, who), strict=True)
        for number, (one, other) in enumerate(pairs):
            assert neutral(answer(one)) == neutral(answer(other)), (number, who)


@pytest.mark.parametrize("why", HIDDEN)
def test_what_is_hidden_takes_the_same_reads_as_what_is_not_there(planes, why):
    there, absent = planes(HIDDEN[why])
    who = READERS[0]
    for number, (one, other) in enumerate(
        zip(questions(there, who), questions(absent, who), strict=True)
    ):
        assert steps(one) == steps(other), number


COMMANDS = (
    ("get", "key-x"), ("history", "key-x"), ("keys",), ("show", "id-x"), ("expand", "event/id-x"),
    ("expand", "task/task-x"), ("expand", "session/session-x"), ("task", "show", "task-x"),
    ("session", "show", "session-x"), ("artifact", "show", "x.txt"), ("artifact", "list"),
    ("task", "list", "--all"), ("pack", "w", "--expand", "memory/global/key-x"), ("log",),
)  # fmt: skip


def test_commands_answer_and_exit_the_same(planes, capsys, monkeypatch):
    monkeypatch.delenv("MEMPLANE_HOME", raising=False)
    there, absent = planes(HIDDEN["secret"])
    for command in COMMANDS:
        said = []
        for plane in (there, absent):
            for more in ((), ("--json",)):
                code = main([*command, "--channel", "agent", "--home", str(plane.home), *more])
                found = capsys.readouterr()
                said.append((code, neutral(found.out), neutral(found.err)))
        assert said[:2] == said[2:], command
        assert said[0][0] in (0, 1), (command, said[0])


def test_that_something_was_purged_is_for_the_owner(plane):
    plane.record("w", id="mcp:1", kind="fact")
    plane.upkeep.purge("mcp:1")
    for who in READERS:
        for name in ("mcp:1", 2):
            assert answer(lambda name=name, who=who: plane.event(name, **who)) == (
                f"NotFoundError: no event {name!r}"
            )
    assert "was purged by event 3" in answer(lambda: plane.event("mcp:1"))


def test_no_value_names_a_hidden_one_as_what_replaced_it_or_was_before(plane):
    plane.record("one", kind="fact", key="k", sensitivity="high")
    plane.record("two", kind="fact", key="k")
    plane.record("three", kind="fact", key="k", sensitivity="secret")
    (version,) = plane.history("k", channel="agent")
    assert (version.reason, version.by_seq, version.supersedes) == ("superseded", None, None)
    standing = plane.work.standing(version.event, channel="agent")
    assert (standing.reason, standing.by_seq, standing.supersedes) == ("superseded", None, None)
    assert plane.expand("memory/global/k?depth=1", channel="agent").text == (
        "fact k: [superseded] two\n"
    )
    assert plane.get("k", channel="agent") is None
    owner = plane.work.standing(version.event)
    assert (owner.reason, owner.by_seq, owner.supersedes) == ("superseded", None, 2)


def test_a_hidden_artifact_hides_no_other_of_its_name_or_hash(plane, tmp_path):
    file = tmp_path / "x.txt"
    file.write_text("x")
    seen = plane.work.artifacts.add(file, "open").receipt
    plane.work.artifacts.add(file, "closed", sensitivity="high")
    assert plane.work.artifacts.show("x.txt", channel="agent").seq == seen.seq
    assert "may be event" in answer(lambda: plane.work.artifacts.show("x.txt"))
