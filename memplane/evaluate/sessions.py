"""Replay transcripts in order of time: what a memory would have added, and what of it helped.

At each start of a session, each prompt and each tool that failed or worked on a file the memory is
what came before; the answer is that of a hook (at tools, as if plane.yaml asked for it). Without
labels a passage counts as needed where it holds a rare term that the session had not used and uses
within its next 60 events; with labels, where it holds a wanted quote. Beside the answers stand
random and the newest passages of the same size. All figures stand again for parts of the sessions
by the time of their first event.
"""

from __future__ import annotations

import random
import re
import statistics
import tempfile
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.evaluate import Mistakes, read_rows
from memplane.event import UPKEEP_KINDS
from memplane.importers import import_paths
from memplane.index.terms import text_words
from memplane.lazy import NamedTuple
from memplane.recall.gate import split_passages, tool_names

if TYPE_CHECKING:
    import os

    from memplane.event import Event
    from memplane.plane import Plane
    from memplane.ports import Progress

Answerer = Callable[["Plane", str, str, str, str], "HookAnswer"]

_NEXT: Final = 60  # events of the session in which a term must be used
_RARE: Final = 100  # a rare term is in at most one event of so many
_SPEAK: Final = ("no", "maybe", "yes")
_SEED: Final = 20  # of the random passages
_DRAWS: Final = 10  # of so many for each answer: one draw says little
# What a block puts around a passage: who said it, its event and day, before and behind.
_CITED: Final = re.compile(r"\A\s*\w+ #\d+(?: \d{4}-\d\d-\d\d)?:|…#\d+\s*\Z")
_LETTERS: Final = re.compile(r"[\W_]+")


class HookAnswer(NamedTuple):
    """What a hook answered: nothing where `passages` is empty."""

    tokens: int = 0
    passages: tuple[str, ...] = ()


class PromptLabel(NamedTuple):
    """What a reader said of a prompt: whether it deserves an answer, and quotes it should hold.

    `ts` "" stands for a prompt of no session, asked at the end.
    """

    prompt: str
    speak: str
    session: str = ""
    ts: str = ""
    want: tuple[str, ...] = ()


class Injection(NamedTuple):
    """One answer at a `start`, a `prompt` or a `tool`, with what stood beside it for a measure.

    `needed`: passages that were; `newest`: the same of as many other passages; `at_random`: of ten
    times as many.
    """

    when: str
    session: str
    ts: str
    query: str
    spoken: HookAnswer
    needed: int = 0
    at_random: int = 0
    newest: int = 0
    label: PromptLabel | None = None
    quoted: bool = False  # a wanted quote stands in it, or in the start of its session
    at_start: bool = False  # in the start


class SessionRun(NamedTuple):
    """All answers of a replay."""

    events: int
    sessions: int
    injections: tuple[Injection, ...]
    parts: tuple[frozenset[str], ...]  # the sessions in order of time, in parts of equal size
    apart: tuple[Injection, ...]  # prompts of no session


def read_prompt_labels(path: Path) -> list[PromptLabel]:
    """Read labels: JSON lines with `prompt`, `speak` (no, maybe, yes), `want`, `session`, `ts`.

    Raises InputError that names every mistake with its line.
    """
    mistakes, labels = Mistakes(), list[PromptLabel]()
    for row in read_rows(path, mistakes):
        record = row.record
        prompt, speak, want = (
            record.get("prompt"),
            record.get("speak", "no"),
            record.get("want", []),
        )
        if not isinstance(prompt, str) or not prompt:
            mistakes.add(path, row.line, "prompt", "expected the text of a prompt")
        elif speak not in _SPEAK:
            mistakes.add(path, row.line, "speak", f"expected no, maybe or yes, found {speak!r:.40}")
        elif not isinstance(want, list) or not all(isinstance(one, str) for one in want):
            mistakes.add(path, row.line, "want", "expected a list of quotes")
        else:
            session, ts = record.get("session"), record.get("ts")
            given = [one if isinstance(one, str) else "" for one in (session, ts)]
            labels.append(PromptLabel(prompt, speak, given[0], given[1], tuple(want)))
    mistakes.settle()
    return labels


