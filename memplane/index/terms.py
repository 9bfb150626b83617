"""The analyser: turn text into terms, each a hash of 64 bits.

A *word* is a stem (Snowball English, Porter 2001; irregular forms mapped to one), a number, the
whole of an identifier or path beside its parts, or two neighbouring characters of a Hangul, CJK or
kana run. A *bigram* is an unordered pair of neighbouring words after stop words are gone. A
*prefix* is the first five letters of a word of six or more. A word with accents is found without
them too (`folded_letters`).

Two texts that differ only in case, quotes, digit grouping or compatibility forms of
characters have the same terms. Python's `re` decides which characters are letters.

A `Document` is what the index takes. `passage` picks the best run of whole sentences of a long
text; `ask` finds out from English patterns who is meant by a question and how broad it is.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from memplane.index.stems import ENDINGS, numbered_stem, shipped_stems, snowball
from memplane.kernel import Literals, kernel_twin
from memplane.lazy import NamedTuple, regex, word_table

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
        Set as AbstractSet,
    )


ANALYSER: Final = 4  # raise it when a text gets other terms or traits
KINDS: Final = ("words", "bigrams", "prefixes", "labels")
PREFIX_LETTERS: Final = 5
VOCABULARY_MAX: Final = 400_000  # tokens remembered; hex ids would otherwise fill the memory
_TOKEN_MAX: Final = 60

_MASK: Final = (1 << 64) - 1
MIX: Final = 0x9E3779B97F4A7C15

# A surface is what belongs together: don't, well-known, src/parse_url.py, std::vec, 3.5
surfaces: Final = re.compile(r"\w+(?:['./\\:-]+\w+)*").findall
_AROUND: Final = ".,;:!?()[]{}<>*`\"'\n\t "
_DIGIT_GROUPS: Final = regex(r",(?<=\d,)(?=\d{3}(?!\d))")
_WORD: Final = regex(r"\w+")
_EAST_ASIAN: Final = (
    "\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUNS: Final = regex(f"[{_EAST_ASIAN}]+|[^{_EAST_ASIAN}]+")
_EAST: Final = regex(f"[{_EAST_ASIAN}]")
_INNER_CAPITAL: Final = regex(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PLURAL_ACRONYM: Final = regex(r"[A-Z]{2,}s")
_PARTS: Final = regex(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_CODE: Final = regex(r"[A-Za-z]+(?:-\d+)+")
_FILE: Final = regex(r"[\w-]{2,}(?:[.-]\w+)*\.[A-Za-z]\w{0,4}")
_SEPARATORS: Final = regex(r"[/\\]+")
_ENDINGS: Final = tuple(ending.encode() for ending in ENDINGS)


class Atom(NamedTuple):
    """One word of a surface: its term, its prefix term (0: none), whether pairs may use it."""

    word: int
    prefix: int
    chained: bool


class Terms(NamedTuple):
    """The terms of a text, repeated as often as they occur, in order."""

    words: list[int]
    bigrams: list[int]
    prefixes: list[int]


class Query(NamedTuple):
    """What to look for: distinct terms with their weights, in rising order of the term.

    `related` are words that a table or lexicon added: scored apart, no part of coverage.
    """

    words: tuple[tuple[int, float], ...] = ()
    bigrams: tuple[tuple[int, float], ...] = ()
    prefixes: tuple[tuple[int, float], ...] = ()
    related: tuple[tuple[int, float], ...] = ()


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the stem that stands for a lower-case word."""
    word = IRREGULAR.get(word, word)
    if not word.endswith(ENDINGS) and word[:1] != "'":
        return word
    found = numbered_stem(word) or shipped_stems().stem(word)
    return snowball(word) if found is None else found


def _number(kind: bytes, text: str) -> int:
    # 0 stands for no term.
    data = kind + text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") or 1


# The terms of an exact label, and of a word as it is: a stem, or a whole that is not stemmed.
exact_term: Final = lru_cache(maxsize=100_000)(partial(_number, b"l"))
whole_term: Final = partial(_number, b"w")


def mix(left: int, right: int) -> int:
    """Return the bigram of two words, in either order."""
    # Words are evenly spread over all numbers, so one product spreads their pairs as well.
    return (left * MIX + right if left <= right else right * MIX + left) & _MASK


def _composed(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text.replace("\u2019", "'").replace("\u02bc", "'"))


def normalise_text(text: str) -> str:
    """Return the text with one form of quotes, digits and composed characters."""
    text = _composed(text)
    return _DIGIT_GROUPS.sub("", text) if "," in text else text


