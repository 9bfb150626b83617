"""Turn the fields of an event into a draft: checked, redacted, counted, serialised.

The log adds seq, dur, id, ts, rec and h around `Draft.rest`; a text that would
make the line longer than LINE_MAX goes to a body, and the line keeps its head.

Move quoted blocks out of texts: they are memory coming back, not something new.

An agent that echoes the block it was given would have it recorded, and retrieved again, in each
turn. So a block whose checksum verifies is moved out of the text into a file of its own, which the
event names in `data.recalled`. The checksum contains no secret: anybody can write such a block. So
it is moved only out of what a person or an agent says (messages of role user or assistant) and out
of results of memplane's own tools and commands. In any other event it stays where it is: in the
output of a tool, in a statement, in words of the system.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.event import CUSTOM_KIND, FIELDS, GLOBAL, Draft, Event, encode, same_place
from memplane.intake.check import TAG_MAX, Cleaner, collect
from memplane.intake.redact import Redactor
from memplane.lazy import NamedTuple, regex, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memplane.intake.markers import Marker

RECALLED_MAX: Final = 16  # files of one event; the last one holds all further blocks
_BEGIN: Final = "memplane:begin\n"
_MARK: Final = regex(r"(?m)^memplane:(?:begin\n|end ([0-9a-f]{16})(?:\n|\Z))")
_SPEAKERS: Final = ("user", "assistant")
_OWN_SERVER: Final = regex(r"(?:^|_)memplane$")
# Tools that run one command line, as Claude Code, Codex and chats name them.
_SHELLS: Final = word_set("""
    Bash bash shell local_shell shell_command exec_command container.exec
""")
_COMMAND_MAX: Final = 1_000  # characters
# One program whose output nothing else can mix with: no pipe, chain, substitution or redirection
# but of its errors. What is harder to read than this is not taken for memplane's own.
_WORD: Final = r"""(?:[A-Za-z0-9_@%+=:,./~-]|'[^']*'|"[^"$`\\]*")"""
_OWN_COMMAND: Final = regex(
    rf"[ \t]*(?:memplane|python[0-9.]{{0,5}}[ \t]+-m[ \t]+memplane)(?:[ \t]+{_WORD}+)*"
    r"(?:[ \t]+2>(?:&1|[ \t]?/dev/null))?[ \t\n]*"
)
_PIECE: Final = 1 << 20  # characters that are encoded at once


def moves_blocks(line: Mapping[str, Any]) -> bool:
    """Whether quoted blocks are moved out of the text of an event with these fields."""
    kind = line.get("kind")
    if kind == "message":
        return line.get("role") in _SPEAKERS
    data = line.get("data")
    if kind != "tool_result" or not data:
        return False
    tool = data.get("tool")
    return isinstance(tool, str) and (
        is_own_tool(tool) or is_own_command(tool, data.get("command"))
    )


def is_own_tool(tool: str) -> bool:
    """Whether a tool is one of memplane's MCP server: `mcp__memplane__memory_search`."""
    *server, name = tool.split("__")
    return bool(name) and any(_OWN_SERVER.search(part) for part in server)


def is_own_command(tool: str, command: object) -> bool:
    """Whether a shell tool ran memplane and nothing else, by its command line."""
    return (
        tool in _SHELLS
        and isinstance(command, str)
        and len(command) <= _COMMAND_MAX
        and _OWN_COMMAND.fullmatch(command) is not None
    )


