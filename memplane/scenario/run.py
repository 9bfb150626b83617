"""Run scenarios, each in a plane of its own in a temporary folder, and report their results."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from memplane.errors import InputError, MemplaneError
from memplane.intake.redact import masked, masked_data
from memplane.lazy import NamedTuple
from memplane.policy.document import read_document, without_places
from memplane.scenario.assertions import ASSERTIONS, TIMED, AssertionResult, p95, percentile_of
from memplane.scenario.document import Assertion, Scenario, ScenarioStep
from memplane.scenario.scene import (
    Pack,
    Scene,
    SceneFactory,
    Searched,
    StepPacks,
    numbered,
    outings,
    pack_arguments,
    run_command,
)

_PREFIX: Final = "memplane-scenario-"


class Settings(NamedTuple):
    """How scenarios are run.

    `short` makes long ones short, `lenient_time` only reports limits of time. `policies` (by file
    name) replace memplane's own. `progress` is called with the work done: steps, and events by the
    thousand.
    """

    short: bool = False
    lenient_time: bool = False
    policies: Mapping[str, bytes] = MappingProxyType({})
    progress: Callable[[float], None] = lambda _done: None


class CheckedAssertion(NamedTuple):
    """An assertion and what it found; one that is not `enforced` fails nothing."""

    assertion: Assertion
    finding: AssertionResult
    enforced: bool

    @property
    def timed(self) -> bool:
        """Whether it limits a time: its figure is reported in every mode."""
        return self.assertion.type in TIMED

    @property
    def passed(self) -> bool:
        """Whether it stands in nobody's way."""
        return self.finding.passed or not self.enforced

    def message(self, file: str) -> str:
        """Where it stands in the file, what was expected and what was found."""
        expected, found = self.finding.expected, self.finding.found
        where = f"{file}:{self.assertion.line}: {self.assertion.type}"
        return f"{where}: expected {expected}, found {found}"


