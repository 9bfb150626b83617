"""Find markers in a text: `Decision: ...` at a line start, standing instructions, preferences.

A line start is a word and a colon at the beginning of a line, in anything but a tool's text. A
standing instruction or a preference is looked for in what a user says, sentence by sentence. What
is to hold from now on reads much like what is not, so a phrase alone decides nothing: a pattern is
tried on the sentence around it, and the match must not be a question, a report about others or a
wish for this once. Fenced code, quoted lines and what comes late in a long text are passed over,
because they are quoted rather than said. The tables are the policy's.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from memplane.kernel import Literals, kernel_twin
from memplane.lazy import regex, word_table
from memplane.policy.records import normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memplane.policy.records import Markers

# Characters of a text that are looked at: for line starts, and for what a user wants.
_LINES_MAX: Final = 16_000
_SAID_MAX: Final = 2_000
_SENTENCE_MAX: Final = 400  # to either side of a word
_FENCES: Final = ("```", "~~~")
# What a line may begin with before its first word: of a list, a quotation, a heading, in bold.
_BULLETS: Final = " \t>*_+#-\"'(\u2022"
_DIGITS: Final = "0123456789"
# An order may be put as a question or a wish.
_POLITE: Final = (
    r"(?:can|could|would|will) you|i(?:'d| would) like you to|i (?:want|need) you to"
    r"|you (?:should|must|need to|have to)"
)
_BEFORE: Final = (
    r"[ \t*_+#\"'(\u2022-]{0,12}(?:[0-9]{1,3}[.)][ \t]{1,4}[*_]{0,3})?"
    rf"(?:(?:(?P<polite>{_POLITE})|also|and|but|so|ok(?:ay)?|oh|hey|hi|then|btw|yes|no|sure|hmm"
    r"|thanks|thank you|note|important|again|great|perfect|now)[,:!.]?[ \t]{1,4}){0,4}"
)
_ENDS: Final = (". ", "\n", "! ", "? ")
_BEGINS: Final = (*_ENDS, ": ", "; ")
_TOOL_KINDS: Final = frozenset(("tool_call", "tool_result"))
_Sentence = tuple[int, int, str]  # where it begins and ends, and its words
# Words are runs of letters, digits, apostrophes, and whatever is beyond ASCII.
_LETTERS: Final = bytes(
    byte for byte in range(256) if byte >= 128 or chr(byte).isalnum() or chr(byte) == "'"
)
_WORDS: Final = bytes(byte if byte in _LETTERS else 32 for byte in range(256))


class Marker:
    """Finds markers by the patterns of one policy. Safe to share between threads; deterministic.

    It remembers what it found in short texts of users: what is recorded is indexed soon after.
    """

    __slots__ = ("_again", "_before", "_detect", "_lines", "_looks", "_rare", "_rows")

    def __init__(self, markers: Markers) -> None:
        self._detect = markers.detect
        self._lines = {
            normal(word): marker for marker, words in markers.line_starts.items() for word in words
        }
        # By the rarest word of each phrase: one look at a text's words rules out nearly all.
        self._rows: dict[str, list[tuple[str, str, str]]] = {}
        for marker, patterns in markers.standing.items():
            for phrase, pattern in patterns.items():
                low = normal(phrase)
                words = _words(low)
                if pattern and words:
                    rare = max(words, key=lambda word: (word not in _COMMON, len(word)))
                    self._rows.setdefault(rare.decode(), []).append((marker, low, pattern))
        self._rare = kernel_twin(Literals)(tuple(self._rows), _LETTERS)
        self._looks: dict[str, Callable[[str], re.Match[str] | None]] = {}
        self._before: re.Pattern[str] | None = None
        self._again = lru_cache(maxsize=_REMEMBERED)(self._of_user)

    def find(self, text: str, role: str | None, kind: str = "message") -> tuple[str, ...]:
        """The markers of a text, each once, sorted by name."""
        if not self._detect or role == "tool" or kind in _TOOL_KINDS:
            return ()
        if role == "user":
            return self._again(text) if len(text) <= _SAID_MAX else self._of_user(text)
        said = _said(text[:_LINES_MAX])
        return tuple(sorted(set(self._line_starts(said)))) if ":" in said else ()

    def _of_user(self, text: str) -> tuple[str, ...]:
        said = _said(text[:_LINES_MAX])
        found = set(self._line_starts(said)) if ":" in said else set()
        said = said[:_SAID_MAX]
        lowered = said.lower()
        # Where a letter grows when it is made small, places in the two would not agree.
        self._standing(said if len(said) == len(lowered) else lowered, lowered, found)
        return tuple(sorted(found)) if found else ()

    def _line_starts(self, said: str) -> Iterator[str]:
        """The markers of lines that begin with a word of the table and a colon."""
        at = said.find(":")
        while at >= 0:
            line = said.rfind("\n", 0, at) + 1
            if at - line <= _HEAD_MAX:
                marker = self._lines.get(_head(said[line:at]))
                if marker is not None:
                    yield marker
            end = said.find("\n", at)
            at = said.find(":", end) if end >= 0 else -1

    def _standing(self, said: str, lowered: str, found: set[str]) -> None:
        """Add the markers of standing instructions and preferences."""
        sentences: dict[int, _Sentence] = {}  # by place: most words have several patterns
        for word in self._rare.among(lowered.encode("utf-8", "replace")):
            for marker, phrase, pattern in self._rows[word]:
                if marker in found or phrase not in lowered:
                    continue
                if self._states(said, lowered, phrase, pattern, sentences):
                    found.add(marker)

    def _states(
        self, said: str, lowered: str, phrase: str, pattern: str, sentences: dict[int, _Sentence]
    ) -> bool:
        """Whether the pattern is found in a sentence that holds the phrase."""
        looks = self._looks.get(pattern)
        if looks is None:  # on first use: few texts need more than one or two of them
            compiled = re.compile(pattern, re.IGNORECASE)
            looks = compiled.match if _is_anchored(pattern) else compiled.search
            self._looks[pattern] = looks
        at = lowered.find(phrase)
        while at >= 0:
            found = sentences.get(at)
            if found is None:
                found = sentences[at] = self._sentence(said, *_around(said, at))
            begin, end, sentence = found
            match = looks(sentence)
            if match is not None and not _is_quoted(said, at):
                before = _lead(said, begin) + sentence[: match.start()]
                if is_meant(before, match[0], sentence[match.end() :]):
                    return True
            at = lowered.find(phrase, max(end, at + len(phrase)))
        return False

    def _sentence(self, said: str, begin: int, end: int) -> _Sentence:
        """The sentence without what stands before it; an order is one, even as a question."""
        if self._before is None:
            self._before = re.compile(_BEFORE, re.IGNORECASE)
        before = self._before.match(said, begin, end)
        assert before is not None, "nothing at all may stand before"
        sentence = said[before.end() : end].rstrip()
        return begin, end, sentence if before["polite"] is None else sentence.rstrip("?")


_MADE: Final[list[tuple[Markers, Marker]]] = []
_MADE_MAX: Final = 4
_REMEMBERED: Final = 1_024  # texts: more than are recorded before they are indexed


def marker_of(markers: Markers) -> Marker:
    """The marker of a table: one for all that ask by equal tables."""
    for table, made in [*_MADE]:
        if table == markers:
            return made
    made = Marker(markers)
    _MADE.append((markers, made))
    del _MADE[:-_MADE_MAX]
    return made


_COMMON: Final = frozenset(b"a an and at do for from i in is it me my not of on the to you".split())
_INDENT_MAX: Final = 5
_HEAD_MAX: Final = 60  # a word of the table with what may stand around it


def _plain(text: str) -> str:
    """The text with plain apostrophes and colons, as in the tables, and no byte order marks."""
    if text.isascii():
        return text
    return text.replace("\u2019", "'").replace("\uff1a", ":").replace("\ufeff", "")


def _head(line: str) -> str:
    """What a line begins with, behind a bullet or a number."""
    head = line.strip(_BULLETS)
    if head[:1].isdigit():
        head = head.lstrip(_DIGITS)
        head = head[1:].strip(_BULLETS) if head[:1] in (".", ")") else ""
    return head.lower()


def _words(lowered: str) -> list[bytes]:
    return lowered.encode("utf-8", "replace").translate(_WORDS).split()


def _said(text: str) -> str:
    """The text outside fences, plain and without bold print.

    A fence that is left open hides all that follows.
    """
    text = _plain(text)
    if "**" in text:
        text = text.replace("**", "")
    for fence in _FENCES:
        if fence in text:
            text = "\n".join(text.split(fence)[::2])
    return text


def _is_anchored(pattern: str) -> bool:
    """Whether a pattern can only match at the beginning of a text: `^`, and no other branch."""
    depth, at = 0, 1
    while at < len(pattern):
        letter = pattern[at]
        if letter in "[#" or (letter == "|" and not depth):  # sets are not read: better slow
            return False
        depth += (letter == "(") - (letter == ")")
        at += 1 + (letter == "\\")
    return pattern.startswith("^")


def _around(said: str, at: int) -> tuple[int, int]:
    """Where the sentence begins that holds a place, and where it ends."""
    begin = max(0, at - _SENTENCE_MAX)
    for mark in _BEGINS:  # only behind the last one that was found: no mark ends with another
        place = said.rfind(mark, begin, at)
        if place >= 0:
            begin = place + len(mark)
    end = min(len(said), at + _SENTENCE_MAX)
    for mark in _ENDS:
        place = said.find(mark, at, end)
        if place >= 0:
            end = place + 1
    return begin, end


def _lead(said: str, begin: int) -> str:
    """What leads to a sentence behind a colon: `He told me: `."""
    least = max(0, begin - LOOKED_BACK)
    places = [(said.rfind(mark, least, begin), len(mark)) for mark in _ENDS]
    return said[max([least, *(at + size for at, size in places if at >= 0)]) : begin]


def _is_quoted(said: str, at: int) -> bool:
    """Whether the line at this place is quoted from somebody: `> …`."""
    line = said.rfind("\n", 0, at) + 1
    return said[line : line + _INDENT_MAX].lstrip().startswith(">")


# Whether a user says a sentence for himself and for good: not asked, not told of others, not once.
#
# "What would I prefer?", "He told me: always be closing" and "Don't send it yet" hold the words of
# a standing instruction or a preference, and are none. English, like the tables of phrases.

LOOKED_BACK: Final = 200  # characters before a sentence that may say whose words it has

_OTHERS: Final = (
    r"(?:\b(?:he|she|they|it|who|somebody|someone|everybody|everyone|people|(?:my|our|his|her|their"
    r"|the|a|an) \w+(?: \w+)?)|^\W*(?!(?:I|we|you|as|like|that)\b)\w+)"
)
# Word by word, too: a pattern is tried only where one of its words is there, which is far quicker.
_SAYING: Final = word_table("""
    told tells tell said says say wrote writes write read reads replied asked asks think thinks
    thought claims claimed insists insisted goes telling saying