# Letters that no accent can be taken from, and what they are written as without.
_PLAIN: Final = str.maketrans(
    dict(zip("ßæœøđðþłħŧ\u0131", word_table("ss ae oe o d d th l h t i"), strict=True))
)
_ACCENTED: Final = regex("[\u00df-\u024f\u0370-\u03ff\u0451\u1e00-\u1fff]")


def folded_letters(word: str) -> str:
    """Return a lower-case word with plain letters for accented Latin and Greek ones.

    Marks of other scripts are no accents: without them a word is another one.
    """
    if word.isascii() or not _ACCENTED.search(word):
        return word
    return _ACCENTED.sub(_plain, word)


def _plain(found: re.Match[str]) -> str:
    letters = unicodedata.normalize("NFD", found[0].translate(_PLAIN))
    return "".join(one for one in letters if unicodedata.category(one) != "Mn")


@lru_cache(maxsize=200_000)
def _token(token: str) -> tuple[Atom, ...]:
    """Give the words of one run of word characters, the whole of an identifier last."""
    if not token.isascii() and _EAST.search(token):
        return tuple(_east(token))
    found: list[Atom] = []
    parts, whole = _pieces(token)
    for part in parts:
        if part in STOP or (len(part) == 1 and not part.isdecimal()):
            continue
        if part.isdecimal():
            # 05 and 5 are the same day of a month.
            found.append(
                Atom(whole_term(str(int(part)) if len(part) == 2 else part), 0, chained=True)
            )
            continue
        long = len(part) > PREFIX_LETTERS and part.isalpha()
        prefix = _number(b"p", part[:PREFIX_LETTERS]) if long else 0
        found.append(Atom(whole_term(stem(part)), prefix, chained=True))
        folded = folded_letters(part)
        if folded != part and folded not in STOP:
            found.append(Atom(whole_term(stem(folded)), 0, chained=False))
    if whole:
        found.append(Atom(whole_term(whole), 0, chained=False))
    return tuple(found)


def _east(token: str) -> Iterator[Atom]:
    for run in _RUNS.findall(token):
        if not _EAST.match(run):
            yield from _token(run)
        elif len(run) == 1:
            yield Atom(whole_term(run), 0, chained=True)
        else:
            for left, right in pairwise(run):
                yield Atom(whole_term(left + right), 0, chained=True)


def _pieces(token: str) -> tuple[list[str], str]:
    """Return the words of a run of word characters in lower case, and the whole of several."""
    if _PLURAL_ACRONYM.fullmatch(token):
        token = token[:-1]  # PDFs are PDF; the stemmer sees no vowel and would leave the s
    parts = [
        part.lower()
        for piece in token.split("_")
        if piece
        for part in (
            _PARTS.findall(piece) if piece.isascii() and _INNER_CAPITAL.search(piece) else (piece,)
        )
    ]
    return parts, token.lower().strip("_") if len(parts) > 1 else ""


def _whole(surface: str) -> Iterator[str]:
    """Give the forms under which a composed surface is also found as one."""
    lower = surface.lower()
    if "/" in surface or "\\" in surface:
        parts = [part for part in _SEPARATORS.split(lower) if part]
        named = bool(parts and _FILE.fullmatch(parts[-1]))
        if len(parts) > 2 or named:
            yield "/".join(parts)
        if named:
            yield parts[-1]
    elif "::" in surface or _CODE.fullmatch(surface) or _FILE.fullmatch(surface):
        yield lower


def atoms(surface: str) -> list[Atom]:
    """Return the words that one surface stands for."""
    if "'" in surface:
        if surface.lower().endswith("n't"):
            return []
        return [atom for piece in surface.split("'") for atom in atoms(piece)]
    tokens = _WORD.findall(surface)
    if len(tokens) == 1:
        return list(_token(tokens[0]))
    found = [atom for token in tokens for atom in _token(token)]
    found += map(_whole_atom, _whole(surface))
    return found


class Word(NamedTuple):
    """One word of a text as a string.

    `text`: what its term is made of, a stem or a whole in lower case. `lower`: the word before it
    was stemmed. `whole`: an identifier, a path or a file name as one. `joined`: two neighbouring
    characters of an East Asian run.
    """

    text: str
    lower: str
    whole: bool = False
    joined: bool = False


