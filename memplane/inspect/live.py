"""The page on loopback: it follows the log, and forgets, takes back and pins when it is asked to.

A page of a browser that shows other sites is reached by those sites as well: by a name that they
rebind to 127.0.0.1 (DNS rebinding), by requests across sites, by guesses of the address. So every
request must name this server in `Host` (421), have the token of this run in its path (404), and
come from no other site by `Origin` and `Sec-Fetch-Site` (403). Nothing allows another origin to
read an answer (no CORS). What changes the log is POST, says its origin, and is confirmed: the first
request is answered by a question and a word that is good once, for this action and event.
"""

from __future__ import annotations

import json
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from memplane.errors import MemplaneError
from memplane.home import VERSION
from memplane.inspect.compose import PageRequest, compose
from memplane.inspect.page import content_policy, document, part
from memplane.inspect.views import Visible
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from memplane.plane import Plane, Receipt

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
