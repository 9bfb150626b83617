"""Rankings of a collection in BEIR form."""

import json
import sys
from math import isclose
from pathlib import Path

import pytest

from memplane.errors import InputError

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from rank_collection import (
    collection_report,
    collection_table,
    main,
    ndcg,
    rank_collection,
    read_collection,
)

CORPUS = [
    {"_id": "d1", "title": "Masts", "text": "A mast of spruce is light."},
    {"_id": "d2", "title": "", "text": "Frost takes beans and tomatoes."},
    {"_id": "d3", "title": "Fleece", "text": "Cover seedlings against frost."},
    {"_id": "d4", "text": "Nothing else."},
]
QUERIES = [{"_id": "1", "text": "seedlings or beans"}, {"_id": "2", "text": "spruce mast"}]
QRELS = ["query-id\tcorpus-id\tscore", "1\td3\t1", "1\td2\t1", "2\td1\t2", "2\td2\t0", "2\td9\t1"]


@pytest.fixture
def collection(write):
    return read_collection(
        write("c.jsonl.gz", CORPUS), write("q.jsonl", QUERIES), write("r.tsv.gz", QRELS)
    )


def test_a_collection_is_read_with_what_is_relevant_and_what_is_not_there(collection):
    assert collection.relevant == {"1": {"d3": 1, "d2": 1}, "2": {"d1": 2, "d9": 1}}
    assert (len(collection.documents.lines), collection.unresolved) == (4, 1)


def test_rankings_are_measured_by_ndcg_and_recall(collection, builders):
    run = rank_collection(collection, ["rank_bm25"], builders)
    assert [one.system for one in run.rankings] == [
        "memplane",
        "memplane",
        "rank_bm25",
        "rank_bm25",
    ]
    first, second = run.rankings[2:]
    assert (first.query, first.ranks, first.ndcg) == ("1", (1, 2), 1.0)
    # d1 (gain 2) stands first, d9 (gain 1) is not there: 2 / (2 + 1 / log2(3)).
    assert (second.ranks, round(second.ndcg, 6)) == ((1,), 0.760188)
    report = collection_report(run)
    own, row = report["rows"]
    assert (own["system"], own["queries"], own["recall_at"]["5"]) == ("memplane", 2, 0.75)
    assert (row["system"], row["queries"], row["recall_at"]["5"]) == ("rank_bm25", 2, 0.75)
    assert row["ndcg_at_10"] == 0.88009
    lines = collection_table(report).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[4].split()[:3] == ["rank_bm25", "2", "0.8801"]


def test_what_has_no_query_ranks_nothing(collection, builders):
    with pytest.raises(InputError, match="recency ranks no documents"):
        rank_collection(collection, ["recency"], builders)


def test_every_mistake_of_a_collection_is_named_with_its_line(write, tmp_path):
    corpus = [*CORPUS, CORPUS[0], {"_id": "d5", "text": 7}, {"title": "no name"}]
    queries = [*QUERIES, {"_id": "3", "text": ""}]
    qrels = [*QRELS, "4\td1\t1", "1\td1", "1\td1\tmuch", ""]
    with pytest.raises(InputError) as caught:
        read_collection(write("c.jsonl", corpus), write("q.jsonl", queries), write("r.tsv", qrels))
    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines() == [
        "c.jsonl:5: _id: 'd1' is another document already, in line 1",
        "c.jsonl:6: text: expected a title and a text",
        "c.jsonl:7: _id: expected a name, found nothing",
        "q.jsonl:3: text: expected a text, found ''",
        "r.tsv:7: query-id: no query '4'",
        "r.tsv:8: expected query, document and a whole score between tabs, found '1\\td1'",
        "r.tsv:9: expected query, document and a whole score between tabs, found '1\\td1\\tmuch'",
    ]


def test_a_collection_without_judgements_measures_nothing(write):
    with pytest.raises(InputError, match="there is nothing to measure"):
        read_collection(
            write("c.jsonl", CORPUS), write("q.jsonl", QUERIES), write("r.tsv", QRELS[:1])
        )


def test_ndcg_by_hand():
    assert ndcg([1, 0], [1], 10) == 1.0
    assert isclose(ndcg([0, 1], [1], 10), 0.6309297535714575)  # 1 / log2(3)
    # (2/1 + 1/2) / (2/1 + 1/log2(3)): gains 2, 0, 1 against 2, 1
    assert isclose(ndcg([2, 0, 1], [1, 2], 10), 2.5 / (2 + 0.6309297535714575))
    assert ndcg([0] * 10 + [1], [1], 10) == 0.0
    assert ndcg([], [], 10) == 0.0


def test_the_script_prints_the_figures_as_a_table_and_as_json(write, tmp_path, capsys):
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "budgets.yaml").write_text("version: 1\ncounter: len4\n")
    files = [
        "--corpus",
        str(write("c.jsonl", CORPUS)),
        "--queries",
        str(write("q.jsonl", QUERIES)),
        "--qrels",
        str(write("r.tsv", QRELS)),
        "--policies",
        str(policies),
    ]
    assert main([*files, "--baselines", "rank_bm25"]) == 0
    assert "rank_bm25        2   0.8801" in capsys.readouterr().out
    assert main([*files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["queries"] == 2
    assert main([*files, "--baselines", "recency"]) == 2
    assert "recency ranks no documents" in capsys.readouterr().err