def text_words(text: str, may: Callable[[str], bool] | None = None) -> Iterator[Word]:
    """Yield the words of a text, in the order of its terms, without stop words.

    The strings behind the terms of `analyse`, those without accents left out. `may` is called with
    each word in lower case before it is stemmed; False leaves it out.
    """
    for surface in surfaces(normalise_text(text)):
        yield from _surface_words(surface, may)


def _surface_words(surface: str, may: Callable[[str], bool] | None) -> Iterator[Word]:
    if "'" in surface:
        if not surface.lower().endswith("n't"):
            for piece in surface.split("'"):
                yield from _surface_words(piece, may)
        return
    tokens = _WORD.findall(surface)
    for token in tokens:
        east = not token.isascii() and _EAST.search(token)
        yield from _east_words(token, may) if east else _token_words(token, may)
    if len(tokens) > 1:
        for whole in _whole(surface):
            yield Word(whole, whole, whole=True)


def _east_words(token: str, may: Callable[[str], bool] | None) -> Iterator[Word]:
    for run in _RUNS.findall(token):
        if not _EAST.match(run):
            yield from _token_words(run, may)
        elif len(run) > 1:
            for left, right in pairwise(run):
                yield Word(left + right, left + right, joined=True)


def _token_words(token: str, may: Callable[[str], bool] | None) -> Iterator[Word]:
    parts, whole = _pieces(token)
    for part in parts:
        if part in STOP or (len(part) == 1 and not part.isdecimal()):
            continue
        if may is None or may(part):
            yield Word(part if part.isdecimal() else stem(part), part)
    if whole:
        yield Word(whole, whole, whole=True)


class TokenNumbers:
    """Numbers of the tokens of texts: of what stands between blanks. Its twin is in `_kernel.c`.

    `pieces` are what a token of more than `longest` characters is looked up by. With `grown` the
    numbers are those of a `TermVocabulary`, to which the twin adds new tokens itself as
    `TermVocabulary.__missing__` does: the signs around tokens, a `TokenParts`, and the columns.
    """

    __slots__ = ("_longest", "_pieces")

    def __init__(
        self,
        pieces: Callable[[str], list[str]],
        longest: int,
        grown: tuple[bytes, TokenParts, tuple[array[int] | None, ...]] | None = None,
        /,
    ) -> None:
        del grown
        self._pieces, self._longest = pieces, longest

    def of(self, text: str, numbers: Mapping[str, int]) -> bytes:
        """The numbers in order, as an array `I` has them.

        Always asked with the same `numbers`, which change for no token.
        """
        tokens = text.split()
        if tokens and max(map(len, tokens)) > self._longest:
            tokens = [
                piece
                for token in tokens
                for piece in (self._pieces(token) if len(token) > self._longest else (token,))
            ]
        return array("I", map(numbers.__getitem__, tokens)).tobytes()


def _pieces_of(token: str) -> list[str]:
    # Data without blanks: such a token does not come again, its words may.
    return surfaces(_DIGIT_GROUPS.sub("", token))


class TokenParts:
    """The words of tokens and their traits, as `other` gives them. Its twin is in `_kernel.c`.

    The twin asks `word` for a run of word characters and remembers it; `other` it asks for what is
    no short ASCII. A word with a digit, whose traits are always what `numbered` returns, it reads
    itself, but for parts with one of the `endings`, which may have to be stemmed.
    """

    __slots__ = ("_other",)

    def __init__(
        self,
        word: Callable[[str], tuple[tuple[Atom, ...], int]],
        other: Callable[[str], tuple[tuple[Atom, ...], int]],
        endings: tuple[bytes, ...],
        numbered: Callable[[], int],
    ) -> None:
        del word, endings, numbered
        self._other = other

    def of(self, token: str) -> tuple[bytes, bytes, bytes, int]:
        """The words of a token in columns, as `TermVocabulary` has them, and its traits."""
        found, traits = self._other(token)
        words, prefixes, chained = zip(*found, strict=True) if found else ((), (), ())
        return (
            array("Q", words).tobytes(),
            array("Q", prefixes).tobytes(),
            array("B", chained).tobytes(),
            traits,
        )


def _no_traits(_: str) -> int:
    return 0


def _word_parts(traits: Callable[[str], int], word: str) -> tuple[tuple[Atom, ...], int]:
    return _token(word), traits(word)


def _whole_atom(text: str) -> Atom:
    return Atom(whole_term(text), 0, chained=False)


def _token_parts(traits: Callable[[str], int], token: str) -> tuple[tuple[Atom, ...], int]:
    found = [atom for surface in surfaces(_DIGIT_GROUPS.sub("", token)) for atom in atoms(surface)]
    bits = 0
    for word in _WORD.findall(token):
        bits |= traits(word)
    return tuple(found), bits


