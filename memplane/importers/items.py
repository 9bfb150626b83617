"""Items that a model and its client exchange, as the Responses API writes them: rows or reasons.

Codex keeps them in its rollouts, and chat files may hold them. `message` items have content
parts; calls name a tool, outputs answer the call with their `call_id`. Arguments are JSON in a
string; a shell's argv reads as the command that it is. The file of a patch is the first that it
names. What memplane's own tools answered is memory coming back: it is not recorded again.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.importers.calls import (
    OWN_ANSWER,
    OWN_CALL,
    Call,
    below,
    own_command,
    render,
    touched,
)
from memplane.importers.rows import Row, text_of, told, word
from memplane.intake.recalled import is_own

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ITEMS", "Calls", "others_in", "parts_of", "reasoning_of", "text_parts"]

# Tools of the item types whose calls name none.
_TOOLS: Final = {"local_shell_call": "local_shell", "web_search_call": "web_search"}
_CALLS: Final = frozenset({"function_call", "custom_tool_call", *_TOOLS})
_OUTPUTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output"}
)
_WITHOUT_MEMORY: Final = frozenset(
    {
        "additional_tools", "compaction", "compaction_summary", "compaction_trigger",
        "configuration_update", "context_compaction", "file_search_call", "ghost_snapshot",
        "image_generation_call", "item_reference", "mcp_list_tools", "other", "tool_search_call",
        "tool_search_output",
    }
)  # fmt: skip
ITEMS: Final = frozenset(
    {"message", "reasoning", "agent_message", *_CALLS, *_OUTPUTS, *_WITHOUT_MEMORY}
)
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_MEDIA: Final = frozenset(
    {"input_image", "image_url", "image", "input_file", "file", "input_audio", "audio", "document"}
)
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh"})
_PATCHED: Final = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.{1,4096})$")
_HEAD_OF_OUTPUT: Final = 400
_EXIT: Final = re.compile(r"(?m)^(?:Exit code:|Process exited with code) (-?\d+)\s*$")
_OPEN_CALLS_MAX: Final = 200


class Calls:
    """The calls that wait for an output, the newest 200."""

    def __init__(self, known: Any = None) -> None:
        self._open: dict[str, Call] = {}
        for call, named in known.items() if isinstance(known, dict) else ():
            if (found := Call.of(named)) is not None:
                self._open[call] = found

    def add(self, call: str, named: Call) -> None:
        """Note a call; without an id nothing can answer it."""
        if call:
            self._open[call] = named
            if len(self._open) > _OPEN_CALLS_MAX:
                del self._open[next(iter(self._open))]

    def take(self, call: str) -> Call:
        """Return the call, which waits no longer; one of nothing where it is not known."""
        return self._open.pop(call, Call())

    def state(self) -> dict[str, list[str]]:
        """Return what the constructor takes."""
        return {call: named.state() for call, named in self._open.items()}


class Part(NamedTuple):
    """A text of a message, or the reason why it has none."""

    text: str
    reason: str


def parts_of(item: Mapping[str, Any], calls: Calls, folders: tuple[str, ...]) -> Row | str:
    """The row of an item that is no message and no reasoning, or the reason why it makes none."""
    kind = text_of(item, "type")
    if kind in _CALLS:
        return _call(kind, item, calls, folders)
    if kind in _OUTPUTS:
        return _output(item, calls)
    return f"{'' if kind in ITEMS else 'unknown '}item type {word(kind)}"


def text_parts(content: Any) -> Iterator[Part]:
    """The texts of a message's content, in order, and what stands between them."""
    if isinstance(content, str):
        yield Part(content, "") if content.strip() else Part("", "empty text")
        return
    if not isinstance(content, list) or not content:
        yield Part("", "empty message")
        return
    for part in content:
        if isinstance(part, str):
            yield Part(part, "") if part.strip() else Part("", "empty text")
            continue
        shape = text_of(part, "type") if isinstance(part, dict) else ""
        text = part.get("text") if shape in _TEXTS else None
        if shape == "refusal":
            text = part.get("refusal")
        if isinstance(text, str) and text.strip():
            yield Part(text, "")
        elif shape in _TEXTS or shape == "refusal":
            yield Part("", "empty text")
        else:
            yield Part("", f"{'' if shape in _MEDIA else 'unknown '}part type {word(shape)}")


def others_in(output: Any) -> Iterator[str]:
    """Why parts of a tool's answer make no event: images and the like; not those without text."""
    parts = output.get("content") if isinstance(output, dict) else output
    for part in text_parts(parts) if isinstance(parts, list) and parts else ():
        if part.reason and part.reason != "empty text":
            yield part.reason


