"""Which events a partial export holds, and in what form they leave the plane."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import InputError, NotFoundError
from memplane.event import FIELDS, KINDS, UPKEEP_KINDS, Event, is_kind
from memplane.intake import timestamp
from memplane.intake.check import is_checksum
from memplane.intake.redact import shown
from memplane.plane.given import check_text
from memplane.projections.order import Moments, originated
from memplane.recall.suppress import within

if TYPE_CHECKING:
    from datetime import datetime

    from memplane.plane.engine import Engine
    from memplane.plane.reading import Reader

__all__ = ["Asked", "Chosen"]

_OWNER: Final = "private"
_FORGOTTEN: Final = ("forgotten", "evicted")
_LEFT_OUT: Final = ("dur", "h")
_IDENTIFIERS: Final = ("id", "session", "task", "actor", "key", "ns")


class Asked(NamedTuple):
    """What an export is asked for; where nothing is, it is of everything."""

    ns: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    session: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    redact: bool = False
    secret: bool = False

    @classmethod
    def of(
        cls, *, ns: str | Iterable[str] | None, kind: str | Iterable[str] | None,
        session: str | Iterable[str] | None, since: str | datetime | None,
        until: str | datetime | None, redact: bool, secret: bool,
    ) -> Asked:  # fmt: skip
        """Check what a caller gave; raises InputError naming the argument."""
        kinds = _several(kind, "kind")
        for one in kinds:
            if not is_kind(one):
                known = ", ".join(KINDS)
                raise InputError(f"unknown kind {shown(one)}; known: {known}", where="kind")
        asked = cls(
            _several(ns, "ns"), kinds, _several(session, "session"),
            None if since is None else timestamp(since, where="since"),
            None if until is None else timestamp(until, where="until"), redact,
        )  # fmt: skip
        if secret and asked.is_everything:
            raise InputError(
                "a whole export holds what is secret anyway; give it beside what names a part",
                where="secret",
            )
        return asked._replace(secret=secret)

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows it."""
        return self == Asked()

    def as_json(self) -> dict[str, Any]:
        """What narrows it."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self._asdict().items()
            if value
        }


def _several(given: str | Iterable[str] | None, where: str) -> tuple[str, ...]:
    if given is None:
        return ()
    found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    return tuple(dict.fromkeys(check_text(one, where) for one in found))


class Chosen:
    """Picks events as `Plane.events` shows them to the owner, and counts what it withholds.

    What was forgotten stays, and so does what memplane writes about its own log: elsewhere a
    forget would hit what has the same key there.
    """

    def __init__(self, engine: Engine, asked: Asked) -> None:
        self._engine, self._asked = engine, asked
        self._readers: dict[str | None, Reader] = {
            ns: engine.reader(_OWNER, ns=ns) for ns in (asked.ns or (None,))
        }
        policies = engine.watched.policies()
        self._redactor = engine.intake(policies).redactor
        with engine.lock:
            self._memories = engine.caught_up(policies).memories
        self._plane, self._moments = engine.home.plane_id, Moments()
        self.withheld: dict[str, int] = {}
        self.lost = 0

    def row(self, event: Event) -> dict[str, Any] | None:
        """The event as it leaves the plane; None where it was not asked for, or stays.

        To be shown all events in the order of the log: the moment of one depends on those before.
        """
        moment = self._moments.see(event)
        reader = self._reader(event)
        if reader is None or event.kind in UPKEEP_KINDS:
            return None
        reason = self._withheld(event, reader)
        if reason is not None:
            self.withheld[reason] = self.withheld.get(reason, 0) + 1
            return None
        fields = self._fields(reader.emit(self._with_text(event)))
        if moment is not None and (moment.time, moment.turn) != (event.ts, 0):
            leaving = event._replace(data=fields.get("data", {}))
            fields["data"] = originated(leaving, self._plane, moment)
        return fields

    def _withheld(self, event: Event, reader: Reader) -> str | None:
        """Why an event that was asked for stays, None where it does not."""
        seen = event
        if self._asked.secret:
            if event.sensitivity == "secret":
                seen = seen._replace(sensitivity="normal")
            if event.kind == "secret":
                seen = seen._replace(kind="message")
        if not reader.shows(seen):
            return "hidden"
        gone = self._memories.archived(event)
        if gone is not None and gone[0] in _FORGOTTEN:
            return "forgotten"
        names = [getattr(event, name) for name in _IDENTIFIERS]
        names += [*event.refs, *event.markers]
        return "identifier" if any(self._redactor.in_name(one) for one in names if one) else None

    def _reader(self, event: Event) -> Reader | None:
        asked = self._asked
        if (asked.kind and event.kind not in asked.kind) or (
            asked.session and event.session not in asked.session
        ):
            return None
        if (asked.since is not None and event.ts < asked.since) or (
            asked.until is not None and event.ts > asked.until
        ):
            return None
        if not asked.ns:
            return self._readers[None]
        named = (ns for ns in asked.ns if within(event.ns, (ns,)))
        return self._readers.get(next(named, None))

    def _with_text(self, event: Event) -> Event:
        """The event with its whole text, where a line holds only its beginning."""
        event = _without_blocks(event)
        if "body" not in event.data:
            return event
        data = {name: value for name, value in event.data.items() if name != "body"}
        try:
            return event._replace(text=self._engine.log.text(event), data=data)
        except NotFoundError:
            self.lost += 1
            return event._replace(data=data)

    def _fields(self, event: Event) -> dict[str, Any]:
        values = event._asdict()
        return {
            name: values[name]
            for name in FIELDS
            if name not in _LEFT_OUT
            and (name == "seq" or values[name] not in (None, "", (), {}))
            and values[name] != Event._field_defaults.get(name)
        }


def _without_blocks(event: Event) -> Event:
    """The event without the blocks that were moved out of its text.

    They quote what other events say, which may have to stay.
    """
    named = event.data.get("recalled")
    if not isinstance(named, list):
        return event
    data = {name: value for name, value in event.data.items() if name != "recalled"}
    checksums = [one for one in named if is_checksum(one)]
    return event._replace(data={**data, "recalled": checksums} if checksums else data)
