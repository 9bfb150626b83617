"""Secrets that a form of text gives away: URLs, HTTP headers, key blocks, markup, SQL, commands.

Each finder gives the spans to mask, from left to right, and first looks for a word without which
its form cannot stand there: in `lowered`, the text in small letters, which is quicker to search.
What stands around a secret stays. All patterns are bounded: a hostile megabyte costs what any
megabyte costs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memplane.intake.marks import Span
from memplane.intake.pairs import looks_secret, secret_key
from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["bearers", "commands", "json_keys", "markup", "private_keys", "sql", "urls"]

_URL: Final = regex(
    r"""://[^\s/?#:"'`<>\[\]{}]{0,128}:(?P<value>[^\s/?#@"'`<>\[\]{}$%*][^\s/?#@"'`<>\[\]{}]{0,1023})@"""
    r"""(?=[A-Za-z0-9\[])"""
)
_QUERY: Final = regex(
    r"""[?&](?:[a-z]{1,8}[_-]){0,3}(?:key|sig|signature|password|secret|token)="""
    r"""(?P<value>(?=[^&\s]{0,200}[0-9])[A-Za-z0-9_~.%+/-]{24,1024}={0,2})(?![A-Za-z0-9_])""",
    re.IGNORECASE,
)


def urls(text: str, lowered: str) -> Iterable[Span]:
    """Passwords in URLs, `postgres://user:…@host/db`, and keys in queries, `?key=…`."""
    if ("@" not in lowered and "=" not in lowered) or "://" not in lowered:
        return ()
    found = [match.span("value") for match in _URL.finditer(text)] if "@" in lowered else []
    if "=" in lowered:
        found += [m.span("value") for m in _QUERY.finditer(text) if "[redacted:" not in m.group()]
    return sorted(found)


_BEARER: Final = regex(
    r"""\bbearer[ \t]{1,4}(?P<bearer>[A-Za-z0-9._~+/=-]{16,})"""
    r"""|\bauthorization\\?["']?[ \t]{0,4}[:=][ \t]{0,4}\\?["']?"""
    r"""(?:basic|token|apikey|negotiate|ntlm)[ \t]{1,4}(?P<other>[A-Za-z0-9._~+/=-]{8,})""",
    re.IGNORECASE,
)


def bearers(text: str, lowered: str) -> Iterable[Span]:
    """Credentials of an HTTP header: `Bearer …`, `Authorization: Basic …`."""
    if "bearer" in lowered or "authorization" in lowered:
        return _bearers(text)
    return ()


def _bearers(text: str) -> Iterator[Span]:
    for match in _BEARER.finditer(text):
        name = "bearer" if match["bearer"] is not None else "other"
        # Prose about bearer tokens has long words, but no digits in them.
        if any(map(str.isdigit, match[name])) or name == "other":
            yield match.span(name)


_PEM_BEGIN: Final = regex(r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = regex(r"-----END [A-Z0-9 ]{0,60}-----|KEY(?: BLOCK)?-----")
_PEM_BODY: Final = regex(r"[A-Za-z0-9+/=]{20}")
_PEM_MOST: Final = 65_536
# A block without an end: every line that could still belong to it, a log's prefix before each. It
# never passes another block's beginning but on a line of base64, which is masked: so no character
# is looked at for more than one block.
_PEM_LINES: Final = regex(
    r"(?:(?:\s|\\[nr])*+(?:[A-Za-z0-9+/=]{16,}+"
    r"|(?:Proc-Type|DEK-Info):(?:(?!-----BEGIN)[^\n]){0,80}"
    r"|[^\n]{1,40}[ \t|>\"'][A-Za-z0-9+/=]{40,}+(?=[\s\"'\\]|\Z)))*+"
    r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{1,15}\Z)?"
)


def private_keys(text: str, lowered: str) -> Iterable[Span]:
    """PEM blocks over any number of lines: cut off, with escaped line ends, in lines of a log."""
    return _private_keys(text) if "-----" in lowered and "private key" in lowered else ()


def _private_keys(text: str) -> Iterator[Span]:
    last = 0
    for begin in _PEM_BEGIN.finditer(text):
        start, body = begin.span()
        if start < last:
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
            if _PEM_BODY.search(lines.group()):
                last = lines.end()
                yield start, last


_JWK: Final = regex(
    r"""\\?["'](?:d|p|q|dp|dq|qi|k)\\?["'][ \t]{0,4}:[ \t]{0,4}\\?["']"""
    r"""(?P<value>[A-Za-z0-9_-]{20,})"""
)


