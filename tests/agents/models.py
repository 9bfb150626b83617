"""A model on loopback that says what a script has it say, in Anthropic's and OpenAI's wire forms.

It keeps every request: what a client put before the model is what a test looks at.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL_ROLES = ("tool_result", "function_call_output")


class Model:
    """Serves until it is closed. `calls`: the tools that it asks for, in order, then `words`."""

    def __init__(self, words="done", calls=()):
        self.words, self.calls, self.requests = words, list(calls), []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer(404, "application/json", b"{}")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
                model.requests.append((self.path, body))
                if "count_tokens" in self.path:
                    self.answer(200, "application/json", b'{"input_tokens":10}')
                elif self.path.endswith("/responses"):
                    self.answer(200, "text/event-stream", model.responses())
                else:
                    self.answer(200, "text/event-stream", model.messages(body))

            def answer(self, status, kind, data):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def seen(self):
        """All that was put before the model, as text."""
        return [json.dumps(body, ensure_ascii=False) for _, body in self.requests]

    def next_call(self, body, offered):
        done = sum(json.dumps(body).count(f'"type": "{role}"') for role in TOOL_ROLES)
        wanted = self.calls[done : done + 1]
        return wanted[0] if wanted and wanted[0][0] in offered else None

    def messages(self, body):
        """An answer in the form of Anthropic's Messages, streamed."""
        call = self.next_call(body, [tool.get("name") for tool in body.get("tools", [])])
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"),
            "content": [], "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        if call:
            block = {"type": "tool_use", "id": f"toolu_{len(self.requests)}", "name": call[0]}
            opens = {**block, "input": {}}
            says = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        else:
            opens = {"type": "text", "text": ""}
            says = {"type": "text_delta", "text": self.words}
        stop = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
        return streamed(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": opens},
            {"type": "content_block_delta", "index": 0, "delta": says},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )

    def responses(self):
        """An answer in the form of OpenAI's Responses, streamed."""
        part = {"type": "output_text", "text": self.words, "annotations": []}
        item = {
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [part],
        }  # fmt: skip
        usage = {
            "input_tokens": 1, "input_tokens_details": None, "output_tokens": 1,
            "output_tokens_details": None, "total_tokens": 2,
        }  # fmt: skip
        whole = {"id": f"resp_{len(self.requests)}", "output": [item], "usage": usage}
        return streamed(
            {"type": "response.created", "response": {"id": whole["id"]}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        )


def streamed(*events):
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events
    ).encode()
