"""The contract of `memplane.ports.Retriever`, and the law that holds its implementations equal.

`LogRetriever` searches in arrays, `HookRetriever` with the standard library. Both rank words by the
same integers. What the brief one leaves out on purpose is taken out of the policy here: related
words (which also stand in where no event holds a word), neighbours, speakers, kinds and what else
counts where people talk among themselves, boosts, vectors, less weight for tools. It answers as of the head of the log, and considers the 200 best events by their
words, of which it shows 32.
"""

import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import NotFoundError
from memplane.index import terms
from memplane.index.bm25 import policy_constants, relevance
from memplane.policy import ChannelRule
from memplane.policy.records import Around
from memplane.ports import ONE
from memplane.recall.suppress import Scope
from memplane.search.passages import HookRetriever
from memplane.search.retriever import LogRetriever
from memplane.search.service import index_service
from tests.examples import examples

NOW = "2026-03-01T12:00:00.000000Z"
WORDS = (
    "ledger PostgreSQL migration migrated tests passed failed painting paintings went bought "
    "parse_http_url HTTPServer src/db/pool.py E0308 Tokyo guitar guitars don't 1,200 May the and "
    "Zürich Zurich pets hamster I"
).split()
EVENTS = (12, 30, 80)
NOTHING = Around(0, 1, 1)
SHOWN = 32
MOST = 10_000


def row(draw, number):
    words = draw.choices(WORDS, k=draw.choice((1, 3, 8, 8, 20, 300)))
    made = {"text": f"{' '.join(words)} {number}", "importance": draw.choice((100, 500, 500, 900))}
    made["session"] = draw.choice(("s1", "s2"))
    match draw.randrange(6):
        case 0:
            made |= {"kind": "decision", "key": f"k{draw.randrange(4)}"}
        case 1:
            made |= {"kind": "fact", "sensitivity": draw.choice(("normal", "high"))}
        case 2:
            made |= {"role": "assistant", "tags": ["db"]}
        case _:
            made |= {"role": "user"}
    return made


class Searched:
    """A plane with all of its index saved, and what searches it."""

    def __init__(self, folder, events):
        draw = random.Random(events)
        self.plane = memplane.init(folder, trusted=False)
        self.plane.record_many([row(draw, number) for number in range(events)])
        for seq in draw.sample(range(1, events), 2):
            self.plane.forget(id=self.plane.event(seq).id)
        self.context, self.policies = self.plane.context, self.plane.upkeep.policies
        self.folds = self.context.caught_up(self.policies)
        self.service = index_service(self.context)
        self.index = self.service.index(self.policies)
        assert self.index.save()
        self.head = self.plane.head().seq

    def scope(self, **fields):
        rule = ChannelRule(fields.pop("hidden", ()))
        return Scope(rule, now=NOW, as_of=self.head, **fields)

    def arrays(self, scoring):
        made = self.service.retriever(self.policies._replace(scoring=scoring), self.folds)
        assert isinstance(made, LogRetriever)
        return made

    def brief(self, scoring):
        return HookRetriever(self.context, self.policies._replace(scoring=scoring), self.folds)


@pytest.fixture(scope="module")
def planes(tmp_path_factory):
    made = [Searched(tmp_path_factory.mktemp(f"p{count}") / "p", count) for count in EVENTS]
    yield made
    for one in made:
        one.plane.close()


def by_words_alone(scoring, **constants):
    """The policy without what the brief retriever leaves out."""
    retrieval = scoring.retrieval._replace(
        related=0, coverage=0, dense=0, near=NOTHING, near_many=NOTHING, wide=NOTHING, sources_max=0,
        wide_sources_max=0, kinds=0, impersonal=1_000, timed=1_000, session_best=1_000, asking=1_000, reply=0,
        **constants, **dict.fromkeys((
            "speaker_name", "speaker", "speaker_heard", "first_person", "first_person_heard",
            "preference", "answer", "opening", "beginning", "tool_call", "tool_result",
        ), 1000),
    )  # fmt: skip
    return scoring._replace(
        retrieval=retrieval, tag_weight=0, key_weight=0,
        marker_boosts=dict.fromkeys(scoring.marker_boosts, 0),
    )  # fmt: skip


constants = st.fixed_dictionaries(
    {
        "k1": st.integers(1, 3_000),
        "b": st.integers(0, 1_000),
        "bigrams": st.integers(0, 1_000),
        "prefixes": st.integers(0, 1_000),
    }
)
requests = st.fixed_dictionaries(
    {
        "query": st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
        "upto": st.integers(0, 90),
        "never": st.frozensets(st.integers(1, 90), max_size=4),
        "only": st.sampled_from(
            ((), (("session:s1",),), (("kind:decision", "tag:db"), ("session:s2",)))
        ),
        "hidden": st.sampled_from(((), ("high",))),
    }
)


