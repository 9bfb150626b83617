"""What others wrote, so that a client does not take it for its own words.

Coding agents put what they say themselves between marks, and trust what stands there. A page that a
tool once fetched may hold such marks, and comes back in a block.
"""

from __future__ import annotations

from typing import Final

from memplane.lazy import regex

__all__ = ["defused"]

_MARK: Final = regex(
    r"<(?=/?(?:system-reminder|system|command-[a-z]+|local-command-[a-z]+|task-notification"
    r"|user-prompt-submit-hook|bash-[a-z]+|environment_context|user_instructions)\b)"
)


def defused(text: str) -> str:
    """The text with a blank in each such mark: the same for a reader, no mark for a client."""
    return _MARK.sub("< ", text) if "<" in text else text
