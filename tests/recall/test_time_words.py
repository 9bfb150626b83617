"""Words of time in a question: which span they mean at a clock, and whether nothing else is asked."""

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from memplane.policy import load_policies
from memplane.recall import time_words
from memplane.recall.time_words import read_time
from tests.examples import examples

TOP = Path(__file__).parents[2]
DEFAULTS = {one.name: one.read_bytes() for one in (TOP / "policies").glob("*.yaml")}
SCHEMAS = {one.name: one.read_bytes() for one in (TOP / "schemas").glob("*.schema.json")}
LANGUAGES = load_policies({}, defaults=DEFAULTS, schemas=SCHEMAS).scoring.times
MONDAY = "2026-02-02T12:00:00.000000Z"


def read(question, now=MONDAY):
    return read_time(question, now, LANGUAGES)


def days(asked):
    """The first and the last day of a reading, without the year."""
    return tuple(None if time is None else time[5:10] for time in (asked.since, asked.until))


SPANS = {
    "What did we do yesterday?": ("02-01", "02-01"),
    "what happened today": ("02-02", "02-02"),
    "the day before yesterday": ("01-31", "01-31"),
    "What changed since Monday?": ("02-02", None),
    "What did we do on Monday?": ("01-26", "01-26"),
    "what did we do last Friday": ("01-30", "01-30"),
    "recap of last week": ("01-26", "02-01"),
    "this week": ("02-02", "02-02"),
    "What changed since last week?": ("01-26", None),
    "What did we do in January?": ("01-01", "01-31"),
    "last month": ("01-01", "01-31"),
    "What happened on 22 January?": ("01-22", "01-22"),
    "What happened on the 22nd of January?": ("01-22", "01-22"),
    "What did we do on January 3rd?": ("01-03", "01-03"),
    "What was done 3 days ago?": ("01-30", "01-30"),
    "two weeks ago": ("01-19", "01-25"),
    "a month ago": ("01-01", "01-31"),
    "in the last 3 days": ("01-30", "02-02"),
    "What did we do on 2026-01-22?": ("01-22", "01-22"),
    "2026-01": ("01-01", "01-31"),
    "Was haben wir gestern gemacht?": ("02-01", "02-01"),
    "Was haben wir am 22. Januar gemacht?": ("01-22", "01-22"),
    "vor zwei Wochen": ("01-19", "01-25"),
    "seit Montag": ("02-02", None),
    "seit dem 3. Januar": ("01-03", None),
    "Was war im Januar?": ("01-01", "01-31"),
    "in den letzten 3 Tagen": ("01-30", "02-02"),
}  # fmt: skip


@pytest.mark.parametrize("question", SPANS)
def test_a_question_for_a_time_alone_is_its_days(question):
    asked = read(question)
    assert (days(asked), asked.alone) == (SPANS[question], True)


@pytest.mark.parametrize(
    ("question", "back"),
    [
        ("What did we do in the last session?", 1),
        ("what did you do last time", 1),
        ("And in the session before that?", 2),
        ("Was war in der letzten Sitzung?", 1),
        ("Was haben wir in der vorletzten Sitzung gemacht?", 2),
    ],
)
def test_a_session_is_counted_back_from_the_asking_one(question, back):
    asked = read(question)
    assert (asked.sessions_back, asked.since, asked.alone) == (back, None, True)


@pytest.mark.parametrize(
    "question",
    [
        "What did we decide about the parser last week?",
        "Which lint rule failed yesterday?",
        "Welche Regel schlug gestern fehl?",
        "Why did the last session of the parser crash?",
    ],
)
def test_a_question_for_something_at_a_time_asks_for_more_than_the_time(question):
    assert not read(question).alone


@pytest.mark.parametrize(
    "question",
    [
        "", "yes", "What are we working on?", "May I ask something?", "march on", "It may rain",
        "Which port does the server use?", "use the second one", "a day", "from the parser",
        "version 2026", "step 12 of 22", "2026-13-40", "9999 days ago", "0 days ago",
    ],
)  # fmt: skip
def test_what_names_no_time_is_not_read_as_one(question):
    assert read(question) is None


def test_a_long_text_is_not_searched_for_words_of_time():
    assert read("yesterday " * 40) is None


def test_a_day_without_a_year_is_the_latest_that_is_not_to_come():
    assert read("on 3 February").since[:10] == "2025-02-03"
    assert read("on 2 February").since[:10] == "2026-02-02"
    assert read("on 29 February").since[:10] == "2024-02-29"
    assert read("in December").since[:10] == "2025-12-01"
    assert read("on 3 February 2024").since[:10] == "2024-02-03"
    assert read("on 29 February", now="2025-01-01T00:00:00.000000Z").since[:10] == "2024-02-29"
    assert read("last month", now="2026-01-31T00:00:00.000000Z").since[:10] == "2025-12-01"


def test_a_language_that_the_policy_adds_is_read_behind_the_others():
    swedish = LANGUAGES[0]._replace(
        relative=(("yesterday", ("igår",)),), idle=("vad", "gjorde", "vi")
    )
    asked = read_time("Vad gjorde vi igår?", MONDAY, (*LANGUAGES, swedish))
    assert (days(asked), asked.alone) == (("02-01", "02-01"), True)
    assert read("Vad gjorde vi igår?") is None


WORDS = st.sampled_from(
    "what did we do on in since last this week month session before yesterday today ago 3 22 31 two "
    "January May Monday parser vor Wochen gestern am 22. Januar letzten 2026 2026-01-22 , ? the".split()
)  # fmt: skip


@settings(max_examples=examples(166), deadline=None)
@given(
    st.lists(st.one_of(WORDS, st.text(max_size=4)), max_size=9).map(" ".join),
    st.dates(date(1971, 1, 1), date(2200, 1, 1)),
)
def test_every_reading_is_words_of_the_question_and_a_span_that_has_begun(question, day):
    now = f"{day.isoformat()}T12:00:00.000000Z"
    asked = read_time(question, now, LANGUAGES)
    if asked is None:
        return
    assert asked.words in " ".join(question.split())
    assert (asked.sessions_back > 0) != (asked.since is not None)
    named = any(len(word) == 4 and word.isdigit() for word in question.replace("-", " ").split())
    if asked.since is not None and not named:
        assert asked.since <= now
    if asked.since is not None and asked.until is not None:
        assert asked.since < asked.until
        first, last = (date.fromisoformat(time[:10]) for time in (asked.since, asked.until))
        assert last - first <= timedelta(days=400 * 31)


CASES = st.sampled_from([str.lower, str.upper, str.title, lambda word: word.replace("s", "\u017f")])


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.one_of(WORDS, st.sampled_from([*SPANS]), st.text(max_size=3)), CASES),
             max_size=5)
)  # fmt: skip
def test_a_language_none_of_whose_words_stand_in_a_question_reads_nothing_in_it(words):
    question = " ".join(" ".join(case(word) for word, case in words).split())[:200]
    for table in LANGUAGES:
        readings = [*time_words._readings(question, date.fromisoformat(MONDAY[:10]), table)]
        assert (read_time(question, MONDAY, [table]) is None) == (not readings)


def test_patterns_of_a_language_are_compiled_only_for_a_question_with_one_of_its_words():
    time_words._forms.cache_clear()
    assert read("how do we parse nested lists?") is None
    assert time_words._forms.cache_info().currsize == 0
    assert read("what did we do yesterday?") is not None
    assert time_words._forms.cache_info().currsize == 1
