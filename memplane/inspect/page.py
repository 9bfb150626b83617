"""A page as bytes: its data as inert JSON, its styles and script inline, allowed by their hash.

The Content-Security-Policy of the page names the SHA-256 of the one style sheet and the one script
(CSP level 3, hash sources) and forbids every other source, so that a text which became markup could
load and run nothing. Texts do not become markup: they stand in a block of JSON that no browser
runs, with `<`, `>` and `&` escaped, and the script puts them on the page as text alone.

The page on loopback: it follows the log, and forgets, takes back and pins when it is asked to.

A page of a browser that shows other sites is reached by those sites as well: by a name that they
rebind to 127.0.0.1 (DNS rebinding), by requests across sites, by guesses of the address. So every
request must name this server in `Host` (421), have the token of this run in its path (404), and
come from no other site by `Origin` and `Sec-Fetch-Site` (403). Nothing allows another origin to
read an answer (no CORS). What changes the log is POST, says its origin, and is confirmed: the first
request is answered by a question and a word that is good once, for this action and event.

The data of a page: its views, composed from what the plane says to one channel.

Everything comes from faces that suppress before they answer (`pack`, `history`, `decisions`,
`sessions`, `tasks`, `files`, saved reports), or from the log by way of `Visible`. The same log,
policies, reports and clock give the same data.

Of the plane itself two views tell: what was kept out, and how it is. They hold counts alone where
texts would give away what was taken out: rules, reasons, bytes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import secrets
import stat
import sys
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from memplane import nofollow
from memplane.errors import InputError, MemplaneError, NotFoundError, PolicyError, WriteError
from memplane.home import VERSION
from memplane.inspect.views import (
    Found,
    Visible,
    block_view,
    cut_to,
    files_view,
    left_out_view,
    pack_shown,
    prefix_view,
    read_events,
    sessions_view,
    tasks_view,
    timeline_view,
    values_view,
)
from memplane.intake.check import time_bound
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple, regex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.plane import Plane, Receipt
    from memplane.ports import Line, Progress
    from memplane.upkeep.doctor import Check
    from memplane.upkeep.reports import Saved


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


HOST: Final = "127.0.0.1"
BODY_BYTES_MAX: Final = 4_096
TIMEOUT_SECONDS: Final = 10
POLL_SECONDS: Final = 2
CONFIRMATIONS_MAX: Final = 64
ACTIONS: Final = {
    "forget": "Forget this? It is in no block, search or list then; the log keeps it.",
    "unforget": "Take back that this was forgotten?",
    "pin": "Pin this? It stands before others from the next session on.",
}
_DONE: Final = {"forget": "Forgotten", "unforget": "Taken back", "pin": "Pinned"}
_TOKEN_BYTES: Final = 24


class RefusedRequest(Exception):  # noqa: N818 - an answer, not a fault
    """A request that is answered by a status and a sentence alone."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class HttpAnswer(NamedTuple):
    """What a request is answered with."""

    body: bytes
    kind: str = "application/json"


