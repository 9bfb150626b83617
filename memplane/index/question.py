"""What a question says about its answer beside its words: who is meant, how wide it is.

And what a turn says about itself: standing instructions and preferences, which answer
questions that share no word with them. English patterns; other languages have none of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

__all__ = ["INSTRUCTION", "PREFERENCE", "Question", "ask", "marks"]

# Bits of `Document.flags`.
INSTRUCTION: Final = 1
PREFERENCE: Final = 2

# A turn that says more than this is not an instruction, though a sentence of it may sound so.
_INSTRUCTION_TOKENS: Final = 60

_WORD: Final = re.compile(r"\w+")
_FIRST_PERSON: Final = re.compile(r"\b(?:I|my|me|mine|we|our)\b", re.IGNORECASE)
_BROAD: Final = re.compile(
    r"\b(?:summar\w*|overview|recap|discuss\w*|talk\w* about|think (?:about|of)|opinions?|describe"
    r"|decisions?|progress\w*|develop\w* (?:over|through)|order in which|in order"
    r"|walk me through|throughout|over time)\b",
    re.IGNORECASE,
)
_INSTRUCTS: Final = re.compile(
    r"(?:\A|[.!?]\s+|\n)\s*(?:please\s+)?"
    r"(?:always|never|whenever|from now on|going forward)\b"
    r"|\bwhen(?:ever)? I ask\b|\bevery time I\b"
    r"|\bplease (?:use|include|provide|avoid|keep|format|make sure)\b",
    re.IGNORECASE,
)
_PREFERS: Final = re.compile(
    r"\b(?:I prefer|I'd rather|I like to use|my preference|I've (?:decided|chosen|never))\b",
    re.IGNORECASE,
)


class Question(NamedTuple):
    """What is asked, beside the terms.

    `speakers`: the names among those given that the question names, none where it names all of
    them. `first_person`: whoever asks asks about himself. `broad`: about a whole thread.
    """

    speakers: tuple[str, ...] = ()
    first_person: bool = False
    broad: bool = False


def ask(text: str, speakers: Collection[str] = ()) -> Question:
    """Read a question. A speaker is named by all words of the name, in order, in any case."""
    straight = text.replace("\u2019", "'")
    words = _WORD.findall(straight.casefold())
    named = tuple(name for name in speakers if _names(words, name))
    return Question(
        named if len(named) < len(speakers) else (),
        _FIRST_PERSON.search(straight) is not None,
        _BROAD.search(straight) is not None,
    )


def _names(words: list[str], name: str) -> bool:
    wanted = _WORD.findall(name.casefold())
    size = len(wanted)
    return size > 0 and any(words[at : at + size] == wanted for at in range(len(words) - size + 1))


def marks(text: str, tokens: int) -> int:
    """Return the flags of a turn of a person: a standing instruction, a preference."""
    straight = text.replace("\u2019", "'")
    flags = 0
    if tokens < _INSTRUCTION_TOKENS and _INSTRUCTS.search(straight):
        flags |= INSTRUCTION
    if _PREFERS.search(straight):
        flags |= PREFERENCE
    return flags
