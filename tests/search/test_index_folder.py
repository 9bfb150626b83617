"""Whatever lies in the index's folder: no errors, the same answers, and nothing of what was erased."""

import shutil

import pytest
from builders_indexed_planes import QUERIES, only_log, rows
from builders_searches import find, index_files, retriever, seqs, texts

import memplane
from memplane.search import indexing
from memplane.search.service import index_service
from tests.examples import paired


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(bytes(data))


HARMS = {
    "flipped": flip,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "something else": lambda path: path.write_bytes(b"{}\n" * 100),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.fixture(scope="module")
def expected(shelf_once):
    """What is found in a shelf that nobody harmed."""
    with memplane.open(shelf_once, read_only=True) as plane:
        return [find(plane, query) for query in QUERIES]


@pytest.mark.parametrize(
    ("name", "harm"),
    paired(["manifest.json", "stamps.json", "open.bin", "seg-0-0.bin"], HARMS, 3),
)
def test_harmed_files_cost_the_caller_nothing(shelf, expected, name, harm):
    files = sorted(path.name for path in (shelf / "index").glob("*.bin"))
    assert name.endswith(".json") or name in files, files
    HARMS[harm](shelf / "index" / name)
    with memplane.open(shelf) as plane:
        assert [find(plane, query) for query in QUERIES] == expected
        plane.record_many(rows(100, 1000))
        assert find(plane, "herons").found
    with memplane.open(shelf) as plane:
        assert len(seqs(plane, "herons", most=5000)) > 500


def test_an_index_of_another_plane_is_not_believed(shelf, tmp_path):
    with memplane.init(tmp_path / "other", durability="os") as plane:
        plane.record("the cranes are elsewhere")
    shutil.copytree(shelf / "index", tmp_path / "other" / "index", dirs_exist_ok=True)
    with memplane.open(tmp_path / "other") as plane:
        assert texts(plane, "cranes herons") == ["the cranes are elsewhere"]


def test_an_index_older_than_the_log_goes_on(shelf, tmp_path):
    shutil.copytree(shelf / "index", tmp_path / "old")
    with memplane.open(shelf, durability="os") as plane:
        plane.record_many(rows(400, 2000))
        expected = find(plane, "herons ledger")
    shutil.rmtree(shelf / "index")
    shutil.copytree(tmp_path / "old", shelf / "index")
    with memplane.open(shelf) as plane:
        assert find(plane, "herons ledger") == expected


def test_an_index_of_a_log_that_went_another_way_is_thrown_away(shelf, tmp_path):
    """A log that lost its tail and went on: the same plane, the same seqs, other events."""
    with memplane.open(shelf, durability="os") as plane:
        before = only_log(shelf, tmp_path / "again")
        plane.record_many([{"text": "herons were here"}] * 100)
        retriever(plane)
        index_service(plane.context).index(plane.upkeep.policies).save()
    shutil.copytree(shelf / "index", before / "index")
    with memplane.open(before, durability="os") as plane:
        plane.record_many([{"text": "storks are here"}] * 150)
        assert "herons were here" not in texts(plane, "herons", most=5000)
        assert texts(plane, "storks", most=1) == ["storks are here"]
        expected = find(plane, "herons storks", most=5000)
        index_service(plane.context).index(plane.upkeep.policies).save()
    with memplane.open(before) as plane:
        assert find(plane, "herons storks", most=5000) == expected


def test_a_folder_that_cannot_be_written_costs_no_answer(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        plane.record_many(rows(3000))
        shutil.rmtree(plane.home / "index", ignore_errors=True)
        (plane.home / "index").write_text("in the way")
        assert find(plane, "herons").found
    assert (plane.home / "index").read_text() == "in the way"


def test_a_read_only_plane_answers_and_writes_nothing(shelf):
    with memplane.open(shelf) as plane:
        expected = find(plane, "herons lake")
    shutil.rmtree(shelf / "index")
    with memplane.open(shelf, read_only=True) as plane:
        assert find(plane, "herons lake") == expected
    assert not (shelf / "index" / "manifest.json").exists()


def test_the_plane_of_a_prefix_answers_from_the_same_files(shelf):
    before = index_files(shelf)
    with memplane.open(shelf) as plane:
        then = plane.at(500)
        assert find(then, "herons lake") == find(plane, "herons lake", upto=500)
        assert max(seqs(then, "herons", most=5000)) <= 500
        then.close()
        assert find(plane, "herons").found
    assert index_files(shelf) == before


def test_two_processes_that_index_lose_nothing(shelf):
    """Each goes on from what the other saved, whoever writes last."""
    one, other = (memplane.open(shelf, durability="os") for _ in range(2))
    for turn in range(4):
        for plane in (one, other):
            plane.record_many(rows(100, 10_000 + 1_000 * turn + 100 * (plane is one)))
            assert len(seqs(plane, "herons", most=9_000)) > 50
            index_service(plane.context).index(plane.upkeep.policies).save()
    assert find(one, "herons", most=9_000) == find(other, "herons", most=9_000)
    one.close()
    other.close()
    files = index_files(shelf)
    with memplane.open(shelf) as plane:
        plane.upkeep.rebuild()
    assert index_files(shelf) == files


def test_who_is_far_behind_takes_what_another_process_saved(shelf, monkeypatch):
    monkeypatch.setattr(indexing, "_RELOADED", 100)
    with memplane.open(shelf, durability="os") as one, memplane.open(shelf) as other:
        retriever(other)
        one.record_many(rows(300, 5000))
        index_service(one.context).index(one.upkeep.policies).save()
        index = index_service(other.context)._indexed
        assert index.catch_up() == 0
        assert find(one, "herons ledger") == find(other, "herons ledger")


# --- upkeep ---


def test_an_index_that_says_something_else_than_the_log_is_named(shelf):
    with memplane.open(shelf, read_only=True) as plane:
        assert plane.upkeep.differing() == []
    # Whole, of this plane and log, and made of other texts.
    with memplane.open(shelf) as plane:
        index = index_service(plane.context).index(plane.upkeep.policies)
        seq, mark = index._index.seq, index._index.mark
        texts = [document._replace(text="else") for document in index._documents(plane.event(1))]
        index._index.clear()
        index._index.add_many(texts)
        assert index._index.save(seq, mark)
    with memplane.open(shelf, read_only=True) as plane:
        assert plane.upkeep.differing() == ["index/manifest.json"]
    with memplane.open(shelf) as plane:
        plane.upkeep.rebuild()
        assert plane.upkeep.differing() == []


def test_what_was_erased_is_nowhere_in_the_index(shelf):
    with memplane.open(shelf, durability="os") as plane:
        gone = plane.record("herons and a storkling")
        before = set(seqs(plane, "herons", most=5000))
        index = index_service(plane.context).index(plane.upkeep.policies)
        assert index.save()
        assert any(b"storkling" in data for data in index_files(shelf).values())
        plane.upkeep.purge(gone.seq)
        assert set(seqs(plane, "herons", most=5000)) == before - {gone.seq}
    with memplane.open(shelf) as plane:
        assert set(seqs(plane, "herons", most=5000)) == before - {gone.seq}
    assert not any(b"storkling" in data for data in index_files(shelf).values())
