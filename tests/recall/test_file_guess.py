"""The guess of what a session is about to need: what counts, what never shows, how much is looked at."""

import random
from itertools import count

import pytest
from builders_journal import Journal
from hypothesis import given, settings, strategies as st

from memplane.policy import ChannelRule
from memplane.projections.files import Files
from memplane.recall.file_guess import TERMS, guess_files
from memplane.recall.suppress import Scope
from tests.examples import examples

NOW = "2026-01-05T12:00:00.000000Z"


def scope(**fields):
    rule = fields.pop("rule", ChannelRule(("high", "secret")))
    return Scope(rule, now=NOW, as_of=10**9, **fields)


def touch(path, session="s", branch="main", **fields):
    data = {"path": path, "tool": "Edit", "branch": branch}
    return {"kind": "tool_call", "text": "Edit", "session": session, "data": data, **fields}


def prompt(text, session="s", branch="main", **fields):
    row = {"kind": "message", "role": "user", "text": text, "session": session}
    return {**row, "data": {"branch": branch}, **fields}


def state_of(*rows):
    projector = Files()
    state = projector.initial()
    for line in Journal(rows).lines:
        projector.apply(state, line)
    return state


def paths(state, seen=None, *, query="", branch="", named=(), limit=20):
    seen = seen or scope()
    found = guess_files(state, seen, query=query, branch=branch, named=named, limit=limit)
    return [one.path for one in found]


def test_the_branch_comes_before_what_was_touched_since():
    state = state_of(
        touch("mine.py", "a", "fix/login"), *(touch(f"new{n}.py", "b") for n in range(5))
    )
    assert paths(state, branch="fix/login")[0] == "mine.py"
    assert paths(state)[-1] == "mine.py"


def test_a_prompt_like_an_earlier_one_finds_the_files_that_it_led_to():
    state = state_of(
        prompt("tokens are counted twice", "a"),
        touch("src/ledger.py", "a"),
        prompt("rename the option", "b"),
        *(touch(f"cli/option{n}.py", "b") for n in range(6)),
    )
    assert paths(state, query="why are tokens counted so slowly?")[0] == "src/ledger.py"


def test_words_of_the_query_and_of_the_branch_find_paths_made_of_them():
    rows = [touch(f"src/other{n}.py") for n in range(6)]
    state = state_of(touch("src/session_summary.py"), touch("src/login.py"), *rows)
    assert paths(state, query="the summaries of sessions")[0] == "src/session_summary.py"
    assert paths(state, branch="fix/login")[0] == "src/login.py"


def test_a_file_that_the_query_a_decision_or_an_error_names_is_lifted():
    rows = [touch(f"src/other{n}.py") for n in range(6)]
    state = state_of(touch("src/Xyz.py"), touch("src/abc.py"), *rows)
    assert paths(state, query="see xyz.py")[0] == "src/Xyz.py"
    assert paths(state, named=["error in abc.py, line 3"])[0] == "src/abc.py"
    assert guess_files(state, scope(), query="see xyz.py", branch="", limit=1)[0].why[-1] in TERMS


def test_a_file_that_only_hidden_events_touched_is_not_listed_and_others_show_their_own_touch():
    state = state_of(
        touch("open.py", id="seen"),
        touch("open.py", id="hidden", sensitivity="high"),
        touch("private.py", sensitivity="high"),
        touch("agents.py", ns="/agent/other"),
        touch("tasks.py", ns="/task/t"),
    )
    found = guess_files(state, scope(task="u"), query="", branch="", limit=20)
    assert [(one.path, one.touch.id) for one in found] == [("open.py", "seen")]
    everything = scope(rule=ChannelRule(("secret",)), agent="other")
    assert set(paths(state, everything)) == {"open.py", "private.py", "agents.py", "tasks.py"}


def test_hidden_touches_and_prompts_change_neither_order_nor_score():
    rows = [
        prompt("tokens are counted", "a"), touch("one.py", "a"), prompt("names", "b"),
        touch("two.py", "b"), touch("three.py", "b"),
    ]  # fmt: skip
    hidden = [
        prompt("two and three about tokens", "c", sensitivity="high"),
        touch("two.py", "c", sensitivity="high"),
    ]
    # As many touches that everybody may see, of a file by itself: the clock is the same.
    shown = [prompt("else", "d"), touch("else.py", "d")]
    asked = {"query": "tokens", "branch": "main", "limit": 20}
    one = guess_files(state_of(*rows, *hidden, *shown), scope(), **asked)
    other = guess_files(state_of(*rows, *shown, *hidden), scope(), **asked)
    want = guess_files(state_of(*rows, touch("else.py", "d"), *shown), scope(), **asked)
    order = [found.path for found in want if found.path != "else.py"]
    for found in (one, other):
        assert [each.path for each in found if each.path != "else.py"] == order


