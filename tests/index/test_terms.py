import functools
import threading

import pytest
from hypothesis import given, strategies as st

from memplane.index import segment, stems, terms
from memplane.index.terms import TermVocabulary, analyse, folded_letters, query, whole_term


def words_of(text):
    return set(analyse(text, "", TermVocabulary()).words)


def finds(question, text):
    """Whether every word of the question is a word of the text."""
    wanted = {term for term, _ in query(question).words}
    return bool(wanted) and wanted <= words_of(text)


def test_forms_of_a_word_are_one_term():
    for one, other in [
        ("paintings", "painted"),
        ("went", "going"),
        ("bought", "buys"),
        ("children", "child"),
        ("mum", "mother"),
        ("1,200", "1200"),
        ("05", "5"),
        ("PDFs", "pdf"),
        ("Café", "CAFE\u0301"),
        ("A\uff22C", "abc"),
    ]:
        assert words_of(one) == words_of(other) != set(), (one, other)


def test_identifiers_paths_and_error_codes_are_found_by_their_parts_and_whole():
    for question, text in [
        ("parse_http_url", "call parse_http_url(x) first"),
        ("http url", "call parse_http_url(x) first"),
        ("HTTPServer", "class HTTPServer:"),
        ("http server", "class HTTPServer:"),
        ("httpserver", "class HTTPServer:"),
        ("getUserName", "def getUserName"),
        ("user name", "def getUserName"),
        ("src/db/pool.py", "edited /home/x/src/db/pool.py today src/db/pool.py"),
        ("pool.py", "edited src/db/pool.py"),
        ("db pool", "edited src/db/pool.py"),
        (r"src\db\pool.py", "edited src/db/pool.py"),
        ("ORA-00942", "failed: ORA-00942, table missing"),
        ("00942", "failed: ORA-00942, table missing"),
        ("error E0308", "error[E0308]: mismatched types"),
        ("std::vec", "use std::vec;"),
        ("CVE-2024-3094", "patched CVE-2024-3094."),
    ]:
        assert finds(question, text), (question, text)


def test_korean_chinese_and_japanese_are_found_by_pairs_of_characters():
    for question, text in [
        ("데이터베이스", "우리는 데이터베이스를 옮겼다"),
        ("数据库", "我们迁移了数据库服务器"),
        ("テスト", "結合テストが失敗した"),
        ("猫", "猫 と 犬"),
        ("Python을", "Python을 쓴다"),
    ]:
        assert finds(question, text), (question, text)
    assert not finds("服务", "数据库")


def test_stop_words_and_contractions_are_no_terms():
    assert words_of("the of and don't won't I'm he's a I") == set()


def test_words_that_frame_a_question_are_dropped_unless_nothing_is_left():
    assert query("Can you tell me about guitars?").words == ((whole_term("guitar"), 1.0),)
    assert query("tell me, help me").words


def test_a_pair_is_the_same_in_either_order_and_skips_stop_words():
    forth = analyse("red of the guitar", "", TermVocabulary()).bigrams
    assert forth == analyse("guitar red", "", TermVocabulary()).bigrams
    assert len(forth) == 1


def test_no_pair_spans_the_text_and_its_extra():
    assert analyse("guitar", "Ann", TermVocabulary()).bigrams == []


@given(st.text(max_size=80), st.text(max_size=20))
def test_any_text_has_terms_and_the_same_ones_whatever_was_seen_before(text, other):
    used = TermVocabulary()
    analyse(other, text, used)
    found = analyse(text, other, used)
    assert found == analyse(text, other, TermVocabulary())
    assert all(0 < term < 1 << 64 for kind in found for term in kind)


@given(st.text(max_size=60))
def test_what_a_question_looks_for_is_in_the_same_text(text):
    found = analyse(text, "", TermVocabulary())
    wanted = query(text)
    assert {term for term, _ in wanted.words} <= set(found.words)
    assert {term for term, _ in wanted.prefixes} <= set(found.prefixes)
    assert list(wanted.words) == sorted(wanted.words)


def test_terms_are_numbers_that_never_change():
    assert terms.whole_term("guitar") == 12281089934341076821
    assert terms.mix(1, 2) == terms.mix(2, 1) == 11400714819323198487


PIECES = st.sampled_from(
    (
        "1,200",
        ",",
        " ",
        "\n",
        "\u3000",
        "\x1c",
        "don\u2019t",
        "a/b.py",
        "x" * 70,
        "(word),",
        "東京",
        "E\u0301",
        "3.5",
    )
)


