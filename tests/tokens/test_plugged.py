"""A counter of one's own stands where memplane's do: named in reports, and never over budget."""

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane.acms import HeuristicTokenCounter, TiktokenCounter
from memplane.errors import ConfigurationError, InputError
from memplane.explain.replay import replay_pack
from memplane.tokens import PluggedCounter, WholeCounter
from memplane.upkeep.reports import find_report


class Words:
    name = "words"

    def __init__(self):
        self.asked = 0

    def count(self, text):
        self.asked += 1
        return len(text.split())


class Nameless:
    def count(self, text):
        return len(text)


@given(st.text(max_size=80))
def test_a_text_costs_the_sum_of_its_lines(text):
    """A2-62: the law of every counter of memplane holds of one that does not know it."""
    counter = PluggedCounter(HeuristicTokenCounter())
    assert counter.count(text + "\n" + text) == counter.count(text + "\n") + counter.count(text)


def test_the_default_of_the_plan_is_a_quarter_of_the_characters():
    """A2-63: len(text) // 4."""
    assert [HeuristicTokenCounter().count("a" * n) for n in (0, 3, 4, 8)] == [0, 0, 1, 2]


def test_a_counter_without_a_name_is_called_by_its_class():
    assert PluggedCounter(Nameless()).name == "Nameless"
    assert WholeCounter(Words()).name == "words"


def test_a_line_is_counted_once():
    words = Words()
    counter = PluggedCounter(words)
    assert [counter.count("a b\nc\n") for _ in range(9)] == [3] * 9
    assert words.asked == 2


@pytest.mark.parametrize("count", [-1, 1.5, "2", None, True])
def test_a_count_that_is_none_is_refused(count):
    class Odd:
        def count(self, _):
            return count

    with pytest.raises(InputError, match="Odd: expected a whole number"):
        PluggedCounter(Odd()).count("a")


@pytest.fixture
def words(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False, environment={}, counter=Words()) as plane:
        for n in range(60):
            plane.record(f"The heron of pond {n} eats {n % 7} frogs", role="user", session="s")
        yield plane


def test_a_block_is_within_its_budget_in_the_counter_it_was_made_with(words):
    """A2-62: named in report and stats, and held."""
    block = words.pack("which heron eats frogs?", budget=120, session="s", save_report=True)
    assert block.report["counter"] == "words"
    assert 60 < len(block.text.split()) <= block.tokens <= 120


def test_other_counters_do_not_believe_its_projections(words):
    asked = {"budget": 300, "session": "s", "now": "2026-01-05T12:00:00Z"}
    before = words.pack("heron", **asked).text
    words.upkeep.rebuild()
    words.close()
    with memplane.open(words.home, environment={}) as plain:
        assert plain.pack("heron", **asked).report["counter"] == "bound/1"
    with memplane.open(words.home, environment={}, counter=Words()) as again:
        assert again.pack("heron", **asked).text == before


def test_a_pack_is_not_replayed_by_another_counter(words):
    """G6: replay without it refuses with its name."""
    words.pack("heron", budget=300, session="s", save_report=True)
    saved = find_report(words.home, "last")
    assert replay_pack(words, saved).same
    words.close()
    with memplane.open(words.home, environment={}) as plain:
        found = replay_pack(plain, saved)
        assert found.block is None
        assert "'words'" in found.note


def test_what_is_no_counter_is_refused(tmp_path):
    for wrong in (object(), "nobody-offers-this"):
        with pytest.raises(InputError, match="counter"):
            memplane.init(tmp_path / "plane", trusted=False, counter=wrong)

    class Posing(Words):
        name = "bound/1"

    with pytest.raises(InputError, match="another name"):
        memplane.init(tmp_path / "plane", trusted=False, counter=Posing())


def test_tiktoken_counts_as_its_encoding_does():
    """A2-63: tiktoken optional."""
    pytest.importorskip("rs_bpe", reason="exact counts need rs-bpe")
    counter = TiktokenCounter()
    assert counter.name == "tiktoken:o200k_base"
    assert counter.count("hello world") == 2
    for wrong in ("o200k", "p50k_base", ""):
        with pytest.raises(ConfigurationError, match="o200k_base"):
            TiktokenCounter(wrong)
