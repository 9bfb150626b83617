"""The contract of `memplane.ports.Index`, on every engine that is there.

`own` is memplane's index by words alone. Each promise below is asked of all engines. `DIFFERENCES`
names those that one does not keep, and why: there the test holds the difference instead, so that
the list stays true.
"""

import re

import pytest
from hypothesis import given, settings, strategies as st

import memplane.index.engine
from memplane.errors import MissingExtraError
from memplane.evaluate import PlainIndex
from memplane.index.engine import HNSWIndex, TantivyIndex
from memplane.wiring import find_embedder
from tests.examples import examples

LATE = 1 << 40
TEXTS = (
    "The ferry leaves the harbour at noon",
    "A ferry was late again",
    "Bread is baked in the old mill",
    "The mill by the harbour was sold",
    "Noon bells ring at the mill",
    "She paints boats in the harbour",
    "The baker sold bread to the crew",
    "Late trains and late ferries",
)
DIFFERENCES = {
    "tantivy": {
        "prefix": "statistics are those of all documents there are, later ones too",
        "scripts": "words of scripts without blanks are whole runs of letters",
        "ties": "of more than 2,000 hits with one score the newer may stay unseen",
    },
    "usearch": {
        "prefix": "how far a document stands out is measured over all documents there are",
        "words": "whatever is more similar than the mean is found, without a word of the query",
        "fields": "fields have no vector",
    },
}
# Beyond 10,000 documents, or where a test asks for the graph however few there are.
DIFFERENCES["usearch-graph"] = DIFFERENCES["usearch"] | {
    "all": "the graph may not lead to all of many equal vectors",
    "ties": "likewise",
}


def own(folder):
    return PlainIndex()


def tantivy(folder):
    return TantivyIndex()


def tantivy_in_a_folder(folder):
    folder.mkdir()
    return TantivyIndex(folder)


def usearch(folder):
    return HNSWIndex(find_embedder("static"))


def usearch_graph(folder):
    return HNSWIndex(find_embedder("static"), exact_below=0)


@pytest.fixture(
    scope="module",
    params=[own, tantivy, tantivy_in_a_folder, usearch, usearch_graph],
    ids=lambda make: make.__name__,
)
def engine(request, tmp_path_factory):
    """Makes an empty index; `keeps` says whether the engine keeps a promise."""
    name = request.param.__name__.removesuffix("_in_a_folder").replace("_", "-")

    def make(texts=()):
        try:
            index = request.param(tmp_path_factory.mktemp("engine") / "index")
        except MissingExtraError as error:
            pytest.skip(str(error))
        for seq, text in enumerate(texts, 1):
            index.add(seq, text, {})
        return index

    make.keeps = lambda promise: promise not in DIFFERENCES.get(name, {})
    return make


def found(index, query, k=10, *, upto=LATE, masked=()):
    hits = index.search(query, k, upto=upto, masked=frozenset(masked))
    return [hit.seq for hit in hits]


def test_a_document_is_found_as_soon_as_it_was_added(engine):
    index = engine(TEXTS)
    assert found(index, "bread") != []
    index.add(20, "Saffron is dear", {})
    assert found(index, "saffron", 1) == [20]
    index.add(21, "Saffron is dear, and saffron again", {})
    assert set(found(index, "saffron", 2)) == {20, 21}


def test_the_best_come_first_and_no_more_than_were_asked_for(engine):
    index = engine(TEXTS)
    hits = index.search("the late ferry", 3, upto=LATE, masked=frozenset())
    assert 1 <= len(hits) <= 3
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(type(hit.score) is int and type(hit.seq) is int for hit in hits)
    assert hits[0].seq in {2, 8}
    assert found(index, "ferry", 0) == []


def test_what_holds_no_word_of_the_query_is_not_found(engine):
    assert (found(engine(TEXTS), "a ship on the sea") == []) == engine.keeps("words")


def test_a_document_is_found_by_the_value_of_a_field(engine):
    index = engine(TEXTS)
    index.add(20, "It was said twice", {"actor": "Quentin", "role": "user"})
    assert (found(index, "quentin", 1) == [20]) == engine.keeps("fields")


def test_words_are_found_in_scripts_without_blanks(engine):
    index = engine((*TEXTS, "明日は東京へ行く"))
    assert (found(index, "東京", 1) == [9]) == engine.keeps("scripts")


def test_a_word_is_found_in_other_forms_and_without_its_accents(engine):
    index = engine((*TEXTS, "Zürich has many cafés"))
    assert found(index, "ferries", 3)[0] in {1, 2, 8}
    assert found(index, "cafes zurich", 1) == [9]


def test_ties_go_to_the_newer(engine):
    index = engine(("The lamp is lit",) * 150)
    assert (found(index, "lamp", 3) == [150, 149, 148]) == engine.keeps("all")
    if engine.keeps("all"):
        assert found(index, "lamp", 3, masked=(149, 150)) == [148, 147, 146]
    many = engine(("The lamp is lit",) * 3_000)
    assert (found(many, "lamp", 3) == [3000, 2999, 2998]) == engine.keeps("ties")
    few = engine(("The lamp is lit",) * 5)
    assert found(few, "lamp", 3) == [5, 4, 3]


