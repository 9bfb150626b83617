"""What a text says by how it is written: which markers it gets, and which it does not."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from memplane.event import WISH_MARKER
from memplane.intake import Intake, Marker, Redactor, markers
from memplane.policy.records import Markers
from memplane.policy.regex_safety import SENTENCE, pattern_mistake

OURS = Marker(Markers())
INSTRUCTION, PREFERENCE = ("custom:instruction",), ("custom:preference",)


def said(text, role="user", kind="message"):
    """What is to hold from now on: wishes of the work at hand are looked at on their own."""
    return tuple(marker for marker in OURS.find(text, role, kind) if marker != WISH_MARKER)


def prepared(**fields):
    """The markers of an event and those that were found, None where its line names none."""
    draft = Intake(Redactor(), marker=OURS).prepare(fields, id="e1")
    line = json.loads(b"{" + draft.rest + b"}")
    return line.get("markers"), line.get("data", {}).get("marked")


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("Decision: we keep the old parser", "decision"),
        ("decided: no cache", "decision"),
        ("Selected : the blue one", "decision"),
        ("- **Choosing:** a queue", "decision"),
        ("**Requirement**: answers within a second", "constraint"),
        ("Some words first.\n  1. Must: run offline", "constraint"),
        ("> Budget: 40 euros", "constraint"),
        ("CANNOT: leave the building", "constraint"),
        ("Didn\u2019t work: a second thread", "failure"),
        ("Tried but: it was too slow", "failure"),
        ("Error: no such table", "failure"),
        ("2) Failed: the last one", "failure"),
        ("### Goal: a release in May", "goal"),
        ("Need to: call the bank", "goal"),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant", "system", None])
def test_a_word_of_the_table_and_a_colon_begin_a_line(text, marker, role):
    assert said(text, role) == (marker,)


@pytest.mark.parametrize(
    "text",
    [
        "That was a decision: we keep it",
        "Decision making is hard",
        "Error handling: see below",
        "2 failed: the first and the last",
        "http://must:8080/",
        "```\nlimit: 10\n```",
        "~~~yaml\nerror: none\n",
        "",
    ],
)
def test_a_word_elsewhere_in_code_or_without_its_colon_marks_nothing(text):
    assert said(text) == ()


def test_a_label_counts_with_a_wide_colon_and_behind_a_byte_order_mark():
    assert said("Decision\uff1awe keep the old parser", "assistant") == ("decision",)
    assert said("\ufeffDecision: we keep the old parser", "assistant") == ("decision",)
    assert said("\ufeff- **Goal\uff1a** a release in May") == ("goal",)
    assert said("\ufeffAlways use tabs.") == INSTRUCTION


def test_what_tools_say_and_were_asked_bears_no_marker():
    text = "Error: no such file\nAlways use tabs."
    assert said(text, "tool") == said(text, None, "tool_result") == ()
    assert said(text, "assistant", "tool_call") == ()


@pytest.mark.parametrize(
    "text",
    [
        "Always answer in French.",
        "Please always cite the page number.",
        "Could you always show the units?",
        "You should never commit to the main branch.",
        "Thanks! Also, always reply with a table.",
        "When you write code, always add a test.",
        "If a test fails, don't change the test.",
        "Do not use mocks in this repository.",
        "From now on, dates are day first.",
        "Call every variable by its full name from now on",
        "Going forward, please keep answers under ten lines.",
        "When I ask for a summary, give three points.",
        "Whenever you give an example, use metric units.",
        "Make sure to run the linter before you commit.",
        "Please use the British spelling.",
        "Stop apologising.",
        "Only use the standard library",
        "Use spaces instead of tabs.",
        "call me Sam",
        "I want you to respond in German",
        "Please be concise.",
        "Remember that my sister is allergic to nuts.",
        "Keep in mind that I work on weekends.",
        "Under no circumstances may this be deployed on a Friday.",
        "1. Never push to main",
        "- **Always** use type hints",
    ],
)
def test_what_a_user_orders_for_good_is_a_standing_instruction(text):
    assert said(text) == INSTRUCTION


@pytest.mark.parametrize(
    "text",
    [
        "I prefer short answers.",
        "I'd really prefer a window seat",
        "I would rather walk than drive.",
        "I like to keep my mornings free.",
        "I hate it when mails have no subject.",
        "My favourite editor is a plain one",
        "Tea is my favorite.",
        "I usually work from the library.",
        "I never eat meat.",
        "Given my preference for quiet places, where should we go?",
        "Mornings work best for me.",
        "I'm not a fan of long meetings.",
        "I\u2019m most comfortable with plain text",
    ],
)
def test_what_a_user_likes_is_a_preference(text):
    assert said(text) == PREFERENCE


@pytest.mark.parametrize(
    "text",
    [
        "It is always nice to see you!",
        "Always a pleasure.",
        "always working late these days",
        "I never saw it.",
        "Never mind.",
        "never finished the book",
        "You never know",
        "I want to make sure it works.",
        "Don't worry about it.",
        "Should I always add a test?",
        "Do I have to restart it every time I change a file?",
        "When I asked him, he said no.",
        "I'll go there from now on.",
        "Which one do you prefer?",
        "She preferred the red one.",
        "I like your idea.",
        "What are the user's preferences?",
        "Can you provide an example, please?",
        "Please find the file attached.",
        "the only one left",
        "```\n# Always use tabs.\n```",
    ],
)
def test_talk_in_the_same_words_is_neither(text):
    assert said(text) == ()


def test_of_labelled_sentences_nineteen_of_twenty_hits_are_right_and_as_many_are_hit():
    rows = Path(__file__).with_name("standing.tsv").read_text("utf-8").splitlines()
    table = [row.split("\t") for row in rows]
    hits = [(label, text) for label, text in table if said(text) in (INSTRUCTION, PREFERENCE)]
    wanted = [text for label, text in table if label == "yes"]
    right = [text for label, text in hits if label == "yes"]
    assert len(wanted) >= 60
    assert len(table) - len(wanted) >= 60
    assert len(right) >= 0.95 * len(hits)
    assert len(right) >= 0.95 * len(wanted)


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("What do I prefer?", ()),
        ("Given that I prefer tea, what should I order?", PREFERENCE),
        ("Do you know which editor I prefer", ()),
        ("I don't know which one, but I prefer tea", PREFERENCE),
        ("Should I stick with what I like to use?", ()),
    ],
)
def test_what_is_asked_for_is_not_said(text, markers):
    assert said(text) == markers


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("She said: always use tabs.", ()),
        ("I said: always use tabs.", INSTRUCTION),
        ("As I told you: never use tabs.", INSTRUCTION),
        ("My boss says I prefer tea.", ()),
        ("My boss says we are late, and I prefer tea.", PREFERENCE),
        ("The sign says stop. I prefer tea.", PREFERENCE),
        ("> Always use tabs.", ()),
        ("> Nice weather\nAlways use tabs.", INSTRUCTION),
        ('"Always use tabs," he said.', ()),
        ("I never said I prefer tea.", ()),
    ],
)
def test_what_others_say_is_not_what_the_user_says(text, markers):
    assert said(text) == markers


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("Don't change the test for now.", ()),
        ("Don't change a test without asking.", INSTRUCTION),
        ("For this letter, avoid jargon.", ()),
        ("From now on, avoid jargon, also in this letter.", INSTRUCTION),
        ("Never use this email address.", INSTRUCTION),
        ("Please use the notes below.", ()),
        ("Please use tabs.", INSTRUCTION),
    ],
)
def test_what_is_wanted_once_is_not_standing_unless_it_is_said_to_be_for_good(text, markers):
    assert said(text) == markers


def test_no_pattern_that_sorts_out_what_is_not_meant_can_take_exponential_time():
    assert markers.PATTERNS
    assert {pattern_mistake(f"(?i){pattern}", SENTENCE) for pattern in markers.PATTERNS} == {""}


@pytest.mark.parametrize("role", ["assistant", "system", None])
def test_only_what_a_user_says_is_standing(role):
    assert said("Always answer in French. I prefer tea.", role) == ()


def test_a_text_has_each_of_its_markers_once_in_the_order_of_their_names():
    text = "Never guess. Always ask. I prefer tea.\nGoal: tea\nDecision: tea\nGoal: more tea"
    assert said(text) == ("custom:instruction", "custom:preference", "decision", "goal")


def test_what_stands_far_behind_in_a_long_text_is_no_standing_instruction():
    assert said("Some words. " * 100 + "Always use tabs.") == INSTRUCTION
    assert said("Some words. " * 400 + "Always use tabs.") == ()


def test_tables_are_the_policys():
    german = Markers(
        line_starts={"decision": ("Beschluss",)},
        standing={"custom:instruction": {"ab jetzt": "^ab jetzt", "möchte": r"\bich möchte\b"}},
    )
    mine = Marker(german)
    assert mine.find("Beschluss: bleibt", "assistant") == ("decision",)
    assert mine.find("Ab jetzt auf Deutsch", "user") == INSTRUCTION
    assert mine.find("Nein, ich möchte Tee", "user") == INSTRUCTION
    assert mine.find("Decision: no. Always use tabs.", "user") == ()


def test_an_empty_pattern_switches_a_phrase_off():
    standing = {"custom:instruction": {"always": "", "never": "^never"}}
    mine = Marker(Markers(standing=standing))
    assert mine.find("Always use tabs.", "user") == ()
    assert mine.find("Never use tabs.", "user") == INSTRUCTION


def test_switched_off_it_finds_nothing():
    assert Marker(Markers(detect=False)).find("Decision: x\nAlways use tabs.", "user") == ()


def test_what_is_found_stands_in_the_event_and_is_told_from_what_was_given():
    found = ["custom:instruction"]
    assert prepared(text="Never guess.", role="user") == (found, found)
    assert prepared(text="Goal: tea", role="assistant") == (["goal"], ["goal"])
    assert prepared(text="tea", role="user") == (None, None)


def test_markers_that_were_given_win_even_when_there_are_none_of_them():
    given = {"text": "Decision: tea. Never guess.", "role": "user"}
    assert prepared(**given, markers=["goal"]) == (["goal"], None)
    assert prepared(**given, markers=[]) == (None, [])
    assert prepared(**given, markers=None)[0] == ["custom:instruction", "decision"]
    assert prepared(text="tea", role="user", markers=[]) == (None, None)


def test_an_event_that_was_looked_at_before_is_not_looked_at_again():
    given = {"text": "Never guess.", "role": "user"}
    assert prepared(**given, data={"marked": []}) == (None, [])
    assert prepared(**given, markers=["goal"], data={"marked": ["goal"]}) == (["goal"], ["goal"])


def test_without_a_marker_nothing_is_looked_for():
    draft = Intake(Redactor()).prepare({"text": "Never guess.", "role": "user"}, id="e1")
    assert b"mark" not in draft.rest


TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            ["always", "never", " ", "\n", ". ", "use", "tabs", "I prefer", "i\u0307", "\u0130",
             "please", "?", "```", "~~~", "Decision", ":", "make sure", "from now on", ",", "1. ",
             "he said", '"', "this time", "what", "> ", "\ufeff", "\uff1a", "going forward", "; "]
        ),
        max_size=40,
    ).map("".join),
)  # fmt: skip


@given(TEXTS, st.sampled_from(["user", "assistant", "tool", None]))
def test_any_text_is_looked_at_and_its_markers_are_always_ones_that_the_log_takes(text, role):
    found = OURS.find(text, role)
    assert found == OURS.find(text, role) == Marker(Markers()).find(text, role)
    assert set(found) <= {*Markers().line_starts, *Markers().standing}
    assert list(found) == sorted(set(found))


@given(TEXTS)
def test_what_one_role_says_by_line_starts_any_other_does(text):
    of_user = {one for one in said(text) if not one.startswith("custom:")}
    assert of_user == set(said(text, "assistant"))


@pytest.mark.parametrize(
    "text",
    [
        "We should add the wood of the mast to every list",
        "let's keep the mast in one piece",
        "I want the hull to show the grain",
        "can we make the sail a bit wider?",
        "use spruce instead, oak is too heavy",
        "the hull must never be painted twice",
    ],
)
def test_what_a_user_wants_of_the_work_at_hand_is_marked(text):
    assert WISH_MARKER in OURS.find(text, "user")


@pytest.mark.parametrize(
    "text",
    [
        "what should we do with the mast?",
        "can we look at the mast first?",
        "paint the hull",
        "yes",
        "He told me: we should paint it red",
        "should I paint it?",
    ],
)
def test_what_asks_or_only_orders_is_no_wish(text):
    assert WISH_MARKER not in OURS.find(text, "user")
    assert WISH_MARKER not in OURS.find("We should paint it", "assistant")


def test_equal_tables_have_one_marker_and_others_their_own():
    plain = markers.marker_of(Markers())
    assert markers.marker_of(Markers()) is plain
    quiet = markers.marker_of(Markers()._replace(detect=False))
    assert quiet is not plain
    for text in ("Always use tabs.", "From now on answer in German.", "Decision: tabs."):
        for _ in range(2):  # what is remembered is what was found
            assert plain.find(text, "user") == Marker(Markers()).find(text, "user")
            assert quiet.find(text, "user") == ()
