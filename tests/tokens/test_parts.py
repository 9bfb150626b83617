"""A long text is counted in parts, and its count is that of the whole."""

import tracemalloc

import pytest
from builders_counters import MADE_HERE
from hypothesis import given, strategies as st

from memplane.tokens import CHUNKS, text_slices
from memplane.wiring import make_counter
from tests.examples import sampled

PART = 16
ALPHABET = "ab Z9.'é語😀\t\n\r/-\u3000\u0301\ud800\u017f#"
TEXTS = st.text(ALPHABET, max_size=200) | st.lists(
    st.sampled_from(
        ["don't ", "we'll", "a" * 40, "1234567", "\n\n", "  ", "//", "!!!\r", "語" * 20, "Straße "]
    ),
    max_size=30,
).map("".join)  # fmt: skip


@pytest.fixture(scope="module")
def counters():
    return {name: make_counter(name, 1_000_000) for name in MADE_HERE}


@pytest.fixture(scope="module")
def in_parts():
    """Count in parts of a few characters, by counters that remember nothing of before."""

    def in_parts(counter, text):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("memplane.tokens.PART", PART)
            for costs in (getattr(counter, "_costs", None),):
                for memo in () if costs is None else (
                    costs.chunks, *(v.pretokens for v in costs._vocabularies)
                ):  # fmt: skip
                    memo.clear()
            return counter.count(text)

    return in_parts


@pytest.mark.parametrize("name", MADE_HERE)
@given(text=TEXTS)
def test_a_count_in_parts_is_the_count_of_the_whole(counters, in_parts, name, text):
    counter = counters[name]
    assert counter.count(text) == in_parts(counter, text)


@given(TEXTS, st.integers(1, 30))
def test_the_parts_are_the_text_and_have_its_chunks(text, size):
    found = list(text_slices(text, size))
    assert "".join(found) == text
    assert [c for part in found for c in CHUNKS.findall(part)] == CHUNKS.findall(text)


@pytest.mark.sized
@pytest.mark.parametrize("unit", sampled(["z y x ", "a1", "語。", "2026-11-23 INFO\n"], 4))
def test_counting_takes_room_for_a_part_of_a_long_text(counters, unit):
    text = unit * (1_000_000 // len(unit.encode()))
    counter = counters["bound/1"]
    counter.count(unit * 1000)
    tracemalloc.start()
    counter.count(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 2 * len(text.encode()) + 3_000_000
