"""A decision is recorded where somebody decided, and nowhere else."""

import pytest
from hypothesis import given, settings, strategies as st

from memplane.importers import decided as decided_room
from memplane.importers.decided import (
    Talk,
    answers_given,
    decision_row,
    in_reply,
    may_decide,
    offered,
    plan_accepted,
    refused,
)
from tests.examples import examples

LIST = """The hull can be painted in two ways.

**Option A: Oil paint** (Recommended) - lasts for years
**Option B: Varnish** - shows the wood

I recommend A since the sun is strong here. Which one shall it be?"""
TABLE = """| Way | What |
|---|---|
| **A. Oil paint** | lasts for years |
| **B. Varnish** | shows the wood |
"""


def decided(reply, *answers):
    return [one.text for one in in_reply(reply, answers)]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("B", '"B" = Varnish - shows the wood'),
        ("let's go with option B", '"let\'s go with option B" = Varnish - shows the wood'),
        ("A. is fine, two coats", '"A. is fine, two coats" = Oil paint - lasts for years'),
    ],
)
def test_a_pick_is_resolved_to_the_text_of_the_option(reply, text):
    assert decided(reply, LIST) == [text]


def test_the_reason_of_a_pick_is_what_was_recommended():
    assert in_reply("A", [LIST])[0].reason == "I recommend A since the sun is strong here."
    assert in_reply("A", [LIST])[0].of_answer


def test_options_stand_in_tables_and_numbered_lists_and_the_last_list_counts():
    assert decided("B", TABLE) == ['"B" = Varnish: shows the wood']
    first = "1. sew\n2. rig\n\nThen:\n\n1. paint the hull\n2. tar the hull\n"
    assert offered(first) == {"1": "paint the hull", "2": "tar the hull"}
    assert decided("2", first) == ['"2" = tar the hull']
    assert decided("B", "Something else was said.", TABLE) == ['"B" = Varnish: shows the wood']


@pytest.mark.parametrize(
    "reply",
    [
        "A and B",
        "1. paint it 2. tar it",
        "a boat needs more paint than that",
        "C",
        "B? what does it cost",
        "why not B",
        "A " + "with many more wishes that have nothing to do with it " * 3,
        "",
    ],
)
def test_no_pick_where_none_was_made(reply):
    assert decided(reply, LIST) == []


def test_a_pick_of_what_only_moves_the_work_on_is_none():
    assert decided("1", "1. commit the change\n2. run the tests") == []
    assert decided("2", "1. Use a subagent for each\n2. All at once, in this session") == []


def test_numbered_answers_go_to_numbered_questions():
    asked = "1. Sails: red or white?\n2. Mast: oak or spruce?"
    assert decided("1. red\n2. spruce, it is lighter", asked) == [
        "Sails \u2192 red",
        "Mast \u2192 spruce, it is lighter",
    ]
    assert decided("1. red\n2. why?", asked) == []


def test_a_yes_agrees_to_the_act_that_was_offered():
    offer = "The keel is loose. Want me to bolt the keel to the frame with eight bolts?"
    assert decided("yes please", offer) == ["Agreed: bolt the keel to the frame with eight bolts"]
    assert decided("yes", "Want me to commit this now that all of it is done?") == []
    assert decided("yes", "Shall I go on?") == []
    assert decided("yes", "The keel is loose.") == []


def test_a_no_with_what_to_do_corrects_and_a_bare_one_does_not():
    asked = "Shall I paint the hull green?"
    assert decided("no, use the red paint from the shed", asked) == [
        '"no, use the red paint from the shed" (to: Shall I paint the hull green?)'
    ]
    assert decided("no", asked) == []
    assert decided("no worries, go on", asked) == []
    assert decided("no, commit it first please", asked) == []


def test_why_a_call_was_refused_decides_where_it_says_what_to_do():
    found = refused("use the spruce for the mast instead of oak", "Edit rig/mast.py")
    assert found.text == '"use the spruce for the mast instead of oak" (to: Edit rig/mast.py)'
    for said in ("wait", "why is that oak?", "run the tests before you go on", "fix it", ""):
        assert refused(said, "Edit rig/mast.py") is None


def test_answered_questions_of_the_client_decide():
    question = "Which wood for the mast?"
    options = [{"label": "Spruce (Recommended)", "description": "light"}, {"label": "Oak"}]
    given_ = {"questions": [{"question": question, "options": options}]}
    answer = {"answers": {question: "Spruce (Recommended)"}}
    [found] = answers_given(given_, answer)
    assert (found.text, found.reason) == (f"{question} \u2192 Spruce", "light")
    assert [one.text for one in answers_given(given_, {"answers": {question: "larch"}})] == [
        f"{question} \u2192 larch"
    ]
    assert list(answers_given(given_, {"answers": {question: "what is larch?"}})) == []
    assert list(answers_given(given_, {"answers": {}})) == []
    moving = {"questions": [{"question": "What shall I do next?", "options": options}]}
    assert list(answers_given(moving, {"answers": {"What shall I do next?": "Oak"}})) == []


def test_an_accepted_plan_says_its_goal():
    plan = "# Plan: New sails\n\n## Goal\n\nThe boat sails in light wind.\n\n## Steps\n\n1. sew\n"
    assert plan_accepted(plan).text == "Plan: New sails: The boat sails in light wind."
    assert plan_accepted(f"Implement the following plan:\n\n{plan}") == plan_accepted(plan)
    assert plan_accepted("  ") is None


