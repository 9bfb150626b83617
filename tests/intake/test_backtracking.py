"""No text makes a pattern of intake, or what uses its matches, try again and again.

Each pattern is held to the proof that the check of policies is tried against, also as a whole match:
a repeat that can share a row of characters in two ways is found there. What finders do with matches
is run on hostile texts of two lengths.
"""

import re
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from memplane.intake import Redactor
from memplane.intake.redact import masked, without_secrets
from memplane.intake.token_patterns import SHAPES

sys.path.insert(0, str(Path(__file__).parents[1] / "policy"))
from regex_proof import TooLargeError, ambiguous, shared

MODULES = (
    "intake", "intake.markers", "intake.redact", "intake.token_patterns",
    "artifacts",
)  # fmt: skip
BUILT_IN = Redactor()
# The check counts what a possessive repeat protects (`++`, `}+`), and takes no notice of what a
# look behind or a negative look ahead excludes. Of each of these that was read and run below.
PROTECTED = {
    "artifacts._CODE", "redact._NAMED", "redact._PEM_LINES", "redact._PUTTY",
    "redact._VALUE",
}  # fmt: skip


def patterns():
    """The source of each compiled pattern, by module and name; also those inside of tables."""
    found = {}
    for module in MODULES:
        import_module(f"memplane.{module}")
        for name, value in vars(sys.modules[f"memplane.{module}"]).items():
            for number, one in enumerate(each(value)):
                found[f"{module.rpartition('.')[2]}.{name}{number or ''}"] = one
    for shape in SHAPES:
        found[f"shape {shape.name}"] = shape.start + shape.pattern
    return found


def each(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for one in value:
            yield from each(one)
    elif type(value).__name__ in ("_Pattern", "Pattern"):
        source = value.pattern
        yield source.decode("latin-1") if isinstance(source, bytes) else source
    elif isinstance(getattr(value, "__self__", None), re.Pattern):  # `regex(...).search`, bound
        yield from each(value.__self__)


PATTERNS = patterns()


def named_by_checks(pattern):
    found = []
    for check in (ambiguous, shared):
        try:
            found.append(check(pattern))
        except (TooLargeError, RecursionError):
            found.append("too large")
    return [one for one in found if one is not None]


def test_the_patterns_are_found():
    assert len(PATTERNS) > len(SHAPES) + 60
    assert {
        "redact._CODE",
        "redact._URL",
        "token_patterns._HALF",
        "redact._FIRST_WORD",
    } <= set(PATTERNS)


def test_no_pattern_matches_a_row_of_characters_in_two_ways():
    named = {}
    for name in sorted(set(PATTERNS) - PROTECTED):
        # Also where all of a text must match: then its end is not the end of the search.
        flags, rest = re.fullmatch(r"(?s)(?:\(\?([a-z]+)\))?(.*)", PATTERNS[name]).groups()
        for pattern in (PATTERNS[name], rf"(?{flags or ''}:{rest})\Z"):
            if found := named_by_checks(pattern):
                named[name] = found
    assert named == {}


def hostile(size):
    """Texts of about so many characters, and what is done with them; each wakes its finder."""
    segment = ".".join(["aaaaaaaaa"] * 12)
    torn = "glpat-AAAA\\nAAAAAAAAAAAAAAAAAAAA1-"
    rows = {
        "code as a value": f"token=a1.{segment}! ",
        "paths as a value": "token=" + "a1/" * 40 + "! ",
        "calls as a value": "password=a1" + "->a" * 38 + "! ",
        "a long line of options": "mysql -P 8080 ",
        "torn tokens": torn,
        "tokens on lines": "glpat-AAAAAAAAAAAAAAAAAAAAA1\n",
        "quotes": "key='token=\"secret=`password=\\'",
        "backslashes": "token=" + "\\" * 9 + '"',
        "commas": '"--token","--key","',
        "blanks": "password" + " " * 23 + "= ",
        "equals": "key=token=:=password:==",
        "names": "name: api_key,\n    1\t> ,value:",
        "base64": "-----BEGIN RSA PRIVATE KEY-----\n" + "QUJD" * 16 + "\n",
        "queries": "://a:b?key=a1&token=a1&",
        "entities": '<a name="key"><key>key</key><string>',
        "logins": "docker login -p $A ",
    }
    return {name: row * max(1, size // len(row)) for name, row in rows.items()}


def structured(size):
    """Data whose keys and items are secrets, and an error of a text that holds a part of one."""
    number = size // 48
    yield lambda: BUILT_IN.redact_data({f"ghp_{at:036}": 1 for at in range(number)})
    yield lambda: BUILT_IN.redact_data(
        [one for _ in range(number) for one in ("mysql", "-pa1b2c3d4")]
    )
    yield lambda: without_secrets("abcdefgh" * (size // 8), ["abcdefg" * (size // 8)])
    yield lambda: masked("x" + "ey" * (size // 2))


OPENED = " create user password identified name value <a> </a> curl -u mysql kty .ey.a private"


# Of a quarter of the text, a sixteenth of the time is as much.
SIZES = pytest.mark.parametrize(
    "size",
    [
        pytest.param(60_000, marks=pytest.mark.timeout(20)),
        pytest.param(250_000, marks=pytest.mark.long),
    ],
)


@SIZES
@pytest.mark.parametrize("name", hostile(1))
def test_a_text_made_to_be_tried_again_is_worked_off(name, size):
    BUILT_IN.redact(hostile(size)[name] + OPENED)


@SIZES
def test_data_made_to_be_compared_with_each_other_is_worked_off(size):
    for act in structured(size):
        act()


@pytest.mark.long
@pytest.mark.parametrize("name", hostile(1))
def test_twice_the_text_costs_about_twice_as_much(name):
    assert ratio(lambda size: BUILT_IN.redact(hostile(size)[name] + OPENED)) <= 3


@pytest.mark.long
@pytest.mark.parametrize("number", range(4))
def test_twice_the_data_costs_about_twice_as_much(number):
    assert ratio(lambda size: list(structured(size))[number]()) <= 3


def ratio(act):
    """How much longer twice the size takes, at a size that takes the processor 50 ms or more.

    The least of three runs each: what else the machine does is no part of it.
    """
    size = 16_384
    while (once := least(act, size)) < 0.05 and size < 1 << 23:
        size *= 2
    return least(act, 2 * size) / max(once, 0.05)


def least(act, size):
    took = []
    for _ in range(3):
        begun = time.process_time()
        act(size)
        took.append(time.process_time() - begun)
    return min(took)
