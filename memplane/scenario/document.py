"""A scenario's file, its scene (plane, clock, generated events), and its other processes.

`read_scenario` makes of YAML bytes a typed record, and names every mistake with its line. The
schema (`schemas/scenario.schema.json`) says what is allowed where; `faults` finds what a schema
cannot express.

The proportions of generated sessions follow real transcripts: two of three events are tool calls
and their results, results have a long tail, prompts are short, decisions are few, keyed and
sometimes replaced. Only `Random.random` is drawn from, whose sequence Python promises to keep, so
the same seed gives the same rows on every machine.

The other processes of a scenario are real ones with the same plane open, under its clock.

A process is started with one word and the clock's time, and is one of two kinds::

    BUILDERS.process + ("work", TIME)          a job as JSON on stdin: where the plane is, the steps
    BUILDERS.process + ("command", TIME, ...)  a command line of memplane

`work` answers on stdout: a line `ready` when the plane is open, then, once it is sent a line, what
it did as one JSON object. So all processes of a step begin together, however long they take to
start.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import IO, Any, Final, TypeVar

from memplane.errors import InputError, MemplaneError, Problem
from memplane.intake import timestamp
from memplane.lazy import NamedTuple, Protocol, regex, word_table
from memplane.pack.block import Block, Entry, Omission
from memplane.plane import Plane, SearchHit
from memplane.policy.document import (
    Fault,
    Node,
    Path as KeyPath,
    against_schema,
    found_value,
    meant,
    problems,
    read_document,
    without_places,
)
from memplane.ports import TokenCounter

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


def _steps(steps: Any, path: KeyPath, root: Node) -> Iterator[ScenarioStep]:
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


def _spoken(path: KeyPath) -> Iterator[str]:
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


def _sources(document: dict[str, Any]) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Every source of events, with its place."""
    for at, source in enumerate(document.get("given", {}).get("events", ())):
        yield ("given", "events", at), source
    for path, verb, said in _walked(document.get("when", ()), ("when",)):
        if verb == "record_many":
            for at, source in enumerate(said):
                yield (*path, verb, at), source


def _walked(steps: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str, Any]]:
    """The steps, and those within them, in the order of the file."""
    for at, step in enumerate(steps):
        place = (*path, at)
        verb, said = step_of(step)
        yield place, verb, said
        if verb in ("repeat", "processes"):
            yield from _walked(said["steps"], (*place, verb, "steps"))


def _of_steps(steps: Any, path: KeyPath) -> Iterator[Fault]:
    """A name that two steps have, a command line that cannot be split, a forget of two things."""
    taken: dict[tuple[str, str], KeyPath] = {}
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


def _of_processes(steps: Any, path: KeyPath) -> Iterator[Fault]:
    """Several processes record what is written down: the same generator would give the same ids."""
    for at, step in enumerate(steps):
        for number, source in enumerate(step.get("record_many", ())):
            if "file" in source or "generate" in source:
                found = "file" if "file" in source else "generate"
                where = (*path, at, "record_many", number)
                yield Fault(where, f"expected an event in a process, found `{found}`")


def _unsplit(line: str, path: KeyPath) -> Iterator[Fault]:
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
        path: KeyPath = ("assertions", at, *inside)
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


def said_of(written: Any) -> tuple[str, dict[str, Any], KeyPath]:
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


Row = dict[str, Any]
T = TypeVar("T")

BATCH: Final = 256


class OpenPlane(Protocol):
    """How a plane is made or opened: its folder, a level of durability, a clock."""

    def __call__(self, path: Path, *, durability: Any, clock: Callable[[], str]) -> Plane: ...


class SceneFactory(NamedTuple):
    """What is made elsewhere: planes, counters, and the processes that a scenario starts.

    `process` is the command line of one process of a scenario, see above.
    """

    make_plane: OpenPlane
    open_plane: OpenPlane
    make_counter: Callable[[str, int], TokenCounter]
    process: tuple[str, ...]


class Pack(NamedTuple):
    """One block and what it took: nanoseconds, and its tokens as counted anew."""

    block: Block
    ns: int
    counted: int


@dataclass
class StepPacks:
    """The packs of one step, in order; `name` is what its `as` says, else its place."""

    name: str
    runs: list[Pack] = field(default_factory=list)

    @property
    def last(self) -> Pack:
        """The newest one."""
        return self.runs[-1]


class Searched(NamedTuple):
    """What a search found."""

    name: str
    hits: list[SearchHit]


