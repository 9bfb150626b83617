"""A server on loopback that plays a provider of models: OpenAI's endpoints, and Anthropic's.

What it answers next is a list of plays; when it is empty, it answers as a good server does. A vector
is made of the letters of its text, so that like texts are near.
"""

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSION = 26


def letters(text):
    return [float(text.lower().count(chr(97 + n))) for n in range(DIMENSION)]


class StubServer:
    """Use it in a `with`. `requests` are the bodies that came, `headers` theirs."""

    def __init__(self):
        self.plays, self.requests, self.headers, self.paths = [], [], [], []
        self.connections = 0
        self.facts = []
        self.release = threading.Event()

    def __enter__(self):
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def setup(self):
                super().setup()
                stub.connections += 1

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                stub.requests.append(json.loads(body))
                stub.headers.append({name.lower(): value for name, value in self.headers.items()})
                stub.paths.append(self.path)
                stub._answer(self, stub.plays.pop(0) if stub.plays else {})

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        return self

    def __exit__(self, *_):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def good(self, path, body):
        if path.endswith("/embeddings"):
            texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
            rows = [
                {"object": "embedding", "index": n, "embedding": letters(text)}
                for n, text in enumerate(texts)
            ]
            return {
                "object": "list", "data": rows, "model": body["model"],
                "usage": {"prompt_tokens": 1, "total_tokens": 1},
            }  # fmt: skip
        said = json.dumps({"facts": self.facts})
        if path.endswith("/messages"):
            return {
                "id": "m", "type": "message", "role": "assistant", "model": body["model"],
                "content": [{"type": "text", "text": said}], "stop_reason": "end_turn",
                "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
            }  # fmt: skip
        return {
            "id": "c", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [
                {"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": said}}
            ],
        }  # fmt: skip

    def _answer(self, handler, play):
        if play.get("hang"):
            self.release.wait(30)
            handler.close_connection = True
            return
        if play.get("drop"):
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        value = self.good(handler.path, self.requests[-1])
        content = play.get("content")
        if content is None:
            content = json.dumps(play.get("change", lambda same: same)(value)).encode()
        handler.send_response(play.get("status", 200))
        for name, text in play.get("headers", {}).items():
            handler.send_header(name, text)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        if play.get("cut"):
            handler.wfile.write(content[: len(content) // 2])
            handler.close_connection = True
            return
        for at in range(0, len(content), 1 << 20):
            handler.wfile.write(content[at : at + (1 << 20)])
            if play.get("drip"):
                time.sleep(play["drip"])


def statuses(*codes):
    return [{"status": code, "content": b'{"error": {"message": "no"}}'} for code in codes]
