"""How one event reads inside a block (its window form), and the event as the hot set keeps it.

The bytes of a form depend on the event alone, so a turn that was packed once reads the same in
every later pack, and a provider's prompt cache stays valid.

`Item` has the fields that packing needs, and the text in window form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from memplane.event import (
    GLOBAL,
    IMPORTANCE_DEFAULT,
    REFLECTOR,
    TYPED_KINDS,
    Event,
    said_by,
    speaker_mark,
)
from memplane.intake import hides_nothing, imitated, skeleton
from memplane.lazy import NamedTuple, late, regex, word_table
from memplane.ports import TokenCounter
from memplane.tokens import SWING, cut

if TYPE_CHECKING:
    import copy

    from memplane.projections.in_force import Archived
else:
    copy = late("copy")

# Tokens that an event may take, by kind. A small window shows shorter turns,
# not fewer: each tier divides the limits of the first.
_LIMITS: Final = {"message": 400, "tool_call": 60, "tool_result": 80}
_OTHER: Final = 200
TIERS: Final = (1, 3, 8)
_LEAST: Final = 16

# What stands at the beginning of a block's own lines: headings and their underlines, fences, marks,
# dates, labels; and what models are trained to take for the words of somebody else. Matched against
# the skeleton of a line, so that no unseen mark, case or width gets by.
_LABELS: Final = word_table("""
    user assistant system tool human developer note call result task file view omitted recorded
    fact decision observation plan summary preference rule insight approval artifact episode
    session secret
