from decimal import Context

import numpy as np
import pytest
from builders_documents import WORDS, document_lists, made_up, texts
from hypothesis import given, settings, strategies as st
from rank_bm25 import BM25Okapi

from memplane.errors import PlaneError
from memplane.index import lexical, terms
from memplane.index.bm25 import BM25, Weights, idf, ln
from memplane.index.store import SegmentedIndex
from memplane.index.terms import Document, Query, TermVocabulary, analyse
from memplane.ports import ONE
from tests.examples import examples


def of(documents):
    index = SegmentedIndex()
    index.add_many(documents)
    return index


def same(left, right):
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(deadline=None)
@given(document_lists(), texts, st.sampled_from([(0.9, 0.4), (1.5, 0.75), (1.2, 0.0)]))
def test_scores_are_those_of_rank_bm25_with_the_lucene_idf(documents, question, constants):
    vocabulary = TermVocabulary()
    bags = [analyse(d.text, d.extra, vocabulary) for d in documents]
    view, query = of(documents).view(), terms.query(question)
    for kind, wanted in enumerate(query[:3]):
        alone = Query()._replace(**{Query._fields[kind]: wanted})
        matches = view.match(alone, bm25=BM25(*constants), weights=Weights(1.0, 1.0, 1.0))
        bag = [list(map(str, found[kind])) for found in bags]
        if not any(bag):
            assert not matches.words.any()
            continue
        oracle = BM25Okapi(bag, k1=constants[0], b=constants[1])
        holding = {t: sum(t in words for words in bag) for words in bag for t in words}
        oracle.idf = {t: np.log(1 + (len(bag) - n + 0.5) / (n + 0.5)) for t, n in holding.items()}
        expected = oracle.get_scores([str(term) for term, _ in wanted])
        got = np.zeros(len(documents))
        got[matches.docs] = matches.words / ONE
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-12)


@settings(deadline=None)
@given(document_lists(), texts, st.integers(0, 130))
def test_the_index_as_of_a_seq_is_the_index_of_the_documents_up_to_it(documents, question, upto):
    query = terms.query(question)
    early = of([d for d in documents if d.seq <= upto]).view()
    late = of(documents).view(upto)
    assert late.count == early.count
    same(late.match(query), early.match(query))
    same([late.labelled("ns:/1", "s2")], [early.labelled("ns:/1", "s2")])


@settings(deadline=None)
@given(document_lists(), texts, st.integers(0, 2**31))
def test_hidden_documents_are_no_match_and_change_no_score(documents, question, seed):
    view = of(documents).view()
    hidden = np.array([bool(seed >> (i % 31) & 1) for i in range(len(documents))], bool)
    everything = view.match(terms.query(question))
    kept = ~hidden[everything.docs]
    same(view.match(terms.query(question), hidden), [column[kept] for column in everything])


def test_as_of_a_seq_holds_across_segments():
    documents = made_up(2600)
    index = of(documents)
    index.settle()
    query = terms.query("guitar ledger migration pool.py Tokyo3")
    for upto in (0, 1, 255, 256, 257, 2048, 2049, 2500, 2600, 9999):
        same(index.view(upto).match(query), of(documents[:upto]).view().match(query))


def test_coverage_is_the_share_of_rarity_and_ignores_related_words():
    index = of(made_up(50))
    plain = terms.query("guitar zebra")
    related = plain._replace(related=((terms.whole_term("ledger"), 0.4),))
    view = index.view()
    matches = view.match(related)
    having = view.having(terms.whole_term("guitar"))
    share = idf(50, having) / (idf(50, having) + idf(50, 0))
    assert {round(c, 9) for c in matches.coverage} == {0.0, round(share, 9)}
    assert (matches.words[matches.coverage == 0] > 0).any()
    assert set(view.match(plain).docs) < set(matches.docs)


def test_a_weight_scales_the_score_of_its_term():
    view = of(made_up(50)).view()
    full = view.match(Query(words=((terms.whole_term("guitar"), 1.0),)))
    half = view.match(Query(words=((terms.whole_term("guitar"), 0.5),)))
    np.testing.assert_allclose(half.words * 2, full.words)
    same([half.coverage], [full.coverage])


def test_nothing_is_found_in_an_empty_index_or_for_an_empty_query():
    query = terms.query("guitar")
    assert SegmentedIndex().view().hits(query, 5) == []
    assert of(made_up(5)).view().hits(Query(), 5) == []
    assert len(of(made_up(5)).view().match(Query()).docs) == 0
    assert of(made_up(5)).view(0).hits(query, 5) == []


@given(st.lists(st.integers(0, 5)), st.integers(0, 12))
def test_the_best_come_first_and_of_equals_the_newer(scores, k):
    ranked = sorted(range(len(scores)), key=lambda i: (-scores[i], -i))
    assert lexical.best(np.array(scores, np.int64), k).tolist() == ranked[:k]