class TermVocabulary(dict[str, int]):
    """Tokens seen so far, each with the number of its expansion in the flat columns.

    A token is what stands between blanks, its surfaces and what surrounds them: no surface
    spans a blank, and to look up `(word),` whole is quicker than to find the word in it.
    The columns are arrays so that a build can look all words of a batch up at once.
    """

    def __init__(self, traits: Callable[[str], int] | None = None) -> None:
        """`traits` gives 32 bits of a run of word characters; a token has those of all in it.

        They are kept beside its words; without it there are none. All words with a digit have the
        same.
        """
        super().__init__()
        self._traits = traits
        self.traits = array("I")
        self.words = array("Q")
        self.prefixes = array("Q")
        self.chained = array("B")
        self.starts = array("I", [0])
        self.expansions: Mapping[int, tuple[Atom, ...]] = _Expansions(
            self.starts, self.words, self.prefixes, self.chained
        )
        given = traits or _no_traits
        self._parts = kernel_twin(TokenParts)(
            partial(_word_parts, given), partial(_token_parts, given), _ENDINGS, partial(given, "0")
        )
        noted = None if traits is None else self.traits
        columns = self.words, self.prefixes, self.chained, noted, self.starts
        self._numbers = kernel_twin(TokenNumbers)(
            _pieces_of, _TOKEN_MAX, (_AROUND.encode(), self._parts, columns)
        )

    def __missing__(self, token: str) -> int:
        bare = token.strip(_AROUND)
        if bare and bare != token:  # no surface begins or ends with one of these
            number = self[token] = self[bare]
            return number
        words, prefixes, chained, traits = self._parts.of(token)
        self.words.frombytes(words)
        self.prefixes.frombytes(prefixes)
        self.chained.frombytes(chained)
        if self._traits is not None:
            self.traits.append(traits)
        number = self[token] = len(self.starts) - 1
        self.starts.append(len(self.words))
        return number

    def numbers(self, text: str) -> array[int]:
        """Return the expansions of a text, in order."""
        return array("I", self.packed_numbers(text))

    def packed_numbers(self, text: str) -> bytes:
        """The same as the bytes of that array."""
        return self._numbers.of(text if text.isascii() else _composed(text), self)

    def full(self) -> bool:
        """Whether it should be replaced by an empty one."""
        return len(self) >= VOCABULARY_MAX


class _Expansions(dict[int, tuple[Atom, ...]]):
    """The words behind the numbers of a vocabulary, made when first asked for: a build never is."""

    def __init__(
        self, starts: array[int], words: array[int], prefixes: array[int], chained: array[int]
    ) -> None:
        super().__init__()
        self._starts, self._words = starts, words
        self._prefixes, self._chained = prefixes, chained

    def __missing__(self, number: int) -> tuple[Atom, ...]:
        start, end = self._starts[number : number + 2]
        words, prefixes = self._words[start:end], self._prefixes[start:end]
        chained = map(bool, self._chained[start:end])
        found = self[number] = tuple(map(Atom, words, prefixes, chained))
        return found


def _gather(runs: Iterable[array[int]], vocabulary: TermVocabulary) -> Terms:
    expansions = vocabulary.expansions
    words: list[int] = []
    bigrams: list[int] = []
    prefixes: list[int] = []
    for run in runs:
        last = 0
        for number in run:
            for term, prefix, chained in expansions[number]:
                words.append(term)
                if prefix:
                    prefixes.append(prefix)
                if chained:
                    if last:
                        bigrams.append(mix(last, term))
                    last = term
    return Terms(words, bigrams, prefixes)


def analyse(text: str, extra: str, vocabulary: TermVocabulary) -> Terms:
    """Return the terms of a document; no bigram spans its text and its extra."""
    return _gather((vocabulary.numbers(text), vocabulary.numbers(extra)), vocabulary)


@lru_cache(maxsize=1)
def _scaffold() -> frozenset[int]:
    return frozenset(whole_term(text) for text in SCAFFOLD)


def _weighted(terms: Iterable[int]) -> tuple[tuple[int, float], ...]:
    return tuple((term, 1.0) for term in sorted(set(terms)))