""")
_READS_SO: Final = (
    r"(?:[ \t]*\[[\d;?]*[a-z])*[ \t]*"  # what is left of a terminal's sequence
    r"(?:#|```|~~~|memplane ?:|[=-]+[ \t]*$|\d{4}-\d\d-\d\d(?:, newest first)?[ \t]*$"
    rf"|(?:{'|'.join(_LABELS)})\b[^:\n]{{0,80}}:"
    r"|<[|/!?]{0,2}[ \t]?(?:user|assistant|system|tool|human|developer|im_)|\[/?inst\]|<<sys>>)"
)
_OURS: Final = regex(_READS_SO, re.ASCII)
# The same of a text that hides nothing: of one line, and of each line behind another.
_OURS_PLAINLY: Final = regex(_READS_SO, re.ASCII | re.IGNORECASE)
_OURS_BEHIND: Final = regex(rf"\n(?={_READS_SO})", re.ASCII | re.IGNORECASE | re.MULTILINE)
_INDENT: Final = "    "
_BLANK_RUN: Final = regex(r"\n[ \t\n]*\n")
_LINE_ENDS: Final = regex(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS: Final = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MARGIN: Final = " "  # before every line of an entry but its first
_FURTHER: Final = f"\n{_INDENT.removesuffix(_MARGIN)}"
_EMPTY: Final = f"\n{_MARGIN}\n"
_AT_MARGIN: Final = regex(r"^(?=[^\n])", re.MULTILINE)
# What the first line of a view may not be.
_STRUCTURE: Final = regex(
    r"\\*(?:## |~~~~|memplane:|//|\d{4}-\d\d-\d\d(?:, newest first)?\Z)", re.ASCII
)
_LABELLED: Final = regex(r"\\|.*?: ")  # nor, where entries with labels stand beside it
_ESCAPE: Final = "\\"
# How an entry ends that shows a part, and an end that would read so.
HANDLE: Final = regex(r" \u2026(?: (expand://\S+)|(#\d{1,18}))\Z", re.ASCII)
_LIKE_HANDLE: Final = regex(r"\u2026 ?(?=(?:expand://\S+|#\d{1,18})\s*\Z)", re.ASCII)
_HANDLE_MAX: Final = 4096
# Of a name what would end its label, or cite an event there; unseen marks but those of emoji.
_ENDS_LABEL: Final = regex(r":\s+")
_CITES: Final = regex(r"(?:(?<=\s)|\A)#(?=\d)")
_UNSEEN_IN_NAMES: Final = regex(
    "[\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_OF_THE_MAP: Final = frozenset(("open tasks", "keys", "tags", "namespaces", "tools used"))


def _tiers(most: int) -> tuple[int, ...]:
    return tuple(max(_LEAST, most // tier) for tier in TIERS)


_TIERS_BY_KIND: Final = {kind: _tiers(most) for kind, most in _LIMITS.items()}
_TIERS_OF_OTHERS: Final = _tiers(_OTHER)


def limits(kind: str) -> tuple[int, ...]:
    """Tokens of text that an event of this kind may show, one figure a tier."""
    return _TIERS_BY_KIND.get(kind, _TIERS_OF_OTHERS)


def handle(seq: int) -> str:
    """Return the handle by which `expand` shows the whole event."""
    return f"expand://event/{seq}"


def short_handle(seq: int) -> str:
    """Return the short form of the handle, three tokens, for passages."""
    return f"#{seq}"


def plain_text(text: str) -> str:
    """Text with one kind of line end, no trailing blanks, and no more than one empty line in a row.

    Blanks inside a line stay: they are what code and tables are made of.
    """
    if "\r" in text or not text.isascii() or "\x0b" in text or "\x0c" in text or "\x1c" in text:
        text = _LINE_ENDS.sub("\n", text)
    text = text.strip("\n").rstrip()
    return _BLANK_RUN.sub("\n\n", text) if "\n" in text else text


def _has_controls(text: str) -> bool:
    # Most texts need no pattern for it, and many processes then compile none.
    return not text.replace("\n", " ").isprintable() and _CONTROLS.search(text) is not None


def _settled(text: str) -> str:
    """The text with line feeds alone as line ends."""
    return _LINE_ENDS.sub("\n", text) if _has_controls(text) else text


def _printed(text: str) -> str:
    """The text with a blank for every control: none moves a cursor, no two words become one."""
    return _CONTROLS.sub(" ", text)


def one_line(text: str) -> str:
    """The words of a text on one line, without controls."""
    return " ".join(_printed(text).split())


@lru_cache(maxsize=4096)
def safe_name(name: str) -> str:
    """A name as a label may hold it: on one line, and no part of it ends the label or cites."""
    if name.isascii() and name.isprintable() and " " not in name:
        return f"# {name[1:]}" if name.startswith("#") and name[1:2].isdigit() else name
    return _CITES.sub("# ", _ENDS_LABEL.sub(":", one_line(_UNSEEN_IN_NAMES.sub("", name))))


def entry_label(kind: str, role: str | None, actor: str | None, said_of: str, status: str) -> str:
    """Return the label of an entry, the words before its colon: the speaker, or the kind.

    `said_of` is the name of the event's key, task or tool.
    """
    if kind == "message":
        return _speaker(role, actor) if actor else role or "note"
    if kind == "tool_call":
        return "call"
    said_of = safe_name(said_of) if said_of else ""
    if kind == "tool_result":
        return f"result error {said_of}".rstrip() if status == "error" else "result"
    return f"{kind} {said_of}" if said_of else kind


@lru_cache(maxsize=4096)
def _speaker(role: str | None, actor: str) -> str:
    """The name, behind its role where it could pass for something else than a person's name.

    Somebody may be called "decision", and intake once took every name; tools speak for nobody.
    """
    said, name = role or "note", safe_name(actor)
    if not name or name == said:
        return said
    read = skeleton(name)
    if role in (None, "user", "assistant") and not (
        read[:1] in _PUNCTUATION
        or read in _OF_THE_MAP
        or imitated(name) is not None
        or _OURS.match(f"{read}:")
        or _OURS.match(read)
    ):
        return name
    return f"{said} {name}"


def entry_lines(head: str, text: str, mark: str = "") -> str:
    """The lines of an entry, each with its newline: `head`, a colon and the text, then `mark`.

    Only the first line begins at the margin, so nothing in the text begins an entry, a heading or
    a fence, whatever it is; a line that could pass for one is set in further, out of Markdown's
    reach.
    """
    if not mark:
        text = own_end(text)
    text = f"{text}{mark}"
    if not _has_controls(text):
        if "\n" not in text:
            return f"{head}: {text}\n"
        if hides_nothing(text):
            return f"{head}: {_set_in(text)}"
    first, *more = _settled(text).split("\n")
    return f"{head}: {_printed(first)}\n{''.join([quote_line(line) for line in more])}"


def shown_view(text: str, *, beside_events: bool = False) -> str:
    """The lines of a view: its headings are the owner's, but none begins at the block's margin.

    Where it stands `beside_events` its first line does not read like one that has a label. "" where
    nothing is in it.
    """
    first, *more = own_end(plain_text(_printed(_settled(text)))).strip().split("\n")
    if not first:
        return ""
    escaped = _STRUCTURE.match(first) or (beside_events and _LABELLED.match(first))
    first = f"{_ESCAPE}{first}\n" if escaped else f"{first}\n"
    return first + nested("\n".join([*more, ""]))


def own_view(lines: Sequence[str], *, beside_events: bool) -> str | None:
    """The text of a view of these lines, None where they are those of an event."""
    first, *more = lines
    if first.startswith(_ESCAPE) and (beside_events or _STRUCTURE.match(first[1:])):
        first = first[1:]
    elif beside_events and _LABELLED.match(first):
        return None
    return "\n".join([first, *(line[len(_MARGIN) :] for line in more)])


def nested(lines: str) -> str:
    """The lines of an entry as lines of another one, where they stand behind its first."""
    return _AT_MARGIN.sub(_MARGIN, lines)


def quote_line(line: str) -> str:
    """A line of a text as an entry shows it behind its first one, with its newline."""
    if not line:
        return "\n"
    return f"{_INDENT if is_own_line(line) else _MARGIN}{_printed(line)}\n"


def quoted_text(text: str) -> str:
    """The lines of a text as they stand below something that is not quoted."""
    return "".join([quote_line(line) for line in _settled(text).split("\n")]).rstrip("\n")


def _set_in(text: str) -> str:
    """The text, which hides nothing, as `quoted` would show each line behind the first."""
    lines = f"{_OURS_BEHIND.sub(_FURTHER, text)}\n".replace("\n", f"\n{_MARGIN}")
    lines = lines.removesuffix(_MARGIN)
    while _EMPTY in lines:
        lines = lines.replace(_EMPTY, "\n\n")
    return lines


def is_own_line(line: str) -> bool:
    """Whether the line, even disguised, looks like a heading, fence or label of the block."""
    if not _has_controls(line) and hides_nothing(line):
        return _OURS_PLAINLY.match(line) is not None
    if _OURS.match(skeleton(line)) is not None:
        return True
    # A sequence of a terminal may swallow what a reader still sees.
    printed = _printed(line)
    return printed != line and _OURS.match(skeleton(printed)) is not None


def own_text(line: str) -> str:
    """What `quoted` was given, of a line without its newline."""
    bare = line[len(_INDENT) :]
    return bare if line.startswith(_INDENT) and is_own_line(bare) else line[len(_MARGIN) :]


def own_end(text: str) -> str:
    """The text, the end of which cannot pass for the mark of what was cut."""
    if "\u2026" not in text:
        return text
    found = _LIKE_HANDLE.search(text, max(0, len(text) - _HANDLE_MAX))
    return text if found is None else f"{text[: found.start()]}...{text[found.start() + 1 :]}"


# Characters kept of a text that is too long, until its tokens are counted: about what the
# limit of tokens holds in English, so that counting can wait until somebody reads it.
_CHARACTERS_A_TOKEN: Final = 5
# Blanks and rules of dashes have many characters a token: this bounds the file all the same.
_CHARACTERS_MOST: Final = 8
_NAME_MAX: Final = 300
_ENTIRE: Final = -1  # a form beside the tiers
_STALE: Final = " (stale)"
_OF_SESSION: Final = regex(r"session/.+/summary")
_CLEAN_MAX: Final = 32_000  # characters
_NAMED: Final = ("call", "tool", "status", "path")  # in an event's data
_NAMES: Final = frozenset(_NAMED)
_LAST_WORD: Final = regex(r"(?<=\s)\S{1,200}\Z")
_ROW_BYTES: Final = 420  # names of all fields, with numbers and flags as long as they get
_TIMES_BYTES: Final = 96  # `valid_from` and `valid_until`
# What a row says that a line of the log does not: whole, superseded, forgotten, final, cost, size;
# less the line's hash.
_FLAG_BYTES: Final = 88 - 24
_DIGEST_BYTES: Final = 28
_SOURCES_BYTES: Final = 5  # its row calls `refs` `sources`
# What a line says that a row does not.
_RECORDED_BYTES: Final = len('"rec":"2026-01-01T00:00:00.000000Z",')
_TOKENS_BYTES: Final = len('"tokens":1,')
# A longer line may hold much that the row leaves out.
_LINE_BYTES: Final = 1500


class Printer(NamedTuple):
    """How entries are printed: counted by `counter`, redacted by today's policy.

    `stamp` names both; forms made under another stamp are not used. `cites`: an entry names its
    event's seq, and a statement its day: for blocks that somebody keeps.
    """

    counter: TokenCounter
    redact: Callable[[str], str]
    stamp: str
    cites: bool = False


class Item:
    """One event in the hotset.

    `text` is the plain text, cut to the kind's limit; `whole` says whether all of it stands there.
    `cost` is what the rendered entry costs in the counter (tokens). Both are final after `finish`.
    """

    __slots__ = (
        "actor",
        "call",
        "clean",
        "cost",
        "differs",
        "digest",
        "final",
        "forgotten",
        "forms",
        "id",
        "importance",
        "key",
        "kind",
        "markers",
        "note",
        "noted",
        "ns",
        "path",
        "role",
        "sensitivity",
        "seq",
        "session",
        "size",
        "sources",
        "stale",
        "status",
        "superseded",
        "tags",
        "task",
        "terms",
        "text",
        "tool",
        "ts",
        "twin",
        "valid_from",
        "valid_until",
        "whole",
        "words",
    )

    def __init__(self, row: dict[str, Any]) -> None:
        get = row.get
        self.seq: int = row["seq"]
        self.id: str = row["id"]
        self.ts: str = row["ts"]
        self.kind: str = row["kind"]
        self.ns: str = get("ns", GLOBAL)
        self.session: str | None = get("session")
        self.task: str | None = get("task")
        self.actor: str | None = get("actor")
        self.role: str | None = get("role")
        self.text: str = row["text"]
        self.key: str | None = get("key")
        self.tags: tuple[str, ...] = tuple(get("tags", ()))
        self.markers: tuple[str, ...] = tuple(get("markers", ()))
        self.sensitivity: str = get("sensitivity", "normal")
        self.importance: int = get("importance", IMPORTANCE_DEFAULT)
        self.valid_from: str | None = get("valid_from")
        self.valid_until: str | None = get("valid_until")
        self.call: str = get("call", "")
        self.tool: str = get("tool", "")
        self.status: str = get("status", "")
        self.path: str = get("path", "")
        self.whole: bool = get("whole", True)
        self.superseded: bool = get("superseded", False)
        self.forgotten: bool = get("forgotten", False)
        self.final: bool = get("final", False)
        self.cost: int = get("cost", 0)
        self.digest: str = get("digest", "")
        self.size: int = get("size", 0)
        self.sources: tuple[str, ...] = tuple(get("sources", ()))  # where a model made it of them
        self.forms: dict[tuple[int, str], tuple[str, int, bool]] = {}  # by tier and printer
        self.terms: dict[str, int] | None = None  # set by recall, once
        self.words: str | None = None  # likewise: the text for comparing with others
        self.clean = ""  # under which printer's redaction the whole text was found clean
        self.stale = False  # whether the entry says so
        self.twin: Item | None = None  # the same event, with the entry that says so
        self.differs = 0  # the seq of an older statement that it contradicts
        self.note = ""  # what the label says of that
        self.noted: Item | None = None  # the same event, with the entry that says so

    @classmethod
    def of(cls, event: Event, tokens: int, size: int = 0) -> Item:
        """The item of a new event; counting and cutting wait until `finish`.

        `size` is what the hotset counts it as.
        """
        text, kind, data = event.text, event.kind, event.data
        item = object.__new__(cls)
        item.digest = digest_of(text) if event.role == "user" else ""
        item.whole = "body" not in data
        most = limits(kind)[0]
        kept = most * (_CHARACTERS_A_TOKEN if tokens > most else _CHARACTERS_MOST)
        if len(text) > kept:
            text, item.whole = text[:kept], False
        item.seq, item.id, item.ts, item.kind, item.ns = (
            event.seq,
            event.id,
            event.ts,
            kind,
            event.ns,
        )
        item.session, item.task = event.session, event.task
        item.actor, item.role = event.actor, event.role
        item.text, item.key, item.tags, item.markers = text, event.key, event.tags, event.markers
        item.sensitivity, item.importance = event.sensitivity, event.importance
        item.valid_from, item.valid_until = event.valid_from, event.valid_until
        call = tool = status = path = ""
        if data:
            get = data.get
            call, tool = _name(get("call")), _name(get("tool"))
            status, path = _name(get("status")), _name(get("path"))
        item.call, item.tool, item.status, item.path = call, tool, status, path
        item.superseded = item.forgotten = item.final = False
        item.cost = 0
        item.forms, item.terms, item.words, item.clean = {}, None, None, ""
        item.stale, item.twin = False, None
        item.differs, item.note, item.noted = 0, "", None
        item.size = size
        item.sources = event.refs if _is_made(event.actor) else ()
        return item

    def settle(self, archived: Archived | None) -> None:
        """Set the flags that `Scope` reads by what became of the event; None: it is in force."""
        self.superseded = archived is not None and archived.reason == "superseded"
        self.forgotten = archived is not None and not self.superseded

    def finish(self, counter: TokenCounter) -> None:
        """Cut the text to its tokens and count the entry; the same for every later reader."""
        if self.final:
            return
        text, limit = plain_text(self.text), limits(self.kind)[0]
        if self.whole:
            # Most texts are far below the limit: what their entry costs tells, counted once.
            lines = self._lines(self._head(), text, whole=True)
            cost = counter.count(lines)
            if cost + SWING <= limit and text in lines:
                self.text, self.cost, self.final = text, cost, True
                return
        kept = cut(counter, text, limit)
        if kept != text:
            text, self.whole = kept.rstrip(), False
        elif not self.whole:  # cut by characters: a part of a word could be a part of a secret
            text = _LAST_WORD.sub("", text)
        self.text = text
        self.final = True
        self.recount(counter)

    def recount(self, counter: TokenCounter) -> None:
        """Count the entry that the final text makes."""
        self.cost = counter.count(self._lines(self._head(), self.text, whole=self.whole))

    def as_stale(self, counter: TokenCounter) -> Item:
        """Return the item whose entry is labelled as stale."""
        if self.twin is None:
            self.finish(counter)
            twin = self.twin = copy.copy(self)
            twin.stale, twin.forms = True, {}
            twin.recount(counter)
        self.twin.superseded, self.twin.forgotten = self.superseded, self.forgotten
        return self.twin

    def with_note(self, note: str, counter: TokenCounter) -> Item:
        """Return the item whose entry has a note at the end of its label."""
        if self.noted is None or self.noted.note != note:
            self.finish(counter)
            noted = self.noted = copy.copy(self)
            noted.note, noted.forms, noted.twin = note, {}, None
            noted.recount(counter)
        self.noted.superseded, self.noted.forgotten = self.superseded, self.forgotten
        return self.noted

    def form(self, tier: int, printer: Printer) -> tuple[str, int, bool]:
        """The lines of the entry in this tier, their tokens, and whether all of the text is there.

        An entry that is cut ends with the handle that shows the rest.
        """
        known = self.forms.get((tier, printer.stamp))
        if known is not None:
            return known
        self.finish(printer.counter)
        text, whole = self.text, self.whole
        if tier:
            short = cut(printer.counter, text, limits(self.kind)[tier])
            if short != text:
                text, whole = short.rstrip(), False
        made = self.forms[(tier, printer.stamp)] = self.lines_of(text, whole=whole, printer=printer)
        return made

    def lines_of(self, text: str, *, whole: bool, printer: Printer) -> tuple[str, int, bool]:
        """The entry with this text: redacted once more, escaped, counted."""
        emitted = printer.redact(text)
        if emitted != text:
            whole = False
        head = self._head(printer)
        emitted_head = printer.redact(head)
        lines = self._lines(emitted_head, emitted, whole=whole)
        known = self.final and emitted_head == head and emitted == self.text and whole == self.whole
        known = known and not printer.cites
        return lines, self.cost if known else printer.counter.count(lines), whole

    def _lines(self, head: str, text: str, *, whole: bool) -> str:
        if self._of_session and text.startswith('"'):  # a digest begins with the session's title
            first, _, rest = text.partition("\n")
            head, text = f"{head} {safe_name(first)}", rest
        return entry_lines(head, text, "" if whole else f" … {handle(self.seq)}")

    @property
    def is_by_model(self) -> bool:
        """Whether a model made what it says."""
        return said_by(self.kind, self.role, self.actor, self.id) == "model"

    @property
    def _of_session(self) -> bool:
        """Whether it is the generated summary of a session: history, which is never stale."""
        key = self.key
        return self.kind == "summary" and key is not None and _OF_SESSION.fullmatch(key) is not None

    def _head(self, printer: Printer | None = None) -> str:
        if self._of_session:
            cited = f" #{self.seq}" if printer is not None and printer.cites else ""
            return f"session {self.ts[5:10]}{self._by}{cited}"
        named = {"task": self.task, "tool_result": self.tool}.get(self.kind, self.key)
        said = entry_label(self.kind, self.role, self.actor, named or "", self.status) + self._by
        if printer is not None and printer.cites:
            day = f" {self.ts[:10]}" if self.kind in TYPED_KINDS else ""  # others have a date line
            said = f"{said} #{self.seq}{day}"
        return f"{said}{self.note}{_STALE if self.stale else ''}"

    @property
    def _by(self) -> str:
        """Who says so, behind the name of the statement; nothing where a user does."""
        mark = speaker_mark(self.kind, self.role, self.actor, self.id)
        return f" ({mark})" if mark else ""

    def entire(self, text: str, printer: Printer) -> tuple[str, int, bool]:
        """The entry with the event's whole text, which is given: the item may hold less of it."""
        self.finish(printer.counter)
        if self.whole:
            return self.form(0, printer)
        known = self.forms.get((_ENTIRE, printer.stamp))
        if known is None:
            known = self.lines_of(plain_text(text), whole=True, printer=printer)
            self.forms[(_ENTIRE, printer.stamp)] = known
        return known

    def holds_all(self, printer: Printer) -> bool:
        """Whether the item has the whole text, so that `entire` needs none."""
        self.finish(printer.counter)
        return self.whole

    def is_clean(self, text: str, printer: Printer) -> bool:
        """Whether redaction leaves this whole text unchanged; very long texts are not checked.

        Intake has redacted it once; no block shows all of such a text in passages.
        """
        if self.clean != printer.stamp:
            if len(text) <= _CLEAN_MAX and printer.redact(text) != text:
                return False
            self.clean = printer.stamp
        return True

    def passage(self, text: str, printer: Printer) -> tuple[str, int, bool]:
        """The entry with a passage of the text, which ends in the short handle of the rest."""
        head, emitted = printer.redact(self._head(printer)), printer.redact(text)
        lines = entry_lines(head, plain_text(emitted), f" …{short_handle(self.seq)}")
        return lines, printer.counter.count(lines), False

    def says(self, text: str) -> bool:
        """Whether the text equals the event's: by digest for prompts, else as kept here."""
        return any(saying((self,), text))

    def expanded(
        self,
        text: str,
        room: int,
        printer: Printer,
        *,
        on: Callable[[int], str],
        whole: bool = False,
        ends: bool = True,
        note: str = "",
        inside: bool = False,
    ) -> tuple[str, int, bool] | None:
        """An entry with a text that is redacted already, cut to `room` tokens; None if none fit.

        What is cut, or does not end where the text does (`ends`), closes with the handle that goes
        on there: `on` names it by the characters that are shown. `note` stands before the text;
        `whole` says that this is all of the event's, `inside` that it stands in another entry.
        """
        head = printer.redact(self._head(printer))

        def entry(kept: str, mark: str) -> tuple[str, int]:
            lines = entry_lines(head, f"{note}{printer.redact(plain_text(kept))}", mark)
            lines = nested(lines) if inside else lines
            return lines, printer.counter.count(lines)

        lines, tokens = entry(text, "" if ends else f" … {on(len(text))}")
        if tokens <= room:
            return lines, tokens, whole
        overhead = entry("", f" … {on(len(text))}")[1]
        while room > overhead:
            kept = cut(printer.counter, text, room - overhead)
            lines, tokens = entry(kept, f" … {on(len(kept))}")
            if kept.strip() and tokens <= room:
                return lines, tokens, False
            overhead += max(4, tokens - room)  # escaped lines cost more than they did bare
        return None

    def fields(self) -> dict[str, Any]:
        """The row of the file; what is as usual is left out."""
        row: dict[str, Any] = {"seq": self.seq, "id": self.id, "ts": self.ts, "kind": self.kind}
        for name, usual in _USUAL:
            value = getattr(self, name)
            if value != usual:
                row[name] = value
        row["text"] = self.text
        return row


