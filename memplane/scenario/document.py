"""Read a scenario file: YAML bytes to a typed record, and every mistake in it with its line.

The schema (`schemas/scenario.schema.json`) says what is allowed where; `faults` finds what a schema
cannot express.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final

from memplane.errors import InputError, Problem
from memplane.intake import timestamp
from memplane.lazy import NamedTuple, regex
from memplane.policy.document import (
    Fault,
    Node,
    Path,
    against_schema,
    found_value,
    meant,
    problems,
    read_document,
    without_places,
)

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
            "id": "decided",
            "kind": "decision",
            "key": "db.engine",
            "session": "s",
            "text": "We keep PostgreSQL",
            "refs": ["asked"],
        },
    ]
}
_WHEN: Final = [{"pack": {"query": "what was decided?", "repeat": 20, "as": "pack"}}]
_MAIN_OF_STEPS: Final = {"pack": "query", "search": "query", "run": "command"}


class ScenarioError(InputError):
    """Scenario files have mistakes; `problems` lists every one of them."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class ScenarioStep(NamedTuple):
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
    steps: tuple[ScenarioStep, ...]
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
    root, found = read_document(file, data)
    if root is None:
        none = [Problem(file, 0, "", "expected a scenario, found an empty file")]
        raise ScenarioError(tuple(found or none))
    document, keys = _in_full(without_places(root), file)
    files: dict[str, bytes] = {}
    wrong = [
        _as_written(fault, keys) for fault in scenario_faults(document, schema, files, open_file)
    ]
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
        file,
        document["scenario"],
        document.get("title", ""),
        document.get("long", False),
        Given(
            timestamp(given.get("clock", CLOCK)),
            given.get("policies", {}),
            given.get("views", {}),
            tuple(given.get("events", ())),
        ),
        tuple(_steps(document.get("when", []), ("when",), root)),
        tuple(
            Assertion(*said_of(written)[:2], root.place(("assertions", place))[0])
            for place, written in zip(places, said, strict=True)
        ),
        files,
    )


def _steps(steps: Any, path: Path, root: Node) -> Iterator[ScenarioStep]:
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
        yield ScenarioStep(verb, said, where, root.place(place)[0])


def _spoken(path: Path) -> Iterator[str]:
    """A path's words: a number belongs to the word before it."""
    words: list[str] = []
    for part in path:
        if isinstance(part, int):
            words[-1] += f"[{part}]"
        else:
            words.append(part)
    yield from words


# What no schema can see in a scenario: a name given twice, a pack nobody made, a lost file.

VERSION: Final = 1  # of the files' format

# What a lone value behind the name of an assertion stands for.
MAIN: Final = {
    "acb_max_tokens": "max",
    "acb_build_latency_p95_ms": "max",
    "acb_candidate_scan_max": "max",
    "acb_file_reads_max": "max",
    "acb_bytes_read_max": "max",
    "traceability": "target",
    "contains": "text",
    "lacks": "text",
    "order": "texts",
    "omitted": "event",
    "identical": "to",
    "prefix_kept": "of",
    "same_sections": "to",
    "redacted_on_disk": "text",
    "exit": "code",
}
_NAMING: Final = {"pack": "pack", "search": "search", "run": "run"}  # steps that `as` names
# The keys of assertions that name such a step, and which.
_NAMED: Final = {"pack": "pack", "to": "pack", "of": "pack", "search": "search", "run": "run"}
# Assertions that are about a step of some kind even where they name none.
_ABOUT: Final[dict[str, str | None]] = {
    "exit": "run",
    "redacted_on_disk": None,
    "events_intact": None,
}
# Assertions that take one or the other and cannot do without both.
_ONE_OF: Final = {
    "contains": ("text", "event"),
    "lacks": ("text", "event"),
    "order": ("texts", "events"),
    "omitted": ("event", "reason"),
    "section_tokens": ("max", "min"),
}


def scenario_faults(
    document: Any, schema: bytes, files: dict[str, bytes], open_file: Callable[[str], bytes]
) -> list[Fault]:
    """Name every place where a document is no scenario; `files` takes those that it names."""
    if not isinstance(document, dict):
        return [Fault((), f"expected a mapping of keys, found {found_value(document)}")]
    found = list(against_schema(document, schema))
    written = document.get("version")
    if isinstance(written, int) and written > VERSION:
        reads = f"expected {VERSION}, the version that this memplane reads"
        found = [fault for fault in found if fault.path != ("version",)]
        found.append(Fault(("version",), f"{reads}, found {written}: written for a newer memplane"))
    if found:
        return found  # what follows believes in the shape
    found += _of_clock(document)
    found += _of_files(document, files, open_file)
    found += _of_length(document)
    found += _of_steps(document.get("when", []), ("when",))
    found += _of_assertions(document)
    return found


def _of_clock(document: dict[str, Any]) -> Iterator[Fault]:
    given = document.get("given", {}).get("clock")
    if given is not None:
        try:
            timestamp(given, where="")
        except InputError as error:
            yield Fault(("given", "clock"), str(error))


def _of_files(
    document: dict[str, Any], files: dict[str, bytes], open_file: Callable[[str], bytes]
) -> Iterator[Fault]:
    for path, source in _sources(document):
        if "file" not in source:
            continue
        try:
            data = open_file(source["file"])
        except OSError as error:
            what = f"expected a file that can be read, found {found_value(source['file'])}"
            yield Fault((*path, "file"), f"{what}: {error.strerror or error}")
            continue
        files[source["file"]] = data
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip() and not _is_object(line):
                message = f"expected one JSON object a line, found another thing in line {number}"
                yield Fault((*path, "file"), message)
                break


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _of_length(document: dict[str, Any]) -> Iterator[Fault]:
    """A long scenario says how it is run short, and only a long one does."""
    short = [(path, source) for path, source in _sources(document) if "short" in _made(source)]
    if document.get("long") and not short:
        yield Fault(("long",), "expected a `generate` with `short`, found none")
    for path, source in short:
        if not document.get("long"):
            where = (*path, "generate", "short")
            yield Fault(where, "expected `long: true` at the top, found none")
        elif source["generate"]["short"] > source["generate"]["count"]:
            most = source["generate"]["count"]
            yield Fault(
                (*path, "generate", "short"),
                f"expected at most its count, {most}, found "
                f"{found_value(source['generate']['short'])}",
            )


