"""A scenario file: YAML bytes to a typed record, and every mistake in it with its line.

The schema (`schemas/scenario.schema.json`) says what may stand where; `faults` sees the rest.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from memplane.errors import InputError, Problem
from memplane.intake import timestamp
from memplane.lazy import regex
from memplane.policy.document import Fault, Node, Path, plain, read
from memplane.policy.mistakes import problems
from memplane.scenario.faults import faults, said_of, step_of

__all__ = [
    "CLOCK",
    "Assertion",
    "Given",
    "Scenario",
    "ScenarioError",
    "Step",
    "is_scenario",
    "read_scenario",
]

CLOCK: Final = "2026-01-05T12:00:00.000000Z"

_KEY: Final = regex(rb"[A-Za-z_]+:")
# What a file of assertions alone may have at its top, and what its assertions are then about:
# twenty packs over a conversation that ends with a decision.
_ALONE: Final = frozenset((b"assertions", b"version", b"title"))
_GIVEN: Final = {
    "events": [
        {"role": "user", "session": "s", "repeat": 500, "text": "Turn {n} about the invoices"},
        {"id": "asked", "role": "user", "session": "s", "text": "Which database do we use?"},
        {
            "id": "decided", "kind": "decision", "key": "db.engine", "session": "s",
            "text": "We keep PostgreSQL", "refs": ["asked"],
        },
    ]
}  # fmt: skip
_WHEN: Final = [{"pack": {"query": "what was decided?", "repeat": 20, "as": "pack"}}]
_MAIN_OF_STEPS: Final = {"pack": "query", "search": "query", "run": "command"}


class ScenarioError(InputError):
    """Scenario files have mistakes; `problems` lists every one of them."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Step(NamedTuple):
    """One thing that happens: `verb` is its name in the file, `said` what stands behind it.

    `where` is its place as people write it, `line` that of the file.
    """

    verb: str
    said: Any
    where: str
    line: int


class Assertion(NamedTuple):
    """What must be so in the end: `type` and what it takes, with its line in the file."""

    type: str
    said: dict[str, Any]
    line: int


class Given(NamedTuple):
    """What there is before anything happens; `events` are sources: rows, files, generators."""

    clock: str = CLOCK
    policies: dict[str, Any] = {}  # noqa: RUF012 - read only
    views: dict[str, str | None] = {}  # noqa: RUF012 - read only
    events: tuple[dict[str, Any], ...] = ()


class Scenario(NamedTuple):
    """A file without mistakes. `file` is its path as it was given, `files` those that it names."""

    file: str
    name: str
    title: str
    long: bool
    given: Given
    steps: tuple[Step, ...]
    assertions: tuple[Assertion, ...]
    files: dict[str, bytes]


def is_scenario(data: bytes) -> bool:
    """Whether the bytes look like a scenario: `scenario:` at the top, or `assertions:` alone."""
    keys = {line.partition(b":")[0] for line in data.splitlines() if _KEY.match(line)}
    return b"scenario" in keys or (b"assertions" in keys and keys <= _ALONE)


def read_scenario(
    file: str, data: bytes, *, schema: bytes, open_file: Callable[[str], bytes]
) -> Scenario:
    """Read one file; `open_file` gives the bytes of a file that it names, from its own folder.

    Raises ScenarioError with every mistake in it.
    """
    root, found = read(file, data)
    if root is None:
        none = [Problem(file, 0, "", "expected a scenario, found an empty file")]
        raise ScenarioError(tuple(found or none))
    document, keys = _in_full(plain(root), file)
    files: dict[str, bytes] = {}
    wrong = [_as_written(fault, keys) for fault in faults(document, schema, files, open_file)]
    found = [*found, *problems(file, root, wrong)]
    if found:
        raise ScenarioError(tuple(sorted(found, key=lambda one: (one.line == 0, one.line))))
    return _built(file, document, root, files, keys)


def _in_full(document: Any, file: str) -> tuple[Any, tuple[str, ...]]:
    """The document with its assertions as a list, and the keys they had where they were a mapping.

    A file of assertions alone gets its name as the scenario's, generated events, and packs.
    """
    if not isinstance(document, dict):
        return document, ()
    if "assertions" in document and {key.encode() for key in document} <= _ALONE:
        stem = file.rpartition("/")[2].rpartition(".")[0]
        name = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem).strip("-")
        alone = {"version": 1, "scenario": name[:64] or "assertions", "given": _GIVEN}
        document = {**alone, "when": _WHEN, **document}
    said = document.get("assertions")
    if not isinstance(said, dict) or not said:
        return document, ()
    listed = [{key: value} for key, value in said.items()]
    return {**document, "assertions": listed}, tuple(said)


def _as_written(fault: Fault, keys: tuple[str, ...]) -> Fault:
    """The fault of an assertion at its place in a mapping, where that is how they are written."""
    path = fault.path
    if not keys or path[:1] != ("assertions",) or len(path) < 2:
        return fault
    key = keys[int(path[1])]
    rest = path[3:] if path[2:3] == (key,) else path[2:]
    return Fault(("assertions", key, *rest), fault.message)


def _built(
    file: str, document: dict[str, Any], root: Node, files: dict[str, bytes], keys: tuple[str, ...]
) -> Scenario:
    given = document.get("given", {})
    said = document["assertions"]
    places: list[str | int] = [*keys] if keys else [*range(len(said))]
    return Scenario(
        file, document["scenario"], document.get("title", ""), document.get("long", False),
        Given(
            timestamp(given.get("clock", CLOCK)), given.get("policies", {}),
            given.get("views", {}), tuple(given.get("events", ())),
        ),
        tuple(_steps(document.get("when", []), ("when",), root)),
        tuple(
            Assertion(*said_of(written)[:2], root.place(("assertions", place))[0])
            for place, written in zip(places, said, strict=True)
        ),
        files,
    )  # fmt: skip


def _steps(steps: Any, path: Path, root: Node) -> Iterator[Step]:
    for at, written in enumerate(steps):
        place = (*path, at)
        verb, said = step_of(written)
        if verb in _MAIN_OF_STEPS and not isinstance(said, dict):
            said = {_MAIN_OF_STEPS[verb]: said}
        if verb in ("repeat", "processes"):
            said = {**said, "steps": tuple(_steps(said["steps"], (*place, verb, "steps"), root))}
        if verb == "run" and isinstance(said["command"], str):
            said = {**said, "command": shlex.split(said["command"])}
        where = ".".join(_spoken((*place, verb)))
        yield Step(verb, said, where, root.place(place)[0])


def _spoken(path: Path) -> Iterator[str]:
    """A path's words: a number belongs to the word before it."""
    words: list[str] = []
    for part in path:
        if isinstance(part, int):
            words[-1] += f"[{part}]"
        else:
            words.append(part)
    yield from words
