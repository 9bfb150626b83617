import multiprocessing
import shutil
from itertools import islice

import numpy as np
import pytest
from builders_documents import document_lists, made_up
from hypothesis import given, settings, strategies as st

from memplane.index import storage, terms
from memplane.index.segment import build_segment, decode_segment, encode_segment, merge_segments
from memplane.index.store import SegmentedIndex
from memplane.index.terms import Document, blank_document
from tests.examples import examples, paired

MANY = made_up(4500)  # two segments of level 1, one of level 0, and an open one
QUERY = terms.query("guitar ledger migration pool.py Tokyo3 데이터베이스")


def files(folder):
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.name not in {".lock", "stamps.json"}
    }


def filled(folder, documents=MANY):
    index = SegmentedIndex(folder, plane="p")
    index.add_many(documents)
    assert index.save(documents[-1].seq, "mark")
    return index


def answer(index):
    return index.view().hits(QUERY, 50)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "index"
    filled(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "index")


def test_full_segments_are_merged_by_eight_and_the_rest_is_open(saved):
    levels = sorted(name for name in files(saved) if name.startswith("seg"))
    assert levels == ["seg-0-16.bin", "seg-1-0.bin"]
    index = SegmentedIndex(saved, plane="p")
    assert [block.size for block in index.blocks()] == [2048, 2048, 256, 4500 - 4352]


def test_a_document_is_found_as_soon_as_it_is_added():
    index = SegmentedIndex()
    for document in made_up(600):
        index.add(document._replace(text=f"{document.text} unique{document.seq}"))
        hits = index.view().hits(terms.query(f"unique{document.seq}"), 3)
        assert hits[0].seq == document.seq


SIZES = st.sampled_from([1, 7, 100, 255, 256, 300, 1000, 2048, 4096])
STEPS = st.tuples(SIZES, st.booleans(), st.sampled_from(["go on", "save", "open again"]))


@settings(max_examples=8, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=6))
def test_the_files_are_the_same_bytes_after_any_split_into_batches(saved, steps, tmp_path_factory):
    folder = tmp_path_factory.mktemp("split") / "index"
    index = SegmentedIndex(folder, plane="p")
    rest = MANY
    for taken, at_once, then in [*steps, (4500, True, "go on")]:
        batch, rest = rest[:taken], rest[taken:]
        if at_once:
            index.add_many(batch)
        else:
            for document in batch:
                index.add(document)
        if then != "go on":
            assert index.save(batch[-1].seq if batch else 4500)
        if then == "open again":
            index = SegmentedIndex(folder, plane="p")
    assert index.save(4500, "mark")
    assert files(folder) == files(saved)


@given(document_lists(max_size=12))
@settings(max_examples=25, deadline=None)
def test_documents_that_are_there_are_passed_over(documents):
    index = SegmentedIndex()
    index.add_many(documents)
    index.add_many(documents)
    for document in documents:
        index.add(document)
    assert index.count == len(documents)


def test_what_was_saved_is_opened_and_goes_on(folder):
    index = SegmentedIndex(folder, plane="p")
    assert (index.count, index.seq, index.mark) == (4500, 4500, "mark")
    fresh = SegmentedIndex()
    fresh.add_many(MANY)
    assert answer(index) == answer(fresh)
    index.add_many(made_up(50, start=4501))
    fresh.add_many(made_up(50, start=4501))
    assert answer(index) == answer(fresh)


def test_a_view_stays_as_it_was_while_documents_come(folder):
    index = SegmentedIndex(folder, plane="p")
    view = index.view()
    before = view.hits(QUERY, 50)
    index.add_many(made_up(3000, start=4501))
    assert index.save(7500)
    assert view.hits(QUERY, 50) == before == index.view(4500).hits(QUERY, 50)


def write_at(path, offset, value):
    data = bytearray(path.read_bytes())
    data[offset] ^= value
    path.write_bytes(bytes(data))


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "head flipped": lambda path: write_at(path, 40, 1),
    "body flipped": lambda path: write_at(path, path.stat().st_size - 300, 16),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "text": lambda path: path.write_text("not an index"),
}


