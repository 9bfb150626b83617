"""Events to documents: what is found by which words, in which pieces, and what is never indexed."""

import pytest
from hypothesis import example, given, strategies as st

from memplane.event import KINDS, SENSITIVITIES, UPKEEP_KINDS, Event
from memplane.index import terms
from memplane.index.terms import INSTRUCTION, PREFERENCE, READ
from memplane.recall.documents import (
    KIND_BITS,
    LIMITED,
    SENSITIVITY_BITS,
    SPACE_BITS,
    chunks,
    documents_of,
    microseconds,
)

TS = "2026-01-05T12:17:31.459000Z"


def event(**fields):
    fields = {
        "seq": 7,
        "id": "e7",
        "ts": TS,
        "rec": TS,
        "kind": "message",
        "text": "herons",
    } | fields
    return Event(**fields)


def documents(tool_result_tokens=200, **fields):
    made = event(**fields)
    return documents_of(made, made.text, tool_result_tokens)


def only(**fields):
    (document,) = documents(**fields)
    return document


def bits(document, place):
    low, width = place
    return document.flags >> low & (1 << width) - 1


def words_of(document):
    found = terms.analyse(document.text, document.extra, terms.TermVocabulary())
    return set(found.words)


@pytest.mark.parametrize("kind", [*UPKEEP_KINDS, "session", "secret"])
def test_upkeep_sessions_and_secrets_have_no_document(kind):
    assert documents(kind=kind) == []


def test_a_secret_of_any_kind_has_no_document():
    assert documents(sensitivity="secret") == []


def test_an_event_without_words_has_none_unless_something_names_it():
    assert documents(text=" \n") == []
    assert only(text="", kind="tool_call", data={"tool": "Read", "path": "src/app.py"}).text == ""
    assert only(text="", key="db.engine").labels[-1] == "key:db.engine"


def test_an_event_is_found_by_who_when_tool_file_key_and_tags():
    found = only(
        actor="Ann Lee", tags=("Storage",), key="db.engine",
        data={"tool": "Read", "path": "src/app/main.py"},
    )  # fmt: skip
    for query in ("Ann", "lee", "January", "2026", "Monday", "storage", "read", "main.py", "app",
                  "src/app/main.py", "engine", "herons", "5"):  # fmt: skip
        assert {term for term, _ in terms.query(query).words} & words_of(found), query


def test_without_an_actor_the_role_speaks():
    assert terms.whole_term(terms.stem("assistant")) in words_of(only(role="assistant"))
    assert only(role="assistant").speaker == ""
    assert only(role="user", actor="ANN").speaker == "ann"


def test_labels_say_exactly_what_the_event_is():
    found = only(
        ns="/task/t1", session="S 1", task="t1", tags=("A", "b"), key="DB", id="cc:file:0",
        markers=("goal", "custom:mine"), kind="fact",
    )  # fmt: skip
    assert set(found.labels) == {
        "kind:fact", "ns:/task/t1", "session:S 1", "task:t1", "tag:a", "tag:b", "key:db",
        "marker:goal", "marker:custom", "source:cc", "source:cc:file",
    }  # fmt: skip


def test_neighbours_are_those_of_a_session_in_one_namespace():
    assert only(session="s").group == only(session="s", seq=9).group != ""
    assert only(session="s").group != only(session="s", ns="/task/a").group
    assert only().group == ""


@pytest.mark.parametrize("sensitivity", SENSITIVITIES[:3])
def test_flags_hold_the_sensitivity(sensitivity):
    found = bits(only(sensitivity=sensitivity), SENSITIVITY_BITS)
    assert SENSITIVITIES[found] == sensitivity


def test_flags_hold_the_namespace_class_and_the_kind():
    spaces = ("/global", "/task/a", "/spec/b", "/agent/c", "/strange")
    assert [bits(only(ns=ns), SPACE_BITS) for ns in spaces] == [0, 1, 2, 3, 1]
    assert KINDS[bits(only(kind="rule"), KIND_BITS)] == "rule"
    assert bits(only(kind="of tomorrow"), KIND_BITS) == 31


def test_flags_say_who_holds_for_a_time_only():
    assert only(valid_until=TS).flags & only(valid_from=TS).flags & LIMITED
    assert not only().flags & LIMITED


BOTH = "Always answer in French. I prefer short answers."
STANDING = INSTRUCTION | PREFERENCE


def standing(**fields):
    """What an event says of itself, and what its text says where nobody has looked before."""
    flags = only(text=BOTH, **fields).flags
    return flags & STANDING, flags >> READ & STANDING


