"""The block (ACB): its text, the entries it is made of, what was left out; the handles in it.

Handles are what `expand` takes, read and written here::

    event/<seq or id>?from=N       an event, from a character on; `#<seq>` is short for it
    task/<id>?depth=0..3           a sentence, the paragraph, decisions and facts, every event
    session/<id>?depth=0..3        the same of a session
    memory/<ns>/<key>?depth=0..1   the value that a key has, then those that it had
    artifact/<sha256>?page=N       a page of an artifact's text, of as many tokens as are asked for
    views/<name>?from=N            a view that the channel loads, from a character on

`expand://` may come before each. In names `%`, `?`, `#` and blanks are written as `%XX`, and so
is `/` in the name of a namespace. From depth 2 on, `from=N` goes on with the event of that seq. Of
a hash its first 8 digits or more; a page with `from=N` begins at that character.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from memplane.errors import InputError
from memplane.event import GLOBAL
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, late, regex

if TYPE_CHECKING:
    import difflib
else:
    difflib = late("difflib")  # only mistakes need it


class Entry(NamedTuple):
    """One entry of a block, with its provenance.

    `events` are the ids of events whose whole text is in the entry, `parts` of those of which a
    part is. `text` is the lines as printed; their `tokens` include every newline. `score` is 0 for
    an entry that was not scored.
    """

    section: str
    place: Literal["head", "middle", "tail"]
    text: str
    tokens: int
    score: int
    events: tuple[str, ...]
    parts: tuple[str, ...]
    source: str  # event | view:PATH@sha256 | projection:NAME
    part: str  # A..G, the layout's areas in order
    seq: int = 0  # of the event, 0 for a view


class Omission(NamedTuple):
    """A candidate that was left out.

    `tokens` is what it would have cost; `short_by` how many tokens were missing, 0 where it was
    left out for another reason than room. `id` may be a handle or a path; then `seq` is 0.
    """

    id: str
    seq: int
    section: str
    tokens: int
    reason: str
    score: int
    short_by: int


class Block(NamedTuple):
    """A packed context block. `text` is ready for a prompt; `tokens` never exceed the budget."""

    text: str
    tokens: int
    entries: tuple[Entry, ...]
    omissions: tuple[Omission, ...]
    report: dict[str, Any]
    report_path: Any = None  # the file that the report was saved in, None where it was not

    def __str__(self) -> str:
        """The text: `print(block)` prints what a prompt takes."""
        return self.text

    def __repr__(self) -> str:
        """Its figures; the text is long."""
        return (
            f"<Block of {self.tokens} tokens, {len(self.entries)} entries, "
            f"{len(self.omissions)} left out>"
        )

    def _repr_markdown_(self) -> str:
        """How notebooks show it."""
        return self.text

    @property
    def budget_remaining(self) -> int:
        """Tokens of the request's budget that are left."""
        return int(self.report["budget"]) - self.tokens

    def messages(
        self,
        provider: Literal["openai", "anthropic"],
        *,
        reuse: Literal["prompt", "call"] = "prompt",
    ) -> Any:
        """The block in a provider's form; the pieces joined are `text`.

        `openai`: a list with one system message. `anthropic`: `{"system": [...], "messages": []}`
        with cache marks where the next pack of the session will still agree; `reuse` says whether
        that pack comes with the next prompt or with the next model call. Raises InputError for
        another provider or reuse.
        """
        if reuse not in ("prompt", "call"):
            raise InputError(f"expected prompt or call, found {reuse!r}", where="reuse")
        if provider == "openai":
            return [{"role": "system", "content": self.text}] if self.text else []
        if provider != "anthropic":
            raise InputError(f"expected openai or anthropic, found {provider!r}", where="provider")
        raw = self.text.encode()
        cuts = [
            point["byte"]
            for point in self.report["prefix"]["breakpoints"]
            if point["reuse"] in ("both", reuse)
        ]
        pieces = []
        start = 0
        for cut in sorted(set(cuts)):
            if start < cut < len(raw):
                pieces.append(
                    {
                        "type": "text",
                        "text": raw[start:cut].decode(),
                        "cache_control": {"type": "ephemeral"},
                    }
                )
                start = cut
        if raw[start:]:
            pieces.append({"type": "text", "text": raw[start:].decode()})
        return {"system": pieces, "messages": []}

    def as_json(self) -> dict[str, Any]:
        """The block as plain JSON values (schemas/acb.schema.json)."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "entries": [entry._asdict() for entry in self.entries],
            "omissions": [omission._asdict() for omission in self.omissions],
            "report": self.report,
        }


SCHEME: Final = "expand://"
DEPTH_MAX: Final = {"task": 3, "session": 3, "memory": 1}
EVENTS_FROM: Final = 2  # the first depth that shows events one by one, and can go on at one
_DEPTH: Final = {"task": 1, "session": 1, "memory": 0}  # where none is asked for
_TAKES: Final = {
    "event": ("from",),
    "task": ("depth", "from"),
    "session": ("depth", "from"),
    "memory": ("depth", "from"),
    "artifact": ("page", "from"),
    "views": ("from",),
}
_FORMS: Final = (
    "expand://event/<seq>, #<seq>, event/<id>, task/<id>?depth=0..3, session/<id>?depth=0..3, "
    "memory/<ns>/<key>?depth=0..1, artifact/<sha256>?page=<n> or views/<name>"
)
_SHORT: Final = regex(r"#([0-9]{1,18})(?:\?(.*))?", re.DOTALL)
_NUMBER: Final = regex(r"[0-9]{1,18}")
_SHA256: Final = regex(r"(?:sha256/)?([0-9a-f]{8,64})")
_OWN_SPACES: Final = ("task", "spec", "agent", "project")
_PERCENT: Final = regex(r"(?:%[0-9A-Fa-f]{2})+")
_WRITTEN: Final = regex(r"[%?#\s\x00-\x1f]")


class Handle(NamedTuple):
    """A parsed handle. `name` is a seq or id, a key, a hash or a path; `start` its `from`."""

    form: str
    name: str
    ns: str = GLOBAL  # of a memory
    depth: int = 0
    start: int = 0
    page: int = 1

    @property
    def seq(self) -> int | None:
        """The seq that names an event, None where an id does."""
        return int(self.name) if self.form == "event" and _NUMBER.fullmatch(self.name) else None

    def going_on(self, depth: int, start: int) -> Handle:
        """Return the same handle at another depth or place."""
        return self._replace(depth=depth, start=start)

    def behind(self, start: int) -> Handle:
        """Return the same handle from a character on; of an artifact, its next page."""
        page = self.page + 1 if self.form == "artifact" and start else self.page
        return self._replace(page=page, start=start)

    def __str__(self) -> str:
        told = []
        if self.form in DEPTH_MAX:
            told.append(f"depth={self.depth}")
        if self.form == "artifact":
            told.append(f"page={self.page}")
        if self.start:
            told.append(f"from={self.start}")
        name = _written(self.name)
        if self.form == "memory":
            kind, _, own = self.ns.removeprefix("/").partition("/")
            space = f"{kind}/{_written(own).replace('/', '%2F')}" if own else kind
            name = f"{space}/{name}"
        path = name if self.form == "views" else f"{self.form}/{name}"
        return f"{SCHEME}{path}" + (f"?{'&'.join(told)}" if told else "")


def parse_handle(given: object) -> Handle:
    """Parse a handle. Raises InputError that names the fault and the known forms."""
    if not isinstance(given, str):
        raise unexpected("a text", given, "handle")
    short = _SHORT.fullmatch(given)
    if short is not None:
        return _with(Handle("event", short[1]), short[2], given)
    path, mark, told = given.removeprefix(SCHEME).partition("?")
    form, _, name = path.partition("/")
    if form not in _TAKES or not name:
        raise _strange(given, form)
    return _with(_named(form, name, given), told if mark else None, given)


def _named(form: str, name: str, given: str) -> Handle:
    if form == "views":
        return Handle(form, f"views/{_read(name)}")
    if form == "memory":
        return _memory(name, given)
    if form == "artifact":
        found = _SHA256.fullmatch(name)
        if found is None:
            raise InputError(
                "expected artifact/<8 to 64 hex digits of its SHA-256>, found "
                f"{quoted_value(given, 100)}",
                where="handle",
            )
        return Handle(form, found[1])
    return Handle(form, _read(name), depth=_DEPTH.get(form, 0))


def _memory(path: str, given: str) -> Handle:
    kind, _, rest = path.removeprefix("/").partition("/")
    ns, key = GLOBAL, rest
    if kind in _OWN_SPACES:
        own, _, key = rest.partition("/")
        ns = f"/{kind}/{_read(own)}" if own else ""
    elif kind != GLOBAL.removeprefix("/"):
        ns = ""
    if not ns or not key:
        raise InputError(
            "expected memory/global/<key>, or /project/<name>, /task/<id>, /spec/<name> or "
            f"/agent/<id> in the place of /global; found {quoted_value(given, 100)}",
            where="handle",
        )
    return Handle("memory", _read(key), ns)


def _with(handle: Handle, told: str | None, given: str) -> Handle:
    """The handle with the parameters behind its question mark."""
    if told is None:
        return handle
    takes, values = _TAKES[handle.form], dict[str, int]()
    for pair in told.split("&"):
        name, _, value = pair.partition("=")
        if name not in takes or name in values:
            close = difflib.get_close_matches(name, takes, 1)
            hint = f"; did you mean {close[0]}?" if close and close[0] != name else ""
            raise InputError(
                f"{handle.form} takes {' and '.join(takes)}, once each; found "
                f"{quoted_value(pair)} in "
                f"{quoted_value(given, 100)}{hint}",
                where="handle",
            )
        if _NUMBER.fullmatch(value) is None:
            raise unexpected("a whole number", value, name)
        values[name] = int(value)
    depth = values.get("depth", handle.depth)
    start, page = values.get("from", 0), values.get("page", 1)
    most = DEPTH_MAX.get(handle.form, 0)
    if depth > most:
        raise InputError(f"{handle.form} has the depths 0 to {most}, found {depth}", where="depth")
    if page < 1:
        raise InputError(f"expected 1 or more, found {page}", where="page")
    if start and "depth" in takes and depth < min(EVENTS_FROM, most):
        raise InputError(
            f"depth {depth} is told in one piece; expected depth={min(EVENTS_FROM, most)} or more "
            "with it",
            where="from",
        )
    return handle._replace(depth=depth, start=start, page=page)


def _strange(given: str, form: str) -> InputError:
    close = difflib.get_close_matches(form, tuple(_TAKES), 1)
    hint = f"; did you mean {close[0]}/…?" if close and close[0] != form else ""
    return InputError(f"expected {_FORMS}; found {quoted_value(given)}{hint}", where="handle")


def _written(name: str) -> str:
    return _WRITTEN.sub(lambda one: "".join(f"%{byte:02X}" for byte in one[0].encode()), name)


def _read(name: str) -> str:
    """The name that was written so; what is no such writing stands for itself."""

    def read(run: re.Match[str]) -> str:
        data = bytes.fromhex(run[0].replace("%", ""))
        try:
            return data.decode()
        except UnicodeDecodeError:
            return run[0]

    return _PERCENT.sub(read, name)
