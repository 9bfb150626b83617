"""A model on loopback that says what a script has it say, in Anthropic's and OpenAI's wire forms.

It keeps every request: what a client put before the model is what a test looks at.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model:
    """Serves until it is closed. Each request takes the next of `steps`; behind them, `words`.

    A step is a text, a tool and its arguments, or a function that makes one of them of the request.
    `tokens`: what a request is said to have taken.
    """

    def __init__(self, words="done", steps=()):
        self.words, self.steps, self.requests, self.tokens = words, list(steps), [], 1
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
                    self.answer(200, "text/event-stream", model.responses(body))
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

    def next_step(self, body):
        step = self.steps.pop(0) if self.steps else self.words
        return step(body) if callable(step) else step

    def messages(self, body):
        """An answer in the form of Anthropic's Messages, streamed."""
        step, number = self.next_step(body), len(self.requests)
        message = {
            "id": f"msg_{number}", "type": "message", "role": "assistant",
            "model": body.get("model"), "content": [], "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": self.tokens, "output_tokens": 1},
        }  # fmt: skip
        if isinstance(step, str):
            opens = {"type": "text", "text": ""}
            says, ends = {"type": "text_delta", "text": step}, "end_turn"
        else:
            opens = {"type": "tool_use", "id": f"toolu_{number}", "name": step[0], "input": {}}
            given = json.dumps(step[1])
            says, ends = {"type": "input_json_delta", "partial_json": given}, "tool_use"
        stop = {"stop_reason": ends, "stop_sequence": None}
        return streamed(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": opens},
            {"type": "content_block_delta", "index": 0, "delta": says},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )

    def responses(self, body):
        """An answer in the form of OpenAI's Responses, streamed. Tools of a server have its name."""
        step, number = self.next_step(body), len(self.requests)
        if isinstance(step, str):
            part = {"type": "output_text", "text": step, "annotations": []}
            item = {
                "type": "message", "id": f"msg_{number}", "role": "assistant",
                "status": "completed", "content": [part],
            }  # fmt: skip
        else:
            server, _, tool = step[0].rpartition("/")
            item = {
                "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
                "name": tool, "arguments": json.dumps(step[1]), "status": "completed",
                **({"namespace": server} if server else {}),
            }  # fmt: skip
        usage = {
            "input_tokens": self.tokens, "input_tokens_details": None, "output_tokens": 1,
            "output_tokens_details": None, "total_tokens": self.tokens + 1,
        }  # fmt: skip
        whole = {"id": f"resp_{number}", "output": [item], "usage": usage}
        return streamed(
            {"type": "response.created", "response": {"id": whole["id"]}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        )


def streamed(*events):
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events
    ).encode()