@pytest.mark.parametrize("query", ["", "   ", "?!", "..."])
def test_a_query_without_words_finds_nothing(engine, query):
    assert found(engine(TEXTS), query) == []


@pytest.mark.parametrize(
    "query",
    ["bread AND (mill OR", 'text:bread "mill', "bread~2^ +-&&||", "seq:[1 TO *] bread", "*bread?"],
)
def test_whatever_stands_in_a_query_is_a_word_or_nothing(engine, query):
    assert 3 in found(engine(TEXTS), query)


def test_an_empty_index_finds_nothing(engine):
    assert found(engine(), "bread") == []


def test_an_empty_text_is_no_match(engine):
    index = engine(("", "bread", "  "))
    assert found(index, "bread") == [2]


QUERIES = st.lists(
    st.sampled_from(sorted({word for text in TEXTS for word in re.findall(r"\w+", text)})),
    min_size=1,
    max_size=5,
).map(" ".join)


@settings(max_examples=examples(25), deadline=None)
@given(
    QUERIES, st.integers(1, 12), st.integers(0, 25), st.frozensets(st.integers(1, 24), max_size=20)
)
def test_nothing_later_or_masked_is_ever_found_and_takes_no_place(engine, query, k, upto, masked):
    index = engine(TEXTS * 3)
    every = [seq for seq in found(index, query, 100, upto=upto) if seq not in masked]
    assert found(index, query, k, upto=upto, masked=masked) == every[:k]
    assert all(seq <= upto for seq in every)


@settings(max_examples=examples(15), deadline=None)
@given(QUERIES, st.integers(1, 8))
def test_as_of_a_seq_the_same_is_found_as_if_nothing_had_followed(engine, query, upto):
    whole, prefix = engine(TEXTS), engine(TEXTS[:upto])
    then = whole.search(query, 10, upto=upto, masked=frozenset())
    if engine.keeps("prefix"):
        assert then == prefix.search(query, 10, upto=upto, masked=frozenset())
    elif engine.keeps("words"):  # the same documents, with other scores
        assert {hit.seq for hit in then} == set(found(prefix, query))


def test_later_documents_change_what_scores_are_where_that_is_said(engine):
    whole, prefix = engine(TEXTS), engine(TEXTS[:4])
    asked = ("the ferry in the harbour", 10)
    then = whole.search(*asked, upto=4, masked=frozenset())
    assert (then == prefix.search(*asked, upto=4, masked=frozenset())) == engine.keeps("prefix")


@settings(max_examples=examples(10), deadline=None)
@given(st.lists(st.sampled_from(TEXTS), max_size=30), st.sets(st.integers(1, 30)), QUERIES)
def test_when_it_was_searched_changes_nothing_that_is_found_later(engine, texts, searched, query):
    index, whole = engine(), engine(texts)
    for seq, text in enumerate(texts, 1):
        index.add(seq, text, {})
        if seq in searched:
            found(index, "the mill")
    assert index.search(query, 10, upto=LATE, masked=frozenset()) == whole.search(
        query, 10, upto=LATE, masked=frozenset()
    )


# --- what an engine leaves in a folder ---


def test_what_was_written_is_found_by_who_opens_it(tmp_path):
    first = made(TantivyIndex, tmp_path)
    for seq, text in enumerate(TEXTS, 1):
        first.add(seq, text, {})
    names = first.write(tmp_path)
    assert set(names) == {path.name for path in tmp_path.iterdir() if ".lock" not in path.name}
    again = TantivyIndex(tmp_path)
    assert [found(again, query) for query in TEXTS] == [found(first, query) for query in TEXTS]


def test_a_graph_that_was_written_is_found_by_who_reads_it(tmp_path):
    first = made(HNSWIndex, find_embedder("static"))
    for seq, text in enumerate(TEXTS, 1):
        first.add(seq, text, {})
    assert first.write(tmp_path) == [memplane.index.engine.GRAPH]
    again = HNSWIndex(find_embedder("static"))
    again.load(tmp_path)
    assert [found(again, query) for query in TEXTS] == [found(first, query) for query in TEXTS]
    again.add(20, "Saffron is dear", {})
    assert found(again, "saffron", 1) == [20]


@pytest.mark.parametrize("data", [b"", b"graph", b"\0" * 4_000])
def test_a_graph_that_is_none_is_refused(tmp_path, data):
    index = made(HNSWIndex, find_embedder("static"))
    (tmp_path / memplane.index.engine.GRAPH).write_bytes(data)
    with pytest.raises(ValueError, match=r"graph\.usearch"):
        index.load(tmp_path)


def made(kind, *given):
    try:
        return kind(*given)
    except MissingExtraError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("module", "name", "make"),
    [
        (memplane.index.engine, "tantivy", TantivyIndex),
        (memplane.index.engine, "usearch", lambda: HNSWIndex(find_embedder("static"))),
    ],
)
def test_an_engine_whose_package_is_missing_names_its_extra(monkeypatch, module, name, make):
    for each in [name, *(one for one in __import__("sys").modules if one.startswith(f"{name}."))]:
        monkeypatch.setitem(__import__("sys").modules, each, None)
    with pytest.raises(MissingExtraError, match=rf"memplane\[{name}\]"):
        make()
