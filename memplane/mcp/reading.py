"""`memory_get`, `memory_search` and `memory_list_keys`: what is there, within a cap."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from memplane.errors import InputError
from memplane.event import Event
from memplane.mcp.desk import Desk, event_named, no_value
from memplane.mcp.fitting import Answer
from memplane.plane import Expanded, SearchHit
from memplane.projections.window import named, one_line, quoted_text, shown
from memplane.tokens import cut

__all__ = ["expanded", "get", "list_keys", "search"]

_KEYS_MAX: Final = 100_000
_HIT_TOKENS: Final = 160  # a passage is a sentence at most, but that may be a page


def get(desk: Desk, given: dict[str, Any]) -> Answer:
    """The value of a key, or what a handle opens, as far as the cap goes."""
    if ("key" in given) == ("handle" in given):
        raise InputError("give exactly one of key and handle")
    if "key" in given:
        event = desk.plane.get(given["key"], given["ns"], **desk.who)
        if event is None:
            raise no_value(given)
        handle = f"event/{event.seq}"
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


def search(desk: Desk, given: dict[str, Any]) -> Answer:
    """The events that answer a query, the best first, as many as fit."""
    hits = desk.plane.search(
        given["query"], given["limit"], kind=given.get("type"),
        ns=given.get("ns"), since=given.get("since"), tag=given.get("tags"),
        without_tag=given.get("without_tags"), importance_min=given.get("importance_min"),
        progress=desk.tell, **desk.who,
    )  # fmt: skip
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
    lines = [shown(_head(row), row["text"]) for row in data["hits"]]
    return Answer(cap.words("".join([*lines, data.get("note", "")]).rstrip("\n")), data)


def _head(row: dict[str, Any]) -> str:
    names = [row["handle"], row["date"], row["type"], named(row.get("key", ""))]
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
