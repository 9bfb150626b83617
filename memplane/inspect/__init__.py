"""The memory as a page: one file with its data, styles and script inside, for one channel.

A page needs no server, no network and no framework. `compose` builds its data from what a plane
says anyway (packs, lists, reports, checks), `document` makes the file, and `LiveServer` serves the
same page on loopback. Nothing here writes the log, but for the three actions of a live page.

**The file.** The Content-Security-Policy of the page names the SHA-256 of the one style sheet and
the one script (CSP level 3, hash sources) and forbids every other source, so that a text which
became markup could load and run nothing. Texts do not become markup: they stand in a block of JSON
that no browser runs, with `<`, `>` and `&` escaped, and the script puts them on the page as text
alone.

**On loopback** the page follows the log, and forgets, takes back and pins when it is asked to. A
page of a browser that shows other sites is reached by those sites as well: by a name that they
rebind to 127.0.0.1 (DNS rebinding), by requests across sites, by guesses of the address. So every
request must name this server in `Host` (421), have the token of this run in its path (404), and
come from no other site by `Origin` and `Sec-Fetch-Site` (403). Nothing allows another origin to
read an answer (no CORS). What changes the log is POST, says its origin, and is confirmed: the first
request is answered by a question and a word that is good once, for this action and event.

**The views**: timeline, decisions and values, sessions, tasks, files, packs, health. Each is
bounded by a constant here, and what is left off is counted. Everything comes from faces that
suppress before they answer (`pack`, `history`, `decisions`, `sessions`, `tasks`, `files`, saved
reports), or from the log by way of `Visible`. The same log, policies, reports and clock give the
same data.

Every event passes `EventSelector` (hidden, forgotten and evicted ones stay out, and what remains is
redacted by today's policy) before a view sees it. On any page but the owner's nothing is shown of
what is of sensitivity high or secret, whatever a policy says of the channel. Of the plane itself
two views tell: what was kept out, and how it is. They hold counts alone where texts would give away
what was taken out: rules, reasons, bytes. Of a pack: the block line by line, what was left out,
what repeats the pack before. A saved pack is made again under the policies of then
(`explain.replay`), and shown within what the channel may see now: of an entry that rests on
something forgotten since, only its figures.
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
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from memplane import nofollow
from memplane.errors import InputError, MemplaneError, NotFoundError, PolicyError, WriteError
from memplane.event import TYPED_KINDS, Event, relations_of, source_of
from memplane.explain.replay import Difference, Replay, difference_of, replay_packs, shared_by
from memplane.explain.why import REASON_WORDS
from memplane.home import VERSION
from memplane.intake import time_bound
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple, regex
from memplane.log.segments import erased_by
from memplane.projections.in_force import KEYLESS_KINDS
from memplane.recall.suppress import OWNER
from memplane.upkeep.export import EventSelector, ExportFilter
from memplane.upkeep.reports import Saved, find_report, of_the_past, saved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memplane.context.event_access import KeyVersion
    from memplane.pack.block import Block, Entry
    from memplane.plane import Plane, Receipt
    from memplane.ports import Line, Progress
    from memplane.upkeep.doctor import Check
    from memplane.work.sessions import Session
    from memplane.work.tasks import TaskView


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


_ID_CHARS: Final = 40
_RELATIONS_SHOWN: Final = 4
# Characters of one text in a list; the whole is for `memplane show`.
LINE_CHARS_MAX: Final = 600
# Characters of one entry of a block, which a budget limits already.
ENTRY_CHARS_MAX: Final = 8_000
_NAME_CHARS_MAX: Final = 200
_READ_AHEAD: Final = 4
_RULES: Final = ("privacy.yaml", "channels.yaml")
_NOT_PRIVATE: Final = ("high", "secret")


class Visible:
    """Events and texts of a plane for one channel, at the plane's clock.

    `withheld` counts the events that were asked for and stay out, by reason. Look-ups by id are
    kept: a page names the same event in many places.
    """

    def __init__(self, plane: Plane, channel: str) -> None:
        self.plane, self.channel = plane, channel
        self.now = plane.context.clock()
        self._selector = EventSelector(plane.context, ExportFilter(), channel=channel)
        self._redact = plane.context.redact(plane.upkeep.policies)
        self._known: dict[str, Event | None] = {}
        self._standing: dict[str, bool] = {}
        self._high = 0

    @property
    def private(self) -> bool:
        """Whether the page is for the owner."""
        return self.channel == OWNER

    @property
    def withheld(self) -> dict[str, int]:
        """Events that were looked at and stay out, by reason."""
        found = dict(self._selector.withheld)
        if self._high:
            found["hidden"] = found.get("hidden", 0) + self._high
        return dict(sorted(found.items()))

    def event(self, event: Event) -> Event | None:
        """The event as it may stand on the page; None where it may not."""
        if not self.private and event.sensitivity in _NOT_PRIVATE:
            self._high += 1
            return None
        return self._selector.shown(event)

    def named(self, id_: str) -> Event | None:
        """The same for an id."""
        if id_ not in self._known:
            line = self.plane.context.log.find(id_)
            self._known[id_] = None if line is None else self.event(line.event)
        return self._known[id_]

    def text(self, text: str, most: int = LINE_CHARS_MAX) -> str:
        """A text that names no event, redacted, and cut to `most` characters."""
        begin = text[: most * _READ_AHEAD]
        told = self._redact(begin)
        if len(begin) < len(text):
            told = told[:-most]  # its end may be half of a secret, which no rule finds
        return cut_to(told, most)

    def shows_all(self, ids: Iterator[str]) -> bool:
        """Whether every one of the events may stand on the page."""
        return all(self.named(id_) is not None for id_ in ids)

    def stands(self, kept: Saved | None, source: str = "") -> bool:
        """Whether a line of a pack that names no event may be shown now; None is a pack of now.

        It may where nothing was forgotten or purged since, the rules of who may see what are those
        of then, and, of a view, where the view is still the same.
        """
        if kept is None:
            return True
        if kept.id not in self._standing:
            self._standing[kept.id] = self._same_rules(kept) and not self._forgot_since(kept)
        path, _, sha256 = source.removeprefix("view:").partition("@")
        if source.startswith("view:") and not self._same_view(path, sha256):
            return False
        return self._standing[kept.id]

    def _same_rules(self, kept: Saved) -> bool:
        now, then = self.plane.upkeep.policies.hashes, kept.report["policies"]
        return all(then.get(name) == now.get(name) for name in _RULES)

    def _forgot_since(self, kept: Saved) -> bool:
        context = self.plane.context
        lines = context.log.read(kept.report["log"]["seq"], context.as_of)
        return any(line.event.kind in ("forget", "purge") for line in lines)

    def _same_view(self, path: str, sha256: str) -> bool:
        home = self.plane.home
        try:
            data = nofollow.read_bytes(home / path, home=home)
        except (OSError, ValueError):
            return False
        return hashlib.sha256(data).hexdigest() == sha256


def cut_to(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def source_words(event: Event) -> str:
    """Where a statement is from and how it relates to others, beside who says it; "" for nothing.

    Of the ids of other events the beginnings are named.
    """
    source = source_of(event)
    known = {"through": source.through, "episode": source.episode, "prompt": source.prompt}
    words = [f"{name} {cut_to(one, _ID_CHARS)}" for name, one in known.items() if one is not None]
    words += [] if source.confidence is None else [f"confidence {source.confidence}"]
    related = relations_of(event)
    words += [f"{one.name} {cut_to(one.id, _ID_CHARS)}" for one in related[:_RELATIONS_SHOWN]]
    more = len(related) - _RELATIONS_SHOWN
    return ", ".join([*words, *([f"and {more} others"] if more > 0 else [])])


def speaker_of(event: Event) -> str:
    """Who said it: the role, or who states it, and the tool or actor where there is one."""
    tool = event.data.get("tool") if event.kind in ("tool_call", "tool_result") else None
    who = tool if isinstance(tool, str) else event.actor
    role = (event.said_by if event.kind in TYPED_KINDS else None) or event.role or ""
    words = f"{role} {who}" if who and role and who != role else who or role
    return cut_to(words, _NAME_CHARS_MAX)


def event_fields(event: Event, most: int = LINE_CHARS_MAX) -> dict[str, Any]:
    """What each view says of an event, as JSON values."""
    fields: dict[str, Any] = {
        "seq": event.seq,
        "id": event.id,
        "ts": event.ts[:19],
        "kind": event.kind,
        "who": speaker_of(event),
        "text": cut_to(event.text, most),
        "tokens": event.tokens or 0,
    }
    if event.kind in TYPED_KINDS and (source := source_words(event)):
        fields["source"] = cut_to(source, most)
    if event.key is not None:
        fields |= {"key": event.key, "ns": event.ns}
    return fields


EVENTS_MAX: Final = 10_000
# Lines that are read back from the log's end: for all events, and for those of a session or time.
LINES_READ: Final = 12_000
LINES_READ_MAX: Final = 200_000
KEYS_MAX: Final = 400
VERSIONS_MAX: Final = 40
TASKS_MAX: Final = 200
FILES_MAX: Final = 200
_DIGEST_CHARS: Final = 3_000
_STEPS_MAX: Final = 60
_TOLD_EACH: Final = 500  # lines between two calls of a progress


class Found(NamedTuple):
    """The newest events of the log that may stand on the page, in log order.

    `more` were seen and left off; nothing up to seq `begin` was looked at. `purged` events were
    erased by `purges` of those lines; `masked` counts secrets by rule.
    """

    events: tuple[Event, ...]
    more: int
    begin: int
    purges: int
    purged: int
    masked: dict[str, int]


def read_events(
    visible: Visible, session: str | None, since: str | None, progress: Progress | None = None
) -> Found:
    """Read the newest `EVENTS_MAX` events of a session and time, or of all.

    `progress` is called with lines read and to read.
    """
    log, head = visible.plane.context.log, visible.plane.head().seq
    some = session is not None or since is not None
    begin = max(0, head - (LINES_READ_MAX if some else LINES_READ))
    kept: list[Event] = []
    purges = purged = 0
    masked: dict[str, int] = {}
    for line in log.read(begin, head):
        event = line.event
        if progress is not None and event.seq % _TOLD_EACH == 0:
            progress(event.seq - begin, head - begin)
        if event.kind == "purge":
            purges += 1
            purged += sum(1 for _ in erased_by(event))
        if session not in (None, event.session) or (since is not None and event.ts < since):
            continue
        shown = visible.event(event)
        if shown is not None:
            kept.append(shown)
            for rule, count in _redactions(event):
                masked[rule] = masked.get(rule, 0) + count
    more = max(0, len(kept) - EVENTS_MAX)
    by_count = dict(sorted(masked.items(), key=lambda one: (-one[1], one[0])))
    return Found(tuple(kept[more:]), more, begin, purges, purged, by_count)


def _redactions(event: Event) -> Iterator[tuple[str, int]]:
    rules = event.data.get("redactions")
    if isinstance(rules, dict):
        yield from ((rule, count) for rule, count in rules.items() if type(count) is int)


class _Names:
    """Texts that many rows share, each once: rows have their places."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, name: str | None) -> int:
        """The place of a name, -1 for none."""
        if not name:
            return -1
        at = self._places.setdefault(name, len(self.all))
        if at == len(self.all):
            self.all.append(name)
        return at


