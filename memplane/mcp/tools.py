"""The six tools, each answer within its cap of tokens.

`memory_get`, `memory_search` and `memory_list_keys` read, `memory_store` and `memory_forget`
record, and `memory_curate` packs a block. `Desk` is the plane with the channel, session and agent
that a call works for; `Cap` counts the tokens of an answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from memplane.context.calls import Receipt
from memplane.errors import ConflictError, InputError, NotFoundError
from memplane.event import GLOBAL, Event
from memplane.intake import cleaned
from memplane.intake.redact import masked_name
from memplane.pack.block import Block, Entry
from memplane.pack.handles import Handle
from memplane.plane import Expanded, Plane, SearchHit
from memplane.ports import TokenCounter
from memplane.projections.window import entry_lines, one_line, quoted_text, safe_name
from memplane.tokens import cut
from memplane.work.changes import forget_as, record_as

__all__ = [
    "Answer",
    "Cap",
    "Desk",
    "clipped",
    "curate",
    "event_named",
    "expanded",
    "forget_tool",
    "get_tool",
    "list_keys",
    "no_value",
    "search_tool",
    "store",
]


_KEYS_MAX: Final = 100_000
_HIT_TOKENS: Final = 160  # a passage is a sentence at most, but that may be a page


def get_tool(desk: Desk, given: dict[str, Any]) -> Answer:
    """The value of a key, or what a handle opens, as far as the cap goes."""
    if ("key" in given) == ("handle" in given):
        raise InputError("give exactly one of key and handle")
    if "key" in given:
        event = desk.plane.get(given["key"], given["ns"], **desk.who)
        if event is None:
            raise no_value(given)
        handle = f"event/{event.seq}"
        if desk.plane.context.is_elsewhere(event.ns):  # by its number it is not named
            handle = str(Handle("memory", given["key"], event.ns))
    else:
        handle = given["handle"]
    return _opened(desk, handle, given)


def _opened(desk: Desk, handle: str, given: dict[str, Any]) -> Answer:
    cap = desk.cap(given)
    handle = _as_handle(desk, handle)
    data = cap.text(lambda budget: _told(desk, expanded(desk, handle, budget)))
    facts = [data[name] for name in ("type", "date", "state") if name in data]
    words = [" ".join([data["handle"], *facts]), quoted_text(data["text"])]
    return Answer(cap.words("\n".join([*words, *filter(None, [data.get("note")])])), data)


def expanded(desk: Desk, handle: str, budget: int) -> Expanded:
    """What a handle opens for the channel of this server."""
    return desk.plane.expand(handle, budget, **desk.who)


def _as_handle(desk: Desk, given: str) -> str:
    """The handle that was given; a bare id or seq is one of an event."""
    if given.startswith(("#", "expand://")) or "/" in given:
        return given
    return f"event/{event_named(desk, given).seq}"


def _told(desk: Desk, found: Expanded) -> dict[str, Any]:
    data: dict[str, Any] = {"text": found.text, "handle": found.handle}
    if found.event is not None:
        data |= {"type": found.event.kind, "date": found.event.ts[:10]}
        data["state"] = _state(desk, found.event)
    if found.left_out:
        data["left_out"] = dict(found.left_out)
    if found.next is not None:
        data["next"] = found.next
        data["note"] = "cut; memory_get with the handle in `next` goes on"
    return data


def _state(desk: Desk, event: Event) -> str:
    standing = desk.plane.standing(event, **desk.who)
    if standing.reason is None:
        return "stale" if standing.stale else "in force"
    by = f" by #{standing.by_seq}" if standing.by_seq is not None else ""
    return f"{standing.reason}{by}"


def search_tool(desk: Desk, given: dict[str, Any]) -> Answer:
    """The events that answer a query, the best first, as many as fit."""
    hits = desk.plane.search(
        given["query"],
        given["limit"],
        kind=given.get("type"),
        ns=given.get("ns"),
        since=given.get("since"),
        tag=given.get("tags"),
        without_tag=given.get("without_tags"),
        importance_min=given.get("importance_min"),
        progress=desk.tell,
        **desk.who,
    )
    rows = [_row(desk, hit) for hit in hits]
    without = [f"incomplete: {part}" for part in hits.degraded]
    cap = desk.cap(given)

    def make(count: int) -> dict[str, Any]:
        data: dict[str, Any] = {"hits": rows[:count]}
        notes = [*without]
        if not rows:
            notes.append("nothing found; try other words")
        elif count < len(rows):
            notes.append(f"{len(rows) - count} more hits did not fit; raise max_tokens")
        if notes:
            data["note"] = "; ".join(notes)
        return data

    data = cap.rows(rows, make)
    lines = [entry_lines(_head(row), row["text"]) for row in data["hits"]]
    return Answer(cap.words("".join([*lines, data.get("note", "")]).rstrip("\n")), data)


def _head(row: dict[str, Any]) -> str:
    names = [row["handle"], row["date"], row["type"], safe_name(row.get("key", ""))]
    return " ".join(filter(None, names))


def _row(desk: Desk, hit: SearchHit) -> dict[str, Any]:
    text = cut(desk.counter, hit.text, _HIT_TOKENS)
    more = "" if hit.whole and text == hit.text else " …"
    row = {"handle": hit.handle, "date": hit.event.ts[:10], "type": hit.event.kind}
    if hit.event.key is not None:
        row["key"] = hit.event.key
    return {**row, "text": text + more, "score": hit.score}


def list_keys(desk: Desk, given: dict[str, Any]) -> Answer:
    """The keys with a value, in order, from behind `after` on, as many as fit."""
    prefix, limit = given["prefix"], given["limit"]
    after = given.get("after")
    most = limit + 1 if after is None else _KEYS_MAX
    keys: list[str] = desk.plane.keys(prefix, given["ns"], limit=most, **desk.who)
    if after is not None:
        with suppress(UnicodeEncodeError):  # the plane refuses it in a key, so none is behind it
            keys = [key for key in keys if key.encode() > after.encode()]
    page, cap = keys[:limit], desk.cap(given)

    def make(count: int) -> dict[str, Any]:
        data: dict[str, Any] = {"keys": page[:count]}
        if not keys:
            data["note"] = "no such keys"
        elif not count:
            data["note"] = "not one key fits; raise max_tokens"
        elif count < len(keys):
            data["next"] = page[count - 1]
            data["note"] = "there are more: give `next` as after, or a longer prefix"
        return data

    data = cap.rows(page, make)
    note = filter(None, [data.get("note")])
    return Answer(cap.words("\n".join([*map(one_line, data["keys"]), *note])), data)


# `memory_store` and `memory_forget`: what a client records.

_AGAIN_MAX: Final = 1000  # times that the same was stored, archived and stored again
_TASK: Final = "/task/"
_ERASE: Final = "archived, not erased: only `memplane purge` erases it from the log"


def store(desk: Desk, given: dict[str, Any]) -> Answer:
    """Record one statement, unless the very same is in force already.

    Its id is made of what it says, so whoever says it again meets it, in any session and process.
    Where that one was archived since, it is said anew, and its id is made of that too.
    """
    if not cleaned(given["content"]).strip():
        raise InputError(
            "expected a statement, found only blanks or a block that memory gave; nothing was "
            "stored",
            where="content",
        )
    context = desk.plane.context
    given = _placed(desk, given)
    row = _event_row(desk, given)
    what = _redacted(desk, given)
    salt = 0
    for _ in range(_AGAIN_MAX):
        digest = hashlib.sha256(f"{what}{salt or ''}".encode()).hexdigest()[:32]
        try:
            if context.log.find(f"mcp:{digest}") is None:
                desk.begin()
            receipt = record_as(context, {**row, "id": f"mcp:{digest}"}, **desk.who)
            if not receipt.duplicate:
                return _stored(receipt)
            seq = receipt.seq
        except ConflictError as error:  # said in another session, or purged
            seq = error.seq
        event = _said(desk, row, seq, f"mcp:{digest}")
        if event is None:
            salt = seq
            continue
        standing = desk.plane.standing(event)  # of the log itself, whoever may see it
        if standing.reason is None:
            return _known(event)
        salt = standing.by_seq or event.seq
    return _stored(record_as(context, row, **desk.who))


def _placed(desk: Desk, given: dict[str, Any]) -> dict[str, Any]:
    """What is to be stored, in its namespace: in the user's own plane in the session's project.

    An agent says of the user for everywhere what he prefers, and nothing else.
    """
    project = desk.plane.context.home.project
    if project is None or given["ns"] != GLOBAL or given["type"] == "preference":
        return given
    return {**given, "ns": project}


def forget_tool(desk: Desk, given: dict[str, Any]) -> Answer:
    """Archive what is named; again is no mistake."""
    if ("id" in given) == ("key" in given):
        raise InputError("give exactly one of id and key")
    event = _named(desk, given)
    name = f"key {clipped(masked_name(given['key']), 80)}" if "key" in given else f"#{event.seq}"
    standing = desk.plane.standing(event, **desk.who)
    if standing.reason == "forgotten" and standing.by_seq is not None:
        words = f"{name} was forgotten before; {_ERASE}"
        return Answer(words, {"seq": standing.by_seq, "note": words})
    reason = f"{given.get('reason', '')} (by {desk.actor})".strip()
    what: dict[str, str | None]
    what = {"key": given["key"]} if "key" in given else {"id": event.id}
    context = desk.plane.context
    receipt = forget_as(context, what, given["ns"], reason, **desk.who)
    words = f"{name} is forgotten; {_ERASE}"
    return Answer(words, {"seq": receipt.seq, "note": words})


def _named(desk: Desk, given: dict[str, Any]) -> Event:
    """What is to be forgotten, if the channel may see it."""
    if "id" in given:
        return event_named(desk, given["id"])
    key, ns = given["key"], given["ns"]
    event = desk.plane.get(key, ns, **desk.who)
    if event is not None:
        return event
    history = desk.plane.history(key, ns, **desk.who)
    # Of one that was superseded the value in force is hidden, so there is none.
    if not history or history[-1].reason == "superseded":
        raise no_value(given)
    return history[-1].event


def _event_row(desk: Desk, given: dict[str, Any]) -> dict[str, Any]:
    passed = ("key", "tags", "importance", "ns")
    named: dict[str, Any] = {name: given[name] for name in passed if name in given}
    if given["ns"].startswith(_TASK):
        named["task"] = given["ns"].removeprefix(_TASK)
    return {
        "text": given["content"],
        "kind": given["type"],
        "session": desk.session,
        "actor": desk.actor,
        **named,
    }


def _redacted(desk: Desk, given: dict[str, Any]) -> str:
    """What makes two statements the same, without secrets: a hash of one could be guessed at."""
    context = desk.plane.context
    redact = context.redact(context.watched.policies_or_last())
    said = [given["type"], given["ns"], given.get("key"), sorted(given.get("tags", ()))]
    return json.dumps([*said, given["importance"], redact(given["content"])])


def _said(desk: Desk, row: dict[str, Any], seq: int, id_: str) -> Event | None:
    """The event that has the id, where it says the same.

    None where it was purged, is foreign or hidden from the agent: then it is said anew.
    """
    try:
        event = desk.plane.event(seq, **desk.who)
    except NotFoundError:
        return None
    same = event.id == id_ and event.kind == row["kind"]
    return event if same and (event.ns, event.key) == (row["ns"], row.get("key")) else None


def _stored(receipt: Receipt) -> Answer:
    redacted: dict[str, int] = receipt.event.data.get("redactions", {})
    data: dict[str, Any] = {"seq": receipt.seq, "id": receipt.id, "duplicate": False}
    words = f"stored as #{receipt.seq}"
    if redacted:
        data["redacted"] = redacted
        data["note"] = f"{sum(redacted.values())} secret(s) were masked before anything was written"
        words += f"; {data['note']}"
    return Answer(words, data)


def _known(event: Event) -> Answer:
    note = f"known since {event.ts[:10]} as #{event.seq}; nothing was added"
    return Answer(note, {"seq": event.seq, "id": event.id, "duplicate": True, "note": note})


# `memory_curate`: a packed block, and what it is made of, together within one cap.

_HANDLE: Final = re.compile(r"(?:expand://\S+|#\d+)$", re.MULTILINE)
_BUDGET_MIN: Final = 40
_REST: Final = "memplane://report has all of them"


def curate(desk: Desk, given: dict[str, Any]) -> Answer:
    """Pack for the server's session; three quarters of the cap are the block's, at first.

    Written as JSON, a block takes more tokens than it has. Where a small list of its entries does
    not find room behind it, it is packed again, smaller. Same plane, same arguments: same answer.
    """
    cap, budget = desk.cap(given), given["max_tokens"] * 3 // 4
    held = _held(desk)
    while True:
        block = desk.plane.pack(
            given["query"],
            budget=budget,
            intent=given["mode"],
            session=desk.session,
            task=given.get("task"),
            held_seq=held,
            save_report=True,
            tag=given.get("tags"),
            without_tag=given.get("without_tags"),
            importance_min=given.get("importance_min"),
            progress=desk.tell,
            **desk.who,
        )
        try:
            return _answer(block, cap)
        except InputError:
            if budget < _BUDGET_MIN:
                raise
        budget = budget * 7 // 8


def _held(desk: Desk) -> int | None:
    """The seq behind which the client has before it what its session said.

    None where it has nothing of it: the session is over, so the client that is still there is at
    another one (`/clear`).
    """
    if desk.held is None:
        return None
    with suppress(NotFoundError):
        if desk.plane.sessions.get(desk.session, **desk.who).status == "ended":
            return None
    return desk.held(desk.plane.home)


def _answer(block: Block, cap: Cap) -> Answer:
    rows = [(_entry(one), _handles(one)) for one in block.entries]
    data = cap.rows(rows, lambda count: _data(block, count))
    words = [block.text.rstrip("\n"), data.get("note", "")]
    return Answer(cap.words("\n".join(filter(None, words))), data)


def _data(block: Block, count: int) -> dict[str, Any]:
    entries = block.entries[:count]
    data: dict[str, Any] = {
        "text": block.text,
        "tokens": block.tokens,
        "entries": [_entry(one) for one in entries],
        "handles": list(dict.fromkeys(one for each in entries for one in _handles(each))),
        "omissions": dict(block.report["omissions"]["counts"]),
    }
    if not block.entries:
        data["note"] = f"an empty block: {block.report['reason']}"
    elif count < len(block.entries):
        data["note"] = f"{len(block.entries) - count} entries are in the text alone; {_REST}"
    return data


def _entry(entry: Entry) -> dict[str, Any]:
    ids = [*entry.events, *entry.parts] or [entry.source]
    return {"section": entry.section, "ids": ids, "tokens": entry.tokens}


def _handles(entry: Entry) -> list[str]:
    """What the entry's own lines end in; only an entry that shows a part of something has any."""
    return _HANDLE.findall(entry.text) if entry.parts else []


