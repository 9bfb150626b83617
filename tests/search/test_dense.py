"""Vectors beside the words: made when asked for, one a document, and only for the log they are of."""

import multiprocessing
import os
import shutil
import signal

import pytest
from builders_vectors import (
    HERONS,
    NOW,
    ODD,
    again,
    files,
    found,
    is_there,
    packed,
    plane_of_lines,
    rows,
    written,
)
from fakes_embedder import Anagrams
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import LockError
from memplane.index import storage
from tests.examples import examples


@pytest.fixture
def plane(tmp_path):
    with plane_of_lines(tmp_path / "plane") as plane:
        yield plane


# --- when vectors are made ---


def test_nothing_is_embedded_while_events_are_recorded_searched_or_packed(plane):
    embedder = plane.context.embedder
    plane.record("another line")
    plane.search(HERONS)
    packed(plane)
    assert embedder.given == []
    assert not is_there(plane.home)
    plane.upkeep.embed()
    known = len(embedder.given)
    plane.record("and one more")
    packed(plane)
    assert embedder.given[known:] == [ODD]


def test_what_words_do_not_find_is_found_once_it_is_embedded(plane):
    assert "herons" not in found(plane)
    assert plane.upkeep.embed() == 60
    assert found(plane)[0] == "herons"
    (hit,) = plane.search(ODD, 1)
    assert hit.parts["similar"] == hit.score > 0
    assert HERONS in packed(plane).text


def test_what_is_far_from_everything_finds_nothing(plane):
    plane.upkeep.embed()
    assert found(plane, "vvvvvv zzzz") == []
    assert packed(plane, "vvvvvv zzzz").report["candidates"]["found"] == 0


def test_an_entry_of_a_block_names_what_similarity_earned(plane):
    plane.upkeep.embed()
    (entry,) = [one for one in packed(plane).report["entries"] if one["events"] == ["herons"]]
    assert entry["score_parts"]["similar"] > 0
    assert entry["score_parts"]["words"] == 0


def test_each_document_is_embedded_once_and_the_rest_when_asked_again(plane):
    embedder = plane.context.embedder
    assert [
        plane.upkeep.embed(25),
        plane.upkeep.embed(25),
        plane.upkeep.embed(25),
        plane.upkeep.embed(),
    ] == [25, 25, 10, 0]
    assert len(embedder.given) == 60
    plane.record("a new one")
    assert plane.upkeep.embed() == 1


def test_progress_is_told_up_to_the_end(plane):
    told = []
    plane.upkeep.embed(50, progress=lambda *done: told.append(done))
    assert told == [(32, 50), (50, 50)]


@settings(max_examples=examples(8))
@given(st.lists(st.integers(1, 40), max_size=5), st.booleans())
def test_any_split_of_embedding_always_gives_the_same_bytes(tmp_path_factory, limits, reopens):
    folder = tmp_path_factory.mktemp("split")
    plane = memplane.init(folder / "parts", durability="os", embedder=Anagrams())
    every = list(rows(70))
    every.insert(20, {"text": "The herons nest by the lake. " * 300, "id": "herons", "ts": NOW})
    for at, row in enumerate(every):
        plane.record(**row)
        if at % 17 == 3 and limits:
            plane.upkeep.embed(limits.pop())
            if reopens:
                plane = again(plane)
    plane.upkeep.embed()
    ignored = shutil.ignore_patterns("index", "projections")
    with memplane.open(
        shutil.copytree(plane.home, folder / "whole", ignore=ignored), embedder=Anagrams()
    ) as whole:
        assert whole.upkeep.embed() > 75
        assert files(whole.home) == files(plane.home)
        assert whole.search(ODD, now=NOW) == plane.search(ODD, now=NOW)
    plane.close()


class Stops(Anagrams):
    """Does not get to the end."""

    def __init__(self, after, how):
        super().__init__()
        self.after, self.how = after, how

    def embed(self, texts):
        if len(self.given) >= self.after:
            self.how()
        return super().embed(texts)