class LiveServer:
    """Serves one plane's page on a free port of loopback, to who has its `url`.

    A context manager; `serve` answers until it is interrupted or `stop` is called.
    """

    def __init__(self, plane: Plane, asked: PageRequest) -> None:
        self._plane, self._asked = plane, asked
        self._lock = Lock()  # one request at a time composes or acts
        self._page: tuple[str, bytes] = ("", b"")
        self._confirmed: dict[str, tuple[str, str]] = {}
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._http = _Http((HOST, 0), _handler(self))
        self.port: int = self._http.server_address[1]

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def serve(self) -> None:
        """HttpAnswer requests."""
        self._http.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._http.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.server_close()

    # --- what is answered ---

    def version(self) -> str:
        """What changes with the log: where it ends."""
        head = self._plane.head()
        return f"{head.seq}-{head.h}"

    def page(self) -> HttpAnswer:
        """The page as of now; the same one while nothing was recorded."""
        with self._lock:
            version = self.version()
            if self._page[0] != version:
                live = {
                    "version": version,
                    "seconds": POLL_SECONDS,
                    "actions": not self._plane.read_only,
                }
                data = compose(self._plane, self._asked)
                self._page = version, document(data, live=live)
            return HttpAnswer(self._page[1], "text/html; charset=utf-8")

    def act(self, asked: Any) -> HttpAnswer:
        """Ask for a confirmation, or do what was confirmed. Raises RefusedRequest."""
        if not isinstance(asked, dict) or set(asked) - {"action", "id", "confirm"}:
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, "expected action, id and confirm")
        action, id_, confirm = (asked.get(name) for name in ("action", "id", "confirm"))
        if not isinstance(action, str) or action not in ACTIONS or not isinstance(id_, str):
            raise RefusedRequest(
                HTTPStatus.BAD_REQUEST, f"expected one of {', '.join(ACTIONS)} and an id"
            )
        with self._lock:
            if confirm is None:
                self._check_shown(action, id_)
                return _json({"confirm": self._word(action, id_), "question": ACTIONS[action]})
            if not isinstance(confirm, str) or self._confirmed.pop(confirm, None) != (action, id_):
                raise RefusedRequest(
                    HTTPStatus.CONFLICT, "that was not confirmed, or was done already"
                )
            try:
                receipt = self._do(action, id_)
            except MemplaneError as error:
                raise RefusedRequest(HTTPStatus.CONFLICT, str(error)) from None
            return _json({"done": f"{_DONE[action]}: event {receipt.seq}", "seq": receipt.seq})

    def _word(self, action: str, id_: str) -> str:
        """A word that confirms one action once; the oldest of many is forgotten."""
        word = secrets.token_urlsafe(_TOKEN_BYTES)
        self._confirmed[word] = (action, id_)
        while len(self._confirmed) > CONFIRMATIONS_MAX:
            del self._confirmed[next(iter(self._confirmed))]
        return word

    def _check_shown(self, action: str, id_: str) -> None:
        """Refuse an event that is not on the page; one that was forgotten may be taken back."""
        given = self._asked.report
        channel = self._asked.channel if given is None else given.report["channel"]
        shown = Visible(self._plane, channel).named(id_) is not None
        if not shown and action == "unforget":
            try:
                self._plane.event(id_, channel=channel)
            except MemplaneError:
                pass
            else:
                shown = True
        if not shown:
            raise RefusedRequest(HTTPStatus.NOT_FOUND, "no such event on this page")

    def _do(self, action: str, id_: str) -> Receipt:
        reason = "on the live page"
        if action == "pin":
            return self._plane.pin(id_)
        act = self._plane.forget if action == "forget" else self._plane.unforget
        return act(id=id_, reason=reason)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = 16

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing for a client that went away; what else failed is printed as always."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _handler(server: LiveServer) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"live": server})


