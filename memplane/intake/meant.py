"""Whether a user says a sentence for himself and for good: not asked, not told of others, not once.

"What would I prefer?", "He told me: always be closing" and "Don't send it yet" hold the words of a
standing instruction or a preference, and are none. English, like the tables of phrases.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from memplane.lazy import regex

__all__ = ["LOOKED_BACK", "PATTERNS", "is_meant"]

LOOKED_BACK: Final = 200  # characters before a sentence that may say whose words it has

_OTHERS: Final = (
    r"(?:\b(?:he|she|they|it|who|somebody|someone|everybody|everyone|people|(?:my|our|his|her|their"
    r"|the|a|an) \w+(?: \w+)?)|^\W*(?!(?:I|we|you|as|like|that)\b)\w+)"
)
# Word by word, too: a pattern is tried only where one of its words is there, which is far quicker.
_SAYING: Final = (
    "told", "tells", "tell", "said", "says", "say", "wrote", "writes", "write", "read", "reads",
    "replied", "asked", "asks", "think", "thinks", "thought", "claims", "claimed", "insists",
    "insisted", "goes", "telling", "saying",
)  # fmt: skip
_SOURCES: Final = (
    "motto", "slogan", "saying", "proverb", "quote", "quotation", "advice", "headline", "title",
    "caption", "lyrics", "song", "poster", "sign", "banner",
)  # fmt: skip
_UNSAID: Final = ("said", "say", "told", "tell", "thought", "think", "claimed", "meant", "mean")
_SAY: Final = f"(?:{'|'.join(_SAYING)})"
_REPORTED: Final = (
    rf"{_OTHERS} (?:always |often |never |once |just |also |keep |keeps |used to |would )?{_SAY}\b"
    r"(?:(?: (?:me|us|him|her|them|you|everyone|people))?(?: to (?:me|us))?: .*|,?[^,;]*)$"
    r"|\b(?:I|we|you) (?:never|didn't|don't|did not|do not) (?:ever )?"
    rf"(?:{'|'.join(_UNSAID)})\b[^,;]*$"
    rf"|\b(?:{'|'.join(_SOURCES)})\b[^:.,;]{{0,40}}: ?[^:]*$"
)
_SAID_AFTER: Final = (
    r'(?:,"|",|"|\u201d,?|,\u201d) (?!(?:I|we|you)\b)(?:\w+ ){0,3}?'
    rf"(?:used to |would )?{_SAY}\b"
    r"|, (?:he|she|they) (?:always |often |used to |would )?(?:said|says|say|told|tells|wrote)\b"
)
# What gives a reason for a question is said, not asked: "Given that I prefer tea, which …?"
_ASIDE: Final = (
    r"[,;:\u2013\u2014]| - |\bwith(?= my| our|\W*$)|\b(?:given|giving|considering|since|because|as"
    r"|per|based|but|if|when|while|although|though|knowing|so)\b"
)
_ASKS: Final = (
    r"^\W*(?:what|which|who|whom|whose|where|when|why|how|do|does|did|would|should|could|can|is|are"
    rf"|was|were|have|has|had|am|will|may|might)\b(?!.*?(?:{_ASIDE}))"
)
_WONDERING: Final = (
    "tell", "remind", "ask", "know", "remember", "recall", "guess", "wonder", "wondering", "decide",
    "figure out", "find out", "see", "check", "sure", "idea", "forgot", "forgotten", "explain",
)  # fmt: skip
_WONDERS: Final = (
    rf"\b(?:{'|'.join(_WONDERING)})(?: me| us| you| him| her| them| of| about)?"
    r" (?:what|which|whether|if|where|who|why|how)\b(?!.*?(?:[,;]|\b(?:given|considering|since"
    r"|because|as|but)\b))"
)
_TURNED: Final = r"\b(?:would|do|did|should|could|can|will|have|had|must|might|shall) $"
_OF_NOW: Final = (
    r"(?:one|time|task|question|e-?mail|mail|message|letter|file|document|photo|picture|image|text"
    r"|function|section|paragraph|sentence|line|step|draft|report|essay|answer|case|round|commit"
    r"|test|issue|ticket|slide|table|chart|page|chapter|part|exercise|problem|list|link|form"
    r"|number|figure|scenario|example|screenshot)"
)
_ONCE: Final = (
    r"\bthis time\b(?! \w)|\b(?:just|only) (?:this )?once\b|\bthis once\b|\bfor now\b|\bnow(?=\W*$)"
    r"|\bfor the moment\b|\b(?:today|tonight|tomorrow)\b(?!')|\byet\b"
    r"|\b(?:above|below|attached)\b(?! (?:all|\d|zero|average))"
    r"|\bI(?:'ve| have)? (?:just )?(?:attached|sent|pasted|uploaded|gave you|shared)\b"
    rf"|\b(?:this|these|that|those) (?:\w+ )?{_OF_NOW}s?\b"
)
_FOR_GOOD: Final = (
    "always", "never", "whenever", "from now on", "from here on", "every time", "each time",
    "any time", "anytime", "going forward", "moving forward", "in future", "in the future",
    "by default", "at all times", "under no circumstances",
)  # fmt: skip
_REPORT: Final = frozenset((*_SAYING, *_SOURCES, *_UNSAID))
_WONDER: Final = frozenset(word.partition(" ")[0] for word in _WONDERING)
_WORD: Final = regex(r"\w+")
_TURN_MAX: Final = 10
PATTERNS: Final = (_REPORTED, _SAID_AFTER, _ASKS, _WONDERS, _TURNED, _ONCE)


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def is_meant(before: str, said: str, after: str) -> bool:
    """Whether a phrase says what its speaker wants to hold.

    `before` and `after` are what stands around it in its sentence, lead-ins with a colon included:
    at most `LOOKED_BACK` characters and one sentence.
    """
    words = frozenset(_WORD.findall(before.lower()))
    if not words.isdisjoint(_REPORT) and _found(_REPORTED, before):
        return False
    if not words.isdisjoint(_WONDER) and _found(_WONDERS, before):
        return False
    if _found(_TURNED, before[-_TURN_MAX:]) or _found(_SAID_AFTER, after):
        return False
    if after.rstrip().endswith("?") and _found(_ASKS, before):
        return False
    clause = f"{_limit(before)}{said}{_clause(after)}"
    if not _found(_ONCE, clause):
        return True
    sentence = f"{before}{said}{after}".lower()
    return any(phrase in sentence for phrase in _FOR_GOOD)


def _found(pattern: str, text: str) -> bool:
    return _compiled(pattern).search(text) is not None


def _limit(before: str) -> str:
    """What belongs to a phrase before it: its clause, and a first one that limits it."""
    head, comma, tail = before.rpartition(",")
    limits = comma and head.lstrip().lower().startswith(("for ", "in ", "on ", "with ", "this "))
    return before if limits else tail


def _clause(after: str) -> str:
    return after.partition(",")[0]