@pytest.mark.parametrize("named", [{"session": "s"}, {"ids": ["only"]}, {"source": "only"}])
def test_a_forgotten_touch_lists_no_file(named):
    event_id = "only:1" if "source" in named else "only"
    forget = {"kind": "forget", "data": {"forget": named}}
    assert paths(state_of(touch("a.py", id=event_id), forget)) == []


def test_what_expired_is_not_listed():
    assert paths(state_of(touch("a.py", valid_until="2026-01-01T00:00:00.000000Z"))) == []


def test_equal_files_are_listed_newest_first_and_scores_are_whole_numbers_that_add_up():
    state = state_of(*(touch(f"{n}.py", f"s{n}") for n in range(9)))
    assert paths(state) == [f"{n}.py" for n in reversed(range(9))]
    for one in guess_files(state, scope(), query="2.py", branch="main", limit=9):
        assert one.score == sum(one.parts)
        assert all(type(part) is int for part in one.parts)


def test_a_guess_looks_at_a_bounded_number_of_files_texts_and_words():
    chance = random.Random(3)
    rows = []
    for n in range(900):
        rows.append(prompt(f"{chance.random()} things", f"s{n}"))
        rows += [touch(f"folder{chance.randrange(40)}/file{n}-{k}.py", f"s{n}") for k in range(3)]
    state = state_of(*rows)
    judged, read = [], count()

    class Counting(Scope):
        def hides(self, event):
            judged.append(event.seq)
            return super().hides(event)

    def texts():
        while True:
            next(read)
            yield "error in nothing.py " * 10_000

    seen = Counting(ChannelRule(), now=NOW, as_of=10**9)
    found = guess_files(state, seen, query="word " * 10**6, branch="main", named=texts(), limit=20)
    assert len(found) == 20
    assert len(judged) == sum(map(len, state.last.values())) <= 1000
    assert next(read) <= 52


WORDS = st.lists(
    st.sampled_from(["login", "token", "cache.py", "main", "ledger", "fix"]), max_size=4
).map(" ".join)
HIDING = {"sensitivity": st.sampled_from(["low", "normal", "high", "secret"])}
ROWS = st.one_of(
    st.builds(
        lambda path, session, branch, more: touch(path, session, branch, **more),
        st.sampled_from(["src/login.py", "src/cache.py", "docs/token.md", "ledger/main.py"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["main", "fix/login", ""]),
        st.fixed_dictionaries(
            {},
            optional={
                **HIDING,
                "key": st.just("k"),
                "valid_until": st.sampled_from([NOW, "2026-01-01T00:00:00.000000Z"]),
            },
        ),
    ),
    st.builds(
        lambda text, session, more: prompt(text, session, **more),
        WORDS,
        st.sampled_from(["a", "b", "c"]),
        st.fixed_dictionaries({}, optional=HIDING),
    ),
    st.sampled_from(
        [{"session": "a"}, {"ids": ["e1", "e2", "e3"]}, {"key": "k", "ns": "/global"}]
    ).map(lambda named: {"kind": "forget", "data": {"forget": named}}),
)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(ROWS, max_size=30), WORDS, st.sampled_from(["main", "fix/login", ""]))
def test_what_was_guessed_before_never_changes_a_guess(rows, query, branch):
    projector = Files()
    asked = {"query": query, "branch": branch, "named": ["see cache.py"], "limit": 3}
    seen = (
        scope(), scope(rule=ChannelRule(("secret",), ("message",))), scope(exclude=frozenset({"e2"})),
    )  # fmt: skip
    often = projector.initial()
    for line in Journal(rows).lines:
        projector.apply(often, line)
        for _ in range(2):
            found = [guess_files(often, one, **asked) for one in seen]
    never = projector.load(projector.dump(often))
    for one, known in zip(seen, found if rows else (), strict=bool(rows)):
        assert [each[2:] for each in known] == [
            each[2:] for each in guess_files(never, one, **asked)
        ]
        assert [each.path for each in known] == paths(never, one, **asked)


def test_a_word_that_a_hundred_files_share_tells_nothing():
    rows = [touch(f"shared/word{n}.py", f"s{n}") for n in range(120)]
    state = state_of(touch("other/rare.py", "z"), *rows)
    assert paths(state, query="shared rare")[0] == "other/rare.py"
    assert paths(state, query="shared") == paths(state)
