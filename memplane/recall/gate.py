"""Decide whether a memory has something that a prompt needs, and choose the passages to say.

A coding agent's user types many prompts to which a memory should say nothing: small talk, orders
about the work at hand. The rule compares three counts with the thresholds of a policy:

- `matched`: content words of the prompt that stand in the best remembered passage,
- `known`: rare words and identifiers of the prompt that the memory holds anywhere,
- `new`: those of them that the running session has not said yet.

A short question whose words all stand in one passage is answered, too, where they are new, and one
that names an identifier whose parts stand together in one: `loadTideTable` in "load the table of
the tides".

Where a tool failed or worked on a file, a passage may be said that names the file or an identifier
of the failure, and decides something or warns.

It was fitted on labelled prompts of real transcripts and confirmed on sessions that had been kept
back; the figures are in docs/decisions. Everything here is a function of texts and counts.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from memplane.harness import remembered
from memplane.index.terms import Word, stem, text_words
from memplane.lazy import NamedTuple, late, regex
from memplane.projections.files import touched_by
from memplane.projections.function_words import FUNCTION_WORDS

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from memplane.event import Event
    from memplane.index import terms as index_terms
    from memplane.policy.records import AnswerRule
    from memplane.projections.item import Item
else:
    index_terms = late("memplane.index.terms")

PASSAGE_CHARACTERS: Final = 320
_EVENT_CHARACTERS: Final = 16_000  # of one event that are cut into passages
_STATEMENT_CHARACTERS: Final = 240
_STATEMENT_WORDS: Final = 3  # content words of a statement, at least
_LETTERS_MIN: Final = 3
TIED_MAX: Final = 8  # content words of a question that is answered by the parts of an identifier
_NEAR_MIN: Final = 2  # content words of a prompt in the best passage, where a text is near it
_COVERED_MIN: Final = 2  # content words of a question that one passage may answer whole
_FAILED: Final = "error"  # the status of a result
_HEX: Final = frozenset("0123456789abcdef")
_OUTPUT_PART: Final = 2_000  # characters of what failed: the first and the last so many
_NAMES_MAX: Final = 64  # of one call
_TOKEN_MAX: Final = 400  # characters of a run without blanks that are looked at


class GateFigures(NamedTuple):
    """The counts by which the rule decides.

    `content`: content words of the prompt; `named`: identifiers of a short one that are known;
    `tied`: identifiers of a very short one whose parts stand together in one of the best passages.
    `cosine`: of the nearest remembered text, in per cent; 0 where no vectors are asked for.
    """

    content: int = 0
    matched: int = 0
    known: int = 0
    new: int = 0
    named: int = 0
    asks: bool = False
    tied: int = 0
    cosine: int = 0


class Passage(NamedTuple):
    """A part of an event's text, without blanks around it. `score`: in 2**-20, 0 if none asked.

    `whole`: it is all of the text.
    """

    item: Item
    start: int
    text: str
    whole: bool = False
    score: int = 0


# Words in a row that a text has of a prompt only where it quotes that: all of a short one, but of
# a few words like "windlass grease?" an answer has all as well.
_QUOTED_WORDS: Final = 8
_QUOTED_LEAST: Final = 5
_BEFORE_MAX: Final = 4  # words before a quotation that say no more than who asked
_PROMPT_WORDS_MAX: Final = 1_000


class Quoted:
    """Takes out of texts the lines that quote a prompt.

    They have eight words of it in a row, or all of 5 to 7. A line that goes on behind it stays, and
    one with more before it than who said so ("The user asked:"). Case and marks around words do not
    count. Of a shorter prompt nothing is a quotation.
    """

    def __init__(self, prompt: str) -> None:
        words = [word for word in map(_bare, prompt.split()[:_PROMPT_WORDS_MAX]) if word]
        self._size = size = min(len(words), _QUOTED_WORDS)
        starts = range(len(words) - size + 1) if size >= _QUOTED_LEAST else ()
        self._runs = {tuple(words[at : at + size]) for at in starts}

    def without(self, text: str) -> str:
        """Return the other lines of a text."""
        return "\n".join(line for line in text.split("\n") if not self._is_one(line))

    def _is_one(self, line: str) -> bool:
        words = [word for word in map(_bare, line.split()) if word]
        size, quoted = self._size, set[int]()
        for at in range(len(words) - size + 1):
            if tuple(words[at : at + size]) in self._runs:
                quoted.update(range(at, at + size))
        goes_on = len(words) - 1 not in quoted
        return not goes_on and len(words) - len(quoted) <= _BEFORE_MAX


def _bare(word: str) -> str:
    """The word in small letters, without the marks around it."""
    start, end = 0, len(word)
    while start < end and not word[start].isalnum():
        start += 1
    while start < end and not word[end - 1].isalnum():
        end -= 1
    return word[start:end].lower()


class PromptAnswer(NamedTuple):
    """What the memory holds for a prompt.

    `passages`: best first, all that were ranked, whether or not the gate opens. `index_seq`: the
    last seq that the index held.
    """

    figures: GateFigures
    passages: tuple[Passage, ...] = ()
    index_seq: int = 0


class PromptWords(NamedTuple):
    """What a prompt asks for. `content`, `rare` and `named` are stems or whole identifiers.

    `rare`: content words that are not common in general English or in talk about code. `named`:
    whole identifiers, paths and file names, part of `rare`. `asks`: it holds a question word.
    `composed`: of each identifier the stems of its parts, where it has two and more.
    """

    content: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    asks: bool = False
    composed: tuple[tuple[str, ...], ...] = ()


def read_prompt(text: str, common: Container[str]) -> PromptWords:
    """Return the words of a prompt; `common`: words and stems that name nothing in particular."""
    found = content_words(text)
    rare = tuple(
        word.text
        for word in found
        if word.whole or (word.text not in common and word.lower not in common)
    )
    named = tuple(word.text for word in found if word.whole)
    content = tuple(word.text for word in found)
    asks = text.rstrip().endswith("?") or _QUESTION.search(text) is not None
    composed = _composed(text) if len(content) <= TIED_MAX else ()
    return PromptWords(content, rare, named, asks, composed)


def _composed(text: str) -> tuple[tuple[str, ...], ...]:
    found: dict[tuple[str, ...], None] = {}
    for token in _WORD.findall(text):
        words = [*text_words(token)]
        if words and words[-1].whole:
            parts = tuple(one.text for one in words[:-1] if len(one.lower) >= _LETTERS_MIN)
            if len(parts) > 1:
                found[parts] = None
    return tuple(found)


def content_words(text: str) -> list[Word]:
    """Return the distinct words of a text that say something, in order of first occurrence.

    Function words, words of talking, numbers and words of one or two letters say nothing.
    """
    found: dict[str, Word] = {}
    for word in text_words(text):
        if word.text in found:
            continue
        if word.whole or word.joined or _says(word):
            found[word.text] = word
    return list(found.values())


def _says(word: Word) -> bool:
    if len(word.lower) < _LETTERS_MIN or word.lower.isdecimal():
        return False
    return word.lower not in FUNCTION_WORDS


def tool_names(event: Event) -> tuple[str, ...]:
    """Return what a call of a tool names, as `text_words` has it: wholes alone, the first 64.

    Of a failure (its result): identifiers, paths and file names of the command and of what came
    back; else the file that was worked on. Empty for anything else, and for what only looks around.
    """
    path, text = "", ""
    if event.kind == "tool_result" and event.data.get("status") == _FAILED:
        command, said = str(event.data.get("command", "")), remembered(event).text
        text = f"{command}\n{said[:_OUTPUT_PART]}\n{said[_OUTPUT_PART:][-_OUTPUT_PART:]}"
    elif event.kind == "tool_call":
        touch = touched_by(event)
        path = "" if touch is None else touch[0]
    return tuple(named_words(f"{path}\n{text}")[:_NAMES_MAX])


def is_open(figures: GateFigures, rule: AnswerRule) -> bool:
    """Say whether the memory speaks: integer comparisons with the thresholds of the policy."""
    if rule.when != "relevant":
        return rule.when == "always"
    content, matched, known, new, named, asks, tied, cosine = figures
    if not known:
        return False
    asked_new = 100 * new >= rule.asked_new_percent * known
    if matched >= rule.matched and 100 * new >= rule.new_percent * known:
        return True
    near = 0 < rule.cosine_percent <= cosine and matched >= _NEAR_MIN and asked_new
    if near or (asks and tied):
        return True
    covered = matched == content and matched >= _COVERED_MIN
    if not asks or not (covered or matched >= rule.asked_matched):
        return False
    return bool(named) or asked_new


def passages_of(item: Item, text: str, most: int) -> Iterator[Passage]:
    """Yield the passages of an event's text, of at most `most` characters, in order."""
    for start, end in split_passages(text[:_EVENT_CHARACTERS], most):
        said = text[start:end].strip()
        yield Passage(item, start, said, len(said) == len(text.strip()))


