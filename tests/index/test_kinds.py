"""Kinds of things: the table, what texts have of it, and what documents earn by it."""

import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from builders_documents import made_up
from hypothesis import given, settings, strategies as st

import memplane.index
from memplane.errors import InputError
from memplane.index import terms
from memplane.index.bm25 import idf
from memplane.index.lexical import with_kinds
from memplane.index.segment import (
    PERSONAL,
    THINGS,
    TIMED,
    KindTable,
    asked_kinds,
    kind_tables,
    word_traits,
)
from memplane.index.store import SegmentedIndex
from memplane.index.terms import Document
from memplane.ports import ONE
from tests.examples import examples

DATA = Path(memplane.index.__file__).parent / "data"
FILE = (DATA / "kinds-en.bin").read_bytes()


def bits(*names):
    return sum(1 << THINGS.index(name) for name in names)


def token_traits(token):
    found = 0
    for word in re.findall(r"\w+", token):
        found |= word_traits(word)
    return found


def kinds_of(text):
    found = 0
    for token in text.split():
        found |= token_traits(token)
    return {name for at, name in enumerate(THINGS) if found >> at & 1}


def test_the_table_is_small_names_its_language_and_its_licence_lies_beside_it():
    assert len(FILE) <= 100_000
    (table,) = kind_tables()
    assert table.language == "en"
    assert len(table) > 10_000
    notice = (DATA / "static.NOTICE").read_text()
    assert "kinds-en.bin" in notice
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in notice


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("We adopted a pup!", "pet"),
        ("three (hamsters)", "pet"),
        ("off to Lisbon", "place"),
        ("She plays the violin.", "music"),
        ("covid again", "health"),
        ("my nieces", "family"),
        ("BAKED a strawberry-cheesecake", "food"),
        ("so grateful", "feeling"),
    ],
)
def test_a_text_is_of_the_kinds_of_its_words(text, kind):
    assert kind in kinds_of(text)


def test_words_that_mostly_mean_something_else_are_of_no_kind():
    assert "place" in kinds_of("in Turkey")
    assert "place" not in kinds_of("a turkey")
    assert kinds_of("the record shows that more was done") == set()


@pytest.mark.parametrize(
    ("token", "own"),
    [
        ("I'm", PERSONAL),
        ("(we", PERSONAL),
        ("Yesterday,", TIMED),
        ("7pm", TIMED),
        ("\u0663", TIMED),
    ],
)
def test_a_token_speaks_of_its_writer_or_of_a_time(token, own):
    assert token_traits(token) & (PERSONAL | TIMED) == own


def test_a_question_asks_for_the_kinds_that_it_names():
    def asked(question):
        return {THINGS[bit.bit_length() - 1] for bit in asked_kinds(question)}

    assert asked("Which PETS does Ana have?") == {"pet"}
    assert asked("What are Bo's hobbies?") == {"hobby"}
    assert "place" in asked("Where has Bo been?")
    assert asked("Where is it?") == set()
    assert asked("carpets and petals") == set()


def test_bytes_that_are_not_whole_or_of_other_kinds_are_refused():
    for data in (b"", FILE[:-1], FILE.replace(b'"pet"', b'"pot"', 1), FILE[3:]):
        with pytest.raises(InputError):
            KindTable(data)
    assert len(zlib.decompress(FILE[FILE.index(b"}\n") + 2 :])) < 1 << 20


TEXTS = ("a pup", "I sang", "Lisbon in 2019", "", "quiet", "the hamster and we")


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.sampled_from(TEXTS), max_size=30), st.lists(st.integers(0, 30), max_size=3))
def test_documents_keep_the_traits_of_their_texts_however_they_are_added(chosen, stops):
    documents = [
        Document(seq, text=text, extra="May 2023 hamster") for seq, text in enumerate(chosen, 1)
    ]
    index = SegmentedIndex()
    ends = [*sorted(min(stop, len(documents)) for stop in stops), len(documents)]
    for start, end in zip([0, *ends], ends, strict=False):
        index.add_many(documents[start:end])
    expected = [0] * len(chosen)
    for at, text in enumerate(chosen):
        for token in text.split():
            expected[at] |= token_traits(token)
    assert index.view().column("traits").tolist() == expected


def test_traits_are_kept_in_the_folder_merged_and_erased(tmp_path):
    index = SegmentedIndex(tmp_path)
    documents = [
        one._replace(text=f"{one.text} hamster" if one.seq % 3 else one.text)
        for one in made_up(700)
    ]
    index.add_many(documents)
    assert index.save(700)
    again = SegmentedIndex(tmp_path)
    found = again.view().column("traits")
    assert found.tolist() == index.view().column("traits").tolist()
    assert [bool(own & bits("pet")) for own in found] == [one.seq % 3 > 0 for one in documents]
    again.erase([5])
    assert again.view().column("traits")[4] == 0


kinds_sets = st.lists(st.sets(st.sampled_from(["pet", "place", "food"])), min_size=1, max_size=25)


@settings(max_examples=examples(50), deadline=None)
@given(kinds_sets, st.sets(st.sampled_from(["pet", "place", "food"])), st.data())
def test_a_document_earns_the_rarest_of_its_kinds_and_what_is_hidden_earns_nothing(
    sets, asked, data
):
    count = len(sets)
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    hidden, apart = np.array(data.draw(flags)), np.array(data.draw(flags))
    index = SegmentedIndex()
    index.add_many(Document(seq, text="kayak" if seq % 2 else "sea") for seq in range(1, count + 1))
    view = index.view().without(apart)
    matches = view.match(terms.query("kayak"), hidden)
    traits = np.array([bits(*one) for one in sets], np.uint32)
    wanted = sorted(bits(name) for name in asked)
    found = with_kinds(matches, traits, wanted, 0.5, hidden, apart)
    there = [one for one, out in zip(sets, apart, strict=True) if not out]
    rare = {name: idf(len(there), sum(name in one for one in there)) for name in asked}
    earned = {
        doc: 0.5 * max(rare[name] for name in own & asked)
        for doc, own in enumerate(sets)
        if own & asked and not hidden[doc] and not apart[doc]
    }
    assert found.docs.tolist() == sorted({*matches.docs.tolist(), *earned})
    words = dict(zip(matches.docs.tolist(), matches.words.tolist(), strict=True))
    docs = found.docs.tolist()
    expected = [earned.get(doc, 0.0) * ONE + words.get(doc, 0.0) for doc in docs]
    assert found.words.tolist() == expected
    assert found.coverage.sum() == matches.coverage.sum()
