"""The index follows the log: the same answers and bytes however it came together, and no errors."""

import os
import shutil
import subprocess
import sys

import pytest
from builders_indexed_planes import QUERIES, only_log, opened, rows
from builders_searches import find, index_files, seqs
from hypothesis import given, settings, strategies as st

import memplane
from memplane.search import indexing
from memplane.search.service import index_service
from tests.examples import examples
from tests.search.test_mask import EVENTS, FORGETS, do

STEPS = st.lists(st.one_of(EVENTS, EVENTS, EVENTS, FORGETS), max_size=15)


# --- the law ---


@settings(max_examples=examples(10))
@given(st.lists(STEPS, min_size=1, max_size=4), st.booleans())
def test_an_answer_as_of_a_seq_is_that_of_the_log_that_ended_there(
    tmp_path_factory, parts, reopens
):
    folder = tmp_path_factory.mktemp("planes")
    plane, ids, kept = memplane.init(folder / "plane", durability="os"), [], []
    for number, part in enumerate(parts):
        for step in part:
            do(plane, step, ids)
        seq = plane.head().seq
        kept.append((seq, only_log(plane.home, folder / f"{number}")))
        for query in QUERIES[:2]:
            find(plane, query)
        if reopens:
            index_service(plane.context).index(plane.upkeep.policies).save()
            plane.close()
            plane = memplane.open(folder / "plane", durability="os")
    for seq, home in kept:
        with memplane.open(home) as short:
            for query in QUERIES:
                assert find(plane, query, upto=seq) == find(short, query), (query, seq)
    plane.close()


@settings(max_examples=examples(8))
@given(st.lists(st.integers(0, 900), max_size=5), st.booleans())
def test_the_files_are_the_same_for_any_split_of_the_log(tmp_path_factory, shelf_log, cuts, saves):
    folder = tmp_path_factory.mktemp("split")
    with memplane.open(shelf_log, read_only=True) as plane:
        whole = opened(plane, folder / "whole" / "index")
        whole.catch_up()
        (folder / "whole").mkdir()
        whole.save()
        (folder / "parts").mkdir()
        parts = opened(plane, folder / "parts" / "index")
        for cut in sorted(cuts):
            parts.catch_up(upto=cut)
            if saves:
                parts.save()
                parts = opened(plane, folder / "parts" / "index")
        parts.catch_up()
        parts.save()
        assert index_files(folder / "parts") == index_files(folder / "whole")


@pytest.fixture(scope="module")
def shelf_log(tmp_path_factory):
    home = tmp_path_factory.mktemp("log") / "plane"
    with memplane.init(home, durability="os") as plane:
        plane.record_many(rows(900))
    return home


_BUILD = """
import sys, memplane
from memplane.search.service import index_service
with memplane.open(sys.argv[1]) as plane:
    index_service(plane.context).index(plane.upkeep.policies).save()
"""


def test_the_files_are_the_same_from_another_process_under_another_hash_seed(shelf, tmp_path):
    for seed in ("1", "77"):
        home = only_log(shelf, tmp_path / seed)
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", _BUILD, home], check=True, env=environment)
        assert index_files(home) == index_files(shelf)


def test_a_rebuild_makes_the_same_files(shelf):
    before = index_files(shelf)
    with memplane.open(shelf) as plane:
        plane.upkeep.rebuild()
    assert index_files(shelf) == before


