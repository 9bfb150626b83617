"""The files view: bounded at every event, the same however the log was cut, forgetting what is."""

import json
import random

import pytest
from builders_journal import Journal
from checks_law import fold, holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.projections.files import (
    BYTES_MAX,
    EPISODE_PATHS,
    FILES,
    PATHS,
    SESSIONS,
    UNIT,
    Files,
    FileTable,
    fade,
    json_bytes,
    json_bytes_of,
)
from tests.examples import examples

FILE_BYTES_MAX = 192 * 1024
PROJECTOR = Files()

NAMES = st.sampled_from([f"src/{n}.py" for n in range(30)] + ['a "b"\\c', "長い/文.md", "x" * 301])
ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            ["message", "tool_call", "tool_call", "tool_result", "artifact", "decision", "forget"]
        ),
        "text": st.text(max_size=40),
    },
    optional={
        "session": st.sampled_from([f"s{n}" for n in range(40)]),
        "role": st.sampled_from(["user", "assistant"]),
        "key": st.sampled_from(["a", "b"]),
        "ns": st.sampled_from(["/global", "/task/t"]),
        "sensitivity": st.sampled_from(["normal", "high", "secret"]),
        "valid_until": st.just("2026-02-01T00:00:00.000000Z"),
        "data": st.one_of(
            st.just({"forget": {"session": "s1"}}),
            st.just({"forget": {"session": "s1"}, "undo": True}),
            st.just({"forget": {"key": "a", "ns": "/global"}}),
            st.just({"forget": {"ids": ["e2", "e3", "e5"]}}),
            st.just({"forget": {"source": "e"}}),
            st.fixed_dictionaries(
                {"path": st.one_of(NAMES, st.just(7))},
                optional={
                    "branch": st.sampled_from(["main", "fix/login", 3]),
                    "tool": st.sampled_from(["Edit", "Grep"]),
                },
            ),
        ),
    },
)


def touch(path, **fields):
    data = {"path": path, "tool": "Edit", **fields.pop("data", {})}
    return {"kind": "tool_call", "text": f"Edit {path}", "session": "s", "data": data, **fields}


def prompt(text, **fields):
    return {"kind": "message", "role": "user", "text": text, "session": "s", **fields}


def folded(*rows):
    return fold(PROJECTOR, Journal(rows).lines)


@settings(max_examples=examples(26), deadline=None)
@given(st.lists(ROW, max_size=70))
def test_any_split_of_the_log_folds_to_the_same_bytes(rows):
    holds_the_law(PROJECTOR, Journal(rows).lines)


@pytest.mark.sized
def test_the_law_and_the_bounds_hold_where_every_bound_is_at_work():
    long = [
        row
        for n in range(700)
        for row in (
            prompt(f"about {n} and the things {'word' * (n % 5)} of it", session=f"s{n % 50}"),
            *(
                touch(f"folder{n % 13}/{'deep/' * (n % 9)}file{n * 3 + k}.py",
                      session=f"s{n % 50}", data={"branch": f"branch-{n % 17}"})
                for k in range(4)
            ),
        )
    ]  # fmt: skip
    lines = Journal(long).lines
    holds_the_law(PROJECTOR, lines)
    state = fold(PROJECTOR, lines)
    assert len(state.last) <= PATHS
    assert len(state.sessions) <= SESSIONS
    assert state.last, "the newest stay"
    assert next(reversed(state.last)) == long[-1]["data"]["path"]


@pytest.mark.sized
@settings(max_examples=examples(25), deadline=None)
@given(st.sampled_from(["x", "長", "\x01", '"', "\\"]), st.integers(1, 300))
def test_the_file_stays_within_its_bound_whatever_names_and_prompts_are(letter, length):
    name = letter * length
    rows = []
    for n in range(120):
        rows.append(prompt(f"{name} {n}", session=f"{name[:60]}{n % 40}", id=f"{name[:80]}p{n}"))
        rows += [
            touch(f"{name[:290]}{n}-{k}", session=f"{name[:60]}{n % 40}", id=f"{name[:80]}{n}-{k}",
                  data={"branch": f"{name[:290]}{n % 7}"})
            for k in range(3)
        ]  # fmt: skip
    state = PROJECTOR.initial()
    for line in Journal(rows).lines:
        PROJECTOR.apply(state, line)
        assert state.bytes <= BYTES_MAX
    size = len(PROJECTOR.dump(state))
    assert size <= FILE_BYTES_MAX
    assert size <= state.bytes + 200, "what is counted is an upper bound"


def test_a_prompt_that_leads_to_many_files_is_several_episodes():
    state = folded(prompt("move everything"), *(touch(f"{n}.py") for n in range(150)))
    assert [len(one.paths) for one in state.episodes] == [EPISODE_PATHS, EPISODE_PATHS, 22]
    assert len(state.last) == 150


def test_an_episode_keeps_the_words_of_the_prompt_that_led_to_it():
    state = folded(
        prompt("fix the redaction of passwords", data={"branch": "fix/mask"}),
        touch("a.py"),
        touch("a.py"),
        prompt("now the importer"),
        touch("b.py", data={"branch": "other"}),
    )
    first, second = state.episodes
    assert (first.terms, first.branch, first.paths) == (
        ["fix", "redaction", "password"], "fix/mask", {"a.py": 2},
    )  # fmt: skip
    assert (second.terms, second.branch, second.paths) == (["importer"], "other", {"b.py": 1})