def parted(line: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The text of an event without its quoted blocks, and the blocks in the order of the text."""
    text = line.get("text", "")
    if _BEGIN not in text or not moves_blocks(line):
        return text, []
    return without_blocks(text)


def without_blocks(text: str) -> tuple[str, list[str]]:
    """A text without the blocks quoted in it, and these blocks with their marks; one pass.

    At most RECALLED_MAX blocks are returned: the last one holds all further blocks in sequence.
    """
    if _BEGIN not in text:
        return text, []
    found: list[str] = []
    further: list[str] = []
    kept: list[str] = []
    at, begin = 0, None
    for mark in _MARK.finditer(text):
        if mark[1] is None:
            begin = mark  # no line inside a block looks like a mark, so the nearest one opens it
        elif begin is not None:
            if _checksum(text, begin.end(), mark.start()) == mark[1]:
                block = text[begin.start() : mark.end()]
                (found if len(found) < RECALLED_MAX - 1 else further).append(block)
                kept.append(text[at : begin.start()])
                at = mark.end()
            begin = None
    if not found:
        return text, []
    kept.append(text[at:])
    return "".join(kept), [*found, "".join(further)] if further else found


def checksums(blocks: Iterable[str]) -> list[str]:
    """The checksums in the end marks of blocks, in their order."""
    return [mark[1] for block in blocks for mark in _MARK.finditer(block) if mark[1] is not None]


def _checksum(text: str, start: int, end: int) -> str:
    """The checksum of a part of the text, as a block states it."""
    digest = hashlib.sha256()
    for at in range(start, end, _PIECE):
        digest.update(text[at : min(at + _PIECE, end)].encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


LINE_MAX: Final = 1024 * 1024
LOG_ADDS: Final = 300  # seq, dur, id (up to 128), ts, rec, h and their names
HEAD_BYTES: Final = 4096

_IDENTIFIERS: Final = ("id", "session", "task", "actor", "key", "ns")
_REST: Final = FIELDS[FIELDS.index("kind") : FIELDS.index("h")]
# Keys of data that memplane writes itself: names of rules, counts, hashes; never secrets.
_OWN_DATA: Final = ("redactions", "replaced", "body", "recalled")


class PreparedText(NamedTuple):
    """The text of an event as it would be stored, and the SHA-256 of each block moved out of it.

    `before` is the form of versions that stored no blocks: the text, then the checksums of the
    blocks. It equals `text` without checksums where no block is quoted.
    """

    text: str
    recalled: tuple[str, ...]
    before: tuple[str, tuple[str, ...]]


class Intake(NamedTuple):
    """The part of the privacy policy that acts before an event is stored; built once a policy."""

    redactor: Redactor
    never_store_kinds: tuple[str, ...] = ("secret",)
    marker: Marker | None = None  # None: markers are only those that are given

    def prepare(
        self,
        fields: Mapping[str, Any],
        *,
        id: str,  # noqa: A002 - the field's name
        count: Callable[[str], int] | None = None,
        where: str = "",
        internal: bool = False,
        recalled: Sequence[str] = (),
    ) -> Draft:
        """`prepare` under this policy."""
        return prepare(
            fields,
            redactor=self.redactor,
            never_store_kinds=self.never_store_kinds,
            marker=self.marker,
            id=id,
            count=count,
            where=where,
            internal=internal,
            recalled=recalled,
        )

    def said(self, fields: Mapping[str, Any]) -> PreparedText:
        """The stored form of the text of these fields, which need not have been checked."""
        redact = self.redactor.redact
        whole = Cleaner().text(str(fields.get("text") or ""))
        text, blocks = parted({**fields, "kind": fields.get("kind", "message"), "text": whole})
        masked = redact(text)[0]
        digests = tuple(_digest(redact(block)[0].encode()) for block in blocks)
        before, removed = without_blocks(whole)
        if not removed:
            return PreparedText(masked, digests, (masked, ()))
        before = masked if blocks else redact(before)[0]
        return PreparedText(masked, digests, (before, tuple(checksums(removed))))


def prepare(
    fields: Mapping[str, Any],
    *,
    redactor: Redactor,
    never_store_kinds: tuple[str, ...],
    id: str,  # noqa: A002 - the field's name
    count: Callable[[str], int] | None,
    where: str = "",
    internal: bool = False,
    marker: Marker | None = None,
    recalled: Sequence[str] = (),
) -> Draft:
    """Turn the fields of an event into a draft. Raises InputError, and then nothing is stored.

    `id` is used where the fields have none. `count` gives the tokens of the whole text; None leaves
    them out. `marker` finds markers in the redacted text where the fields have no `markers`, not
    even an empty list. `recalled` are blocks that the caller moved out of the text. The same
    arguments give the same bytes.
    """
    line = collect(fields, internal=internal, where=where)
    kind = line["kind"]
    text, blocks = parted(line)
    if blocks:
        line["text"] = text
    if recalled:
        blocks = [*recalled, *blocks]
    if kind in never_store_kinds and not internal:
        raise InputError(
            f"`{kind}` is never stored: privacy.yaml names it in store.never_store_kinds; "
            "record another kind, or take it off that list",
            where=f"{where}.kind" if where else "kind",
        )
    _refuse_secrets(line, redactor, where)
    text, moved = _redact(line, redactor, blocks)
    if marker is not None and not internal:
        _mark(line, text, marker, given=fields.get("markers") is not None)
    if count is not None:
        line["tokens"] = count(text)
    given_id, ts = line.pop("id", None), line.pop("ts", None)
    rest, body = _written(line, text)
    get = line.get
    return Draft(
        id if given_id is None else given_id,
        given_id is not None,
        ts,
        kind,
        get("ns", GLOBAL),
        get("role"),
        get("session"),
        get("key"),
        text,
        rest,
        body,
        moved,
    )


def cleaned(text: str) -> str:
    """What a user says in its stored form but for redaction: valid text without quoted blocks."""
    return without_blocks(Cleaner().text(text))[0]


def same(
    event: Event,
    draft: Draft,
    redactor: Redactor,
    whole_text: Callable[[], str],
    recalled: Callable[[], Sequence[str | None]] = tuple,
) -> bool:
    """Whether a draft repeats a stored event: equal kind, ns, role, session, key, text and blocks.

    Namespaces are compared by `same_place`. The stored text is redacted by today's rules first, so
    that a stricter policy does not make a repeat look like other content. `whole_text` loads the
    text and is called only if the hash of a body does not decide; `recalled` loads the blocks that
    were moved out of the stored text, None for a lost one. An event of a version that stored
    checksums instead of blocks is repeated by its text alone, or by the text with blocks of those
    checksums.
    """
    if not same_place(event.ns, draft.ns) or (event.kind, event.role, event.session, event.key) != (
        draft.kind,
        draft.role,
        draft.session,
        draft.key,
    ):
        return False
    named = event.data.get("recalled")
    named = named if isinstance(named, list) else []
    text = draft.text
    if named and all(isinstance(one, str) for one in named):
        text, left = without_blocks(text)
        found = checksums([*(block.decode() for block in draft.recalled), *left])
        if found and found != named:
            return False
    elif (named or draft.recalled) and not _same_blocks(named, draft, redactor, recalled):
        return False
    if draft.body is not None and text is draft.text:
        stored_as = event.data.get("body")
        if isinstance(stored_as, dict) and stored_as.get("sha256") == _digest(draft.body):
            return True
    stored = whole_text()
    return stored == text or redactor.redact(stored)[0] == text


def _same_blocks(
    named: Sequence[Any],
    draft: Draft,
    redactor: Redactor,
    recalled: Callable[[], Sequence[str | None]],
) -> bool:
    """Whether a draft brings the blocks that an event names."""
    digests = [one.get("sha256") for one in named if isinstance(one, dict)]
    if digests == [_digest(block) for block in draft.recalled]:
        return True
    redact = redactor.redact
    stored = [None if block is None else redact(block)[0].encode() for block in recalled()]
    return stored == list(draft.recalled)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _mark(line: dict[str, Any], text: str, marker: Marker, *, given: bool) -> None:
    """Add the markers found in the text to an event without any, and name them.

    `data.marked` records that this was decided: [] where the caller passed no markers.
    """
    data = line.get("data", {})
    if "markers" in line or "marked" in data:
        return
    found = marker.find(text, line.get("role"), line["kind"])
    if found:
        if not given:
            line["markers"] = list(found)
        line["data"] = {**data, "marked": [] if given else list(found)}


def _written(line: dict[str, Any], text: str) -> tuple[bytes, bytes | None]:
    """The line, and the whole text as a body where a line cannot hold it: then it has its head.

    A text of more characters than a line has bytes is not serialised to find that out.
    """
    if len(text) <= LINE_MAX:
        rest = _serialised(line)
        if len(rest) + LOG_ADDS <= LINE_MAX:
            return rest, None
    body = text.encode()
    line["text"] = body[:HEAD_BYTES].decode(errors="ignore")
    named = {"sha256": _digest(body), "bytes": len(body)}
    line["data"] = {**line.get("data", {}), "body": named}
    return _serialised(line), body


def _serialised(line: dict[str, Any]) -> bytes:
    ordered = {name: line[name] for name in _REST if name in line}
    return encode(ordered)[1:-1].encode()


def _refuse_secrets(line: dict[str, Any], redactor: Redactor, where: str) -> None:
    """Refuse secrets in identifiers: they are compared, and a mask would break them."""
    for name in _IDENTIFIERS:
        value = line.get(name)
        if value is not None and redactor.in_name(value):
            raise _secret_in(name, where)
    if line["kind"].startswith(CUSTOM_KIND) and redactor.in_name(line["kind"]):
        raise _secret_in("kind", where)
    for name in ("refs", "markers"):
        for number, value in enumerate(line.get(name, ())):
            if redactor.in_name(value):
                raise _secret_in(f"{name}[{number}]", where)


def _secret_in(name: str, where: str) -> InputError:
    return InputError(
        "holds what looks like a secret, a provider's token or what privacy.yaml masks (not "
        "repeated here); identifiers are stored as they are: use one without secrets",
        where=f"{where}.{name}" if where else name,
    )


def _redact(
    line: dict[str, Any], redactor: Redactor, blocks: Sequence[str]
) -> tuple[str, tuple[bytes, ...]]:
    """Redact text, tags and data in place, note the counts; give back the text, and the blocks.

    `blocks` were moved out of the text: they are named in data by what is left of them.
    """
    text, counts = redactor.redact_value(line.get("key") or "", line.get("text", ""))
    if counts:
        line["text"] = text
    moved = tuple(_masked(redactor.redact(block), counts) for block in blocks)
    if moved:
        data = line.get("data", {})
        names = [{"sha256": _digest(one), "bytes": len(one), "lines": _lines(one)} for one in moved]
        line["data"] = {**data, "recalled": [*data.get("recalled", ()), *names]}
    if "tags" in line:
        line["tags"] = [_short(redactor.redact(tag), tag, counts) for tag in line["tags"]]
    data = line.get("data")
    if data is not None:
        own = {key: data[key] for key in _OWN_DATA if key in data}
        data, found = redactor.redact_data({k: v for k, v in data.items() if k not in own})
        line["data"] = data = {**data, **own}
        _add(counts, found)
    if counts:
        total = dict(data.get("redactions", {})) if data else {}
        _add(total, counts)
        line["data"] = {**(data or {}), "redactions": dict(sorted(total.items()))}
    return text, moved


def _lines(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n"))


def _masked(redacted: tuple[str, dict[str, int]], counts: dict[str, int]) -> bytes:
    text, found = redacted
    _add(counts, found)
    return text.encode()


def _short(redacted: tuple[str, dict[str, int]], before: str, counts: dict[str, int]) -> str:
    after, found = redacted
    _add(counts, found)
    if after == before or len(after) <= TAG_MAX:
        return after
    # Several marks can outgrow a tag; one says enough.
    return f"[redacted:{min(found).partition(':')[0]}]"


def _add(counts: dict[str, int], found: Mapping[str, int]) -> None:
    for rule, number in found.items():
        counts[rule] = counts.get(rule, 0) + number
