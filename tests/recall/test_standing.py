"""Wishes that stand and traps with their mend: by counts, for who may see what they are of."""

import pytest
from hypothesis import given, settings, strategies as st

from memplane.event import Event
from memplane.ports import Line
from memplane.projections.digests import Digests
from memplane.recall.session_digest import named_in, standing_traps, standing_wishes
from tests.examples import examples


def event(seq, text="", kind="message", role="user", *, day=1, session="s1", **fields):
    ts = f"2026-01-{day:02}T12:00:00.000000Z"
    return Event(seq, f"e{seq}", ts, ts, kind, text=text, role=role, session=session, **fields)


def called(seq, tool, text, given="", status="ok", **fields):
    """A call and its result; `given` is a path, or the command of a shell."""
    about = {"tool": tool, "call": f"c{seq}"}
    data = about if tool == "Bash" else {**about, "path": given}
    said = f'Bash command="{given}"' if tool == "Bash" else f"{tool} file_path={given}"
    return [
        event(seq, said, "tool_call", "assistant", data=data, **fields),
        event(seq + 1, text, "tool_result", "tool", data={**about, "status": status}, **fields),
    ]


def folded(events, kept_max=32):
    projector = Digests(kept_max=kept_max)
    state = projector.initial()
    for one in events:
        projector.apply(state, Line(one, 1, one.seq, one.seq + 1))
    return projector.load(projector.dump(state))


def wishes(*events, sees=lambda _: True):
    return [one.text for one in standing_wishes(folded(events).lasting, sees)]


def traps(*events, sees=lambda _: True):
    return [one.text for one in standing_traps(folded(events).lasting, sees)]


def test_what_is_to_hold_from_now_on_stands_and_what_is_wanted_once_does_not():
    said = "Always caulk the seams before the hull is painted"
    assert wishes(event(1, said)) == [said]
    assert wishes(event(1, "Caulk the seams of the hull with tarred oakum")) == []
    assert wishes(event(1, "Always caulk the seams first, but just for now")) == []
    assert wishes(event(1, "Why do we always caulk the seams of the hull?")) == []
    assert wishes(event(1, said, role="assistant"), event(2, said, role="tool")) == []


def test_in_german_too():
    said = "Ab jetzt bitte die Nähte vor dem Anstrich kalfatern"
    assert wishes(event(1, said)) == [said]


def test_the_same_wish_on_two_days_is_one_and_on_one_day_none():
    first = event(1, "Group the planks into useful stacks, please")
    again = "can you group the planks into useful stacks by length?"
    assert wishes(first, event(2, again, session="s2")) == []
    assert wishes(first, event(2, again, day=3, session="s2")) == [again]
    [note] = standing_wishes(
        folded([first, event(2, again, day=3, session="s2")]).lasting, lambda _: True
    )
    assert (note.label, note.refs) == ("01-01, 01-03", ("e1", "e2"))


def test_the_opposite_of_a_wish_takes_its_place():
    rows = [event(1, "Always paint the hull green"), event(2, "Never paint the hull green", day=2)]
    assert wishes(*rows) == ["Never paint the hull green"]
    assert wishes(*rows, sees=lambda one: one.seq < 2) == ["Always paint the hull green"]


def test_a_path_that_is_not_there_is_kept_with_the_one_that_is():
    missing = called(1, "Read", "File does not exist.", "hull/src/mast.py", "error")
    assert traps(*missing) == []
    assert traps(*missing, *called(3, "Read", "x = 1", "hull/keel.py")) == []
    found = traps(*missing, *called(3, "Read", "x = 1", "hull/mast.py"))
    assert found == ["hull/src/mast.py does not exist; hull/mast.py does"]
    again = called(5, "Read", "File does not exist.", "hull/src/mast.py", "error")
    assert len(traps(*missing, *called(3, "Read", "x", "hull/mast.py"), *again)) == 1


def test_another_folder_to_stand_in_makes_no_trap():
    missing = called(1, "Read", "File does not exist.", "mast.py", "error")
    assert traps(*missing, *called(3, "Read", "x", "/home/dev/boat/mast.py")) == []


def test_a_wrong_call_is_kept_with_the_one_that_worked():
    wrong = called(1, "Bash", "error: unknown option --all", "rigger check --all mast", "error")
    found = traps(*wrong, *called(3, "Bash", "ok", "rigger check mast"))
    assert found == ["`rigger check --all mast` fails; `rigger check mast` works"]
    red = called(1, "Bash", "2 failed", "pytest tests/mast.py", "error")
    assert traps(*red, *called(3, "Bash", "2 passed", "pytest tests/mast.py -q")) == []


LINT = "hull/mast.go:3:5: string `mast` has 3 occurrences (goconst)"