def test_a_prompt_that_not_every_reader_of_the_touch_may_see_leaves_no_words():
    state = folded(prompt("the codeword is quokka", sensitivity="high"), touch("a.py"))
    assert state.episodes[0].terms == []
    state = folded(prompt("the codeword is quokka", sensitivity="secret"), touch("a.py"))
    assert b"quokka" not in PROJECTOR.dump(state)


def test_a_search_an_artifact_and_a_secret_touch_no_file():
    state = folded(
        touch("src", data={"tool": "Grep"}),
        touch("plan.md", kind="artifact"),
        touch("key.pem", sensitivity="secret"),
    )
    assert not state.last
    assert not state.episodes


def test_a_forgotten_session_and_its_return_are_marked_on_touches_and_episodes():
    rows = [prompt("fix it"), touch("a.py"), touch("b.py", session="t")]
    forget = {"kind": "forget", "data": {"forget": {"session": "s"}}}
    state = folded(*rows, forget)
    assert state.last["a.py"][0].forgotten
    assert not state.last["b.py"][0].forgotten
    assert [one.forgotten for one in state.episodes] == [True, False]
    undone = {"kind": "forget", "data": {**forget["data"], "undo": True}}
    state = folded(*rows, forget, undone)
    assert not state.last["a.py"][0].forgotten
    assert not any(one.forgotten for one in state.episodes)


def test_a_forgotten_prompt_takes_its_words_along_and_none_of_the_later_touches_has_them():
    rows = [prompt("about quokkas", id="p"), touch("a.py"), touch("c.py", session="t")]
    forget = {"kind": "forget", "data": {"forget": {"ids": ["p"]}}}
    state = folded(*rows, forget, touch("b.py"), prompt("else", session="t"), touch("b.py"))
    assert state.episodes[0].unsaid
    assert state.sessions["s"].terms == []


def test_a_touch_with_a_key_is_superseded_like_any_event():
    state = folded(touch("a.py", key="k"), {"kind": "fact", "key": "k", "text": "new"})
    assert state.last["a.py"][0].superseded


def test_touches_at_two_sensitivities_are_kept_apart_and_counted_apart():
    state = folded(touch("a.py"), touch("a.py"), touch("a.py", sensitivity="high"))
    assert [(one.sensitivity, one.touches) for one in state.last["a.py"]] == [
        ("normal", 2), ("high", 1),
    ]  # fmt: skip


# --- the hotset's table ---


def test_heat_halves_every_twenty_touches_and_ends_at_nothing():
    assert fade(UNIT, 0) == UNIT
    assert fade(UNIT, 20) == UNIT // 2
    assert fade(UNIT, 40) == UNIT // 4
    assert fade(UNIT, 300, 300) == UNIT // 2
    assert fade(UNIT, 10**9) == 0


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 3000), st.integers(0, 3000))
def test_heat_never_grows_by_waiting(heat, first, second):
    assert fade(heat, max(first, second)) <= fade(heat, min(first, second)) <= heat


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.integers(0, 40), max_size=120))
def test_a_table_is_bounded_keeps_the_newest_and_loads_as_it_was(touched):
    table, held = FileTable(), set()
    for seq, number in enumerate(touched):
        held.add(seq)
        held -= set(table.touch(f"{number}.py", seq, "main"))
        assert held == {one.seq for one in table.touches.values()}
        assert len(table.touches) <= FILES
        assert f"{number}.py" in table.touches
        assert FileTable.of(table.fields()).fields() == table.fields()
        assert FileTable.of(table.fields()).bytes == table.bytes
    heats = [table.heat(one) for _, one in table.warmest()]
    assert heats == sorted(heats, reverse=True)


def test_a_file_worked_on_stays_warmer_than_one_looked_at_since():
    table = FileTable()
    for seq in range(5):
        table.touch("worked.py", seq, "")
    table.touch("glance.py", 9, "")
    assert [path for path, _ in table.warmest()] == ["worked.py", "glance.py"]


def test_of_seventeen_files_the_coldest_goes_whatever_the_clock_is():
    table = FileTable()
    chance = random.Random(5)
    for seq in range(1, 2000):
        path = f"{int(chance.expovariate(0.1))}.py"
        before = dict(table.touches)
        table.touch(path, seq, "main")
        for gone in before.keys() - table.touches.keys():
            heat = table.heat(before[gone])
            # Heats within one fortieth of a halving are as good as equal.
            kept = [table.heat(touch) for name, touch in table.touches.items() if name != path]
            assert heat <= min(kept) * 103 // 100 + 1


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.integers(0, 24), max_size=200))
def test_what_a_full_table_lets_go_is_the_oldest_of_the_coldest_and_never_the_newest(touched):
    table = FileTable()
    for seq, number in enumerate(touched):
        path, before = f"{number}.py", dict(table.touches)
        table.touch(path, seq, "")
        others = [(one.rank, one.seq, name) for name, one in before.items() if name != path]
        gone = before.keys() - table.touches.keys()
        assert gone == ({min(others)[2]} if len(others) == FILES else set())


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["a.py", 'a "b"', "\\", "é"]))))
def test_sizes_of_texts_looked_at_together_bound_what_the_file_holds(texts):
    row = "".join(json.dumps(text, ensure_ascii=False)[1:-1] for text in texts)
    assert json_bytes_of(texts) == sum(json_bytes(text) for text in texts)
    assert json_bytes_of(texts) >= len(row.encode("utf-8", "surrogatepass"))
