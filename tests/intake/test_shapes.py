"""Every provider of the table: its tokens are masked, and what only looks alike is not."""

import re

import pytest
from builders_secrets import TOKENS
from hypothesis import given, settings, strategies as st

from memplane.intake import Redactor
from memplane.intake.redact import MARK
from memplane.intake.token_patterns import RUN_MIN, SHAPES, suspects
from tests.examples import examples

BUILT_IN = Redactor()

EVERY = [(name, token) for name, several in TOKENS.items() for token in several]


def test_every_shape_of_the_table_has_made_up_tokens_here():
    assert [shape.name for shape in SHAPES if shape.name not in TOKENS] == []
    assert len(SHAPES) >= 40


@pytest.mark.parametrize(
    ("name", "token"), EVERY, ids=[f"{name}-{i}" for i, (name, _) in enumerate(EVERY)]
)
def test_a_token_of_every_provider_is_masked_wherever_it_stands(name, token):
    mark = f"[redacted:{name}]"
    assert BUILT_IN.redact(token) == (mark, {name: 1})
    assert len(token) >= RUN_MIN
    assert BUILT_IN.in_name(token) == {name: 1}
    for file in (f"{token}.md", f"docs/{token}.tar.gz"):
        assert BUILT_IN.in_name(file)
        assert token not in BUILT_IN.name(file)
    for before, after in [
        ("use ", " today"),
        ("('", "')"),
        ("line\n", "\nline"),
        ('{"x":"a\\n', '\\n"}'),
        ("Grüße ", "…"),
        ("\x1b[93m", "\x1b[0m"),
        ("\\u001b[1;31m", "\\u001b[0m"),
    ]:
        assert BUILT_IN.redact(before + token + after)[0] == before + mark + after


@settings(max_examples=examples(66), deadline=None)
@given(st.text(max_size=30), st.sampled_from([token for _, token in EVERY]), st.text(max_size=30))
def test_a_token_between_spaces_never_survives_whatever_stands_around_it(before, token, after):
    assert token not in BUILT_IN.redact(f"{before} {token} {after}")[0]


PIECES = st.one_of(
    st.sampled_from([token for _, token in EVERY]),
    st.sampled_from([token[: len(token) // 2] for _, token in EVERY]),
    st.sampled_from(
        ["\\n", "\\r", "\\t", "%3D", "%AB", "%", "[93m", "[3m", ";31m", "\x1b[1;31m", "a", "Z", "1", "-", "_", ".",
         "/", "=", ":", " ", "\n", '"', "\u017f", "\u212a", "漢", "x" * 20]
    ),
    st.text(max_size=3),
)  # fmt: skip


@settings(max_examples=examples(166), deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_looking_ahead_never_leaves_out_a_shape_whose_token_stands_in_the_text(text):
    """Whatever comes before it: an escape, a colour, a percent sign, a letter beyond ASCII."""
    expected = {
        shape.name
        for shape in SHAPES
        for start, end in shape.spans(text)
        if re.fullmatch(r"[A-Za-z0-9_.+/=~:%@\\-]{18,}", text[start:end])
    }
    for encoded in (text.encode("ascii", "replace"), text.encode("utf-8", "replace")):
        assert expected <= {shape.name for shape in suspects(encoded)}


def test_no_token_is_shorter_than_the_runs_that_are_searched():
    """But for one whose parts may be of any length: the real ones are long."""
    short = [
        shape.name
        for shape in SHAPES
        if vars(re)["_parser"].parse(shape.pattern).getwidth()[0] < RUN_MIN
    ]
    assert short == ["slack-token"]


def test_marks_have_the_form_that_protects_them():
    assert all(MARK.fullmatch(f"[redacted:{shape.name}]") for shape in SHAPES)
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)
    assert all(
        re.fullmatch(r"[\x21-\x7e]+", literal) for shape in SHAPES for literal in shape.literals
    )
