"""Figures from answers, and the table that people read."""

from memplane.evaluate import (
    EvaluationMode,
    Measured,
    QuestionOutcome,
    evaluation_report,
    read_dataset,
    table,
)


def outcome(conversation, question, category, system, budget, found):
    """(evidence, whole, touched) of one question; half of the words of what is there in part."""
    evidence, whole, touched = found
    words = (whole + touched) / 2
    ns = 2_000_000 if system == "memplane" else None
    missing = tuple("abcdefg"[: evidence - touched])
    return QuestionOutcome(
        conversation, question, category, system, budget, evidence, whole, words, touched, 100, ns,
        missing,
    )  # fmt: skip


def measured(outcomes):
    return Measured(outcomes, [], 8, [], {"budgets.yaml": "0" * 64}, "len4")


OUTCOMES = [
    outcome("garden", "q1", "fact", "memplane", 500, (1, 1, 1)),
    outcome("garden", "q2", "list", "memplane", 500, (2, 0, 1)),
    outcome("boat", "q1", "fact", "memplane", 500, (1, 0, 0)),
    outcome("garden", "q1", "fact", "recency", 500, (1, 0, 0)),
    outcome("garden", "q2", "list", "recency", 500, (2, 1, 1)),
    outcome("boat", "q1", "fact", "recency", 500, (1, 1, 1)),
]


def test_recall_is_the_mean_over_questions_of_the_part_found(files):
    report = evaluation_report(read_dataset(*files), EvaluationMode((500,)), measured(OUTCOMES))
    first, second = report["groups"][0]["rows"]
    assert (first["system"], first["questions"]) == ("memplane", 3)
    assert (first["whole"], first["whole_any"], first["whole_all"]) == (0.33333, 0.33333, 0.33333)
    assert (first["touched"], first["touched_any"], first["touched_all"]) == (
        0.5, 0.66667, 0.33333,
    )  # fmt: skip
    assert (first["words"], first["words_any"], first["words_all"]) == (
        0.41667, 0.66667, 0.33333,
    )  # fmt: skip
    assert (first["p50_ns"], first["p95_ns"], first["tokens_mean"]) == (2_000_000, 2_000_000, 100)
    assert (second["whole"], second["whole_any"], second["p50_ns"]) == (0.5, 0.66667, None)
    assert first["whole_se_questions"] > 0
    assert first["whole_se_conversations"] > 0
    assert report["set"]["evidence"] == 4


def test_categories_and_folds_are_groups_of_their_own(files):
    report = evaluation_report(
        read_dataset(*files), EvaluationMode((500,)), measured(OUTCOMES), by_category=True, folds=2
    )
    groups = {(group["group"], group["name"]): group["rows"] for group in report["groups"]}
    assert list(groups) == [
        ("all", ""), ("category", "fact"), ("category", "list"), ("fold", "1"), ("fold", "2"),
    ]  # fmt: skip
    assert [row["whole"] for row in groups["category", "fact"]] == [0.5, 0.5]
    assert [row["whole"] for row in groups["fold", "1"]] == [0.5, 0.25]
    # One conversation says nothing about how far another would lie.
    assert groups["fold", "2"][0]["whole_se_conversations"] is None
    assert "  -" in table(report)
    assert report["asked"]["folds"] == {"garden": 1, "boat": 2}


def test_each_question_with_what_it_misses_is_there_where_it_is_wanted(files):
    dataset = read_dataset(*files)
    assert "questions" not in evaluation_report(dataset, EvaluationMode((500,)), measured(OUTCOMES))
    report = evaluation_report(dataset, EvaluationMode((500,)), measured(OUTCOMES), questions=True)
    assert len(report["questions"]) == 6
    assert report["questions"][2]["missing"] == ("a",)


def test_the_table_is_at_most_a_hundred_columns_wide_whatever_the_names_and_figures(files):
    wide = [
        one._replace(category="a long name of a category " * 9, budget=65_000, tokens=64_999,
                     ns=None if one.ns is None else 123_456_789, touched=one.evidence,
                     words=one.evidence, whole=one.evidence)
        for one in OUTCOMES
    ]  # fmt: skip
    report = evaluation_report(
        read_dataset(*files), EvaluationMode((500,)), measured(wide), by_category=True, folds=2
    )
    lines = table(report).splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("memplane") for line in lines) == 4
    row = next(line for line in lines if line.startswith("memplane")).split()
    assert row[:4] == ["memplane", "65000", "3", "100.0"]
    assert row[8:9] + row[11:12] == ["100.0", "100.0"]  # words and touched
    assert row[-3:] == ["64999", "123.5", "123.5"]
