"""A task or session by depths: each shard within its budget, and the shallower one within it."""

import contextlib
import random

import pytest
from builders_planes import rows
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import BudgetError, InputError, MemplaneError, NotFoundError, ScopeError
from tests.examples import examples

UNTOLD = ("session", "approval", "episode", "secret", "forget", "pin", "touch", "purge", "repair")
CHANNELS = ("private", "public", "agent")


def opened(plane, handle, budget, **asked):
    """What a handle opens, None where the budget holds nothing of it or nobody may see it."""
    try:
        return plane.expand(handle, budget, **asked)
    except (BudgetError, ScopeError, NotFoundError):
        return None


def pages(plane, handle, budget, **asked):
    """A handle and all that it goes on with."""
    while handle is not None:
        page = plane.expand(handle, budget, **asked)
        yield page
        assert page.next != handle, "no page is followed by itself"
        handle = page.next


def check_depths(plane, name, budget, **asked):
    before = None
    for depth in range(4):
        shard = opened(plane, f"{name}?depth={depth}", budget, **asked)
        if shard is None:
            assert before is None, "a deeper shard shows what the shallower one does"
            continue
        assert 0 < shard.tokens <= budget
        assert shard.tokens == plane.context.counter(plane.upkeep.policies).count(shard.text)
        ids = {*shard.events, *shard.parts}
        assert len(ids) == len(shard.events) + len(shard.parts), "an id is whole or a part"
        if before is not None:
            assert shard.text.startswith(before.text)
            assert ids >= {*before.events, *before.parts}
            assert set(shard.events) >= set(before.events)
            assert {**shard.left_out, **before.left_out}.keys() == shard.left_out.keys()
        before = shard


def names_in(plane):
    tasks = [f"task/{view.id}" for view in plane.work.tasks.list(all=True)]
    return [*tasks, *(f"session/{one.id}" for one in plane.work.sessions.list())]


@settings(max_examples=examples(10))
@given(
    seed=st.integers(0, 10**6), count=st.integers(1, 80),
    budgets=st.lists(st.integers(1, 3000), min_size=1, max_size=4),
    channel=st.sampled_from(CHANNELS),
)  # fmt: skip
def test_each_depth_is_within_its_budget_and_begins_with_the_one_before(
    tmp_path_factory, seed, count, budgets, channel
):
    with memplane.init(tmp_path_factory.mktemp("p") / "p", durability="os") as plane:
        plane.record_many(rows(seed, count))
        for name in names_in(plane):
            for budget in budgets:
                check_depths(plane, name, budget, channel=channel)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300))
def test_the_depths_hold_in_three_hundred_planes(tmp_path, seed):
    chance = random.Random(seed)
    with memplane.init(tmp_path / "p", durability="os") as plane:
        plane.record_many(rows(seed, 20 + seed))
        for name in names_in(plane):
            for budget in (
                chance.randint(1, 60),
                chance.randint(60, 400),
                chance.randint(400, 6000),
            ):
                check_depths(plane, name, budget, channel=chance.choice(CHANNELS))


def shown_whole(plane, events, channel):
    """Ids of the events that a reader of the channel is to find among the pages."""
    found = set()
    for event in events:
        if event.kind in UNTOLD or not event.text.strip() or plane.work.archived(event):
            continue
        try:
            plane.event(event.id, channel=channel)
        except NotFoundError:
            continue
        found.add(event.id)
    return found


@settings(max_examples=examples(8))
@given(seed=st.integers(0, 10**6), count=st.integers(5, 60), budget=st.integers(60, 900))
def test_the_pages_of_a_session_show_every_event_that_may_be_seen_and_no_other(
    tmp_path_factory, seed, count, budget
):
    with memplane.init(tmp_path_factory.mktemp("p") / "p", durability="os") as plane:
        plane.record_many(rows(seed, count))
        for session in plane.work.sessions.list():
            expected = shown_whole(plane, plane.events(session=session.id), "public")
            if not expected:
                continue
            told = set()
            for page in pages(plane, f"session/{session.id}?depth=3", budget, channel="public"):
                assert page.tokens <= budget
                told |= {*page.events, *page.parts}
            assert told == expected


