"""Generated events: the same for the same seed, plausible, and as many as are asked for."""

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given, settings, strategies as st

from memplane.scenario.document import generated
from tests.examples import examples

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 2**31 - 1), count=st.integers(1, 400), length=st.integers(1, 300)
)  # fmt: skip
def test_a_seed_gives_the_same_rows_always_and_exactly_so_many(seed, count, length):
    rows = list(generated(seed, count, START, session_events=length))
    assert rows == list(generated(seed, count, START, session_events=length))
    assert len(rows) == count
    assert len({row["id"] for row in rows}) == count
    times = [row["ts"] for row in rows]
    assert times == sorted(times)
    assert times[0] == START


def test_another_seed_gives_other_rows():
    one, other = (next(iter(generated(seed, 9, START)))["id"] for seed in (1, 2))
    assert one != other


def test_rows_look_like_sessions_of_people_who_code():
    rows = list(generated(7, 5000, START))
    kinds = Counter(row.get("kind", "message") for row in rows)
    tools = kinds["tool_call"] + kinds["tool_result"]
    assert 0.55 < tools / len(rows) < 0.8
    assert kinds["decision"] > 50
    assert kinds["session"] == len({row["session"] for row in rows}) > 20
    keys = [row["key"] for row in rows if "key" in row]
    assert len(set(keys)) < len(keys)  # some are replaced
    prompts = [row for row in rows if row.get("role") == "user"]
    assert 0.05 < len(prompts) / len(rows) < 0.12


def test_the_first_rows_of_a_seed_never_change():
    """Scenarios elsewhere count on what a seed gives."""
    rows = list(generated(65, 12, START))
    assert [row["text"] for row in rows[:4]] == [
        "Session started",
        "What is left to do on inbox?",
        (
            "The cause is in `inbox_cache`: it sorts the limiter while a migration runs, so nothing is "
            "written. The tests of inbox pass now, 281 of them. There is one more place: "
            "src/inbox/config.py:173 writes the router without looking at the fixture."
        ),
        "Edit file_path=src/inbox/schema.py",
    ]
    assert rows[1]["ts"].isoformat() == "2026-01-05T12:00:22+00:00"