""")
_SOURCES: Final = word_table("""
    motto slogan saying proverb quote quotation advice headline title caption lyrics song poster
    sign banner
""")
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
    "tell",
    "remind",
    "ask",
    "know",
    "remember",
    "recall",
    "guess",
    "wonder",
    "wondering",
    "decide",
    "figure out",
    "find out",
    "see",
    "check",
    "sure",
    "idea",
    "forgot",
    "forgotten",
    "explain",
)
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
    "always",
    "never",
    "whenever",
    "from now on",
    "from here on",
    "every time",
    "each time",
    "any time",
    "anytime",
    "going forward",
    "moving forward",
    "in future",
    "in the future",
    "by default",
    "at all times",
    "under no circumstances",
)
_REPORT: Final = frozenset((*_SAYING, *_SOURCES, *_UNSAID))
_WONDER: Final = frozenset(word.partition(" ")[0] for word in _WONDERING)
_WORD: Final = regex(r"\w+")
_TURN_MAX: Final = 10
PATTERNS: Final = (_REPORTED, _SAID_AFTER, _ASKS, _WONDERS, _TURNED, _ONCE)


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def is_meant(before: str, said: str, after: str) -> bool:
    """Whether the speaker of a phrase wants it to hold, rather than quoting, asking or denying it.

    `before` and `after` are the rest of its sentence, lead-ins with a colon included: at most
    `LOOKED_BACK` characters and one sentence.
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


# What stands where a secret stood: `[redacted:<rule>]`. Marks are never broken by other rules.

Span = tuple[int, int]

MARK: Final = regex(r"\[redacted:[a-z0-9-]{1,40}\]")


def widened(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Non-empty spans from left to right, widened to the redaction marks that they touch."""
    marks = MARK.finditer(text) if "[redacted:" in text else iter(())
    mark = next(marks, None)
    for first, last in spans:
        start, end = first, last
        if start == end:
            continue
        while mark is not None and mark.end() <= start:
            mark = next(marks, None)
        while mark is not None and mark.start() < end:
            start, end = min(start, mark.start()), max(end, mark.end())
            if end > last:  # the next span may touch the rest of this mark
                break
            mark = next(marks, None)
        yield start, end


def merge_spans(found: Iterable[Span], others: Iterator[Span]) -> Iterator[Span]:
    """The spans of two searches merged from left to right; each input is sorted."""
    other = next(others, None)
    for span in found:
        while other is not None and other < span:
            yield other
            other = next(others, None)
        yield span
    if other is not None:
        yield other
        yield from others