def test_the_pages_of_a_task_show_all_that_belongs_to_it(plane):
    mine = {plane.work.tasks.open("parser", "Parse nested lists.", plan=["tests"], session="s").seq}
    for number in range(30):
        turn = plane.record(f"turn {number} on lists " * (number + 1), role="user", session="s")
        mine.add(turn.seq)
        plane.record(f"turn {number} on herons", role="user", session="other", ns="/global")
    mine.add(plane.record("a stack", kind="decision", ns="/task/parser", session="other").seq)
    plane.work.tasks.open("docs", "Write it down.", session="s")
    plane.work.tasks.switch("docs", session="s")
    plane.record("not of the parser", role="user", session="s")
    told = set()
    for page in pages(plane, "task/parser?depth=3", 500):
        assert page.tokens <= 500
        told |= {plane.event(id_).seq for id_ in (*page.events, *page.parts)}
    assert told == mine


def test_a_task_is_told_ever_more_fully(plane):
    plane.work.tasks.open(
        "parser", "Parse nested lists.", plan=["write tests", "lexer"], session="s"
    )
    plane.record("How shall it nest?", role="user", session="s")
    plane.record("lists nest at most 40 deep", kind="fact", session="s")
    plane.record("a stack, no recursion", kind="decision", session="s")
    told = [plane.expand(f"task/parser?depth={depth}", 2000) for depth in range(4)]
    assert told[0].text == "task parser: Parse nested lists. Next, step 1 of 2: write tests.\n"
    assert told[1].text.removeprefix(told[0].text) == (
        "- todo step 1: write tests\n- todo step 2: lexer\n- decided: a stack, no recursion\n"
    )
    assert told[2].text.removeprefix(told[1].text) == "fact: lists nest at most 40 deep\n"
    assert told[3].text.removeprefix(told[2].text) == "user: How shall it nest?\n"
    assert [one.next for one in told] == [None] * 4


def test_a_session_is_told_ever_more_fully(plane):
    plane.record("Why does the parser hang?", role="user", session="s", task="parser")
    plane.record("It loops on commas.", role="assistant", session="s")
    plane.record("commas need a look ahead", kind="insight", session="s")
    told = [plane.expand(f"session/s?depth={depth}", 2000).text for depth in range(4)]
    assert told[0] == "session s (2026-01-05, 3 events): Why does the parser hang?\n"
    assert told[1].removeprefix(told[0]) == "- Came to: It loops on commas.\n- Tasks: parser\n"
    assert told[2].removeprefix(told[1]) == "insight: commas need a look ahead\n"
    assert told[3].removeprefix(told[2]) == "assistant: It loops on commas.\n"


def test_without_a_depth_it_is_the_paragraph(plane):
    plane.work.tasks.open("parser", "Parse nested lists.", plan=["write tests"])
    assert plane.expand("task/parser") == plane.expand("expand://task/parser?depth=1")


def test_a_closed_task_is_told_as_an_open_one_is(plane):
    plane.work.tasks.open("parser", "Parse nested lists.", session="s")
    plane.record("a stack, no recursion", kind="decision", session="s")
    plane.work.tasks.done("parser", "It parses.")
    for number in range(130):
        plane.work.tasks.open(f"t{number}", "another")
        plane.work.tasks.done(f"t{number}")
    assert "a stack, no recursion" in plane.expand("task/parser?depth=2").text
    assert "Done: It parses." in plane.expand("task/parser?depth=0").text


def told(plane, handle, **asked):
    return plane.expand(handle, 4000, **asked)


