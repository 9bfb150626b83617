"""Every provider of the table: its tokens are masked, and what only looks alike is not."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import TOKENS

from memplane.intake import Redactor
from memplane.intake.pairs import MARK
from memplane.intake.shapes import RUN_MIN, SHAPES

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


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.sampled_from([token for _, token in EVERY]), st.text(max_size=30))
def test_a_token_between_spaces_never_survives_whatever_stands_around_it(before, token, after):
    assert token not in BUILT_IN.redact(f"{before} {token} {after}")[0]


def test_marks_have_the_form_that_protects_them():
    assert all(MARK.fullmatch(f"[redacted:{shape.name}]") for shape in SHAPES)
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)
    assert all(
        re.fullmatch(r"[\x21-\x7e]+", literal) for shape in SHAPES for literal in shape.literals
    )
