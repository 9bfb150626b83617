"""Times in, canonical times out."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from memplane.errors import InputError
from memplane.intake import time_bound, timestamp


@pytest.mark.parametrize(
    ("given_time", "canonical"),
    [
        ("2026-01-05T12:17:31Z", "2026-01-05T12:17:31.000000Z"),
        ("2026-01-05t12:17:31.459z", "2026-01-05T12:17:31.459000Z"),
        ("2026-01-05 12:17:31.123456789+00:00", "2026-01-05T12:17:31.123456Z"),
        ("2026-01-05T00:30:00+02:00", "2026-01-04T22:30:00.000000Z"),
        ("2024-02-29T23:59:59.999999-00:01", "2024-03-01T00:00:59.999999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999999Z"),
        (
            datetime(2026, 1, 5, 14, 0, tzinfo=timezone(timedelta(hours=2))),
            "2026-01-05T12:00:00.000000Z",
        ),
    ],
)
def test_a_time_becomes_utc_with_six_decimals_and_is_never_rounded_up(given_time, canonical):
    assert timestamp(given_time) == canonical


@pytest.mark.parametrize(
    ("given_time", "reason"),
    [
        ("2026-01-05T12:17:31", "no zone"),
        ("2026-01-05", "no zone"),
        (datetime(2026, 1, 5), "naive"),  # noqa: DTZ001 - the point of the test
        ("2026-06-30T23:59:60Z", "leap second"),
        ("2026-02-29T00:00:00Z", "no such time"),
        ("2026-13-01T00:00:00Z", "no such time"),
        ("2026-01-05T24:00:00Z", "no such time"),
        ("0000-01-01T00:00:00Z", "no such time"),
        ("0001-01-01T00:00:00+01:00", "outside the years"),
        ("9999-12-31T23:59:59-01:00", "outside the years"),
        ("2026-01-05T12:17:31+24:00", "a day or more"),
        ("2026-01-05T12:17:31+01:60", "59 minutes"),
        ("2026-01-05T12:17:31Z\n", "no time that can be read"),
        ("\u0662026-01-05T12:17:31Z", "no time that can be read"),
        ("yesterday", "no time that can be read"),
        ("", "no time that can be read"),
        (1767615451, "type int"),
        (None, "type NoneType"),
    ],
)
def test_a_time_that_cannot_be_ordered_is_refused_with_the_reason(given_time, reason):
    with pytest.raises(InputError) as error:
        timestamp(given_time)
    assert reason in str(error.value)
    assert error.value.where == "ts"


MOMENTS = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001 - hypothesis wants naive bounds
    max_value=datetime(9998, 12, 31),  # noqa: DTZ001 - hypothesis wants naive bounds
    timezones=st.just(UTC),
)


@given(MOMENTS, MOMENTS)
def test_canonical_times_compare_as_the_moments_do_and_come_back_unchanged(one, other):
    first, second = timestamp(one), timestamp(other)
    assert (first < second) == (one < other)
    assert len(first) == 27
    assert timestamp(first) == first
    assert timestamp(one.isoformat()) == first


def test_a_day_alone_bounds_a_choice_by_its_first_and_its_last_moment_in_utc():
    assert time_bound("2026-01-05", where="since") == "2026-01-05T00:00:00.000000Z"
    assert time_bound("2026-01-05", where="until", last=True) == "2026-01-05T23:59:59.999999Z"
    whole = "2026-01-05T12:17:31+02:00"
    assert time_bound(whole, where="since") == timestamp(whole)
    for wrong in ("2026-13-01", "2026-02-29", "2026-1-5", "2026-01-05T12:17:31", "today"):
        with pytest.raises(InputError) as error:
            time_bound(wrong, where="since")
        assert error.value.where == "since"