def json_keys(text: str, lowered: str) -> Iterable[Span]:
    """The private parts of JSON web keys: `{"kty": "EC", "d": "…"}`."""
    if "kty" in lowered and ('"kty' in text or "'kty" in text or 'kty\\"' in text):
        return [match.span("value") for match in _JWK.finditer(text)]
    return ()


_ELEMENT: Final = regex(
    r"<(?P<key>[A-Za-z][\w:.-]{2,60})(?:\s[^<>\n]{0,200})?>(?P<value>[^<>\s]{6,1024})</(?P=key)>"
)
# A name and its value side by side: XML attributes, lists of variables in YAML and JSON.
_NAMED: Final = regex(
    r"""[nkNK](?<!\w[nkNK])(?:(?<=[nN])ame|(?<=[kK])ey)\\?["']?[ \t]{0,4}[:=][ \t]{0,4}\\?["']?"""
    r"""(?P<key>[A-Za-z][\w.-]{2,60})\\?["']?(?:,|\\[nrt]|\s){1,40}"""
    r"""\\?["']?(?:value|Value)\\?["']?[ \t]{0,4}[:=][ \t]{0,4}"""
    r"""(?:\\?(?P<quote>["'])(?P<quoted>(?:(?!(?P=quote))[^\n\\]){6,1024})(?:\\?(?P=quote))"""
    r"""|(?P<value>[^\s"'\\,;{}<>&$]{6,1024}))"""
)


def markup(text: str, lowered: str) -> Iterable[Span]:
    """Values beside the name of a secret: `<password>…</password>`, `name: … value: …`."""
    named = "value" in lowered and ("name" in lowered or "key" in lowered)
    if not named and "<" not in lowered:
        return ()
    found: list[Span] = []
    if "</" in lowered:
        found += [
            match.span("value")
            for match in _ELEMENT.finditer(text)
            if secret_key(match["key"]) and looks_secret(match["value"])
        ]
    if named:
        for match in _NAMED.finditer(text):
            name = "value" if match["value"] is not None else "quoted"
            if secret_key(match["key"]) and looks_secret(match[name]):
                found.append(match.span(name))
    return sorted(found)


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


_COMMAND: Final = regex(
    r"""\b(?:"""
    r"""curl\b[^\n]{0,400}?[ \t](?:-u|--user|--proxy-user|-U)[ \t=]{0,2}\\?["']?[^\s:"'`]{1,80}:"""
    r"""(?P<user>[^\s"'`\\]{3,256})"""
    r"""|(?:mysql(?:dump|admin)?|mariadb(?:-dump|-admin)?)\b[^\n|;&]{0,200}?[ \t]-p\\?["']?"""
    r"""(?P<attached>[^\s"'`\\]{4,256})"""
    r"""|sshpass[ \t]{1,4}-p[ \t]{0,4}\\?["']?(?P<sshpass>[^\s"'`\\]{4,256})"""
    r"""|redis-cli\b[^\n|;&]{0,200}?[ \t](?:-a|--pass)[ \t]{1,4}\\?["']?"""
    r"""(?P<redis>[^\s"'`\\]{4,256})"""
    r"""|convertto-securestring(?:[ \t]{1,4}-(?:string|force|asplaintext)){0,3}[ \t]{1,4}\\?["']?"""
    r"""(?P<secure>[^\s"'`\\-][^\s"'`\\]{5,256})"""
    r""")""",
    re.IGNORECASE,
)
_COMMANDS: Final = ("curl", "mysql", "mariadb", "sshpass", "redis-cli", "convertto-securestring")


def commands(text: str, lowered: str) -> Iterable[Span]:
    """Passwords in arguments of well-known commands: `curl -u user:…`, `mysql -p…`."""
    # All but the last take theirs as an option, and most texts have none.
    if "-" not in lowered or not (
        " -" in lowered or ("\t" in lowered and "\t-" in lowered) or _COMMANDS[-1] in lowered
    ):
        return ()
    return _commands(text) if any(map(lowered.__contains__, _COMMANDS)) else ()


def _commands(text: str) -> Iterator[Span]:
    for match in _COMMAND.finditer(text):
        assert match.lastgroup is not None
        value = match[match.lastgroup]
        # `$PASSWORD`, `<password>`: what stands there is no secret yet.
        if value[0] not in "$<{%" and "[redacted:" not in value:
            yield match.span(match.lastgroup)
