"""Coding sessions that nobody had: rows for `record_many`, and the same as a transcript on disk.

A seed gives the same rows on every machine. The proportions follow real transcripts: two of three
events are tool calls and their results, results have a long tail, prompts are short, and decisions
are few, keyed and sometimes superseded.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

__all__ = ["QUERIES", "rows", "text", "transcript"]

Row = dict[str, Any]

_BEGIN: Final = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
_SESSION_EVENTS: Final = 160  # the median of real sessions
_AREAS: Final = (
    "billing", "catalog", "checkout", "export", "gateway", "identity", "inbox", "ledger",
    "metrics", "notify", "payout", "pricing", "quota", "replica", "search", "session", "shipping",
    "storage", "tenant", "upload", "webhook", "worker",
)  # fmt: skip
_THINGS: Final = (
    "adapter", "batch", "cache", "client", "config", "cursor", "digest", "envelope", "fixture",
    "header", "invoice", "job", "key", "limiter", "migration", "parser", "policy", "queue",
    "record", "retry", "router", "schema", "snapshot", "token", "transaction", "validator", "view",
)  # fmt: skip
_DOES: Final = (
    "accepts", "closes", "copies", "drops", "expires", "flushes", "ignores", "keeps", "loads",
    "locks", "merges", "normalises", "opens", "parses", "rejects", "renames", "replays", "retries",
    "returns", "rounds", "skips", "sorts", "splits", "validates", "writes",
)  # fmt: skip
_WHEN: Final = (
    "after a restart", "before the transaction commits", "for every tenant", "in the nightly job",
    "on the second attempt", "only for admins", "under load", "when the cursor is stale",
    "when the header is missing", "when the list is empty", "while a migration runs",
    "with two workers", "without a trailing newline",
)  # fmt: skip
_ASKS: Final = (
    "Can you find out why the {area} {thing} {does} the {other} {when}?",
    "The {area} {thing} still {does} the {other} {when}. Please fix it and add a test.",
    "Add a `--{thing}` option to the {area} command.",
    "Rename `{name}` to `{name2}` everywhere, the old name confuses people.",
    "What is left to do on {area}?",
    "Run the tests of {area} again and commit if they pass.",
    "Why did we give up the {other} {thing}?",
)
_SAYS: Final = (
    "The cause is in `{name}`: it {does} the {other} {when}, so the {thing} is never written. ",
    "I will change `{name2}` so that the {area} {thing} {does} the {other} {when}. ",
    "`{path}` has two callers; only `{name}` depends on the order of the {other}. ",
    "The tests of {area} pass now, {number} of them, in {small} seconds. ",
    "There is one more place: {path}:{number} {does} the {thing} without looking at the {other}. ",
    "That would break the {area} {thing} {when}, so I leave it and only log the {other}. ",
)
_DECIDES: Final = (
    "The {area} {thing} {does} the {other} {when}; callers must not rely on the order.",
    "We keep one {thing} for each {other} in {area}, at most {number} of them.",
    "Timeouts of the {area} {thing} are {small} seconds, {number} retries at most.",
)
QUERIES: Final = (
    "Why does the billing cache drop the invoice after a restart?",
    "Run the tests of checkout again and commit if they pass.",
    "what did we decide about the retry policy of the gateway",
    "rename the search cursor validator",
    "which timeouts does the webhook client have?",
    "",
    "Add a test for the ledger migration when the list is empty",
    "upload limiter rejects the second attempt",
)


class _Words:
    """Fills templates from one stream of chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def say(self, templates: tuple[str, ...], area: str) -> str:
        pick = self.chance.choice
        thing, other = pick(_THINGS), pick(_THINGS)
        return pick(templates).format(
            area=area, thing=thing, other=other, does=pick(_DOES), when=pick(_WHEN),
            name=f"{area}_{thing}", name2=f"{pick(_DOES)}_{other}".removesuffix("s"),
            path=self.path(area), number=self.chance.randint(2, 400),
            small=round(self.chance.uniform(0.1, 30), 1),
        )  # fmt: skip

    def path(self, area: str) -> str:
        pick = self.chance.choice
        return pick((f"src/{area}/{pick(_THINGS)}.py", f"tests/{area}/test_{pick(_THINGS)}.py"))

    def prose(self, area: str, characters: int) -> str:
        parts = []
        while characters > 0:
            parts.append(self.say(_SAYS, area))
            characters -= len(parts[-1])
        return "".join(parts).strip()

    def output(self, area: str, lines: int) -> str:
        """What a tool prints: code, search hits or a test run."""
        pick, number = self.chance.choice, self.chance.randint
        shape = number(0, 2)
        made = []
        for at in range(lines):
            thing, path = pick(_THINGS), self.path(area)
            if shape == 0:
                asks = f"self.{pick(_THINGS)}.{pick(_DOES)}({thing}_id, limit={number(1, 999)})"
                made.append(f"{at + 1:>5}  {pick(('    ', '        '))}{thing} = {asks}")
            elif shape == 1:
                made.append(f"{path}:{number(1, 900)}: def {thing}_{pick(_THINGS)}(self) -> None:")
            else:
                end = pick(("PASSED", "PASSED", "PASSED", "FAILED"))
                made.append(f"{path}::test_{thing}_{pick(_DOES)}[{number(0, 16**8):08x}] {end}")
        return "\n".join(made)