@pytest.mark.parametrize(
    ("name", "damage"),
    paired(["seg-1-0.bin", "seg-0-16.bin", "open.bin", "manifest.json"], DAMAGE, 4),
)
def test_what_is_damaged_does_not_count_and_is_built_again(saved, folder, name, damage):
    DAMAGE[damage](folder / name)
    index = SegmentedIndex(folder, plane="p")
    assert index.seq < 4500
    assert answer(index) == answer_of_prefix(index.count)
    index.add_many(document for document in MANY if document.seq > index.seq)
    assert index.count == 4500
    assert index.save(4500, "mark")
    assert files(folder) == files(saved)


@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
def test_of_a_file_of_several_segments_those_before_the_damage_count(saved, folder, place):
    path = folder / "seg-1-0.bin"
    first = path.stat().st_size // 2  # they hold as many documents of the same kind
    write_at(path, 5000 + place * first, 1)
    index = SegmentedIndex(folder, plane="p")
    assert index.count == place * 2048
    assert answer(index) == answer_of_prefix(index.count)
    index.add_many(document for document in MANY if document.seq > index.seq)
    assert index.save(4500, "mark")
    assert files(folder) == files(saved)


def test_what_a_writer_left_behind_that_was_stopped_before_the_manifest_harms_nothing(folder):
    before = files(folder)
    index = SegmentedIndex(folder, plane="p")
    index.add_many(made_up(2048, start=4501))
    assert index.save(6548)
    assert files(folder)["seg-1-0.bin"].startswith(before["seg-1-0.bin"])
    for name in ("manifest.json", "seg-0-16.bin", "open.bin"):
        (folder / name).write_bytes(before[name])
    opened = SegmentedIndex(folder, plane="p")
    assert (opened.count, opened.seq) == (4500, 4500)
    assert not storage.harmed(folder, "p", "")


@pytest.mark.parametrize(
    "count", [300, 3_000, 20_000, pytest.param(40_000, marks=pytest.mark.long)]
)
def test_an_index_has_at_most_one_file_a_level_and_the_open_one(tmp_path, count):
    index = SegmentedIndex(tmp_path / "index", plane="p")
    for start in range(0, count, 1_500):
        index.add_many(made_up(min(1_500, count - start), start=start + 1))
        index.save(index.count)
    names = [path.name for path in (tmp_path / "index").glob("*.bin")]
    assert len(names) <= storage.LEVELS
    assert len({name.rpartition("-")[0] for name in names}) == len(names)
    assert SegmentedIndex(tmp_path / "index", plane="p").count == count


def answer_of_prefix(count):
    index = SegmentedIndex()
    index.add_many(MANY[:count])
    return answer(index)


def test_damaged_stamps_cost_a_check_and_nothing_else(folder):
    (folder / "stamps.json").write_bytes(b"{")
    assert SegmentedIndex(folder, plane="p").seq == 4500


def test_a_file_of_another_plane_variant_or_format_does_not_count(folder, monkeypatch):
    assert SegmentedIndex(folder, plane="other").count == 0
    assert SegmentedIndex(folder, plane="p", variant="chunks=200").count == 0
    monkeypatch.setattr(storage, "FORMAT", storage.FORMAT + 1)
    assert SegmentedIndex(folder, plane="p").count == 0


def test_a_segment_of_another_plane_under_our_name_does_not_count(folder, tmp_path):
    other = SegmentedIndex(tmp_path / "other", plane="other")
    other.add_many(MANY)
    other.save(4500)
    shutil.copy(tmp_path / "other" / "seg-0-16.bin", folder / "seg-0-16.bin")
    assert SegmentedIndex(folder, plane="p").count == 4096
    shutil.copy(tmp_path / "other" / "seg-1-0.bin", folder / "seg-1-0.bin")
    assert SegmentedIndex(folder, plane="p").count == 0