def timeline_view(visible: Visible, found: Found, titles: dict[str, str]) -> dict[str, Any]:
    """Events in log order, as columns; `titles` of sessions by their name."""
    names = _Names()
    rows = [
        [
            event.seq,
            event.ts[:19],
            names.place(event.kind),
            names.place(speaker_of(event)),
            names.place(event.session),
            names.place(event.key),
            names.place(event.ns),
            event.tokens or 0,
            event.id,
            cut_to(event.text, 600),
        ]
        for event in found.events
    ]
    return {
        "id": "timeline",
        "label": "Timeline",
        "count": len(rows),
        "columns": ["seq", "ts", "kind", "who", "session", "key", "ns", "tokens", "id", "text"],
        "names": names.all,
        "titles": {name: visible.text(titles[name], 120) for name in names.all if name in titles},
        "rows": rows,
        "more": found.more,
        "begin": found.begin,
    }


def values_view(visible: Visible, found: Found, progress: Progress | None = None) -> dict[str, Any]:
    """Decisions in force, and each key with every value that it had: who replaced what when.

    `progress` is called with keys read and to read.
    """
    channel = visible.channel
    decisions = [visible.event(event) for event in visible.plane.work.decisions(channel=channel)]
    told = [event for event in decisions if event is not None]
    keys = _keys_of((*told, *found.events))
    chains = []
    for at, (ns, key) in enumerate(keys[:KEYS_MAX]):
        if progress is not None:
            progress(at, min(len(keys), KEYS_MAX))
        try:
            versions = visible.plane.history(key, ns, channel=channel)
        except MemplaneError:
            continue
        chain = _chain(visible, versions)
        if chain:
            chains.append({"key": key, "ns": ns, "versions": chain[-VERSIONS_MAX:],
                           "more": max(0, len(chain) - VERSIONS_MAX)})  # fmt: skip
    _mark_contradictions(chains)
    return {
        "id": "values",
        "label": "Values",
        "count": len(chains),
        "decisions": [event_fields(event) for event in told],
        "chains": chains,
        "more": max(0, len(keys) - KEYS_MAX),
        "contradictions": sum(1 for one in chains if one["contradicts"]),
    }