_USUAL: Final[tuple[tuple[str, object], ...]] = (
    ("ns", GLOBAL),
    ("session", None),
    ("task", None),
    ("actor", None),
    ("role", None),
    ("key", None),
    ("tags", ()),
    ("markers", ()),
    ("sensitivity", "normal"),
    ("importance", IMPORTANCE_DEFAULT),
    ("valid_from", None),
    ("valid_until", None),
    ("call", ""),
    ("tool", ""),
    ("status", ""),
    ("path", ""),
    ("whole", True),
    ("superseded", False),
    ("forgotten", False),
    ("final", False),
    ("cost", 0),
    ("digest", ""),
    ("size", 0),
    ("sources", ()),
)


def _is_made(actor: str | None) -> bool:
    """Whether a model made an event: then its row names what it was made of."""
    return actor is not None and actor.startswith(REFLECTOR)


def fields_getter(*names: str) -> Callable[[Event], tuple[Any, ...]]:
    """Return what reads these fields of an event, in this order, in one call."""
    return itemgetter(*map(Event._fields.index, names))


_MEASURED: Final = fields_getter(
    "ts", "rec", "kind", "actor", "role", "text", "refs", "tokens", "data"
)


def row_size(event: Event, tokens: int, line_bytes: int) -> int:
    """An upper bound of the row's bytes in the file, quick to find and never revised.

    `line_bytes` is the length of the event's line, which says most of what the row says.
    """
    ts, rec, kind, actor, role, text, refs, counted, data = _MEASURED(event)
    most = limits(kind)[0]
    kept = most * (_CHARACTERS_A_TOKEN if tokens > most else _CHARACTERS_MOST)
    if len(text) <= kept and line_bytes <= _LINE_BYTES:
        size = line_bytes + (_FLAG_BYTES if counted is None else _FLAG_BYTES - _TOKENS_BYTES)
        if role == "user":
            size += _DIGEST_BYTES
        if _is_made(actor):
            size += _SOURCES_BYTES
        else:
            for ref in refs:
                size -= len(ref) + 3
        if data and not _NAMES.issuperset(data):
            for name, value in data.items():
                if name not in _NAMES and type(value) is str:
                    size -= len(name) + len(value) + 6
        return size if rec == ts else size - _RECORDED_BYTES
    names = [_name(data.get(name)) for name in _NAMED] if data else ()
    quoted = encode_basestring(
        f"{event.id}{kind}{event.ns}{event.session}{event.task}{event.actor}{event.key}{event.tags}"
        f"{event.markers}{names}{refs if _is_made(actor) else ()}{text[:kept]}"
    )
    size = _ROW_BYTES + (len(quoted) if quoted.isascii() else len(quoted.encode()))
    if event.valid_from is not None or event.valid_until is not None:
        size += _TIMES_BYTES
    return size + _DIGEST_BYTES if role == "user" else size


def digest_of(text: str) -> str:
    """Return the digest that a query is compared with: 16 hex digits of SHA-256 of the text."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]


def saying(items: Iterable[Item], text: str) -> Iterator[int]:
    """Seqs of the items that say the text: by digest for prompts, else as kept here."""
    digest, plain = digest_of(text), plain_text(text)
    for item in items:
        if item.digest == digest if item.digest else item.text == plain:
            yield item.seq


def _name(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= _NAME_MAX else value[:_NAME_MAX]