def statements_of(item: Item, text: str) -> list[Passage]:
    """The passages of a text that say something: of 240 characters, with three content words."""
    return [
        one
        for one in passages_of(item, text, _STATEMENT_CHARACTERS)
        if count_content(one.text) >= _STATEMENT_WORDS
    ]


def distinct_passages(passages: Iterable[Passage], gist: Callable[[str], str]) -> list[Passage]:
    """The first of those of one `gist`, which is given a text in lower case, in their order."""
    found: dict[str, Passage] = {}
    for one in passages:
        found.setdefault(gist(one.text.lower()), one)
    return list(found.values())


def letters_of(text: str) -> str:
    """The gist of texts that differ in numbers or marks alone."""
    return "".join(filter(str.isalpha, text))


def split_passages(text: str, most: int = PASSAGE_CHARACTERS) -> list[tuple[int, int]]:
    """Return the spans of runs of whole sentences of at most `most` characters; they are the text.

    A sentence of more than 300 characters is cut between words.
    """
    found: list[tuple[int, int]] = []
    for start, end in index_terms.sentences(text):
        if found and end - found[-1][0] <= most:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return [(start, end) for start, end in found if text[start:end].strip()]


class TextWords:
    """Counts some words in texts without reading all words of a text.

    A wanted word begins with its stem, but for a last e or i, or is an irregular form: tokens
    around such beginnings are analysed, the rest is passed over.
    """

    def __init__(self, wanted: Collection[str], irregular: Mapping[str, str]) -> None:
        """`wanted`: stems and wholes. `irregular`: forms and the words they stand for."""
        self._wanted = frozenset(wanted)
        odd = {**irregular, **_ODD}
        forms = (form for form, word in odd.items() if stem(word) in self._wanted)
        found = {_beginning(word) for word in wanted}.union(forms)
        # One that begins like a shorter one is met with it.
        self._beginnings = sorted(
            one for one in found if not any(one != other and other in one for other in found)
        )
        self._known: dict[str, tuple[str, ...]] = {}

    def count(self, text: str) -> dict[str, int]:
        """Return how often each wanted word stands in the text; absent ones are left out."""
        found: dict[str, int] = {}
        for token in self._tokens(text):
            words = self._known.get(token)
            if words is None:
                words = self._known[token] = self._words(token)
            for word in words:
                found[word] = found.get(word, 0) + 1
        return found

    def _tokens(self, text: str) -> Iterable[str]:
        lower = text.lower()
        if len(lower) != len(text):
            return text.split()
        starts = {
            _token_start(text, at)
            for one in self._beginnings
            if one in lower
            for at in _places(lower, one)
        }
        return [text[start : start + _TOKEN_MAX].split(maxsplit=1)[0] for start in sorted(starts)]

    def _words(self, token: str) -> tuple[str, ...]:
        return tuple(word.text for word in text_words(token) if word.text in self._wanted)