def replay_sessions(
    paths: Sequence[str | os.PathLike[str]],
    labels: Sequence[PromptLabel],
    make_plane: Callable[[Path, Mapping[str, bytes]], Plane],
    answer: Answerer,
    policies: Mapping[str, bytes],
    *,
    parts: int = 2,
    progress: Progress | None = None,
) -> SessionRun:
    """Import the transcripts, record them again in order of time, and ask as hooks would.

    `answer(plane, session, when, query, event_id)` gives what a hook says; `when` is "start",
    "prompt" or "tool", `event_id` that of the prompt or call, "" for none. `parts`: of the
    sessions, by time.
    Raises InputError where nothing that a person typed was found.
    """
    with tempfile.TemporaryDirectory(prefix="memplane-sessions-") as folder:
        with make_plane(Path(folder, "all"), policies) as plane:
            import_paths(plane, None, paths)
            events = sorted(_events_of(plane), key=lambda event: (event.ts, event.seq))
            gap = timedelta(minutes=plane.upkeep.policies.plane.session_gap_minutes)
        if not any(_is_prompt(event) for event in events):
            raise InputError("no prompt was found in the transcripts", where="--sessions")
        uses = _Uses(events)
        with make_plane(Path(folder, "memory"), policies) as plane:
            replay = _Replay(plane, answer, uses, labels, gap)
            for at, event in enumerate(events):
                replay.meet(event)
                if progress is not None:
                    progress(at + 1, len(events))
            apart = [replay.ask_apart(label) for label in labels if not label.ts]
    sessions = list(dict.fromkeys(one.session for one in events if one.session is not None))
    size = max(-(-len(sessions) // parts), 1)
    found = tuple(frozenset(sessions[at : at + size]) for at in range(0, len(sessions), size))
    return SessionRun(len(events), len(sessions), tuple(replay.injections), found, tuple(apart))


def _events_of(plane: Plane) -> Iterator[Event]:
    after = 0
    while found := list(plane.events(after=after, limit=1_000)):
        yield from (event for event in found if event.kind not in UPKEEP_KINDS)
        after = found[-1].seq


def _is_prompt(event: Event) -> bool:
    return (
        event.kind == "message"
        and event.role == "user"
        and event.session is not None
        and "sidechain" not in event.tags
    )


def _is_call(event: Event) -> bool:
    """Whether a hook may speak at it: a failure, or a call that works on a file."""
    own = event.session is not None and "sidechain" not in event.tags
    return own and bool(tool_names(event))


_FIELDS: Final = (
    "id", "ts", "kind", "ns", "session", "task", "actor", "role", "text", "key", "tags", "markers",
    "refs", "sensitivity", "importance", "valid_from", "valid_until", "data",
)  # fmt: skip


def _row(event: Event) -> dict[str, Any]:
    given = {name: getattr(event, name) for name in _FIELDS}
    kept = {name: value for name, value in given.items() if value is not None}
    return {name: list(one) if isinstance(one, tuple) else one for name, one in kept.items()}


class _Uses:
    """Which rare terms the events use, and when each session uses them."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._lengths: Counter[str] = Counter()
        self._at: dict[str, int] = {}
        spread: Counter[str] = Counter()
        for event in events:
            if event.session is None:
                continue
            place = self._lengths[event.session]
            self._lengths[event.session] += 1
            self._at[event.id] = place
            named = _named_terms(event.text)
            spread.update(named)
            for term in named:
                self._places[event.session][term].append(place)
        most = max(len(events) // _RARE, 1)
        self._rare = {term for term, count in spread.items() if count <= most}

    def place(self, event: Event) -> int:
        """The number of an event within its session."""
        return self._at[event.id]

    def needed(self, passage: str, session: str, place: int) -> bool:
        """Whether the session uses a rare term of the passage soon, and had not used it before."""
        places = self._places[session]
        for term in _named_terms(_CITED.sub("", passage)) & self._rare:
            used = places.get(term, ())
            if not bisect_left(used, place) and bisect_right(used, place + _NEXT):
                return True
        return False


def _named_terms(text: str) -> frozenset[str]:
    """Identifiers, paths and numbers of three digits and more, and names with a capital inside."""
    return frozenset(
        word.text
        for word in text_words(text[:20_000], lambda lower: lower.isdecimal() and len(lower) > 2)
    )


class _Replay:
    """The memory as it grows, and the answers as they come."""

    def __init__(
        self,
        plane: Plane,
        answer: Answerer,
        uses: _Uses,
        labels: Sequence[PromptLabel],
        gap: timedelta,
    ) -> None:
        self._plane, self._answer, self._uses, self._gap = plane, answer, uses, gap
        self._labels = {(one.session, _time(one.ts)): one for one in labels if one.ts}
        self._last: dict[str, datetime] = {}
        self._starts: dict[str, str] = {}  # what the start of a session said, letters alone
        self._passages: list[tuple[str, str]] = []  # session, passage: in order of time
        self._rows: list[dict[str, Any]] = []
        # A measure beside, the same in each run, whatever is asked at other places.
        self._chance = {when: random.Random(_SEED) for when in _PLACES}  # noqa: S311
        self.injections: list[Injection] = []

    def meet(self, event: Event) -> None:
        """Ask where a session begins or a person types, then record the event."""
        session = event.session
        if session is not None and event.kind != "session":
            now = _time(event.ts)
            before = self._last.get(session)
            self._last[session] = now
            if before is None or now - before > self._gap:
                self._keep()
                self._note("start", event, "")
        self._rows.append(_row(event))
        if _is_prompt(event):
            self._keep()
            self._note("prompt", event, event.text)
        elif _is_call(event):
            self._keep()
            self._note("tool", event, event.id)
        if session is not None and event.role in ("user", "assistant") and event.kind == "message":
            for start, end in split_passages(event.text[:20_000]):
                self._passages.append((session, event.text[start:end].strip()))

    def ask_apart(self, label: PromptLabel) -> Injection:
        """Ask a prompt of no session, with all that there is as memory."""
        self._keep()
        spoken = self._answer(self._plane, "", "prompt", label.prompt, "")
        return Injection("prompt", "", "", label.prompt, spoken, label=label)

    def _keep(self) -> None:
        if self._rows:
            self._plane.record_many(self._rows)
            self._rows = []
        self._plane.upkeep.index()
        self._plane.flush()

    def _note(self, when: str, event: Event, query: str) -> None:
        session = event.session or ""
        spoken = self._answer(
            self._plane, session, when, query, "" if when == "start" else event.id
        )
        if when == "start":
            self._starts[session] = _letters(" ".join(spoken.passages))
        label = self._labels.get((session, _time(event.ts))) if when == "prompt" else None
        if when != "start" or spoken.passages:
            self.injections.append(self._measured(when, event, query, spoken, label))

    def _measured(
        self, when: str, event: Event, query: str, spoken: HookAnswer, label: PromptLabel | None
    ) -> Injection:
        session, place = event.session or "", self._uses.place(event)
        size = len(spoken.passages)
        others = [text for other, text in self._passages if other != session]
        drawn = self._chance[when].choices(others, k=_DRAWS * size) if others else []
        newest = others[-size:] if size else []
        want = [_letters(one) for one in label.want] if label is not None else []
        said, start = _letters(" ".join(spoken.passages)), self._starts.get(session, "")
        needed, at_random, latest = (
            sum(self._uses.needed(text, session, place) for text in texts)
            for texts in (spoken.passages, drawn, newest)
        )
        return Injection(
            when,
            session,
            event.ts,
            query,
            spoken,
            needed,
            at_random,
            latest,
            label,
            any(one in said or one in start for one in want),
            any(one in start for one in want),
        )


def _time(ts: str) -> datetime:
    try:
        return datetime.fromisoformat(ts)
    except ValueError as error:
        raise InputError(f"expected a time, found {ts!r:.40}", where="ts") from error


def _letters(text: str) -> str:
    return _LETTERS.sub("", text.lower())


def shown_and_used(plane: Plane, reports: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many events saved reminders showed, and how many of them their sessions used.

    Used: the session uses a rare term of the event within its next 60 events, and had not before.
    """
    events = list(_events_of(plane))
    uses, by_id = _Uses(events), {event.id: event for event in events}
    shown = used = 0
    for report in reports:
        request = report.get("request", {})
        session, reach = request.get("session"), report.get("log", {}).get("seq")
        if request.get("remind") not in ("prompt", "start") or session is None or reach is None:
            continue
        place = sum(1 for event in events if event.session == session and event.seq <= reach)
        named = {
            id_ for one in report["entries"] for id_ in (*one["events"], *one["parts"])
        } & by_id.keys()
        shown += len(named)
        used += sum(uses.needed(by_id[id_].text, session, place) for id_ in sorted(named))
    return shown, used


def sessions_report(run: SessionRun) -> dict[str, Any]:
    """Return the figures of a replay as JSON: of all, and of `parts` of the sessions by time."""
    found: dict[str, Any] = {"events": run.events, "sessions": run.sessions}
    found |= _figures(run.injections)
    if run.apart:
        spoke = sum(bool(one.spoken.passages) for one in run.apart)
        found["apart"] = {"asked": len(run.apart), "answered": spoke}
    found["parts"] = [
        {"sessions": len(part)} | _figures([one for one in run.injections if one.session in part])
        for part in run.parts
    ]
    return found


def _figures(injections: Sequence[Injection]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for when, name in _PLACES.items():
        asked = [one for one in injections if one.when == when]
        answered = [one for one in asked if one.spoken.passages]
        found[name] = {
            "asked": len(asked),
            "answered": len(answered),
            "tokens": sum(one.spoken.tokens for one in answered),
            "tokens_median": _median(answered),
            **_shares(answered),
        }
    labelled = [one for one in injections if one.label is not None]
    if labelled:
        found["labelled"] = {word: _labelled(labelled, word) for word in _SPEAK}
    return found


_PLACES: Final = {"start": "starts", "prompt": "prompts", "tool": "tools"}


def _labelled(prompts: Iterable[Injection], word: str) -> dict[str, int]:
    chosen = [one for one in prompts if one.label is not None and one.label.speak == word]
    return {
        "asked": len(chosen),
        "answered": sum(bool(one.spoken.passages) for one in chosen),
        "quoted": sum(one.quoted for one in chosen),
        "quoted_at_start": sum(one.at_start for one in chosen),
    }


def _shares(injections: Sequence[Injection]) -> dict[str, Any]:
    size = sum(len(one.spoken.passages) for one in injections)
    counted = {
        "needed": sum(one.needed for one in injections),
        "at_random": sum(one.at_random for one in injections) / _DRAWS,
        "newest": sum(one.newest for one in injections),
    }
    shares = {name: round(count / size, 4) if size else None for name, count in counted.items()}
    return {"passages": size, **shares}


def _median(injections: Sequence[Injection]) -> int | None:
    tokens = [one.spoken.tokens for one in injections]
    return int(statistics.median(tokens)) if tokens else None


def sessions_table(report: dict[str, Any]) -> str:
    """Return the figures as lines for a person."""
    return "\n".join(_lines(report))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"{report['events']} events, {report['sessions']} sessions"
    yield from _figure_lines(report)
    if "apart" in report:
        yield f"{'apart':10} {report['apart']['answered']} of {report['apart']['asked']} answered"
    for number, part in enumerate(report["parts"], 1):
        yield f"part {number} of {len(report['parts'])}: {part['sessions']} sessions"
        yield from (f"  {line}" for line in _figure_lines(part))


def _figure_lines(report: dict[str, Any]) -> Iterator[str]:
    for name in _PLACES.values():
        row = report[name]
        if not row["answered"]:
            yield f"{name:10} 0 of {row['asked']} answered"
            continue
        yield (
            f"{name:10} {row['answered']} of {row['asked']} answered, "
            f"{row['tokens_median']} tokens (median), "
            f"{row['passages']} passages: needed {_percent(row['needed'])}, "
            f"random {_percent(row['at_random'])}, newest {_percent(row['newest'])}"
        )
    for word, row in report.get("labelled", {}).items():
        quoted = f", a wanted quote at {row['quoted']} ({row['quoted_at_start']} at the start)"
        behind = "" if word == "no" else quoted
        yield f"{word:10} {row['answered']} of {row['asked']} answered{behind}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