def _keys_of(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Namespace and key of what has one, those that changed last first."""
    newest: dict[tuple[str, str], int] = {}
    for event in events:
        if event.key is not None and event.kind not in KEYLESS_KINDS:
            place = (event.ns, event.key)
            newest[place] = max(event.seq, newest.get(place, 0))
    return sorted(newest, key=lambda place: -newest[place])


def _chain(visible: Visible, versions: list[KeyVersion]) -> list[dict[str, Any]]:
    chain = []
    for one in versions:
        shown = visible.event(one.event) if one.reason not in ("forgotten", "evicted") else None
        if shown is not None:
            chain.append(
                event_fields(shown)
                | {"session": shown.session, "reason": one.reason, "by": one.by_seq}
                | {"supersedes": one.supersedes}
            )
    return chain


def _mark_contradictions(chains: list[dict[str, Any]]) -> None:
    """Name, with each key in force, the namespaces where it has another value in force."""
    holding: dict[str, list[tuple[str, str]]] = {}
    for one in chains:
        one["contradicts"] = []
        for version in one["versions"]:
            if version["reason"] is None:
                holding.setdefault(one["key"], []).append((one["ns"], version["text"]))
    for one in chains:
        held = holding.get(one["key"], [])
        own = {text for ns, text in held if ns == one["ns"]}
        one["contradicts"] = sorted({ns for ns, text in held if own and text not in own})


def sessions_view(visible: Visible, sessions: list[Session]) -> dict[str, Any]:
    """Sessions, the latest first: what each was about, came to and left."""
    return {
        "id": "sessions",
        "label": "Sessions",
        "count": len(sessions),
        "rows": [_session(visible, one) for one in reversed(sessions)],
    }


def _session(visible: Visible, one: Session) -> dict[str, Any]:
    return {
        "id": visible.text(one.id, 200),
        "title": visible.text(one.title, 160),
        "status": one.status,
        "reason": visible.text(one.reason or "", 80),
        "agent": visible.text(one.agent or "", 80),
        "branch": visible.text(one.branch or "", 120),
        "first": one.first[:19],
        "last": one.last[:19],
        "events": sum(one.events.values()),
        "prompts": one.prompts,
        "calls": one.calls,
        "errors": one.errors,
        "decisions": one.decisions,
        "tokens": one.tokens,
        "files": [visible.text(name, 200) for name in one.files[:20]],
        "outcome": visible.text(one.outcome),
        "left": visible.text(one.left),
        "digest": visible.text(one.digest, _DIGEST_CHARS),
    }


def tasks_view(visible: Visible) -> dict[str, Any]:
    """Tasks, open and closed: the plan, how far it is, what is left."""
    tasks = visible.plane.work.tasks.list(all=True, channel=visible.channel)
    return {
        "id": "tasks",
        "label": "Tasks",
        "count": len(tasks),
        "more": max(0, len(tasks) - TASKS_MAX),
        "rows": [_task(visible, one) for one in tasks[:TASKS_MAX]],
    }


def _task(visible: Visible, one: TaskView) -> dict[str, Any]:
    return {
        "id": visible.text(one.id, 200),
        "title": visible.text(one.title, 160),
        "status": one.status,
        "active": one.active,
        "goal": visible.text(one.goal),
        "reason": visible.text(one.reason),
        "plan": [
            {"text": visible.text(step.text, 300), "state": step.state}
            for step in one.plan[:_STEPS_MAX]
        ],
        "decisions": [visible.text(text, 300) for text in one.decisions[:20]],
        "failures": [visible.text(text, 300) for text in one.failures[:20]],
        "files": [visible.text(name, 200) for name in one.files[:20]],
        "opened": one.opened_seq,
        "created": one.created[:19],
        "updated": one.updated[:19],
    }


def files_view(visible: Visible, session: str | None) -> dict[str, Any]:
    """Files that were touched: by which event last, how often, why they are listed."""
    found = visible.plane.work.files(session=session, limit=FILES_MAX, channel=visible.channel)
    rows = []
    for one in found:
        event = visible.named(one.id)
        if event is not None:
            rows.append(
                {
                    "path": visible.text(one.path, 400),
                    "branch": visible.text(one.branch, 120),
                    "touches": one.touches,
                    "score": one.score,
                    "why": list(one.why),
                    "event": event_fields(event, 160),
                }
            )
    return {"id": "files", "label": "Files", "count": len(rows), "rows": rows}


# Saved reports that are read for the newest of a channel and for the row of its session.
REPORTS_READ_MAX: Final = 60
# Lines of the log that are folded to make a saved pack again, where nobody asked for that one.
REPLAY_LINES_MAX: Final = 50_000
_EVENTS_OF_ENTRY_MAX: Final = 12
_AROUND_MAX: Final = 12  # entries of each block from the first difference on
_WITHHELD: Final = "not shown: it rests on what this channel may not see now"
_MORE_WORDS: Final = {
    "superseded": "a later value of its key took its place",
    "forgotten": "somebody forgot it",
    "duplicate": "the block says the same words already",
    "empty": "it has no text",
    "budget": "there was no more room",
    "older": "older than what was looked at",
    "missing": "there is no such file",
    "limit": "the policy lets no more of these in",
}


class PackShown(NamedTuple):
    """A pack for the page.

    `saved` is its report, None for one that was made for the page; `before` the pack that the
    report was compared with, made again, None where its report is not kept.
    """

    block: Block
    saved: Saved | None
    note: str = ""
    before: Replay | None = None


def newest_report(visible: Visible, session: str | None) -> Saved | None:
    """The newest saved pack of the channel, of nobody's agent, and of the session if one is named.

    Of the newest `REPORTS_READ_MAX` reports.
    """
    project = visible.plane.context.home.project
    for one in islice(saved(visible.plane.home), REPORTS_READ_MAX):
        asked = one.report["request"]
        if one.report["channel"] != visible.channel or asked.get("agent") is not None:
            continue
        if session in (None, asked.get("session")) and asked.get("project") == project:
            return one
    return None


def pack_shown(
    visible: Visible, given: Saved | None, session: str | None, progress: Progress | None = None
) -> PackShown:
    """The pack that the page shows: the given one, the newest saved one, or one made now.

    A report that was not given is passed over with a note where it cannot be made again, or where
    that would fold more than `REPLAY_LINES_MAX` lines. Nothing is saved. `progress` is called with
    lines folded and to fold. Raises as `Plane.pack`.
    """
    chosen = given or newest_report(visible, session)
    note = ""
    if given is None and chosen is not None and chosen.report["log"]["seq"] > REPLAY_LINES_MAX:
        note = (
            f"made now; `memplane inspect --report {chosen.id}` makes the last pack again, which "
            "folds the log up to there"
        )
        chosen = None
    if chosen is not None:
        before = _compared_with(visible, chosen)
        packs = [chosen] if before is None else [before, chosen]
        *older, again = replay_packs(visible.plane, packs, progress)
        if again.block is not None:
            lost = "; ".join([*map(str, again.lost), *filter(None, [again.note])])
            said = f"made again, it is not the block that was saved: {lost}" if lost else ""
            note = "" if again.same else said
            return PackShown(again.block, chosen, note, older[0] if older else None)
        lost = "; ".join([*map(str, again.lost), again.note])
        note = f"the pack {chosen.id} cannot be made again ({lost}); this one was made now"
    if session is None:
        newest = visible.plane.work.sessions.list(channel=visible.channel)
        session = newest[-1].id if newest else None
    block = visible.plane.pack(session=session, channel=visible.channel, now=visible.now)
    return PackShown(block, None, note)


def _compared_with(visible: Visible, now: Saved) -> Saved | None:
    """The report of the pack that a pack was compared with; None where none is kept."""
    prefix = now.report["prefix"]
    if "chain" not in prefix or prefix["compared_with"] is None:
        return None
    with suppress(MemplaneError):
        return find_report(visible.plane.home, prefix["compared_with"])
    return None


def block_view(visible: Visible, shown: PackShown) -> dict[str, Any]:
    """The block: sections with their tokens, and each entry with where it came from."""
    report = shown.block.report
    kept = shown.saved
    rows = zip(shown.block.entries, report["entries"], strict=True)
    asked = report["request"]
    return {
        "id": "block",
        "label": "Block",
        "count": shown.block.tokens,
        "unit": "tokens",
        "report": None if shown.saved is None else shown.saved.id,
        "note": visible.text(shown.note),
        "query": visible.text(asked.get("query") or "") if visible.stands(kept) else "",
        "session": asked.get("session"),
        "made": asked["now"][:19],
        "intent": report["intent"],
        "budget": report["budget"],
        "tokens": shown.block.tokens,
        "frame": report["frame_tokens"],
        "counter": report["counter"],
        "candidates": report["candidates"],
        "sections": [
            {"name": name, **{part: facts[part] for part in ("room", "used", "cap")}}
            for name, facts in report["sections"].items()
        ],
        "entries": [_entry(visible, one, said, kept) for one, said in rows],
    }


def _entry(
    visible: Visible, entry: Entry, said: dict[str, Any], kept: Saved | None
) -> dict[str, Any]:
    ids = [*entry.events, *entry.parts]
    found = [visible.named(id_) for id_ in ids[:_EVENTS_OF_ENTRY_MAX]]
    events = [event_fields(event, 0) | {"text": ""} for event in found if event is not None]
    told = _told(visible, entry, kept)
    return {
        "section": entry.section,
        "area": entry.part,
        "tokens": entry.tokens,
        "score": entry.score,
        "parts": {name: value for name, value in said["score_parts"].items() if value},
        "source": visible.text(entry.source, 200),
        "whole": len(entry.events),
        "events": events,
        "more": max(0, len(ids) - _EVENTS_OF_ENTRY_MAX),
        "text": visible.text(entry.text.strip("\n"), ENTRY_CHARS_MAX) if told else "",
        "withheld": "" if told else _WITHHELD,
    }


def _told(visible: Visible, entry: Entry, kept: Saved | None) -> bool:
    """Whether the text of an entry may stand on the page.

    One that names no event rests on the log, or on a view, nevertheless.
    """
    if entry.events or entry.parts:
        return visible.shows_all(chain(entry.events, entry.parts))
    return visible.stands(kept, entry.source)


def left_out_view(visible: Visible, shown: PackShown) -> dict[str, Any]:
    """What was left out of the block, and why: the counts of all, the best of them by name."""
    counts = shown.block.report["omissions"]["counts"]
    rows = []
    for one in shown.block.omissions:
        event = visible.named(one.id) if one.seq else None
        if one.seq and event is None:
            continue
        rows.append(
            {
                "name": visible.text(one.id, 200),
                "section": one.section,
                "cost": one.tokens,
                "reason": one.reason,
                "score": one.score,
                "short_by": one.short_by,
                **({} if event is None else {"event": event_fields(event)}),
            }
        )
    words = {**REASON_WORDS, **_MORE_WORDS}
    return {
        "id": "left-out",
        "label": "Left out",
        "count": sum(counts.values()),
        "report": None if shown.saved is None else shown.saved.id,
        "counts": [
            {"reason": name, "count": count, "words": words.get(name, "")}
            for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        ],
        "rows": rows,
    }


def prefix_view(visible: Visible, shown: PackShown) -> dict[str, Any] | None:
    """What the pack repeats of the one before: both by their tokens, why they part, the cost.

    None where no saved pack of a session stands behind the page.
    """
    now = shown.saved
    if now is None or "chain" not in now.report["prefix"]:
        return None
    prefix = now.report["prefix"]
    view: dict[str, Any] = {
        "id": "prefix",
        "label": "Prefix",
        "now": _strip(now),
        "before": None,
        "common_tokens": prefix["common_tokens"],
        "share_ppm": prefix["share_ppm"],
        "stable_kept": prefix["stable_kept"],
        "cost": prefix.get("cost", {}),
        "below_minimum": prefix["below_minimum"],
        "packs": _row_of_packs(visible, now),
        "difference": None,
        "note": "",
    }
    if prefix["compared_with"] is None:
        return view
    if shown.before is None:
        return view | {"note": "the report of the pack before is not kept any more"}
    return view | {"before": _strip(shown.before.saved)} | _parting(visible, shown, now)


def _strip(one: Saved) -> dict[str, Any]:
    """A pack as a row of entries by their tokens."""
    entries = one.report["entries"]
    return {
        "report": one.id,
        "made": one.report["request"]["now"][:19],
        "tokens": one.report["tokens"],
        "entries": [
            [entry["section"], entry["area"], entry["tokens"], entry["at"][1]] for entry in entries
        ],
    }


def _parting(visible: Visible, shown: PackShown, now: Saved) -> dict[str, Any]:
    """Where the two packs part: the first line that differs, and the entries from there on."""
    again = shown.before
    if again is None or again.block is None or not again.same:
        return {"note": "the pack before cannot be made again, so its lines are not shown"}
    old = again.saved
    found = difference_of(old, again.block, shown.block._replace(report=now.report))
    if found.cause == "same":
        return {"note": "the same block as before", "shared_entries": len(again.block.entries)}
    sides = {"old": (again.block, old), "new": (shown.block, now)}
    texts = {side: _line_told(visible, *pair, found) for side, pair in sides.items()}
    at = _shared_entries(old, now)
    return {
        "difference": {
            "line": found.line,
            "section": found.section,
            "cause": found.cause,
            "cause_words": CAUSE_WORDS.get(found.cause, ""),
            "old": visible.text(found.old or "") if texts["old"] else _WITHHELD,
            "new": visible.text(found.new or "") if texts["new"] else _WITHHELD,
        },
        "shared_entries": at,
        "lists": {
            side: [
                {
                    "section": entry.section,
                    "tokens": entry.tokens,
                    "text": visible.text(entry.text.strip("\n"), 240)
                    if _told(visible, entry, kept)
                    else _WITHHELD,
                }
                for entry in pack.entries[at : at + _AROUND_MAX]
            ]
            for side, (pack, kept) in sides.items()
        },
    }


# Why a pack may begin otherwise than the one before it, in words: see `pack.report.CAUSES`.
CAUSE_WORDS: Final = {
    "policy": "a policy changed",
    "view": "a view changed",
    "gap": "part of the log could not be read",
    "epoch": "the session began anew or was marked: its head is chosen anew there",
    "anchor": "the window of the session moved a step",
    "superseded": "a value that was shown has a newer one",
    "confirmed": "a user confirmed what was shown",
    "forgotten": "something that was shown was forgotten",
    "evicted": "something that was shown had faded and was evicted",
    "purged": "something that was shown was purged",
    "expired": "something that was shown is out of its time",
    "unforgotten": "something that was forgotten holds again",
    "approval": "an artifact was approved or revoked",
    "pin": "a pin was set or taken back",
    "shed": "the head had no room for all of it",
    "map shed": "the map had no room for all of it",
    "index": "the index had caught up",
    "ring": "what evidence came from has left the recent events",
    "prompt": "there is a new prompt, and its own evidence",
    "log": "the session went on",
    "tail": "only what may change at any time changed",
    "unexplained": "no listed cause was found",
}


def _line_told(visible: Visible, block: Block, kept: Saved, found: Difference) -> bool:
    """Whether the line of a block at a difference may be shown: its entry says."""
    byte = found.common_bytes
    for entry, row in zip(block.entries, kept.report["prefix"]["chain"], strict=True):
        if row[0] > byte:
            return _told(visible, entry, kept)
    return visible.stands(kept)


def _shared_entries(old: Saved, now: Saved) -> int:
    """How many entries both begin with."""
    chains = (one.report["prefix"]["chain"] for one in (old, now))
    same = 0
    for before, after in zip(*chains, strict=False):
        if before != after:
            break
        same += 1
    return same


def _row_of_packs(visible: Visible, now: Saved) -> dict[str, Any] | None:
    """The saved packs of the session, oldest first: the share that each repeated, and the sum."""
    session = now.report["request"].get("session")
    if session is None:
        return None
    asked = now.report["request"]
    kept = [
        one
        for one in islice(saved(visible.plane.home), REPORTS_READ_MAX)
        if one.report["channel"] == visible.channel
        and one.report["request"].get("session") == session
        and one.report["request"].get("agent") == asked.get("agent")
        and "chain" in one.report["prefix"]
        and not of_the_past(one.report)
    ]
    prices = visible.plane.upkeep.policies.plane.cache
    groups = [one.as_json() for one in shared_by(kept, prices, session=session)]
    return {
        "session": session,
        "shares": [
            {
                "made": one.report["request"]["now"][:19],
                "tokens": one.report["tokens"],
                "share_ppm": one.report["prefix"]["share_ppm"],
                "cause": (one.report["prefix"]["break"] or {}).get("cause"),
                "first": one.report["prefix"]["compared_with"] is None,
            }
            for one in reversed(kept)
        ],
        "of_fresh_ppm": {
            reuse: sum(one["costs"][reuse]["price"] for one in groups)
            * 1_000
            // max(1, sum(one["tokens"] for one in groups))
            for reuse in ("prompt", "call")
        },
    }
