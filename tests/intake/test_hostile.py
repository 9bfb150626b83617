"""Texts made to cost much: no pattern looks at the same characters again and again.

A pytest timeout is the bound: what goes over the rest of the text from each of its places needs
far longer than that for these, and what tries all ways to match needs years. Texts are a quarter as
long in `make test` as in `make test-long`, and the timeout is a sixteenth.
"""

import pytest
from builders_secrets import TOKENS

from memplane.intake import Redactor
from memplane.intake.markers import MARK, widened
from memplane.intake.token_patterns import SHAPES

SIZES = pytest.mark.parametrize(
    "quarters",
    [
        pytest.param(1, marks=pytest.mark.timeout(20), id="short"),
        pytest.param(4, marks=[pytest.mark.timeout(300), pytest.mark.long], id="long"),
    ],
)
BUILT_IN = Redactor()
BEGIN = "-----BEGIN PRIVATE KEY-----"
# Words that open the doors of finders which look first whether they are needed at all.
OPENED = " create user password identified name value <a> </a> curl -u mysql redis-cli kty .ey.a"
UNBOUNDED = [shape for shape in SHAPES if any(sign in shape.pattern for sign in (",}", "+", "*"))]


@SIZES
@pytest.mark.parametrize(
    "piece",
    [
        f"{BEGIN} {'A' * 40}\n", f"DEK-Info: {BEGIN}\n", f"{BEGIN}\n{'x' * 39}|{'A' * 39}\n", f"{BEGIN}\\n",
        "x|" + "A" * 40 + "\n", "DEK-Info:", "-----BEGIN ", "-----END ", "xoxb-", "xapp-1-a-", "ey", "/ey", "s.a1",
        "AAAAAAAAAAAAAAAAAAAAAA", ":AA1", "a1-us", "sq0abc-",
    ],
)  # fmt: skip
def test_beginnings_without_an_end_are_worked_off(piece, quarters):
    for before in ("", BEGIN):
        BUILT_IN.redact(before + piece * (quarters * 150_000 // len(piece)) + OPENED)


@SIZES
@pytest.mark.parametrize(
    "piece",
    [
        "curl -u ", "curl\t-ua", "create user ", "role ", "name: abc,\n", "name:abc,value:'", "?key=1", "<abc abc ",
        "<abc>", "mysql -p", "redis-cli -a ", "identified with a ", "://a:", "key: abc|", "key \\t\\t'", 'pw="aaaaaa',
        "token" + " " * 9, "password: a a a ", "key=a(", "--key a.a/", "authorization: ", '"d":"', "a/" * 20 + ".",
        "password=a/", "password=a.", "passwordA",
    ],
)  # fmt: skip
def test_names_of_secrets_without_values_are_worked_off_with_every_finder_awake(piece, quarters):
    BUILT_IN.redact(piece * (quarters * 50_000 // len(piece)) + OPENED)


@pytest.mark.parametrize("shape", UNBOUNDED, ids=[shape.name for shape in UNBOUNDED])
@pytest.mark.parametrize(
    ("ends", "size"),
    [
        pytest.param(("",), 20_000, marks=pytest.mark.timeout(50)),
        pytest.param(("", "-", "\\n"), 50_000, marks=pytest.mark.long),
    ],
)
def test_beginnings_of_any_token_are_worked_off_wherever_its_pattern_has_no_bound(
    shape, ends, size
):
    token = TOKENS[shape.name][0]
    literals = {literal.lstrip("*~").partition("{")[0] for literal in shape.literals}
    for piece in sorted({token[: len(token) // 2], token[:-1], *literals}):
        for text in (piece + end for end in ends):
            BUILT_IN.redact(text * (size // len(text)) + OPENED)


def test_a_pattern_that_matches_between_any_number_of_marks_takes_none_of_them_apart():
    text = "[redacted:jwt]1" * 60_000
    spans = [(at, at + 1) for at, letter in enumerate(text) if letter == "1"]
    assert list(widened(text, spans)) == spans
    across = [(start - 3, end + 3) for start, end in spans]
    for start, end in list(widened(text, across))[:-1]:
        assert all(
            start <= mark.start() and mark.end() <= end for mark in MARK.finditer(text, start, end)
        )
        assert text[start] == "[" and text[end - 1] == "]"  # noqa: PT018 - one claim
