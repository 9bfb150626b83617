"""Vectors in a folder: the same bytes for any split, and nothing that is torn or foreign counts."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from memplane.index import storage
from memplane.index.storage import VectorKind, adding_vectors, cleared_rows, load_vectors

KIND = VectorKind("plane", "documents 1", "letters/1", 4)
VECTORS = [bytes([i, 1, 255 - i, 127]) for i in range(40)]


def kept(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def add(folder, vectors, kind=KIND, first=0):
    with adding_vectors(folder, kind) as adder:
        for number in range(first, first + len(vectors), 7):
            some = vectors[number - first : number - first + 7]
            adder.add(some, number + len(some), f"mark {number + len(some)}")


def rows_of(folder, kind=KIND):
    stored = load_vectors(folder, kind)
    return None if stored is None else bytes(stored.rows)


@given(st.lists(st.integers(0, 40), max_size=6))
def test_the_bytes_are_always_the_same_for_any_split(tmp_path_factory, cuts):
    folder = tmp_path_factory.mktemp("split")
    add(folder / "whole", VECTORS)
    bounds = [0, *sorted(cuts), 40]
    for start, end in pairwise(bounds):
        with adding_vectors(folder / "parts", KIND) as adder:
            assert adder.header.documents == start
            if start < end:
                adder.add(VECTORS[start:end], end, f"mark {end}")
    assert kept(folder / "parts") == kept(folder / "whole")
    assert rows_of(folder / "parts") == b"".join(VECTORS)


def test_what_a_killed_process_left_behind_the_rows_that_count_is_written_over(tmp_path):
    add(tmp_path / "killed", VECTORS[:14])
    with (tmp_path / "killed" / storage.VECTORS_ROWS).open("ab") as file:
        file.write(b"half a row and much more of it" * 9)
    assert rows_of(tmp_path / "killed") == b"".join(VECTORS[:14])
    add(tmp_path / "killed", VECTORS[14:], first=14)
    add(tmp_path / "whole", VECTORS)
    assert kept(tmp_path / "killed") == kept(tmp_path / "whole")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(bytes(data))


HARMS = {
    "flipped": flip,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "something else": lambda path: path.write_bytes(b"{}\n" * 100),
}


@pytest.mark.parametrize("name", [storage.VECTORS_HEADER, storage.VECTORS_ROWS])
@pytest.mark.parametrize("harm", HARMS)
def test_harmed_files_hold_nothing_and_are_begun_again(tmp_path, name, harm):
    add(tmp_path / "dense", VECTORS)
    whole = kept(tmp_path / "dense")
    HARMS[harm](tmp_path / "dense" / name)
    assert load_vectors(tmp_path / "dense", KIND) is None
    with adding_vectors(tmp_path / "dense", KIND) as adder:
        assert adder.header.documents == 0
    add(tmp_path / "dense", VECTORS)
    assert kept(tmp_path / "dense") == whole


@pytest.mark.parametrize(
    "other",
    [
        KIND._replace(plane="other"),
        KIND._replace(variant="documents 2"),
        KIND._replace(embedder="letters/2"),
        KIND._replace(dimension=2),
    ],
)
def test_vectors_of_another_kind_are_none_and_whoever_reads_them_keeps_them(tmp_path, other):
    add(tmp_path, VECTORS)
    reading = load_vectors(tmp_path, KIND)
    assert load_vectors(tmp_path, other) is None
    with adding_vectors(tmp_path, other) as adder:
        adder.add([bytes(other.dimension)], 1, "mark")
    assert rows_of(tmp_path, other) == bytes(other.dimension)
    assert load_vectors(tmp_path, KIND) is None
    assert bytes(reading.rows) == b"".join(VECTORS)


def test_erased_documents_have_no_vector_and_the_others_keep_theirs(tmp_path):
    add(tmp_path, VECTORS)
    storage.erase_vectors(tmp_path, [3, 39, 77], erased=2)
    expected = [bytes(4) if doc in (3, 39) else VECTORS[doc] for doc in range(40)]
    stored = load_vectors(tmp_path, KIND)
    assert bytes(stored.rows) == b"".join(expected)
    assert (stored.header.erased, stored.header.documents) == (2, 40)
    assert VECTORS[39] not in (tmp_path / storage.VECTORS_ROWS).read_bytes()
    assert cleared_rows(memoryview(b"".join(VECTORS)), [3, 39, 77], 4) == b"".join(expected)


def test_erasing_where_nothing_lies_makes_nothing(tmp_path):
    storage.erase_vectors(tmp_path / "dense", [1], erased=1)
    assert not (tmp_path / "dense").exists()


def test_one_process_adds_at_a_time_and_readers_do_not_wait(tmp_path):
    add(tmp_path, VECTORS[:7])
    with adding_vectors(tmp_path, KIND) as one, adding_vectors(tmp_path, KIND) as other:
        assert other is None
        one.add(VECTORS[7:9], 9, "mark")
        assert rows_of(tmp_path) == b"".join(VECTORS[:9])


def test_a_folder_that_cannot_be_written_gives_nobody_a_place(tmp_path):
    (tmp_path / "dense").write_text("in the way")
    with adding_vectors(tmp_path / "dense", KIND) as adder:
        assert adder is None
    assert load_vectors(tmp_path / "dense", KIND) is None