def test_whoever_comes_second_does_not_write_over_the_further_one(folder):
    behind = SegmentedIndex(folder, plane="p")
    ahead = SegmentedIndex(folder, plane="p")
    ahead.add_many(made_up(100, start=4501))
    assert ahead.save(4600)
    assert not behind.save(4500)
    behind.reload()
    assert (behind.seq, behind.count) == (4600, 4600)


def test_who_finds_the_lock_held_goes_on_in_memory(folder):
    index = SegmentedIndex(folder, plane="p")
    before = files(folder)
    with storage.alone(folder) as held:
        assert held
        index.add_many(made_up(300, start=4501))
        assert not index.save(4800)
    assert files(folder) == before
    assert index.view().count == 4800
    assert index.save(4800)
    assert SegmentedIndex(folder, plane="p").seq == 4800


def test_a_home_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    index = SegmentedIndex(tmp_path / "file" / "index", plane="p")
    index.add_many(made_up(10))
    assert not index.save(10)
    assert answer(index)


def _write(folder, step):
    index = SegmentedIndex(folder, plane="p")
    while index.count < 3000:
        index.add_many(MANY[index.count : min(index.count + step, 3000)])
        if not index.save(index.count):
            index.reload()
    index.save(3000)


def test_several_processes_leave_the_bytes_of_one(tmp_path):
    context = multiprocessing.get_context("spawn")
    work = [context.Process(target=_write, args=(tmp_path / "many", n)) for n in (300, 700, 111)]
    for process in work:
        process.start()
    for process in work:
        process.join()
        assert process.exitcode == 0
    index = SegmentedIndex(tmp_path / "one", plane="p")
    index.add_many(MANY[:3000])
    assert index.save(3000)
    assert files(tmp_path / "many") == files(tmp_path / "one")


def test_an_open_reader_keeps_what_a_writer_replaces(folder):
    reader = SegmentedIndex(folder, plane="p")
    before = answer(reader)
    writer = SegmentedIndex(folder, plane="p")
    writer.add_many(made_up(15000, start=4501))
    assert writer.save(19500)
    assert not (folder / "seg-1-0.bin").exists()
    assert answer(reader) == before


def test_a_log_that_is_another_one_replaces_everything(folder):
    index = SegmentedIndex(folder, plane="p")
    index.clear()
    index.add_many(made_up(10))
    assert index.save(10)
    assert SegmentedIndex(folder, plane="p").count == 10


@settings(deadline=None)
@given(document_lists(), st.sets(st.integers(1, 40)), st.integers(0, 60))
def test_erased_documents_leave_blank_slots_as_if_they_had_been_blank(documents, seqs, cut):
    gone = {seq * 3 for seq in seqs}
    index = SegmentedIndex()
    index.add_many(documents[:cut])
    index._opened, index._live = index._newest(), type(index._live)(index.count)
    index.add_many(documents[cut:])
    index.erase(sorted(gone))
    other = SegmentedIndex()
    other.add_many(blank_document(d.seq, d.part) if d.seq in gone else d for d in documents)
    newest, expected = index._newest(), other._newest()
    if newest is not None:
        for one, two in zip(newest.columns.values(), expected.columns.values(), strict=True):
            np.testing.assert_array_equal(one, two)
    assert answer(index) == answer(other)
    assert all(hit.seq not in gone for hit in answer(index))


def test_erasing_rewrites_the_files_and_nothing_of_the_text_stays(folder, tmp_path):
    index = SegmentedIndex(folder, plane="p")
    secret = made_up(1, start=4501)[0]._replace(text="passphrase xyzzy42")
    index.add(secret)
    assert index.save(4501)
    assert b"xyzzy42" in (folder / "open.bin").read_bytes()
    index.erase([3, 4300, 4501])
    assert index.save(4501)
    gone = {3, 4300, 4501}
    other = SegmentedIndex(tmp_path / "other", plane="p")
    other.add_many(blank_document(d.seq, d.part) if d.seq in gone else d for d in [*MANY, secret])
    other.erased = 3
    assert other.save(4501)
    assert files(folder) == files(tmp_path / "other")
    assert b"xyzzy42" not in b"".join(files(folder).values())


