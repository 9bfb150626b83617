"""Recency and coherence: terms of a score that weigh nothing unless scoring.yaml says so."""

import pytest

OLD, NEW = "2025-01-05T12:00:00Z", "2026-01-05T11:00:00Z"


@pytest.fixture
def told(plane):
    """The better match is a year old and alone in its session; the other is of today, among three."""
    ids = [
        plane.record(
            "the heron nests; the heron nests in the marsh", role="user", session="a", ts=OLD
        ).id
    ]
    ids += [
        plane.record(f"a heron was seen at pond {number}", role="user", session="b", ts=NEW).id
        for number in range(3)
    ]
    plane.record("nothing of that", role="user", session="c", ts=NEW)
    return plane, ids


def weigh(plane, **weights):
    rows = "".join(f"{name}: {value}\n" for name, value in weights.items())
    (plane.home / "policies" / "scoring.yaml").write_text(f"version: 1\n{rows}")


ONLY = {"budget": 1500, "sections": ["retrieved_evidence"]}


def found(plane, intent, **who):
    report = plane.pack("heron nests marsh", intent=intent, **ONLY, **who).report
    return {
        id_: entry
        for entry in report["entries"]
        if entry["section"] == "retrieved_evidence"
        for id_ in (*entry["events"], *entry["parts"])
    }


@pytest.mark.parametrize("intent", ["fast", "deep"])
def test_without_a_weight_they_are_nothing_and_stand_in_the_parts(told, intent):
    plane, ids = told
    before = found(plane, intent)
    assert set(before) == set(ids)
    for entry in before.values():
        assert (entry["score_parts"]["recency"], entry["score_parts"]["coherence"]) == (0, 0)
    text = plane.pack("heron nests marsh", intent=intent, **ONLY).text
    weigh(plane, recency_weight=0, coherence_weight=0, recency_half_life_hours=1)
    assert plane.pack("heron nests marsh", intent=intent, **ONLY).text == text


@pytest.mark.parametrize("intent", ["fast", "deep"])
def test_recency_halves_with_its_half_life(told, intent):
    plane, ids = told
    before = found(plane, intent)
    weigh(plane, recency_weight=2, recency_half_life_hours=1)
    after = found(plane, intent)
    assert set(after) == set(ids)
    assert after[ids[0]]["score_parts"]["recency"] == 0
    for id_ in ids[1:]:  # an hour old
        assert after[id_]["score_parts"]["recency"] == 1000
        assert abs(after[id_]["score"] - before[id_]["score"] - 1000) <= 1
    assert before[ids[0]]["score"] > max(before[id_]["score"] for id_ in ids[1:])
    assert after[ids[0]]["score"] < min(after[id_]["score"] for id_ in ids[1:])


@pytest.mark.parametrize("intent", ["fast", "deep"])
def test_coherence_is_the_part_of_the_other_candidates_in_the_same_session(told, intent):
    plane, ids = told
    weigh(plane, coherence_weight=3, neighbour=0)
    after = found(plane, intent)
    assert after[ids[0]]["score_parts"]["coherence"] == 0
    assert all(after[id_]["score_parts"]["coherence"] >= 2000 for id_ in ids[1:])


@pytest.mark.parametrize("intent", ["fast", "deep"])
def test_they_make_nothing_relevant(told, intent):
    plane, ids = told
    weigh(plane, recency_weight=10, coherence_weight=10, neighbour=0)
    assert set(found(plane, intent)) <= set(ids)


def test_the_evidence_of_a_prompt_is_as_of_that_prompt(told, clock):
    plane, _ = told
    weigh(plane, recency_weight=2, recency_half_life_hours=1)
    plane.record("where does the heron nest?", role="user", session="now")
    first = plane.pack(session="now", budget=2000)
    clock.now = "2026-03-05T12:00:00.000000Z"
    assert plane.pack(session="now", budget=2000).text == first.text


@pytest.mark.parametrize("intent", ["fast", "deep"])
def test_what_is_hidden_lends_no_coherence(told, intent):
    plane, ids = told
    weigh(plane, coherence_weight=3)
    before = found(plane, intent, channel="public")[ids[0]]["score_parts"]["coherence"]
    for number in range(5):
        plane.record(
            f"a heron hides {number}", session="a", sensitivity="high", role="user", ts=OLD
        )
    after = found(plane, intent, channel="public")[ids[0]]["score_parts"]["coherence"]
    assert before == after == 0


def test_a_search_adds_the_terms_that_a_pack_adds(told):
    plane, ids = told
    before = plane.search("heron nests marsh", k=10)
    assert before[0].event.id == ids[0]
    assert not {"recency", "coherence"} & set(before[0].parts)
    weigh(plane, recency_weight=1, coherence_weight=1, recency_half_life_hours=24)
    packed = found(plane, "deep")
    hits = {hit.event.id: hit for hit in plane.search("heron nests marsh", k=10)}
    assert set(hits) == set(ids)
    for id_, hit in hits.items():
        parts = packed[id_]["score_parts"]
        assert (hit.parts["recency"], hit.parts["coherence"]) == (
            parts["recency"],
            parts["coherence"],
        )
        assert sum(hit.parts.values()) == hit.score
    assert hits[ids[1]].parts["recency"] > 900


def test_what_is_lifted_comes_before_the_best_match_however_few_hits_are_asked_for(told):
    plane, ids = told
    assert plane.search("heron nests marsh", k=1)[0].event.id == ids[0]
    weigh(plane, recency_weight=9, recency_half_life_hours=24)
    first = plane.search("heron nests marsh", k=1)
    assert len(first) == 1
    assert first[0].event.id in ids[1:]