class CommandOutput(NamedTuple):
    """How a command ended and what it printed."""

    name: str
    code: int
    out: str
    err: str


class Outing(NamedTuple):
    """What another process did: the ids that it was acknowledged, and its packs by name."""

    acknowledged: list[str]
    packs: list[tuple[str, Pack]]


class Scene:
    """One scenario's plane, in a folder of its own. Close it; the folder is its maker's."""

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        builders: SceneFactory,
        *,
        short: bool = False,
        progress: Callable[[int], None] = lambda _events: None,
    ) -> None:
        self.folder, self.home = folder, folder / "plane"
        self.builders, self.short = builders, short
        self.acknowledged: list[str] = []
        self.packs: dict[str, StepPacks] = {}
        self.searches: dict[str, Searched] = {}
        self.outputs: dict[str, CommandOutput] = {}
        self._files, self._progress = scenario.files, progress
        self._moment = datetime.fromisoformat(scenario.given.clock)
        self._plane: Plane | None = None
        self._events = 0  # given an id by the scene
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)

    # --- the clock ---

    def now(self) -> str:
        """Where the scenario's clock stands."""
        return timestamp(self._moment)

    def set_clock(self, moment: str) -> None:
        """Let the clock stand where it stood when a copied plane was made."""
        self._moment = datetime.fromisoformat(moment)

    def advance(self, by: timedelta) -> None:
        """Move the clock."""
        self._moment += by

    # --- the plane ---

    @property
    def plane(self) -> Plane:
        """The plane, opened where it is closed."""
        if self._plane is None:
            self._plane = self.builders.open_plane(self.home, durability="sync", clock=self.now)
        return self._plane

    def make(self, policies: Mapping[str, bytes]) -> None:
        """Make the plane, with these files in place of memplane's own policies."""
        # Nobody mourns a plane that is thrown away; syncs of what is given would only cost time.
        made = self.builders.make_plane(self.home, durability="os", clock=self.now)
        for name, data in policies.items():
            (self.home / "policies" / name).write_bytes(data)
        self._plane = made

    def close(self) -> None:
        """Close the plane, if it is open."""
        if self._plane is not None:
            self._plane.close()
            self._plane = None

    def counted(self, text: str) -> int:
        """The tokens of a text in the plane's counter."""
        budgets = self.plane.upkeep.policies.budgets
        return self.builders.make_counter(budgets.counter, budgets.scale_ppm).count(text)

    # --- events ---

    def record(self, row: Mapping[str, Any]) -> None:
        """Record one event, or those that its `repeat` stands for."""
        for one in self._rows([row]):
            self.acknowledged.append(self.plane.record(**one).id)

    def record_many(self, sources: Iterable[Mapping[str, Any]]) -> None:
        """Record all that the sources stand for, in batches.

        The clock goes along with events that are generated: nothing is recorded before it happened.
        """
        for batch in _batches(self._rows(sources), BATCH):
            self.plane.record_many(batch, batch=BATCH)
            self.acknowledged += [row["id"] for row in batch]
            self._progress(len(batch))

    def _rows(self, sources: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        for source in sources:
            if "file" in source:
                yield from self._named(map(json.loads, _lines(self._files[source["file"]])))
            elif "generate" in source:
                yield from self._generated(source["generate"])
            else:
                yield from self._named(expand_rows(source))

    def _named(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The rows, each with an id: chance would otherwise decide what stands in the log."""
        for row in rows:
            self._events += 1
            yield row if "id" in row else {**row, "id": f"event-{self._events}"}

    def count_of(self, asked: Mapping[str, Any]) -> int:
        """How many events a generator gives in this scene: fewer where it is run short."""
        count: int = asked.get("short", asked["count"]) if self.short else asked["count"]
        return count

    def _generated(self, asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        length, count = asked.get("session_events", SESSION_EVENTS), self.count_of(asked)
        for row in generated(asked["seed"], count, self._moment, session_events=length):
            self._moment = max(self._moment, row["ts"])
            yield {**row, "ts": timestamp(row["ts"])}

    # --- what was seen ---

    def keep(self, name: str, pack: Pack) -> None:
        """Note a pack under a name; the name of the newest one is the last."""
        packed = self.packs.pop(name, None) or StepPacks(name)
        packed.runs.append(pack)
        self.packs[name] = packed

    def files_of_home(self) -> Iterator[Path]:
        """Every file of the plane, in order."""
        for root, folders, names in os.walk(self.home):
            folders.sort()
            yield from (Path(root, name) for name in sorted(names))


def expand_rows(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows that one stands for: `repeat` of them, its text `text_times` over."""
    times, over = row.get("repeat", 1), row.get("text_times", 1)
    plain = {key: value for key, value in row.items() if key not in ("repeat", "text_times")}
    if over > 1:
        plain["text"] = plain.get("text", "") * over
    if "repeat" not in row:
        yield plain
        return
    for number in range(1, times + 1):
        yield numbered(plain, "n", number)


def numbered(said: Any, letter: str, number: int) -> Any:
    """The same value with a number in place of `{n}` (or another letter) in its texts."""
    if isinstance(said, str):
        return said.replace(f"{{{letter}}}", str(number))
    if isinstance(said, dict):
        return {key: numbered(item, letter, number) for key, item in said.items()}
    if isinstance(said, list):
        return [numbered(item, letter, number) for item in said]
    if isinstance(said, ScenarioStep):
        return said._replace(said=numbered(said.said, letter, number))
    if isinstance(said, tuple):
        return tuple(numbered(item, letter, number) for item in said)
    return said


def _lines(data: bytes) -> Iterator[bytes]:
    return (line for line in data.split(b"\n") if line.strip())


def _batches(rows: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


SESSION_EVENTS: Final = 160  # the median of real sessions

_TURN: Final = 12  # events from a prompt to the next one

_AREAS: Final = word_table("""
    billing catalog checkout export gateway identity inbox ledger metrics notify payout pricing
    quota replica search shipping storage tenant upload webhook worker
""")

_THINGS: Final = word_table("""
    adapter batch cache client config cursor digest envelope fixture header invoice job limiter
    migration parser queue record retry router schema snapshot transaction validator view
""")

_DOES: Final = word_table("""
    accepts closes copies drops expires flushes ignores keeps loads locks merges opens parses
    rejects renames retries returns rounds skips sorts splits validates writes
""")

_CIRCUMSTANCES: Final = (
    "after a restart",
    "before the transaction commits",
    "for every tenant",
    "in the nightly job",
    "on the second attempt",
    "only for admins",
    "under load",
    "when the cursor is stale",
    "when the header is missing",
    "when the list is empty",
    "while a migration runs",
    "with two workers",
    "without a trailing newline",
)

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
                "id": f"gen:{seed}:{session}:{number}",
                "ts": moment,
                "session": f"gen-{seed}-{session}",
                **row,
            }
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
                "kind": "decision",
                "role": "assistant",
                "text": words.say(_DECIDES, area),
                "key": f"{area}.{words.pick(_THINGS)}",
                "markers": ["decision"],
            }
        elif turn % 2:
            calls += 1
            tool, path = words.pick(("Read", "Grep", "Bash", "Edit")), words.path(area)
            data = {"tool": tool, "call": f"call_{calls}", "path": path}
            yield {
                "kind": "tool_call",
                "role": "assistant",
                "text": f"{tool} file_path={path}",
                "data": data,
            }
        else:
            status = "error" if words.chance(0.06) else "ok"
            data = {"tool": "Bash", "call": f"call_{calls}", "status": status}
            yield {"kind": "tool_result", "role": "tool", "text": words.output(area), "data": data}


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
            area=area,
            thing=self.pick(_THINGS),
            other=self.pick(_THINGS),
            does=self.pick(_DOES),
            when=self.pick(_CIRCUMSTANCES),
            path=self.path(area),
            number=self.between(2, 400),
        )

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