def query(text: str) -> Query:
    """Return what a question looks for.

    Words that only frame a question are dropped, unless nothing else is left.
    """
    found = [atom for surface in surfaces(normalise_text(text)) for atom in atoms(surface)]
    content = [atom for atom in found if atom.word not in _scaffold()] or found
    chain = [atom.word for atom in content if atom.chained]
    return Query(
        _weighted(atom.word for atom in content),
        _weighted(mix(left, right) for left, right in pairwise(chain)),
        _weighted(atom.prefix for atom in content if atom.prefix),
    )


# English word lists of the analyser: function words, irregular forms, words of asking.
#
# Other languages pass through untouched; nothing here is needed to find them.
# Changing a list changes what terms a text has: raise `terms.ANALYSER` with it.

# "may" stays out: it is a month more often than it matters as a verb.
_STOP: Final = """
    a about above after again against all am an and any are aren as at
    be because been before being below between both but by
    can cannot could couldn did didn do does doesn doing don down during
    each few for from further had hadn has hasn have haven having he her here hers herself him
    himself his how i if in into is isn it its itself just
    ll me more most must mustn my myself no nor not now
    of off on once only or other our ours ourselves out over own
    re same shan she should shouldn so some such
    than that the their theirs them themselves then there these they this those through to too
    under until up ve very was wasn we were weren what when where which while who whom why will
    with would wouldn you your yours yourself yourselves also
"""
STOP: Final = frozenset(_STOP.split())

_FORMS: Final = """
    go: went gone goes
    buy: bought
    bring: brought
    think: thought
    teach: taught
    catch: caught
    seek: sought
    fight: fought
    take: took taken
    give: gave given
    get: got gotten
    make: made
    see: saw seen
    say: said
    tell: told
    know: knew known
    come: came
    become: became
    run: ran
    begin: began begun
    drink: drank drunk
    sing: sang sung
    swim: swam swum
    ring: rang rung
    eat: ate eaten
    fall: fell fallen
    feel: felt
    find: found
    fly: flew flown
    forget: forgot forgotten
    grow: grew grown
    draw: drew drawn
    throw: threw thrown
    blow: blew blown
    hold: held
    keep: kept
    sleep: slept
    leave: left
    lose: lost
    meet: met
    pay: paid
    ride: rode ridden
    drive: drove driven
    write: wrote written
    rise: rose risen
    choose: chose chosen
    freeze: froze frozen
    speak: spoke spoken
    break: broke broken
    steal: stole stolen
    wake: woke woken
    wear: wore worn
    win: won
    sell: sold
    send: sent
    spend: spent
    build: built
    lend: lent
    stand: stood
    understand: understood
    sit: sat
    shoot: shot
    stick: stuck
    hang: hung
    hear: heard
    hide: hid hidden
    bite: bit bitten
    lead: led
    feed: fed
    mean: meant
    shine: shone
    shake: shook shaken
    child: children kid kids
    man: men
    woman: women
    person: people persons
    foot: feet
    tooth: teeth
    mouse: mice
    life: lives
    wife: wives
    knife: knives
    leaf: leaves
    good: better best
    bad: worse worst
    mother: mum mums mom moms mommy mummy
    father: dad dads daddy
    photo: picture pictures pic pics photograph photographs
    movie: film films
    bike: bicycle bicycles
    tv: television televisions
    job: work works worked working
    apartment: flat flats
"""

# One form to the word whose stem stands for all of them.
IRREGULAR: Final = {
    form: word.strip()
    for line in _FORMS.strip().splitlines()
    for word, _, forms in (line.partition(":"),)
    for form in forms.split()
}

# Stems that a question uses to ask, not to name what it asks for.
_SCAFFOLD: Final = """
    accord across ask aspect bring brought chat clear comprehens convers describ develop differ
    discuss exact explain help item kind list mani mention much opinion order overview progress
    provid recommend said say session suggest summar summari summaris talk tell think thought
    throughout told type walk
"""
SCAFFOLD: Final = frozenset(_SCAFFOLD.split())


ROLES: Final = ("", "user", "assistant", "tool", "system")


class Document(NamedTuple):
    """One chunk of an event. Documents come in the order of (seq, part).

    The index shows `text` and finds a document by `text` and `extra` (speaker, month, year, day,
    weekday, tool, file names). Labels are exact: all that a request can filter by (`ns:/global`,
    `kind:message`, `tag:x`); the group is found like a label.
    """

    seq: int
    part: int = 0
    group: str = ""  # neighbours are smoothed within it (session and namespace); "" has none
    role: str = ""
    speaker: str = ""
    text: str = ""
    extra: str = ""
    tokens: int = 0
    importance: int = 500  # 0..1000
    flags: int = 0  # 16 bits that the index keeps and never reads
    at: int = 0  # a time in whole units of the caller, for since and until
    labels: tuple[str, ...] = ()
    name: int = 0  # 64 bits by which the caller may look for documents; 0 is no name
    kept: bytes = b""  # what the caller keeps beside the document; the index never reads it


