"""The compiled kernel gives what its twins in Python give, over any input."""

import gc
import random
import re
import struct
import weakref
from array import array

import pytest
from hypothesis import given, settings, strategies as st

from memplane import kernel
from memplane.event import encode_text
from memplane.index.segment import word_traits
from memplane.index.terms import (
    IRREGULAR,
    STOP,
    AskedSentences,
    Atom,
    TermVocabulary,
    TokenNumbers,
    surfaces,
    whole_term,
)
from memplane.intake.token_patterns import LongRuns
from memplane.kernel import Literals, RecordMaker, kernel_twin
from memplane.search.indexing import PhraseCodes
from memplane.tokens import ENCODINGS, Bound, ChunkSums
from memplane.wiring import _table
from tests.examples import examples

pytestmark = pytest.mark.skipif(kernel.BUILT is None, reason="the kernel was not built")

BLANKS = "\t\x0b\x0c \x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u3000"
ASCII = st.text("abzAZ'sStTreEvllLMdD019.,;:!?)\"]}*`/-_ \t\x0b\x0c\r\n\x00\x1f\x7f", max_size=40)
PIECES = st.sampled_from(
    [
        *("don't", "WE'LL", "you'RE", "camelCaseWord", "ABCdef", "  ", "\n\n", " \r\n", "\t\tx"),
        *(
            "//",
            ");\n",
            "...\r",
            "```\n",
            "1234567",
            "a" * 129,
            "=" * 80,
            "-" * 130,
            "=" * 79 + "\n",
        ),
        *(
            "q" * 60 + "\n",
            ".\n" * 3,
            "語" * 20,
            "Straße ",
            "\ud800",
            "é",
            "\u2019s",
            "/\n/",
            " / ",
        ),
    ]
)
TEXTS = st.lists(
    ASCII | PIECES | st.text(f"ab.\n{BLANKS}", max_size=9) | st.text(), max_size=9
).map("".join)


