"""Times as memplane writes them: `2026-01-05T12:17:31.459000Z`, so that they compare as strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.errors import InputError
from memplane.lazy import regex

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["timestamp"]

_RFC3339: Final = regex(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_NO_ZONE: Final = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.]*)?")
_EXPECTED: Final = "expected RFC 3339 with a zone, such as 2026-01-05T12:17:31Z"


def timestamp(value: str | datetime, *, where: str = "ts") -> str:
    """Bring a time to UTC with six decimals; finer digits are cut off, never rounded up.

    Refused, with the reason: a time without a zone, a leap second, a day that does
    not exist, and whatever falls outside the years 0001 to 9999 in UTC.
    """
    from datetime import UTC, datetime  # noqa: PLC0415 - most events come without a time

    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str):
        moment = _parsed(value, where)
    else:
        found = type(value).__name__
        raise InputError(f"found a value of type {found}; {_EXPECTED}", where=where)
    if moment.utcoffset() is None:
        raise InputError(
            f"the time has no zone (naive); {_EXPECTED}, or a datetime with tzinfo", where=where
        )
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise InputError(
            "in UTC the time lies outside the years 0001 to 9999; give one inside", where=where
        ) from None
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _parsed(value: str, where: str) -> datetime:
    from datetime import UTC, datetime, timedelta, timezone  # noqa: PLC0415 - likewise

    match = _RFC3339.fullmatch(value)
    if match is None:
        reason = "no zone (naive)" if _NO_ZONE.fullmatch(value) else "no time that can be read"
        raise InputError(f"found {reason}; {_EXPECTED}", where=where)
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if second == 60:
        raise InputError(
            "a leap second (:60) has no place in an ordered log; give :59.999999 instead",
            where=where,
        )
    fraction, sign, zone_hours, zone_minutes = match.groups()[6:]
    micros = int(fraction.ljust(6, "0")[:6]) if fraction else 0
    zone = UTC
    if sign is not None:
        if int(zone_minutes) > 59:
            raise InputError(f"the zone has more than 59 minutes; {_EXPECTED}", where=where)
        offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
        if offset >= timedelta(days=1):
            raise InputError(f"the zone is a day or more; {_EXPECTED}", where=where)
        zone = timezone(-offset if sign == "-" else offset)
    try:
        return datetime(year, month, day, hour, minute, second, micros, tzinfo=zone)
    except ValueError as error:
        raise InputError(f"no such time ({error}); {_EXPECTED}", where=where) from None
