"""The MCP project's own conformance suite, as a client of `memplane serve`."""

import contextlib
import http.client
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

NPM = shutil.which("npm")
SUITE = "@modelcontextprotocol/conformance@0.1.16"
NODE = "node@22"  # which the suite needs, whatever the system has
GAPS = Path(__file__).with_name("conformance.yml")
pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(NPM is None, reason="needs npm"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The suite's folder of programs; skipped where it cannot be installed."""
    kept = os.environ.get("MEMPLANE_TEST_CONFORMANCE")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("conformance")
    programs = folder / "node_modules" / ".bin"
    if not (programs / "conformance").exists():
        words = [NPM, "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder]
        done = subprocess.run([*words, NODE, SUITE], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"npm does not install {SUITE}: {done.stderr[-200:]}")
    return programs


class SigningOn(BaseHTTPRequestHandler):
    """Hands requests on with a token, which the suite cannot be given; all else is as it came."""

    protocol_version = "HTTP/1.1"
    secret, upstream = "", 0

    def hand_on(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        own, there = f":{self.server.server_port}", f":{self.upstream}"
        said = {
            name: value.replace(own, there) if name.lower() in ("host", "origin") else value
            for name, value in self.headers.items()
            if name.lower() not in ("connection", "content-length")
        }
        said["Authorization"] = f"Bearer {self.secret}"
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=90)
        try:
            connection.request(self.command, self.path, body, said)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            with contextlib.suppress(http.client.HTTPException, OSError):  # a stream that ends
                while part := answer.read1(65_536):
                    self.wfile.write(part)
        finally:
            connection.close()
            self.close_connection = True

    def do_GET(self):
        self.hand_on()

    def do_POST(self):
        self.hand_on()

    def do_DELETE(self):
        self.hand_on()

    def log_message(self, *_):
        """Say nothing."""


@pytest.mark.parametrize(
    ("options", "more"),
    # Where each request stands alone there is no session that could have several streams.
    [((), "  - server-sse-multiple-streams\n"), (("--sessions",), "")],
    ids=["alone", "sessions"],
)
def test_the_suite_finds_no_gaps_but_those_that_are_known(suite, start, tmp_path, options, more):
    gaps = tmp_path / "gaps.yml"
    gaps.write_text(GAPS.read_text() + more)
    with start("--rate", "5000", *options) as served:
        fields = {"secret": served.secrets["ann"], "upstream": served.port}
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (SigningOn,), fields))
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{proxy.server_port}/mcp"
            words = ["server", "--url", url, "--expected-failures", gaps]
            done = subprocess.run(
                [suite / "conformance", *words, "--output-dir", tmp_path / "results"],
                env={**os.environ, "PATH": f"{suite}:{os.environ['PATH']}"},
                capture_output=True, text=True, timeout=600, check=False,
            )  # fmt: skip
        finally:
            proxy.shutdown()
            proxy.server_close()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "✓ dns-rebinding-protection: 2 passed" in done.stdout
