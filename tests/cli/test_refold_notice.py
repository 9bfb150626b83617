"""A plane whose projections another version of memplane made: one line says that they are folded again."""

import json
import sqlite3

import pytest

import memplane
from memplane.home import RefoldWarning
from memplane.index import storage
from memplane.projections import projector
from memplane.projections.memories import put_sum

NAMES = ("hotset", "decisions", "cards", "tasks", "plane_map", "artifacts", "files")


@pytest.fixture
def old(tmp_path):
    """A plane as an earlier version left it: format numbers of projections are lower."""
    home = tmp_path / "plane"
    with memplane.init(home, trusted=False) as plane:
        for number in range(3):
            plane.record(f"heron {number}", kind="decision", key=f"k{number}")
        plane.pack("herons")
        plane.upkeep.rebuild()
    age(home)
    return home


def age(home, by=-1):
    folder = home / "projections"
    for name in NAMES:
        there = projector.read_checkpoint(folder / f"{name}.json")
        aged = there._replace(version=there.version + by)
        (folder / f"{name}.json").write_bytes(projector.encode_checkpoint(aged))
    with sqlite3.connect(folder / "cache.sqlite") as database:
        database.execute("UPDATE checkpoint SET version = version + ?", (by,))
    database.close()
    put_sum(folder / "cache.sqlite")


def test_the_first_command_says_in_one_line_what_is_folded_again_and_the_next_nothing(run, old):
    done = run("pack", "herons", "--no-report", "--home", old)
    said = [line for line in done.err.splitlines() if "version" in line]
    words = (
        f"memplane: {old}: another version of memplane made projections/hotset.json, decisions.json, "
        "cards.json, tasks.json, plane_map.json, artifacts.json, files.json, cache.sqlite; folded "
        "again from the 4 lines of the log"
    )
    assert said == [words]
    assert "heron 2" in done.out
    again = run("pack", "herons", "--no-report", "--home", old)
    assert ("version" in again.err, again.out) == (False, done.out)


def test_the_library_warns_and_answers_as_before(old):
    with memplane.open(old) as plane:
        with pytest.warns(RefoldWarning, match="folded again from the 4 lines"):
            assert plane.get("k1").text == "heron 1"
        assert plane.upkeep.verify(deep=True).ok
    age(old, by=1)
    with memplane.open(old) as plane, pytest.warns(RefoldWarning):
        assert plane.get("k2").text == "heron 2"


def test_who_may_not_keep_what_was_folded_says_nothing(old):
    with memplane.open(old, read_only=True) as plane:
        assert plane.get("k1").text == "heron 1"


def test_only_a_part_of_another_version_is_named(old):
    with memplane.open(old) as plane, pytest.warns(RefoldWarning):
        plane.get("k1")
    path = old / "projections" / "cards.json"
    there = projector.read_checkpoint(path)
    path.write_bytes(projector.encode_checkpoint(there._replace(version=there.version + 1)))
    with (
        memplane.open(old) as plane,
        pytest.warns(RefoldWarning, match=r"projections/cards.json; f"),
    ):
        plane.get("k1")
    with memplane.open(old) as plane:
        assert plane.get("k1").text == "heron 1"


def index_of_another_version(home, **fields):
    path = home / "index" / "manifest.json"
    body = json.loads(path.read_bytes().partition(b"\n")[0])
    path.write_bytes(storage.signed({**body, **fields}))


@pytest.mark.parametrize(
    "fields",
    [
        {"format": storage.FORMAT - 1},
        {"analyser": "words of another kind"},
        {"variant": "documents 1, results 400, harness 0"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_an_index_of_another_version_is_made_again_and_one_line_says_so(run, old, fields):
    run("pack", "herons", "--no-report", "--home", old)
    before = run("search", "heron 2", "--home", old)
    assert ("version" in before.err, "heron 2" in before.out) == (False, True)
    index_of_another_version(old, **fields)
    done = run("search", "heron 2", "--home", old)
    assert [line for line in done.err.splitlines() if "version" in line] == [
        f"memplane: {old}: another version of memplane made index/; made again from the 4 lines of the log"
    ]
    assert done.out == before.out
    again = run("search", "heron 2", "--home", old)
    assert ("version" in again.err, again.out) == (False, before.out)


def test_an_index_that_a_policy_makes_another_is_made_again_without_a_word(run, old):
    run("pack", "herons", "--no-report", "--home", old)
    path = old / "policies" / "plane.yaml"
    text = path.read_text()
    path.write_text(text.replace("tool_result_tokens: 200", "tool_result_tokens: 321"))
    assert path.read_text() != text
    done = run("search", "heron 2", "--home", old)
    assert ("version" in done.err, "heron 2" in done.out) == (False, True)
