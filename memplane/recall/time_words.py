"""Words of time in a question, read against the request's clock: "yesterday", "am 22. Januar".

The words of each language are a table of the policy (`scoring.yaml: times`). A reading is a span
of days in UTC, or so many sessions back; and whether the question asks for nothing beside it, so
that what happened then is the answer, and no words are searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from memplane.lazy import NamedTuple
from memplane.policy.records import TimeWords

_CHARACTERS_MAX: Final = 200  # of a question about time; a longer text tells of something
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_ISO: Final = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b")
_YEAR: Final = r"(?:,? (?P<year>(?:19|20)\d\d))?"
_DAY: Final = r"(?P<day>[1-9]|[12]\d|3[01])(?:st|nd|rd|th|\.)?"
_COUNT_MAX: Final = 400
_WEEK: Final = 7


class AskedTime(NamedTuple):
    """What a question says of time.

    `words`: as they stand there. `since` and `until`: the first and the last microsecond, as times
    of events are written. `sessions_back`: 1 is the session before the request's own, 0 no session.
    `alone`: nothing else is asked for.
    """

    words: str
    since: str | None = None
    until: str | None = None
    sessions_back: int = 0
    alone: bool = False


class _Days(NamedTuple):
    first: date | None
    last: date | None


def read_time(question: str, now: str, languages: Iterable[TimeWords]) -> AskedTime | None:
    """Return what a question says of time; None where it says nothing that has a place in time.

    `now`: the request's clock, in UTC. A day that is named without a year is the latest that is
    not to come. Of the languages the first is taken in which nothing else is asked for, else the
    first that has such a word.
    """
    text = " ".join(question.split())
    if not text or len(text) > _CHARACTERS_MAX:
        return None
    today, said = date.fromisoformat(now[:10]), text.lower()
    plain = text.isascii() and _ISO.search(text) is None
    first: AskedTime | None = None
    for table in languages:
        # Without such a word no pattern of the language matches, and to compile them all takes as
        # long as a bare Python does.
        if plain and not any(word in said for word in _speaking(table)):
            continue
        found = next(_readings(text, today, table), None)
        if found is None:
            continue
        if _is_idle(text.replace(found.words, " ", 1), table.idle):
            return found._replace(alone=True)
        first = first or found
    return first


# Letters that a pattern takes for others where case does not count, and `str.lower` does not.
_ODD: Final = frozenset("\u017f\u212a\u0130\u0131")


@lru_cache(maxsize=32)
def _speaking(table: TimeWords) -> tuple[str, ...]:
    phrases = [*table.last_session, *table.session_before]
    phrases += [phrase for _, some in (*table.relative, *table.units) for phrase in some]
    phrases += [name for row in (*table.months, *table.weekdays) for name in row]
    if any("{unit}" not in frame for frame in (*table.ago, *table.past)):
        phrases.append("")
    return tuple("" if _ODD & {*phrase} else phrase.lower() for phrase in phrases)


def _is_idle(rest: str, idle: tuple[str, ...]) -> bool:
    words = {word.lower().replace("\u2019", "'") for word in _WORD.findall(rest)}
    return words <= set(idle)


def _readings(text: str, today: date, table: TimeWords) -> Iterator[AskedTime]:
    """Readings of the text, the one of the longest phrases first."""
    forms = _forms(table)
    for back, pattern in ((2, forms.session_before), (1, forms.last_session)):
        found = pattern.search(text) if pattern is not None else None
        if found is not None:
            yield AskedTime(found[0], sessions_back=back)
    for found, days in _spans(text, today, table, forms):
        if days is None:
            continue
        since = None if days.first is None else f"{days.first.isoformat()}T00:00:00.000000Z"
        last = None if found.groupdict().get("since") else days.last
        until = None if last is None else f"{last.isoformat()}T23:59:59.999999Z"
        yield AskedTime(found[0], since, until)


class _Forms(NamedTuple):
    """The patterns of one language."""

    last_session: re.Pattern[str] | None
    session_before: re.Pattern[str] | None
    relative: tuple[tuple[re.Pattern[str], str], ...]
    ago: re.Pattern[str] | None
    past: re.Pattern[str] | None
    dates: tuple[re.Pattern[str], ...]
    month: re.Pattern[str]
    weekday: re.Pattern[str]
    months: dict[str, int]
    weekdays: dict[str, int]
    units: dict[str, str]


def _any(phrases: Iterable[str]) -> str:
    """An alternative of phrases, the longest first; what matches nothing where there is none."""
    longest = sorted(phrases, key=lambda one: (-len(one), one))
    return "|".join(map(re.escape, longest)) or "(?!)"


def _found(body: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{body})(?!\w)", re.IGNORECASE)


def _phrases(phrases: tuple[str, ...]) -> re.Pattern[str] | None:
    return _found(_any(phrases)) if phrases else None


@lru_cache(maxsize=32)
def _forms(table: TimeWords) -> _Forms:
    months = {name: at + 1 for at, row in enumerate(table.months) for name in row}
    weekdays = {name: at for at, row in enumerate(table.weekdays) for name in row}
    units = {name: unit for unit, row in table.units for name in row}
    since = f"(?P<since>(?:{_any(table.since)}) )?"
    before = f"(?:(?:{_any(table.before_dates)}) )?"
    month, weekday = f"(?P<month>{_any(months)})", f"(?P<weekday>{_any(weekdays)})"
    counted = rf"(?P<count>\d{{1,3}}|{_any(word for word, _ in table.numbers)})"
    unit = f"(?P<unit>{_any(units)})"
    relative = [(name, phrases) for name, phrases in table.relative if phrases]
    relative.sort(key=lambda one: -max(map(len, one[1])))
    return _Forms(
        _phrases(table.last_session),
        _phrases(table.session_before),
        tuple((_found(f"{since}(?:{_any(phrases)})"), name) for name, phrases in relative),
        _counted(table.ago, since, counted, unit),
        _counted(table.past, "", counted, unit),
        (
            _found(f"{since}{before}{_DAY} (?:of )?{month}{_YEAR}"),
            _found(f"{since}{before}{month} {_DAY}{_YEAR}"),
        ),
        _found(f"{since}{before}{month}{_YEAR}"),
        _found(f"{since}{before}{weekday}"),
        months,
        weekdays,
        units,
    )


def _counted(frames: tuple[str, ...], since: str, count: str, unit: str) -> re.Pattern[str] | None:
    """Frames like "{n} {unit} ago"; the first that is found has the groups `count` and `unit`."""
    if not frames:
        return None
    bodies = [
        re.escape(frame).replace(r"\{n\}", count).replace(r"\{unit\}", unit) for frame in frames
    ]
    if len(bodies) > 1:  # a name may stand once in a pattern
        named = re.compile(r"\?P<(count|unit)>")
        bodies = [
            named.sub(lambda one, at=at: f"?P<{one[1]}{at}>", body)  # type: ignore[misc]
            for at, body in enumerate(bodies)
        ]
    return _found(f"{since}(?:{'|'.join(bodies)})")


def _spans(
    text: str, today: date, table: TimeWords, forms: _Forms
) -> Iterator[tuple[re.Match[str], _Days | None]]:
    """What was found with its days, before "since" takes their end away."""
    iso = _ISO.search(text)
    if iso is not None:
        yield iso, _iso_days(iso)
    for pattern, name in forms.relative:
        if (found := pattern.search(text)) is not None:
            yield found, _relative(name, today)
    for counted, days_of in ((forms.ago, _ago), (forms.past, _past)):
        if counted is not None and (found := counted.search(text)) is not None:
            yield found, days_of(found, today, table, forms)
    for pattern in forms.dates:
        if (found := pattern.search(text)) is not None:
            yield found, _named_day(found, today, forms)
    if (found := forms.month.search(text)) is not None and _is_name(found, "month", table):
        yield found, _named_month(found, today, forms)
    if (found := forms.weekday.search(text)) is not None:
        yield found, _named_weekday(found, today, forms)


def _is_name(found: re.Match[str], group: str, table: TimeWords) -> bool:
    """Whether a month is meant: "may" and "march" are words too, without one of `before_dates`."""
    alone = found[0].lower() == found[group].lower()
    return not (alone and found[group].lower() in table.ambiguous)


def _iso_days(found: re.Match[str]) -> _Days | None:
    year, month, day = found.groups()
    try:
        first = date(int(year), int(month), int(day or 1))
    except ValueError:
        return None
    return _Days(first, first) if day else _Days(first, _last_of_month(first))


def _last_of_month(first: date) -> date:
    return _plus_months(first.replace(day=1), 1) - timedelta(days=1)


def _plus_months(first: date, count: int) -> date:
    """The first of the month so many months on."""
    year, month = divmod(first.year * 12 + first.month - 1 + count, 12)
    return date(year, month + 1, 1)


def _relative(name: str, today: date) -> _Days:
    """The days of `today`, `yesterday`, `before_yesterday`, `this_week`, ... for a clock."""
    day, week = timedelta(days=1), timedelta(days=_WEEK)
    monday, month = today - timedelta(days=today.weekday()), today.replace(day=1)
    spans = {
        "today": (today, today),
        "yesterday": (today - day, today - day),
        "before_yesterday": (today - 2 * day, today - 2 * day),
        "this_week": (monday, today),
        "last_week": (monday - week, monday - day),
        "this_month": (month, today),
        "last_month": (_plus_months(month, -1), month - day),
        "this_year": (date(today.year, 1, 1), today),
        "last_year": (date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)),
    }
    return _Days(*spans[name])


def _length(found: re.Match[str], table: TimeWords, forms: _Forms) -> tuple[int, str] | None:
    """How many of which unit; None for more than a log has days."""
    groups = {
        name.rstrip("0123456789"): value
        for name, value in found.groupdict().items()
        if value is not None
    }
    said = groups["count"].lower()
    count = int(said) if said.isdigit() else dict(table.numbers)[said]
    return (count, forms.units[groups["unit"].lower()]) if 0 < count <= _COUNT_MAX else None


def _back(today: date, count: int, unit: str) -> date:
    if unit == "month":
        first = _plus_months(today.replace(day=1), -count)
        return min(first.replace(day=1) + timedelta(days=today.day - 1), _last_of_month(first))
    return today - timedelta(days=count * (_WEEK if unit == "week" else 1))


def _ago(found: re.Match[str], today: date, table: TimeWords, forms: _Forms) -> _Days | None:
    """One day so many days ago; the week or month around it for the others."""
    length = _length(found, table, forms)
    if length is None:
        return None
    day = _back(today, *length)
    if length[1] == "day":
        return _Days(day, day)
    if length[1] == "week":
        monday = day - timedelta(days=day.weekday())
        return _Days(monday, monday + timedelta(days=_WEEK - 1))
    return _Days(day.replace(day=1), _last_of_month(day))


def _past(found: re.Match[str], today: date, table: TimeWords, forms: _Forms) -> _Days | None:
    length = _length(found, table, forms)
    return None if length is None else _Days(_back(today, *length), today)


def _named_day(found: re.Match[str], today: date, forms: _Forms) -> _Days | None:
    month, day, year = forms.months[found["month"].lower()], int(found["day"]), found["year"]
    years = [int(year)] if year else range(today.year, today.year - 5, -1)
    for one in years:
        try:
            named = date(one, month, day)
        except ValueError:  # 29 February, in the years without one
            continue
        if year or named <= today:
            return _Days(named, named)
    return None


def _named_month(found: re.Match[str], today: date, forms: _Forms) -> _Days:
    month = forms.months[found["month"].lower()]
    year = int(found["year"]) if found["year"] else today.year - (month > today.month)
    first = date(year, month, 1)
    return _Days(first, _last_of_month(first))


def _named_weekday(found: re.Match[str], today: date, forms: _Forms) -> _Days:
    """The latest such day before today; since today's own it is today."""
    back = (today.weekday() - forms.weekdays[found["weekday"].lower()]) % _WEEK
    if back == 0 and not found["since"]:
        back = _WEEK
    day = today - timedelta(days=back)
    return _Days(day, day)
