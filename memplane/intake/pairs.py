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
    from collections.abc import Iterable, Iterator

__all__ = [
    "MARK",
    "WINDOW",
    "chosen",
    "key_values",
    "looks_secret",
    "passphrase",
    "password_key",
    "secret_key",
    "stems",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whole parts of a key: `auth` is one in `x-auth-data` and none in `author`.
_SECRET_PARTS: Final = _words(
    "password passwd passphrase passcode pwd pass pw psk secret secrets token "
    "credential credentials creds auth authorization authentication bearer apikey "
    "authtoken accesstoken accesskey secretkey privatekey presharedkey pgpassword "
    "nonce salt"
)
# Of these only the pair with `key` is secret: `api_key`, `signing-key`.
_SECRET_PAIRS: Final = _words(
    "api access secret private encryption signing account auth authentication activation master "
    "shared preshared license"
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
    "pattern patterns regex strength placeholder manager service stdin"
)
# Behind these a value may be digits alone, or words.
_PASSWORDS: Final = _words("password passwd passphrase passcode pwd pgpassword")
_PARTS: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PLACEHOLDERS: Final = _words(
    "string number boolean object required optional undefined default bearer basic digest oauth "
    "oauth2 password passwd secret secrets redacted hidden masked placeholder example changeme "
    "change_me change-me changeit replaceme replace_me unknown disabled enabled invalid missing "
    "expired private public inherit"
)
_SPACE: Final = regex(r"\s")
_EXAMPLE_MAX: Final = 64
_TEMPLATE: Final = regex(
    r"\$(?:[A-Za-z_]\w*\Z|[({])|<[^>]*>|\{[^}]*\}|%(?:[A-Za-z_]\w*%|[sdrvq]\Z|\()|(?i:your)[_-]?|my[_-]"
    r"|#[0-9a-fA-F]{3,8}\Z|0x[0-9a-fA-F]{1,16}\Z|ENC\(|process\.|os\.|env\.|getenv|[xX*.•-]{4}|\.\.\.|…"
    r"|(?i:test|fake|dummy|mock|sample|example|demo|some|any|valid|invalid|wrong|new|old|bad)"
    r"[-_.]?(?i:api[-_]?)?(?i:key|token|secret|password|credential|value|auth)s?[-_]?[0-9]{0,3}\Z"
)
# What examples write: words of which every one says that it stands for a secret.
_EXAMPLE: Final = regex(
    r"(?i:(?:super|very|top|my|your|our|the|a|this|is|some|any|secret|key|token|password|passwd|jwt|api"
    r"|auth|access|refresh|flask|django|app|change|replace|with|me|it|in|to|for|use|set|here"
    r"|please|production|prod|dev|development|test|example|random|string|value)[-_. !]{0,3})+\Z"
)
_PATH: Final = regex(
    r"(?:~|\.{0,2})/[A-Za-z0-9_.@/-]*|[\w.@-]+(?:/[\w.@-]+){1,20}\.[a-z]{1,5}|[A-Za-z]:\\.*|[a-z][a-z0-9+.-]{1,20}://.*"
)
# What code writes behind `token =`: names, calls, attributes, subscripts.
_CODE: Final = regex(
    r"[A-Za-z_][A-Za-z_]*[0-9]{0,2}(?:(?:\.|->|::|\?\.)[A-Za-z_][A-Za-z_0-9]*)*"
    r"|[A-Za-z_]+[0-9]{1,5}[A-Za-z_]*(?:(?:\.|->|::|\?\.)[A-Za-z_]+(?:[0-9]{1,5}[A-Za-z_]*)?)+"
)

# Where a key may begin, in lower case; it is completed to the left and judged whole.
_STEMS: Final = (
    "pass", "sw", "pw", "psk", "secret", "token", "cred", "auth", "bearer", "key",
)  # fmt: skip
WINDOW: Final = 1 << 20  # characters of a long text that are searched at once
# A line break with what quotes or numbers the next line, and that of a text inside JSON.
_BREAK: Final = r"(?:\r?\n|\\{1,7}n|\\{1,7}r\\{1,7}n)(?:[ \t]{0,12}(?:[>|#+*-]|//|[0-9]{1,5}\t))?"
# Behind the key a separator: an assignment (after a type too), a comparison, a comma between quoted
# arguments, a call, blanks before a quoted value (`#define PASSWORD "…"`), one blank behind an
# option. Then the value, perhaps on the next line, with the escapes of its own quotes. No repeat
# can give back what the next part takes, so none of them tries.
_VALUE: Final = regex(
    r"""[A-Za-z0-9_-]{0,40}+(?:(?P<close>\\{0,7}["'`]?\]?)[ \t]{0,4}+"""
    r"""(?:(?P<typed>:[ \t]{0,2}+[A-Za-z][\w.\[\]|? ]{0,30}+=)"""
    r"""|:=|=>|!={1,2}|={1,3}|:|(?P<comma>,)|(?P<call>\()|is:)"""
    rf"""(?P<block>[ \t]{{0,4}}+(?:[|>][+-]?[1-9]?[ \t]{{0,4}}+)?{_BREAK}(?=[ \t]))?"""
    r"""|(?P<shut>\\{0,7}["'])?(?P<blank>(?:[ \t]|\\t){1,4}+)(?:[0-9][ ])?)"""
    r"""[ \t]{0,24}+(?:(?P<esc>\\{0,7})(?P<quote>["'`])(?:(?P<quoted>(?:[^\s"'`\\]"""
    r"""|(?!(?P=esc)(?P=quote))(?:["'`]|\\(?:\\\\){0,3}["'`]|\\{1,8}(?!["'`\\\s])|(?:\\\\){1,4}(?=["'`])))"""
    r"""{6,}+)|(?P<words>[^\n\r"'`\\]{6,100}))(?P=esc)(?P=quote)"""
    # Behind a blank a bare value has a digit, or is none.
    r"""|(?(blank)(?=[^\d\s"'`\\,;()\[\]{}<>&|\x1b]{0,127}+\d))"""
    r"""(?P<plain>[^\s"'`\\,;()\[\]{}<>&|\x1b]{6,128}+)(?![(\[{]|<(?!/)))"""
)
_PLAIN_REST: Final = regex(r"""[^\s"'`\\,;()\[\]{}<>&|\x1b]*""")
_LINE_REST: Final = regex(r"""[^\s"'`\\\x1b]*""")
# `&` goes on with a value, unless it begins the next pair of a query, or of a shell's commands.
_MORE: Final = regex(r"""&(?!&|[A-Za-z_][\w.%\[\]-]{0,60}=)[^\s"'`\\,;()\[\]{}<>|&\x1b]+""")
_KEY_HEAD: Final = regex(r"[A-Za-z0-9_-]*\Z")
_KEY_TAIL: Final = regex(r"[A-Za-z0-9_-]{0,40}")
_COLOUR: Final = regex(r"[0-9]{1,2}m")  # of a terminal
_WORD_BEFORE: Final = regex(r"([A-Za-z]{3,16}) \Z")
# What sets a variable or an option with a blank between its name and its value.
_SETS: Final = regex(
    r"(?:(?:\b|(?<=[0-9]m))(?:ENV|ARG|[Ss]et[Ee]nv|setx|SETX|set[ \t]+-[a-zA-Z]{1,3}"
    r"|(?i:enable)|configure[ \t]+set|config[ \t]+(?:set|add|--[a-z]+)"
    r"|user-secrets[ \t]+set|secrets?[ \t]+set"
    r"|(?:login|user|account)[ \t]+[^\s]{1,80}))(?:\s|\\{1,3}[nrt]){1,12}"
    r"(?:\\{0,3}[\"']|//)?[\w./:@-]{0,80}\Z"
)
_SETS_ITSELF: Final = _words("requirepass masterauth masteruser")


@lru_cache(maxsize=4096)
def secret_key(key: str) -> bool:
    """Whether a key names a secret, judged by its whole parts."""
    parts = [part.lower() for part in _PARTS.findall(key)]
    if not parts or parts[-1] in _HARMLESS_ENDS or "public" in parts:
        return False
    return any(
        part in _SECRET_PARTS or part.endswith(_SECRET_ENDS) or _PASS_END.fullmatch(part)
        for part in parts
    ) or (
        any(first in _SECRET_PAIRS and second == "key" for first, second in pairwise(parts))
        or (parts[-1] == "pat" and len(parts) > 1 and key.isupper())  # a personal access token
    )


@lru_cache(maxsize=4096)
def password_key(key: str) -> bool:
    """Whether a secret's key names a password: its value may be digits alone, or words."""
    parts = [part.lower() for part in _PARTS.findall(key)]
    return bool(parts) and (parts[-1] in _PASSWORDS or parts[-1].endswith(("password", "passwd")))


def looks_secret(value: str) -> bool:
    """Whether the value of a secret-looking key is one: no word, no placeholder, no path."""
    return (
        len(value) >= 6
        and _SPACE.search(value) is None
        and value.lower() not in _PLACEHOLDERS
        and MARK.search(value) is None
        and _TEMPLATE.match(value) is None
        and _PATH.fullmatch(value) is None
        and (len(value) > _EXAMPLE_MAX or _EXAMPLE.match(value) is None)
    )


def chosen(value: str, key: str) -> bool:
    """Whether a value was chosen to be secret: no word of prose or name of code."""
    if _DIGIT.search(value) is None:
        return _random(value)
    if _LETTER.search(value) is None:
        return password_key(key)
    return True


# The pairs of letters that make up most of English, and of names in code.
_PAIRS: Final = _words(
    "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le "
    "ve co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec "
    "pr no ct us ac ot il tr ly nc et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt po we na "
    "ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl ig tu ev ld ry mp fe bl ab "
    "gh ty op wo sa ay ex ke ui av ag if ap gr od bo sp rd do uc bu ei ov by rm ep tt oc fa ef "
    "cu rn sc gi da yo cr cl du ga qu ue ff ba ey ls va um pp ua up lu go ht ru ug ds lt pi rc "
    "rr eg au ck ew mu br bi pt ak"
)


def _random(value: str) -> bool:
    """Whether a value without digits is a row of letters that no language has."""
    value = value.rstrip(".,:;!?")
    if len(value) < _RANDOM_MIN or _LETTERS.fullmatch(value) is None:
        return False
    small = value.lower()
    usual = sum(first + second in _PAIRS for first, second in pairwise(small))
    return 100 * usual < _USUAL * (len(value) - 1)


_RANDOM_MIN: Final = 16
_USUAL: Final = 60  # of 100 pairs; names in code have some 80, random letters 28
_LETTERS: Final = regex(r"[A-Za-z]+[+/=]{0,3}[A-Za-z]*={0,2}")
# A sentence about a password, and no password of several words.
_PROSE: Final = regex(
    r"(?i)\b(?:the|a|an|is|are|be|must|should|your|you|please|enter|for|to|of|with|in|not|no|and|or|at"
    r"|least|characters?|required|invalid|incorrect|forgot|reset|this|that|if|will|can|new|from|on"
    r"|password|passphrase|failed|error|hidden|prompt|none|null|see|set|use)\b|[.:?…]\Z|[%{}<>$]"
)


def passphrase(value: str) -> bool:
    """Whether words in the place of a password are one: with a digit, and no sentence."""
    return (
        6 <= len(value) <= 100
        and " " in value.strip()
        and value == value.strip()
        and "\n" not in value
        and _DIGIT.search(value) is not None
        and _PROSE.search(value) is None
        and MARK.search(value) is None
    )


def key_values(text: str, stems: Iterable[int]) -> Iterator[Span]:
    """Values of secret-looking keys: `API_KEY=…`, `"password": "…"`, `--token …`."""
    last, value_at = 0, _VALUE.match
    for stem in stems:
        match = value_at(text, stem) if stem >= last else None
        if match is None:
            continue
        key, begin = _key(text, stem)
        if not secret_key(key):
            continue
        kind = next(kind for kind in ("quoted", "words", "plain") if match[kind] is not None)
        start, end = match.span(kind)
        if not _fits(kind, text, text[start:end], key, begin, match):
            continue
        if kind == "plain":
            end = _bare_end(text, begin, start, end)
        yield start, end
        last = end


def _fits(
    kind: str, text: str, value: str, key: str, begin: int, match: re.Match[str]
) -> bool:  # fmt: skip
    if kind == "words":
        return password_key(key) and passphrase(value)
    fits = _quoted_fits if kind == "quoted" else _bare_fits
    return looks_secret(value) and fits(text, value, key, begin, match)


def _key(text: str, stem: int) -> tuple[str, int]:
    """The whole key that holds the stem, and where it begins; `access key` is one too."""
    head, tail = _KEY_HEAD.search(text[max(0, stem - 40) : stem]), _KEY_TAIL.match(text, stem)
    assert head is not None
    assert tail is not None
    key = head.group() + tail.group()
    begin = stem - len(head.group())
    if begin > 0 and text[begin - 1] in "[;" and (colour := _COLOUR.match(key)) is not None:
        key, begin = key[colour.end() :], begin + colour.end()
    if key.lower() == "key":
        before = _WORD_BEFORE.search(text[max(0, stem - 18) : stem])
        key = f"{before[1]}_{key}" if before is not None else key
    return key, begin


def stems(lowered: str, window: int = WINDOW) -> Iterable[int]:
    """Where the name of a secret may stand, from left to right; () if it stands nowhere.

    Of a long text in windows, one after the other.
    """
    if len(lowered) <= window:
        return _stems(lowered, 0, len(lowered))
    return _windows(lowered, window) if any(map(lowered.__contains__, _STEMS)) else ()


def _windows(lowered: str, window: int) -> Iterator[int]:
    for at in range(0, len(lowered), window):
        yield from _stems(lowered, at, at + window)


def _stems(lowered: str, first: int, last: int) -> list[int]:
    """Those that begin from `first` up to `last`."""
    starts: list[int] = []
    find = lowered.find
    for stem in _STEMS:
        more = len(stem) - 1
        at = find(stem, first, last + more)
        while at >= 0:
            starts.append(at)
            at = find(stem, at + more + 1, last + more)
    starts.sort()
    return starts


# `PASS: test_3` reports a test and `pw` is a pulse width: behind these a value must look chosen.
_DIGIT: Final = regex(r"\d")
_LETTER: Final = regex(r"[^\W\d_]")
_WEAK: Final = frozenset(("pass", "pw"))
_CLASS: Final = regex(r"(?:[A-Z][a-z]{2,}){2}")
_IS_KEY: Final = regex(r"[ \t]{0,4}:[ \t\n]")  # behind what is itself the name of a value
_QUOTES: Final = frozenset("\"'`")
_SETTERS: Final = _words("set with use add put")
_ASKS: Final = _words(
    "get is has check verify validate find load read fetch compare hash encode decode parse make "
    "create generate test assert match matches expect on from to new need needs require"
)


def _quoted_fits(text: str, value: str, key: str, begin: int, match: re.Match[str]) -> bool:
    """Whether this quoted value is a secret: a literal, unless it is a word as code has them."""
    has_digit = _DIGIT.search(value) is not None
    if match["call"] is not None:
        return has_digit and _calls(text, value, key, begin)
    if match["blank"] is not None and not key.startswith("-"):
        return key not in _WEAK and has_digit and _LETTER.search(value) is not None
    if match["comma"] is not None:
        quoted = begin > 0 and text[begin - 1] in _QUOTES
        named = _CODE.fullmatch(value) is not None or _CLASS.search(value) is not None
        named = named or _IS_KEY.match(text, match.end()) is not None
        return has_digit and (key.isupper() or quoted) and not named
    if value[len(key) : len(key) + 1] in "-_." and value.lower().startswith(key.lower()):
        return False  # the name of a thing that is named so, `"auth0": "auth0-python"`
    if match["close"] == "]" and text[begin - 1 : begin] != ":":
        return False  # the index of something, not its name
    return has_digit or _CODE.fullmatch(value) is None or _random(value)


def _calls(text: str, value: str, key: str, begin: int) -> bool:
    """Whether a call sets the secret: `setPassword("…")`, `.token("…")`; `getToken("…")` asks."""
    if _LETTER.search(value) is None or _CODE.fullmatch(value) is not None or "/" in value:
        return False
    parts = [part.lower() for part in _PARTS.findall(key)]
    if parts[0] in _SETTERS or (key.isupper() and password_key(key)):
        return True
    return begin > 0 and text[begin - 1] == "." and parts[0] not in _ASKS


def _bare_fits(text: str, value: str, key: str, begin: int, match: re.Match[str]) -> bool:
    """Whether these bare characters are a secret: chosen by somebody, no word of prose or code."""
    if any(match[kind] is not None for kind in ("comma", "typed", "call")) or match["close"] == "]":
        return False
    if match["blank"] is not None:
        option = key.startswith("-") and len(match["blank"]) == 1
        return _has_both(value) and (option or _is_set(text, key, begin))
    tight = text[match.start("plain") - 1] in ":="
    alone = match["block"] is None or (value[-1] != ":" and _ends_line(text, match.end()))
    if not alone or (len(value) < _BARE_MIN and not (tight and password_key(key))):
        return False
    if _has_both(value):
        return _mixed_fits(text, value, key, begin, tight=tight)
    if _LETTER.search(value) is not None:
        return tight and _random(value)
    return password_key(key) and (tight or match["close"] != "")


def _mixed_fits(text: str, value: str, key: str, begin: int, *, tight: bool) -> bool:
    mixed = value.lower() != value != value.upper()
    if _CODE.fullmatch(value) is not None and not (
        tight and key.isupper() and (mixed or ("_" not in value and "." not in value))
    ):
        return False
    if key.lower() not in _WEAK:
        return True
    return tight and (mixed or text[begin - 1 : begin] == ".")


def _has_both(value: str) -> bool:
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None


_BARE_MIN: Final = 8


def _is_set(text: str, key: str, begin: int) -> bool:
    return key.lower() in _SETS_ITSELF or _SETS.search(text, max(0, begin - 160), begin) is not None


_LINE_END: Final = regex(
    r"""[ \t]{0,4}(?:\\{0,7}["'`,]{0,3}(?:\r?\n|\\{1,7}[rn]|\Z|\\{0,7}["'])|\x1b|</|\|)"""
)


def _ends_line(text: str, at: int) -> bool:
    return _LINE_END.match(text, at) is not None


_ASSIGNED: Final = regex(r"(?:^|\n)[ \t]{0,8}(?:export[ \t]{1,4})?[A-Z][A-Z0-9_]{2,60}=\Z")


def _bare_end(text: str, begin: int, start: int, end: int) -> int:
    """Where a bare value ends: the pattern looks at 128 characters, the secret may be longer.

    In a line of a file of variables nothing but a blank ends it.
    """
    line = _ASSIGNED.search(text, max(0, begin - 24), start)
    if line is not None:
        return _LINE_REST.match(text, end).end()  # type: ignore[union-attr]  # it matches ""
    end = _PLAIN_REST.match(text, end).end()  # type: ignore[union-attr]  # it matches ""
    if begin == 0 or text[begin - 1] not in "?&":
        while (more := _MORE.match(text, end)) is not None:
            end = more.end()
    return end
