"""What a question says about its answer beside its words: who is meant, how wide it is.

English patterns; other languages have none of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from memplane.lazy import regex

__all__ = ["INSTRUCTION", "PREFERENCE", "READ", "Question", "ask"]

# Bits of `Document.flags`: what answers questions that share no word with it.
INSTRUCTION: Final = 1
PREFERENCE: Final = 2
READ: Final = 12  # so many bits higher: read from the text, not said by the event

_WORD: Final = regex(r"\w+")
_FIRST_PERSON: Final = regex(r"\b(?:I|my|me|mine|we|our)\b", re.IGNORECASE)
_BROAD: Final = regex(
    r"\b(?:summar\w*|overview|recap|discuss\w*|talk\w* about|think (?:about|of)|opinions?|describe"
    r"|decisions?|progress\w*|develop\w* (?:over|through)|order in which|in order(?! to\b)"
    r"|walk me through(?! how (?:to|do|can|should|would)\b)|throughout|over time)\b",
    re.IGNORECASE,
)

# What was or is so, unless somebody asks what to do.
_LOOKS_UP: Final = regex(
    r"\A\W*(?:what|which|when|where|who|whose|how (?:many|much|long|often|far|old)|did|have|has|was"
    r"|were|is|are)\b"
    r"(?!.*\b(?:should|suggest|recommend|advice|advise|help|(?:can|could|would) (?:I|we|you)"
    r"|do you think|best|options?|ways?|steps?|approach\w*)\b)",
    re.IGNORECASE | re.DOTALL,
)


class Question(NamedTuple):
    """What is asked, beside the terms.

    `speakers`: the names among those given that the question names, none where it names all of
    them. `first_person`: whoever asks asks about himself. `broad`: about a whole thread.
    `looks_up`: about what is or was so, and not for help, which a preference would shape.
    """

    speakers: tuple[str, ...] = ()
    first_person: bool = False
    broad: bool = False
    looks_up: bool = False


def ask(text: str, speakers: Collection[str] = ()) -> Question:
    """Read a question. A speaker is named by all words of the name, in order, in any case."""
    straight = text.replace("\u2019", "'")
    words = _WORD.findall(straight.casefold())
    named = tuple(name for name in speakers if _names(words, name))
    return Question(
        named if len(named) < len(speakers) else (),
        _FIRST_PERSON.search(straight) is not None,
        _BROAD.search(straight) is not None,
        _LOOKS_UP.match(straight) is not None,
    )


def _names(words: list[str], name: str) -> bool:
    wanted = _WORD.findall(name.casefold())
    size = len(wanted)
    return size > 0 and any(words[at : at + size] == wanted for at in range(len(words) - size + 1))
