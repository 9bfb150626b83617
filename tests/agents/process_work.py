"""Work with the real clients as people do it: in several folders, with questions, plans and lists.

A worker runs one client against the scripted model. What the client asks is answered with the first
of its options, and its plans are accepted: Claude Code asks by its control protocol, as it asks the
hosts of its SDK, Codex by that of its app server, as it asks its own terminal and editors.
"""

import json
import re
from contextlib import contextmanager
from pathlib import Path

from process_clients import CLAUDE, CODEX

INJECTED = re.compile(r"Memory \(recalled by memplane.*?memplane:end \w+", re.DOTALL)
_CONFIG = Path(".codex", "config.toml")
PLAN_FILE = re.compile(r"/\S+?/plans/[\w-]+\.md")


def texts_in(value):
    """Every text of a request, as the model reads it."""
    if isinstance(value, str):
        yield value
    for one in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from texts_in(one)


def injected(body):
    """The blocks that hooks put before the model, in the order of the request."""
    return [found for text in texts_in(body) for found in INJECTED.findall(text)]


class ClaudeCode:
    """Claude Code, told to offer its to-do tools; `tasks`: the newer ones, TaskCreate and so on."""

    source, transcripts = "claude-code", "projects/**/*.jsonl"
    tool = "mcp__memplane__memory_{}".format

    def __init__(self, person, model, tasks=False):
        self.person, self.model, self._tasks = person, model, tasks
        self._more = {
            "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", "CLAUDE_CODE_ENABLE_TASKS": str(int(tasks)),
            "ANTHROPIC_BASE_URL": model.url,
        }  # fmt: skip

    @contextmanager
    def session(self, folder):
        """Give a function that says a prompt, and gives the requests that the model got of it."""
        with self.person.start(
            CLAUDE, "-p", "--input-format", "stream-json", "--output-format", "stream-json",
            "--verbose", "--permission-prompt-tool", "stdio", cwd=folder, **self._more,
        ) as process:  # fmt: skip

            def send(said):
                process.stdin.write(f"{json.dumps(said)}\n")
                process.stdin.flush()

            def say(prompt, *steps, plans=False):
                self.model.steps, before = list(steps), len(self.model.requests)
                mode = {"subtype": "set_permission_mode", "mode": "plan" if plans else "default"}
                send({"type": "control_request", "request_id": "mode", "request": mode})
                send({"type": "user", "message": {"role": "user", "content": prompt}})
                for told in map(json.loads, process.stdout):
                    if told["type"] == "control_request":
                        send(_allowed(told))
                    elif told["type"] == "result":
                        break
                assert self.model.steps == []
                return [body for _, body in self.model.requests[before:]]

            yield say
            process.communicate(timeout=240)
        assert process.returncode == 0

    def plans(self, say, prompt, question, options, plan, steps):
        """Ask for work: the client asks its question, plans, notes its steps, and is at the last."""

        def write(body):
            [path] = {found for text in texts_in(body) for found in PLAN_FILE.findall(text)}
            return "Write", {"file_path": path, "content": plan}

        chosen = [{"label": label, "description": why} for label, why in options.items()]
        asked = {"header": "Choice", "question": question, "options": chosen, "multiSelect": False}
        asks = [("AskUserQuestion", {"questions": [asked]}), write, ("ExitPlanMode", {})]
        say(prompt, *asks, *self._noted(steps), "The last step is left", plans=True)

    def _noted(self, steps):
        *done, last = steps
        if not self._tasks:
            states = [*((one, "completed") for one in done), (last, "in_progress")]
            todos = [{"content": one, "status": is_, "activeForm": one} for one, is_ in states]
            return [("TodoWrite", {"todos": todos})]
        made = [("TaskCreate", {"subject": one, "description": one}) for one in steps]
        states = [*("completed" for _ in done), "in_progress"]
        moved = [{"taskId": str(at), "status": one} for at, one in enumerate(states, 1)]
        return [*made, *(("TaskUpdate", one) for one in moved)]


