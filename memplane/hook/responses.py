"""What a tool answered, as a model was shown it: text. Pure.

Clients hand a hook the tool's own object, not what they made of it for the model: an edit comes
with the whole file as it was before, an image with its bytes. What a call says already, and what is
no text, is left out; of an object that nobody knows stands a short form.
"""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["answer"]

# Fields that a model is shown, one under another.
_SHOWN: Final = ("stdout", "stderr", "error", "content", "result")
_FAILED: Final = ("is_error", "isError", "interrupted")
# What an object of an unknown tool may hold and nobody reads.
_LEFT_OUT: Final = frozenset({
    "originalFile", "originalContent", "structuredPatch", "oldString", "newString", "oldTodos",
    "newTodos", "base64", "data", "blob", "signature",
})  # fmt: skip
_CHARACTERS_MAX: Final = 2_000  # of what has no text of its own
_PATCH_LINES_MAX: Final = 400
_DEPTH_MAX: Final = 20


def answer(response: Any) -> tuple[str, str]:
    """The text of a tool's answer, and ok or error.

    Clients give a text, a list of blocks, or an object of their own.
    """
    if isinstance(response, str):
        return response, "ok"
    if isinstance(response, list):
        return _text_of(response) or _short(response), "ok"
    if not isinstance(response, dict):
        return _short(response), "ok"
    failed = any(response.get(field) is True for field in _FAILED)
    status = "error" if failed or "error" in response else "ok"
    file = response.get("file")
    if isinstance(file, dict) and isinstance(file.get("content"), str):
        return file["content"], status
    if "structuredPatch" in response:  # an edit, or a file that was written: the call has the rest
        return _patched(response["structuredPatch"]), status
    texts = [text for field in _SHOWN if (text := _text_of(response.get(field)))]
    return "\n".join(texts) if texts else _short(response), status


def _text_of(part: Any) -> str:
    """A text, or the text blocks of a list."""
    if isinstance(part, str):
        return part if part.strip() else ""
    if isinstance(part, list):
        blocks = (each.get("text") if isinstance(each, dict) else each for each in part)
        return "\n".join(each for each in blocks if isinstance(each, str))
    return ""


def _patched(hunks: Any) -> str:
    """The lines of a patch, as `diff -u` has them."""
    lines: list[str] = []
    for hunk in hunks if isinstance(hunks, list) else ():
        said = hunk.get("lines") if isinstance(hunk, dict) else None
        lines += [line for line in said if isinstance(line, str)] if isinstance(said, list) else []
    return "\n".join(lines[:_PATCH_LINES_MAX])


def _short(value: Any) -> str:
    kept = _without(value, _DEPTH_MAX)
    if kept in (None, "", [], {}):
        return ""
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _CHARACTERS_MAX else f"{text[:_CHARACTERS_MAX]}…"


def _without(value: Any, depth: int) -> Any:
    """The value without what nobody reads."""
    if not depth:
        return "(too deep to show)"
    if isinstance(value, dict):
        kept = {key: _without(item, depth - 1) for key, item in value.items()}
        return {key: item for key, item in kept.items() if key not in _LEFT_OUT}
    if isinstance(value, list):
        return [_without(item, depth - 1) for item in value]
    return value