_SECONDS_MAX: Final = 300
_NOT_ASKED: Final = ("repeat", "process", "as")  # keys of a pack that are the runner's own


class ProcessError(MemplaneError):
    """A process of a scenario ended without an answer; what it said is in the message."""


def pack_arguments(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a pack is asked: its keys but those that are for the runner."""
    return {key: value for key, value in said.items() if key not in _NOT_ASKED}


# --- the side that starts them ---


def outings(scene: Scene, steps: tuple[ScenarioStep, ...], count: int, times: int) -> list[Outing]:
    """Let `count` processes do the steps `times` over, all at once; what they did, in their order.

    Raises ProcessError where one of them fails.
    """
    jobs = [
        {
            "home": str(scene.home),
            "number": number,
            "times": times,
            "steps": [[step.verb, step.said] for step in steps],
        }
        for number in range(1, count + 1)
    ]
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(_started(scene, "work")) for _ in jobs]
        # A process that hangs must not hang the scenario: without it the pipes come to an end.
        watch = threading.Timer(_SECONDS_MAX, _kill, (started,))
        stack.callback(watch.cancel)
        watch.start()
        for process, job in zip(started, jobs, strict=True):
            _send(process, json.dumps(job))
        for process in started:
            if _out(process).readline() != "ready\n":
                raise ProcessError(_last_words(process))
        for process in started:
            _send(process, "go")
        return [_answer(process) for process in started]


def _kill(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()


def run_command(scene: Scene, name: str, argv: list[str], stdin: str) -> CommandOutput:
    """Run a command of memplane to its end; what it printed and its exit code."""
    with _started(scene, "command", *argv) as process:
        try:
            out, err = process.communicate(stdin, timeout=_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"`memplane {argv[0]}` ran for over {_SECONDS_MAX} s") from None
    return CommandOutput(name, process.returncode, out, err)


@contextlib.contextmanager
def _started(scene: Scene, kind: str, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """A process in the scene's folder for work; it is over when the context is."""
    # What the machine's environment says of planes and policies is no part of a scenario.
    given = {name: value for name, value in os.environ.items() if not name.startswith("MEMPLANE_")}
    package = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (package, given.get("PYTHONPATH"))))
    process = subprocess.Popen(  # noqa: S603 - our own command line
        [*scene.builders.process, kind, scene.now(), *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        cwd=scene.work,
        env={**given, "PYTHONPATH": paths, "MEMPLANE_HOME": str(scene.home)},
    )
    try:
        yield process
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()


def _send(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # who is gone is asked for its last words
        process.stdin.write(f"{line}\n")
        process.stdin.flush()


def _out(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _answer(process: subprocess.Popen[str]) -> Outing:
    try:
        said = json.loads(_out(process).readline())
    except ValueError:
        raise ProcessError(_last_words(process)) from None
    packs = [(name, Pack(_block(block), ns, counted)) for name, block, ns, counted in said["packs"]]
    return Outing(said["acknowledged"], packs)


def _last_words(process: subprocess.Popen[str]) -> str:
    """Why a process ended: the last line that it wrote on stderr."""
    process.kill()
    words = process.communicate()[1].strip()
    return words.rpartition("\n")[2] or f"a process ended with exit code {process.returncode}"


def _block(said: Mapping[str, Any]) -> Block:
    """A block from its JSON: what `Block.as_json` says."""
    entries = tuple(
        Entry(**{**row, "events": tuple(row["events"]), "parts": tuple(row["parts"])})
        for row in said["entries"]
    )
    omissions = tuple(Omission(**row) for row in said["omissions"])
    return Block(said["text"], said["tokens"], entries, omissions, said["report"])


# --- the side that is started ---


def work(lines: IO[str], answers: IO[str], now: str, builders: SceneFactory) -> None:
    """Do the job that stands in the first line, once a second one comes; answer what was done."""
    job = json.loads(lines.readline())
    with builders.open_plane(Path(job["home"]), durability="sync", clock=lambda: now) as plane:
        _ = plane.upkeep.policies
        print("ready", file=answers, flush=True)
        lines.readline()
        acknowledged: list[str] = []
        packs: list[tuple[str, dict[str, Any], int, int]] = []
        for time_ in range(1, job["times"] + 1):
            for at, (verb, given) in enumerate(job["steps"]):
                said = numbered(numbered(given, "n", time_), "p", job["number"])
                if verb == "pack":
                    packs += _packed(plane, said, builders)
                else:
                    rows = [said] if verb == "record" else said
                    acknowledged += _recorded(plane, rows, f"p{job['number']}-{time_}-{at}")
        print(json.dumps({"acknowledged": acknowledged, "packs": packs}), file=answers, flush=True)


def _recorded(plane: Plane, rows: list[dict[str, Any]], id_: str) -> list[str]:
    """Record rows one after the other; the ids acknowledged."""
    spread_out = [one for row in rows for one in expand_rows(row)]
    return [
        plane.record(**{"id": f"{id_}-{number}", **row}).id
        for number, row in enumerate(spread_out, 1)
    ]


def _packed(
    plane: Plane, said: dict[str, Any], builders: SceneFactory
) -> Iterator[tuple[str, dict[str, Any], int, int]]:
    budgets = plane.upkeep.policies.budgets
    counter = builders.make_counter(budgets.counter, budgets.scale_ppm)
    for _ in range(said.get("repeat", 1)):
        start = time.perf_counter_ns()
        block = plane.pack(**pack_arguments(said))
        ns = time.perf_counter_ns() - start
        yield said.get("as", ""), block.as_json(), ns, counter.count(block.text)
