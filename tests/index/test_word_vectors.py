"""The table that is shipped, and the vectors that it gives."""

import hashlib
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from table_formats import encode_static_table

import memplane.index
from memplane.errors import InputError
from memplane.index.terms import STOP
from memplane.index.vectors import StaticTable, WordPiece, plain_words
from tests.examples import examples

FILE = Path(memplane.index.__file__).parent / "data" / "static.i8"
DATA = FILE.read_bytes()
TABLE = StaticTable(DATA)
NUMBERS = {piece: number for number, piece in enumerate(TABLE.vocabulary())}
SPLIT = WordPiece(NUMBERS.get, max(map(len, NUMBERS)))
WEIGHTS = TABLE._weights.tolist()
TEXTS = [
    "What pets does she have?",
    "parse_http_url() raises HTTPError 404 in src/net/url.py",
    "東京 Café naïve 한국어",
    "deploy the database on friday",
    "the of and",
    "",
]
# The digest of the vectors of TEXTS; it changes with the table and nothing else.
DIGEST = "9a8c3dba22484d8fe97eee79dc0e773efcb8ab31e6b70e0a81e1990ac8268b43"
PROGRAM = f"""
import hashlib
from pathlib import Path
from memplane.index.vectors import StaticTable
table = StaticTable(Path({str(FILE)!r}).read_bytes())
print(hashlib.sha256(b"".join(table.embed({TEXTS!r}))).hexdigest())
"""

some_words = st.lists(st.sampled_from("pet dogs unheardofish runs, 東 database é the".split()))


def by_hand(text):
    """In Python's own integers, as the format describes it."""
    sums = [0] * TABLE.dimension
    for word in plain_words(text):
        for piece in SPLIT.pieces(word):
            row = TABLE.rows()[piece].tolist()
            sums = [s + WEIGHTS[piece] * c for s, c in zip(sums, row, strict=True)]
    peak = max(map(abs, sums)) or 1
    return np.array([(254 * s + peak) // (2 * peak) for s in sums], np.int8).tobytes()


def test_the_table_is_whole_and_small_enough_to_ship():
    assert TABLE.verify()
    assert len(DATA) <= 8_000_000
    assert TABLE.dimension == 256
    assert TABLE.name == f"all-MiniLM-L6-v2/static-256/{TABLE.sha256[:16]}"


def test_every_row_reaches_127_and_whole_words_come_first():
    rows = TABLE.rows().astype(np.int16)
    pieces = TABLE.vocabulary()
    assert len(pieces) == len(set(pieces)) == len(rows)
    assert (np.abs(rows).max(axis=1) == 127).all()
    assert all(piece.isalpha() and len(piece) > 2 for piece in pieces[: TABLE.words])


@given(some_words)
def test_a_vector_is_always_the_sum_of_weighted_pieces(chosen):
    text = " ".join(chosen)
    assert TABLE.embed([text]) == [by_hand(text)]


@given(some_words, st.randoms())
def test_the_order_of_words_never_matters(chosen, random):
    shuffled = random.sample(chosen, len(chosen))
    assert TABLE.embed([" ".join(shuffled)]) == TABLE.embed([" ".join(chosen)])


@given(st.lists(some_words, max_size=5))
def test_a_text_has_the_same_vector_alone_and_among_others(texts):
    joined = [" ".join(text) for text in texts]
    assert TABLE.embed(joined) == [TABLE.embed([text])[0] for text in joined]


def test_stop_words_and_marks_change_nothing():
    assert TABLE.embed(["The dog, and a cat!"]) == TABLE.embed(["dog cat"])
    assert TABLE.embed(["the of and, (!)"]) == [bytes(256)]


def test_every_stop_word_of_the_analyser_weighs_nothing():
    assert [word for word in STOP if word in NUMBERS and WEIGHTS[NUMBERS[word]]] == []


def test_vectors_are_the_same_on_every_machine():
    assert hashlib.sha256(b"".join(TABLE.embed(TEXTS))).hexdigest() == DIGEST


def test_vectors_are_the_same_under_another_cpu_dispatch():
    environment = {
        **os.environ,
        "NPY_DISABLE_CPU_FEATURES": "AVX2 AVX512F AVX512_SKX X86_V3 X86_V4",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == DIGEST


@settings(max_examples=examples(300))
@given(st.sampled_from([*NUMBERS]) | st.text(max_size=6) | st.sampled_from(["", "\n", "one\ntwo"]))
def test_a_piece_is_looked_up_as_in_a_dictionary(piece):
    number = TABLE.number_of(piece)
    assert number == NUMBERS.get(piece)
    assert number is None or TABLE.piece(number) == piece


def test_a_few_words_are_embedded_without_a_dictionary_of_all_pieces(monkeypatch):
    table, expected = StaticTable(DATA), TABLE.embed(["the harbourmaster", *TEXTS])
    with monkeypatch.context() as patched:
        patched.delattr(StaticTable, "vocabulary")
        assert table.embed(["the harbourmaster"]) == expected[:1]
    assert table.embed(TEXTS * 9) == expected[1:] * 9


def test_the_table_is_read_where_it_lies():
    with FILE.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert StaticTable(memoryview(mapped)).embed(TEXTS) == TABLE.embed(TEXTS)


@pytest.mark.parametrize("size", [0, 10, 200, 100_000, len(DATA) - 1])
def test_a_table_that_is_cut_short_is_refused(size):
    with pytest.raises(InputError, match="static table"):
        StaticTable(DATA[:size])


def test_a_table_that_was_changed_does_not_verify():
    changed = bytearray(DATA)
    changed[-1] ^= 1
    assert not StaticTable(changed).verify()


def test_a_small_table_is_laid_out_and_read_back():
    rows = np.array([[127, 0], [0, -127], [127, 127]], np.int8)
    data = encode_static_table(
        "model", "source", ["dog", "##s", "é"], 1, np.array([2, 1, 0], np.uint16), rows
    )
    table = StaticTable(data)
    assert data == encode_static_table(
        "model", "source", ["dog", "##s", "é"], 1, np.array([2, 1, 0], np.uint16), rows
    )
    assert table.vocabulary() == ["dog", "##s", "é"]
    assert table.verify()
    assert np.array_equal(table.rows(), rows)
    assert table.embed(["Dogs"]) == [np.array([127, -63], np.int8).tobytes()]


def test_the_notice_lies_beside_the_table_and_names_where_it_comes_from():
    notice = FILE.with_suffix(".NOTICE").read_text()
    assert "sentence-transformers/all-MiniLM-L6-v2" in notice
    assert "Apache License, Version 2.0" in notice
    assert "tools/build_static.py" in notice
    assert notice == (Path(__file__).parents[2] / "NOTICE").read_text()