class ScenarioOutcome(NamedTuple):
    """What became of a scenario. `error` names the step that could not happen, "" where all did."""

    scenario: Scenario
    held: tuple[CheckedAssertion, ...]
    packs: tuple[StepPacks, ...]
    error: str
    short: bool
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every step happened and every enforced assertion holds."""
        return not self.error and all(held.passed for held in self.held)

    @property
    def failures(self) -> list[str]:
        """What failed, a message each."""
        failed = [held.message(self.scenario.file) for held in self.held if not held.passed]
        return [self.error, *failed] if self.error else failed


class Runner:
    """Runs scenarios one after the other. Use it as a context manager: its folder goes with it.

    What is generated is made once for all scenarios with the same `given`, and copied.
    """

    def __init__(self, builders: SceneFactory, settings: Settings = Settings()) -> None:  # noqa: B008
        self._builders, self._settings = builders, settings
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._given: dict[str, tuple[Path, list[str], str]] = {}

    def run(self, scenario: Scenario) -> ScenarioOutcome:
        """Run one scenario. Whatever a step raises is its outcome; a bug in memplane is raised."""
        start = time.perf_counter()
        short = scenario.long and self._settings.short
        with tempfile.TemporaryDirectory(prefix="one-", dir=self._home()) as folder:
            scene = Scene(
                Path(folder),
                scenario,
                self._builders,
                short=short,
                progress=lambda events: self._settings.progress(events / 1000),
            )
            try:
                error = self._played(scene, scenario)
                held = () if error else tuple(self._held(scene, scenario.assertions))
            finally:
                scene.close()
        seconds = time.perf_counter() - start
        return ScenarioOutcome(scenario, held, tuple(scene.packs.values()), error, short, seconds)

    def _home(self) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        return self._folder.name

    def _played(self, scene: Scene, scenario: Scenario) -> str:
        """Let everything happen; what went wrong, with its place in the file, or nothing."""
        place = f"{scenario.file}: given"
        try:
            self._give(scene, scenario)
            for step in scenario.steps:
                place = f"{scenario.file}:{step.line}: {step.where}"
                do(scene, step)
                self._settings.progress(1)
        except (MemplaneError, OSError) as error:
            return f"{place}: {type(error).__name__}: {error}"
        return ""

    def _give(self, scene: Scene, scenario: Scenario) -> None:
        """Make what is given, or copy it from a scenario that was given the same."""
        given = scenario.given
        if not any("generate" in source for source in given.events):
            self._make(scene, scenario)
            return
        name = self._name(scenario, scene)
        if name not in self._given:
            self._make(scene, scenario)
            scene.close()
            kept = Path(self._home(), f"given-{len(self._given) + 1}")
            shutil.copytree(scene.home, kept)
            self._given[name] = (kept, scene.acknowledged[:], scene.now())
        else:
            kept, acknowledged, now = self._given[name]
            shutil.copytree(kept, scene.home)
            scene.acknowledged += acknowledged
            scene.set_clock(now)

    def _name(self, scenario: Scenario, scene: Scene) -> str:
        """What a plane that is given can be told by: all that it is made from."""
        given = scenario.given
        named = {source["file"] for source in given.events if "file" in source}
        files = {name: hashlib.sha256(scenario.files[name]).hexdigest() for name in sorted(named)}
        # `short` decides how many events there are, and nothing else.
        events = [
            {**source["generate"], "count": scene.count_of(source["generate"]), "short": 0}
            if "generate" in source
            else source
            for source in given.events
        ]
        parts = [given.clock, given.policies, given.views, events, files]
        return json.dumps(parts, sort_keys=True)

    def _make(self, scene: Scene, scenario: Scenario) -> None:
        given = scenario.given
        scene.make(self._settings.policies)
        change_policies(scene.home, given.policies)
        change_views(scene.home, given.views)
        scene.record_many(given.events)
        scene.close()  # from here on with the durability that a plane has for people

    def _held(self, scene: Scene, assertions: Sequence[Assertion]) -> list[CheckedAssertion]:
        """Hold every assertion against what happened; one that cannot be asked has failed."""
        held = []
        for assertion in assertions:
            try:
                finding = ASSERTIONS[assertion.type](scene, assertion.said)
            except MemplaneError as error:
                found = f"{type(error).__name__}: {error}"
                finding = AssertionResult(False, "a plane that can be asked", found)
            enforced = assertion.type not in TIMED or not self._settings.lenient_time
            held.append(CheckedAssertion(assertion, finding, enforced))
            self._settings.progress(1)
        return held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the folder away, with all planes in it."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
            self._given = {}


def work_of(scenario: Scenario, *, short: bool) -> float:
    """How much there is to do, in the units of `Settings.progress`."""
    steps = len(scenario.steps) + len(scenario.assertions)
    made = [source["generate"] for source in scenario.given.events if "generate" in source]
    counts: list[int] = [one.get("short" if short else "count", one["count"]) for one in made]
    return steps + sum(counts) / 1000


# What happens in a scenario: one function for each step, in a table by its name in the file.

_CACHES: Final = {
    "projections": ("projections",),
    "index": ("index",),
    "both": ("projections", "index"),
}


def do(scene: Scene, step: ScenarioStep) -> None:
    """Let one step happen; raises what it raises."""
    STEPS[step.verb](scene, step)


def _record(scene: Scene, step: ScenarioStep) -> None:
    scene.record(step.said)


def _record_many(scene: Scene, step: ScenarioStep) -> None:
    scene.record_many(step.said)


def _pack(scene: Scene, step: ScenarioStep) -> None:
    """Pack, and time it: from the call to the block, with opening the plane where it is closed."""
    said, name = step.said, step.said.get("as", step.where)
    if said.get("process"):
        times = said.get("repeat", 1)
        once = step._replace(said={**pack_arguments(said), "as": name})
        (outing,) = outings(scene, (once,), 1, times)
        for _, pack in outing.packs:
            scene.keep(name, pack)
        return
    for _ in range(said.get("repeat", 1)):
        start = time.perf_counter_ns()
        block = scene.plane.pack(**pack_arguments(said))
        ns = time.perf_counter_ns() - start
        scene.keep(name, Pack(block, ns, scene.counted(block.text)))


def _search(scene: Scene, step: ScenarioStep) -> None:
    said, name = step.said, step.said.get("as", step.where)
    asked = {key: value for key, value in said.items() if key != "as"}
    scene.searches.pop(name, None)
    scene.searches[name] = Searched(name, scene.plane.search(**asked))


def _forget(scene: Scene, step: ScenarioStep) -> None:
    scene.plane.forget(**step.said)


def _unforget(scene: Scene, step: ScenarioStep) -> None:
    scene.plane.unforget(**step.said)


def _restart(scene: Scene, _step: ScenarioStep) -> None:
    scene.close()


def _rebuild(scene: Scene, _step: ScenarioStep) -> None:
    scene.plane.upkeep.rebuild()


def _delete(scene: Scene, step: ScenarioStep) -> None:
    scene.close()
    for name in _CACHES[step.said]:
        folder = scene.home / name
        if folder.exists():
            shutil.rmtree(folder)


def _tear_tail(scene: Scene, step: ScenarioStep) -> None:
    scene.close()
    last = max((scene.home / "log").glob("*.jsonl"), default=None)
    if last is None:
        raise InputError("expected events in the log, found none")
    data = last.read_bytes()
    if "cut" in step.said:
        if step.said["cut"] >= len(data):
            raise InputError(
                f"expected fewer bytes than the last segment has, {len(data)}, found "
                f"{step.said['cut']}",
                where="cut",
            )
        last.write_bytes(data[: -step.said["cut"]])
    else:
        last.write_bytes(data + step.said["add"].encode())


def _edit_policy(scene: Scene, step: ScenarioStep) -> None:
    change_policies(scene.home, step.said)


def _edit_view(scene: Scene, step: ScenarioStep) -> None:
    change_views(scene.home, step.said)


def _advance(scene: Scene, step: ScenarioStep) -> None:
    scene.advance(timedelta(**step.said))


def _processes(scene: Scene, step: ScenarioStep) -> None:
    said = step.said
    for outing in outings(scene, said["steps"], said["count"], said.get("times", 1)):
        scene.acknowledged += outing.acknowledged
        for name, pack in outing.packs:
            scene.keep(name or step.where, pack)


def _run(scene: Scene, step: ScenarioStep) -> None:
    said, name = step.said, step.said.get("as", step.where)
    # The plane here may stay open: other processes have it open as well, in real life too.
    scene.outputs.pop(name, None)
    scene.outputs[name] = run_command(scene, name, said["command"], said.get("stdin", ""))


def _repeat(scene: Scene, step: ScenarioStep) -> None:
    for number in range(1, step.said["times"] + 1):
        for inner in step.said["steps"]:
            do(scene, numbered(inner, "n", number))


STEPS: Final[Mapping[str, Callable[[Scene, ScenarioStep], None]]] = {
    "record": _record,
    "record_many": _record_many,
    "pack": _pack,
    "search": _search,
    "forget": _forget,
    "unforget": _unforget,
    "restart": _restart,
    "rebuild": _rebuild,
    "delete": _delete,
    "tear_tail": _tear_tail,
    "edit_policy": _edit_policy,
    "edit_view": _edit_view,
    "advance": _advance,
    "processes": _processes,
    "run": _run,
    "repeat": _repeat,
}


def change_policies(home: Path, changes: Mapping[str, Any]) -> None:
    """Write policies: whole texts, or keys beside and in place of those that stand there."""
    for stem, change in changes.items():
        file = home / "policies" / f"{stem}.yaml"
        if isinstance(change, str):
            file.write_text(change, encoding="utf-8")
            continue
        root, problems = read_document(
            file.name, file.read_bytes() if file.exists() else b"version: 1\n"
        )
        document = None if root is None else without_places(root)
        if problems or not isinstance(document, dict):
            found = problems[0] if problems else f"{file.name}: expected a mapping"
            raise InputError(f"cannot change keys of a file that cannot be read: {found}")
        # JSON is YAML; a person writes the file, so it may as well be readable.
        text = json.dumps(_changed(document, change), ensure_ascii=False, indent=1)
        file.write_text(f"{text}\n", encoding="utf-8")


def _changed(there: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(there)
    for key, value in change.items():
        before = made.get(key)
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict) and isinstance(before, dict):
            made[key] = _changed(before, value)
        else:
            made[key] = value
    return made


def change_views(home: Path, changes: Mapping[str, str | None]) -> None:
    """Write views by their names, or take them away."""
    for name, text in changes.items():
        file = home / "views" / f"{name}.md"
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(text, encoding="utf-8")


REPORT_VERSION: Final = 1
_MS: Final = 1_000_000


def as_words(outcomes: Sequence[ScenarioOutcome]) -> str:
    """A line a scenario, its failures below it, its times where limits of time were named."""
    return "\n".join([*_lines(outcomes), _sum(outcomes)])


def _lines(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    width = max((len(outcome.scenario.name) for outcome in outcomes), default=0)
    for outcome in outcomes:
        scenario = outcome.scenario
        said = "ok    " if outcome.passed else "FAILED"
        short = ", run short" if outcome.short else ""
        name = f"{scenario.name:<{width}}"
        yield f"{said} {name}  {masked(scenario.title)} ({outcome.seconds:.1f} s{short})".rstrip()
        yield from (f"       {masked(failure)}" for failure in outcome.failures)
        yield from (f"       {_timed(held)}" for held in outcome.held if held.timed)


def _timed(held: CheckedAssertion) -> str:
    over = "OVER" if held.enforced else "OVER, not enforced"
    state = "within" if held.finding.passed else over
    return masked(f"{held.finding.found}; expected {held.finding.expected}: {state}")


def _sum(outcomes: Sequence[ScenarioOutcome]) -> str:
    failed = sum(not outcome.passed for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    count = f"{len(outcomes)} scenario{'' if len(outcomes) == 1 else 's'}"
    held = sum(len(outcome.held) for outcome in outcomes)
    ended = f"{failed} failed" if failed else "all pass"
    return f"{count}, {held} assertions, {ended}, {seconds:.1f} s"


def as_json(outcomes: Sequence[ScenarioOutcome]) -> dict[str, Any]:
    """All of it as plain JSON values; no block, no report of a pack."""
    return {
        "version": REPORT_VERSION,
        "ok": all(outcome.passed for outcome in outcomes),
        "scenarios": [_scenario(outcome) for outcome in outcomes],
    }


def _scenario(outcome: ScenarioOutcome) -> dict[str, Any]:
    scenario = outcome.scenario
    return {
        "scenario": scenario.name,
        "title": masked(scenario.title),
        "file": scenario.file,
        "passed": outcome.passed,
        "short": outcome.short,
        "seconds": round(outcome.seconds, 3),
        "error": masked_data(outcome.error),
        "failures": masked_data(outcome.failures),
        "assertions": [
            {
                "type": held.assertion.type,
                "line": held.assertion.line,
                "passed": held.finding.passed,
                "enforced": held.enforced,
                "expected": masked(held.finding.expected),
                "found": masked(held.finding.found),
                "figures": held.finding.figures,
            }
            for held in outcome.held
        ],
        "packs": [_packed(packed) for packed in outcome.packs],
    }


def _packed(packed: StepPacks) -> dict[str, Any]:
    """What the packs of a name took: times in milliseconds, the most of each other figure."""
    runs = packed.runs
    reports = [run.block.report for run in runs]
    stages = sorted({stage for report in reports for stage in report["timings_ns"]})
    return {
        "name": packed.name,
        "runs": len(runs),
        "tokens": max(run.block.tokens for run in runs),
        "budget": reports[-1]["budget"],
        "p50_ms": round(percentile_of([run.ns for run in runs], 50) / _MS, 3),
        "p95_ms": p95(runs),
        "stages_p95_ms": {
            stage: round(
                percentile_of([report["timings_ns"].get(stage, 0) for report in reports], 95) / _MS,
                3,
            )
            for stage in stages
        },
        "candidates_scored": max(report["candidates"]["scored"] for report in reports),
        "files": max(report["io"]["files"] for report in reports),
        "bytes": max(report["io"]["bytes"] for report in reports),
        "acb_sha256": reports[-1]["acb_sha256"],
    }


def write_reports(folder: Path, outcomes: Sequence[ScenarioOutcome]) -> None:
    """Write `scenarios.txt` and `scenarios.json`, and of each scenario its packs.

    `NAME.PACK.md` is the last block of a pack, `NAME.PACK.report.json` its report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenarios.txt").write_text(as_words(outcomes) + "\n", encoding="utf-8")
    (folder / "scenarios.json").write_text(_dumped(as_json(outcomes)), encoding="utf-8")
    for outcome in outcomes:
        for packed in outcome.packs:
            stem = f"{outcome.scenario.name}.{re.sub(r'[^A-Za-z0-9]+', '-', packed.name)}"
            block = packed.last.block
            (folder / f"{stem}.md").write_text(block.text, encoding="utf-8")
            (folder / f"{stem}.report.json").write_text(_dumped(block.report), encoding="utf-8")


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
