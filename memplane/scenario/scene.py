"""The scene of a scenario: its plane, its clock, names of what was recorded, and generated events.

The proportions of generated sessions follow real transcripts: two of three events are tool calls
and their results, results have a long tail, prompts are short, decisions are few, keyed and
sometimes replaced. Only `Random.random` is drawn from, whose sequence Python promises to keep, so
the same seed gives the same rows on every machine.

The other processes of a scenario: real processes with the same plane open, under its clock.

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
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import IO, Any, Final, Protocol, TypeVar

from memplane.errors import MemplaneError
from memplane.intake import timestamp
from memplane.lazy import NamedTuple, word_table
from memplane.pack.block import Block, Entry, Omission
from memplane.plane import Plane, SearchHit
from memplane.ports import TokenCounter
from memplane.scenario.document import Scenario, ScenarioStep

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

_WHEN: Final = (
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
            when=self.pick(_WHEN),
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
