"""A memory that nobody touched for long says so by one fixed word, and moves no prefix by it."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import InputError, NotFoundError
from tests.examples import examples
from tests.pack.test_prefix_law import STEP, apply_step, holds

DAY = "2026-01-05T12:00:00.000000Z"  # the clock of the tests
LATER = "2026-02-14T12:00:00.000000Z"  # 40 days on
MUCH_LATER = "2027-01-05T12:00:00.000000Z"
FRESH, STALE = "fact ci: CI has two runners", "fact ci (stale): CI has two runners"


@pytest.fixture
def noted(plane):
    plane.record("CI has two runners", kind="fact", key="ci", id="fact", session="old")
    plane.record("hello", role="user", session="old")
    return plane


def under(block, heading):
    return block.text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("intent", ["fast", "deep", "orient"])
@pytest.mark.parametrize("budget", [150, 900, 3000])
def test_in_the_window_of_a_block_without_a_session_it_is_said_by_the_clock(noted, intent, budget):
    asked = {"sections": ["recent_window"], "budget": budget, "intent": intent}
    early, late = (noted.pack("", now=now, **asked) for now in (DAY, MUCH_LATER))
    assert FRESH in under(early, "Earlier") + under(early, "Last sessions")
    assert STALE in under(late, "Earlier") + under(late, "Last sessions")
    assert late.tokens <= budget
    assert noted.pack("", now=LATER, **asked).text == late.text, "no age: the word alone"


def test_in_the_window_of_a_session_that_orients_itself_it_is_said_by_the_clock(noted):
    asked = {"session": "old", "intent": "orient", "sections": ["recent_window"], "budget": 2000}
    assert FRESH in under(noted.pack("", now=DAY, **asked), "Earlier")
    assert STALE in under(noted.pack("", now=LATER, **asked), "Earlier")


@pytest.mark.parametrize("budget", [900, 4000])
def test_before_the_tail_of_a_session_it_is_said_as_of_the_epoch(noted, clock, budget):
    asked = {"session": "old", "budget": budget}
    begun = noted.pack("", now=DAY, **asked)
    later = noted.pack("", now=MUCH_LATER, **asked)
    assert begun.text == later.text
    assert FRESH in begun.text
    clock.now = LATER
    noted.work.sessions.checkpoint("old")
    marked = noted.pack("", **asked)
    assert STALE in marked.text
    assert FRESH not in marked.text
    assert marked.report["prefix"]["epoch_seq"] != begun.report["prefix"]["epoch_seq"]
    noted.touch(key="ci")
    assert noted.pack("", **asked).text == marked.text, "a touch waits for the next epoch"
    noted.work.sessions.checkpoint("old")
    assert FRESH in noted.pack("", **asked).text


def test_in_the_window_of_a_session_it_is_said_as_of_the_epoch(noted, clock):
    asked = {"session": "old", "budget": 1000, "sections": ["recent_window"]}
    clock.now = LATER
    noted.record("hello again", role="user", session="old")
    before = noted.pack("", **asked)
    assert FRESH in under(before, "Earlier")
    noted.work.sessions.checkpoint("old")
    after = noted.pack("", **asked)
    assert STALE in under(after, "Earlier")
    noted.record("and again", role="user", session="old")
    clock.now = MUCH_LATER
    end = after.report["prefix"]["stable_bytes"]["prompt"]
    assert noted.pack("", **asked).text.encode().startswith(after.text.encode()[:end])


def test_in_the_head_of_a_session_a_card_says_so_as_of_its_start(noted, clock):
    clock.now = LATER
    noted.work.sessions.start("new")
    asked = {"session": "new", "budget": 2000, "sections": ["knowledge_cards"]}
    assert STALE in under(noted.pack("", **asked), "Knowledge")
    assert noted.pack("", now=DAY, **asked).text == noted.pack("", **asked).text


@pytest.mark.parametrize(
    "handle", ["memory/global/ci", "memory/global/ci?depth=1", "session/old?depth=2", "event/2"]
)
def test_what_a_handle_opens_says_so_in_a_block_and_alone(noted, handle):
    asked = {"sections": ["expansions"], "expand": [handle], "budget": 900}
    assert STALE in noted.pack("", now=LATER, **asked).text
    assert FRESH in noted.pack("", now=DAY, **asked).text
    early, late = (noted.expand(handle, now=now) for now in (DAY, LATER))
    if handle == "event/2":  # the text and nothing else: that it is stale stands beside it
        assert early.text == late.text == "CI has two runners"
        assert (early.stale, late.stale) == (False, True)
        assert late.as_json()["stale"]
    else:
        assert FRESH in early.text
        assert STALE in late.text
    noted.touch(key="ci")
    noted.pin(key="ci")
    assert "stale" not in noted.expand(handle, now=MUCH_LATER).text


class Days:
    """A clock that moves by whole days."""

    def __init__(self):
        self.moment = datetime.fromisoformat(DAY)

    def __call__(self):
        return self.moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


AGEING = st.tuples(
    st.sampled_from(["days", "touch", "note"]), st.integers(1, 60), st.integers(0, 6)
)


@settings(max_examples=examples(8))
@given(
    steps=st.lists(st.one_of(STEP, AGEING, AGEING), min_size=5, max_size=60),
    budget=st.sampled_from([1000, 4000]), intent=st.sampled_from(["fast", "deep", "orient"]),
)  # fmt: skip
def test_no_word_that_comes_with_the_clock_breaks_a_prefix(tmp_path_factory, steps, budget, intent):
    clock = Days()
    with memplane.init(tmp_path_factory.mktemp("law"), durability="os", clock=clock) as plane:
        plane.record("w1 w2 w3", kind="observation", id="first", session="s")
        plane.record("w1 w2 w3 w4 w5", role="user", session="s")
        before = plane.pack(session="s", budget=budget, intent=intent)
        for number, (what, length, key) in enumerate(steps):
            match what:
                case "days":
                    clock.moment += timedelta(days=length)
                case "touch":
                    plane.touch("first")
                case "note":
                    kind = ("fact", "observation", "plan")[key % 3]
                    plane.record(f"w{key} w{length}", kind=kind, session="s")
                case _:
                    apply_step(plane, (what, length, key), number)
            after = plane.pack(session="s", budget=budget, intent=intent)
            holds(plane, before, after)
            before = after


# --- a `from` that lies outside of what there is ---


@pytest.mark.parametrize("start", [18, 19, 10**12])
def test_a_character_behind_the_end_is_refused_with_the_length(noted, start):
    with pytest.raises(InputError) as error:
        noted.expand(f"event/2?from={start}")
    assert str(error.value) == (
        f"from: it has 18 characters; expected from=17 or less, found {start}"
    )
    assert noted.expand("event/2?from=17").text == "s"


def test_a_view_and_an_artifact_say_where_they_end(noted, tmp_path):
    views = noted.home / "views"
    views.mkdir(exist_ok=True)
    (views / "identity.md").write_text("ten chars\n")
    path = tmp_path / "a.md"
    path.write_text("ten chars\n")
    added = noted.work.artifacts.add(path)
    noted.work.artifacts.approve(added.receipt.seq)
    for name in ("views/identity.md", added.facts.handle, f"#{added.receipt.seq}"):
        assert noted.expand(f"{name}?from=9").text == "\n"
        with pytest.raises(InputError, match=r"10 characters; expected from=9 or less, found 10"):
            noted.expand(f"{name}?from=10")


def test_an_event_behind_the_last_of_a_session_or_before_the_first_of_a_memory_is_refused(noted):
    with pytest.raises(InputError, match=r"the last event of session 'old' is 3; .* found 4"):
        noted.expand("session/old?depth=3&from=4")
    with pytest.raises(InputError, match=r"the first value of memory 'ci' is event 2; .* found 1"):
        noted.expand("memory/global/ci?depth=1&from=1")
    noted.forget("ci")
    with pytest.raises(NotFoundError):
        noted.expand("memory/global/ci")