def reasoning_of(item: Mapping[str, Any]) -> str:
    """What a reasoning item says: its content, else its summary; "" where it is encrypted."""
    for field in ("content", "summary"):
        said = [part.text for part in text_parts(item.get(field)) if part.text]
        if said:
            return "\n".join(said)
    return ""


def _call(
    kind: str, item: Mapping[str, Any], calls: Calls, folders: tuple[str, ...]
) -> Row | str:  # fmt: skip
    tool = text_of(item, "name") or _TOOLS.get(kind, "tool")
    if space := text_of(item, "namespace").rstrip("_"):
        tool = f"{space}__{tool}"
    call = text_of(item, "call_id") or (text_of(item, "id") if kind in _TOOLS else "")
    given = _arguments(kind, item)
    folder = folders[-1] if folders else ""
    path = touched(tool, given, folders) or _patched(given, folders)
    calls.add(call, Call(tool, path, own_command(tool, given)))
    if is_own(tool):
        return OWN_CALL
    text = f"{tool}\n{given}" if isinstance(given, str) and given else render(tool, given, folder)
    data = {"tool": tool, "call": call, "path": path}
    return {"kind": "tool_call", "role": "assistant", "text": text, "data": told(data)}


def _arguments(kind: str, item: Mapping[str, Any]) -> Any:
    """The arguments as an object where they are one, else as they stand."""
    given = item.get("arguments" if kind == "function_call" else "input")
    if kind in _TOOLS:
        action = item.get("action")
        given = {k: v for k, v in action.items() if k != "type"} if isinstance(action, dict) else {}
    if isinstance(given, str) and kind == "function_call":
        try:
            read = json.loads(given)
        except (ValueError, RecursionError):
            read = None
        given = read if isinstance(read, dict) else given
    if isinstance(given, dict):
        given = {key: value for key, value in given.items() if value is not None}
        for key in ("command", "cmd"):
            if (command := _command(given.get(key))) is not None:
                given[key] = command
    return given


def _command(argv: Any) -> str | None:
    """The command line of an argv; what a shell was given to run stands for itself."""
    if not isinstance(argv, list) or not argv or not all(isinstance(one, str) for one in argv):
        return None
    if len(argv) == 3 and argv[0] in _SHELLS and argv[1] in {"-lc", "-c"}:
        return str(argv[2])
    if len(argv) == 2 and "*** Begin Patch" in argv[1]:
        return "\n".join(argv)
    return shlex.join(argv)


def _patched(given: Any, folders: tuple[str, ...]) -> str:
    texts = given.values() if isinstance(given, dict) else (given,)
    for text in texts:
        if isinstance(text, str) and "*** Begin Patch" in text and (found := _PATCHED.search(text)):
            path = found[1].strip()
            return next((s for folder in folders if (s := below(path, folder)) != path), path)
    return ""


def _output(item: Mapping[str, Any], calls: Calls) -> Row | str:
    call = text_of(item, "call_id")
    tool, path, command = calls.take(call)
    if is_own(tool):
        return OWN_ANSWER
    text, failed = _output_text(item.get("output"))
    if not text.strip():
        return "empty text"
    status = "error" if failed else "ok"
    data = {"tool": tool, "call": call, "path": path, "status": status, "command": command}
    return {"kind": "tool_result", "role": "tool", "text": text, "data": told(data)}


def _output_text(output: Any) -> tuple[str, bool]:
    """What a tool answered, and whether it failed, as far as the output says so."""
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content", output.get("output"))
    if isinstance(output, list):
        text = "\n".join(part.text for part in text_parts(output) if part.text)
        return text, failed
    if not isinstance(output, str):
        return "", failed
    code: Any = None
    if output.startswith('{"'):
        # The shell of 2025 answered in JSON: {"output": …, "metadata": {"exit_code": 0, …}}.
        try:
            read = json.loads(output)
        except (ValueError, RecursionError):
            read = None
        if isinstance(read, dict) and isinstance(read.get("output"), str) and "metadata" in read:
            output, metadata = read["output"], read["metadata"]
            code = metadata.get("exit_code") if isinstance(metadata, dict) else None
    elif found := _EXIT.search(output[:_HEAD_OF_OUTPUT]):
        code = int(found[1]) if len(found[1]) < 12 else 1
    return output, failed or (isinstance(code, int) and code != 0)
