"""`memplane scenario run`: run scenarios, in CI or by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from memplane import wiring
from memplane.cli.app import FINE, NO, WRONG, command, scenario_app
from memplane.cli.options import Home, Json
from memplane.cli.output import Bar, print_answer, say
from memplane.errors import InputError, Problem
from memplane.home import asset
from memplane.lazy import late
from memplane.policy import NAMES
from memplane.scenario import work
from memplane.wiring import find_home, init, make_counter, open_plane

if TYPE_CHECKING:
    from memplane import scenario as scenario_room
    from memplane.cli import run
    from memplane.scenario import Scenario, ScenarioOutcome
else:
    run = late("memplane.cli.run")
    scenario_room = late("memplane.scenario")

__all__ = ["builders", "policies_in", "read_scenario_file", "run_process", "run_scenarios"]


_SUFFIXES: Final = (".yaml", ".yml")

_Policies = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="The policies to run under, in place of memplane's own: yours."
    ),
]


def builders() -> scenario_room.SceneFactory:
    """What scenarios are made with: real planes, whatever the environment says of policies."""
    return scenario_room.SceneFactory(
        partial(init, environment={}, trusted=False),
        partial(open_plane, environment={}),
        make_counter,
        (sys.executable, "-m", "memplane.cli.scenario"),
    )


def read_scenario_file(path: Path, shown: str = "") -> Scenario:
    """Read a scenario; files that it names lie beside it. Raises ScenarioError, OSError.

    `shown` is its path in messages, where that is another.
    """
    return scenario_room.read_scenario(
        shown or str(path),
        path.read_bytes(),
        schema=asset("schemas/scenario.schema.json"),
        open_file=lambda name: (path.parent / name).read_bytes(),
    )


@command("run", example="scenario run scenarios/", group=scenario_app)
def run_scenarios(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH...",
            help="Scenario files, or folders of them; else the plane's scenarios/.",
        ),
    ] = None,
    *,
    report_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep figures, blocks and their reports there, for CI to show."
        ),
    ] = None,
    lenient_time: Annotated[
        bool, typer.Option("--lenient-time", help="Report limits of time, and fail none by them.")
    ] = False,
    short: Annotated[
        bool, typer.Option("--short", help="Run long scenarios short, as pytest does.")
    ] = False,
    policies: _Policies = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Run scenarios and say what failed: exit 0 all pass, 1 one failed, 2 a mistake in a file.

    Each plays in a plane of its own, in a temporary folder, with a clock of its own; nothing is
    written into yours. Limits of time fail a scenario unless --lenient-time is given (a loaded
    machine, say); the times are printed either way.
    """
    scenarios, problems = _read(_files(paths or [find_home(home) / "scenarios"]))
    if problems:
        answer = {"ok": False, "problems": [problem._asdict() for problem in problems]}
        print_answer(answer, "\n".join(map(str, problems)), as_json=as_json)
        say("nothing was run")
        return WRONG
    outcomes = _outcomes(scenarios, policies_in(policies), short=short, lenient_time=lenient_time)

    if report_dir is not None:
        scenario_room.write_reports(report_dir, outcomes)
    print_answer(scenario_room.as_json(outcomes), scenario_room.as_words(outcomes), as_json=as_json)
    return FINE if all(outcome.passed for outcome in outcomes) else NO


def _outcomes(
    scenarios: list[Scenario], policies: Mapping[str, bytes], *, short: bool, lenient_time: bool
) -> list[ScenarioOutcome]:

    whole, done = sum(scenario_room.work_of(scenario, short=short) for scenario in scenarios), 0.0
    with Bar("scenarios") as bar:

        def told(more: float) -> None:
            nonlocal done
            done += more
            bar(round(done), max(1, round(whole)))

        settings = scenario_room.Settings(short, lenient_time, policies, told)
        with scenario_room.Runner(builders(), settings) as runner:
            return [runner.run(scenario) for scenario in scenarios]


def _files(paths: Iterable[Path]) -> list[Path]:
    """The scenario files that are named, and those in the folders that are, in order of name."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            there = [one for one in sorted(path.iterdir()) if one.suffix in _SUFFIXES]
            there = [
                one
                for one in there
                if one.is_file() and scenario_room.is_scenario(one.read_bytes())
            ]
            if not there:
                raise InputError(f"{path}: expected scenarios (*.yaml), found none")
            found += there
        elif path.is_file():
            found.append(path)
        else:
            raise InputError(f"{path}: expected a scenario or a folder of them; no such file")
    return list(dict.fromkeys(found))


def _read(files: list[Path]) -> tuple[list[Scenario], list[Problem]]:
    """The scenarios, and every mistake in all files."""
    scenarios: list[Any] = []
    problems: list[Problem] = []
    for file in files:
        try:
            scenarios.append(read_scenario_file(file))
        except scenario_room.ScenarioError as error:
            problems += error.problems
    first: dict[str, str] = {}
    for scenario in scenarios:
        before = first.setdefault(scenario.name, scenario.file)
        if before != scenario.file:
            message = f"expected each name once, found `{scenario.name}` in {before} too"
            problems.append(Problem(scenario.file, 0, "scenario", message))
    return scenarios, problems


def policies_in(folder: Path | None) -> dict[str, bytes]:
    """The policies of a folder by their file names; none where no folder is given."""
    if folder is None:
        return {}
    files = {name: folder / name for name in NAMES if (folder / name).is_file()}
    if not files:
        raise InputError(
            f"{folder}: expected some of {', '.join(NAMES)}, found none", where="--policies"
        )
    return {name: file.read_bytes() for name, file in files.items()}


# One process of a scenario: `python -m memplane.cli.scenario work|command TIME ...`.
#
# What the two words mean is told in `memplane.scenario.process`.


def run_process(argv: list[str]) -> int:
    """Do what a scenario asks of one process; its exit code."""
    kind, now, *rest = argv
    if kind == "work":
        work(sys.stdin, sys.stdout, now, builders())
        return 0

    # Commands ask the one clock that there is, by the name that they were given at import: it is
    # made to stand where the scenario's does.
    setattr(type(wiring.clock), "__call__", lambda _: now)  # noqa: B010 - no method of that class
    return run.run_command_line(rest)


if __name__ == "__main__":
    sys.exit(run_process(sys.argv[1:]))
