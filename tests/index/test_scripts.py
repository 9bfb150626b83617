"""Notes in Korean, Chinese, Japanese, and with names of code: found whole, and by their parts.

The notes and their queries stand in tests/labelled/scripts.jsonl.
"""

import json
from pathlib import Path

import pytest

from memplane.index.store import SegmentedIndex
from memplane.index.terms import Document, TermVocabulary, analyse, query

NOTES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "labelled/scripts.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
SCRIPTS = sorted({note["script"] for note in NOTES})
# Where several notes hold all of a query, any of them may come first.
FIRST_FEW = 3
# What the analyser is known not to find: a test that begins to pass says so.
MISSED = {
    "oauth2",  # OAuth2TokenStore splits into O, Auth2, Token and Store
    "9f2c4b7",  # the beginning of a hash; prefixes are those of words of letters
}


@pytest.fixture(scope="module")
def view():
    index = SegmentedIndex()
    index.add_many(
        Document(seq, text=note["text"], tokens=len(note["text"]) // 4)
        for seq, note in enumerate(NOTES, 1)
    )
    return index.view()


@pytest.fixture(scope="module")
def words():
    return [set(analyse(note["text"], "", TermVocabulary()).words) for note in NOTES]


def misplaced(view, words, script, way):
    """The queries whose note is not where it belongs, with the rank that it has."""
    found = {}
    for seq, note in enumerate(NOTES, 1):
        for asked in note[way] if note["script"] == script else ():
            wanted = {term for term, _ in query(asked).words}
            holders = sum(wanted <= held for held in words)
            hits = [hit.seq for hit in view.hits(query(asked), 10)]
            rank = hits.index(seq) + 1 if seq in hits else 0
            if not 1 <= rank <= (FIRST_FEW if holders > 1 else 1):
                found[asked] = rank
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_note_asked_for_by_a_whole_name_comes_first(view, words, script):
    assert misplaced(view, words, script, "whole") == {}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_note_asked_for_by_a_part_comes_first(view, words, script):
    missed = misplaced(view, words, script, "part")
    own = {asked for note in NOTES if note["script"] == script for asked in note["part"]}
    assert missed == dict.fromkeys(MISSED & own, 0)


def test_a_query_in_a_script_that_no_note_has_finds_nothing(view):
    for asked in ("база данных", "βάση δεδομένων", "قاعدة البيانات"):
        assert view.hits(query(asked), 10) == []