# Where a tool works: the plane, and on whose behalf.

_NAME_CHARS: Final = 80


class Desk(NamedTuple):
    """The plane, and who works on it; all of one server belongs to one session.

    `actor` is the client's name, and the agent that reads and writes: `/agent/<actor>` is its own.
    `held`: says behind which seq the client itself has before it what was said in that session,
    None where it has nothing of it. `tell` is told of long work: done, in all. `begin` is called
    before something is recorded in that session.
    """

    plane: Plane
    make_counter: Callable[[str, int], TokenCounter]
    channel: str
    session: str
    actor: str
    held: Callable[[Path], int] | None
    tell: Callable[[int, int], None]
    begin: Callable[[], object] = bool

    @property
    def who(self) -> dict[str, Any]:
        """Who reads and writes, as every call of the plane takes it."""
        return {"channel": self.channel, "agent": self.actor}

    @property
    def counter(self) -> TokenCounter:
        """The plane's counter. Whoever writes asks for none: broken policies stop no record."""
        budgets = self.plane.policies.budgets
        return self.make_counter(budgets.counter, budgets.scale_ppm)

    def cap(self, given: dict[str, Any]) -> Cap:
        """The tokens that the call asks for at most."""
        return Cap(self.counter, given["max_tokens"])


def event_named(desk: Desk, given: str) -> Event:
    """The event that an id, `#12`, `12` or `event/12` names; raises NotFoundError."""
    name = given.removeprefix("expand://").removeprefix("event/").removeprefix("#")
    if name.isascii() and name.isdigit() and len(name) < 19:
        return desk.plane.event(int(name), **desk.who)
    if not name:
        raise NotFoundError("no event without a name; a search shows handles such as #12")
    return desk.plane.event(name, **desk.who)