class _Handler(BaseHTTPRequestHandler):
    """One request: checked, then answered."""

    live: ClassVar[LiveServer]
    protocol_version = "HTTP/1.1"
    server_version = f"memplane/{VERSION}"
    sys_version = ""
    timeout = TIMEOUT_SECONDS

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_HEAD(self) -> None:
        self._answered(self._get)

    def do_POST(self) -> None:
        self._answered(self._post)

    def _get(self, name: str) -> HttpAnswer:
        if name == "":
            return self.live.page()
        if name == "version":
            return _json({"version": self.live.version()})
        raise RefusedRequest(HTTPStatus.NOT_FOUND, "no such page")

    def _post(self, name: str) -> HttpAnswer:
        if name != "act":
            raise RefusedRequest(HTTPStatus.NOT_FOUND, "no such page")
        if self.headers.get("Origin") is None:
            raise RefusedRequest(HTTPStatus.FORBIDDEN, "expected an Origin")
        if self.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise RefusedRequest(HTTPStatus.FORBIDDEN, "from another site")
        if self.headers.get_content_type() != "application/json":
            raise RefusedRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        try:
            return self.live.act(json.loads(self._body()))
        except (ValueError, RecursionError):
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, "expected JSON") from None

    def _body(self) -> bytes:
        given = self.headers.get("Content-Length", "")
        if not given.isdecimal() or "Transfer-Encoding" in self.headers:
            raise RefusedRequest(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if len(given) > 9 or int(given) > BODY_BYTES_MAX:
            raise RefusedRequest(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected {BODY_BYTES_MAX} bytes at most"
            )
        return self.rfile.read(int(given))

    def _answered(self, answer: Any) -> None:
        if self.command != "POST" and self.headers.get("Content-Length") is not None:
            self.close_connection = True  # a body that nobody reads is no second request
        try:
            self._check()
            found = answer(self._name())
            self._send(HTTPStatus.OK, found)
        except RefusedRequest as refused:
            self.close_connection = True  # its body may not have been read
            self._send(refused.status, _json({"error": refused.words}))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        except MemplaneError as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, _json({"error": str(error)}))

    def _check(self) -> None:
        """Refuse what does not name this server, or comes from another site."""
        hosts = {f"{name}:{self.live.port}" for name in (HOST, "localhost")}
        named = self.headers.get_all("Host") or []
        if len(named) != 1 or named[0].lower() not in hosts:
            raise RefusedRequest(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        origins = self.headers.get_all("Origin") or []
        if any(one != f"http://{named[0].lower()}" for one in origins):
            raise RefusedRequest(HTTPStatus.FORBIDDEN, "from another origin")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise RefusedRequest(HTTPStatus.FORBIDDEN, "from another site")

    def _name(self) -> str:
        """What of the page is asked for; refuses a path without the token."""
        path = self.path.partition("?")[0]
        _, token, *rest = [*path.split("/"), ""]
        if not secrets.compare_digest(token.encode(), self.live.token.encode()):
            raise RefusedRequest(HTTPStatus.NOT_FOUND, "no such page")
        return "/".join(rest).rstrip("/")

    def _send(self, status: HTTPStatus, answer: HttpAnswer) -> None:
        self.send_response(status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        rules = content_policy(part("page.css"), part("page.js"), live=True)
        self.send_header("Content-Security-Policy", f"{rules}; frame-ancestors 'none'")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nothing: a line a request would print the token."""


def _json(value: Any) -> HttpAnswer:
    return HttpAnswer(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


DEFAULT_CHANNEL = "agent"


class PageRequest(NamedTuple):
    """What a page is to show.

    `report`: the pack of this report, and what its channel saw; else the newest pack of `channel`.
    `session` and `since` narrow the timeline and choose the pack. `checks` are those of `doctor`.
    """

    channel: str = DEFAULT_CHANNEL
    session: str | None = None
    since: str | None = None
    report: Saved | None = None
    checks: Sequence[Check] = ()


def compose(plane: Plane, asked: PageRequest, progress: Progress | None = None) -> dict[str, Any]:
    """The data of the page, as JSON values. Reads only.

    `progress` is called with thousandths done and a thousand.

    Raises InputError for an unknown channel or time, NotFoundError for a session without an event
    that may be shown, and PolicyError.
    """
    given = asked.report
    channel = asked.channel if given is None else given.report["channel"]
    since = None if asked.since is None else time_bound(asked.since, where="--since")
    visible = Visible(plane, channel)
    session = asked.session
    if session is None and given is not None:
        session = given.report["request"].get("session")
    sessions = plane.work.sessions.list(channel=channel)
    found = read_events(visible, asked.session, since, _part(progress, 0, 300))
    if asked.session is not None and not found.events:
        raise NotFoundError(
            f"no event of session {quoted_value(asked.session, 160)} for channel {channel}"
        )
    titles = {one.id: one.title for one in sessions if one.title}
    views, notices = _pack_views(visible, given, session, _part(progress, 300, 500))
    views += [
        timeline_view(visible, found, titles),
        values_view(visible, found, _part(progress, 800, 200)),
        sessions_view(visible, sessions),
        tasks_view(visible),
        files_view(visible, session),
    ]
    kinds = Counter(event.kind for event in found.events)
    health = health_view(visible, asked.checks, dict(kinds))
    views += [privacy_view(visible, found), health]
    if found.more or found.begin:
        notices.append(
            f"The timeline has the newest {len(found.events):,} events; older ones are in the log: "
            "memplane log, memplane search."
        )
    return {
        "title": f"memplane: {channel} view of {plane.id}",
        "facts": _facts(visible, asked, len(sessions)),
        "private": visible.private,
        "notices": notices,
        "views": views,
    }


def _part(progress: Progress | None, begin: int, share: int) -> Progress | None:
    """A progress for one part of the work, in thousandths of all of it."""
    if progress is None:
        return None
    return lambda done, total: progress(begin + share * done // max(1, total), 1_000)


def _pack_views(
    visible: Visible, given: Saved | None, session: str | None, progress: Progress | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The views of a pack; a pack that cannot be made leaves a notice."""
    try:
        shown = pack_shown(visible, given, session, progress)
    except MemplaneError as error:
        return [], [f"There is no block: {visible.text(str(error))}"]
    views = [block_view(visible, shown), left_out_view(visible, shown)]
    prefix = prefix_view(visible, shown)
    return views + ([] if prefix is None else [prefix]), []


def _facts(visible: Visible, asked: PageRequest, sessions: int) -> dict[str, Any]:
    plane = visible.plane
    return {
        "plane": plane.id,
        "home": str(plane.home.absolute()) if visible.private else "",
        "channel": visible.channel,
        "now": visible.now[:19],
        "seq": plane.head().seq,
        "sessions": sessions,
        "session": asked.session,
        "since": asked.since,
        "report": None if asked.report is None else asked.report.id,
    }


# Points of the curve of growth: each is one look at a line of the log.
GROWTH_POINTS: Final = 48
VALUES_MAX: Final = 1_500
_VALUE_CHARS: Final = 300
_PARTS: Final = ("log", "bodies", "projections", "index", "reports")
# Of these files the owner alone is shown values: they list what must not be read.
_PRIVATE_FILES: Final = ("privacy.yaml",)


def privacy_view(visible: Visible, found: Found) -> dict[str, Any]:
    """Secrets that were masked, by rule; events that stay out, by reason; what was purged."""
    return {
        "id": "privacy",
        "label": "Redaction",
        "masked": list(found.masked.items()),
        "withheld": list(visible.withheld.items()),
        "purges": found.purges,
        "purged": found.purged,
        "begin": found.begin,
    }


def health_view(visible: Visible, checks: Sequence[Check], kinds: dict[str, int]) -> dict[str, Any]:
    """Sizes, growth, the state of log, projections and index, and the policy in force.

    `checks` are those of `memplane doctor`; their words name places, so they are for the owner.
    """
    plane = visible.plane
    head = plane.head()
    return {
        "id": "health",
        "label": "Health",
        "seq": head.seq,
        "segments": head.segment,
        "chain": head.h,
        "waiting": plane.upkeep.waiting,
        "read_only": plane.read_only,
        "gaps": [
            {"segment": gap.segment, "first": gap.first, "last": gap.last}
            for gap in plane.context.log.gaps()
        ],
        "sizes": [[name, folder_bytes(plane.home / name)] for name in _PARTS],
        "kinds": sorted(kinds.items(), key=lambda one: (-one[1], one[0])),
        "growth": _growth(visible, head.seq),
        "checks": [
            {
                "name": check.name,
                "status": check.status,
                "found": visible.text(check.found) if visible.private else "",
                "remedy": visible.text(check.remedy) if visible.private else "",
            }
            for check in checks
        ],
        "policies": _policies(visible),
    }


def _growth(visible: Visible, head: int) -> list[list[Any]]:
    """When the log had how many lines: points spread evenly over its seqs."""
    log = visible.plane.context.log
    wanted = sorted({1 + at * (head - 1) // (GROWTH_POINTS - 1) for at in range(GROWTH_POINTS)})
    lines: list[Line | None] = [log.line(seq) for seq in wanted if 0 < seq <= head]
    return [[line.event.rec[:19], line.event.seq] for line in lines if line is not None]


def _policies(visible: Visible) -> list[dict[str, Any]]:
    """Every value in force with its origin; of what lists secrets the values are the owner's."""
    rows: list[dict[str, Any]] = []
    with suppress(PolicyError):
        for one in visible.plane.upkeep.policy_values()[:VALUES_MAX]:
            told = visible.private or one.file not in _PRIVATE_FILES
            value = visible.text(repr(one.value), _VALUE_CHARS) if told else "\u2026"
            origin = one.origin if one.line is None else f"line {one.line}"
            rows.append(
                {
                    "file": one.file,
                    "key": cut_to(one.key, 200),
                    "value": value,
                    "origin": one.variable or origin,
                    "own": one.origin != "default",
                }
            )
    return rows


def folder_bytes(folder: Path) -> int:
    """The bytes of the files in a folder and below it."""
    total = 0
    for path in nofollow.walk_files(folder):
        with suppress(OSError):
            total += Path(path).lstat().st_size
    return total
