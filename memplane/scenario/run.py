"""Run scenarios: each in a plane of its own, in a folder that is gone afterwards."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, NamedTuple, Self

from memplane.errors import MemplaneError
from memplane.scenario.assertions import ASSERTIONS, TIMED
from memplane.scenario.document import Assertion, Scenario
from memplane.scenario.finding import Finding
from memplane.scenario.scene import Builders, Packed, Scene
from memplane.scenario.steps import change_policies, change_views, do

__all__ = ["Held", "Outcome", "Runner", "Settings", "work_of"]

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


class Held(NamedTuple):
    """An assertion and what it found; one that is not `enforced` fails nothing."""

    assertion: Assertion
    finding: Finding
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


class Outcome(NamedTuple):
    """What became of a scenario. `error` names the step that could not happen, "" where all did."""

    scenario: Scenario
    held: tuple[Held, ...]
    packs: tuple[Packed, ...]
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

    def __init__(self, builders: Builders, settings: Settings = Settings()) -> None:  # noqa: B008
        self._builders, self._settings = builders, settings
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._given: dict[str, tuple[Path, list[str], str]] = {}

    def run(self, scenario: Scenario) -> Outcome:
        """Run one scenario. Whatever a step raises is its outcome; a bug in memplane is raised."""
        start = time.perf_counter()
        short = scenario.long and self._settings.short
        with tempfile.TemporaryDirectory(prefix="one-", dir=self._home()) as folder:
            scene = Scene(
                Path(folder), scenario, self._builders, short=short,
                progress=lambda events: self._settings.progress(events / 1000),
            )  # fmt: skip
            try:
                error = self._played(scene, scenario)
                held = () if error else tuple(self._held(scene, scenario.assertions))
            finally:
                scene.close()
        seconds = time.perf_counter() - start
        return Outcome(scenario, held, tuple(scene.packs.values()), error, short, seconds)

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

    def _held(self, scene: Scene, assertions: Sequence[Assertion]) -> list[Held]:
        """Hold every assertion against what happened; one that cannot be asked has failed."""
        held = []
        for assertion in assertions:
            try:
                finding = ASSERTIONS[assertion.type](scene, assertion.said)
            except MemplaneError as error:
                found = f"{type(error).__name__}: {error}"
                finding = Finding(False, "a plane that can be asked", found)
            enforced = assertion.type not in TIMED or not self._settings.lenient_time
            held.append(Held(assertion, finding, enforced))
            self._settings.progress(1)
        return held

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
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