def no_value(given: dict[str, Any]) -> NotFoundError:
    """That the key of a call has no value, and how to see those that have one."""
    key, ns = (clipped(masked_name(given[name]), _NAME_CHARS) for name in ("key", "ns"))
    return NotFoundError(f"no value under {key} in {ns}; memory_list_keys shows what there is")


# Answers within their tokens: as many rows, or as much of a text, as fit, and a note on the rest.
#
# What counts is the JSON of the structured answer, in the plane's own counter: that is what a
# client puts before its model. The same in words is never more than that.

_TRIES_MAX: Final = 24


class Answer(NamedTuple):
    """What a tool gives back: the same in words, and as JSON that fits its schema."""

    words: str
    data: dict[str, Any]


class Cap(NamedTuple):
    """At most so many tokens."""

    counter: TokenCounter
    most: int

    def holds(self, data: dict[str, Any]) -> bool:
        """Whether the JSON of an answer keeps to it."""
        return self.counter.count(_json(data)) <= self.most

    def rows(self, rows: Sequence[Any], make: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
        """The answer with the most rows that fits; `make` builds the one with the first n.

        Raises InputError where even none is too much.
        """
        count, left = 0, self.most - self.counter.count(_json(make(0)))
        if left < 0:
            raise self._too_little()
        # The sum of what rows cost alone is close to what they cost together, not the same.
        for row in rows:
            left -= self.counter.count(_json(row)) + 1
            if left < 0:
                break
            count += 1
        return next(data for data in map(make, range(count, -1, -1)) if self.holds(data))

    def text(self, make: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
        """The answer whose text fits; `make` builds the one whose text has at most n tokens.

        Written as JSON a text takes more tokens than it has, how many more depends on the text: so
        it is asked for again, shorter by what was too much. Raises InputError where none fits.
        """
        budget = self.most
        for _ in range(_TRIES_MAX):
            data = make(budget)
            size = self.counter.count(_json(data))
            if size <= self.most:
                return data
            if budget == 1:
                break
            budget = max(1, min(budget - 8, budget * self.most // size - 8))
        raise self._too_little()

    def words(self, text: str) -> str:
        """The beginning of an answer in words."""
        return cut(self.counter, text, self.most)

    def _too_little(self) -> InputError:
        return InputError(f"{self.most} do not hold this answer; ask for more", where="max_tokens")


def clipped(text: str, most: int) -> str:
    """The text on one line of at most so many characters."""
    line = one_line(text[: most * 4])
    whole = len(line) <= most and len(text) <= most * 4
    return line if whole else line[: most - 1] + "…"


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