def test_a_process_that_has_not_erased_never_brings_it_back(folder):
    stale = SegmentedIndex(folder, plane="p")
    index = SegmentedIndex(folder, plane="p")
    index.erase([3])
    assert index.save(4500)
    stale.add_many(made_up(10, start=4501))
    assert not stale.save(4510)
    stale.reload()
    assert stale.erased == 1


def test_opening_reads_no_body_of_a_file_that_was_checked(folder, monkeypatch):
    index = SegmentedIndex(folder, plane="p")
    assert index.save(4500, "mark")
    sums = []
    whole = storage.is_whole
    monkeypatch.setattr(storage, "is_whole", lambda *given: sums.append(1) or whole(*given))
    assert SegmentedIndex(folder, plane="p").seq == 4500
    assert sums == [1]  # the open segment alone


@pytest.mark.parametrize("level", range(storage.LEVELS))
def test_merging_segments_gives_the_bytes_of_building_from_the_documents(level):
    documents = made_up(90)
    parts = [build_segment(documents[i : i + 30], i, terms.TermVocabulary()) for i in (0, 30, 60)]
    merged = encode_segment(merge_segments(parts), level, 1)
    assert merged == encode_segment(build_segment(documents, 0, terms.TermVocabulary()), level, 1)
    header = storage.parse_header(merged, len(merged))
    found = decode_segment(merged, header, 0)
    assert encode_segment(found, level, 1) == merged
    assert found.text(70) == documents[70].text


def test_merging_stripe_by_stripe_gives_the_same_bytes(monkeypatch):
    documents = made_up(900)
    parts = [
        build_segment(documents[i : i + 300], i, terms.TermVocabulary()) for i in (0, 300, 600)
    ]
    whole = encode_segment(merge_segments(parts), 1, 1)
    monkeypatch.setattr("memplane.index.segment._STRIPE", 50)
    assert encode_segment(merge_segments(parts), 1, 1) == whole


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 60), max_size=12))
def test_however_documents_come_in_the_newest_lie_in_few_segments(steps):
    index, documents = SegmentedIndex(), iter(made_up(255))
    for step in steps:
        for document in islice(documents, step):
            index.add(document)
        assert len(index.blocks()) <= 12
        assert sum(block.size for block in index.blocks()) == index.count


def test_one_by_one_documents_lie_in_few_segments():
    index = SegmentedIndex()
    for document in made_up(255):
        index.add(document)
        assert len(index.blocks()) <= 12


@settings(deadline=None, max_examples=examples(30))
@given(
    st.lists(st.sampled_from(["heron", "crane", "stork ibis", "egret"]), max_size=600), st.data()
)
def test_the_words_that_are_present_are_always_those_that_some_document_holds(texts, data):
    index = SegmentedIndex()
    index.add_many(Document(seq, text=text) for seq, text in enumerate(texts, 1))
    view = index.view(data.draw(st.none() | st.integers(0, len(texts) + 1)))
    words = [terms.whole_term(terms.stem(word)) for word in "egret ibis owl crane heron".split()]
    held = zip(words, view.counts(words), strict=True)
    assert view.present(words) == [word for word, count in held if count]


def test_memory_that_is_let_go_is_read_again(tmp_path):
    index = SegmentedIndex(tmp_path, plane="p")
    index.add_many(Document(seq, text=f"heron {seq}") for seq in range(1, 600))
    index.save(599)
    before = index.view().hits(terms.query("heron 7"), 5)
    index.release_pages()
    assert index.view().hits(terms.query("heron 7"), 5) == before


def test_the_smallest_segments_are_searched_as_one_made_once():
    index = SegmentedIndex()
    index.add_many(made_up(2048 + 5 * 256 + 7))
    assert [block.size for block in index.blocks()] == [2048, *[256] * 5, 7]
    merged = index.view()._blocks[1]
    assert [block.size for block in index.view()._blocks] == [2048, 5 * 256, 7]
    assert index.view()._blocks[1] is merged
    index.add_many(made_up(250, start=2048 + 5 * 256 + 8))
    assert [block.size for block in index.view()._blocks] == [2048, 6 * 256, 1]