def interrupt():
    raise KeyboardInterrupt


def test_what_was_embedded_before_an_interrupt_is_kept_and_the_next_one_goes_on(plane):
    with again(plane, embedder=Stops(32, interrupt)) as other, pytest.raises(KeyboardInterrupt):
        other.upkeep.embed()
    assert packed(plane).report["request"]["dense_seq"] == 33  # the first line of a log is its own
    assert plane.upkeep.embed() == 28
    assert len(plane.context.embedder.given) == 28 + 1  # the query


def killed(home):
    with memplane.open(
        home, embedder=Stops(32, lambda: os.kill(os.getpid(), signal.SIGKILL))
    ) as one:
        one.upkeep.embed()


def test_a_process_that_is_killed_loses_no_more_than_its_last_texts(plane):
    child = multiprocessing.get_context("spawn").Process(target=killed, args=(plane.home,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert plane.upkeep.embed() == 28
    assert found(plane)[0] == "herons"


def test_only_one_process_embeds_at_a_time(plane):
    kind = storage.VectorKind("p", "v", "e", 1)
    folder = plane.home / "index" / "dense"
    plane.upkeep.index()
    with (
        storage.adding_vectors(folder, kind),
        pytest.raises(LockError, match=r"process [0-9]+ embeds here"),
    ):
        plane.upkeep.embed()
    assert plane.upkeep.embed() == 60


# --- whose vectors they are ---


def test_another_embedder_begins_again(plane):
    plane.upkeep.embed()
    other = Anagrams("anagrams/2")
    with again(plane, embedder=other) as second:
        assert packed(second).report["request"]["dense_seq"] == 0
        assert "herons" not in found(second)
        assert second.upkeep.embed() == 60
        assert found(second)[0] == "herons"
    assert "herons" not in found(plane)


@pytest.mark.parametrize("name", [storage.VECTORS_HEADER, storage.VECTORS_ROWS])
def test_harmed_vectors_are_no_error_and_are_made_again(plane, name):
    plane.upkeep.embed()
    before = files(plane.home)
    path = plane.home / "index" / "dense" / name
    path.write_bytes(path.read_bytes()[:-5] + b"12345")
    assert "herons" not in found(plane)
    assert plane.upkeep.embed() == 60
    assert files(plane.home) == before


def test_vectors_of_another_plane_are_not_believed(plane, tmp_path):
    plane.upkeep.embed()
    with memplane.init(tmp_path / "other", embedder=Anagrams()) as other:
        other.record_many(rows(60))
        shutil.copytree(plane.home / "index" / "dense", tmp_path / "other" / "index" / "dense")
        assert packed(other).report["request"]["dense_seq"] == 0
        assert other.upkeep.embed() == 60


def test_vectors_of_a_log_that_went_another_way_are_begun_again(plane, tmp_path):
    before = shutil.copytree(plane.home, tmp_path / "again")
    plane.record_many([{"text": "herons"}] * 30)
    plane.upkeep.embed()
    shutil.copytree(plane.home / "index" / "dense", before / "index" / "dense")
    with memplane.open(before, durability="os", embedder=Anagrams()) as other:
        other.record_many(rows(40, 100))
        assert packed(other).report["request"]["dense_seq"] == 0
        assert other.upkeep.embed() == 100
        assert found(other)[0] == "herons"


def test_a_rebuild_keeps_the_vectors(plane):
    plane.upkeep.embed()
    before = files(plane.home)
    plane.upkeep.rebuild()
    assert files(plane.home) == before
    assert found(plane)[0] == "herons"


def test_documents_made_by_other_rules_are_embedded_again(plane):
    plane.upkeep.embed()
    written(plane, "plane.yaml", "tool_result_tokens", 150)
    assert packed(plane).report["request"]["dense_seq"] == 0
    assert plane.upkeep.embed() == 60