# Forms that the stemmer knows by themselves and that do not begin with their stem.
_ODD: Final = {"dying": "die", "lying": "lie", "tying": "tie", "skies": "sky"}


def _beginning(word: str) -> str:
    return word[:-1] if len(word) > 2 and word[-1] in "ei" else word


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _token_start(text: str, at: int) -> int:
    """Where the token that holds a place begins: behind the blank before it."""
    least = max(at - _TOKEN_MAX, 0)
    return max(text.rfind(blank, least, at) for blank in " \n\t\r") + 1 or least


def sentence_marks(text: str) -> list[str]:
    """Return a hash of each sentence or line by its letters and digits: 48 bits in hex.

    Two that differ in case, blanks or marks of layout alone have one; one without letters has none.
    """
    found = ("".join(filter(str.isalnum, text[a:b])) for a, b in index_terms.sentences(text))
    return [
        blake2b(said.lower().encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        for said in found
        if said
    ]


def are_marks(given: Sequence[object]) -> bool:
    """Say whether all of these are texts as `sentence_marks` makes them."""
    return all(isinstance(one, str) and len(one) == 12 and set(one) <= _HEX for one in given)


def all_marked(text: str, marks: Collection[str]) -> bool:
    """Say whether a text has sentences, and each of them is one of those with these marks."""
    found = sentence_marks(text) if marks else []
    return bool(found) and all(mark in marks for mark in found)


def count_content(text: str) -> int:
    """Return how many distinct words of a text say something, without stemming them."""
    words = {word for token in _WORD.findall(text) for word in token.lower().split("_")}
    return sum(
        len(word) >= _LETTERS_MIN and not word.isdecimal() and word not in FUNCTION_WORDS
        for word in words
    )


def decides(text: str) -> bool:
    """Say whether a text holds a word by which people decide or wish something."""
    return _DECIDES.search(text) is not None


def is_remark(text: str, *, decided: bool = False) -> bool:
    """Say whether a text warns or names a cause, or decides where that counts.

    What one is about to do is none. An assistant decides at every step, so there it does not count.
    """
    lower = text.lower()
    if _WARNS.search(lower) is None and not (decided and decides(text)):
        return False
    return _PROCESS.search(lower) is None


def named_words(text: str) -> list[str]:
    """Return the identifiers, paths and file names of a text, each once."""
    return [*dict.fromkeys(word.text for word in text_words(text, _none) if word.whole)]


def _none(_: str) -> bool:
    return False


_WORD: Final = regex(r"\w+")
_DECIDES: Final = regex(
    r"\b(?:should|must|let's|instead|rather|always|never|prefer|decided?|agree|want|use|keep|drop"
    r"|don't|no,|soll(?:te|ten|en)?|muss|müssen|stattdessen|lieber|immer|nie|niemals|nimm|nehmen"
    r"|behalten?|entschieden|einverstanden|will|möchte|kein[es]?)\b",
    2,  # re.IGNORECASE
)
# Of texts in lower case: that is twice as quick.
_WARNS: Final = regex(
    r"\b(?:because|never|must|avoid|careful|beware|trap|instead|deprecated|flaky|broken|breaks?"
    r"|wrong|fails?|failed|crash(?:es|ed)?|bug|forbidden|required|don't|doesn't|does not exist"
    r"|do not|cannot|can't|won't|weil|nie|muss|müssen|statt|stattdessen|vermeiden?|vorsicht|kaputt"
    r"|falsch|schlägt fehl|fehlschlägt|verboten|darf nicht|dürfen nicht)\b"
)
_PROCESS: Final = regex(
    r"\b(?:let me|i'll|i will|i'm going|now i|i need to|want me to|would you like|do you want"
    r"|should i|shall i|here's what|ich werde|ich will|jetzt|soll ich|möchtest du)\b"
)
_QUESTION: Final = regex(
    r"\b(?:where|why|what|how|which|when|who|do we|should we|wo|warum|wieso|was|wie|welche[rsnm]?"
    r"|wann|wer|sollen wir)\b",
    2,  # re.IGNORECASE
)
