"""What a task keeps of one event: enough of its text to be quoted, and what decides who sees it."""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

from memplane.event import GLOBAL, Event

__all__ = ["TEXT_CHARS_MAX", "Form", "Place", "Quote"]

Place: TypeAlias = tuple[str, str, int, str]  # label, text, tokens at most, printer
Form: TypeAlias = tuple[str, int, bool]  # the line, its tokens, whether the text is whole there

TEXT_CHARS_MAX: Final = 400
# Of a failure the end says more than the middle: a traceback names its error there.
_HEAD_CHARS: Final = 140
_NAME_MAX: Final = 300
_ROW_BYTES: Final = 360
_MORE_BYTES: Final = 12
_GAP: Final = " … "


class Quote:
    """A bounded part of one event.

    `whole` says whether `text` is all that the event said. `more` is what its data says beside
    the text: steps of a plan, names of specs. Every field but `forgotten` is final.
    """

    __slots__ = (
        "call", "forgotten", "forms", "id", "key", "kind", "more", "ns", "path", "role",
        "sensitivity", "seq", "session", "size", "text", "tool", "ts", "valid_from",
        "valid_until", "whole",
    )  # fmt: skip
    # What replaces a quoted event takes the quote away with it.
    superseded = False

    def __init__(self, row: dict[str, Any]) -> None:
        get = row.get
        self.seq: int = row["seq"]
        self.id: str = row["id"]
        self.ts: str = row["ts"]
        self.kind: str = row["kind"]
        self.ns: str = get("ns", GLOBAL)
        self.session: str | None = get("session")
        self.key: str | None = get("key")
        self.role: str | None = get("role")
        self.sensitivity: str = get("sensitivity", "normal")
        self.valid_from: str | None = get("valid_from")
        self.valid_until: str | None = get("valid_until")
        self.text: str = get("text", "")
        self.whole: bool = get("whole", True)
        self.forgotten: bool = get("forgotten", False)
        self.tool: str = get("tool", "")
        self.path: str = get("path", "")
        self.call: str = get("call", "")
        self.more: list[Any] = get("more", [])
        self._measure()

    @classmethod
    def of(
        cls, event: Event, text: str | None = None, *, call: str = "", more: list[Any] | None = None
    ) -> Quote:
        """Quote a new event: its text, or another that its data gives."""
        quote = object.__new__(cls)
        quote.seq, quote.id, quote.ts, quote.kind = event.seq, event.id, event.ts, event.kind
        quote.ns, quote.session, quote.key, quote.role = (
            event.ns, event.session, event.key, event.role,
        )  # fmt: skip
        quote.sensitivity = event.sensitivity
        quote.valid_from, quote.valid_until = event.valid_from, event.valid_until
        data = event.data
        said = event.text if text is None else text
        whole = (text is None or text.strip() == event.text.strip()) and "body" not in data
        if quote.sensitivity == "secret":  # stored, never loaded
            said, whole = "", False
        elif len(said) > TEXT_CHARS_MAX:
            said, whole = _cut(said, event.kind), False
        quote.text, quote.whole = said, whole
        quote.forgotten = False
        quote.tool, quote.path = _name(data.get("tool")), _name(data.get("path"))
        quote.call = call
        quote.more = [] if more is None else more
        quote._measure()
        return quote

    def row(self) -> dict[str, Any]:
        """The row of the file; what is as usual is left out."""
        row: dict[str, Any] = {"seq": self.seq, "id": self.id, "ts": self.ts, "kind": self.kind}
        for name, usual in _USUAL:
            value = getattr(self, name)
            if value != usual:
                row[name] = value
        return row

    def _measure(self) -> None:
        """Set the row's bytes at most: the same for a new quote and for a loaded one."""
        texts = [each if isinstance(each, str) else "".join(each) for each in self.more]
        quoted = encode_basestring(
            f"{self.id}{self.ns}{self.session}{self.key}{self.path}{self.tool}{self.text}"
            f"{self.call}{''.join(texts)}"
        )
        size = len(quoted) if quoted.isascii() else len(quoted.encode(errors="surrogatepass"))
        self.size = _ROW_BYTES + size + _MORE_BYTES * len(texts)
        self.forms: dict[Place, Form] = {}


_USUAL: Final[tuple[tuple[str, object], ...]] = (
    ("ns", GLOBAL), ("session", None), ("key", None), ("role", None), ("sensitivity", "normal"),
    ("valid_from", None), ("valid_until", None), ("text", ""), ("whole", True),
    ("forgotten", False), ("tool", ""), ("path", ""), ("call", ""), ("more", []),
)  # fmt: skip


def _cut(text: str, kind: str) -> str:
    if kind != "tool_result":
        return text[:TEXT_CHARS_MAX]
    # Trailing blanks would take the place of the words.
    text = text.rstrip()
    if len(text) <= TEXT_CHARS_MAX:
        return text
    return f"{text[:_HEAD_CHARS]}{_GAP}{text[_HEAD_CHARS + len(_GAP) - TEXT_CHARS_MAX :]}"


def _name(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= _NAME_MAX else value[:_NAME_MAX]
