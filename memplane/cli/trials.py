"""Commands that try memplane out: `eval` on labelled questions, `scenario run` on scenarios.

`eval` measures how much of the evidence is in a block; scenarios say what a plane must do.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from memplane.cli.commands import (
    FINE,
    NO,
    WRONG,
    Argument,
    Channel,
    Home,
    Html,
    Json,
    Option,
    command,
)
from memplane.cli.output import Bar, counted, print_answer, say, write_figures
from memplane.clock import clock
from memplane.errors import HomeError, InputError, Problem, WriteError
from memplane.home import asset, open_home
from memplane.lazy import late
from memplane.plane import Plane
from memplane.policy import NAMES
from memplane.scenario import work
from memplane.wiring import find_home, init, make_counter, open_light, open_plane

if TYPE_CHECKING:
    from memplane import evaluate as evaluate_room, hook as hook_room, scenario as scenario_room
    from memplane.cli import figures, run
    from memplane.evaluate import (
        EvaluationMode,
        QuestionOutcome,
        SystemFactory,
        sessions as evaluate_sessions,
    )
    from memplane.evaluate.sessions import HookAnswer
    from memplane.hook import run as hook_run
    from memplane.scenario import Scenario, ScenarioOutcome
else:
    evaluate_room = late("memplane.evaluate")
    evaluate_sessions = late("memplane.evaluate.sessions")
    hook_run = late("memplane.hook.run")
    hook_room = late("memplane.hook")
    figures = late("memplane.cli.figures")
    run = late("memplane.cli.run")
    scenario_room = late("memplane.scenario")

_File: TypeAlias = Path | None


def _file(means: str) -> Any:
    return Option(metavar="FILE", help=means)


_Budgets = Annotated[
    str, Option(metavar="TOKENS", help="Budgets to ask within, with commas between.")
]
_Baselines = Annotated[
    str, Option(metavar="NAMES", help="Beside it: some of recency,rank_bm25,lexical.")
]
_Together = Annotated[bool, Option("--together", help="All conversations in one plane.")]
_By = Annotated[
    str | None, Option("--by", metavar="category", help="Figures of each category too.")
]
_Folds = Annotated[
    int,
    Option(
        metavar="K", min=0, help="Figures of each of K folds of conversations, or sessions, too."
    ),
]
_Candidates = Annotated[
    list[Path] | None,
    Option(
        "--candidate",
        metavar="FILE",
        help="A scoring.yaml to choose among: each fold is judged by what was best on the others. "
        "Repeatable.",
    ),
]
_Limit = Annotated[
    int | None, Option(metavar="N", min=1, help="N questions, spread over the file.")
]
_Policies = Annotated[
    Path | None,
    Option(
        metavar="FOLDER",
        help="The policies to ask under; else those of the plane, if there is one.",
    ),
]


_Sessions = Annotated[
    list[Path] | None,
    Option(
        "--sessions",
        metavar="PATH",
        help="Transcripts of coding agents, files or folders: what hooks would have said, and how "
        "much of it was needed. Repeatable.",
    ),
]


@command("eval", example="eval --events events.jsonl --questions questions.jsonl")
def evaluate(
    *,
    events: Annotated[_File, _file("Conversations' events: .jsonl or .jsonl.gz.")] = None,
    questions: Annotated[_File, _file("Questions, each with its evidence_event_ids.")] = None,
    budgets: _Budgets = "500,1000,2000,4000,8000",
    baselines: _Baselines = "",
    together: _Together = False,
    by: _By = None,
    folds: _Folds = 0,
    candidate: _Candidates = None,
    limit: _Limit = None,
    policies: _Policies = None,
    sessions: _Sessions = None,
    labels: Annotated[
        _File, _file("With --sessions: prompts with speak (no, maybe, yes) and want (quotes).")
    ] = None,
    report: Annotated[_File, _file("Keep all figures and each question there (JSON).")] = None,
    html: Html = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Measure how much of the evidence for labelled questions gets into their blocks.

    The conversations are imported into planes of their own, in a temporary folder; nothing is
    written into yours. With --sessions transcripts are replayed in order of time instead, as hooks
    would have met them.
    """
    if report is not None and not report.absolute().parent.is_dir():
        raise InputError(f"{report.parent}: no such folder", where="--report")
    if by not in (None, "category"):
        raise InputError(f"expected category, found {by!r:.60}", where="--by")
    named = tuple(dict.fromkeys(one.strip() for one in baselines.split(",") if one.strip()))

    asked = evaluate_room.EvaluationMode(_numbers(budgets), channel, together, named)
    given = _policies_of(policies, home)
    if sessions:
        if events is not None or questions is not None:
            raise InputError("expected transcripts alone, found events or questions beside them")
        answer, words = _replayed(sessions, labels, given, folds)
        page = figures.replayed_page
    elif events is not None and questions is not None and candidate:
        answer, words = _chosen((events, questions), asked, given, candidate, (limit, folds))
        page = figures.candidates_page
    elif events is not None and questions is not None:
        answer, words = _blocks((events, questions), asked, given, (limit, by is not None, folds))
        page = figures.evaluation_page
    else:
        raise InputError("expected --events and --questions, or --sessions")
    if report is not None:
        try:
            report.write_text(json.dumps(answer, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise WriteError(f"{report}: {error.strerror}; the figures are not kept") from error
    print_answer({key: answer[key] for key in answer if key not in _LONG}, words, as_json=as_json)
    write_figures(html, lambda: page(answer))


_IN_FORCE = "the weights in force"
_FOLDS = 5
_HALVES = 2  # of the sessions that are replayed
_LONG = ("questions", "searched")  # of the report alone: they are thousands


def _blocks(
    files: tuple[Path, Path],
    asked: EvaluationMode,
    policies: Mapping[str, bytes],
    wanted: tuple[int | None, bool, int],
) -> tuple[dict[str, Any], str]:

    limit, by_category, folds = wanted
    dataset = evaluate_room.read_dataset(*files)
    if limit is not None:
        dataset = dataset.limited(limit)
    if folds:
        evaluate_room.deal(
            dataset.sizes, folds
        )  # a mistake here is better named before the minutes of work
    with Bar("eval") as bar:
        measured = evaluate_room.measure(dataset, asked, _builders(), policies, progress=bar)
    answer = evaluate_room.evaluation_report(
        dataset, asked, measured, by_category=by_category, folds=folds, questions=True
    )
    for what, key in (("refused by the importer", "refused"), ("of no event", "unresolved")):
        if count := answer["set"][key]:
            first = answer["set"][f"{key}_first"][0]
            noun = "evidence id" if key == "unresolved" else "row"
            say(f"{counted(count, noun)} {what}, the first: {first}")
    return answer, evaluate_room.table(answer)


def _chosen(
    files: tuple[Path, Path],
    asked: EvaluationMode,
    policies: Mapping[str, bytes],
    candidates: list[Path],
    wanted: tuple[int | None, int],
) -> tuple[dict[str, Any], str]:
    """Cross-validation of the weights in force and those of the candidates, by conversation."""
    limit, folds = wanted
    documents = {_IN_FORCE: policies.get("scoring.yaml", b"version: 1\n")}
    for path in candidates:
        if not path.is_file():
            raise InputError(f"{path}: expected a scoring.yaml; no such file", where="--candidate")
        documents[str(path)] = path.read_bytes()
    dataset = evaluate_room.read_dataset(*files)
    dataset = dataset if limit is None else dataset.limited(limit)
    # A mistake is better named before the minutes.
    evaluate_room.deal(dataset.sizes, folds or _FOLDS)
    for document in documents.values():
        with (
            tempfile.TemporaryDirectory(prefix="memplane-eval-") as folder,
            _plane(Path(folder, "plane"), {**policies, "scoring.yaml": document}) as plane,
        ):
            _ = plane.upkeep.policies
    with Bar("eval") as bar:
        done = 0

        def measured(document: bytes) -> Sequence[QuestionOutcome]:
            nonlocal done
            before, done = done, done + 1

            def told(now: int, total: int) -> None:
                bar(before * total + now, len(documents) * total)

            under = {**policies, "scoring.yaml": document}
            alone = asked._replace(baselines=())
            return evaluate_room.measure(dataset, alone, _builders(), under, progress=told).outcomes

        found = evaluate_room.cross_validate(documents, measured, folds or _FOLDS)
    answer = {
        "honest": round(found.honest, 5),
        "fitted": {name: round(share, 5) for name, share in found.fitted.items()},
        "folds": [one._asdict() for one in found.folds],
    }
    lines = [f"{100 * share:5.1f}  {name}" for name, share in found.fitted.items()]
    lines += [
        f"fold {one.fold + 1}: {100 * one.own:5.1f}  under {one.candidate}, the best on the others"
        for one in found.folds
    ]
    lines.append(f"{100 * found.honest:5.1f}  each fold under weights chosen without it")
    return answer, "\n".join(lines)


def _replayed(
    paths: list[Path], labels: Path | None, policies: Mapping[str, bytes], folds: int
) -> tuple[dict[str, Any], str]:
    known = [] if labels is None else evaluate_sessions.read_prompt_labels(labels)
    with Bar("sessions") as bar:
        run = evaluate_sessions.replay_sessions(
            paths, known, _plane, _hook_answer, policies, parts=folds or _HALVES, progress=bar
        )
    answer = evaluate_sessions.sessions_report(run)
    return answer, evaluate_sessions.sessions_table(answer)


def _hook_answer(plane: Plane, session: str, when: str, query: str, event_id: str) -> HookAnswer:
    """What a hook says to a session, by its own code and the plane's policy."""
    with open_light(open_home(plane.home), clock, os.environ) as light:
        hooks = light.policies.plane.hooks
        said = hook_room.HookPayload(
            when, session, "", (), asks=when, query=query, event_id=event_id, begins=when == "start"
        )
        if when == "tool":  # as if it were asked for: the figures say whether it should be
            hooks = hooks._replace(tool=hooks.tool._replace(when="relevant"))
            event = plane.event(event_id)
            row = {"kind": event.kind, "id": event.id, "data": dict(event.data)}
            said = hook_room.asked_at_tool(said._replace(rows=(row,)))
        block = hook_run.packed_answer(light, said, hooks)
    if block is None:
        return evaluate_sessions.HookAnswer()
    return evaluate_sessions.HookAnswer(block.tokens, tuple(one.text for one in block.entries))


def _numbers(given: str) -> tuple[int, ...]:
    """Read the budgets, each once, the smallest first."""
    words = [word.strip() for word in given.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise InputError(
            f"expected numbers of tokens above 0 with commas between, found {given!r:.60}",
            where="--budgets",
        )
    return tuple(sorted({int(word) for word in words}))


def _policies_of(folder: Path | None, home: str | None) -> dict[str, bytes]:
    """The policies to ask under: the folder's, else the plane's, else memplane's defaults."""
    if folder is not None:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder", where="--policies")
        return policies_in(folder)
    try:
        folder = find_home(home) / "policies"
    except HomeError:
        return {}
    if not (folder.parent / "plane.json").is_file():
        raise HomeError(f"{folder.parent}: no plane here; its policies were to be asked under")
    say(f"under the policies of {folder.parent}")
    return {name: (folder / name).read_bytes() for name in NAMES if (folder / name).is_file()}


def _plane(folder: Path, policies: Mapping[str, bytes]) -> Plane:
    init(folder, durability="os", trusted=False).close()
    for name, data in policies.items():
        (folder / "policies" / name).write_bytes(data)
    # A power cut may take a plane that is thrown away in the end; syncs would only cost time.
    return open_plane(folder, durability="os")


def _builders() -> SystemFactory:

    return evaluate_room.SystemFactory(_plane, make_counter, evaluate_room.PlainIndex)


_SUFFIXES: Final = (".yaml", ".yml")

_RunUnder = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="The policies to run under, in place of memplane's own: yours."),
]


def builders() -> scenario_room.SceneFactory:
    """How scenarios make their planes: real ones, without policy variables of the environment."""
    return scenario_room.SceneFactory(
        partial(init, environment={}, trusted=False),
        partial(open_plane, environment={}),
        make_counter,
        (sys.executable, "-m", "memplane.cli.trials"),
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


@command("run", example="scenario run scenarios/", group="scenario")
def run_scenarios(
    paths: Annotated[
        list[Path] | None,
        Argument(
            metavar="PATH...",
            help="Scenario files, or folders of them; else the plane's scenarios/.",
        ),
    ] = None,
    *,
    report_dir: Annotated[
        Path | None,
        Option(metavar="DIR", help="Keep figures, blocks and their reports there, for CI to show."),
    ] = None,
    lenient_time: Annotated[
        bool, Option("--lenient-time", help="Report limits of time, and fail none by them.")
    ] = False,
    short: Annotated[
        bool, Option("--short", help="Run long scenarios short, as pytest does.")
    ] = False,
    policies: _RunUnder = None,
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


# One process of a scenario: `python -m memplane.cli.trials work|command TIME ...`.
#
# What the two words mean is told in `memplane.scenario.document`.


def run_process(argv: list[str]) -> int:
    """Do what a scenario asks of one process; its exit code."""
    kind, now, *rest = argv
    if kind == "work":
        work(sys.stdin, sys.stdout, now, builders())
        return 0

    # Commands ask the one clock that there is, by the name that they were given at import: it is
    # made to stand where the scenario's does.
    setattr(type(clock), "__call__", lambda _: now)  # noqa: B010 - no method of that class
    return run.run_command_line(rest)


if __name__ == "__main__":
    sys.exit(run_process(sys.argv[1:]))
