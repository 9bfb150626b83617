"""Output of commands: data on stdout, messages on stderr, as text or JSON.

Everything that a command prints passes through this module.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from memplane.errors import PolicyError
from memplane.event import FIELDS, Event
from memplane.lazy import NamedTuple, late, regex

if TYPE_CHECKING:
    from rich import box, console, table, text

    from memplane import inspect as inspect_room
    from memplane.context import calls
    from memplane.plane import Plane
    from memplane.projections import in_force
else:
    box, console = late("rich.box"), late("rich.console")
    table, text = late("rich.table"), late("rich.text")
    inspect_room = late("memplane.inspect")
    in_force = late("memplane.projections.in_force")
    calls = late("memplane.context.calls")

# What every answer says that is made from a log with gaps.
DAMAGED = "parts of the log do not verify and were left out; run `memplane verify`"
# Controls but line feed and tab, line separators, and what overrides the direction of text.
_DRIVING = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_WIDTH = 100
_CELL: Final = 400  # characters of a text in a table, which wraps it


def print_answer(value: Any, words: str, *, as_json: bool) -> None:
    """Print an answer to stdout: the JSON value, or text for people (nothing if it is empty)."""
    if as_json:
        data(value)
    elif words:
        print_text(words)


def print_text(words: str) -> None:
    """Print text; on a terminal with U+FFFD for control characters: recorded text is not trusted.

    Into a pipe or a file the text goes unchanged.
    """
    print(driven(words) if sys.stdout.isatty() else words)


def driven(words: str) -> str:
    """The text with U+FFFD for what drives a terminal: controls, and overrides of direction."""
    return _DRIVING.sub("\ufffd", words)


def write_figures(path: Path | None, page: Callable[[], dict[str, Any]]) -> None:
    """Write the page of a report where one was asked for (`--html`), and say so on stderr."""
    if path is not None:
        written = inspect_room.write_page(path, inspect_room.document(page()), where="--html")
        say(f"{written}: the page")


def data(value: Any) -> None:
    """Print one JSON value as one line."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain))


def degraded_words(part: str, else_words: str) -> str:
    """What an answer was made without, and the effect (`else_words`, except for the index)."""
    if part.startswith(calls.INDEX_BEHIND):
        return f"{part}: of those what the hotset holds was searched; --wait indexes them first"
    return f"{part}: {else_words}"


def say(words: str) -> None:
    """Print a message to stderr."""
    print(f"memplane: {words}", file=sys.stderr)


def say_damage(plane: Plane) -> None:
    """Say on stderr that the newest segment lost its first line."""
    if plane.upkeep.damage:
        say(plane.upkeep.damage)


def say_aside(plane: Plane) -> None:
    """Say on stderr which files of the spool could not be taken into the log."""
    for note in plane.upkeep.set_aside:
        say(
            f"log/spool: {clipped_line(note.name)} {clipped_line(note.what)}; it was not taken in "
            "and lies "
            f"in log/quarantine/{note.kept}"
        )


def error_json(error: BaseException, message: str, code: int) -> dict[str, Any]:
    """An error as the JSON value that takes the place of the answer."""
    facts = dict(vars(error)) if type(error).__module__ == PolicyError.__module__ else {}
    if isinstance(error, PolicyError):
        facts["problems"] = [problem._asdict() for problem in error.problems]
    return {"error": {"type": type(error).__name__, "message": message, "exit": code, **facts}}


def event_json(event: Event) -> dict[str, Any]:
    """An event as JSON values in the order of a line of the log, without empty fields."""
    values = event._asdict()
    return {
        name: values[name]
        for name in FIELDS
        if name in ("seq", "text") or values[name] not in (None, "", (), {}, 0)
    }


def event_rows(events: list[Event]) -> str:
    """One line an event: seq, time, kind, session or key, and the beginning of the text."""
    return "\n".join(_row(event) for event in events)


def event_cells(event: Event) -> tuple[str, ...]:
    """Seq, time, what it is and its text, as cells of a table."""
    at = event.ts[:16].replace("T", " ")
    text = clipped_line(" ".join(filter(None, (_target(event), event.text))), _CELL)
    return str(event.seq), at, clipped_line(f"{event.kind} {event.key or ''}", 28).strip(), text


def recalled(plane: Plane, event: Event) -> list[dict[str, Any]]:
    """The quoted blocks that were moved out of an event's text, with the fields that name them.

    For the owner only: see `Plane.recalled`. `text` is None where the file is lost.
    """
    named = [one for one in event.data.get("recalled") or () if isinstance(one, dict)]
    texts = plane.work.recalled(event) if named else []
    return [{**one, "text": text} for one, text in zip(named, texts, strict=False)]


