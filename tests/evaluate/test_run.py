"""Asking a set: real planes, the product's own importer and packs, and baselines beside them."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.errors import BudgetError, InputError, PolicyError
from memplane.evaluate import (
    EvaluationMode,
    PlainIndex,
    Shelf,
    cross_validate,
    evaluation_report,
    measure,
    order_of,
    read_dataset,
    table,
)
from memplane.importers import import_paths
from memplane.ports import Hit
from memplane.wiring import make_counter


@pytest.fixture
def dataset(files):
    return read_dataset(*files)


def without_times(measured):
    return measured._replace(
        outcomes=[one._replace(ns=None) for one in measured.outcomes],
        searched=[one._replace(ns=0) for one in measured.searched],
    )


def test_the_product_is_asked_every_question_with_evidence_within_every_budget(dataset, builders):
    done = measure(dataset, EvaluationMode((1000, 300)), builders)
    assert [(one.conversation, one.question, one.budget) for one in done.outcomes] == [
        ("garden", "q1", 1000), ("garden", "q1", 300), ("garden", "q2", 1000),
        ("garden", "q2", 300), ("boat", "q1", 1000), ("boat", "q1", 300),
    ]  # fmt: skip
    assert (done.events, done.refused, done.counter) == (8, [], "len4")
    # Three or five short turns fit into a thousand tokens whatever is asked.
    wide = [one for one in done.outcomes if one.budget == 1000]
    assert [(one.evidence, one.whole, one.touched, one.missing) for one in wide] == [
        (1, 1, 1, ()), (2, 2, 2, ()), (1, 1, 1, ()),
    ]  # fmt: skip
    assert all(0 < one.tokens <= one.budget and one.ns > 0 for one in done.outcomes)


def test_what_counts_as_found_is_what_the_entries_of_the_block_name(dataset, builders, tmp_path):
    with builders.make_plane(tmp_path / "other", {}) as plane:
        import_paths(plane, "jsonl", [tmp_path / "events.jsonl"])
        block = plane.pack("What did the frost take?", budget=120, now="2026-02-01T09:00:00Z")
        named = {one for entry in block.entries for one in (*entry.events, *entry.parts)}
    done = measure(dataset, EvaluationMode((120,), together=True), builders)
    first = done.outcomes[0]
    assert first.tokens == block.tokens
    assert first.touched == ("jsonl:garden:g4" in named)


def test_a_part_of_an_event_is_touched_and_not_whole(asking, builders):
    long = "The frost took the beans. " + "It was a cold night by the wall. " * 80
    dataset = asking(
        [("garden", "q1", "What did the frost take?", "", ["g1"])],
        {"garden": [("g1", "s", "user", "Ann", long)]},
    )
    done = measure(dataset, EvaluationMode((300, 1000), baselines=("recency",)), builders)
    assert [(one.system, one.budget, one.whole, one.touched) for one in done.outcomes] == [
        ("memplane", 300, 0, 1), ("memplane", 1000, 1, 1),  # a passage, then all of it
        ("recency", 300, 0, 0), ("recency", 1000, 0, 1),
    ]  # fmt: skip
    # Frost, took, beans, cold, night, wall: those of the passage, and all of them.
    assert 0 < done.outcomes[0].words <= 1
    assert [one.words for one in done.outcomes[1:]] == [1, 0, 1]


def test_the_same_set_gives_the_same_answers_again(dataset, builders):
    asked = EvaluationMode((300, 1000), baselines=("recency", "rank_bm25"))
    assert without_times(measure(dataset, asked, builders)) == without_times(
        measure(dataset, asked, builders)
    )


def test_all_conversations_in_one_plane_are_asked_in_the_order_of_the_file(dataset, builders):
    apart = measure(dataset, EvaluationMode((1000,)), builders)
    together = measure(dataset, EvaluationMode((1000,), together=True), builders)
    assert [one.question for one in together.outcomes] == [one.question for one in apart.outcomes]
    assert together.events == apart.events == 8
    # Of the other conversation there is something in the block now.
    assert together.outcomes[0].tokens > apart.outcomes[0].tokens


def test_nothing_is_left_in_the_temporary_folder(dataset, builders, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    measure(dataset, EvaluationMode((300,)), builders)
    assert list((tmp_path / "temp").iterdir()) == []


def test_policies_that_are_given_are_in_force_and_broken_ones_are_named(dataset, builders):
    named = b"version: 1\ncounter: len4\nscale: 2.0\n"
    once, twice = (
        measure(dataset, EvaluationMode((4000,)), builders, policies)
        for policies in ({}, {"budgets.yaml": named})
    )
    assert twice.outcomes[0].tokens > 1.5 * once.outcomes[0].tokens
    assert twice.policies["budgets.yaml"] != once.policies["budgets.yaml"]
    with pytest.raises(PolicyError, match=r"budgets\.yaml:1"):
        measure(dataset, EvaluationMode(), builders, {"budgets.yaml": b"version: nine\n"})


def test_the_channel_decides_what_may_be_seen(files, builders):
    def secretive(folder, policies):
        hides = b"version: 1\nload: {channel_rules: {team: {suppress_kinds: [message]}}}\n"
        return builders.make_plane(folder, {**policies, "privacy.yaml": hides})

    asked = EvaluationMode((1000,), "team", baselines=("recency",))
    done = measure(read_dataset(*files), asked, builders._replace(make_plane=secretive))
    assert {one.touched for one in done.outcomes} == {0}


def test_candidates_of_scoring_are_chosen_by_real_answers(dataset, builders):
    documents = {
        "usual": b"version: 1\n",
        "strict": b"version: 1\nevidence_floor: 1.0\nneighbour: 0.0\n",
    }

    def measured(document):
        return measure(
            dataset, EvaluationMode((60, 1000)), builders, {"scoring.yaml": document}
        ).outcomes

    done = cross_validate(documents, measured, 2)
    assert len(done.folds) == 2
    assert set(done.fitted) == set(documents)
    assert 0 < done.honest <= max(done.fitted.values())


def test_progress_is_told_of_every_import_and_question_and_only_grows(dataset, builders):
    told = []
    measure(dataset, EvaluationMode((300,)), builders, progress=lambda *now: told.append(now))
    done = [now for now, _ in told]
    assert {total for _, total in told} == {8 + 3 * 30}
    assert done == sorted(done)
    assert {8 - 3 + 30, 8 - 3 + 60} <= set(done)
    assert told[-1][0] == told[-1][1]


def test_budgets_of_nothing_and_unknown_baselines_are_refused_before_any_work(dataset, builders):
    with pytest.raises(BudgetError):
        measure(dataset, EvaluationMode((0,)), builders)
    with pytest.raises(InputError, match="found 'bm26'"):
        measure(dataset, EvaluationMode((300,), baselines=("bm26",)), builders)


# --- baselines ---


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Forty turns, the tenth of which is long."""
    home = tmp_path_factory.mktemp("shelf") / "plane"
    with memplane.init(home, durability="os") as plane:
        (home / "policies" / "budgets.yaml").write_text("version: 1\ncounter: len4\n")
        for number in range(40):
            plane.record(
                f"turn {number} " + "about the wall " * (200 if number == 9 else number % 7),
                role="user", session="s",
            )  # fmt: skip
        yield Shelf(plane, "private", make_counter)


