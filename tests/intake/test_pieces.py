"""What intake does to a long text in pieces is what it does to the whole."""

import hashlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import InputError
from memplane.event import encode
from memplane.intake import Intake, Redactor, check
from memplane.intake.recalled import without_blocks
from memplane.intake.values import Cleaner

# The package has functions of these names.
preparing, checking = (sys.modules[f"memplane.intake.{name}"] for name in ("prepare", "check"))
TEXTS = st.text("ab\0\ud800\udfff\u00e9\u8a9e\U0001f600\n", max_size=60)
SIZES = st.integers(1, 9)


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@given(TEXTS, SIZES)
def test_a_text_is_cleaned_as_a_whole(patch, text, size):
    expected = "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)
    patch.setattr("memplane.intake.values.PART", size)
    cleaner = Cleaner()
    assert cleaner.text(text) == expected
    assert cleaner.replaced == sum(a != b for a, b in zip(text, expected, strict=True))


@given(st.text("ab\u00e9\u8a9e\U0001f600", max_size=40), SIZES)
def test_the_bytes_of_a_text_are_those_of_the_whole(patch, text, size):
    patch.setattr(checking, "PART", size)
    with patch.context() as narrower:
        narrower.setattr(checking, "TEXT_BYTES_MAX", 60)
        try:
            check({"text": text})
            taken = True
        except InputError:
            taken = False
    assert taken == (len(text.encode()) <= 60)


@given(st.text("a\u00e9\u8a9e\U0001f600\ud800\n", max_size=40), SIZES)
def test_the_checksum_of_a_block_is_that_of_the_whole(patch, body, size):
    patch.setattr("memplane.intake.recalled._PIECE", size)
    body = f"{body}\n"
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    block = f"memplane:begin\n{body}memplane:end {digest}\n"
    assert without_blocks(f"a\n{block}b") == ("a\nb", [block])


@given(st.text('a"\\\n\x01\u00e9\u8a9e\U0001f600', max_size=300), st.integers(120, 600))
def test_a_text_goes_to_a_body_exactly_where_its_line_would_be_too_long(patch, text, most):
    patch.setattr(preparing, "LINE_MAX", most + preparing.LOG_ADDS)
    patch.setattr(preparing, "HEAD_BYTES", 20)
    draft = Intake(Redactor()).prepare({"text": text, "role": "tool", "kind": "fact"}, id="x")
    line = {"kind": "fact", "role": "tool", **({"text": text} if text else {})}
    assert (draft.body is not None) == (len(encode(line).encode()) - 2 > most)
    assert (draft.text, draft.body) == (text, draft.body and text.encode())