def blank_document(seq: int, part: int) -> Document:
    """The document that takes the place of a purged one."""
    return Document(seq, part, importance=0)


# The best passage of a long text: what stands for a turn where the whole would crowd others out.
#
# A passage is a run of whole sentences or lines. Sentences picked from all over a text were
# measured too: they name as many events in the same tokens and say less of the answers.
_SENTENCE_MAX: Final = 300  # characters; a longer one is cut between words
# [.!?][ \t]+ or \n\s* or one of the wide signs: a pattern that begins with one set is found by it.
_END: Final = regex(
    r"[.!?\n\u3002\uff01\uff1f]"
    r"(?:(?<=\n)\s*|(?<=[.!?])[ \t]+|(?<=[\u3002\uff01\uff1f]))"
)


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the spans of the sentences and lines of a text; joined they are the text."""
    spans: list[tuple[int, int]] = []
    start = 0
    for end in [*[match.end() for match in _END.finditer(text)], len(text)]:
        while end - start > _SENTENCE_MAX:
            blank = text.rfind(" ", start + _SENTENCE_MAX // 2, start + _SENTENCE_MAX)
            cut = blank + 1 if blank >= 0 else start + _SENTENCE_MAX
            spans.append((start, cut))
            start = cut
        if end > start:
            spans.append((start, end))
            start = end
    return spans


class WordFilter(NamedTuple):
    """Which texts may hold some words, at a glance: others need no stemming.

    `terms`: the words that it is for. `openings`: letters of which one is in a text that holds any
    of them. `digits`: any text with a digit may.
    """

    terms: frozenset[int]
    openings: tuple[str, ...]
    digits: bool


_DIGIT: Final = regex(r"[0-9]")
_OPENINGS_MAX: Final = 1_024  # texts that the kernel looks for at once
_NO_WORDS: Final = frozenset[int]()


@lru_cache(maxsize=1)
def _forms_of() -> dict[str, list[str]]:
    """The irregular forms of a stem."""
    found: dict[str, list[str]] = {}
    for form, word in IRREGULAR.items():
        found.setdefault(stem(word), []).append(form)
    return found


def word_filter(text: str) -> WordFilter:
    """Return the filter for the words of a question.

    All letters of a stem but the last begin each word that has it, by the rules of Snowball
    English; where a letter and "ying" make a word, only the first does.
    """
    found, openings, digits = set[int](), set[str](), False
    for word in text_words(text):
        said = word.text
        if said.isdecimal():
            found.update(whole_term(form) for form in (said, str(int(said))))
            digits = True
            continue
        found.add(whole_term(said))
        if word.whole:  # of a path other separators may stand in the text
            openings.update(_WORD.findall(said)[:1])
            continue
        kept = 1 if said[1:] == "ie" else len(said) - 1
        openings.update((said[: max(kept, 1)], *_forms_of().get(said, ())))
    return WordFilter(frozenset(found), tuple(sorted(openings)), digits)


class AskedSentences:
    """Where the sentences of texts end, and what they hold of what is asked for.

    Its twin is in `_kernel.c`. A token that has none of the `openings`, and no digit where `digits`
    is set, has the number 0: the twin does not ask for it. `pieces` and `longest` are as for
    `TokenNumbers`.
    """

    __slots__ = ("_numbers",)

    def __init__(
        self,
        openings: tuple[str, ...],
        digits: bool,
        pieces: Callable[[str], list[str]],
        longest: int,
        /,
    ) -> None:
        del openings, digits
        self._numbers = TokenNumbers(pieces, longest)

    def of(self, text: str, numbers: Mapping[str, int], /) -> tuple[bytes, bytes]:
        """The ends of the sentences of a text of ASCII, and rows of a sentence and a number.

        A row for each token of the normalised text whose number is not 0; arrays `I`. Always asked
        with the same `numbers`, which change for no token.
        """
        if not text.isascii():
            raise ValueError("expected a text of ASCII")
        ends, rows = array("I"), array("I")
        for at, (start, end) in enumerate(sentences(text)):
            ends.append(end)
            for number in array("I", self._numbers.of(normalise_text(text[start:end]), numbers)):
                if number:
                    rows.extend((at, number))
        return ends.tobytes(), rows.tobytes()


class AskedTokens(dict[str, int]):
    """Which of the words of a filter a token holds, as found out so far for one request.

    A token is what stands between blanks of a normalised text, and its number that of the words in
    it. One in many never holds a word, and the same ones stand in many texts.
    """

    def __init__(self, only: WordFilter, vocabulary: TermVocabulary) -> None:
        super().__init__()
        self.terms, self._digits, self._vocabulary = only.terms, only.digits, vocabulary
        few = len(only.openings) <= _OPENINGS_MAX
        self._openings = (kernel_twin(Literals) if few else Literals)(only.openings)
        self._numbers = kernel_twin(TokenNumbers)(_pieces_of, _TOKEN_MAX)
        self._sentences = (kernel_twin(AskedSentences) if few else AskedSentences)(
            only.openings, only.digits, _pieces_of, _TOKEN_MAX
        )
        self._held = [_NO_WORDS]

    def __missing__(self, token: str) -> int:
        vocabulary = self._vocabulary
        known = vocabulary.get(token)
        if known is None and self.may(token):
            known = vocabulary[token]
        number = 0
        if known is not None:
            start, end = vocabulary.starts[known : known + 2]
            words = vocabulary.words[start:end]
            if not self.terms.isdisjoint(words):
                number = len(self._held)
                self._held.append(self.terms.intersection(words))
        self[token] = number
        return number

    def may(self, text: str) -> bool:
        """Whether a text may hold one of the words; any with other characters than ASCII may."""
        if not text.isascii():
            return True
        lower = text.lower()
        return bool(self._openings.among(lower)) or (
            self._digits and _DIGIT.search(lower) is not None
        )

    def of(self, text: str) -> frozenset[int]:
        """Which of the words a normalised text holds."""
        numbers = dict.fromkeys(array("I", self._numbers.of(text, self)))
        return _NO_WORDS.union(*map(self._held.__getitem__, numbers))

    def in_sentences(self, text: str) -> tuple[list[tuple[int, int]], list[frozenset[int]]]:
        """The spans of the sentences of a text of ASCII, and which of the words each holds."""
        ends, rows = self._sentences.of(text, self)
        stops = memoryview(ends).cast("I").tolist()
        holds = [_NO_WORDS] * len(stops)
        found, held = memoryview(rows).cast("I").tolist(), self._held
        for at, number in zip(found[::2], found[1::2], strict=True):
            holds[at] = holds[at] | held[number]
        return list(zip([0, *stops], stops, strict=False)), holds


class Sentences:
    """A text cut into sentences, each with its words: the part that no query changes.

    Keep it for the next query; the words of the sentences and the cost of each are found out when
    first asked for.
    """

    __slots__ = ("_costs", "_spans", "_vocabulary", "_words", "text")

    def __init__(self, text: str, vocabulary: TermVocabulary) -> None:
        self.text = text
        self._vocabulary = vocabulary
        self._spans: list[tuple[int, int]] | None = None
        self._words: list[frozenset[int]] | None = None
        self._costs: dict[int, int] = {}

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The spans of the sentences; joined they are the text."""
        if self._spans is None:
            self._spans = sentences(self.text)
        return self._spans

    @property
    def words(self) -> list[frozenset[int]]:
        """The words of each sentence."""
        if self._words is None:
            expansions, numbers = self._vocabulary.expansions, self._vocabulary.numbers
            self._words = [
                frozenset(word for one in numbers(text) for word, _, _ in expansions[one])
                for text in self._texts()
            ]
        return self._words

    def holding(
        self, asked: AbstractSet[int], only: AskedTokens | None = None
    ) -> list[frozenset[int]]:
        """Which of the words asked for each sentence holds; `only` knows some words alone."""
        if self._words is None and only is not None and asked <= only.terms:
            if not self.text.isascii():
                return [only.of(text) & asked for text in self._texts()]
            self._spans, holds = only.in_sentences(self.text)
            return holds if len(asked) == len(only.terms) else [one & asked for one in holds]
        return [words & asked for words in self.words]

    def _texts(self) -> Iterator[str]:
        return (normalise_text(self.text[start:end]) for start, end in self.spans)

    def cost(self, at: int, count: Callable[[str], int]) -> int:
        """Tokens of a sentence without the blanks around it. Always by the same counter."""
        cost = self._costs.get(at)
        if cost is None:
            start, end = self.spans[at]
            cost = self._costs[at] = count(self.text[start:end].strip())
        return cost


