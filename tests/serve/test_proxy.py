"""The configurations of proxies in docs/serve.md, as they stand there, before a real server."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PATH = f"{os.environ['PATH']}:/usr/sbin"
OPENSSL = shutil.which("openssl")
pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(OPENSSL is None, reason="needs openssl"),
]
PAGE = Path(__file__).parents[2] / "docs" / "serve.md"
NAME = "memory.example.org"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def documented(kind, ports, folder):
    """The block of the page, with this test's ports and files."""
    block = re.search(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    meant = {
        "listen 443": f"listen 127.0.0.1:{ports['tls']}",
        f"{NAME} {{": f"https://{NAME}:{ports['tls']} {{\n    bind 127.0.0.1",
        "127.0.0.1:8765": f"127.0.0.1:{ports['memplane']}",
        "127.0.0.1:4180": f"127.0.0.1:{ports['sign-on']}",
        "/etc/ssl/": f"{folder}/",
    }
    for found, put in meant.items():
        block = block.replace(found, put)
    return block


def nginx(ports, folder):
    user = "user root;\n" if os.geteuid() == 0 else ""
    temporary = "".join(
        f"    {kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"{user}daemon off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\n    access_log off;\n{temporary}{documented('nginx', ports, folder)}}}\n"
    )
    return ["-p", folder, "-c", folder / "nginx.conf"]


def caddy(ports, folder):
    own = f"{{\n    admin off\n    auto_https disable_redirects\n    storage file_system {folder}\n}}\n"
    (folder / "Caddyfile").write_text(own + documented("caddy", ports, folder))
    return ["run", "--adapter", "caddyfile", "--config", folder / "Caddyfile"]


class SignOn(BaseHTTPRequestHandler):
    """As a service for OpenID Connect: who has its cookie is known to it."""

    token = ""

    def do_GET(self):
        known = self.headers.get("Cookie") == "seen=yes"
        self.send_response(200 if known else 401)
        if known:
            self.send_header("X-Memplane-Token", self.token)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


class Proxied:
    """Requests by TLS to the proxy, under its public name."""

    def __init__(self, port, folder):
        self.port, self.context = port, ssl.create_default_context(cafile=folder / "memory.pem")

    def ask(self, method, path, value=None, **headers):
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=30) as plain,
            self.context.wrap_socket(plain, server_hostname=NAME) as safe,
        ):
            connection = http.client.HTTPConnection(NAME)
            connection.sock = safe
            body = value if isinstance(value, bytes | None) else json.dumps(value).encode()
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()


@pytest.fixture(params=[nginx, caddy])
def proxied(start, tmp_path, request):
    program = shutil.which(request.param.__name__, path=PATH)
    if program is None:
        pytest.skip(f"needs {request.param.__name__} (apt-get install)")
    folder = tmp_path / "proxy"
    folder.mkdir()
    subprocess.run(
        [OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}",
         "-keyout", folder / "memory.key", "-out", folder / "memory.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(start("--allow-host", NAME, "--rate", "5000"))
        handler = type("Handler", (SignOn,), {"token": served.secrets["bob"]})
        sign_on = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        stack.callback(sign_on.server_close)
        stack.callback(sign_on.shutdown)
        threading.Thread(target=sign_on.serve_forever, daemon=True).start()
        ports = {"tls": free_port(), "memplane": served.port, "sign-on": sign_on.server_port}
        words = request.param(ports, folder)
        process = subprocess.Popen(
            [program, *words], env={**os.environ, "HOME": str(folder)}, stderr=subprocess.DEVNULL
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        for _ in range(200):
            assert process.poll() is None, "the proxy does not take its configuration"
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", ports["tls"])),
            ):
                break
            time.sleep(0.05)
        yield served, Proxied(ports["tls"], folder)


def test_the_documented_proxy_hands_on_what_it_should(proxied):
    served, proxy = proxied
    ann = {"Authorization": f"Bearer {served.secrets['ann']}"}
    assert proxy.ask("GET", "/health")[0] == 200
    value = {"text": "The lock opens at nine", "key": "lock", "kind": "fact"}
    assert proxy.ask("POST", "/v1/record", value, **ann)[0] == 200
    assert b"opens at nine" in proxy.ask("GET", "/v1/get?key=lock", **ann)[1]
    assert proxy.ask("GET", "/v1/get?key=lock")[0] == 401
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    mcp = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    assert b"memory_curate" in proxy.ask("POST", "/mcp", call, **ann, **mcp)[1]
    # Another name than the proxy's does not reach the server, nor does too large a body.
    assert b"ok" not in proxy.ask("GET", "/health", Host="attacker.example")[1]
    assert proxy.ask("POST", "/v1/record", b"x" * (2 << 20), **ann)[0] == 413
    assert proxy.ask("GET", "/health", Origin="https://attacker.example")[0] == 403


@pytest.mark.parametrize("proxied", [nginx], indirect=True)
def test_who_signed_on_is_who_the_service_says(proxied):
    served, proxy = proxied
    signed_on = {"Cookie": "seen=yes"}
    value = {"text": "Bob keeps the spare oar", "key": "oar", "kind": "fact"}
    assert proxy.ask("POST", "/people/v1/record", value)[0] == 401
    assert proxy.ask("POST", "/people/v1/record", value, **signed_on)[0] == 200
    ann = {"Authorization": f"Bearer {served.secrets['ann']}"}
    assert proxy.ask("POST", "/people/v1/record", value, **ann)[0] == 401
    _, got = proxy.ask("GET", "/people/v1/get?key=oar", **signed_on, **ann)
    assert json.loads(got)["actor"] == "bob"
    assert proxy.ask("GET", "/sign-on", **signed_on)[0] == 404