@pytest.fixture
def shelf(plane):
    """A task and a session with one event for each reason to hide it, and one that stays."""
    plane.work.tasks.open("t", "The open goal.", session="s")
    plane.record("stays", kind="fact", session="s")
    plane.record("replaced word", kind="fact", key="k", session="s")
    plane.record("newer word", kind="fact", key="k", session="s")
    plane.record("forgotten word", kind="fact", key="gone", session="s")
    plane.forget("gone")
    plane.record("high word", kind="fact", sensitivity="high", session="s")
    plane.record("tabs word", kind="preference", session="s")
    plane.record("own word", kind="fact", ns="/agent/a", session="s")
    plane.record("expired word", kind="fact", session="s", valid_until="2026-01-01T00:00:00Z")
    plane.record("secret word", kind="fact", sensitivity="secret", session="s")
    plane.record("unapproved word", kind="artifact", session="s", data={"name": "a.md"})
    return plane


HIDDEN = {
    "expired": 1, "forgotten": 1, "kind": 1, "ns": 1, "sensitivity": 2, "superseded": 1,
    "unapproved": 1,
}  # fmt: skip


@pytest.mark.parametrize("handle", ["task/t?depth=3", "session/s?depth=3"])
def test_what_may_not_be_seen_is_left_out_and_counted_by_its_reason(shelf, handle):
    shard = told(shelf, handle, channel="public")
    assert dict(shard.left_out) == HIDDEN
    for word in ("replaced", "forgotten", "high", "tabs", "own", "expired", "secret", "unapproved"):
        assert f"{word} word" not in shard.text
    assert "stays" in shard.text
    assert "newer word" in shard.text


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("form", ["task/t", "session/s"])
def test_an_agent_is_told_what_is_its_own_and_nobody_else_is(shelf, form, depth):
    handle = f"{form}?depth={depth}"
    for asked in ({}, {"channel": "agent"}, {"agent": "b"}):
        assert "own word" not in told(shelf, handle, **asked).text
    assert ("own word" in told(shelf, handle, agent="a").text) == (depth >= 2)


def test_the_clock_decides_what_holds(shelf):
    for handle in ("task/t?depth=2", "session/s?depth=2"):
        assert "expired word" in told(shelf, handle, now="2025-12-31T00:00:00Z").text


def test_an_earlier_plane_tells_what_stood_then(shelf):
    then = shelf.at(4)
    for handle in ("task/t?depth=3", "session/s?depth=3"):
        assert "replaced word" in told(then, handle).text
        assert "newer word" not in told(then, handle).text
    with pytest.raises(NotFoundError):
        told(then, "memory/global/gone")
    with pytest.raises(NotFoundError):
        told(then, "event/9")


def test_a_forgotten_session_says_that_nothing_is_in_force(plane):
    plane.record("a heron", role="user", session="s")
    plane.forget(session="s")
    with pytest.raises(NotFoundError, match=r"nothing of session 's' is in force \(forgotten\)"):
        plane.expand("session/s")


def test_what_is_not_for_the_channel_is_answered_as_what_is_not_there(plane):
    plane.record("Why?", role="user", session="hidden", sensitivity="high")
    plane.work.tasks.open("quiet", "A goal.", sensitivity="high")
    plane.record("8 spaces", kind="preference", key="tabs")
    plane.record("mine", kind="fact", key="k", ns="/agent/a")
    for handle, words in {
        "session/hidden": "no session 'hidden'",
        "task/quiet?depth=3": "no task 'quiet'",
        "memory/global/tabs": "no value of 'tabs' in /global",
        "event/2": "no event 2",
    }.items():
        for call in (plane.expand, lambda handle, **asked: plane.pack(expand=[handle], **asked)):
            with pytest.raises(NotFoundError) as error:
                call(handle, channel="public")
            assert str(error.value) == words
    with pytest.raises(ScopeError):
        plane.expand("memory/agent/a/k", agent="b")
    assert plane.expand("memory/agent/a/k", agent="a").text == "fact k: mine\n"


