"""Keys that name a secret, and the values that stand behind them: `password=…`, `--token …`.

The finder yields the spans to mask, from left to right. Keys and separators stay, so that the text
still says what stood there. All patterns are bounded: a hostile megabyte costs what any megabyte
costs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from memplane.intake.marks import MARK, Span
from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MARK", "key_values", "looks_secret", "secret_key"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whole parts of a key: `auth` is one in `x-auth-data` and none in `author`.
_SECRET_PARTS: Final = _words(
    "password passwd passphrase passcode pwd pass pw secret secrets token credential credentials "
    "creds auth authorization authentication bearer apikey authtoken accesstoken accesskey "
    "secretkey privatekey pgpassword nonce salt"
)
# Of these only the pair with `key` is secret: `api_key`, `signing-key`.
_SECRET_PAIRS: Final = _words(
    "api access secret private encryption signing account auth authentication activation master "
    "shared license"
)
_SECRET_ENDS: Final = ("password", "passwords", "passwd", "passphrase", "secret", "apikey", "pwd")
# `mysqlpass` ends in a password, and `bypass` does not; `pswd` and `passwrd` are passwords too.
_PASS_END: Final = regex(
    r"(?!(?:by|com|encom|sur|tres|under|over|one|two|multi|single|first|last|re)pass)"
    r"(?:[a-z]{2,20}pass|[a-z]{0,20}p(?:a?s{1,2})?w(?:o?r)?s?d)"
)
# `token_type` names a type; `token_count` counts.
_HARMLESS_ENDS: Final = _words(
    "type types name names count counts limit limits usage path paths file files url uri policy "
    "expiry expires expiration length len size field fields kind id ids scope scopes env var "
    "format header headers status error errors message label labels prefix hash max min budget "
    "method methods mode provider required enabled exists valid index ref hint rule rules "
    "pattern patterns regex strength placeholder manager service"
)
_PARTS: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PLACEHOLDERS: Final = _words(
    "string number boolean object required optional undefined default bearer basic digest oauth "
    "oauth2 password passwd secret secrets redacted hidden masked placeholder example changeme "
    "unknown disabled enabled invalid missing expired private public inherit"
)
_SPACE: Final = regex(r"\s")
_TEMPLATE: Final = regex(
    r"[$<{%]|your[_-]|my[_-]|process\.|os\.|env\.|[xX*.•-]{4}|\.\.\.|…"
    r"|(?:test|fake|dummy|mock|sample|example|demo|some|any|valid|invalid|wrong|new|old|bad)"
    r"[-_.]?(?:api[-_]?)?(?:key|token|secret|password|credential|value|auth)s?[-_]?[0-9]{0,3}\Z"
)
_PATH: Final = regex(
    r"(?:~|\.{0,2})/[A-Za-z0-9_.@/-]*|[\w.@-]+(?:/[\w.@-]+){1,20}\.[a-z]{1,5}|[A-Za-z]:\\.*|[a-z][a-z0-9+.-]{1,20}://.*"
)
# What code writes behind `token =`: names, calls, attributes, subscripts.
_CODE: Final = regex(r"[A-Za-z_][A-Za-z_]*[0-9]{0,2}(?:(?:\.|->|::|\?\.)[A-Za-z_][A-Za-z_0-9]*)*")

# Where a key may begin, in lower case; it is completed to the left and judged whole.
_STEMS: Final = ("pass", "swd", "swr", "pw", "secret", "token", "cred", "auth", "bearer", "key")
# Behind the key a separator: an assignment (after a type too), a comparison, a comma between quoted
# arguments, blanks before a quoted value (`#define PASSWORD "…"`), one blank behind an option. No
# repeat but that of `plain` can give back what the next part takes, so none of them tries.
_VALUE: Final = regex(
    r"""[A-Za-z0-9_-]{0,40}+(?:(?P<close>\\?["'`])?[ \t]{0,4}+"""
    r"""(?:(?P<typed>:[ \t]{0,2}+[A-Za-z][\w.\[\]|? ]{0,30}+=)"""
    r"""|:=|=>|!={1,2}|={1,3}|:|(?P<comma>,))"""
    r"""|(?P<blank>(?:[ \t]|\\t){1,4}+))"""
    r"""[ \t]{0,4}+(?:\\?(?P<quote>["'`])(?P<quoted>[^\s"'`\\]{6,}+)\\?(?P=quote)"""
    # Behind a blank a bare value has a digit, or is none.
    r"""|(?(blank)(?=[^\d\s"'`\\,;()\[\]{}<>&|]{0,127}+\d))"""
    r"""(?P<plain>[^\s"'`\\,;()\[\]{}<>&|]{8,128})(?![(\[{<"'`]))"""
)
_PLAIN_REST: Final = regex(r"""[^\s"'`\\,;()\[\]{}<>&|]*""")
_KEY_HEAD: Final = regex(r"[A-Za-z0-9_-]*\Z")
_KEY_TAIL: Final = regex(r"[A-Za-z0-9_-]{0,40}")
_WORD_BEFORE: Final = regex(r"([A-Za-z]{3,16}) \Z")


@lru_cache(maxsize=4096)
def secret_key(key: str) -> bool:
    """Whether a key names a secret, judged by its whole parts."""
    parts = [part.lower() for part in _PARTS.findall(key)]
    if not parts or parts[-1] in _HARMLESS_ENDS:
        return False
    return any(
        part in _SECRET_PARTS or part.endswith(_SECRET_ENDS) or _PASS_END.fullmatch(part)
        for part in parts
    ) or any(first in _SECRET_PAIRS and second == "key" for first, second in pairwise(parts))


def looks_secret(value: str) -> bool:
    """Whether the value of a secret-looking key is one: no word, no placeholder, no path."""
    return (
        len(value) >= 6
        and _SPACE.search(value) is None
        and value.lower() not in _PLACEHOLDERS
        and MARK.search(value) is None
        and _TEMPLATE.match(value) is None
        and _PATH.fullmatch(value) is None
    )


def key_values(text: str, lowered: str) -> Iterator[Span]:
    """Values of secret-looking keys: `API_KEY=…`, `"password": "…"`, `--token …`."""
    last, value_at = 0, _VALUE.match
    for stem in _stems(lowered):
        match = value_at(text, stem) if stem >= last else None
        if match is None:
            continue
        key, stands_alone = _key(text, stem)
        quoted = match["quoted"] is not None
        start, end = match.span("quoted" if quoted else "plain")
        value = text[start:end]
        if not (secret_key(key) and looks_secret(value)):
            continue
        if match["comma"] is not None and not (key.isupper() or stands_alone):
            continue
        if not (
            _quoted_fits(value, key, match)
            if quoted
            else _bare_fits(value, key, match, tight=text[start - 1] in ":=")
        ):
            continue
        if not quoted:  # the pattern looks at 128 characters; the secret may be longer
            end = _PLAIN_REST.match(text, end).end()  # type: ignore[union-attr]  # it matches ""
        yield start, end
        last = end


def _key(text: str, stem: int) -> tuple[str, bool]:
    """The whole key that holds the stem, and whether a quote opens it; `access key` is one too."""
    head, tail = _KEY_HEAD.search(text[max(0, stem - 40) : stem]), _KEY_TAIL.match(text, stem)
    assert head is not None
    assert tail is not None
    key = head.group() + tail.group()
    begin = stem - len(head.group())
    if key.lower() == "key":
        before = _WORD_BEFORE.search(text[max(0, stem - 18) : stem])
        key = f"{before[1]}_{key}" if before is not None else key
    return key, begin > 0 and text[begin - 1] in "\"'`"


def _stems(lowered: str) -> list[int]:
    starts: list[int] = []
    find = lowered.find
    for stem in _STEMS:
        at = find(stem)
        while at >= 0:
            starts.append(at)
            at = find(stem, at + len(stem))
    starts.sort()
    return starts


# `PASS: test_3` reports a test and `pw` is a pulse width: behind these a value must look chosen.
_DIGIT: Final = regex(r"\d")
_LETTER: Final = regex(r"[^\W\d_]")
_WEAK: Final = frozenset(("pass", "pw"))


def _quoted_fits(value: str, key: str, match: re.Match[str]) -> bool:
    """Whether this quoted value is a secret: a literal, unless it is a word as code has them."""
    if match["blank"] is not None and not key.startswith("-"):
        return _DIGIT.search(value) is not None and _LETTER.search(value) is not None
    if match["comma"] is not None:
        return _DIGIT.search(value) is not None
    return _CODE.fullmatch(value) is None or _DIGIT.search(value) is not None


def _bare_fits(value: str, key: str, match: re.Match[str], *, tight: bool) -> bool:
    """Whether these bare characters are a secret: chosen by somebody, no word of prose or code."""
    if match["comma"] is not None or match["typed"] is not None:
        return False
    if match["blank"] is not None and not (key.startswith("-") and len(match["blank"]) == 1):
        return False
    if _DIGIT.search(value) is None or _LETTER.search(value) is None:
        return False
    mixed = value.lower() != value != value.upper()
    if _CODE.fullmatch(value) is not None and not (tight and mixed and key.isupper()):
        return False
    if _WEAK.isdisjoint(key.lower().replace("-", "_").split("_")):
        return True
    return tight and mixed