def lint(seq, *, status="error", day=1, session="s1"):
    text = LINT if status == "error" else "0 issues"
    return called(seq, "Bash", text, "golangci-lint run", status, day=day, session=session)


def test_a_rule_that_bit_twice_is_a_trap_with_what_was_said_of_it():
    said = event(3, "The goconst rule wants a constant for the mast's name.", role="assistant")
    assert traps(*lint(1), *lint(4)) == []  # not green between: one bite
    rows = [*lint(1), said, *lint(4, status="ok"), *lint(6, day=2, session="s2")]
    [told] = traps(*rows)
    assert told.startswith("golangci-lint run complained of goconst 2 times: The goconst rule")


def test_a_rejected_call_is_no_trap():
    one = called(1, "Read", "File does not exist.", "hull/src/mast.py", "error")
    one[1].data["rejected"] = "no"
    assert traps(*one, *called(3, "Read", "x", "hull/mast.py")) == []


def test_traps_and_wishes_go_with_each_event_that_they_are_of():
    missing = called(1, "Read", "File does not exist.", "hull/src/mast.py", "error")
    rows = [*missing, *called(3, "Read", "x", "hull/mast.py")]
    for gone in ("e1", "e3"):
        assert traps(*rows, sees=lambda one, gone=gone: one.id != gone) == []
    assert wishes(event(1, "Always paint the hull green"), sees=lambda _: False) == []


def test_they_outlive_the_place_of_their_session():
    rows = [
        event(1, "Always paint the hull green"),
        *called(2, "Read", "File does not exist.", "hull/src/mast.py", "error"),
        *called(4, "Read", "x", "hull/mast.py"),
        *(event(seq, "Mend the mast of the boat", session=f"t{seq}") for seq in range(6, 20)),
    ]
    state = folded(rows, kept_max=2)
    assert "s1" not in state.sessions
    assert [one.text for one in standing_wishes(state.lasting, lambda _: True)] == [rows[0].text]
    assert len(standing_traps(state.lasting, lambda _: True)) == 1


def test_a_note_is_as_sensitive_as_the_most_sensitive_of_its_sources():
    rows = [
        event(1, "Group the planks into useful stacks"),
        event(2, "group the planks into useful stacks", day=2, session="s2", sensitivity="high"),
    ]
    [note] = standing_wishes(folded(rows).lasting, lambda _: True)
    assert note.sensitivity == "high"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("open hull/src/mast.py", True),
        ("open hull/src/mast.pyc", False),
        ("open the mast", False),
        ("", False),
    ],
)
def test_a_trap_is_asked_for_by_all_of_its_names(text, found):
    missing = called(1, "Read", "File does not exist.", "hull/src/mast.py", "error")
    rows = [*missing, *called(3, "Read", "x", "hull/mast.py")]
    assert bool(named_in(standing_traps(folded(rows).lasting, lambda _: True), text)) is found


TEXTS = st.sampled_from(
    [
        "Always paint the hull green",
        "Never paint the hull green",
        "Group the planks into useful stacks",
        "Mend the mast of the boat",
        "The goconst rule wants a constant here.",
        "File does not exist.",
        LINT,
    ]
)
ROWS = st.lists(
    st.builds(
        event,
        st.just(0),
        TEXTS,
        st.sampled_from(["message", "tool_call", "tool_result"]),
        st.sampled_from(["user", "assistant", "tool"]),
        day=st.integers(1, 3),
        session=st.sampled_from(["s1", "s2", "s3"]),
        sensitivity=st.sampled_from(["normal", "high"]),
        ns=st.sampled_from(["/global", "/agent/a"]),
        data=st.fixed_dictionaries(
            {
                "tool": st.sampled_from(["Read", "Bash"]),
                "call": st.sampled_from(["c1", "c2"]),
                "path": st.sampled_from(["a/mast.py", "b/mast.py"]),
                "status": st.sampled_from(["ok", "error"]),
            }
        ),
    ),
    max_size=40,
)


def is_open(one):
    return one.sensitivity != "high" and one.ns == "/global"


@settings(max_examples=examples(150), deadline=None)
@given(ROWS)
def test_what_a_reader_may_not_see_changes_no_word_of_what_he_sees(rows):
    rows = [one._replace(seq=seq, id=f"e{seq}") for seq, one in enumerate(rows, 1)]
    alone = [one for one in rows if is_open(one)]
    for notes in (standing_wishes, standing_traps):
        seen = notes(folded(rows, kept_max=2).lasting, is_open)
        told = notes(folded(alone, kept_max=2).lasting, lambda _: True)
        assert [(*one[:2], one.refs, one.names) for one in seen] == [
            (*one[:2], one.refs, one.names) for one in told
        ]