def passage(
    text: str,
    wanted: Mapping[int, int],
    limit: int,
    count: Callable[[str], int],
    vocabulary: TermVocabulary,
) -> tuple[int, int]:
    """`best_run` of a text that is asked once."""
    said = Sentences(text, vocabulary)
    return best_run(said, said.holding(wanted.keys()), wanted, limit, count)


def best_run(
    said: Sentences,
    holds: Sequence[frozenset[int]],
    wanted: Mapping[int, int],
    limit: int,
    count: Callable[[str], int],
    *,
    goes_on: bool = False,
) -> tuple[int, int]:
    """Return the span of the run of sentences that holds most of `wanted` in `limit` tokens.

    `holds` are the words of `wanted` that each sentence has, `wanted` weighs them; each counts
    once. Of runs that hold as much the one of fewest tokens is taken, then the first; with
    `goes_on` what follows it belongs to it, as far as the limit goes. A text without any gives its
    beginning, as much as fits. At least one sentence, even over the limit.
    """
    spans = said.spans
    if not spans:
        return 0, 0
    best = (0, 0, 0, 0)
    bearing = [at for at, own in enumerate(holds) if own]
    every = len(frozenset().union(*(holds[at] for at in bearing)))
    for first in bearing:
        held: set[int] = set()
        cost = worth = 0
        for last in range(first, bearing[-1] + 1):
            if len(held) == every:  # what comes next adds nothing
                break
            cost += said.cost(last, count)
            if cost > limit and last > first:
                break
            new = holds[last] - held
            if new:
                held |= new
                worth += sum(map(wanted.__getitem__, new))  # whole numbers: in any order
                best = max(best, (worth, -cost, -first, -last))
    first, last, cost = -best[2], -best[3], -best[1]
    if not best[0]:
        first, last, cost, goes_on = 0, 0, said.cost(0, count), True
    while (
        goes_on and last + 1 < len(spans) and (cost := cost + said.cost(last + 1, count)) <= limit
    ):
        last += 1
    return spans[first][0], spans[last][1]