def _allowed(asked):
    """The answer of a host to a call that needs its word: yes, and the first option of each."""
    given = dict(asked["request"]["input"])
    if asked["request"]["tool_name"] == "AskUserQuestion":
        given["answers"] = {
            one["question"]: one["options"][0]["label"] for one in given["questions"]
        }
    answer = {"behavior": "allow", "updatedInput": given}
    inner = {"subtype": "success", "request_id": asked["request_id"], "response": answer}
    return {"type": "control_response", "response": inner}


class Codex:
    """Codex by its app server, which runs the hooks that a person has trusted."""

    source, transcripts = "codex", "sessions/**/*.jsonl"
    tool = "mcp__memplane/memory_{}".format

    def __init__(self, person, model):
        self.person, self.model = person, model
        config = person.home / _CONFIG
        config.parent.mkdir()
        config.write_text(
            'model = "mock"\nmodel_provider = "mock"\n[tools.update_plan]\nenabled = true\n'
            '[model_providers.mock]\nname = "mock"\n'
            f'base_url = "{model.url}/v1"\nwire_api = "responses"\n'
        )

    @contextmanager
    def session(self, folder):
        """Give a function that says a prompt, and gives the requests that the model got of it."""
        with self.person.start(CODEX, "app-server", cwd=folder) as process:

            def ask(method, until=None, **params):
                """Call a method; give its answer, or the notice that ends what it began."""
                send({"id": method, "method": method, "params": params})
                for line in process.stdout:
                    told = json.loads(line) if line.startswith("{") else {}
                    assert "error" not in told, told
                    if told.get("method") == "item/tool/requestUserInput":
                        answers = {
                            one["id"]: {"answers": [one["options"][0]["label"]]}
                            for one in told["params"]["questions"]
                        }
                        send({"id": told["id"], "result": {"answers": answers}})
                    elif told.get("method" if until else "id") == (until or method):
                        return told
                raise AssertionError(f"{method} was not answered")

            def send(said):
                process.stdin.write(f"{json.dumps(said)}\n")
                process.stdin.flush()

            ask(
                "initialize", clientInfo={"name": "test", "title": "test", "version": "1"},
                capabilities={"experimentalApi": True},
            )  # fmt: skip
            send({"method": "initialized"})
            there = "[mcp_servers.memplane]" in (self.person.home / _CONFIG).read_text()
            waits = {"required": True, "startup_timeout_sec": 240}
            required = {f"mcp_servers.memplane.{key}": to for key, to in waits.items() if there}
            begun = ask(
                "thread/start", cwd=str(folder), approvalPolicy="never",
                sandbox="danger-full-access",
                config={"bypass_hook_trust": True, **required},
            )  # fmt: skip
            thread = begun["result"]["thread"]["id"]

            def say(prompt, *steps, plans=False):
                self.model.steps, before = list(steps), len(self.model.requests)
                given = {"model": "mock", "reasoning_effort": None, "developer_instructions": None}
                ask(
                    "turn/start", until="turn/completed", threadId=thread,
                    input=[{"type": "text", "text": prompt, "text_elements": []}],
                    collaborationMode={"mode": "plan" if plans else "default", "settings": given},
                )  # fmt: skip
                assert self.model.steps == []
                return [body for _, body in self.model.requests[before:]]

            yield say
            process.communicate(timeout=240)

    def plans(self, say, prompt, question, options, plan, steps):
        """Ask for work: the client asks its question, plans, notes its steps, and is at the last."""
        chosen = [{"label": label, "description": why} for label, why in options.items()]
        asked = {"id": "choice", "header": "Choice", "question": question, "options": chosen}
        asks = ("request_user_input", {"questions": [asked]})
        say(prompt, asks, f"<proposed_plan>\n{plan}</proposed_plan>", plans=True)
        *done, last = steps
        states = [*((one, "completed") for one in done), (last, "in_progress")]
        noted = [{"step": one, "status": is_} for one, is_ in states]
        # What the client says for its person who accepts a plan.
        say("Implement the plan.", ("update_plan", {"plan": noted}), "The last step is left")
