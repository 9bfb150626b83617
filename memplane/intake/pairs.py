"""Secrets that only their surroundings give away: `password=…`, `user:…@host`, `Bearer …`, PEM.

Each finder yields the spans to mask, from left to right. Keys, separators, users
and hosts stay, so that the text still says what stood there. All patterns are
bounded: a hostile megabyte costs what any megabyte costs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MARK", "bearers", "key_values", "looks_secret", "private_keys", "secret_key", "urls"]

Span = tuple[int, int]

MARK: Final = re.compile(r"\[redacted:[a-z0-9-]{1,40}\]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whole parts of a key: `auth` is one in `x-auth-data` and none in `author`.
_SECRET_PARTS: Final = _words(
    "password passwd passphrase passcode pwd pass pw secret secrets token credential credentials "
    "creds auth authorization apikey authtoken accesstoken accesskey secretkey privatekey "
    "pgpassword"
)
# Of these only the pair with `key` is secret: `api_key`, `signing-key`.
_SECRET_PAIRS: Final = _words(
    "api access secret private encryption signing account auth master shared license"
)
_SECRET_ENDS: Final = ("password", "passwd", "passphrase", "secret", "apikey")
# `token_type` names a type; `token_count` counts.
_HARMLESS_ENDS: Final = _words(
    "type types name names count counts limit limits usage path paths file files url uri policy "
    "expiry expires expiration length len size field fields kind id ids scope scopes env var "
    "format header headers status error errors message label labels prefix hash max min budget "
    "method methods mode provider required enabled exists valid index ref hint rule rules "
    "pattern patterns regex strength placeholder manager service"
)
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PLACEHOLDERS: Final = _words(
    "string number boolean object required optional undefined default bearer basic digest oauth "
    "oauth2 password passwd secret secrets redacted hidden masked placeholder example changeme "
    "unknown disabled enabled invalid missing expired private public inherit"
)
_SPACE: Final = re.compile(r"\s")
_TEMPLATE: Final = re.compile(r"[$<{%]|your[_-]|my[_-]|process\.|os\.|env\.|[xX*.•-]{4}|\.\.\.|…")
_PATH: Final = re.compile(
    r"(?:~|\.{0,2})/[A-Za-z0-9_.@/-]*|[A-Za-z]:\\.*|[a-z][a-z0-9+.-]{1,20}://.*"
)
# What code writes behind `token =`: names, calls, attributes, subscripts.
_CODE: Final = re.compile(
    r"[A-Za-z_][A-Za-z_]*[0-9]{0,2}(?:(?:\.|->|::|\?\.)[A-Za-z_][A-Za-z_0-9]*)*"
)

# Where a key may begin, in lower case; it is completed to the left and judged whole.
_STEMS: Final = ("pass", "pw", "secret", "token", "cred", "auth", "key")
_VALUE: Final = re.compile(
    r"""[A-Za-z0-9_-]{0,40}(?:(?P<close>\\?["'`])?[ \t]{0,4}(?::=|=>|={1,2}|:)|(?P<option>[ \t]))"""
    r"""[ \t]{0,4}(?:\\?(?P<quote>["'`])(?P<quoted>[^\s"'`\\]{6,})\\?(?P=quote)"""
    r"""|(?P<plain>[^\s"'`\\,;()\[\]{}<>&|]{8,128})(?![(\[{<"'`]))"""
)
_PLAIN_REST: Final = re.compile(r"""[^\s"'`\\,;()\[\]{}<>&|]*""")
_KEY_HEAD: Final = re.compile(r"[A-Za-z0-9_-]*\Z")
_KEY_TAIL: Final = re.compile(r"[A-Za-z0-9_-]{0,40}")


@lru_cache(maxsize=4096)
def secret_key(key: str) -> bool:
    """Whether a key names a secret, judged by its whole parts."""
    parts = [part.lower() for part in _PARTS.findall(key)]
    if not parts or parts[-1] in _HARMLESS_ENDS:
        return False
    return any(part in _SECRET_PARTS or part.endswith(_SECRET_ENDS) for part in parts) or any(
        first in _SECRET_PAIRS and second == "key" for first, second in pairwise(parts)
    )


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
    last = 0
    for stem in _stems(lowered):
        match = _VALUE.match(text, stem) if stem >= last else None
        if match is None:
            continue
        head, tail = _KEY_HEAD.search(text[max(0, stem - 40) : stem]), _KEY_TAIL.match(text, stem)
        assert head is not None
        assert tail is not None
        key = head.group() + tail.group()
        if match["option"] and not key.startswith("-"):
            continue
        quoted = match["quoted"] is not None
        start, end = match.span("quoted" if quoted else "plain")
        value = text[start:end]
        if not (secret_key(key) and looks_secret(value)) or _CODE.fullmatch(value):
            continue
        if not quoted and not _chosen(value, key, tight=text[start - 1] in ":="):
            continue
        if not quoted:  # the pattern looks at 128 characters; the secret may be longer
            end = _PLAIN_REST.match(text, end).end()  # type: ignore[union-attr]  # it matches ""
        yield start, end
        last = end


def _stems(lowered: str) -> list[int]:
    starts: list[int] = []
    for stem in _STEMS:
        at = lowered.find(stem)
        while at >= 0:
            starts.append(at)
            at = lowered.find(stem, at + len(stem))
    return sorted(starts)


# `PASS: test_3` reports a test and `pw` is a pulse width: behind these a value must look chosen.
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WEAK: Final = frozenset(("pass", "pw"))


def _chosen(value: str, key: str, *, tight: bool) -> bool:
    """Whether somebody chose these bare characters: no number, no word of prose or code."""
    if _DIGIT.search(value) is None or _LETTER.search(value) is None:
        return False
    if _WEAK.isdisjoint(key.lower().replace("-", "_").split("_")):
        return True
    return tight and value.lower() != value != value.upper()


_URL: Final = re.compile(
    r"""://[^\s/?#:@"'`<>\[\]{}]{0,128}:(?P<value>[^\s/?#@"'`<>\[\]{}$%*][^\s/?#@"'`<>\[\]{}]{0,1023})@"""
    r"""(?=[A-Za-z0-9\[])"""
)


def urls(text: str) -> Iterator[Span]:
    """Passwords in URLs: `postgres://user:…@host/db`."""
    if "://" in text and "@" in text:
        for match in _URL.finditer(text):
            yield match.span("value")


_BEARER: Final = re.compile(
    r"""(?i)\bbearer[ \t]{1,4}(?P<bearer>[A-Za-z0-9._~+/=-]{16,})"""
    r"""|\bauthorization\\?["']?[ \t]{0,4}[:=][ \t]{0,4}\\?["']?(?:basic|token|apikey)[ \t]{1,4}"""
    r"""(?P<other>[A-Za-z0-9._~+/=-]{8,})"""
)


def bearers(text: str, lowered: str) -> Iterator[Span]:
    """Credentials of an HTTP header: `Bearer …`, `Authorization: Basic …`."""
    if "bearer" not in lowered and "authorization" not in lowered:
        return
    for match in _BEARER.finditer(text):
        name = "bearer" if match["bearer"] is not None else "other"
        # Prose about bearer tokens has long words, but no digits in them.
        if any(map(str.isdigit, match[name])) or name == "other":
            yield match.span(name)


_PEM: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?P<body>[^-]{0,65536}(?:-(?!----)[^-]{0,65536}){0,64})"
    r"(?:-----END [A-Z0-9 ]{0,60}-----)?"
)
_PEM_BODY: Final = re.compile(r"[A-Za-z0-9+/=]{20}")


def private_keys(text: str) -> Iterator[Span]:
    """PEM blocks over any number of lines, also cut off and with escaped line ends."""
    if "PRIVATE KEY" not in text:
        return
    for match in _PEM.finditer(text):
        if match.group().endswith("-----") and match.end("body") < match.end():
            if _PEM_BODY.search(match["body"]):
                yield match.span()
        else:
            lines = _PEM_LINES.match(text, match.start("body"))
            assert lines is not None
            if _PEM_BODY.search(lines.group()):
                yield match.start(), lines.end()


# A block without an end: every line that could still belong to it.
_PEM_LINES: Final = re.compile(
    r"(?:(?:\s|\\[nr])*(?:[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info):[^\n]{0,80}))*+"
    r"(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{1,15}\Z)?"
)
