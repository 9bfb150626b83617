"""Find secrets by the syntax around them: URLs, HTTP headers, key blocks, markup, SQL, commands.

Each `Finder` yields the spans to mask, from left to right. It runs where the text in lower case
(`lowered`, which is quicker to search) holds a word that its form cannot lack. The text around a
secret stays. All patterns are bounded, so the time for a hostile megabyte is that of any megabyte.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from memplane.intake.markers import MARK, Span, merge_spans
from memplane.kernel import Literals, kernel_twin
from memplane.lazy import NamedTuple, regex, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Keys that name a secret, and the values that stand behind them: `password=…`, `--token …`.
#
# The finder yields the spans to mask, from left to right. Keys and separators stay, so that the
# text still says what stood there. All patterns are bounded: a hostile megabyte costs what any
# megabyte costs.


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
    last, value_at = 0, _VALUE.match
    for stem in stems(lowered):
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
    starts: list[int] = []
    find = lowered.find
    for stem in _STEMS.among(lowered):
        at = find(stem)
        while at >= 0:
            starts.append(at)
            at = find(stem, at + len(stem))
    starts.sort()
    return starts


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
    if "://" not in lowered:
        return ()
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
