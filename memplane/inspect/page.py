"""A page as bytes: its data as inert JSON, its styles and script inline, allowed by their hash.

The Content-Security-Policy of the page names the SHA-256 of the one style sheet and the one script
(CSP level 3, hash sources) and forbids every other source, so that a text which became markup could
load and run nothing. Texts do not become markup: they stand in a block of JSON that no browser
runs, with `<`, `>` and `&` escaped, and the script puts them on the page as text alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import InputError, WriteError
from memplane.home import VERSION
from memplane.intake.redact import quoted_value
from memplane.lazy import regex

if TYPE_CHECKING:
    from collections.abc import Mapping

FORM: Final = 1  # of the data in a page
# A file that begins so is a page of memplane, and may be written over.
OPENING: Final = b"<!doctype html>\n<!-- a page of memplane -->\n"
_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
# Separators that end a line of script, and what overrides the direction of the text around it.
_ACTIVE: Final = regex(r"[<>&\u0085\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_SURROGATE: Final = regex(r"[\ud800-\udfff]")
_TITLE_CHARS: Final = 200


def inert_json(value: Any) -> str:
    """JSON that may stand in a script element: it ends no element and reorders no text.

    Controls of direction and separators of lines become U+FFFD, and so do halves of characters.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = _ACTIVE.sub(lambda found: _ESCAPES.get(found.group(), "\ufffd"), text)
    return _SURROGATE.sub("\ufffd", text)


def part(name: str) -> str:
    """The text of a file of this package: `page.css` or `page.js`."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def hash_source(text: str) -> str:
    """The source expression of CSP that allows an inline text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def content_policy(style: str, script: str, *, live: bool) -> str:
    """The Content-Security-Policy of a page; a live one may ask its own server."""
    rules = [
        "default-src 'none'",
        f"script-src {hash_source(script)}",
        f"style-src {hash_source(style)}",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    if live:
        rules.append("connect-src 'self'")
    return "; ".join(rules)


def document(data: Mapping[str, Any], *, live: Mapping[str, Any] | None = None) -> bytes:
    """The page of some data, as `compose` or `figures` makes it: the same bytes for the same data.

    `live`: what a page on a server needs to follow it (`version`, `actions`).
    """
    style, script = part("page.css"), part("page.js")
    whole = {"form": FORM, "memplane": VERSION, **data}
    if live is not None:
        whole["live"] = dict(live)
    title = html.escape(_SURROGATE.sub("\ufffd", str(data["title"])[:_TITLE_CHARS]))
    rules = html.escape(content_policy(style, script, live=live is not None), quote=True)
    rest = f"""\
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{rules}">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="memplane {VERSION}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="page"></div>
<noscript>This page is drawn by the script inside it, which this browser does not run.</noscript>
<script type="application/json" id="data">{inert_json(whole)}</script>
<script>{script}</script>
</body>
</html>
"""
    return OPENING + rest.encode()


def write_page(
    path: str | os.PathLike[str], data: bytes, *, replace: bool = False, where: str = "--out"
) -> Path:
    """Write a page for the owner alone (0600), whole or not at all; returns its absolute path.

    An older page of memplane by that name is replaced; any other file only with `replace`, and
    what is no file, or a link, never. Raises InputError, which names `where`, and WriteError.
    """
    target = Path(path).absolute()
    _refuse_other(target, where, replace=replace)
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        descriptor = nofollow.create_draft(draft)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            nofollow.rename_name(draft, target)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        words = f"{quoted_value(str(target), 300)} cannot be written: {error.strerror}"
        raise WriteError(words) from error
    return target


def _refuse_other(target: Path, where: str, *, replace: bool) -> None:
    """Raise InputError where something lies there that a page may not take the place of."""
    shown = quoted_value(str(target), 300)
    try:
        found = target.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{shown}: {error.strerror}", where=where) from error
    if not stat.S_ISREG(found.st_mode):
        what = nofollow.kind_of(found.st_mode)
        raise InputError(f"{shown} is {what}, not a file; name another", where=where)
    if replace:
        return
    try:
        begins = nofollow.read_bytes(target, len(OPENING))
    except OSError:
        begins = b""
    if begins != OPENING:
        raise InputError(
            f"{shown} is there already and is no page of memplane; name another"
            + (", or give --replace" if where == "--out" else ""),
            where=where,
        )