def test_an_event_that_bears_a_marker_is_the_standing_instruction_that_it_says_it_is():
    assert standing(role="user", markers=("custom:instruction",)) == (INSTRUCTION, 0)
    assert standing(role="assistant", markers=("custom:preference",)) == (PREFERENCE, 0)
    assert standing(role="user", markers=("goal",)) == (0, 0)


def test_rules_and_preferences_are_standing_by_their_kind():
    assert standing(kind="rule") == (INSTRUCTION, 0)
    assert standing(kind="preference", markers=("goal",)) == (PREFERENCE, 0)


def test_the_text_of_a_user_is_read_where_nobody_has_looked_for_markers():
    assert standing(role="user") == (0, STANDING)
    assert standing(role="assistant") == standing() == (0, 0)
    assert standing(role="user", data={"marked": []}) == (0, 0)


def test_times_are_microseconds_and_strange_ones_are_none():
    assert microseconds("1970-01-01T00:00:01.000002Z") == 1_000_002
    assert microseconds(TS) < microseconds("2026-01-05T12:17:31.459001Z")
    assert microseconds("9999-12-31T23:59:59.999999Z") < 1 << 62
    assert microseconds("yesterday") == microseconds("") == 0
    assert only(ts="yesterday").at == 0


PIECES = st.sampled_from(
    [
        "herons nest. ",
        "\n",
        "a" * 500,
        "데이터베이스를 그대로 두기로 했다。",
        "x = 1\n",
        "👩‍👩‍👧‍👦 ",
        "\ud800",
        "Who? ",
    ]
)
TEXTS = st.builds(
    lambda pieces, times: "".join(pieces) * times,
    st.lists(PIECES, max_size=12),
    st.sampled_from([1, 3, 40]),
)


@given(TEXTS)
def test_chunks_joined_are_the_text(text):
    if len(text) <= 64 * 1_600:
        assert "".join(chunks(text)) == text


@given(TEXTS)
def test_chunks_are_at_most_400_tokens_as_characters_go(text):
    for chunk in chunks(text):
        plain = len(chunk.encode("ascii", "ignore"))
        assert plain + 4 * (len(chunk) - plain) <= 1_600 + 4 * 300


@example("데이터베이스를 그대로 두기로 했다。" * 40, 7, "tool_result", 115)
@given(
    TEXTS, st.integers(0, 3_000), st.sampled_from(["message", "tool_result"]), st.integers(1, 250)
)
def test_the_tokens_of_the_documents_are_those_of_the_event(text, tokens, kind, ends):
    found = documents(ends, text=text, kind=kind, tokens=tokens)
    assert sum(document.tokens for document in found) == (tokens if found else 0)
    assert [document.part for document in found] == list(range(len(found)))


@given(TEXTS)
def test_documents_depend_on_the_event_alone(text):
    one = event(text=text, role="user", session="s")
    again = documents_of(one, text, 200)
    assert documents_of(one, text, 200) == again
    assert documents_of(one._replace(h="other", dur=3), text, 200) == again


def test_of_a_long_tool_result_the_two_ends_are_indexed():
    lines = "\n".join(f"line {number} of the output" for number in range(2_000))
    found = documents(50, text=lines, kind="tool_result", tokens=16_000)
    assert found[0].text.startswith("line 0 of")
    assert found[-1].text.endswith("line 1999 of the output")
    assert sum(len(document.text) for document in found) <= 400
    whole = documents(50, text=lines, kind="message", tokens=16_000)
    assert "".join(document.text for document in whole) == lines


def test_of_an_enormous_text_the_first_and_last_chunks_are_indexed():
    text = "".join(f"sentence number {number} is here. " for number in range(40_000))
    found = documents(text=text, tokens=300_000)
    assert len(found) <= 64
    assert found[0].text.startswith("sentence number 0 ")
    assert found[-1].text.endswith("sentence number 39999 is here. ")
    assert sum(document.tokens for document in found) == 300_000


def test_a_cut_never_goes_through_a_word():
    words = [f"w{number:06}" for number in range(30_000)]
    for fields in ({"kind": "message"}, {"kind": "tool_result", "tool_result_tokens": 77}):
        for document in documents(text=" ".join(words), tokens=90_000, **fields):
            assert set(document.text.split()) <= set(words)


@given(st.text("ab. \n\u00e9\u8a9e\U0001f600", max_size=300), st.integers(1, 20))
def test_documents_of_a_text_measured_in_pieces_are_those_of_the_whole(text, size):
    told = event(text=text)
    whole = documents_of(told, text, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memplane.recall.documents._PIECE", size)
        assert documents_of(told, text, 20) == whole