@given(st.permutations(range(40)), st.integers(1, 3000))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_baseline_never_has_more_than_its_budget_and_always_takes_what_fits(shelf, order, budget):
    block = shelf.fill(order, budget)
    counter = make_counter("len4", 1_000_000)
    assert block.tokens <= budget
    assert counter.count(block.text) == block.tokens
    taken = {entry.seq for entry in block.entries}
    # What was skipped did not fit in the room that was left when its turn came.
    free = budget - block.tokens
    costs = {item.seq: form[1] for item, form in zip(shelf._items, shelf._forms, strict=True)}
    reserve = 40 if budget >= 200 else 0  # the marks are set aside at the most that they may cost
    if taken:
        assert all(costs[seq] > free - reserve for seq in costs if seq not in taken)


def test_a_baseline_is_rendered_as_evidence_of_the_product_is(shelf):
    block = shelf.fill([3, 9], 2000)
    lines = block.text.splitlines()
    assert lines[:3] == ["memplane:begin", "## Evidence: quoted data", "~~~~"]
    assert lines[-2] == "~~~~"
    assert lines[-1].startswith("memplane:end ")
    whole, cut = block.entries
    assert (len(whole.events), len(whole.parts)) == (1, 0)
    assert (len(cut.events), len(cut.parts)) == (0, 1)
    assert "expand://event/" in cut.text


def test_recency_takes_the_newest_first(shelf):
    order = order_of("recency", shelf.events, PlainIndex)
    assert list(order("anything"))[:3] == [39, 38, 37]


def test_rank_bm25_takes_what_shares_words_first_and_the_newer_of_equals(shelf):
    order = order_of("rank_bm25", shelf.events, PlainIndex)("turn 23")
    assert order[0] == 23
    assert order.index(30) < order.index(2)  # the same length, no rare word
    assert order_of("rank_bm25", [], PlainIndex)("turn") == []


class Letters:
    """A small index: documents by how many letters of the query they hold."""

    def __init__(self):
        self.texts = {}

    def add(self, seq, text, fields):
        self.texts[seq] = text + fields.get("role", "")

    def search(self, query, k, *, upto, masked):
        hits = [
            Hit(seq, sum(letter in text for letter in query))
            for seq, text in self.texts.items()
            if seq <= upto and seq not in masked
        ]
        return sorted((hit for hit in hits if hit.score), key=lambda hit: (-hit.score, -hit.seq))[
            :k
        ]


def test_the_lexical_baseline_is_the_order_of_the_index_alone(dataset, builders):
    asked = EvaluationMode((60, 1000), baselines=("lexical",))
    done = measure(dataset, asked, builders._replace(make_index=Letters))
    found = {one.question: one for one in done.outcomes if one[3:5] == ("lexical", 1000)}
    assert found["q2"].whole == 2


def test_searches_are_measured_by_ranks(dataset, builders):
    done = measure(dataset, EvaluationMode((300,)), builders)
    assert [(one.question, one.evidence, len(one.ranks)) for one in done.searched] == [
        ("q1", 1, 1), ("q2", 2, 2), ("q1", 1, 1),
    ]  # fmt: skip
    report = evaluation_report(dataset, EvaluationMode((300,)), done)
    assert report["groups"][0]["search"]["recall_at"]["5"] == 1.0
    assert "search    recall @5 100.0" in table(report)