def test_a_memory_is_its_value_and_then_its_history_the_newest_first(plane):
    for word in ("one", "two", "three"):
        plane.record(word, kind="fact", key="n/a", session="s")
    assert plane.expand("memory/global/n/a").text == "fact n/a: three\n"
    history = plane.expand("memory/global/n/a?depth=1")
    assert history.text == (
        "fact n/a: three\nfact n/a: [superseded by #4] two\nfact n/a: [superseded by #3] one\n"
    )
    plane.forget("n/a")
    with pytest.raises(NotFoundError, match="no value of memory 'n/a' is in force"):
        plane.expand("memory/global/n/a")
    assert "[forgotten by #5] three" in plane.expand("memory/global/n/a?depth=1").text
    assert plane.at(4).expand("memory/global/n/a").text == "fact n/a: three\n"


@pytest.mark.parametrize("budget", [1, 7, 20, 60, 200, 4000])
def test_a_long_history_goes_on_to_its_first_value(plane, budget):
    for number in range(40):
        plane.record(f"value {number} " * (1 + number % 7), kind="fact", key="k")
    whole, parts = [], []
    try:
        for page in pages(plane, "memory/global/k?depth=1", budget):
            assert page.tokens <= budget
            whole += page.events
            parts += page.parts
    except BudgetError:
        assert budget < 30
        return
    seqs = [plane.event(id_).seq for id_ in (*whole, *parts)]
    assert sorted(seqs) == list(range(2, 42))


def test_an_unknown_name_is_answered_with_the_closest_that_may_be_known(plane):
    plane.work.tasks.open("parser", "Parse.")
    plane.work.tasks.open("parsers", "Hidden.", sensitivity="high")
    plane.record("x", kind="fact", key="db.engine", session="monday")
    for handle, close in (
        ("task/parserss", "parser"), ("session/mondey", "monday"),
        ("memory/global/db.engin", "db.engine"),
    ):  # fmt: skip
        with pytest.raises(NotFoundError) as lost:
            plane.expand(handle, channel="public")
        assert f"did you mean {close}?" in str(lost.value).replace("'", "")


@settings(max_examples=examples(16))
@given(
    form=st.sampled_from(["task/", "session/", "memory/global/", "event/", "#", "views/", ""]),
    name=st.text(max_size=30), budget=st.integers(-5, 200),
)  # fmt: skip
def test_whatever_is_given_it_is_answered_or_refused_by_name(tmp_path_factory, form, name, budget):
    with memplane.init(tmp_path_factory.mktemp("p") / "p", durability="os") as plane:
        plane.record("a turn", role="user", session="s", task="t")
        with contextlib.suppress(MemplaneError):
            assert plane.expand(f"{form}{name}", budget).tokens <= budget
        with contextlib.suppress(MemplaneError):
            assert plane.pack("turn", expand=[f"{form}{name}"], budget=300).tokens <= 300


@pytest.mark.parametrize("budget", [0, -1, True, "many", 1.5])
def test_a_budget_that_is_none_is_refused(plane, budget):
    plane.work.tasks.open("parser", "Parse.")
    with pytest.raises(InputError, match="budget: expected"):
        plane.expand("task/parser", budget)


def test_nothing_that_is_expanded_shows_what_todays_policy_redacts(plane):
    plane.work.tasks.open("parser", "Parse mellowfruit lists.", session="s")
    plane.record("mellowfruit is the word", role="user", session="s")
    plane.record("mellowfruit", kind="decision", key="k", session="s")
    path = plane.home / "policies" / "privacy.yaml"
    text = path.read_text()
    assert "redact_patterns:" in text
    path.write_text(text.replace("redact_patterns:", "redact_patterns: ['mellowfruit'] #", 1))
    for handle in ("task/parser?depth=3", "session/s?depth=3", "memory/global/k?depth=1", "#3"):
        assert "mellowfruit" not in plane.expand(handle).text
