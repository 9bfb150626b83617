"""Coding sessions that nobody had: the same rows for the same seed, on every machine.

The proportions follow real transcripts: two of three events are tool calls and their results,
results have a long tail, prompts are short, decisions are few, keyed and sometimes replaced.
Only `Random.random` is drawn from, whose sequence Python promises to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, TypeVar

__all__ = ["SESSION_EVENTS", "generated"]

Row = dict[str, Any]
T = TypeVar("T")

SESSION_EVENTS: Final = 160  # the median of real sessions
_TURN: Final = 12  # events from a prompt to the next one
_AREAS: Final = (
    "billing", "catalog", "checkout", "export", "gateway", "identity", "inbox", "ledger",
    "metrics", "notify", "payout", "pricing", "quota", "replica", "search", "shipping",
    "storage", "tenant", "upload", "webhook", "worker",
)  # fmt: skip
_THINGS: Final = (
    "adapter", "batch", "cache", "client", "config", "cursor", "digest", "envelope", "fixture",
    "header", "invoice", "job", "limiter", "migration", "parser", "queue", "record", "retry",
    "router", "schema", "snapshot", "transaction", "validator", "view",
)  # fmt: skip
_DOES: Final = (
    "accepts", "closes", "copies", "drops", "expires", "flushes", "ignores", "keeps", "loads",
    "locks", "merges", "opens", "parses", "rejects", "renames", "retries", "returns", "rounds",
    "skips", "sorts", "splits", "validates", "writes",
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
    "What is left to do on {area}?",
    "Run the tests of {area} again and commit if they pass.",
    "Why did we give up the {other} {thing}?",
)
_SAYS: Final = (
    "The cause is in `{area}_{thing}`: it {does} the {other} {when}, so nothing is written. ",
    "I will change `{area}_{other}` so that the {thing} {does} it {when}. ",
    "`{path}` has two callers; only one depends on the order of the {other}. ",
    "The tests of {area} pass now, {number} of them. ",
    "There is one more place: {path}:{number} {does} the {thing} without looking at the {other}. ",
    "That would break the {area} {thing} {when}, so I leave it and only log the {other}. ",
)
_DECIDES: Final = (
    "The {area} {thing} {does} the {other} {when}; callers must not rely on the order.",
    "We keep one {thing} for each {other} in {area}, at most {number} of them.",
    "Timeouts of the {area} {thing} are {number} seconds.",
)
_LENGTHS: Final = (90, 240, 700)  # characters of what an assistant says
_LINES_MAX: Final = 300  # of what a tool gives back


def generated(
    seed: int, count: int, start: datetime, *, session_events: int = SESSION_EVENTS
) -> Iterator[Row]:
    """Give that many rows in the order in which they happened, from `start` on.

    Ids are `gen:SEED:SESSION:NUMBER`, sessions `gen-SEED-SESSION`.
    """
    words, moment, session = _Words(Random(seed)), start, 0  # noqa: S311 - no secret
    while count > 0:
        session += 1
        size = min(count, max(2, words.between(session_events // 2, session_events * 3 // 2)))
        for number, row in enumerate(_session(words, size)):
            yield {
                "id": f"gen:{seed}:{session}:{number}", "ts": moment,
                "session": f"gen-{seed}-{session}", **row,
            }  # fmt: skip
            moment += timedelta(seconds=words.between(1, 25))
        moment += timedelta(minutes=words.between(20, 300))
        count -= size


def _session(words: _Words, size: int) -> Iterator[Row]:
    area = words.pick(_AREAS)
    yield {"kind": "session", "text": "Session started", "data": {"status": "start"}}
    calls = 0
    for number in range(1, size):
        turn = number % _TURN
        if turn == 1:
            area = words.pick(_AREAS) if words.chance(0.3) else area
            yield {"role": "user", "text": words.say(_ASKS, area)}
        elif turn in (2, _TURN - 1):
            said = words.prose(area, words.pick(_LENGTHS))
            yield {"role": "assistant", "text": said}
        elif number % 39 == 10:
            yield {
                "kind": "decision", "role": "assistant", "text": words.say(_DECIDES, area),
                "key": f"{area}.{words.pick(_THINGS)}", "markers": ["decision"],
            }  # fmt: skip
        elif turn % 2:
            calls += 1
            tool, path = words.pick(("Read", "Grep", "Bash", "Edit")), words.path(area)
            data = {"tool": tool, "call": f"call_{calls}", "path": path}
            yield {
                "kind": "tool_call", "role": "assistant", "text": f"{tool} file_path={path}",
                "data": data,
            }  # fmt: skip
        else:
            status = "error" if words.chance(0.06) else "ok"
            data = {"tool": "Bash", "call": f"call_{calls}", "status": status}
            yield {
                "kind": "tool_result", "role": "tool", "text": words.output(area), "data": data,
            }  # fmt: skip


class _Words:
    """Fills sentences from one stream of chance."""

    def __init__(self, stream: Random) -> None:
        self._draw = stream.random

    def chance(self, share: float) -> bool:
        return self._draw() < share

    def between(self, least: int, most: int) -> int:
        return least + int(self._draw() * (most - least + 1))

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._draw() * len(choices))]

    def say(self, sentences: tuple[str, ...], area: str) -> str:
        return self.pick(sentences).format(
            area=area, thing=self.pick(_THINGS), other=self.pick(_THINGS), does=self.pick(_DOES),
            when=self.pick(_WHEN), path=self.path(area), number=self.between(2, 400),
        )  # fmt: skip

    def path(self, area: str) -> str:
        if self.chance(0.5):
            return f"src/{area}/{self.pick(_THINGS)}.py"
        return f"tests/{area}/test_{self.pick(_THINGS)}.py"

    def prose(self, area: str, characters: int) -> str:
        said = ""
        while len(said) < characters:
            said += self.say(_SAYS, area)
        return said.strip()

    def output(self, area: str) -> str:
        """What a tool prints: code or a test run; few lines mostly, sometimes very many."""
        lines = min(_LINES_MAX, int(1 / (1 - self._draw())))
        if self.chance(0.5):
            made = [
                f"{at + 1:>5}      {self.pick(_THINGS)} = self.{self.pick(_THINGS)}.open({at})"
                for at in range(lines)
            ]
        else:
            ends = ("PASSED", "PASSED", "PASSED", "FAILED")
            made = [f"{self.path(area)}::test_{at} {self.pick(ends)}" for at in range(lines)]
        return "\n".join(made)