def test_a_row_names_its_turns_and_goes_where_they_go():
    row = decision_row(in_reply("A", [LIST])[0], ["e2", "e1"])
    assert (row["kind"], row["role"], row["tags"]) == ("decision", "user", ["pick"])
    assert row["refs"] == ["e2", "e1"]
    assert row["data"]["derived"] is True


def test_a_talk_is_over_with_the_reply():
    talk = Talk()
    talk.answered("s", "e1", LIST)
    assert [row["refs"] for row in talk.replied("s", "e2", "B")] == [["e2", "e1"]]
    assert talk.replied("s", "e3", "B") == []
    talk.answered("s", "e1", LIST)
    later = Talk()
    later.begin(talk.state())
    assert len(later.replied("s", "e2", "B")) == 1
    assert later.replied("t", "e2", "B") == []


@given(st.text(max_size=300), st.lists(st.text(max_size=300), max_size=3))
def test_whatever_is_said_a_decision_quotes_a_reply_that_may_decide(reply, answers):
    found = in_reply(reply, answers)
    assert not found or may_decide(reply)
    refused(reply, "Edit a.py")
    plan_accepted(reply)


# Parts of which the forms of replies that decide are made, and what is like them.
SAID = st.sampled_from(
    "b B 2 a. (c) #3 +1 \u212a o\u212a \u017fure yes yep no nah let's go with option optionB plan nr. the"
    " ok okay hmm i'd i think implement plan. \u2013 , ? _ - is number 12) \n 1. 2. agreed do it"
    " sounds good makes sense exactly zebra quick we why".split(" ")
)


@given(st.lists(SAID, max_size=5).map(" ".join) | st.text(max_size=40))
@settings(max_examples=examples(2000), deadline=None)
def test_a_reply_that_decides_begins_like_one(reply):
    """Else no pattern is compiled: most prompts of a person are no answers."""
    forms = (decided_room._PICK, decided_room._YES, decided_room._NO, decided_room._IMPLEMENTS)
    said = reply.strip()
    fits = any(form.match(said) for form in forms) or len(decided_room._NUMBERED.findall(said)) > 1
    assert may_decide(reply) == (bool(said) and fits)


ASKED = {"questions": [{"id": "hull", "question": "Which colour for the hull?", "options": []}]}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('{"answers":{"hull":{"answers":["Green (Recommended)"]}}}', "Green"),
        ('{"answers":{"hull":{"answers":["Green","user_note: two coats"]}}}', "Green, two coats"),
    ],
)
def test_what_codex_asked_is_decided_by_its_answer(answer, text):
    [found] = answers_given(ASKED, answer)
    assert found.text == f"Which colour for the hull? \u2192 {text}"
    assert found.of_answer


@pytest.mark.parametrize(
    "answer",
    [
        "", "[]", "{", "no answer", '{"answers":{}}', '{"answers":{"keel":{"answers":["Green"]}}}',
        '{"answers":{"hull":{"answers":[]}}}', '{"answers":{"hull":{"answers":[7]}}}',
        '{"answers":{"hull":7}}', '{"answers":[1]}', "[" * 100_000,
    ],
)  # fmt: skip
def test_what_codex_got_no_answer_to_is_not_decided(answer):
    assert list(answers_given(ASKED, answer)) == []


PROPOSED = (
    "Here it is:\n<proposed_plan>\n# New sails\n\nThe boat sails in light wind.\n</proposed_plan>"
)


def test_a_plan_that_codex_proposed_is_accepted_by_the_word_to_implement_it():
    assert decided("Implement the plan.", PROPOSED) == [
        "Plan: New sails: The boat sails in light wind."
    ]
    assert may_decide("Implement the plan.")
    assert decided("Implement the plan.", "Sew the sails, then rig them.") == []
    assert decided("Implement the plan for the mast first", PROPOSED) == []
    assert decided("Implement the plan.", "Sewn.", PROPOSED) == []  # something else was said since


def test_a_pick_is_of_the_matter_that_the_line_before_the_options_names():
    options = "A. Oil paint\nB. Varnish\n\nWhich one?"
    assert decided("B", f"Two ways to treat the hull of the boat:\n\n{options}") == [
        'Two ways to treat the hull of the boat: "B" = Varnish'
    ]
    assert decided("B", f"The hull of the boat is dry.\n\n{options}") == ['"B" = Varnish']
    assert decided("B", f"Options:\n\n{options}") == ['"B" = Varnish']


@pytest.mark.parametrize(
    "said",
    ["None of these", "none", "Other", "not sure yet", "(No answer provided)", "Keine davon"],
)
def test_an_answer_that_takes_nothing_of_what_was_offered_decides_nothing(said):
    question = "Which varnish should the mast of the boat get?"
    asked = {"questions": [{"question": question, "options": [{"label": "oil"}, {"label": "tar"}]}]}
    assert list(answers_given(asked, {"answers": {question: said}})) == []
    more = {"answers": {question: f"{said}, take tung oil from the shed"}}
    assert [one.text for one in answers_given(asked, more)] != []


@pytest.mark.parametrize("reason", ["", "wait", "please explain it first", "commit this first"])
def test_a_plan_that_was_rejected_without_another_one_decides_nothing(reason):
    assert refused(reason, "ExitPlanMode plan: paint the hull") is None
