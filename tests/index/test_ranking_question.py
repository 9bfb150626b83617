"""What questions say about themselves."""

import pytest

from memplane.index.terms import QuestionTraits, ask


def test_a_speaker_is_named_by_the_whole_name_in_any_case():
    names = ["Project Manager", "Ana", "Bo"]
    assert ask("what did the project manager want from ANA?", names).speakers == (
        "Project Manager",
        "Ana",
    )
    assert ask("which project was Anastasia's?", names) == QuestionTraits(looks_up=True)


def test_a_question_that_names_everybody_names_nobody():
    assert ask("What do Ana and Bo share?", ["Ana", "Bo"]).speakers == ()


def test_names_with_an_apostrophe_s_are_names():
    assert ask("What is Ana\u2019s job?", ["Ana", "Bo"]).speakers == ("Ana",)


@pytest.mark.parametrize(
    ("text", "first"),
    [("What is my plan?", True), ("When did I go?", True), ("Who is he?", False), ("a mine", True)],
)
def test_who_asks_about_himself_says_so(text, first):
    assert ask(text).first_person is first


@pytest.mark.parametrize(
    ("text", "broad"),
    [
        ("Summarize the talk", True),
        ("What did they think about the price?", True),
        ("In which order did it happen, in order?", True),
        ("When did Ana leave?", False),
    ],
)
def test_questions_about_a_whole_thread_are_broad(text, broad):
    assert ask(text).broad is broad


@pytest.mark.parametrize(
    ("text", "looks_up"),
    [
        ("What is the deadline of the report?", True),
        ("How many tests failed?", True),
        ("When did Ana leave?", True),
        ("What should I wear?", False),
        ("Which library would you suggest?", False),
        ("What are good ways to test this?", False),
        ("Can you help me with the layout?", False),
        ("How do I sort a list?", False),
        ("I am planning a trip", False),
    ],
)
def test_who_asks_for_help_does_not_look_something_up(text, looks_up):
    assert ask(text).looks_up is looks_up


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Which kayak did I first rent?", True),
        ("What did the club cost at the beginning?", True),
        ("How many boats did we originally have?", True),
        ("What did I buy to start my hobby?", True),
        ("Which kayak did the first guest rent?", False),
        ("When does the first race start?", False),
        ("Did the engine start?", False),
    ],
)
def test_a_question_may_ask_how_something_was_at_first(text, begins):
    assert ask(text).begins is begins


def test_how_something_is_done_is_no_question_about_a_whole_thread():
    assert ask("Can you walk me through the project?").broad
    assert not ask("Can you walk me through how to sort a list?").broad
    assert not ask("What must I do in order to pass?").broad