def twins(make):
    """What `make` gives with the kernel, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "BUILT", None)
        plain = make()
    return make(), plain


@pytest.fixture(scope="module", params=[ENCODINGS, *[(one,) for one in ENCODINGS]])
def counters(request):
    def make():
        counter = Bound(_table, encodings=request.param)
        counter.count("the table is read")
        return counter

    built, plain = twins(make)
    assert type(built._costs.chunks) is not type(plain._costs.chunks) is ChunkSums
    return built, plain


@settings(max_examples=examples(900), deadline=None)
@given(text=TEXTS, again=st.booleans())
def test_a_text_costs_the_same(counters, text, again):
    built, plain = counters
    if not again:
        built._costs.chunks.clear()
    assert built.count(text) == plain.count(text)
    assert built._costs.chunks.count(text) == plain._costs.chunks.count(text)


def test_texts_by_chance_cost_the_same(counters):
    built, plain = counters
    chance = random.Random(5)
    words = [
        "".join(chance.choices("etaoinETS'_-./(1\n", k=chance.randint(1, 12))) for _ in range(3_000)
    ]
    for _ in range(examples(400)):
        text = " ".join(chance.choices(words, k=40))
        assert built.count(text) == plain.count(text), text


def test_costs_are_remembered_up_to_a_limit_and_never_change():
    asked = []
    sums = kernel_twin(ChunkSums)(lambda chunk: asked.append(chunk) or len(chunk), (), 4)
    for _ in range(2):
        assert sums.count("one two one\n") == 12
        assert sums.count("x" * 200) == 200  # too long to come again
    assert asked == ["one", " two", " one\n", "x" * 200, "x" * 200]
    for number in range(50):
        assert sums.count(f"{number}") == len(str(number))
        assert len(sums) <= 4
    sums.clear()
    assert len(sums) == 0


def test_what_a_cost_raises_comes_through_and_nothing_is_remembered():
    def cost(chunk):
        if chunk == " bad":
            raise KeyError(chunk)
        return 1

    sums = kernel_twin(ChunkSums)(cost, (), 100)
    with pytest.raises(KeyError):
        sums.count("good bad good")
    assert len(sums) == 1
    with pytest.raises(TypeError):
        sums.count(None)


@pytest.mark.parametrize("broken", [(b"ab\xff", b"\0" * 8, b""), (b"", b"\0" * 4, b"\0" * 4)])
def test_a_table_that_is_not_whole_is_refused(broken):
    with pytest.raises(ValueError, match="not whole"):
        kernel.BUILT.ChunkSums(len, ((True, *broken),), 10)


class Numbers(dict):
    def __missing__(self, token):
        assert token
        self[token] = len(self)
        return self[token]


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(TEXTS, max_size=4), st.integers(0, 70))
def test_tokens_have_the_same_numbers(texts, longest):
    built, plain = twins(lambda: kernel_twin(TokenNumbers)(surfaces, longest))
    numbers, others = Numbers(), Numbers()
    for text in [*texts, *texts]:
        assert built.of(text, numbers) == plain.of(text, others)
    assert list(numbers.items()) == list(others.items())


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(TEXTS, max_size=4))
def test_a_vocabulary_is_the_same(texts):
    built, plain = twins(lambda: TermVocabulary(word_traits))
    for text in [*texts, *texts]:
        assert built.numbers(text) == plain.numbers(text)
    for column in ("words", "prefixes", "chained", "starts", "traits"):
        assert getattr(built, column) == getattr(plain, column)
    for number in range(len(built.starts) - 1):
        assert built.expansions[number] == plain.expansions[number]
    assert dict(built) == dict(plain)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.booleans(), TEXTS), max_size=6))
def test_a_vocabulary_is_the_same_whatever_its_tokens_are_asked_by(asked):
    built, plain = twins(lambda: TermVocabulary(word_traits))
    for alone, text in asked:
        for vocabulary in (built, plain):
            if alone:
                for token in text.split():
                    assert vocabulary[token] < len(vocabulary.starts) - 1
        assert built.numbers(text) == plain.numbers(text)
    for column in ("words", "prefixes", "chained", "starts", "traits"):
        assert getattr(built, column) == getattr(plain, column)
    assert list(built.items()) == list(plain.items())


def test_behind_an_error_a_vocabulary_has_the_words_of_all_its_tokens():
    def traits(word):
        if word == "bad":
            raise ValueError(word)
        return len(word)

    vocabulary = TermVocabulary(traits)
    with pytest.raises(ValueError, match="bad"):
        vocabulary.numbers("one (two) bad three")
    assert dict(vocabulary) == {"one": 0, "two": 1, "(two)": 1}
    assert vocabulary.words.tolist() == [whole_term("one"), whole_term("two")]
    assert vocabulary.starts.tolist() == [0, 1, 2]
    assert vocabulary.traits.tolist() == [3, 3]
    assert vocabulary.numbers("three two").tolist() == [2, 1]


def test_a_vocabulary_whose_columns_are_held_by_another_is_an_error():
    vocabulary = TermVocabulary()
    with memoryview(vocabulary.words), pytest.raises(BufferError):
        vocabulary.numbers("heron")


def test_what_grows_no_vocabulary_is_refused():
    numbers, parts = kernel.BUILT.TokenNumbers, TermVocabulary()._parts
    columns = tuple(array(code) for code in "QQBII")
    for grown in ((b"", object(), columns), (b"", parts, columns[1:]), (b"", parts, [*columns])):
        with pytest.raises(TypeError):
            numbers(surfaces, 60, grown)
    made = numbers(surfaces, 60, (b"", parts, columns))
    with pytest.raises(TypeError, match="vocabulary"):
        made.of("heron", [])
    with pytest.raises(OverflowError):  # there is no place at which the first one starts
        made.of("heron", {})


def test_many_tokens_are_kept_apart():
    built = kernel_twin(TokenNumbers)(surfaces, 60)
    numbers = Numbers()
    tokens = [f"{number:x}" * (1 + number % 5) for number in range(30_000)]
    for _ in range(2):
        assert array("I", built.of("\n".join(tokens), numbers)).tolist() == [
            numbers[token] for token in tokens
        ]


class Asked(Numbers):
    """Numbers of the tokens that hold what is asked for; of all others 0."""

    def __init__(self, openings, digits):
        super().__init__()
        self.may = lambda token: (
            any(one in token.lower() for one in openings)
            or (digits and any(map(str.isdigit, token)))
        )

    def __missing__(self, token):
        assert token
        self[token] = (len(token) + 7 * token.count("b")) % 3 if self.may(token) else 0
        return self[token]


SPOKEN = st.sampled_from(
    [
        *("Does it? ", "1,000,000", "a1,000b", ",123", "9,1234 ", "1,23", "e.g.", "\n \x1c", "!\t"),
        *("ab " * 80, "b" * 310, " " * 400, "x." * 20, "...  ", "?\x0b", "A_b-C/d.py", "0" * 61),
    ]
)


@settings(max_examples=examples(600), deadline=None)
@given(
    texts=st.lists(st.lists(SPOKEN | ASCII, max_size=9).map("".join), min_size=1, max_size=3),
    openings=st.lists(st.text("abz1_", min_size=1, max_size=3), max_size=4, unique=True),
    digits=st.booleans(),
    longest=st.integers(0, 70),
)
def test_the_same_is_found_in_sentences(texts, openings, digits, longest):
    built, plain = twins(
        lambda: kernel_twin(AskedSentences)(tuple(openings), digits, surfaces, longest)
    )
    assert type(built) is not type(plain)
    numbers, others = Asked(openings, digits), Asked(openings, digits)
    for text in [*texts, *texts]:
        assert built.of(text, numbers) == plain.of(text, others)
    assert numbers.items() <= others.items()


def test_sentences_are_cut_in_texts_of_ascii_alone():
    for twin in twins(lambda: kernel_twin(AskedSentences)(("a",), False, surfaces, 60)):
        assert twin.of("", {}) == (b"", b"")
        with pytest.raises(ValueError):
            twin.of("\xe9", {})


def test_numbers_that_do_not_fit_are_an_error():
    with pytest.raises(OverflowError):
        kernel.BUILT.TokenNumbers(surfaces, 60).of("a", {"a": 1 << 32})
    with pytest.raises(KeyError):
        kernel.BUILT.TokenNumbers(surfaces, 60).of("a b", {"a": 1})


NAMES = (
    st.text("aB1_./\\:-", min_size=1, max_size=14)
    | st.text("adesBT01_")
    | st.sampled_from(
        [
            *(
                "src/Parse_url.py",
                "a//b\\c.md",
                "std::vec",
                "ABC-12-3",
                "x.y-.py",
                "ab-.py",
                "a.py",
            ),
            *(
                "f.toolong",
                "f.a_b2",
                "ab.c.d",
                "..ab.py",
                "1,234",
                "1,2345",
                "f(a,1)",
                "PDFs",
                "q" * 300,
            ),
            *(
                "user_id5",
                "05",
                "00_7",
                "PDFs_1",
                "0a1bed",
                "f00ding",
                "1e_the_x",
                "_1_",
                "9" * 200,
            ),
            *(
                "1a_" * 80,
                "x1" * 127,
                "x1" * 128,
                "aB1_Cd",
                "ABc1",
                "no5_IT",
                "0" + "ab" * 64 + ".py",
            ),
            *("getHTTPResponse2_x", "-", "_", "__", "1.5:2", "don't", "it's/a.md", "a/b", "a/b.c"),
        ]
    )
)


@settings(max_examples=examples(1_500), deadline=None)
@given(st.lists(NAMES | ASCII, max_size=4).map("".join))
def test_tokens_have_the_same_words_and_traits(vocabularies, token):
    built, plain = vocabularies
    assert built._parts.of(token) == plain._parts.of(token)


@pytest.fixture(scope="module")
def vocabularies():
    return twins(lambda: TermVocabulary(word_traits))


def columns(*atoms, traits):
    words, prefixes, chained = zip(*atoms, strict=True)
    return (
        *(array("Q", one).tobytes() for one in (words, prefixes)), bytes(chained), traits,
    )  # fmt: skip


def test_more_words_than_are_remembered_are_the_same():
    asked = []

    def word(text):
        asked.append(text)
        return (Atom(len(text), 7, chained=True), Atom(5, 0, chained=False)), 1

    parts = kernel.BUILT.TokenParts(word, len, (), int)
    text = ["w" + f"{number:06}".translate(str.maketrans("0123456789", "abcdefghij")) for number in
            range(200_003)]  # fmt: skip
    expected = columns((7, 7, 1), (5, 0, 0), traits=1)
    for one in (*text, *text[:3]):
        assert parts.of(one) == expected
    assert asked == [*text, *text[:3]]
    assert parts.of(text[0]) == expected
    assert len(asked) == 200_006


@pytest.mark.parametrize(
    "given", [None, (), ((), 1, 2), ([], 1), (((1, 2),), 1), ((3,), 1), (((1, "2", True),), 1)]
)
def test_words_that_are_none_are_an_error(given):
    with pytest.raises(TypeError):
        kernel.BUILT.TokenParts(lambda _: given, len, (), int).of("a")


def test_the_traits_of_numbers_are_asked_for_once_and_only_where_there_is_a_number():
    asked = []

    def numbered():
        asked.append(1)
        return 4

    parts = kernel.BUILT.TokenParts(lambda _: ((), 2), len, (b"d",), numbered)
    assert parts.of("a") == (b"", b"", b"", 2)
    assert not asked
    for text in ("1", "a1", "1"):
        assert parts.of(text) == columns((whole_term(text), 0, 1), traits=4)
    assert parts.of("1d") == (b"", b"", b"", 4)  # what `word` says: it may have to be stemmed
    assert len(asked) == 1
    with pytest.raises(ZeroDivisionError):
        kernel.BUILT.TokenParts(len, len, (), lambda: 1 // 0).of("1")


def test_a_word_with_a_digit_is_no_word_to_the_stemmer():
    assert not [word for word in (*STOP, *IRREGULAR) if any(map(str.isdigit, word))]


@given(st.integers(0, 260), st.integers(0, 9))
def test_a_long_number_has_the_term_of_python(length, digit):
    text = str(digit) * length + "1"
    found = TermVocabulary(word_traits)._parts.of(text)[0]
    assert found == array("Q", [whole_term(text if length != 1 else str(int(text)))]).tobytes()


@settings(max_examples=examples(500), deadline=None)
@given(
    phrases=st.lists(
        st.text("ab{", min_size=1, max_size=4).map(str.encode) | st.binary(min_size=1, max_size=2),
        min_size=1,
        max_size=32,
        unique=True,
    ),
    text=st.text("ab{").map(str.encode) | st.binary(),
    rest=st.integers(1, 255),
)
def test_the_same_phrases_have_codes(phrases, text, rest):
    built, plain = twins(lambda: kernel_twin(PhraseCodes)(tuple(phrases)))
    for one in (text, b"".join(phrases), bytes((rest,)).join(phrases), text.join(phrases)):
        assert built.packed(one) == plain.packed(one)
        clean = one.translate(None, bytes(range(32)))
        assert built.packed(clean) == plain.packed(clean)


PASSED = ("utf-8", "surrogatepass")
SAID = st.text('ab"\\/\n\t\x01\x1f\x7f{') | TEXTS.map(lambda text: text[:60])


@settings(max_examples=examples(500), deadline=None)
@given(SAID, SAID, st.binary(max_size=30), st.integers(-1, 200))
def test_a_text_is_taken_out_of_the_same_place_of_a_line(said, other, beside, most):
    built, plain = twins(lambda: kernel_twin(PhraseCodes)((b'"data":', b"ab", b'{"seq":')))
    texts = [
        b'"text":' + encode_text(one).encode("utf-8", "surrogatepass") for one in (said, other)
    ]
    for parts in (texts, texts[::-1], [b'"text":"', texts[0]], [texts[0][:-1]], [], [b'"text":']):
        line = b'{"seq":1,' + b",".join([*parts, beside])
        for text in (said, other, None):
            assert built.without(line, text, most) == plain.without(line, text, most)
    hole, rest = built.without(b"{" + texts[0] + b"}", said, 9)
    assert (hole, rest) == (1, b"{}")


BIG = (1 << 32) - 1


@settings(max_examples=examples(500), deadline=None)
@given(
    before=st.text("0123456789abcdef", min_size=16, max_size=16).map(str.encode)
    | st.text("09afgAF", min_size=14, max_size=18).map(str.encode),
    said=SAID | st.none(),
    beside=st.binary(max_size=30),
    places=st.tuples(*[st.integers(0, 9) | st.integers(0, BIG)] * 3),
    most=st.integers(-1, 200),
    there=st.booleans(),
)
def test_the_same_is_kept_of_a_line(before, said, beside, places, most, there):
    built, plain = twins(lambda: kernel_twin(PhraseCodes)((b'"data":', b"ab", b'{"seq":')))
    text = b"" if said is None or not there else encode_text(said).encode(*PASSED)
    line = b'{"seq":1,"text":' + text + beside
    kept = built.kept(before, line, said, *places, most)
    assert kept == plain.kept(before, line, said, *places, most)
    assert bool(kept) == (len(before) == 16 and not set(before) - set(b"0123456789abcdef"))
    hole, rest = plain.without(line, said, most)
    if kept:
        assert kept[:8].hex().encode() == before
        assert struct.unpack("<4I", kept[8:24]) == (*places, hole)
        assert kept[24:] == rest


def test_what_is_no_line_or_no_text_is_an_error():
    codes = kernel.BUILT.PhraseCodes(())
    for asked in (("", "a", 9), (b"", b"", None), (b"", 5, 9)):
        with pytest.raises(TypeError):
            codes.without(*asked)
        with pytest.raises(TypeError):
            codes.kept(b"0" * 16, asked[0], asked[1], 1, 2, 3, asked[2])
    for places in ((-1, 2, 3), (1, BIG + 1, 3)):
        with pytest.raises(OverflowError):
            codes.kept(b"0" * 16, b"", None, *places, 9)
    with pytest.raises(TypeError):
        codes.kept(b"0" * 16, b"", None)


def test_more_phrases_than_there_are_codes_for_are_refused():
    with pytest.raises(ValueError, match="too many phrases"):
        kernel.BUILT.PhraseCodes(tuple(bytes((code,)) for code in range(33)))


def test_what_the_kernel_holds_is_let_go_of():
    class Cost:
        def __call__(self, chunk):
            return len(chunk)

    cost = Cost()
    cost.sums = kernel_twin(ChunkSums)(cost, (), 10)
    cost.sums.count("a b")
    gone = weakref.ref(cost)
    del cost
    gc.collect()
    assert gone() is None


@settings(max_examples=examples(500), deadline=None)
@given(
    literals=st.lists(st.text("abé\ud800_'- ", max_size=4), max_size=6, unique=True),
    text=st.text("abé\ud800_'- \n", max_size=30) | st.text(),
    encoded=st.booleans(),
)
def test_the_same_literals_are_found(literals, text, encoded):
    given_text = text.encode("utf-8", "surrogatepass") if encoded else text
    built, plain = twins(lambda: kernel_twin(Literals)(tuple(literals)))
    assert type(built) is not type(plain) is Literals
    expected = tuple(each for each in literals if each in text)
    assert built.among(given_text) == plain.among(given_text) == expected
    begins = [at for at in range(len(text)) if text.startswith(tuple(filter(None, literals)), at)]
    assert built.places(text) == plain.places(text) == begins


@settings(max_examples=examples(500), deadline=None)
@given(
    words=st.lists(st.text("abc", min_size=1, max_size=3), max_size=6, unique=True),
    text=st.text("abcd é'-", max_size=40),
)
def test_words_are_found_whole(words, text):
    built, plain = twins(lambda: kernel_twin(Literals)(tuple(words), b"abcd"))
    there = text.translate({ord(each): " " for each in "é'-"}).split()
    assert built.among(text) == plain.among(text) == tuple(each for each in words if each in there)
    assert built.places(text) == plain.places(text) == []


def test_more_literals_than_there_is_room_for_are_refused_by_the_kernel_and_no_table_has_them():
    with pytest.raises(ValueError, match="too many texts"):
        kernel_twin(Literals)(tuple(map(str, range(2_000))))


@settings(max_examples=examples(500), deadline=None)
@given(
    text=st.lists(
        st.text("ab1\\ \n[", max_size=12).map(str.encode) | st.binary(max_size=6), max_size=8
    ).map(b"".join),
    times=st.integers(1, 3),
    least=st.integers(1, 6),
)
def test_the_same_runs_are_found(text, times, least):
    built, plain = twins(lambda: kernel_twin(LongRuns)(b"ab1\\-", b"ab1", least))
    assert type(built) is not type(plain) is LongRuns
    runs, halves, longest = found = built.of(text * times)
    assert found == plain.of(text * times)
    every = [one.span() for one in re.finditer(rb"[ab1\\-]{%d,}" % least, text * times)]
    spans = {(text * times)[begin:end]: None for begin, end in every}
    assert runs == b"".join(b" " + one for one in spans)
    assert halves == [(b, e) for b, e in every if set((text * times)[b:e]) & set(b"1\\")]
    assert longest == max(map(len, re.findall(rb"[ab1]+", runs)), default=0)


def test_many_runs_are_kept_apart():
    built, plain = twins(lambda: kernel_twin(LongRuns)(b"ab1\\-", b"ab1", 3))
    many = b" ".join(f"{number % 900:b}aaa".replace("0", "b").encode() for number in range(4_000))
    assert built.of(many) == plain.of(many)
    for asked in ("text", None):
        with pytest.raises(TypeError):
            built.of(asked)
    with pytest.raises(ValueError, match="a byte at least"):
        kernel.BUILT.LongRuns(b"a", b"a", 0)


class Made(tuple):
    """A class that makers make objects of."""

    __slots__ = ()


NAMES = ("one", "two", "three", "four")


def refused(*given, **named):
    """What a maker asks for arguments that do not fit."""
    return "refused", given, named


@settings(max_examples=examples(300))
@given(
    st.integers(0, 4), st.integers(0, 4), st.lists(st.integers(), max_size=5),
    st.dictionaries(st.sampled_from([*NAMES, "five"]), st.integers(), max_size=4),
    st.sampled_from([Made, tuple, int, None]),
)  # fmt: skip
def test_records_are_made_of_the_same_arguments(fields, defaults, given, named, cls):
    names = NAMES[:fields]
    values = tuple(range(min(defaults, fields)))
    kernels = kernel_twin(RecordMaker)(names, values, refused).make
    twins = RecordMaker(names, values, refused).make
    if cls is Made:
        named = {"".join([*name]): value for name, value in named.items()}  # not interned
        made = kernels(cls, *given, **named)
        assert made == twins(cls, *given, **named)
        assert type(made) is type(twins(cls, *given, **named))
    else:  # no class of a record
        assert kernels(cls, *given, **named) == ("refused", (cls, *given), named)


def test_a_maker_of_records_holds_nothing_that_it_made():
    class Held:
        pass

    maker = kernel_twin(RecordMaker)(("one", "two"), (None,), refused)
    held = Held()
    seen = weakref.ref(held)
    made = [maker.make(Made, held), maker.make(Made, one=held), maker.make(Made, held, held, held)]
    del held
    assert seen() is not None
    del made
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("given", [(("a",), (1, 2), refused), (["a"], (), refused), (("a",),)])
def test_a_maker_of_no_record_is_refused(given):
    with pytest.raises((TypeError, ValueError)):
        kernel_twin(RecordMaker)(*given)
    assert kernel_twin(RecordMaker)(("a",), (), refused).make() == ("refused", (), {})