def answers(plane, scoring, request, most):
    """What both give, the brief one for at most so many."""
    asked = dict(request)
    query, scope = asked.pop("query"), plane.scope(hidden=asked.pop("hidden"))
    asked["upto"] = min(asked["upto"], plane.head)
    whole = plane.arrays(scoring).find(query, scope=scope, most=MOST, **asked)
    brief = plane.brief(scoring).find(query, scope=scope, most=most, **asked)
    return whole, brief


def by_rank(rows):
    """(seq, score, importance) of each in the order of all searches."""
    return sorted(rows, key=lambda row: (-row[1], -row[2], -row[0]))


@given(which=st.integers(0, 2), request=requests, constants=constants, most=st.integers(1, 150))
def test_the_brief_retriever_gives_the_integers_of_the_arrays(
    planes, which, request, constants, most
):
    """Corpora, queries, masks and limits: the same seqs, order and scores."""
    plane = planes[which]
    scoring = by_words_alone(plane.policies.scoring, **constants)
    whole, brief = answers(plane, scoring, request, most)
    visible = {one.seq: one.importance for one in whole.found if one.words}
    bm25, weights = policy_constants(scoring.retrieval)
    view = plane.index.view(min(request["upto"], plane.head))
    hits = view.hits(terms.query(request["query"]), min(2 * most, 200), None, bm25, weights)
    expected = [(hit.seq, hit.score, visible[hit.seq]) for hit in hits if hit.seq in visible]
    expected = by_rank(expected[:SHOWN])[:most]
    assert [(one.seq, one.score, one.importance) for one in brief.found] == expected


@given(which=st.integers(0, 1), request=requests, constants=constants)
def test_where_words_alone_count_both_find_the_same_events_in_the_same_order(
    planes, which, request, constants
):
    """The scores of the arrays are those of the brief one on the scale of the best."""
    plane = planes[which]
    scoring = by_words_alone(plane.policies.scoring, **constants)
    whole, brief = answers(plane, scoring, request, 100)
    peak = max((one.score for one in brief.found), default=0)
    expected = [
        (one.seq, round(relevance(one.score, peak, 0.0, 0, np.sqrt)), one.importance)
        for one in brief.found
    ]
    assert [(one.seq, one.score, one.importance) for one in whole.found] == by_rank(expected)
    assert not whole.found or whole.wanted == brief.wanted
    assert all(one.score <= ONE for one in whole.found)


@pytest.fixture(params=["arrays", "brief"])
def each(request, planes):
    plane = planes[1]
    return plane, getattr(plane, request.param)(plane.policies.scoring)


def found(plane, retriever, query, **asked):
    asked = {"upto": plane.head, "scope": plane.scope(), "most": 10} | asked
    return retriever.find(query, **asked)


def test_a_query_without_words_finds_nothing(each):
    plane, retriever = each
    for query in ("", "?!", " "):
        assert not found(plane, retriever, query).found
    assert not found(plane, retriever, "ledger", most=0).found


def test_what_is_found_comes_best_first_and_ties_go_by_importance_then_to_the_newer(each):
    plane, retriever = each
    rows = found(plane, retriever, "ledger guitar").found
    assert rows
    assert list(rows) == sorted(rows, key=lambda one: (-one.score, -one.importance, -one.seq))


def test_the_query_itself_and_later_events_are_no_answer(each):
    plane, retriever = each
    seqs = [one.seq for one in found(plane, retriever, "ledger guitar").found]
    assert all(seq not in seqs[:2] for seq in _seqs(plane, retriever, never=seqs[:2]))
    assert all(seq <= 10 for seq in _seqs(plane, retriever, upto=10))


def _seqs(plane, retriever, **asked):
    return [one.seq for one in found(plane, retriever, "ledger guitar", **asked).found]


def test_items_ids_and_texts_are_those_of_the_events(each):
    plane, retriever = each
    for seq in _seqs(plane, retriever):
        event = plane.plane.event(seq)
        assert retriever.id(seq) == retriever.item(seq).id == event.id
        assert retriever.text(seq) == event.text


def test_a_passage_says_words_of_the_query_within_its_tokens(each):
    plane, retriever = each
    answer = found(plane, retriever, "ledger guitar")
    for one in answer.found:
        passage = retriever.passage(one.doc, answer.wanted, 30)
        assert passage
        assert passage in retriever.text(one.seq)
        assert retriever.words(one.doc) & set(answer.wanted)


def test_a_seq_that_the_log_does_not_have_is_not_found(each):
    plane, retriever = each
    with pytest.raises(NotFoundError):
        retriever.item(plane.head + 1)


@settings(max_examples=examples(20))
@given(st.integers(0, 30), st.integers(1, 40))
def test_both_give_the_same_passages(planes, place, limit):
    plane = planes[0]
    scoring = by_words_alone(plane.policies.scoring)
    arrays, brief = plane.arrays(scoring), plane.brief(scoring)
    wanted = found(plane, brief, "ledger guitar tests").wanted
    seq = 1 + place % EVENTS[0]
    docs = plane.index.view().documents([seq]).tolist()
    if len(docs) == 1:
        assert arrays.passage(docs[0], wanted, limit) == brief.passage(seq, wanted, limit)
