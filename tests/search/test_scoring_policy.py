"""Every weight of scoring.yaml that says how events are ranked does what it says."""

from __future__ import annotations

import pytest
import yaml

import memplane
from memplane.index.bm25 import BM25
from memplane.index.fill_order import FillingParameters
from memplane.index.ranking import Ranking
from memplane.index.vectors import PERMILLE_MIN, RELATED_MAX
from memplane.recall.documents import KIND_BITS
from memplane.search.retriever import ranking_weights

FILLER = "and then the boat went on along the quiet shore for a while with nobody aboard"
TALK = [
    ("a1", "user", "ann", "The herons nest near the harbour lake"),
    ("b1", "assistant", None, f"They do. {FILLER}"),
    ("a2", "user", "bob", f"herons, herons and more herons near the lake {FILLER}"),
    ("b2", "assistant", None, "The harbourmaster counts puppies"),
    ("a3", "user", "ann", "I prefer the lake to the harbour"),
    ("b3", "assistant", None, "Noted: bob likes boats"),
]


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    """Search with a scoring.yaml that says only this; give ids and scores."""
    home = tmp_path_factory.mktemp("weights") / "plane"
    with memplane.init(home, durability="os") as plane:
        for name, role, actor, text in TALK:
            plane.record(text, id=name, role=role, actor=actor, session="s")
        plane.record("The dog sleeps", id="dog", session="t")
        plane.record("Lakes freeze in winter", id="goal", session="u", markers=("goal",))
        plane.record("Frozen lakes crack", id="tag", session="v", tags=("harbour",))
        plane.record("dredge the lake", id="call", kind="tool_call", session="x")
        plane.record("lake dredged, 3 dredges", id="result", kind="tool_result", session="y")
        plane.record("It is deep", id="key", session="w", kind="fact", key="lake")

    def search(query, **said):
        text = yaml.safe_dump({"version": 1, **said})
        (home / "policies" / "scoring.yaml").write_text(text)
        with memplane.open(home) as plane:
            return [(hit.event.id, hit.score) for hit in plane.search(query, 100)]

    return search


AMONG_PEOPLE = [
    ("kinds", 3, "Which pets does ann have?"),
    ("impersonal", 0.1, "what did ann say of the lake"),
    ("timed", 5, "what did ann say of the lake"),
    ("session_best", 3, "lake"),
    ("asking", 0.1, "what did ann say of the lake"),
    ("reply", 3, "lake"),
]
PEOPLE = [
    ("p1", "ann", "I swam in the lake"),
    ("p2", "bob", "the lake is cold in May"),
    ("p3", "ann", "a lake, nothing else"),
    ("p4", "ann", "the hamster sleeps"),
    ("p5", "ann", "the lake again, at 7"),
    ("p6", "ann", "did you see the lake?"),
    ("p7", "bob", "from the train"),
]


@pytest.fixture(scope="module")
def among_people(tmp_path_factory):
    """Search what people said to each other with a scoring.yaml that says only this."""
    home = tmp_path_factory.mktemp("people") / "plane"
    with memplane.init(home, durability="os") as plane:
        for name, actor, text in PEOPLE:
            plane.record(text, id=name, role="user", actor=actor, session="s")

    def search(query, **said):
        text = yaml.safe_dump({"version": 1, "retrieval": said})
        (home / "policies" / "scoring.yaml").write_text(text)
        with memplane.open(home) as plane:
            return [(hit.event.id, hit.score) for hit in plane.search(query, 100)]

    return search


LAKE = "herons near the lake"
WIDE = "give me an overview of the herons"


@pytest.mark.parametrize(
    ("key", "value", "query"),
    [
        ("k1", 4, LAKE),
        ("b", 1, LAKE),
        ("bigrams", 3, "harbour lake"),
        ("prefixes", 3, "harbour"),
        ("related", 2, "pets lake"),
        ("related_least", 1, "pets"),
        ("related_most", 0, "pets"),
        ("related_alone", 0.9, "pets"),
        ("speaker_name", 5, "bob boats"),
        ("coverage", 1, LAKE),
        ("speaker", 5, "what did ann say of the lake"),
        ("speaker_heard", 5, "what did ann say of the lake"),
        ("first_person", 5, "what did I say of the lake"),
        ("first_person_heard", 5, "what did I say of the lake"),
        ("answer", 0.1, "what did I say of the lake"),
        ("opening", 5, WIDE),
        ("beginning", 5, "what was the lake at first"),
        ("preference", 3, "lake"),
        ("tool_call", 3, "dredge the lake"),
        ("tool_result", 0.1, "dredge the lake"),
        ("near", {"weight": 1}, LAKE),
        ("near", {"fade": 4000}, LAKE),
        ("near", {"reach": 1}, LAKE),
        ("wide", {"weight": 1}, WIDE),
        ("wide", {"fade": 1}, WIDE),
        ("wide", {"reach": 1}, WIDE),
        ("sources_max", 1, LAKE),
        ("sources_max", 0, LAKE),
        ("wide_sources_max", 1, "describe the lake"),
        ("wide_sources_max", 0, "describe the lake"),
    ],
)
def test_each_weight_of_retrieval_changes_what_its_query_gives(ranked, key, value, query):
    assert ranked(query, retrieval={key: value}) != ranked(query)


