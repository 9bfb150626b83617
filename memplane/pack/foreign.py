"""What others wrote, so that a client does not take it for its own words.

Coding agents put what they say themselves between marks, and trust what stands there; models are
trained on others. A page that a tool once fetched may hold such marks, and comes back in a block.
"""

from __future__ import annotations

import re
from typing import Final

from memplane.intake.skeleton import skeleton
from memplane.lazy import regex

__all__ = ["defused"]

_MARKS: Final = (
    r"/?(?:system-reminder|system|command-[a-z]+|local-command-[a-z]+|task-notification"
    r"|user-prompt-submit-hook|bash-[a-z]+|environment_context|user_instructions)\b|\|/?[a-z_]+\|"
)
_MARK: Final = regex(rf"<(?={_MARKS})", re.IGNORECASE | re.ASCII)
_READS_SO: Final = regex(rf"<(?:{_MARKS})", re.ASCII)
_LIKE: Final = "<\uff1c\ufe64\u2039\u3008\u2329"
# Only where the next character begins a mark, or could hide its beginning.
_OPENS: Final = regex(rf"[{_LIKE}](?=[|/bceltu s]|[^!-~])", re.IGNORECASE)
_REACH: Final = 600  # characters from the opening on that are looked at
_LONGEST: Final = 32  # of a mark in which nothing unseen stands
_CONTROLS: Final = regex(r"[\x00-\x08\x0b-\x1f\x7f]")


def defused(text: str) -> str:
    """The text with a blank in each such mark: the same for a reader, no mark for a client."""
    if text.isascii():
        if "<" not in text:
            return text
        return (_OPENS.sub if _CONTROLS.search(text) else _MARK.sub)(_parted, text)
    return _OPENS.sub(_parted, text) if any(one in text for one in _LIKE) else text


def _parted(opens: re.Match[str]) -> str:
    start = opens.start()
    read = opens.string[start : start + _LONGEST].lower()
    if not (read.isascii() and read.isprintable()):
        read = skeleton(opens.string[start : start + _REACH])
    return f"{opens[0]} " if _READS_SO.match(read) else opens[0]
