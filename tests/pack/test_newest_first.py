"""Where an old value and a newer one are both shown, the newer one comes first."""

import re

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from tests.examples import examples

OLD = "My Zotero library has 45 sources by now"
NEW = "My Zotero library has 52 sources after today"
TIES = ["The cat sleeps on the sofa", "We walked along the river", "Soup again for lunch"]


def say(plane, text, session="s1", day=1, **fields):
    fields = {"role": "user", "actor": "Ana", **fields}
    return plane.record(text, session=session, ts=f"2026-01-{day:02}T08:00:00Z", **fields)


def order(block) -> list[int]:
    """The turns of the evidence as they print, the first one recorded being 1."""
    evidence = [entry for entry in block.entries if entry.section == "retrieved_evidence"]
    return [entry.seq - 1 for entry in evidence]  # the log begins with its segment


def pack(plane, query="how many sources are in my Zotero library?", budget=2000, **request):
    return plane.pack(query, budget=budget, sections=["retrieved_evidence"], **request)


def test_the_newer_value_comes_first_and_the_date_line_says_so(plane):
    say(plane, OLD)
    say(plane, "Where do I export a library of sources?")
    say(plane, NEW, day=3)
    block = pack(plane)
    assert order(block)[:2] == [3, 1]
    assert "2026-01-03, newest first\nAna: My Zotero library has 52" in block.text
    assert block.text.count("newest first") == 1
    assert block.tokens == sum(e.tokens for e in block.entries) + block.report["frame_tokens"]


def test_within_one_day_the_newer_value_comes_first_and_the_rest_stays_in_log_order(plane):
    say(plane, "Which library do I open for the sources of the essay?")
    say(plane, OLD)
    say(plane, NEW)
    say(plane, "Is the library of sources shared with others?")
    assert order(pack(plane)) == [3, 2, 1, 4]


def test_a_turn_that_repeats_an_old_value_stands_behind_the_memory_that_replaced_it(plane):
    plane.record("the Zotero library has 45 sources", kind="fact", key="zotero", task="essay")
    say(plane, OLD)
    plane.record("the Zotero library has 52 sources", kind="fact", key="zotero", task="essay")
    assert order(pack(plane))[:2] == [3, 2]


def test_what_shares_no_value_stays_in_log_order(plane):
    say(plane, "the mast of the boat is spruce")
    say(plane, "we painted the boat")
    block = pack(plane, "the boat")
    assert order(block) == [1, 2]
    assert "newest first" not in block.text


def test_as_of_a_seq_before_the_newer_value_the_old_one_stands_alone(plane):
    say(plane, OLD)
    say(plane, NEW)
    assert order(pack(plane.at(2))) == [1]


def test_a_small_block_keeps_the_order_of_the_log(plane):
    say(plane, OLD)
    say(plane, NEW, day=2)
    assert order(pack(plane)) == [2, 1]
    assert order(pack(plane, budget=500)) == [1, 2]


@pytest.mark.parametrize("told", [(), (OLD, NEW)])
def test_tokens_kept_for_date_lines_that_come_twice_are_spent_where_none_does(plane, told):
    for at, text in enumerate(told):
        say(plane, text, day=1 + at)
    for first in "anchor bench cabin deck engine flag galley hatch".split():
        for second in "keel ladder mast net oar pump rail sail".split():
            say(
                plane,
                f"The {first} of the Zotero boat stood all day long beside its {second}",
                day=9,
            )
    query = "how many sources are in my Zotero library on the boat?"
    block = plane.pack(
        query, budget=700, sections=["retrieved_evidence"], now="2026-02-01T08:00:00Z"
    )
    assert ("newest first" in block.text) == bool(told)
    short = [one.short_by for one in block.omissions if one.reason == "budget"]
    entry = max(one.tokens for one in block.entries)
    # Of the end mark less is spent than was kept, and no further turn fits.
    assert short
    assert 700 - block.tokens < entry + 12


TURN = st.tuples(
    st.sampled_from(["s1", "s2"]), st.integers(1, 4), st.sampled_from([OLD, NEW, *TIES])
)


@settings(deadline=None, max_examples=examples(16), suppress_health_check=[HealthCheck.too_slow])
@given(turns=st.lists(TURN, min_size=1, max_size=14), budget=st.integers(200, 1500))
def test_the_cap_always_holds_and_each_day_reads_in_one_order(
    tmp_path_factory: pytest.TempPathFactory, turns, budget
):
    with memplane.init(tmp_path_factory.mktemp("p"), durability="os") as plane:
        for at, (session, day, text) in enumerate(turns):
            say(plane, f"{text}, it is number {at}", session, day)
        block = plane.pack("how many sources has my library?", budget=budget)
    assert block.tokens <= budget
    evidence = block.text.partition("## Evidence")[2]
    days = re.split(r"(?m)^\d{4}-\d\d-\d\d(.*)$", evidence)[1:]
    for said, body in zip(days[::2], days[1::2], strict=True):
        numbers = [int(number) for number in re.findall(r"it is number (\d+)", body)]
        assert numbers in (sorted(numbers), sorted(numbers, reverse=True))
        assert not said or numbers == sorted(numbers, reverse=True)