# What a question says about its answer beside its words: who is meant, how wide it is.
#
# English patterns; other languages have none of it.

# Bits of `Document.flags`: what answers questions that share no word with it.
INSTRUCTION: Final = 1
PREFERENCE: Final = 2
READ: Final = 12  # so many bits higher: read from the text, not said by the event

_FIRST_PERSON: Final = regex(r"\b(?:I|my|me|mine|we|our)\b", re.IGNORECASE)
_BROAD: Final = regex(
    r"\b(?:summar\w*|overview|recap|discuss\w*|talk\w* about|think (?:about|of)|opinions?|describe"
    r"|decisions?|progress\w*|develop\w* (?:over|through)|order in which|in order(?! to\b)"
    r"|walk me through(?! how (?:to|do|can|should|would)\b)|throughout|over time)\b",
    re.IGNORECASE,
)

# How something was when it began.
_BEGINS: Final = regex(
    r"\b(?:(?:I|we) (?:first|initially|originally)|to start (?:my|our|the|with|out|off)"
    r"|at (?:first|the (?:start|beginning|outset))|initially|originally|in the beginning)\b",
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


class QuestionTraits(NamedTuple):
    """What a question asks for, beside its terms.

    `speakers`: the names among those given that it names, none where it names all of them.
    `first_person`: it is about the user who asks. `broad`: about a whole thread. `looks_up`: about
    what is or was so, and not for help, which a preference would shape. `begins`: about how
    something was at first.
    """

    speakers: tuple[str, ...] = ()
    first_person: bool = False
    broad: bool = False
    looks_up: bool = False
    begins: bool = False


def ask(text: str, speakers: Collection[str] = ()) -> QuestionTraits:
    """Read a question. A speaker is named by all words of the name, in order, in any case."""
    straight = text.replace("\u2019", "'")
    words = _WORD.findall(straight.casefold())
    named = tuple(name for name in speakers if _names(words, name))
    return QuestionTraits(
        named if len(named) < len(speakers) else (),
        _FIRST_PERSON.search(straight) is not None,
        _BROAD.search(straight) is not None,
        _LOOKS_UP.match(straight) is not None,
        _BEGINS.search(straight) is not None,
    )


def _names(words: list[str], name: str) -> bool:
    wanted = _WORD.findall(name.casefold())
    size = len(wanted)
    return size > 0 and any(words[at : at + size] == wanted for at in range(len(words) - size + 1))
