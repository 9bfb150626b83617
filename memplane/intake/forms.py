"""Secrets that a form of text gives away: URLs, HTTP headers, key blocks, markup, SQL, commands.

Each finder yields the spans to mask, from left to right, and first looks for a word without which
its form cannot stand there. What stands around a secret stays. All patterns are bounded: a hostile
megabyte costs what any megabyte costs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memplane.intake.marks import Span
from memplane.intake.pairs import looks_secret, secret_key

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bearers", "commands", "json_keys", "markup", "private_keys", "sql", "urls"]

_URL: Final = re.compile(
    r"""://[^\s/?#:"'`<>\[\]{}]{0,128}:(?P<value>[^\s/?#@"'`<>\[\]{}$%*][^\s/?#@"'`<>\[\]{}]{0,1023})@"""
    r"""(?=[A-Za-z0-9\[])"""
)
_QUERY: Final = re.compile(
    r"""[?&](?:[a-z]{1,8}[_-]){0,3}(?:key|sig|signature|password|secret|token)="""
    r"""(?P<value>(?=[^&\s]{0,200}[0-9])[A-Za-z0-9_~.%+/-]{24,1024}={0,2})(?![A-Za-z0-9_])""",
    re.IGNORECASE,
)


def urls(text: str, _: str) -> Iterator[Span]:
    """Passwords in URLs, `postgres://user:…@host/db`, and keys in queries, `?key=…`."""
    if "://" not in text:
        return
    found = [match.span("value") for match in _URL.finditer(text)] if "@" in text else []
    if "=" in text:
        found += [m.span("value") for m in _QUERY.finditer(text) if "[redacted:" not in m.group()]
    yield from sorted(found)


_BEARER: Final = re.compile(
    r"""\bbearer[ \t]{1,4}(?P<bearer>[A-Za-z0-9._~+/=-]{16,})"""
    r"""|\bauthorization\\?["']?[ \t]{0,4}[:=][ \t]{0,4}\\?["']?"""
    r"""(?:basic|token|apikey|negotiate|ntlm)[ \t]{1,4}(?P<other>[A-Za-z0-9._~+/=-]{8,})""",
    re.IGNORECASE,
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


_PEM_BEGIN: Final = re.compile(r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,60}-----|KEY(?: BLOCK)?-----")
_PEM_BODY: Final = re.compile(r"[A-Za-z0-9+/=]{20}")
_PEM_MOST: Final = 65_536
# A block without an end: every line that could still belong to it, a log's prefix before each.
_PEM_LINES: Final = re.compile(
    r"(?:(?:\s|\\[nr])*+(?:[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info):[^\n]{0,80}"
    r"|[^\n]{1,40}[ \t|>\"'][A-Za-z0-9+/=]{40,}+(?=[\s\"'\\]|\Z)))*+"
    r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{1,15}\Z)?"
)


def private_keys(text: str, _: str) -> Iterator[Span]:
    """PEM blocks over any number of lines: cut off, with escaped line ends, in lines of a log."""
    if "PRIVATE KEY" not in text:
        return
    for begin in _PEM_BEGIN.finditer(text):
        start, body = begin.span()
        # What opens next ends the search: two blocks are two.
        mark = text.find("-----", body, body + _PEM_MOST)
        end = _PEM_END.search(text, max(body, mark - 10), mark + 80) if mark >= 0 else None
        if end is not None and "BEGIN" not in text[mark : mark + 10]:
            if _PEM_BODY.search(text, body, end.start()) or 64 <= end.start() - body <= 4096:
                yield start, end.end()
        else:
            lines = _PEM_LINES.match(text, body)
            assert lines is not None
            if _PEM_BODY.search(lines.group()):
                yield start, lines.end()


_JWK: Final = re.compile(
    r"""\\?["'](?:d|p|q|dp|dq|qi|k)\\?["'][ \t]{0,4}:[ \t]{0,4}\\?["']"""
    r"""(?P<value>[A-Za-z0-9_-]{20,})"""
)


def json_keys(text: str, _: str) -> Iterator[Span]:
    """The private parts of JSON web keys: `{"kty": "EC", "d": "…"}`."""
    if '"kty' in text or "'kty" in text or 'kty\\"' in text:
        for match in _JWK.finditer(text):
            yield match.span("value")


_ELEMENT: Final = re.compile(
    r"<(?P<key>[A-Za-z][\w:.-]{2,60})(?:\s[^<>\n]{0,200})?>(?P<value>[^<>\s]{6,1024})</(?P=key)>"
)
# A name and its value side by side: XML attributes, lists of variables in YAML and JSON.
_NAMED: Final = re.compile(
    r"""\b(?:name|key|Name|Key)\\?["']?[ \t]{0,4}[:=][ \t]{0,4}\\?["']?"""
    r"""(?P<key>[A-Za-z][\w.-]{2,60})\\?["']?(?:,|\\[nrt]|\s){1,40}"""
    r"""\\?["']?(?:value|Value)\\?["']?[ \t]{0,4}[:=][ \t]{0,4}"""
    r"""(?:\\?(?P<quote>["'])(?P<quoted>(?:(?!(?P=quote))[^\n\\]){6,1024})(?:\\?(?P=quote))"""
    r"""|(?P<value>[^\s"'\\,;{}<>&$]{6,1024}))"""
)


def markup(text: str, lowered: str) -> Iterator[Span]:
    """Values beside the name of a secret: `<password>…</password>`, `name: … value: …`."""
    found: list[Span] = []
    if "</" in text:
        found += [
            match.span("value")
            for match in _ELEMENT.finditer(text)
            if secret_key(match["key"]) and looks_secret(match["value"])
        ]
    if "value" in lowered and ("name" in lowered or "key" in lowered):
        for match in _NAMED.finditer(text):
            name = "value" if match["value"] is not None else "quoted"
            if secret_key(match["key"]) and looks_secret(match[name]):
                found.append(match.span(name))
    yield from sorted(found)


_SQL: Final = re.compile(
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


def sql(text: str, lowered: str) -> Iterator[Span]:
    """Passwords in SQL: `IDENTIFIED BY '…'`, `CREATE ROLE x LOGIN PASSWORD …`."""
    if "identified" not in lowered and "password" not in lowered:
        return
    statement = any(map(lowered.__contains__, _STATEMENTS))
    for match in _SQL.finditer(text) if statement or "identified" in lowered else ():
        name = next(name for name in ("quoted", "value", "bare") if match[name] is not None)
        value = match[name]
        # Prose identifies by many things; what has a digit, or stands in a statement, is chosen.
        chosen = any(map(str.isdigit, value)) or (name == "quoted" and statement)
        if chosen and looks_secret(value):
            yield match.span(name)


_COMMAND: Final = re.compile(
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


def commands(text: str, lowered: str) -> Iterator[Span]:
    """Passwords in arguments of well-known commands: `curl -u user:…`, `mysql -p…`."""
    if not any(map(lowered.__contains__, _COMMANDS)):
        return
    for match in _COMMAND.finditer(text):
        assert match.lastgroup is not None
        value = match[match.lastgroup]
        # `$PASSWORD`, `<password>`: what stands there is no secret yet.
        if value[0] not in "$<{%" and "[redacted:" not in value:
            yield match.span(match.lastgroup)