def in_words(blocks: list[dict[str, Any]]) -> list[str]:
    """The blocks of `recalled` as lines, each after a line that describes it."""
    lines = []
    for one in blocks:
        about = f"{one.get('lines')} lines, {one.get('bytes')} bytes, sha256 {one.get('sha256')}"
        lines += ["", f"recalled, moved out of the text ({clipped_line(about, 200)}):"]
        text = one["text"]
        lost = "its file in bodies/ is missing or damaged; restore it from a copy"
        lines.append(lost if text is None else text.removesuffix("\n"))
    return lines


def counted(number: int, noun: str, many: str = "") -> str:
    """A number with its noun; the plural is `many`, else the noun with an s."""
    return f"{number} {noun if number == 1 else many or f'{noun}s'}"


def clipped_line(text: str, width: int = _WIDTH) -> str:
    """The text as one line of at most `width` characters, without control characters."""
    # Twice the width is enough to fill it, and a text may have megabytes.
    joined = " ".join(text[: width * 4].split())
    clean = "".join(c if c.isprintable() else "�" for c in joined)
    return clean if len(clean) <= width and len(text) <= width * 4 else clean[: width - 1] + "…"


def _row(event: Event) -> str:
    about = clipped_line(f"{event.kind} {event.key or event.session or ''}", 28)
    text = clipped_line(" ".join(filter(None, (_target(event), event.text))))
    return f"{event.seq:>6}  {event.ts[:19]}Z  {about:<28}  {text}".rstrip()


def _target(event: Event) -> str:
    """What a forget, pin or touch is about, and whether it takes one back."""
    acts = in_force.acts_of(event, in_force.moment_of(event, None))
    if event.kind == "touch":
        return f"touch id {', '.join(event.refs)}:"
    if not acts:
        return ""
    told = [
        f"{'id' if act.target.form == 'pin' else act.target.form} {act.target.value}"
        + (f" in {act.target.ns}" if act.target.form == "key" else "")
        for act in acts
    ]
    word = "evict" if acts[0].evicted and not acts[0].undo else event.kind
    return f"{'un' if acts[0].undo else ''}{word} {', '.join(told)}:"


def _plain(value: Any) -> Any:
    """Facts of an error that JSON has no form for."""
    return str(value)


# A bar on stderr for work that takes more than a second, where stderr is a terminal.

_AFTER_SECONDS: Final = 1.0
_EVERY_SECONDS: Final = 0.1
_CELLS: Final = 24


class Bar:
    """A progress bar on stderr: called with (done, total), drawn after a second, then removed.

    Where Ctrl-C ends the work behind it, a line says how far that came, and `stays`: what is kept.
    """

    def __init__(self, what: str, stays: str = "") -> None:
        self._what = what
        self._stays = stays
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _AFTER_SECONDS
        self._drawn = 0
        self._reached: tuple[float, int | None] | None = None

    def __call__(self, done: int, total: int, events: int | None = None) -> None:
        share = min(1.0, done / total) if total else 1.0
        self._reached = share, events
        now = time.monotonic()
        if not self._terminal or now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        cells = "#" * round(share * _CELLS)
        count = "" if events is None else f"  {events} events"
        line = f"{self._what} [{cells:.<{_CELLS}}] {share:4.0%}{count}"
        print(f"\r{line:<{self._drawn}}", end="", file=sys.stderr, flush=True)
        self._drawn = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._drawn:
            print(f"\r{'':{self._drawn}}\r", end="", file=sys.stderr, flush=True)
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._reached:
            share, events = self._reached
            count = "" if events is None else f", {counted(events, 'event')} recorded"
            say(f"{self._what} stopped at {share:.0%}{count}{self._stays and f'; {self._stays}'}")


# Lists of commands: a table on a terminal, by rich; in a pipe the plain lines of each command. A
# table is as wide as its terminal at most, and its texts wrap. NO_COLOR and TERM=dumb are respected
# by rich, which is imported only where a table is printed. Cells are text and never markup: what
# was recorded cannot draw.


class TableColumn(NamedTuple):
    """A column of a list on a terminal; one that `wraps` takes the width that is left."""

    head: str
    right: bool = False
    wraps: bool = False
    dim: bool = False


def print_list(
    value: Any,
    words: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """Print a list: a table on a terminal, else `words`, its plain lines, or the JSON value."""
    if rows and not as_json and sys.stdout.isatty():
        _print_table(columns, rows)
    else:
        print_answer(value, words, as_json=as_json)


def _print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> None:
    made = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for one in columns:
        made.add_column(
            one.head,
            justify="right" if one.right else "left",
            no_wrap=not one.wraps,
            overflow="fold" if one.wraps else "ellipsis",
            ratio=1 if one.wraps else None,
            min_width=len(one.head),
            style="dim" if one.dim else "",
        )
    for row in rows:
        made.add_row(*(text.Text(driven(cell)) for cell in row))
    console.Console(file=sys.stdout, highlight=False).print(made)
