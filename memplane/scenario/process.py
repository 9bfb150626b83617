"""The other processes of a scenario: real processes with the same plane open, under its clock.

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from memplane.errors import MemplaneError
from memplane.pack.block import Block, Entry, Omission
from memplane.plane import Plane
from memplane.scenario.document import ScenarioStep
from memplane.scenario.scene import (
    CommandOutput,
    Outing,
    Pack,
    Scene,
    SceneFactory,
    expand_rows,
    numbered,
)

__all__ = ["ProcessError", "outings", "pack_arguments", "run_command", "work"]

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
        _ = plane.policies
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
    budgets = plane.policies.budgets
    counter = builders.make_counter(budgets.counter, budgets.scale_ppm)
    for _ in range(said.get("repeat", 1)):
        start = time.perf_counter_ns()
        block = plane.pack(**pack_arguments(said))
        ns = time.perf_counter_ns() - start
        yield said.get("as", ""), block.as_json(), ns, counter.count(block.text)