def text(seed: int, characters: int = 600) -> str:
    """New prose with code names in it, of exactly that length."""
    words = _Words(random.Random(seed))
    return words.prose(words.chance.choice(_AREAS), characters).ljust(characters, ".")[:characters]


def rows(count: int, seed: int = 7) -> Iterator[Row]:
    """That many rows in the order in which they happened, in sessions of about 160."""
    words = _Words(random.Random(seed))
    moment, session = _BEGIN, 0
    while count > 0:
        session += 1
        moment += timedelta(minutes=words.chance.randint(20, 300))
        size = min(count, words.chance.randint(_SESSION_EVENTS // 2, _SESSION_EVENTS * 3 // 2))
        for number, row in enumerate(_session(words, size)):
            moment += timedelta(seconds=words.chance.uniform(0.5, 25))
            yield {"id": f"bench:{seed}:{session}:{number}", "ts": moment.isoformat(),
                   "session": f"session-{seed}-{session}", **row}  # fmt: skip
        count -= size


def _session(words: _Words, size: int) -> Iterator[Row]:
    chance = words.chance
    area = chance.choice(_AREAS)
    yield {"kind": "session", "text": "Session started", "data": {"status": "start"}}
    calls = 0
    for number in range(1, size):
        turn = number % 12
        if turn == 1:
            if chance.random() < 0.3:
                area = chance.choice(_AREAS)
            yield {"role": "user", "text": words.say(_ASKS, area)}
        elif turn in (2, 11):
            length = chance.choice((90, 240, 700))
            yield {"role": "assistant", "text": words.prose(area, length)}
        elif number % 39 == 10:
            yield {"kind": "decision", "role": "assistant", "text": words.say(_DECIDES, area),
                   "key": f"{area}.{chance.choice(_THINGS)}", "markers": ["decision"]}  # fmt: skip
        elif turn % 2:
            calls += 1
            tool = chance.choice(("Read", "Grep", "Bash", "Edit"))
            path = words.path(area)
            yield {"kind": "tool_call", "role": "assistant", "text": f"{tool} file_path={path}",
                   "data": {"tool": tool, "call": f"call_{calls}", "path": path}}  # fmt: skip
        else:
            failed = chance.random() < 0.06
            lines = min(400, int(chance.paretovariate(0.9)) + 1)
            yield {"kind": "tool_result", "role": "tool", "text": words.output(area, lines),
                   "data": {"tool": "Bash", "call": f"call_{calls}",
                            "status": "error" if failed else "ok"}}  # fmt: skip


def transcript(count: int, seed: int = 11) -> bytes:
    """A Claude Code transcript that gives about that many events."""
    made: list[Row] = []
    for row in rows(count, seed):
        kind, session = row.get("kind", "message"), row["session"]
        block: Row = {"type": "text", "text": row["text"]}
        call = row.get("data", {}).get("call", "")
        if kind == "session":
            continue  # a reader makes it itself
        if kind == "tool_call":
            tool = row["data"]["tool"]
            given = {"file_path": f"/home/dev/shop/{row['data']['path']}"}
            block = {"type": "tool_use", "id": f"{session}{call}", "name": tool, "input": given}
        elif kind == "tool_result":
            failed = row["data"]["status"] == "error"
            block = {"type": "tool_result", "tool_use_id": f"{session}{call}"}
            block |= {"content": row["text"], "is_error": failed}
        person = row.get("role") != "assistant"
        made.append({
            "parentUuid": made[-1]["uuid"] if made else None, "isSidechain": False,
            "userType": "external", "cwd": "/home/dev/shop", "sessionId": session,
            "version": "2.0.76", "gitBranch": "main", "type": "user" if person else "assistant",
            "message": {"role": "user" if person else "assistant", "content": [block]},
            "uuid": row["id"], "timestamp": row["ts"].replace("+00:00", "Z"),
        })  # fmt: skip
    return b"".join(json.dumps(record).encode() + b"\n" for record in made)
