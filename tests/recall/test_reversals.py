"""A decision that was made of an answer is turned round by a later answer to the same."""

from hypothesis import given, settings, strategies as st

from memplane.event import Event
from memplane.recall.session_digest import DerivedDecision, derived, reversed_by
from tests.examples import examples


def made(seq, rule, text, session="s1"):
    return DerivedDecision(seq, session, rule, text)


def test_another_answer_to_the_same_question_holds_whichever_session_it_is_of():
    old = made(1, "answer", "Which varnish should the mast of the boat get? \u2192 linseed oil")
    new = made(5, "answer", "Which varnish should the mast of the boat get? \u2192 tung oil", "s2")
    assert reversed_by([old, new]) == {1: 5}
    assert reversed_by([new]) == {}


def test_a_question_of_few_words_is_the_same_in_its_session_alone():
    old = made(1, "answer", "Which one? \u2192 the red one")
    assert reversed_by([old, made(5, "answer", "Which one? \u2192 the blue one", "s2")]) == {}


def test_another_question_reverses_nothing():
    old = made(1, "answer", "Which varnish should the mast of the boat get? \u2192 linseed oil")
    assert (
        reversed_by(
            [old, made(2, "answer", "Which varnish should the keel of the boat get? \u2192 tar")]
        )
        == {}
    )


def test_a_later_plan_of_a_session_or_of_the_same_heading_holds():
    old = made(1, "plan", "Plan: New rigging: hemp for all shrouds")
    assert reversed_by([old, made(2, "plan", "Plan: Steel rigging: steel for all shrouds")]) == {
        1: 2
    }
    again = made(2, "plan", "Plan: New rigging: steel for all shrouds", "s2")
    assert reversed_by([old, again]) == {1: 2}
    assert reversed_by([old, made(2, "plan", "Plan: New galley: a stove", "s2")]) == {}


def test_a_correction_holds_over_the_last_decision_that_it_is_about():
    old = made(1, "agreed", "Agreed: rig the mast with hemp shrouds and lashed deadeyes")
    other = made(2, "agreed", "Agreed: paint the hull green")
    text = '"no, use steel shrouds on the mast instead" (to: Shall I lash the hemp shrouds?)'
    assert reversed_by([old, other, made(3, "correction", text)]) == {1: 3}
    assert reversed_by([old, made(3, "correction", text, "s2")]) == {}


def test_what_was_stated_or_has_a_key_is_never_reversed():
    now = "2026-01-05T12:00:00.000000Z"
    said = Event(1, "e1", now, now, "decision", text="Which? \u2192 oil", role="user", session="s1")
    assert derived(said) is None
    assert derived(said._replace(tags=("answer",), key="mast.varnish")) is None
    assert derived(said._replace(tags=("answer",), role="tool")) is None
    assert derived(said._replace(tags=("answer",))) == made(1, "answer", "Which? \u2192 oil")
    assert reversed_by([None, derived(said)]) == {}


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "plan", "correction", "agreed", "pick"]),
        st.sampled_from(
            ["Which varnish should it get? \u2192 oil", "Plan: Rig: hemp", "Agreed: x"]
        ),
        st.sampled_from(["s1", "s2", None]),
    ),
    max_size=20,
)


@settings(max_examples=examples(100), deadline=None)
@given(ROWS)
def test_only_a_later_one_reverses_and_the_latest_always_holds(rows):
    decisions = [made(seq, *one) for seq, one in enumerate(rows, 1)]
    found = reversed_by(decisions)
    assert all(seq < by for seq, by in found.items())
    assert not decisions or decisions[-1].seq not in found
