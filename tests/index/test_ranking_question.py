"""What questions and turns say about themselves."""

import pytest

from memplane.index.question import INSTRUCTION, PREFERENCE, Question, ask, marks


def test_a_speaker_is_named_by_the_whole_name_in_any_case():
    names = ["Project Manager", "Ana", "Bo"]
    assert ask("what did the project manager want from ANA?", names).speakers == (
        "Project Manager",
        "Ana",
    )
    assert ask("which project was Anastasia's?", names) == Question()


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
    ("text", "flags"),
    [
        ("Always answer in French.", INSTRUCTION),
        ("Good. From now on use tabs", INSTRUCTION),
        ("please format dates as day and month", INSTRUCTION),
        ("I'd rather walk", PREFERENCE),
        ("I\u2019ve never liked rain", PREFERENCE),
        ("It is always raining", 0),
        ("", 0),
    ],
)
def test_standing_instructions_and_preferences_are_marked(text, flags):
    assert marks(text, 10) == flags


def test_a_long_turn_is_no_instruction():
    assert marks("Always answer in French.", 60) == 0
