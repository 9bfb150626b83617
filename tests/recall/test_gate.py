"""The rule by which a memory speaks at a prompt, and the passages that it may say."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from memplane.event import Event
from memplane.index.terms import IRREGULAR, stem, text_words
from memplane.policy.records import AnswerRule
from memplane.recall.gate import (
    GateFigures,
    Quoted,
    TextWords,
    content_words,
    count_content,
    decides,
    is_open,
    is_remark,
    read_prompt,
    split_passages,
    tool_names,
)

COMMON = frozenset(["file", "test", "run", "push", "branch"])

WORDS = st.sampled_from(
    "hoping hope dying die strategies strategy kept keep keeping loadSettingsFromFile settings "
    "entire/sessions/log.py checkpoint checkpoints a.b::c don't tests, (branch) 日本語 été x_y 42 \n".split(
        " "
    )
)
TEXTS = st.lists(WORDS, max_size=30).map(" ".join)


def texts_of(prompt):
    return [word.text for word in content_words(prompt)]


PLAIN = st.lists(st.sampled_from([f"word{n}" for n in range(40)]), max_size=30)
LOUD = st.sampled_from(["{}", '"{}"', "({}),", "**{}**", "- {}"])


class TestQuoted:
    @given(PLAIN, st.lists(st.one_of(PLAIN, st.none()), max_size=4), PLAIN, LOUD, st.integers(0, 6))
    def test_a_line_goes_that_ends_with_a_quotation_and_has_little_before_it(
        self, prompt, lines, behind, loud, before
    ):
        """By the definition: words are quoted that are among eight in a row that the prompt has."""
        size = min(8, len(prompt))
        rows = {tuple(prompt[at : at + size]) for at in range(len(prompt) - size + 1)}
        rows = rows if size >= 5 else set()
        texts = [[f"other{n}" for n in range(before)] + prompt, [*prompt, *behind]]
        texts += [prompt[before:] if one is None else one for one in lines]
        left, written = [], []
        for text in texts:
            starts = range(len(text) - size + 1)
            runs = [at for at in starts if tuple(text[at : at + size]) in rows]
            quoted = {at + n for at in runs for n in range(size)}
            written.append(" ".join(loud.format(word.upper()) for word in text))
            if not (quoted and max(quoted) == len(text) - 1 and len(text) - len(quoted) <= 4):
                left.append(written[-1])
        assert Quoted(" ".join(prompt)).without("\n".join(written)) == "\n".join(left)

    def test_a_text_that_quotes_nothing_is_itself(self):
        quoted = Quoted("why does the capstan creak?")
        for text in ("", "- \n  blanks   stay", "the capstan does not creak: why?"):
            assert quoted.without(text) == text
        assert Quoted("").without("some text  here\n") == "some text  here\n"

    def test_of_a_prompt_of_few_words_an_answer_has_all_as_well(self):
        assert Quoted("windlass grease?").without("windlass grease") == "windlass grease"
        assert Quoted("which grease is it, mate?").without("Which grease is it, mate?") == ""

    def test_of_a_long_prompt_the_first_thousand_words_are_looked_for(self):
        prompt = " ".join(f"word{n}" for n in range(3_000))
        assert Quoted(prompt).without(" ".join(prompt.split()[1:12])) == ""
        last = " ".join(prompt.split()[-9:])
        assert Quoted(prompt).without(last) == last


class TestPromptWords:
    def test_small_talk_has_no_content_words(self):
        for said in ("yes", "1", "thanks!", "ok, go ahead please", "ja, bitte", "looks good to me"):
            assert texts_of(said) == [], said

    def test_identifiers_paths_and_files_count_whole_and_by_their_parts(self):
        found = read_prompt("does loadSettings read cmd/entire/settings.json?", COMMON)
        assert "loadsettings" in found.named
        assert "cmd/entire/settings.json" in found.named
        assert stem("settings") in found.content

    def test_numbers_and_letters_say_nothing(self):
        assert texts_of("2. b 17 3.5") == []

    def test_rare_words_are_those_that_are_not_common(self):
        found = read_prompt("push the branch with goreleaser", COMMON)
        assert found.rare == (stem("goreleaser"),)
        assert set(found.content) == {"push", "branch", stem("goreleaser")}

    def test_a_question_word_is_seen_in_english_and_german(self):
        assert read_prompt("where is it kept?", COMMON).asks
        assert read_prompt("warum ist das so?", COMMON).asks
        assert read_prompt("MySQL for the ledger?", COMMON).asks
        assert not read_prompt("keep it", COMMON).asks

    def test_east_asian_text_counts_by_pairs_of_characters(self):
        assert texts_of("検索") == ["検索"]


class TestRule:
    def test_nothing_known_keeps_silent_whatever_is_matched(self):
        assert not is_open(GateFigures(content=40, matched=30, known=0), AnswerRule())

    def test_enough_matched_and_enough_new_speaks(self):
        rule = AnswerRule(matched=4, new_percent=40)
        assert is_open(GateFigures(9, 4, 5, 2), rule)
        assert not is_open(GateFigures(9, 3, 5, 2), rule)
        assert not is_open(GateFigures(9, 4, 5, 1), rule)

    def test_a_question_speaks_at_fewer_matches_and_more_news(self):
        rule = AnswerRule()
        assert is_open(GateFigures(9, 3, 4, 3, 0, asks=True), rule)
        assert not is_open(GateFigures(9, 3, 4, 2, 0, asks=True), rule)
        assert not is_open(GateFigures(9, 3, 4, 3, 0, asks=False), rule)

    def test_a_question_that_names_a_known_identifier_needs_no_news(self):
        assert is_open(GateFigures(9, 3, 4, 0, 1, asks=True), AnswerRule())

    def test_a_short_question_that_one_passage_covers_is_answered(self):
        assert is_open(GateFigures(2, 2, 1, 1, asks=True), AnswerRule())
        assert not is_open(GateFigures(2, 2, 1, 0, asks=True), AnswerRule())
        assert not is_open(GateFigures(3, 2, 1, 1, asks=True), AnswerRule())
        assert not is_open(GateFigures(1, 1, 1, 1, asks=True), AnswerRule())

    def test_a_near_text_speaks_where_the_policy_asks_for_vectors_and_the_words_are_new(self):
        near, asking = GateFigures(9, 2, 4, 3, cosine=55), AnswerRule(cosine_percent=55)
        assert is_open(near, asking)
        assert not is_open(near, AnswerRule())
        for less in ({"cosine": 54}, {"matched": 1}, {"new": 2}, {"known": 0}):
            assert not is_open(near._replace(**less), asking)

    def test_always_and_never_are_what_they_say(self):
        figures = GateFigures(9, 9, 9, 9, 9, asks=True)
        assert is_open(GateFigures(), AnswerRule(when="always"))
        assert not is_open(figures, AnswerRule(when="never"))

    @given(*[st.integers(0, 9)] * 4, st.booleans())
    def test_more_matches_never_close_it(self, matched, known, new, named, asks):
        figures = GateFigures(12, matched, known, min(new, known), min(named, known), asks)
        more = figures._replace(matched=matched + 1)
        assert is_open(figures, AnswerRule()) <= is_open(more, AnswerRule())


class TestPassages:
    @given(st.text(max_size=2_000), st.integers(240, 400))
    def test_passages_are_the_text_in_order_and_none_is_longer(self, text, most):
        spans = split_passages(text, most)
        assert all(end - start <= most for start, end in spans)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        joined = "".join(text[start:end] for start, end in spans)
        assert "".join(joined.split()) == "".join(text.split())

    @given(TEXTS, st.lists(WORDS, min_size=1, max_size=6).map(" ".join))
    def test_words_are_counted_as_the_analyser_would(self, text, prompt):
        wanted = {word.text for word in text_words(prompt)}
        expected = Counter(word.text for word in text_words(text) if word.text in wanted)
        assert TextWords(wanted, IRREGULAR).count(text) == dict(expected)

    def test_a_run_without_blanks_is_looked_at_in_pieces(self):
        text = "x" * 1_000_000 + " checkpoint"
        assert TextWords([stem("checkpoint")], IRREGULAR).count(text) == {stem("checkpoint"): 1}

    def test_content_is_counted_without_stems(self):
        assert count_content("yes please, do it now 12") == 0
        assert count_content("keep goreleaser on snapshot_builds") == 3

    def test_decisions_and_wishes_are_told_from_remarks(self):
        assert decides("let's use the second one instead")
        assert decides("wir sollten das lieber lassen")
        assert not decides("it failed again")


def test_an_identifier_is_taken_apart_in_a_very_short_question_alone():
    asked = read_prompt("where is openTideGate and what does it do?", frozenset())
    assert asked.composed == (("open", "tide", "gate"),)
    assert read_prompt("where is the tide gate?", frozenset()).composed == ()
    words = "sluice barge lock weir towpath windlass capstan halyard"
    assert read_prompt(f"why does openTideGate want {words}?", frozenset()).composed == ()


def test_parts_that_stand_together_open_a_question_with_something_known():
    assert is_open(GateFigures(4, 2, 1, 0, 0, True, 1), AnswerRule())
    assert not is_open(GateFigures(4, 2, 0, 0, 0, True, 1), AnswerRule())
    assert not is_open(GateFigures(4, 2, 1, 0, 0, False, 1), AnswerRule())


@pytest.mark.parametrize(
    ("text", "decided", "counts"),
    [
        ("The build fails because the lock is held", False, True),
        ("We should keep the lock", False, False),
        ("We should keep the lock", True, True),
        ("Let me check why it fails", True, False),
        ("The lock is green", True, False),
    ],
)
def test_a_remark_warns_or_decides_and_is_no_talk_of_next_steps(text, decided, counts):
    assert is_remark(text, decided=decided) == counts


def test_names_of_a_call_are_those_of_its_file_or_of_what_failed():
    def event(kind, text="", **data):
        return Event(1, "e", "", "", kind, text=text, data=data)

    path = "src/tide_gate.py"
    assert "tide_gate.py" in tool_names(event("tool_call", tool="Read", path=path))
    assert tool_names(event("tool_call", tool="Grep", path=path)) == ()
    assert tool_names(event("tool_call", text="see tide_gate.py", tool="Bash")) == ()
    failed = event("tool_result", "openTideGate: no such lock", tool="Bash", status="error")
    assert tool_names(failed) == ("opentidegate",)
    assert tool_names(event("tool_result", "openTideGate", tool="Bash", status="ok")) == ()
    many = " ".join(f"openTide{chr(65 + n % 26)}{n}x" for n in range(900))
    assert 0 < len(tool_names(event("tool_result", many, tool="Bash", status="error"))) <= 64