def test_a_rebuild_makes_no_index_where_there_was_none(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        plane.record("herons")
        plane.upkeep.rebuild()
        assert not list((plane.home / "index").glob("*.bin"))


# --- at once, and off the record path ---


def test_an_event_is_found_as_soon_as_it_is_recorded(plane):
    assert seqs(plane, "herons") == []
    for number in range(5):
        receipt = plane.record(f"herons at the lake {number}")
        assert receipt.seq in seqs(plane, "herons")


def test_recording_writes_nothing_of_the_index(plane):
    find(plane, "herons")
    plane.record_many(rows(300))
    assert not (plane.home / "index" / "manifest.json").exists()
    find(plane, "herons")
    assert not (plane.home / "index" / "manifest.json").exists()


def test_what_is_recorded_is_indexed_in_batches_and_the_rest_when_somebody_searches(plane):
    plane.record("the first line, behind the one that a log begins with")
    find(plane, "herons")
    index, places = index_service(plane.context)._indexed, set()
    for number in range(300):
        seq = plane.record(f"herons at the lake {number}").seq
        assert seq - index.seq < 80  # so many a search indexes at most, before it answers
        places.add(index.seq)
    assert 3 <= len(places) <= 5
    assert seq in seqs(plane, "herons", most=400)
    assert index.seq == seq


def test_nothing_is_indexed_where_nobody_searched(plane):
    plane.record_many(rows(300))
    assert index_service(plane.context)._indexed is None


@settings(max_examples=examples(8))
@given(st.lists(st.one_of(st.integers(1, 130), st.none()), max_size=6))
def test_what_is_found_never_depends_on_when_it_was_indexed(tmp_path_factory, steps):
    """Events are recorded one by one; at None somebody searches."""
    folder, number = tmp_path_factory.mktemp("batches"), 0
    with memplane.init(folder / "plane", durability="os") as plane:
        plane.record("the herons come first")
        find(plane, "herons")
        for step in steps:
            if step is None:
                find(plane, "herons")
            for row in rows(step or 0, number):
                plane.record(**row)
                number += 1
        found = [find(plane, query) for query in QUERIES]
        only_log(plane.home, folder / "again")
        index_service(plane.context).index(plane.upkeep.policies).save()
    with memplane.open(folder / "again") as plane:
        assert [find(plane, query) for query in QUERIES] == found
        index_service(plane.context).index(plane.upkeep.policies).save()
    assert index_files(folder / "again") == index_files(folder / "plane")


def test_closing_saves_what_was_recorded_since_the_last_search_too(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        find(plane, "herons")
        for row in rows(70):
            plane.record(**row)
        head = plane.head().seq
    with memplane.open(tmp_path / "plane") as plane:
        assert opened(plane, plane.home / "index").seq == head


def test_closing_saves_what_is_worth_it(tmp_path):
    for count, saved in ((10, False), (100, True)):
        with memplane.init(tmp_path / f"{count}", durability="os") as plane:
            plane.record_many(rows(count))
            find(plane, "herons")
        assert (plane.home / "index" / "manifest.json").exists() == saved


def test_who_opens_a_saved_index_reads_only_what_came_after(shelf):
    with memplane.open(shelf, durability="os") as plane:
        plane.record("a new line about herons")
        context = plane.context
        index = opened(plane, shelf / "index")
        assert index.catch_up() == 1
        assert index.catch_up() == 0
        assert context.log.head().seq == index.seq


def test_a_build_that_was_stopped_goes_on(shelf_log, tmp_path, monkeypatch):
    home = only_log(shelf_log, tmp_path / "home")
    monkeypatch.setattr(indexing, "_BATCH", 256)
    monkeypatch.setattr(indexing, "_ANNOUNCED", 100)

    def stop(done, total):
        if done > 400:
            raise KeyboardInterrupt

    with memplane.open(home) as plane:
        with pytest.raises(KeyboardInterrupt):
            index_service(plane.context).index(plane.upkeep.policies, stop)
        told = []
        index = opened(plane, home / "index")
        assert index.seq > 300
        assert index.catch_up(progress=lambda *done: told.append(done)) == 901 - index_start(told)
        assert index.save()
    with memplane.open(shelf_log, read_only=True) as plane:
        whole = opened(plane, tmp_path / "whole" / "index")
        whole.catch_up()
        (tmp_path / "whole").mkdir()
        whole.save()
    assert index_files(tmp_path / "whole") == index_files(home)


def index_start(told):
    return 901 - told[-1][1]


def test_progress_is_told_where_there_is_much_to_do(shelf_log, tmp_path, monkeypatch):
    monkeypatch.setattr(indexing, "_BATCH", 256)
    home = only_log(shelf_log, tmp_path / "home")
    told = []
    with memplane.open(home) as plane:
        index_service(plane.context).index(plane.upkeep.policies, lambda *done: told.append(done))
        assert told == []  # 900 events are no wait
    monkeypatch.setattr(indexing, "_ANNOUNCED", 100)
    shutil.rmtree(home / "index")
    with memplane.open(home) as plane:
        index_service(plane.context).index(plane.upkeep.policies, lambda *done: told.append(done))
    assert [total for _, total in told] == [901] * len(told)
    assert len(told) >= 3
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_build_that_saves_often_reads_each_line_no_more_than_twice(
    shelf_log, tmp_path, monkeypatch
):
    monkeypatch.setattr(indexing, "_BATCH", 64)
    read = []

    def counted(own):
        def lines(*asked):
            for line in own(*asked):
                read.append(line)
                yield line

        return lines

    with memplane.open(shelf_log, read_only=True) as plane:
        log, end = plane._log, plane.head().seq
        for name in ("read", "read_from"):
            monkeypatch.setattr(log, name, counted(getattr(log, name)))
        index = opened(plane, tmp_path / "index")
        saves = []
        monkeypatch.setattr(index._index, "_write", saves.append)
        index.catch_up()
    assert len(saves) > 5
    assert end <= len(read) <= 2 * end


def test_pages_are_given_back_after_the_first_search_and_then_after_every_32(shelf, monkeypatch):
    with memplane.open(shelf, read_only=True) as plane:
        index = index_service(plane.context).index(plane.upkeep.policies)
        searches = iter(range(70))
        released = []
        monkeypatch.setattr(index._index, "release_pages", lambda: released.append(at))
        while (at := next(searches, None)) is not None:
            plane.search("heron")
    assert released == [0, 32, 64]