@settings(deadline=None, max_examples=examples(40))
@given(
    st.sampled_from([1, 2, 40, 1 << 20]),
    st.sampled_from([50, 20_000, 40_001]),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 99),
)
def test_the_bar_is_always_reached_by_as_many_as_asked(peak, count, share, ordered, seed):
    # Also where scores rise with their places, or come again at the steps of a sample.
    scores = np.random.default_rng(seed).integers(0, peak, count, endpoint=True)
    if ordered:
        scores.sort()
    k = max(1, int(share * count))
    bar = lexical.reached(scores, k)
    assert np.count_nonzero(scores >= bar) >= k
    assert bar >= scores.min()


def test_the_bar_lets_not_many_more_through_than_asked():
    scores = np.random.default_rng(7).permutation(100_000)
    for k in (200, 1_200, 8_000):
        assert k <= np.count_nonzero(scores >= lexical.reached(scores, k)) <= 2 * k


def test_scores_that_come_again_at_each_step_of_a_sample_mislead_nobody():
    scores = np.zeros(40_000, np.int64)
    scores[::9] = 5
    bar = lexical.reached(scores, 10_000)
    assert np.count_nonzero(scores >= bar) >= 10_000


@settings(deadline=None)
@given(document_lists(), texts, st.integers(1, 6))
def test_an_event_scores_as_its_best_document_and_comes_once(documents, question, k):
    view = of(documents).view()
    query = terms.query(question)
    matches = view.match(query)
    scores = lexical.whole_scores(matches)
    events = {}
    for seq, score in zip(view.take("seq", matches.docs).tolist(), scores.tolist(), strict=True):
        events[seq] = max(score, events.get(seq, 0))
    ranked = sorted(events.items(), key=lambda item: (-item[1], -item[0]))
    assert view.hits(query, k) == ranked[:k]


@settings(deadline=None)
@given(document_lists(), st.integers(1, 4))
def test_neighbours_are_those_before_and_after_in_the_group(documents, reach):
    view = of(documents).view()
    docs = np.arange(len(documents))
    table = view.neighbours(docs, reach)
    for doc, row in enumerate(table.tolist()):
        group = documents[doc].group
        members = [i for i, d in enumerate(documents) if d.group == group] if group else [doc]
        at = members.index(doc)
        steps = range(at - reach, at + reach + 1)
        assert row == [members[i] if 0 <= i < len(members) else -1 for i in steps]


@settings(deadline=None)
@given(document_lists())
def test_columns_texts_and_events_come_back_by_number(documents):
    view = of(documents).view()
    docs = np.arange(len(documents))[::-1]
    assert view.take("seq", docs).tolist() == [d.seq for d in documents][::-1]
    assert view.take("tokens", docs).tolist() == [d.tokens for d in documents][::-1]
    assert [view.text(i) for i in range(len(documents))] == [d.text for d in documents]
    wanted = [d.seq for d in documents if d.seq % 2]
    found = view.documents(wanted).tolist()
    assert found == [i for i, d in enumerate(documents) if d.seq % 2]


@settings(deadline=None)
@given(document_lists(), texts, st.sampled_from([(0.7, 0.2, 0.4), (0.0, 1.0, 1.0)]))
def test_what_is_earned_is_what_each_field_earns_by_its_weight(documents, question, shares):
    view, words = of(documents).view(), terms.query(question)
    query = words._replace(related=words.words[:1], words=words.words[1:])
    weights, earned = Weights(*shares), np.zeros(len(documents))
    for field, share in zip(Query._fields, (1.0, *shares), strict=True):
        alone = view.match(Query()._replace(**{field: getattr(query, field)}))
        field_weight = getattr(Weights(), field, 1.0)
        earned[alone.docs] += alone.words / field_weight * share
    matches = view.match(query, weights=weights)
    np.testing.assert_allclose(matches.words, earned[matches.docs], rtol=1e-9, atol=1e-9)
    assert lexical.whole_scores(matches).tolist() == [round(one) for one in matches.words]


@settings(deadline=None)
@given(document_lists(), st.integers(0, 130))
def test_documents_are_counted_as_they_are_found(documents, upto):
    index = SegmentedIndex()
    index.add_many(documents)
    view = index.view(upto)
    words = sorted({term for text in WORDS for term, _ in terms.query(text).words})
    matches = [view.match(Query(words=((word, 1.0),))) for word in words]
    assert view.counts(words) == [len(found.docs) for found in matches]


def test_a_file_that_was_changed_since_its_sum_was_checked_is_named():
    view = of([Document(1, 0, "s", "user", "", "a red kayak", "", 4)]).view()
    (block,) = view._blocks
    broken = block.postings._replace(docs=np.full_like(block.postings.docs, 60_000))
    view._blocks = [block._replace(postings=broken)]
    with pytest.raises(PlaneError, match="memplane rebuild"):
        view.match(terms.query("kayak"))
    view._blocks = [block._replace(texts=block.texts._replace(data=b"a red kaya\xff"))]
    with pytest.raises(PlaneError, match="memplane rebuild"):
        view.text(0)


@settings(max_examples=examples(500))
@given(st.one_of(st.integers(1, 300_000), st.integers(1, 1 << 64)))
def test_a_logarithm_is_that_of_decimal_with_20_digits(number):
    context = Context(prec=20)
    assert ln(number) == float(context.ln(context.create_decimal(number)))
