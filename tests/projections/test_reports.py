"""What a text asks, came to and leaves open; without the words around that say nothing."""

import re

import pytest
from hypothesis import given, settings, strategies as st

from memplane.projections import reports
from memplane.projections.reports import (
    OUTCOME_CHARS_MAX,
    TITLE_WORDS_MAX,
    commits_in,
    has_outcome,
    heading_of,
    is_deferred,
    is_narration,
    is_report,
    left_in,
    meaning_words,
    outcome_of,
    pull_request_in,
    sentences_in,
    title_of,
)
from tests.examples import examples


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Can you please paint the hull of the boat red?", "paint the hull of the boat red?"),
        ("hi! we should sew new sails for spring", "sew new sails for spring"),
        ("help! the keel of the Albatros is loose", "the keel of the Albatros is loose"),
        ("commit this", ""),
        ("continue", ""),
        ("yes", ""),
        ("", ""),
    ],
)
def test_a_title_is_the_first_sentence_that_says_what_is_wanted(prompt, title):
    assert title_of(prompt) == title


def test_a_title_is_short():
    assert len(title_of("rig the boat " * 40).split()) == TITLE_WORDS_MAX + 1


def test_the_heading_of_a_plan_is_its_title():
    assert heading_of("# Plan: New sails for the Albatros\n\nText") == "New sails for the Albatros"
    assert heading_of("no heading here") == ""


def test_what_comes_next_is_no_report_and_a_report_begins_as_it_likes():
    assert is_narration("Now let me look at the hull before I go on with the sails of the boat.")
    assert is_narration("The sails are the following ones, which I have sewn for the boat today:")
    assert not is_report("Done. The mast stands.")
    assert is_report(
        "The mast stands again, and the shrouds hold it on both sides of the boat now."
    )


def test_an_outcome_has_the_beginning_and_the_end_without_what_says_nothing():
    text = "Perfect!\n\nThe mast stands.\n\n## Details\n\n" + "- a shroud more, of wire\n" * 40
    text += "\nNow the boat can sail in any wind.\n\nAll tests pass."
    made = outcome_of(text)
    assert made.startswith("The mast stands. a shroud more")
    assert made.endswith("Now the boat can sail in any wind. All tests pass.")
    assert "Perfect" not in made
    assert "Details" not in made
    assert " \u2026 " in made


def test_code_and_the_rules_of_tables_are_no_sentences():
    text = "The mast stands.\n```\nmake mast. Done.\n```\n| wood | age |\n|---|---|\n| oak | old |"
    assert [one.text for one in sentences_in(text)] == [
        "The mast stands.",
        "oak \u2013 old",
    ]


def test_what_is_asked_at_the_end_is_left_with_what_it_points_at():
    text = "I have sewn the sails. The keel has a crack near the stern. Shall I mend that now?"
    assert left_in(text) == ["Shall I mend that now? (The keel has a crack near the stern.)"]
    assert left_in("The sails are sewn. Is there anything else I can help with?") == []
    assert left_in("Why was it red? Because of the paint. It is blue now. It dries well.") == []


def test_what_is_called_open_at_the_end_is_left():
    assert left_in("The mast stands. The shrouds still need to be tightened.") == [
        "The shrouds still need to be tightened."
    ]
    assert left_in("The mast stands. Nothing more was wanted.") == []


def test_a_person_puts_something_off():
    assert is_deferred("let's do the paint in a separate PR")
    assert is_deferred("please create an issue for the keel")
    assert not is_deferred("paint the keel red")


def test_commits_and_pull_requests_are_read_from_what_was_printed():
    out = "[main 0a1b2c3d4] Sew the sails\n 2 files changed\n"
    assert list(commits_in(out)) == ["0a1b2c3 Sew the sails"]
    assert list(commits_in("[lint] ERROR in sails")) == []
    address = "https://forge.example/ann/boat/pull/12"
    assert pull_request_in(f"Opened: {address}\n") == f"#12 {address}"
    assert pull_request_in("https://forge.example/ann/boat/issues/12") == ""


@given(st.text(max_size=2000))
def test_whatever_is_said_the_parts_are_short_and_the_same(text):
    assert outcome_of(text) == outcome_of(text)
    assert len(outcome_of(text)) <= 2 * OUTCOME_CHARS_MAX
    assert len(title_of(text).split()) <= TITLE_WORDS_MAX + 1
    assert len(left_in(text)) <= 3
    is_report(text)
    is_deferred(text)


PARTS = (
    "should always", "never mind", "from now on", "going forward", "in the future", "in future",
    "each time you", "every time we", "any time we", "whenever you", "before each merge",
    "after every run", "remember to", "I'd really prefer", "i prefer", "overriding", "CLAUDE.md so",
    "add this to agents.md", "please use", "please avoid", "german", "style", "to any", "ab jetzt",
    "ab sofort", "in zukunft", "bitte", "soll", "immer", "niemals", "nie", "you", "must", "to",
    "for now", "this time", "just this once", "just once", "in this pr", "in this session",
    "here only", "only here", "diesmal", "nur hier", "for later", "as a separate pr", "new issue",
    "another branch", "open a ticket", "file a new one", "not now", "not in this change", "postpone",
    "do it later", "defer", "leave that for", "not yet", "still to do", "remains", "left open",
    "todo", "for the next time", "next:", "next step", "follow-ups", "followup", "out of scope",
    "uncommitted", "blocked by", "known issues", "haven't been merged", "larger refactor", "issue",
)  # fmt: skip
GUARDED = (
    *((pattern, texts) for texts, pattern in reports._STANDS), (reports._ONCE, reports._PASSING),
    (reports._DEFERS, reports._DEFERRING), (reports._STILL, reports._STAYING),
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=6)), max_size=7), st.booleans())
def test_what_is_looked_for_first_is_in_all_that_the_pattern_finds(parts, upper):
    sentence = " ".join(parts)
    sentence = sentence.upper() if upper else sentence
    for pattern, texts in GUARDED:
        if texts not in reports._hints(sentence):
            assert pattern.search(sentence) is None


ENDS = re.compile(r"[?!]+(?=\s|$)|(?<!\b[ei]\.[ge])(?<!\betc)\.(?=\s|$)")  # as one would write it


@given(st.text(alphabet="?!. eigtcx\n", max_size=20))
def test_sentences_end_where_the_plain_pattern_says(text):
    assert [one.span() for one in reports._END_TYPED.finditer(text)] == [
        one.span() for one in ENDS.finditer(text)
    ]


@given(st.text(max_size=40) | st.text(alphabet="aA ΣİK'-_1", max_size=20))
def test_words_are_made_small_one_by_one(text):
    words = [word.lower() for word in reports._WORD.findall(text)]
    assert meaning_words(text) == [
        word for word in words if len(word) > 1 and word not in reports.SMALL_WORDS
    ]


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ("The mast", " `a.py`", "`b`", ". ", ".\n", ":\n", ":", " **", "__", "\n", "# ", "- ")
        )
        | st.sampled_from(("Let me look", "Done!", "|", "---", "```", "~~~", "?", "1. ", "é", ">"))
        | st.text(max_size=4)
    ).map("".join)
)
def test_a_text_that_plainly_has_an_outcome_has_one(text):
    assert outcome_of(text) or not has_outcome(text)


def test_most_reports_plainly_have_an_outcome():
    assert has_outcome("`mast.py` holds the mast: it stands again.\n\nNext I sew the sails.")
    assert not has_outcome("What is left to be done:\n- the sails")
    assert not has_outcome("")
