"""Secrets that a form of text gives away: URLs, HTTP headers, key blocks, markup, SQL, commands.

Each finder gives the spans to mask, from left to right, and first looks for a word without which
its form cannot stand there: in `lowered`, the text in small letters, which is quicker to search.
What stands around a secret stays. All patterns are bounded: a hostile megabyte costs what any
megabyte costs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memplane.intake.marks import Span, merged
from memplane.intake.pairs import WINDOW, looks_secret, secret_key
from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["bearers", "commands", "json_keys", "markup", "private_keys", "sql", "urls"]

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


def urls(text: str, lowered: str) -> Iterable[Span]:
    """Passwords in URLs, `postgres://user:…@host/db`, and keys in queries, `?key=…`."""
    if "://" not in lowered:
        return ()
    found = _credentials(text) if "@" in lowered else ()
    if "=" in lowered and ("?" in lowered or "&" in lowered):
        return merged(found, _query_keys(text))
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


def bearers(text: str, lowered: str) -> Iterable[Span]:
    """Credentials of an HTTP header: `Bearer …`, `Authorization: Basic …`."""
    if "bearer" in lowered or "authorization" in lowered:
        return _bearers(text)
    return ()


def _bearers(text: str) -> Iterator[Span]:
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


def private_keys(text: str, lowered: str) -> Iterable[Span]:
    """PEM blocks over any number of lines: cut off, with escaped line ends, in lines of a log."""
    if "private" not in lowered:
        return ()
    blocks = "-----" in lowered and "private key" in lowered
    found: Iterable[Span] = _private_keys(text) if blocks else ()
    if "private-lines" in lowered:
        return merged(found, (match.span("body") for match in _PUTTY.finditer(text)))
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


def json_keys(text: str, lowered: str) -> Iterable[Span]:
    """The private parts of JSON web keys: `{"kty": "EC", "d": "…"}`."""
    if "kty" in lowered and ('"kty' in text or "'kty" in text or 'kty\\"' in text):
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


def markup(text: str, lowered: str) -> Iterable[Span]:
    """Values beside the name of a secret: `<password>…</password>`, `name: … value: …`."""
    named = "value" in lowered and ("name" in lowered or "key" in lowered)
    if not named and "<" not in lowered:
        return ()
    found: Iterable[Span] = ()
    if "</" in lowered:
        found = merged(_elements(text), _entries(text))
    if named and _VALUED.search(lowered) is not None:
        return merged(found, _side_by_side(text))
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


def sql(text: str, lowered: str) -> Iterable[Span]:
    """Passwords in SQL: `IDENTIFIED BY '…'`, `CREATE ROLE x LOGIN PASSWORD …`."""
    identified = "identified" in lowered
    if not identified and "password" not in lowered:
        return ()
    statement = any(map(lowered.__contains__, _STATEMENTS))
    return _sql(text, statement=statement) if statement or identified else ()


def _sql(text: str, *, statement: bool) -> Iterator[Span]:
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
    "P": ((_SPACED, r"zip|unzip|zipcloak|sqlcmd|bcp|ipmitool|mosquitto_\w+|tsql"),
          (_ATTACHED, r"sqlcmd|bcp|tsql")),
    "w": ((_SPACED, r"ldap\w+|add-(?:generic|internet)-password|iwconfig"),
          (_ATTACHED, r"ldap\w+")),
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
}  # fmt: skip
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


def commands(text: str, lowered: str) -> Iterable[Span]:
    """Passwords in arguments of well-known commands: `curl -u user:…`, `mysql -p…`."""
    if "-" not in lowered:
        return ()
    places = _dashes(text)
    found: Iterable[Span] = _options(text, places) if places else ()
    piped = "|" in lowered and any(map(lowered.__contains__, _PIPED))
    if piped or "convertto-securestring" in lowered:
        return merged(found, _others(text))
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