@pytest.mark.parametrize(("key", "value", "query"), AMONG_PEOPLE)
def test_what_counts_among_people_changes_nothing_where_an_assistant_answers(
    among_people, ranked, key, value, query
):
    assert among_people(query, **{key: value}) != among_people(query)
    assert ranked(query, retrieval={key: value}) == ranked(query)


def test_where_more_than_two_people_talk_what_stands_around_a_match_has_a_kernel_of_its_own(
    tmp_path,
):
    home = tmp_path / "meeting"

    def search(**said):
        text = yaml.safe_dump({"version": 1, "retrieval": said})
        (home / "policies" / "scoring.yaml").write_text(text)
        with memplane.open(home) as plane:
            return [(hit.event.id, hit.score) for hit in plane.search("lake", 100)]

    with memplane.init(home, durability="os") as plane:
        for name, actor, text in PEOPLE:
            plane.record(text, id=name, role="user", actor=actor, session="s")
    nothing = {"weight": 0}
    assert search(near_many=nothing) == search()
    assert search(near=nothing) != search()
    with memplane.open(home) as plane:
        plane.record("the weir is shut", id="cleo", role="user", actor="cleo", session="s")
    assert search(near_many=nothing) != search()
    assert search(near=nothing) == search()


def test_a_thing_of_the_kind_that_is_asked_for_is_found_without_a_word_in_common(among_people):
    alone = {"related": 0, "near": {"weight": 0}}
    query = "Which animals were mentioned?"
    assert "p4" in dict(among_people(query, **alone))
    assert "p4" not in dict(among_people(query, **alone, kinds=0))


@pytest.mark.parametrize(
    ("said", "query", "name"),
    [
        ({"key_weight": 0.1}, "lake", "key"),
        ({"tag_weight": 0.1}, "harbour", "tag"),
        ({"marker_boosts": {"goal": 0}}, "lakes freeze", "goal"),
    ],
)
def test_boosts_are_what_the_policy_says(ranked, said, query, name):
    assert dict(ranked(query, **said))[name] < dict(ranked(query))[name]


def test_a_hit_below_the_floor_stays_out(ranked):
    every = ranked(LAKE)
    best = every[0][1]
    assert len({score for _, score in every}) > 1
    assert ranked(LAKE, evidence_floor=1) == [row for row in every if row[1] == best]
    assert len(ranked(LAKE, evidence_floor=0)) >= len(every)


def test_without_related_words_only_what_the_query_says_is_found(ranked):
    assert "dog" in dict(ranked("pets"))
    assert "dog" not in dict(ranked("pets", retrieval={"related": 0}))


def test_a_weight_of_nothing_for_neighbours_leaves_only_what_matches_itself(ranked):
    assert {"b2", "b3"} <= dict(ranked(LAKE)).keys()
    assert {"b2", "b3"}.isdisjoint(dict(ranked(LAKE, retrieval={"near": {"weight": 0}})))


def test_neighbours_lend_less_to_tools_than_to_what_is_said(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        plane.record("The herons nest by the weir.", id="said", role="user", session="s")
        plane.record("sluice.py opened", id="call", kind="tool_call", session="s")
        plane.record("Nothing else to see.", id="answer", role="assistant", session="s")
        found = {hit.event.id: hit.score for hit in plane.search("herons weir", 10)}
        assert 0 < found["call"] < found["answer"] < found["said"]


def test_where_no_event_has_a_word_of_the_query_only_words_very_like_it_are_found(ranked):
    # Cosines: of pets and dogs .77, of frost and frozen .55.
    assert "dog" in dict(ranked("pets"))
    assert ranked("frost") == []
    assert {"goal", "tag"} <= dict(ranked("frost", retrieval={"related_alone": 0.3})).keys()
    assert {"goal", "tag"} <= dict(ranked("frost by the river on a quiet day")).keys()


def test_the_figures_of_the_shipped_policy_are_those_that_the_index_was_measured_with(plane):
    scoring = plane.upkeep.policies.scoring
    said, packing = scoring.retrieval, scoring.packing._asdict()
    # What a tool is, and that little is lent to it, the index is told; and what people say among
    # themselves.
    measured = Ranking()._replace(
        bits=KIND_BITS, factors=((1, 600), (2, 750)), faint=300, faint_numbers=(1, 2),
        impersonal=700, timed=1_200, session_best=1_300, answer=500, opening=1_700, beginning=3_000,
        asking=850, reply=400,
    )  # fmt: skip
    assert ranking_weights(scoring) == measured
    assert (said.k1 / 1000, said.b / 1000) == BM25()
    assert (said.related_least, said.related_most) == (PERMILLE_MIN, RELATED_MAX)
    packing["passage_permille"] = packing.pop("passage_worth")
    assert {
        name: packing[name] for name in FillingParameters._fields
    } == FillingParameters()._asdict()