def _made(source: dict[str, Any]) -> dict[str, Any]:
    made = source.get("generate", {})
    return made if isinstance(made, dict) else {}


def _sources(document: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every source of events, with its place."""
    for at, source in enumerate(document.get("given", {}).get("events", ())):
        yield ("given", "events", at), source
    for path, verb, said in _walked(document.get("when", ()), ("when",)):
        if verb == "record_many":
            for at, source in enumerate(said):
                yield (*path, verb, at), source


def _walked(steps: Any, path: Path) -> Iterator[tuple[Path, str, Any]]:
    """The steps, and those within them, in the order of the file."""
    for at, step in enumerate(steps):
        place = (*path, at)
        verb, said = step_of(step)
        yield place, verb, said
        if verb in ("repeat", "processes"):
            yield from _walked(said["steps"], (*place, verb, "steps"))


def _of_steps(steps: Any, path: Path) -> Iterator[Fault]:
    """A name that two steps have, a command line that cannot be split, a forget of two things."""
    taken: dict[tuple[str, str], Path] = {}
    for place, verb, said in _walked(steps, path):
        name = said.get("as") if isinstance(said, dict) and verb in _NAMING else None
        if name is not None:
            before = taken.setdefault((verb, name), place)
            if before != place:
                other = f"{before[0]}[{before[1]}]"
                yield Fault(
                    (*place, verb, "as"), f"given twice; {other} is {found_value(name)} already"
                )
        if verb == "run":
            line = said["command"] if isinstance(said, dict) else said
            if isinstance(line, str):
                yield from _unsplit(line, (*place, verb))
        if verb == "processes":
            yield from _of_processes(said["steps"], (*place, verb, "steps"))
        if verb in ("forget", "unforget"):
            named = [key for key in ("key", "id", "session", "source") if key in said]
            if len(named) != 1:
                found = " and ".join(named) or "none"
                message = f"expected one of `key`, `id`, `session`, `source`, found {found}"
                yield Fault((*place, verb), message)


def _of_processes(steps: Any, path: Path) -> Iterator[Fault]:
    """Several processes record what is written down: the same generator would give the same ids."""
    for at, step in enumerate(steps):
        for number, source in enumerate(step.get("record_many", ())):
            if "file" in source or "generate" in source:
                found = "file" if "file" in source else "generate"
                where = (*path, at, "record_many", number)
                yield Fault(where, f"expected an event in a process, found `{found}`")


def _unsplit(line: str, path: Path) -> Iterator[Fault]:
    try:
        shlex.split(line)
    except ValueError as error:
        message = f"expected a command line, found {found_value(line)}: {str(error).lower()}"
        yield Fault(path, message)


def _of_assertions(document: dict[str, Any]) -> Iterator[Fault]:
    """What names a step that is not there, or says too little to be held."""
    made: dict[str, list[str]] = {verb: [] for verb in _NAMING}
    there: set[str] = set()
    for _, verb, said in _walked(document.get("when", []), ("when",)):
        there.add(verb)
        if isinstance(said, dict) and verb in _NAMING and "as" in said:
            made[verb].append(said["as"])
    for at, written in enumerate(document["assertions"]):
        type_, said, inside = said_of(written)
        path: Path = ("assertions", at, *inside)
        for key, value in said.items():
            step = _NAMED.get(key)
            if step is not None and value not in made[step]:
                where = (*path, key) if key in _mapping(written, type_) else path
                wanted = f"expected the name of a {step} (`as`), found {found_value(value)}"
                yield Fault(where, f"{wanted}{meant(value, made[step])}")
        choice = _ONE_OF.get(type_, ())
        if choice and not any(key in said for key in choice):
            yield Fault(path, f"expected {' or '.join(f'`{key}`' for key in choice)}, found none")
        about = _about(type_, said)
        if about is not None and about not in there:
            yield Fault(path, f"expected a step `{about}` for it to be about, found none")


def _about(type_: str, said: dict[str, Any]) -> str | None:
    if type_ in _ABOUT:
        return _ABOUT[type_]
    return next((key for key in ("search", "run") if key in said), "pack")


def _mapping(written: Any, type_: str) -> dict[str, Any]:
    """The keys of an assertion as they stand in the file; none where a lone value does."""
    if isinstance(written, dict) and "type" in written:
        return written
    said = written[type_] if isinstance(written, dict) else None
    return said if isinstance(said, dict) else {}


def said_of(written: Any) -> tuple[str, dict[str, Any], Path]:
    """An assertion as (type, what it takes, the path to that below its item)."""
    if isinstance(written, str):
        return written, {}, ()
    if "type" in written:
        return written["type"], {key: item for key, item in written.items() if key != "type"}, ()
    type_, said = next(iter(written.items()))
    if isinstance(said, dict):
        return type_, {key: item for key, item in said.items() if key != "type"}, (type_,)
    return type_, {} if said is None else {MAIN[type_]: said}, (type_,)


def step_of(written: Any) -> tuple[str, Any]:
    """A step as (its name, what stands behind it)."""
    if isinstance(written, str):
        return written, None
    verb, said = next(iter(written.items()))
    return str(verb), said