@given(st.lists(PIECES | st.text(max_size=8), max_size=12).map("".join))
def test_a_text_has_the_words_of_its_surfaces_wherever_its_blanks_are(text):
    found = [
        atom
        for surface in terms.surfaces(terms.normalise_text(text))
        for atom in terms.atoms(surface)
    ]
    assert analyse(text, "", TermVocabulary()).words == [atom.word for atom in found]


def test_data_without_blanks_is_not_remembered_whole():
    vocabulary = TermVocabulary()
    analyse(",".join(f"key{number}" for number in range(1000)), "", vocabulary)
    assert max(map(len, vocabulary)) < 20


def test_threads_that_stem_at_once_get_their_own_words_stems(monkeypatch):
    english = stems._english()
    stem, other, goes_on = english._stem, threading.Event(), threading.Event()
    main = threading.current_thread()

    def paused(stemmer):
        if threading.current_thread() is not main:
            other.set()
            assert goes_on.wait(20)
        return stem(stemmer)

    monkeypatch.setattr(english, "_stem", paused)
    terms.stem.cache_clear()
    found = []
    thread = threading.Thread(target=lambda: found.append(terms.stem("glimbings")))
    thread.start()
    assert other.wait(20)
    found.append(terms.stem("harblours"))
    goes_on.set()
    thread.join(20)
    assert found == ["harblour", "glimb"]


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        ("cafe", "Café"), ("cafe", "cafe\u0301"), ("muller", "MÜLLER"), ("strasse", "Straße"),
        ("lodz", "Łódź"), ("smorrebrod", "smørrebrød"), ("οδος", "οδός"), ("елка", "ёлка"),
    ],
)  # fmt: skip
def test_a_word_with_accents_is_found_without_them_and_more_exactly_with_them(plain, text):
    without, exact = ({term for term, _ in query(one).words} for one in (plain, text))
    assert without < exact
    assert analyse(text, "", TermVocabulary()).bigrams == []


def test_marks_that_are_no_accents_stay():
    for text in ("हिन्दी", "й", "ไทย", "が", "naive"):
        assert folded_letters(text) == text


@given(st.text())
def test_folded_letters_are_always_folded_already(text):
    found = folded_letters(text.lower())
    assert folded_letters(found) == found


LETTERS = st.text("abcdefghijklmnopqrstuvwxyzé'0", max_size=12)


def test_the_table_of_stems_has_what_the_stemmer_gives_for_every_word_in_it():
    table, count = stems.shipped_stems(), 0
    for line in table._lines:
        for entry in line.split():
            word = entry.rstrip("abcdefghijklmnopqrstuvwxyz")[:-1]
            assert table.stem(word) == stems.snowball(word), word
            count += 1
    assert count > 30_000


@given(LETTERS, st.sampled_from(stems.ENDINGS), st.integers(0, 3))
def test_a_word_that_is_not_in_the_table_is_not_found_there(begin, ending, cut):
    word = begin + ending[: len(ending) - cut] + ending
    found = stems.shipped_stems().stem(word)
    assert found is None or found == stems.snowball(word)


@given(st.one_of(LETTERS, st.builds(str.__add__, LETTERS, st.sampled_from(stems.ENDINGS))))
def test_a_stem_is_that_of_the_stemmer_whatever_spares_asking_it(word):
    assert terms.stem(word) == stems.snowball(terms.IRREGULAR.get(word, word))


@given(
    st.text("abcdef0159", min_size=1, max_size=9)
    | st.text("aeiblntvwxyz09", min_size=1, max_size=9),
    st.sampled_from(("e", "e", "se", "le", "ate", "ive", "ance", "able")),
)
def test_the_last_e_of_a_numbered_word_goes_where_the_stemmer_takes_it(word, ending):
    found = stems.numbered_stem(word + ending)
    assert found in (None, stems.snowball(word + ending))


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("9eb535e", "9eb535"),
        ("1e", None),
        ("0te", "0te"),
        ("a1e", "a1e"),
        ("2ate", None),
        ("ee9", None),
    ],
)
def test_which_numbered_words_need_no_stemmer(word, stem):
    assert stems.numbered_stem(word) == stem


TOKENS = st.text("ab1.,;:!?()[]'\"*`/\\-_é中", min_size=1, max_size=9)


@given(TOKENS)
def test_what_stands_around_a_token_changes_none_of_its_words_and_traits(token):
    vocabulary = TermVocabulary(segment.word_traits)
    number = vocabulary[token]
    wanted = [
        (atom.word, atom.prefix, atom.chained)
        for surface in terms.surfaces(terms._DIGIT_GROUPS.sub("", token))
        for atom in terms.atoms(surface)
    ]
    assert list(vocabulary.expansions[number]) == wanted
    traits = {segment.word_traits(word) for word in terms._WORD.findall(token)}
    assert vocabulary.traits[number] == functools.reduce(int.__or__, traits, 0)
