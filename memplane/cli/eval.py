"""`memplane eval`: measure on labelled questions how much of the evidence is in a block."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from memplane.cli.app import command
from memplane.cli.options import Channel, Home, Json
from memplane.cli.output import Bar, counted, print_answer, say
from memplane.clock import clock
from memplane.errors import HomeError, InputError, WriteError
from memplane.home import open_home
from memplane.lazy import late
from memplane.plane import Plane
from memplane.policy import NAMES
from memplane.wiring import find_home, init, make_counter, open_light, open_plane

if TYPE_CHECKING:
    from memplane import evaluate as evaluate_room
    from memplane.evaluate import EvaluationMode, QuestionOutcome, SystemFactory
    from memplane.evaluate import baselines as evaluate_baselines
    from memplane.evaluate import sessions as evaluate_sessions
    from memplane.evaluate.sessions import HookAnswer
    from memplane.hook import context as hook_context
    from memplane.hook import payload as hook_payload
else:
    evaluate_room = late("memplane.evaluate")
    evaluate_baselines = late("memplane.evaluate.baselines")
    evaluate_sessions = late("memplane.evaluate.sessions")
    hook_context = late("memplane.hook.context")
    hook_payload = late("memplane.hook.payload")

__all__ = ["evaluate"]

_File: TypeAlias = Path | None


def _file(means: str) -> Any:
    return typer.Option(metavar="FILE", help=means)


_Budgets = Annotated[
    str, typer.Option(metavar="TOKENS", help="Budgets to ask within, with commas between.")
]
_Baselines = Annotated[
    str, typer.Option(metavar="NAMES", help="Beside it: some of recency,rank_bm25,lexical.")
]
_Together = Annotated[bool, typer.Option("--together", help="All conversations in one plane.")]
_By = Annotated[
    str | None, typer.Option("--by", metavar="category", help="Figures of each category too.")
]
_Folds = Annotated[
    int,
    typer.Option(
        metavar="K", min=0, help="Figures of each of K folds of conversations, or sessions, too."
    ),
]
_Candidates = Annotated[
    list[Path] | None,
    typer.Option(
        "--candidate",
        metavar="FILE",
        help="A scoring.yaml to choose among: each fold is judged by what was best on the others. "
        "Repeatable.",
    ),
]
_Limit = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="N questions, spread over the file.")
]
_Policies = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="The policies to ask under; else those of the plane, if there is one.",
    ),
]


_Sessions = Annotated[
    list[Path] | None,
    typer.Option(
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
    elif events is not None and questions is not None and candidate:
        answer, words = _chosen((events, questions), asked, given, candidate, (limit, folds))
    elif events is not None and questions is not None:
        answer, words = _blocks((events, questions), asked, given, (limit, by is not None, folds))
    else:
        raise InputError("expected --events and --questions, or --sessions")
    if report is not None:
        try:
            report.write_text(json.dumps(answer, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise WriteError(f"{report}: {error.strerror}; the figures are not kept") from error
    print_answer({key: answer[key] for key in answer if key not in _LONG}, words, as_json=as_json)


_IN_FORCE = "the weights in force"
_FOLDS = 5
_HALVES = 2  # of the sessions that are replayed
_LONG = ("questions", "searched")  # of the report alone: they are thousands


def _blocks(
    files: tuple[Path, Path],
    asked: "EvaluationMode",
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
    asked: "EvaluationMode",
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
            _ = plane.policies
    with Bar("eval") as bar:
        done = 0

        def measured(document: bytes) -> "Sequence[QuestionOutcome]":
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


def _hook_answer(plane: Plane, session: str, when: str, query: str) -> "HookAnswer":
    """What a hook says to a session, by its own code and the plane's policy."""
    with open_light(open_home(plane.home), clock, os.environ) as light:
        hooks = light.policies.plane.hooks
        said = hook_payload.HookPayload(
            when, session, "", (), asks=when, query=query, begins=when == "start"
        )
        if when == "tool":  # as if it were asked for: the figures say whether it should be
            hooks = hooks._replace(tool=hooks.tool._replace(when="relevant"))
            event = plane.event(query)
            row = {"kind": event.kind, "id": event.id, "data": dict(event.data)}
            said = hook_payload.asked_at_tool(said._replace(rows=(row,)))
        block = hook_context.packed_answer(light, said, hooks)
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
    if folder is None:
        try:
            folder = find_home(home) / "policies"
        except HomeError:
            return {}
        if not (folder.parent / "plane.json").is_file():
            raise HomeError(f"{folder.parent}: no plane here; its policies were to be asked under")
        say(f"under the policies of {folder.parent}")
    elif not folder.is_dir():
        raise InputError(f"{folder}: no such folder", where="--policies")
    elif not any((folder / name).is_file() for name in NAMES):
        raise InputError(
            f"{folder}: expected some of {', '.join(NAMES)}, found none", where="--policies"
        )
    return {name: (folder / name).read_bytes() for name in NAMES if (folder / name).is_file()}


def _plane(folder: Path, policies: Mapping[str, bytes]) -> Plane:
    init(folder, durability="os", trusted=False).close()
    for name, data in policies.items():
        (folder / "policies" / name).write_bytes(data)
    # A power cut may take a plane that is thrown away in the end; syncs would only cost time.
    return open_plane(folder, durability="os")


def _builders() -> "SystemFactory":

    return evaluate_room.SystemFactory(_plane, make_counter, evaluate_baselines.PlainIndex)
