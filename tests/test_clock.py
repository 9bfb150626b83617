"""Ids of events that came without one."""

from datetime import UTC, datetime

from hypothesis import given, strategies as st

from memplane.clock import ulid

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001
def test_an_id_begins_with_the_milliseconds_of_its_time(moment):
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    made = ulid(text)
    assert len(made) == 26
    number = 0
    for letter in made[:10]:
        number = number * 32 + CROCKFORD.index(letter)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    milliseconds = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    assert number == max(0, milliseconds)


def test_two_of_one_time_differ():
    now = "2026-01-05T12:00:00.000000Z"
    assert len({ulid(now) for _ in range(1000)}) == 1000
