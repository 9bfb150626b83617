"""What intake does to a long text in pieces is what it does to the whole."""

import hashlib
import re
import sys

import pytest
from hypothesis import given, settings, strategies as st

from memplane.errors import InputError
from memplane.event import encode
from memplane.intake import (
    Cleaner,
    Intake,
    Redactor,
    normalise,
    token_patterns as shapes_room,
    without_blocks,
)
from memplane.intake.markers import MARK, merge_spans, widened
from memplane.intake.token_patterns import SHAPES

# The package has functions of these names.
checking = sys.modules["memplane.intake"]
masking = sys.modules["memplane.intake.redact"]
TEXTS = st.text("ab\0\ud800\udfff\u00e9\u8a9e\U0001f600\n", max_size=60)
SIZES = st.integers(1, 9)
BUILT_IN = Redactor()


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@given(TEXTS, SIZES)
def test_a_text_is_cleaned_as_a_whole(patch, text, size):
    expected = "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)
    patch.setattr(checking, "PART", size)
    cleaner = Cleaner()
    assert cleaner.text(text) == expected
    assert cleaner.replaced == sum(a != b for a, b in zip(text, expected, strict=True))


@given(st.text("ab\u00e9\u8a9e\U0001f600", max_size=40), SIZES)
def test_the_bytes_of_a_text_are_those_of_the_whole(patch, text, size):
    patch.setattr(checking, "PART", size)
    with patch.context() as narrower:
        narrower.setattr(checking, "TEXT_BYTES_MAX", 60)
        try:
            normalise({"text": text})
            taken = True
        except InputError:
            taken = False
    assert taken == (len(text.encode()) <= 60)


@given(st.text("a\u00e9\u8a9e\U0001f600\ud800\n", max_size=40), SIZES)
def test_the_checksum_of_a_block_is_that_of_the_whole(patch, body, size):
    patch.setattr(sys.modules["memplane.intake"], "_PIECE", size)
    body = f"{body}\n"
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    block = f"memplane:begin\n{body}memplane:end {digest}\n"
    assert without_blocks(f"a\n{block}b") == ("a\nb", [block])


@given(st.text('a"\\\n\x01\u00e9\u8a9e\U0001f600', max_size=300), st.integers(120, 600))
def test_a_text_goes_to_a_body_exactly_where_its_line_would_be_too_long(patch, text, most):
    patch.setattr(checking, "LINE_MAX", most + checking.LOG_ADDS)
    patch.setattr(checking, "HEAD_BYTES", 20)
    draft = Intake(Redactor()).prepare({"text": text, "role": "tool", "kind": "fact"}, id="x")
    line = {"kind": "fact", "role": "tool", **({"text": text} if text else {})}
    assert (draft.body is not None) == (len(encode(line).encode()) - 2 > most)
    assert (draft.text, draft.body) == (text, draft.body and text.encode())


BITS = st.sampled_from(
    ["", " ", "\n", "0aQ9xk3Lm2", "[redacted:bearer]", "[redacted:x]", "password=", "hunter2x9", ' "',
     '", "-', '","-p', " -p", " --pass", "mysql", "curl -u me:", "://", "u:", "@h", "?key=", "&sig=",
     "<token>", "</token>", "name: token", " value: ", "ghp_", "sk-", "\u200b", "e\u0301"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(BITS, max_size=40).map("".join), SIZES)
def test_places_found_window_by_window_are_those_of_the_whole(patch, text, window):
    assert list(masking._dashes(text, window)) == list(masking._dashes(text, len(text)))
    shapes = [shape for shape in SHAPES if shape.literals[0][0] not in "*~"]
    whole = [list(shape.spans(text)) for shape in shapes[::9]]
    with patch.context() as narrower:
        narrower.setattr("memplane.intake.token_patterns.WINDOW", window)
        assert [list(shape.spans(text)) for shape in shapes[::9]] == whole


@given(st.lists(BITS, max_size=30).map("".join), st.sampled_from([r"\w+", r"[a-z]\W", r"r\w*:\w"]))
def test_spans_take_in_whole_marks_that_they_touch(text, pattern):
    marks = [mark.span() for mark in MARK.finditer(text)]
    spans = [match.span() for match in re.finditer(pattern, text)]
    expected = []
    for start, end in spans:
        touched = [mark for mark in marks if mark[0] < end and start < mark[1]]
        edges = sorted([(start, end), *touched])
        expected.append((edges[0][0], max(edge[1] for edge in edges)))
    assert list(widened(text, iter(spans))) == expected


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))).map(sorted), st.integers(0, 9))
def test_two_searches_are_merged_from_left_to_right(spans, cut):
    first, second = spans[::2], spans[1::2] + spans[-cut:] * (cut > 0)
    second.sort()
    assert list(merge_spans(first, iter(second))) == sorted([*first, *second])


@given(st.lists(BITS, max_size=40).map("".join), st.integers(1, 3))
def test_a_text_without_its_gaps_is_put_together_in_pieces(patch, text, most):
    gaps = [match.span() for match in shapes_room._GAP.finditer(text)]
    with patch.context() as narrower:
        narrower.setattr("memplane.intake.token_patterns._PIECES_MAX", most)
        view, places, removed = shapes_room._without_gaps(text)
    assert view == shapes_room._GAP.sub("", text)
    assert places[-1] == len(view)
    assert gaps == [(places[n] + removed[n], places[n] + removed[n + 1]) for n in range(len(gaps))]


def test_a_token_torn_behind_thousands_of_gaps_is_masked_whole():
    torn = "ghp_" + "\n".join("A1b2C3d4E" for _ in range(4))
    said = BUILT_IN.redact("heron\n" * 5_000 + torn.replace("\n", "\\n"))[0]
    assert said.startswith("heron\n" * 5_000)
    assert "A1b2C3d4E" not in said
