"""The pytest plugin: every scenario in a folder `scenarios/` is a test.

A file counts where it ends in `.yaml`, lies in a folder of that name and has `scenario:` at its
top, or `assertions:` alone. A long scenario is run short and keeps its full length for
`--scenario-long`; limits of time are reported, and enforced without `--scenario-lenient-time`.
Nothing but this module is imported until a scenario is found: the plugin is loaded by every pytest
where memplane is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from memplane.scenario import Runner, Scenario, ScenarioOutcome

_FOLDER: Final = "scenarios"
_SUFFIXES: Final = (".yaml", ".yml")
_RUNNER: Final = pytest.StashKey["Runner"]()
_TIME: Final = "scenario time"  # a property of a test, so that it comes from any worker


class ScenarioFailedError(Exception):
    """A scenario failed; the message holds what each assertion expected and found."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("memplane")
    group.addoption(
        "--scenario-long", action="store_true", help="run long scenarios in full, not short"
    )
    group.addoption(
        "--scenario-lenient-time",
        action="store_true",
        help="report limits of time, and fail no scenario by them",
    )
    group.addoption(
        "--scenario-policies",
        metavar="FOLDER",
        type=Path,
        help="run scenarios under these policies, in place of memplane's own",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Take a file that is a scenario."""
    if file_path.suffix not in _SUFFIXES or file_path.parent.name != _FOLDER:
        return None
    from memplane.scenario.document import is_scenario  # noqa: PLC0415 - see above

    if not is_scenario(file_path.read_bytes()):
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take away the planes that scenarios were given."""
    runner = config.stash.get(_RUNNER, None)
    if runner is not None:
        runner.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how long packs took where a scenario has a limit for it."""
    ended = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    times = [value for one in ended for name, value in one.user_properties if name == _TIME]
    if times:
        terminalreporter.section("times of scenarios")
        for line in sorted(times):
            terminalreporter.line(line)


class ScenarioFile(pytest.File):
    """A file with a scenario: one test."""

    def collect(self) -> Iterator[ScenarioItem]:
        """Give the one item; mistakes in the file are named when it runs."""
        yield ScenarioItem.from_parent(self, name=self.path.stem)


class ScenarioItem(pytest.Item):
    """One scenario."""

    def runtest(self) -> None:
        """Run it; what fails is raised as one error with every message."""
        scenario = self._scenario()
        outcome = _runner(self.config).run(scenario)
        self._note_times(outcome)
        if not outcome.passed:
            raise ScenarioFailedError("\n".join(outcome.failures))

    def _scenario(self) -> Scenario:
        from memplane.cli.trials import read_scenario_file  # noqa: PLC0415 - see the module

        try:
            shown = self.path.relative_to(self.config.rootpath)
        except ValueError:
            shown = self.path
        return read_scenario_file(self.path, shown.as_posix())

    def _note_times(self, outcome: ScenarioOutcome) -> None:
        for held in outcome.held:
            if held.timed:
                short = " (run short)" if outcome.short else ""
                found, expected = held.finding.found, held.finding.expected
                line = f"{outcome.scenario.name}{short}: {found}; expected {expected}"
                self.user_properties.append((_TIME, line))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Show the messages alone: no traceback says more than they do."""
        from memplane.scenario import ScenarioError  # noqa: PLC0415 - see the module

        if isinstance(excinfo.value, ScenarioFailedError | ScenarioError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the test stands: the file as a whole."""
        return self.path, None, f"scenario {self.name}"


def _runner(config: pytest.Config) -> Runner:
    """The runner of this session: what scenarios are given alike is made once."""
    runner = config.stash.get(_RUNNER, None)
    if runner is None:
        from memplane.cli.trials import builders, policies_in  # noqa: PLC0415 - see the module
        from memplane.scenario import Runner, Settings  # noqa: PLC0415 - see the module

        settings = Settings(
            short=not config.getoption("--scenario-long"),
            lenient_time=bool(config.getoption("--scenario-lenient-time")),
            policies=policies_in(config.getoption("--scenario-policies")),
        )
        runner = config.stash[_RUNNER] = Runner(builders(), settings)
    return runner
