"""Mask secrets before the first byte is written.

Rules run in a fixed order: the policy's patterns, the tokens of known providers (`token_patterns`),
then what the text around gives away: key blocks, values beside the name of a secret, URL
credentials and Bearer, markup, SQL, commands. What a rule masks becomes `[redacted:<rule>]`. Passes
repeat until one changes nothing, so redact(redact(x)) == redact(x).

Each `Finder` yields the spans to mask, from left to right. It runs where the text in lower case
(`lowered`, which is quicker to search) holds a word that its form cannot lack. The text around a
secret stays: keys and separators still say what stood there. All patterns are bounded, so the time
for a hostile megabyte is that of any megabyte.
"""

from __future__ import annotations

import re
from bisect import bisect
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import InputError
from memplane.intake.markers import MARK, Span, merge_spans, widened
from memplane.intake.token_patterns import RUN_MIN, looked_at, torn
from memplane.kernel import Literals, kernel_twin
from memplane.lazy import NamedTuple, regex, word_set, word_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memplane.ports import Detector


# Keys that name a secret, and the values that stand behind them: `password=…`, `--token …`.

# Whole parts of a key: `auth` is one in `x-auth-data` and none in `author`.
_SECRET_PARTS: Final = word_set(
    "password passwd passphrase passcode pwd pass pw psk secret secrets token "
    "credential credentials creds auth authorization authentication bearer apikey "
    "authtoken accesstoken accesskey secretkey privatekey presharedkey pgpassword "
    "nonce salt"
)
# Of these only the pair with `key` is secret: `api_key`, `signing-key`.
_SECRET_PAIRS: Final = word_set(
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
_HARMLESS_ENDS: Final = word_set(
    "type types name names count counts limit limits usage path paths file files url uri policy "
    "expiry expires expiration length len size field fields kind id ids scope scopes env var "
    "format header headers status error errors message label labels prefix hash max min budget "
    "method methods mode provider required enabled exists valid index ref hint rule rules "
    "pattern patterns regex strength placeholder manager service stdin"
)
# Behind these a value may be digits alone, or words.
_PASSWORDS: Final = word_set("password passwd passphrase passcode pwd pgpassword")
_PARTS: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PLACEHOLDERS: Final = word_set(
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

# Where a key may begin, in lower case, common ones first; it is completed to the left and judged
# whole.
STEMS: Final = ("key", "auth", "token", "pass", "secret", "cred", "bearer", "sw", "pw", "psk")
_STEMS: Final = kernel_twin(Literals)(STEMS)
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
    # Behind a blank a bare value counts only if it has a digit.
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
_SETS_ITSELF: Final = word_set("requirepass masterauth masteruser")


@lru_cache(maxsize=4096)
def secret_key(key: str) -> bool:
    """Whether a key names a secret, judged by its parts (split at case and punctuation)."""
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
    """Whether a key that names a secret names a password, whose value may be digits or words."""
    parts = [part.lower() for part in _PARTS.findall(key)]
    return bool(parts) and (parts[-1] in _PASSWORDS or parts[-1].endswith(("password", "passwd")))


def looks_secret(value: str) -> bool:
    """Whether the value of such a key looks like a secret: no word, placeholder or path."""
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
    """Whether a value was chosen as a secret: no word of prose and no name of code."""
    if _DIGIT.search(value) is None:
        return _random(value)
    if _LETTER.search(value) is None:
        return password_key(key)
    return True


# The pairs of letters that make up most of English, and of names in code.
_PAIRS: Final = word_set(
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
    """Whether words in the place of a password are a passphrase: with a digit, and no sentence."""
    return (
        6 <= len(value) <= 100
        and " " in value.strip()
        and value == value.strip()
        and "\n" not in value
        and _DIGIT.search(value) is not None
        and _PROSE.search(value) is None
        and MARK.search(value) is None
    )


def key_values(text: str, lowered: str) -> Iterator[Span]:
    """Spans of values of keys that name a secret: `API_KEY=…`, `"password": "…"`, `--token …`."""
    last = 0
    for stem in stems(lowered):
        match = _VALUE.match(text, stem) if stem >= last else None
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


def _fits(kind: str, text: str, value: str, key: str, begin: int, match: re.Match[str]) -> bool:
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
    """Offsets at which the name of a secret may begin, ascending; () where there is none.

    A long text is searched in windows of `window` characters.
    """
    if len(lowered) > window:
        return _windows(lowered, window) if any(map(lowered.__contains__, STEMS)) else ()
    return _STEMS.places(lowered)


def _windows(lowered: str, window: int) -> Iterator[int]:
    most = max(map(len, STEMS)) - 1  # a stem that begins in a window may end behind it
    for first in range(0, len(lowered), window):
        found = stems(lowered[first : first + window + most], window + most)
        yield from (first + at for at in found if at < window)


# `PASS: test_3` reports a test and `pw` is a pulse width: behind these a value must look chosen.
_DIGIT: Final = regex(r"\d")
_LETTER: Final = regex(r"[^\W\d_]")
_WEAK: Final = frozenset(("pass", "pw"))
_CLASS: Final = regex(r"(?:[A-Z][a-z]{2,}){2}")
_IS_KEY: Final = regex(r"[ \t]{0,4}:[ \t\n]")  # behind what is itself the name of a value
_QUOTES: Final = frozenset("\"'`")
_SETTERS: Final = word_set("set with use add put")
_ASKS: Final = word_set(
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


_URL: Final = regex(
    r"""://(?P<user>[^\s/?#:"'`<>\[\]{}@]{0,128}(?:@[^\s/?#:"'`<>\[\]{}@]{1,128})?)"""
    r"""(?::(?P<value>[^\s/?#@"'`<>\[\]{}][^\s/?#"'`<>\[\]]{0,1023}))?@(?=[A-Za-z0-9\[])"""
)
# A user without a password that is a token: of hex, or long and with a digit.
_URL_TOKEN: Final = regex(
    r"[0-9a-f]{32,64}|(?=[^\d]{0,40}\d)(?=[^A-Za-z]{0,40}[A-Za-z])[A-Za-z0-9_-]{36,128}"
)
# What a template, a shell or a document puts there: `$USER`, `${PASS}`, `***`, `password`.
_URL_NAMED: Final = regex(
    r"\$(?:[A-Z_][A-Z0-9_]*|[A-Za-z_]*(?i:pass|pw|pwd|password|passwd|secret|token)[A-Za-z_]*)\Z|[${%]\{|\$\("
    r"|\{[^}]*\}\Z|%[sdrv]\Z|%[A-Za-z_]+%\Z|%\(|[xX*.•]{3,}\Z|\.\.\.|…"
    r"|(?i:(?:my|your)?[_-]?(?:password|passwd|pass|pwd|pw|secret|token|user|username|key|port))\Z"
)
_QUERY: Final = regex(
    r"""[?&](?:[a-z]{1,8}[_-]){0,3}(?:key|sig|signature|password|secret|token)="""
    r"""(?P<value>(?=[^&\s]{0,200}[0-9])[A-Za-z0-9_~.%+/-]{24,1024}={0,2})(?![A-Za-z0-9_])""",
    re.IGNORECASE,
)


def _urls(text: str, lowered: str) -> Iterable[Span]:
    """Spans of passwords in URLs, `postgres://user:…@host/db`, and of keys in queries, `?key=…`."""
    found = _credentials(text) if "@" in lowered else ()
    if "=" in lowered and ("?" in lowered or "&" in lowered):
        return merge_spans(found, _query_keys(text))
    return found


def _query_keys(text: str) -> Iterator[Span]:
    for match in _QUERY.finditer(text):
        if "[redacted:" not in match.group():
            yield match.span("value")


def _credentials(text: str) -> Iterator[Span]:
    for match in _URL.finditer(text):
        value = match["value"]
        if value is None:
            if _URL_TOKEN.fullmatch(match["user"]) is not None:
                yield match.span("user")
        elif _URL_NAMED.match(value) is None and "${" not in value:
            yield match.span("value")


_BEARER: Final = regex(
    r"""\bbearer(?:[ \t]{1,4}|[=:][ \t]{0,4})(?P<bearer>[A-Za-z0-9._~+/=-]{16,})"""
    r"""|(?:\b|(?<=[0-9]m))authorization\\{0,7}["']?[ \t]{0,4}[:=,][ \t]{0,4}\\{0,7}["']?"""
    r"""(?:(?:basic|token|apikey|negotiate|ntlm|ssws|oauth|key|bot|genie-?key)[ \t]{1,4}"""
    r"""(?P<other>[A-Za-z0-9._~+/=-]{8,})"""
    r"""|[a-z][a-z0-9-]{1,24}[ \t]{1,4}(?P<any>[A-Za-z0-9._~+/=-]{20,}))""",
    re.IGNORECASE,
)


def _bearers(text: str, _: str) -> Iterator[Span]:
    """Spans of credentials in HTTP headers: `Bearer …`, `Authorization: Basic …`."""
    for match in _BEARER.finditer(text):
        name = match.lastgroup
        assert name is not None
        # Prose about bearer tokens has long words, but no digits in them.
        if any(map(str.isdigit, match[name])) or name == "other":
            yield match.span(name)


_PEM_END: Final = regex(r"-----END [A-Z0-9 ]{0,60}-----|KEY(?: BLOCK)?-----")
_PEM_BODY: Final = regex(r"[A-Za-z0-9+/=]{20}")
_PEM_MOST: Final = 65_536
# A block without an end: every line that could still belong to it, a log's prefix before each. It
# never passes another block's beginning but on a line of base64, which is masked: so no character
# is looked at for more than one block.
_PEM_LINES: Final = regex(
    r"(?:(?:\s|\\{1,7}[nr])*+-?(?:[A-Za-z0-9+/=]{16,}+"
    r"|(?:Proc-Type|DEK-Info):(?:(?!-----BEGIN)[^\n]){0,80}"
    r"|[^\n]{1,40}[ \t|>\"'][A-Za-z0-9+/=]{40,}+(?=[\s\"'\\]|\Z)))*+"
    r"(?:(?:\s|\\{1,7}[nr])*+[A-Za-z0-9+/=]{1,15}\Z)?"
)
# An end without a beginning: the lines of base64 before it, from the last to the first.
_PEM_EDGE: Final = regex(
    r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?P<last>-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----)"
)
_PEM_ROW: Final = regex(
    r"(?:[ \t]{0,4}[0-9]{1,5}\t|//)?[^A-Za-z0-9+/=\n]{0,24}[+-]?"
    r"(?P<row>[A-Za-z0-9+/]{16,76}={0,2})[^A-Za-z0-9+/=]{0,12}\Z"
)
_PEM_BREAK: Final = regex(r"\r?\n|\\{1,7}n")
_PUTTY: Final = regex(
    r"(?i:private-lines):[ \t]{0,4}[0-9]{1,3}"
    r"(?P<body>(?:(?:\s|\\{1,7}[nr]){1,12}+(?:[0-9]{1,5}\t|//|[^\sA-Za-z0-9+/=]{0,4})[ \t]{0,4}"
    r"[A-Za-z0-9+/=]{16,80}(?![A-Za-z0-9+/=-])){1,200}+)"
)


def _key_blocks(text: str, lowered: str) -> Iterable[Span]:
    """Spans of PEM blocks over any number of lines; cut off, escaped, or with line prefixes too."""
    blocks = "-----" in lowered and "private key" in lowered
    found: Iterable[Span] = _private_keys(text) if blocks else ()
    if "private-lines" in lowered:
        return merge_spans(found, (match.span("body") for match in _PUTTY.finditer(text)))
    return found


def _private_keys(text: str) -> Iterator[Span]:
    last = 0
    for edge in _PEM_EDGE.finditer(text):
        start, body = edge.span()
        if start < last:
            continue
        if edge["last"] is not None:
            first = _rows_before(text, start, last)
            if first < start:
                last = body
                yield first, last
            continue
        # What opens next ends the search: two blocks are two.
        mark = text.find("-----", body, body + _PEM_MOST)
        end = _PEM_END.search(text, max(body, mark - 10), mark + 80) if mark >= 0 else None
        if end is not None and "BEGIN" not in text[mark : mark + 10]:
            if _PEM_BODY.search(text, body, end.start()) or 64 <= end.start() - body <= 4096:
                last = end.end()
                yield start, last
        else:
            lines = _PEM_LINES.match(text, body)
            assert lines is not None
            if _PEM_BODY.search(text, body, lines.end()):
                last = lines.end()
                yield start, last


def _rows_before(text: str, end: int, least: int) -> int:
    """Where the rows of base64 begin that stand right before the end of a key."""
    first = at = end
    while at > least:
        window = text[max(least, at - 140) : at]
        breaks = [match.span() for match in _PEM_BREAK.finditer(window)]
        stop, begin = breaks[-1] if breaks else (0, 0)
        row = _PEM_ROW.fullmatch(window, begin)
        if row is not None:
            first = at - len(window) + row.start("row")
        elif (begin < len(window.rstrip(" \t>|+#-\"',")) and first < end) or (
            first == end and window[begin:].strip(" \t>|+#*/-\"',0123456789")
        ):
            break
        if not breaks:
            break
        at = at - len(window) + stop
    return first


_JWK: Final = regex(
    r"""\\{0,7}["'](?:d|p|q|dp|dq|qi|k)\\{0,7}["'][ \t]{0,4}:[ \t]{0,4}\\{0,7}["']"""
    r"""(?P<value>[A-Za-z0-9_-]{20,})"""
)


def _json_keys(text: str, _: str) -> Iterable[Span]:
    """Spans of the private members of JSON web keys (RFC 7517): `{"kty": "EC", "d": "…"}`."""
    if '"kty' in text or "'kty" in text or 'kty\\"' in text:
        return (match.span("value") for match in _JWK.finditer(text))
    return ()


_ELEMENT: Final = regex(
    r"<(?P<key>[A-Za-z][\w:.-]{2,60})(?:\s[^<>\n]{0,200})?>(?P<value>[^<>\s]{6,1024})</(?P=key)>"
)
# `<property name="db.password">…</property>`, and of property lists `<key>…</key><string>…`.
_ENTRY: Final = regex(
    r"""<(?:[A-Za-z][\w:.-]{0,60}\s[^<>\n]{0,120}?\b(?:name|key|id)=\\{0,7}["'](?P<key>[\w.-]{2,80})"""
    r"""\\{0,7}["'][^<>\n/]{0,120}"""
    r"""|key>(?P<name>[\w .-]{2,80})</key>(?:\s|\\{1,7}[nrt]|[>|+#*/-]){0,40}<string)>"""
    r"""(?P<value>[^<>\s]{6,1024})</"""
)
# A name and its value side by side: XML attributes, lists of variables in YAML and JSON.
_NAMED: Final = regex(
    r"""[nkNK](?<!\w[nkNK])(?:(?<=[nN])ame|(?<=[kK])ey)\\{0,7}["']?[ \t]{0,4}[:=][ \t]{0,4}"""
    r"""\\{0,7}["']?(?P<key>[A-Za-z][\w.-]{2,60})\\{0,7}["']?"""
    r"""(?:,|\\{1,7}[nrt]|\s|(?<=\n)(?:[>|+#*/-]{1,2}|[ ]{0,4}[0-9]{1,4}\t)){1,40}+"""
    r"""\\{0,7}["']?(?:value|Value)\\{0,7}["']?[ \t]{0,4}[:=][ \t]{0,4}"""
    r"""(?:(?P<esc>\\{0,7})(?P<quote>["'])(?P<quoted>(?:(?!(?P=quote))[^\n\\]){6,1024})(?:(?P=esc)(?P=quote))"""
    r"""|(?P<value>[^\s"'\\,;{}<>&$]{6,1024}))"""
)
_VALUED: Final = regex(r"""value\\{0,7}["']?[ \t]{0,4}[:=]""")  # what `_NAMED` needs


def _markup(text: str, lowered: str) -> Iterable[Span]:
    """Spans of values in markup beside the name of a secret: `<password>…</password>`."""
    named = "value" in lowered and ("name" in lowered or "key" in lowered)
    found: Iterable[Span] = ()
    if "</" in lowered:
        found = merge_spans(_elements(text), _entries(text))
    if named and _VALUED.search(lowered) is not None:
        return merge_spans(found, _side_by_side(text))
    return found


def _elements(text: str) -> Iterator[Span]:
    for match in _ELEMENT.finditer(text):
        if secret_key(match["key"]) and looks_secret(match["value"]):
            yield match.span("value")


def _entries(text: str) -> Iterator[Span]:
    for match in _ENTRY.finditer(text):
        if secret_key(match["key"] or match["name"]) and looks_secret(match["value"]):
            yield match.span("value")


def _side_by_side(text: str) -> Iterator[Span]:
    for match in _NAMED.finditer(text):
        name = "value" if match["value"] is not None else "quoted"
        if secret_key(match["key"]) and looks_secret(match[name]):
            yield match.span(name)


_SQL: Final = regex(
    r"""\bidentified[ \t]{1,4}(?:with[ \t]{1,4}[\w'"`]{1,40}[ \t]{1,4})?(?:by|as)[ \t]{1,4}"""
    r"""(?:password[ \t]{1,4})?(?:\\?(?P<quote>["'`])(?P<quoted>[^\s"'`]{4,256})(?P=quote)"""
    r"""|(?P<value>[^\s"'`;,()]{6,256}))"""
    r"""|\b(?:role|user|login)\b[^\n;]{0,80}?\bpassword[ \t]{1,4}(?P<bare>[^\s"'`;,()=:]{6,256})""",
    re.IGNORECASE,
)
_STATEMENTS: Final = (
    "create user",
    "alter user",
    "create role",
    "alter role",
    "create login",
    "alter login",
    "grant ",
    "login password",
)


def _sql(text: str, lowered: str) -> Iterator[Span]:
    """Spans of passwords in SQL: `IDENTIFIED BY '…'`, `CREATE ROLE x LOGIN PASSWORD …`."""
    statement = any(map(lowered.__contains__, _STATEMENTS))
    if not statement and "identified" not in lowered:
        return
    for match in _SQL.finditer(text):
        name = next(name for name in ("quoted", "value", "bare") if match[name] is not None)
        value = match[name]
        # Prose identifies by many things; what has a digit, or stands in a statement, is chosen.
        chosen = any(map(str.isdigit, value)) or (name == "quoted" and statement)
        if chosen and looks_secret(value):
            yield match.span(name)


# Options that take a password, and the commands in whose lines they do: -p is a port elsewhere.
_ARGUMENT: Final = (
    r"""(?P<gap>\\{0,7}["']?[ \t,=]{1,4}|(?=[^\s]))\\{0,7}["']?"""
    r"""(?P<value>[^\s"'`\\\x1b<>|]{4,256})"""
)
_LONGER: Final = regex(
    r"-{1,2}(?P<option>hp|pw|passin|passout|user|proxy-user|body|storepass|keypass|pass)"
    + _ARGUMENT
)
_SHORTER: Final = regex(r"-(?P<option>[pPwaUukb])" + _ARGUMENT)
_ATTACHED: Final = "attached"
_SPACED: Final = "spaced"
_PAIR: Final = "pair"
_LOGINS: Final = (
    r"(?:docker|podman|nerdctl|buildah|helm|oras|skopeo|crane|oc|az|cf|ibmcloud|argocd|rosa|ocm)\b"
    r"[^\n]{0,200}\blogin"
)
_NETWORK: Final = (
    r"sshpass|mongo\w*|twine|rdesktop|crackmapexec|nxc|netexec|evil-winrm|useradd|usermod|influx"
)
_TAKERS: Final = {
    "p": (
        (_ATTACHED, r"mysql\w*|mariadb[\w-]*|7z[ar]?|rar|unrar|sshpass|mycli"),
        (_SPACED, f"{_NETWORK}|{_LOGINS}"),
    ),
    "hp": ((_ATTACHED, r"rar|unrar"),),
    "P": (
        (_SPACED, r"zip|unzip|zipcloak|sqlcmd|bcp|ipmitool|mosquitto_\w+|tsql"),
        (_ATTACHED, r"sqlcmd|bcp|tsql"),
    ),
    "w": (
        (_SPACED, r"ldap\w+|add-(?:generic|internet)-password|iwconfig"),
        (_ATTACHED, r"ldap\w+"),
    ),
    "U": ((_PAIR, r"smbclient|rpcclient|net|wmic|smbget|curl|winexe"),),
    "u": ((_PAIR, r"curl|http|https|xh"),),
    "user": ((_PAIR, r"curl"),),
    "proxy-user": ((_PAIR, r"curl"),),
    "a": ((_SPACED, r"redis-cli"), (_PAIR, r"https?|xhs?")),
    "pw": ((_SPACED, r"plink|pscp|psftp|puttygen|kitty"),),
    "pass": ((_SPACED, r"redis-cli"),),
    "passin": ((_PAIR, r"openssl"),),
    "passout": ((_PAIR, r"openssl"),),
    "k": ((_SPACED, r"openssl"),),
    "storepass": ((_SPACED, r"keytool|jarsigner"),),
    "keypass": ((_SPACED, r"keytool|jarsigner"),),
    "b": ((_ATTACHED, r"gh\b[^\n]{0,80}\bsecret"), (_SPACED, r"gh\b[^\n]{0,80}\bsecret")),
    "body": ((_SPACED, r"gh\b[^\n]{0,80}\bsecret"),),
}
_TAKER: Final = {
    (option, how): regex(rf"(?i:(?:(?<![\w-])|(?<=[0-9]m)|(?<=\n-)|(?<=\A-))(?:{names})(?![\w-]))")
    for option, takers in _TAKERS.items()
    for how, names in takers
}
_PORTS: Final = regex(r"[\d.:/-]*(?:tcp|udp)?")
_OTHER: Final = regex(
    r"""(?:(?:\b|(?<=[0-9]m))echo[ \t]{1,4}(?:-n[ \t]{1,4})?\\{0,7}["']?"""
    r"""(?P<piped>[^\s"'`\\|]{4,256})\\{0,7}["']?[ \t]{0,4}\|[ \t]{0,4}"""
    r"""(?:[^\n|]{0,200}--(?:password-)?stdin\b|sudo[ \t]{1,4}(?:-\w{1,4}[ \t]{1,4}){0,3}-S"""
    r"""|chpasswd|passwd[ \t]{1,4}--stdin)"""
    r"""|convertto-securestring(?:[ \t]{1,4}-(?:string|force|asplaintext)){0,3}"""
    r"""[ \t]{1,4}\\{0,7}["']?"""
    r"""(?P<secure>[^\s"'`\\-][^\s"'`\\]{5,256})"""
    r""")""",
    re.IGNORECASE,
)
_PIPED: Final = ("stdin", "sudo", "chpasswd")
_LINE_BACK: Final = 400  # characters of a line in which a command's name is looked for


def _commands(text: str, lowered: str) -> Iterable[Span]:
    """Spans of passwords in arguments of well-known commands: `curl -u user:…`, `mysql -p…`."""
    places = _dashes(text)
    found: Iterable[Span] = _options(text, places) if places else ()
    piped = "|" in lowered and any(map(lowered.__contains__, _PIPED))
    if piped or "convertto-securestring" in lowered:
        return merge_spans(found, _others(text))
    return found


def _dashes(text: str, window: int = WINDOW) -> Iterable[int]:
    """Where an option may begin, from left to right; in a long text window by window."""
    if len(text) <= window:
        return _places(text, 0, window)
    windows = range(0, len(text), window)
    return (at for first in windows for at in _places(text, first, first + window))


def _places(text: str, first: int, last: int) -> list[int]:
    """The dashes from `first` up to `last`."""
    places: list[int] = []
    find = text.find
    for opener in _OPENERS if '"-' in text else _BLANK_OPENER:
        before = len(opener) - 1
        at = find(opener, max(0, first - before), last)
        while at >= 0:
            dash = at + before
            if text[dash + 1 : dash + 2] in _FIRST:
                places.append(dash)
            at = find(opener, dash + 1, last)
    places.sort()
    return places


_OPENERS: Final = (" -", '", "-', '","-')
_BLANK_OPENER: Final = _OPENERS[:1]
_FIRST: Final = frozenset("pPwUuakbhs-")


def _options(text: str, places: Iterable[int]) -> Iterator[Span]:
    for at in places:
        for option in (_LONGER, _SHORTER):  # `-pw…` may be PuTTY's option, or a password behind -p
            match = option.match(text, at)
            span = _argument(text, at, match) if match is not None else None
            if span is not None:
                yield span
                break


def _argument(text: str, at: int, match: re.Match[str]) -> Span | None:
    option, spaced = match["option"], bool(match["gap"])
    begin = max(0, at - _LINE_BACK)
    begin = max(text.rfind("\n", begin, at) + 1, begin)
    for how in (_ATTACHED, _SPACED, _PAIR):
        taker = _TAKER.get((option, how))
        if taker is None or (how is not _PAIR and spaced != (how is _SPACED)):
            continue
        if taker.search(text, begin, at) is None:
            continue
        start, end = match.span("value")
        if how is _PAIR:
            percent = text.find("%", start, end) if option == "U" else -1
            cut = percent if percent >= 0 else text.find(":", start, end)
            if cut < 0 or end - cut < 4:
                continue
            if option.startswith("pass") and text[start:cut] != "pass":
                continue  # `file:…` names a file
            start = cut + 1
        value = text[start:end]
        # `$PASSWORD`, `<password>`: what stands there is no secret yet.
        named = _URL_NAMED.match(value) or _PORTS.fullmatch(value) or "[redacted:" in value
        if value[0] not in "$<{%-/" and not named:
            return start, end
    return None


def _others(text: str) -> Iterator[Span]:
    for match in _OTHER.finditer(text):
        assert match.lastgroup is not None
        value = match[match.lastgroup]
        # `$PASSWORD`, `<password>`: what stands there is no secret yet.
        if value[0] not in "$<{%" and "[redacted:" not in value:
            yield match.span(match.lastgroup)


class Finder(NamedTuple):
    """A finder: the rule that its finds count under, the words of which a text must hold one.

    `find` takes the text and the text in lower case, of one length. `keyed`: it finds nothing in a
    text without one of `STEMS`.
    """

    rule: str
    words: tuple[str, ...]
    find: Callable[[str, str], Iterable[Span]]
    keyed: bool = False


SECRET_VALUE: Final = "secret-value"  # noqa: S105 - the name of a rule
PRIVATE_KEYS: Final = Finder("private-key", ("private",), _key_blocks)
URLS: Final = Finder("url-password", ("://",), _urls)
BEARERS: Final = Finder("bearer", ("bearer", "authorization"), _bearers, keyed=True)
COMMANDS: Final = Finder(SECRET_VALUE, ("-",), _commands)
# In the order in which they run, behind private keys and tokens.
FINDERS: Final = (
    Finder("private-key", ("kty",), _json_keys),
    Finder(SECRET_VALUE, ("<", "value"), _markup, keyed=True),
    Finder(SECRET_VALUE, ("identified", "password"), _sql),
    COMMANDS,
    Finder(SECRET_VALUE, ("",), key_values, keyed=True),
    URLS,
    BEARERS,
)


class Counts(dict[str, int]):
    """How many secrets were masked, by rule; `taken` has the secrets where a caller wants them."""

    __slots__ = ("taken",)

    def __init__(self, taken: list[str] | None = None) -> None:
        super().__init__()
        self.taken = taken

    def add(self, found: Counts) -> None:
        """Add the counts of another one."""
        for rule, number in found.items():
            self[rule] = self.get(rule, 0) + number


# A pass that changes nothing ends it; only a pattern that feeds on its own marks needs many.
_PASSES_MAX: Final = 32
# What an identifier is searched for beside tokens, and a list as one text.
_IN_NAMES: Final = (PRIVATE_KEYS, URLS, BEARERS)
_IN_LISTS: Final = (PRIVATE_KEYS, COMMANDS)
_QUOTED: Final = regex("%([0-7][0-9A-Fa-f])")
_FINDER_WORDS: Final = kernel_twin(Literals)(
    tuple({word: None for words in (STEMS, *(each.words for each in FINDERS)) for word in words})
)
_SHORT: Final = 128  # characters of what may come again
_EMITTED_TEXT_MAX: Final = 1 << 16  # characters of one of these texts
_EMITTED_MAX: Final = 4_000_000  # characters of all texts that are known to be clean
_MANY: Final = 10_000
# A pattern that begins with a plain word can only match where that word stands.
_FIRST_WORD: Final = regex(
    r"(?:\(\?i\))?(?:\\b)?([A-Za-z0-9_ -]*[A-Za-z0-9_ -])(?![*?{+|A-Za-z0-9_ -])"
)


class Redactor:
    """Masks secrets by the policy's patterns, the built-in rules, and a detector if there is one.

    Safe to share between threads. It caches identifiers and short strings without secrets, because
    sessions, tools and paths recur; results do not depend on the cache. Rules are named `policy-1`,
    `policy-2`, ... for patterns in their order, and `<detector>:<rule>`.
    """

    __slots__ = (
        "_clean",
        "_detector",
        "_emitted",
        "_emitted_size",
        "_identifiers",
        "_names",
        "_patterns",
    )

    def __init__(self, patterns: tuple[str, ...] = (), detector: Detector | None = None) -> None:
        self._patterns = tuple(
            _compiled(pattern, number) for number, pattern in enumerate(patterns, start=1)
        )
        self._detector: Second | None = None
        if detector is not None:
            self._detector = Second(detector)
        self._clean: set[str] = set()
        self._identifiers: set[str] = set()  # in which `in_name` found nothing
        self._names: dict[str, bool] = {}  # of clean keys: whether a secret stands under them
        self._emitted: set[str] = set()  # texts without secrets that left the plane
        self._emitted_size = 0

    def emitted(self, text: str) -> str:
        """The text with every secret masked, on its way out: what is clean is found out once.

        For texts that are kept anyway, and shown again and again.
        """
        if text in self._emitted:
            return text
        masked = self.redact(text)[0]
        if masked == text and self._detector is None and len(text) <= _EMITTED_TEXT_MAX:
            self._emitted_size += len(text)
            if self._emitted_size > _EMITTED_MAX:
                self._emitted.clear()
                self._emitted_size = len(text)
            self._emitted.add(text)
        return masked

    def redact(self, text: str, taken: list[str] | None = None) -> tuple[str, Counts]:
        """The text with every secret masked, and the counts by rule. Deterministic.

        The secrets are appended to `taken`: for comparisons, never for display.
        """
        counts = Counts(taken)
        for _ in range(_PASSES_MAX):
            before = text
            found = Counts(taken)
            text = self._once(text, found)
            if text == before and self._detector is not None:
                text = self._detected(self._detector, text, found)
            if text == before:
                break
            counts.add(found)
        return text, counts

    def redact_data(self, value: Any, taken: list[str] | None = None) -> tuple[Any, Counts]:
        """JSON data with strings and values of secret keys masked, and the counts by rule."""
        counts = Counts(taken)
        return self._walk(value, counts, under_secret=False), counts

    def redact_value(self, key: str, text: str) -> tuple[str, Counts]:
        """The text stored under a key, masked, and the counts by rule.

        It is masked as a whole where the key names a secret and the text looks like one.
        """
        masked, counts = self.redact(text)
        value = text.strip()
        if not counts and secret_key(key) and looks_secret(value) and chosen(value, key):
            return self._taken(value, counts), counts
        return masked, counts

    def in_name(self, name: str) -> Counts:
        """Counts by rule of what an identifier must not hold.

        That is tokens, matches of patterns, and findings of the detector. A key beside a value does
        not count unless the key names a password: identifiers have forms like `a=b` and `a:b`.
        """
        if name in self._identifiers:
            return Counts()
        counts = self._in_name(name)
        for part in _parts(name):
            counts = counts or self._in_name(part)
        if not counts and len(name) <= _SHORT:
            if len(self._identifiers) >= _MANY:
                self._identifiers.clear()
            self._identifiers.add(name)
        return counts

    def name(self, name: str) -> str:
        """An identifier in a request: unchanged, or masked where `in_name` finds something.

        Nothing is stored under such an identifier, so its masked form finds nothing either.
        """
        if not self.in_name(name):
            return name
        head, slash, last = self.redact(name)[0].rpartition("/")
        masked = f"{head}{slash}{self.redact(last)[0]}"
        found = self.in_name(masked)
        return f"[redacted:{min(found).partition(':')[0]}]" if found else masked

    def _in_name(self, name: str) -> Counts:
        counts = Counts()
        lowered = _lowered(name)
        for rule, pattern, word in self._patterns:
            if word in lowered:
                _spliced(name, _matches(name, pattern), rule, counts)
        if len(name) >= RUN_MIN:
            shapes, halves = looked_at(name)
            for rule, span in torn(name, halves) if halves else ():
                _spliced(name, [span], rule, counts)
            for shape in shapes:
                _spliced(name, shape.spans(name), shape.name, counts)
        for rule, _, find, _ in _may_find(lowered):
            _spliced(name, find(name, lowered), rule, counts)
        if "=" in name:
            _spliced(name, _passwords(name, lowered), SECRET_VALUE, counts)
        if self._detector is not None:
            self._detected(self._detector, name, counts)
        if not counts and "%" in name:  # an importer writes `://` so
            plain = _QUOTED.sub(lambda code: chr(int(code[1], 16)), name)
            return self._in_name(plain) if plain != name else counts
        return counts

    def _once(self, text: str, counts: Counts) -> str:
        lowered = _lowered(text)
        for rule, pattern, word in self._patterns:
            if word in lowered:
                text = _spliced(text, _matches(text, pattern), rule, counts)
        if "private" in lowered:  # before the shapes of what stands in a block
            text = _spliced(text, PRIVATE_KEYS.find(text, lowered), PRIVATE_KEYS.rule, counts)
        text = _tokens(text, counts)
        if counts:
            lowered = _lowered(text)
        among = frozenset(_FINDER_WORDS.among(lowered))
        for finder in FINDERS:
            if among.isdisjoint(finder.words) or (finder.keyed and among.isdisjoint(STEMS)):
                continue
            # Finders look up places of `lowered` in the text: the two are of one length.
            spans = finder.find(text, lowered)
            if spans and (pieces := _pieces(text, spans, finder.rule, counts)):
                spans = ()
                lowered = ""  # before the new text is made: of a long one there are few copies
                text = "".join(pieces)
                pieces.clear()
                lowered = _lowered(text)
                among = frozenset(_FINDER_WORDS.among(lowered))
        return text

    def _detected(self, detector: Second, text: str, counts: Counts) -> str:
        found = list(detector.find(text))
        for one in found:
            counts[one.rule] = counts.get(one.rule, 0) + 1
        return _masked(text, [(detector.name, one.span) for one in found], counts)

    def _walk(self, value: Any, counts: Counts, *, under_secret: bool) -> Any:
        if isinstance(value, str):
            return self._string(value, counts, under_secret=under_secret)
        if isinstance(value, dict):
            labelled = _labelled(value)
            out: dict[str, Any] = {}
            again: dict[str, int] = {}
            for key, item in value.items():
                name = self._string(key, counts, under_secret=False)
                if name in out:  # two secret keys under one mark: neither value may be lost
                    name = _another(name, out, again)
                out[name] = self._under(name, item, counts, labelled=key in labelled)
            return out
        if isinstance(value, list | tuple):
            return self._list(value, counts, under_secret=under_secret)
        return value

    def _under(self, name: str, item: Any, counts: Counts, *, labelled: bool) -> Any:
        judged = self._names.get(name)
        if judged is None:
            # As stored: a mark that names a token makes no secret of what it labels.
            judged = secret_key(MARK.sub("", name))
            if name in self._clean:
                self._names[name] = judged
        if judged and _as_number(name, item):
            return self._taken(str(item), counts)
        if judged and isinstance(item, str) and password_key(name) and passphrase(item):
            return self._taken(item, counts)
        return self._walk(item, counts, under_secret=judged or labelled)

    def _list(
        self, items: list[Any] | tuple[Any, ...], counts: Counts, *, under_secret: bool
    ) -> Any:
        """The items, each masked; then what only gives itself away beside its neighbours."""
        out = [self._walk(item, counts, under_secret=under_secret) for item in items]
        texts = [(number, item) for number, item in enumerate(out) if isinstance(item, str)]
        if len(texts) < 2 or under_secret:
            return out
        for (at, name), (number, item) in pairwise(texts):
            if number == at + 1 and _names_next(name) and looks_secret(item) and _digits(item):
                out[number] = self._taken(item, counts)
        texts = [(number, out[number]) for number, _ in texts]
        # A command's arguments, and the lines of a file: as one text, masked item by item.
        joined = " ".join(item for _, item in texts)
        lowered = _lowered(joined)
        for finder in _IN_LISTS:
            spans = list(finder.find(joined, lowered))
            if not spans:
                continue
            for (number, item), inside in zip(texts, _shares(texts, spans), strict=True):
                out[number] = _spliced(item, inside, finder.rule, counts)
            return self._list(out, counts, under_secret=False)
        return out

    def _taken(self, text: str, counts: Counts) -> str:
        counts[SECRET_VALUE] = counts.get(SECRET_VALUE, 0) + 1
        if counts.taken is not None:
            counts.taken.append(text)
        return f"[redacted:{SECRET_VALUE}]"

    def _string(self, text: str, counts: Counts, *, under_secret: bool) -> str:
        if not under_secret and text in self._clean:
            return text
        masked, found = self.redact(text, counts.taken)
        if not found and masked == text and len(text) <= _SHORT:
            if len(self._clean) >= _MANY:
                self._clean.clear()
                self._names.clear()
            self._clean.add(text)
        if under_secret and masked == text and looks_secret(text):
            return self._taken(text, counts)
        counts.add(found)
        return masked


# In objects with the name of something beside its value.
_LABELS: Final = word_table("""
    name key Name Key variable env header field option label
""")
_VALUES: Final = ("value", "val", "Value", "content", "default", "secret", "data", "text")
_OPTION: Final = regex(r"-{0,2}[A-Za-z][A-Za-z0-9_.-]{2,60}:?")


def _labelled(value: dict[str, Any]) -> tuple[str, ...]:
    """The keys whose values belong to what another value names: `{"name": "TOKEN", "value": …}`."""
    if len(value) < 2:
        return ()
    for label in _LABELS:
        name = value.get(label)
        if isinstance(name, str) and len(name) <= _SHORT and secret_key(MARK.sub("", name)):
            return tuple(key for key in _VALUES if key in value)
    return ()


def _another(name: str, taken: dict[str, Any], again: dict[str, int]) -> str:
    """A key like this one that is not taken: with a stroke, then numbered. `again` has the last."""
    number = again.get(name, 0)
    while True:
        number += 1
        other = f"{name}'" if number == 1 else f"{name}'{number}"
        if other not in taken:
            again[name] = number
            return other


def _shares(texts: list[tuple[int, str]], spans: list[Span]) -> Iterator[list[Span]]:
    """Of spans in the texts joined by blanks, what lies in each text, counted from its start."""
    begin = first = 0
    for _, text in texts:
        end = begin + len(text)
        while first < len(spans) and spans[first][1] <= begin:
            first += 1
        inside: list[Span] = []
        at = first
        while at < len(spans) and spans[at][0] < end:
            start, last = spans[at]
            if last > begin:
                inside.append((max(start, begin) - begin, min(last, end) - begin))
            at += 1
        yield inside
        begin = end + 1


def _as_number(name: str, item: Any) -> bool:
    """Whether a number is a password: `{"password": 12345678}`."""
    return type(item) is int and abs(item) >= _NUMBER_MIN and password_key(name)


_NUMBER_MIN: Final = 100_000


def _parts(name: str) -> Iterator[str]:
    """What of a namespace or file's name is looked at alone.

    Behind a slash some shapes do not begin, and before the endings of a file some do not end.
    """
    last = name.rpartition("/")[2]
    if len(last) < len(name):
        yield last
    for _ in range(2):
        last = last.rpartition(".")[0]
        if last:
            yield last


def _names_next(name: str) -> bool:
    """Whether an item of a list names the next one: `["X-Api-Key", …]`, `["--token", …]`."""
    return len(name) <= _SHORT and _OPTION.fullmatch(name) is not None and secret_key(name)


def _digits(text: str) -> bool:
    return any(map(str.isdigit, text))


def _may_find(lowered: str) -> list[Finder]:
    """Those for identifiers of which the text, in small letters, holds a word: so few patterns."""
    return [finder for finder in _IN_NAMES if any(word in lowered for word in finder.words)]


def masked_name(name: str) -> str:
    """An identifier from outside: unchanged, or masked where the built-in rules find a secret."""
    return _BUILT_IN.name(name)


def masked(text: str) -> str:
    """A text for people, such as an error message, masked by the built-in rules."""
    return _BUILT_IN.redact(text)[0]


def masked_data(value: Any) -> Any:
    """JSON data for a file beside the log, masked by the built-in rules."""
    return _BUILT_IN.redact_data(value)[0]


def secrets_in(text: str) -> list[str]:
    """The secrets that the built-in rules find in a text, longest first: to remove, not to show."""
    taken: list[str] = []
    _BUILT_IN.redact(text, taken)
    return sorted(set(taken), key=lambda secret: (-len(secret), secret))


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, nor the beginning of one at which the text was cut off."""
    for secret in secrets:
        least = min(len(secret), _BEGINNING)
        # A text that holds a beginning holds each shorter one: the longest is found by halving.
        sizes = range(least, len(secret) + 1)
        held = bisect(sizes, 0, key=lambda size: secret[:size] not in text)
        if held:
            text = text.replace(secret[: sizes[held - 1]], f"[redacted:{SECRET_VALUE}]")
    return masked(text)


_BEGINNING: Final = 8  # characters of a secret that may be shown are fewer


def quoted_value(value: object, most: int = 60) -> str:
    """A value for an error message: its repr, at most `most` characters, tokens masked."""
    text = repr(value).encode("utf-8", "backslashreplace").decode()
    # Masked first: what is cut off a token's end leaves a beginning that no rule knows.
    text = masked(text[:4096])
    return text if len(text) <= most else text[: most - 3] + "..."


def unexpected(wanted: str, value: object, where: str) -> InputError:
    """The error for an argument of another type or value than the one wanted."""
    return InputError(f"expected {wanted}, found {quoted_value(value)}", where=where)


def _passwords(name: str, lowered: str) -> Iterator[Span]:
    """Passwords behind their names: of other pairs identifiers are full."""
    for start, end in key_values(name, lowered):
        key = name[:start].rstrip("=\"'")
        if len(key) < start and password_key(key):
            yield start, end


def _compiled(pattern: str, number: int) -> tuple[str, re.Pattern[str], str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"not a regular expression: {error}; expected Python's syntax",
            where=f"redact_patterns[{number - 1}]",
        ) from error
    first = _FIRST_WORD.match(pattern)
    plain = first is not None and "|" not in pattern and not compiled.flags & re.VERBOSE
    return f"policy-{number}", compiled, first[1].lower() if first is not None and plain else ""


def _lowered(text: str) -> str:
    """The text in small letters, `?` for what is beyond ASCII: as long, and quick to search."""
    if text.isascii():
        return text.lower()
    if len(text) <= _AT_ONCE:
        return _lowered_piece(text)
    # In pieces: one wide letter makes a copy of the text four times as long as its answer.
    starts = range(0, len(text), _AT_ONCE)
    return "".join(_lowered_piece(text[at : at + _AT_ONCE]) for at in starts)


_AT_ONCE: Final = 1 << 20  # characters


def _lowered_piece(text: str) -> str:
    # Four letters match ASCII ones under (?i) although str.lower does not make them ASCII.
    for letter, plain in _FOLDED:
        if letter in text:
            text = text.replace(letter, plain)
    return text.encode("ascii", "replace").decode("ascii").lower()


_FOLDED: Final = (("\u0130", "i"), ("\u0131", "i"), ("\u017f", "s"), ("\u212a", "k"))


def _matches(text: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    return widened(text, (match.span() for match in pattern.finditer(text)))


def _tokens(text: str, counts: Counts) -> str:
    """The text with the tokens of known providers masked, torn ones first."""
    shapes, halves = looked_at(text)
    if halves and (found := list(torn(text, halves))):
        for name, _ in found:
            counts[name] = counts.get(name, 0) + 1
        text = _masked(text, found, counts)
        shapes = looked_at(text)[0]
    for shape in shapes:
        text = _spliced(text, shape.spans(text), shape.name, counts)
    return text


def _spliced(text: str, spans: Iterable[Span], rule: str, counts: Counts) -> str:
    pieces = _pieces(text, spans, rule, counts)
    return "".join(pieces) if pieces else text


def _pieces(text: str, spans: Iterable[Span], rule: str, counts: Counts) -> list[str]:
    """The text with marks in place of the spans, in few pieces; [] where there are no spans."""
    joined: list[str] = []
    pieces: list[str] = []
    last = number = 0
    for start, end in spans:
        if start < last:  # inside what was just masked
            continue
        pieces += (text[last:start], f"[redacted:{rule}]")
        if counts.taken is not None:
            counts.taken.append(text[start:end])
        last = end
        number += 1
        if len(pieces) == _PIECES_MAX:
            joined.append("".join(pieces))
            pieces.clear()
    if not number:
        return []
    counts[rule] = counts.get(rule, 0) + number
    return [*joined, *pieces, text[last:]]


_PIECES_MAX: Final = 4096


def _masked(text: str, found: Iterable[tuple[str, Span]], counts: Counts) -> str:
    """The text with the mark that is named in place of each span; they are counted elsewhere."""
    pieces: list[str] = []
    last = 0
    for mark, (start, end) in found:
        pieces += (text[last:start], f"[redacted:{mark}]")
        if counts.taken is not None:
            counts.taken.append(text[start:end])
        last = end
    return "".join(pieces) + text[last:]


_BUILT_IN: Final = Redactor()


# A second engine behind the built-in rules, held to what the port `Detector` promises.
#
# Other people's code: what it answers is checked, and where it fails nothing is stored or shown.

_NAME: Final = regex(r"[a-z0-9-]{1,40}")
_RULE: Final = regex(r"[A-Za-z0-9_.-]{1,60}")


class DetectedSecret(NamedTuple):
    """A span found by a detector and the rule that it counts under, `<detector>:<rule>`."""

    span: Span
    rule: str


class Second:
    """A detector with its answers checked."""

    __slots__ = ("_detector", "name")

    def __init__(self, detector: Detector) -> None:
        name = getattr(detector, "name", None)
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise InputError(
                "expected a name of 1 to 40 lower-case letters, digits and dashes",
                where="detector.name",
            )
        self._detector, self.name = detector, name

    def find(self, text: str) -> Iterator[DetectedSecret]:
        """The detector's findings from left to right, without overlaps and parts of marks."""
        failure = ""
        try:
            spans = sorted((int(s), int(e), str(rule)) for s, e, rule in self._detector.find(text))
        except Exception as error:  # noqa: BLE001 - other people's code
            failure, spans = type(error).__name__, []
        if failure:  # without its message or itself as a cause: they may quote the text
            raise self._failed(f"failed ({failure})")
        if any(not 0 <= start <= end <= len(text) for start, end, _ in spans):
            raise self._failed("named characters outside the text")
        last = 0
        spans = [span for span in spans if span[0] < span[1]]
        for (start, end), (_, _, rule) in zip(
            widened(text, [span[:2] for span in spans]), spans, strict=True
        ):
            if start >= last and MARK.fullmatch(text, start, end) is None:
                named = rule if _RULE.fullmatch(rule) else "other"
                yield DetectedSecret((start, end), f"{self.name}:{named}")
                last = end

    def _failed(self, how: str) -> InputError:
        return InputError(
            f"the detector `{self.name}` {how}; what it cannot look at is neither stored nor shown",
            where="detector",
        )
