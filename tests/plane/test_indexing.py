"""The index follows the log: the same answers and bytes however it came together, and no errors."""

import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from searching import find, index_files, retriever, seqs, texts
from test_indexing_mask import EVENTS, FORGETS, do

import memplane
from memplane.plane import indexing
from memplane.plane.indexing import Indexed

QUERIES = ("herons", "herons nest", "where do cranes nest?", "what did Ann say?", "storage k1")
WORDS = "herons cranes lake nest ledger parser budget segment replay window anchor queue".split()
STEPS = st.lists(st.one_of(EVENTS, EVENTS, EVENTS, FORGETS), max_size=15)


def rows(count, start=0):
    for number in range(start, start + count):
        words = (WORDS[(number * step) % len(WORDS)] for step in range(1, 4 + number % 9))
        row = {
            "text": f"{' '.join(words)} {number}",
            "session": f"s{number % 7}",
            "id": f"e{number}",
        }
        if number % 40 == 0:
            row["text"] = f"{row['text']}. " * 200
        yield row


def opened(plane, folder):
    return Indexed(
        plane._log, folder, plane=plane.id, policies=plane.policies, keeps=True
    )  # fmt: skip


def only_log(home, to):
    """A copy of a plane that has nothing but its log."""
    shutil.copytree(home, to, ignore=shutil.ignore_patterns("index", "projections"))
    return to


@pytest.fixture
def shelf(tmp_path):
    """A home with 900 events in its log and, behind it, an index on disk."""
    with memplane.init(tmp_path / "shelf", durability="os") as plane:
        plane.record_many(rows(900))
        retriever(plane)
    assert (tmp_path / "shelf" / "index" / "manifest.json").exists()
    return tmp_path / "shelf"


# --- the law ---


@settings(max_examples=25)
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
            plane._engine.finder.index(plane.policies).save()
            plane.close()
            plane = memplane.open(folder / "plane", durability="os")
    for seq, home in kept:
        with memplane.open(home) as short:
            for query in QUERIES:
                assert find(plane, query, upto=seq) == find(short, query), (query, seq)
    plane.close()


@settings(max_examples=15)
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
with memplane.open(sys.argv[1]) as plane:
    plane._engine.finder.index(plane.policies).save()
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
        plane.rebuild()
    assert index_files(shelf) == before


def test_a_rebuild_makes_no_index_where_there_was_none(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        plane.record("herons")
        plane.rebuild()
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


def test_closing_saves_what_is_worth_it(tmp_path):
    for count, saved in ((10, False), (100, True)):
        with memplane.init(tmp_path / f"{count}", durability="os") as plane:
            plane.record_many(rows(count))
            find(plane, "herons")
        assert (plane.home / "index" / "manifest.json").exists() == saved


def test_who_opens_a_saved_index_reads_only_what_came_after(shelf):
    with memplane.open(shelf, durability="os") as plane:
        plane.record("a new line about herons")
        engine = plane._engine
        index = opened(plane, shelf / "index")
        assert index.catch_up() == 1
        assert index.catch_up() == 0
        assert engine.log.head().seq == index.seq


def test_a_build_that_was_stopped_goes_on(shelf_log, tmp_path, monkeypatch):
    home = only_log(shelf_log, tmp_path / "home")
    monkeypatch.setattr(indexing, "_BATCH", 256)
    monkeypatch.setattr(indexing, "_ANNOUNCED", 100)

    def stop(done, total):
        if done > 400:
            raise KeyboardInterrupt

    with memplane.open(home) as plane:
        with pytest.raises(KeyboardInterrupt):
            plane._engine.index(plane.policies, stop)
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
        plane._engine.index(plane.policies, lambda *done: told.append(done))
        assert told == []  # 900 events are no wait
    monkeypatch.setattr(indexing, "_ANNOUNCED", 100)
    shutil.rmtree(home / "index")
    with memplane.open(home) as plane:
        plane._engine.index(plane.policies, lambda *done: told.append(done))
    assert [total for _, total in told] == [901] * len(told)
    assert len(told) >= 3
    assert [done for done, _ in told] == sorted(done for done, _ in told)


# --- whatever lies in the folder ---


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


@pytest.mark.parametrize("name", ["manifest.json", "stamps.json", "open.bin", "seg-0-1.bin"])
@pytest.mark.parametrize("harm", HARMS)
def test_harmed_files_cost_the_caller_nothing(shelf, name, harm):
    with memplane.open(shelf) as plane:
        expected = [find(plane, query) for query in QUERIES]
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
        plane._engine.finder.index(plane.policies).save()
    shutil.copytree(shelf / "index", before / "index")
    with memplane.open(before, durability="os") as plane:
        plane.record_many([{"text": "storks are here"}] * 150)
        assert "herons were here" not in texts(plane, "herons", most=5000)
        assert texts(plane, "storks", most=1) == ["storks are here"]
        expected = find(plane, "herons storks", most=5000)
        plane._engine.finder.index(plane.policies).save()
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
            plane._engine.finder.index(plane.policies).save()
    assert find(one, "herons", most=9_000) == find(other, "herons", most=9_000)
    one.close()
    other.close()
    files = index_files(shelf)
    with memplane.open(shelf) as plane:
        plane.rebuild()
    assert index_files(shelf) == files


def test_who_is_far_behind_takes_what_another_process_saved(shelf, monkeypatch):
    monkeypatch.setattr(indexing, "_RELOADED", 100)
    with memplane.open(shelf, durability="os") as one, memplane.open(shelf) as other:
        retriever(other)
        one.record_many(rows(300, 5000))
        one._engine.finder.index(one.policies).save()
        index = other._engine.finder._indexed
        assert index.catch_up() == 0
        assert find(one, "herons ledger") == find(other, "herons ledger")


# --- names, tags, keys, markers ---


def test_an_exact_key_stands_first_and_a_tag_counts(plane):
    plane.record_many({"text": f"the db engine of ledger {n}"} for n in range(30))
    named = plane.record("We keep PostgreSQL.", kind="decision", key="db.engine")
    tagged = plane.record("Something else entirely.", tags=["Ledger"])
    assert seqs(plane, "what is db.engine?")[0] == named.seq
    found = {one.seq: one for one in find(plane, "ledger").found}
    assert found[tagged.seq].tags > 0
    assert all(
        one.score == one.words + one.neighbours + one.markers + one.tags + one.key
        for one in found.values()
    )


def test_a_marker_lifts_what_is_relevant_and_nothing_else(plane):
    plain = plane.record("herons nest by the lake")
    marked = plane.record("herons nest by the lake", markers=["constraint", "custom:x"])
    plane.record("cranes dance at dawn", markers=["constraint"])
    found = find(plane, "herons nest").found
    assert [one.seq for one in found] == [marked.seq, plain.seq]
    assert found[0].markers > 0
    assert found[0].score <= 2 * found[1].score


def test_only_what_bears_the_labels_is_found(plane):
    fact = plane.record("herons nest", kind="fact", session="s1", tags=["Birds"])
    plane.record("herons nest", kind="fact", session="s2")
    plane.record("herons nest", session="s1")
    asked = (("kind:fact", "kind:rule"), ("session:s1",), ("tag:birds",))
    assert seqs(plane, "herons", only=asked) == [fact.seq]
    assert seqs(plane, "herons", only=(("kind:plan",),)) == []


def test_the_tokens_of_an_event_are_those_of_its_whole_text(plane):
    text = "The herons nest by the lake. " * 900
    plane.record(text, kind="tool_result", role="tool")
    plane.record(text, role="assistant")
    for found in find(plane, "herons").found:
        assert found.tokens == plane.event(found.seq).tokens


def test_a_passage_says_what_was_asked_for(plane):
    filler = "Nothing of note happened on that day at all. "
    plane.record(filler * 60 + "The herons nest by the lake. " + filler * 60)
    finding = find(plane, "herons nest")
    said = retriever(plane).passage(finding.found[0].doc, finding.wanted, 12)
    assert said == "The herons nest by the lake."


def test_the_tail_of_a_text_in_a_body_is_found_and_read(plane):
    plane.record("filler line\n" * 120_000 + "the herons nest at the very end")
    found = find(plane, "herons nest").found
    assert len(found) == 1
    assert retriever(plane).text(found[0].seq).endswith("very end")


def test_a_speaker_is_meant_by_name(plane):
    for name in ("Ann", "Bob", "Cleo"):
        plane.record("I went to the lake on Sunday.", role="user", actor=name)
    found = find(plane, "Where did Bob go?").found
    assert plane.event(found[0].seq).actor == "Bob"


def test_no_words_find_nothing(plane):
    plane.record("the herons")
    for query in ("", "the", "?!", "   "):
        assert find(plane, query).found == ()


# --- upkeep ---


def test_an_index_that_says_something_else_than_the_log_is_named(shelf, shelf_log):
    with memplane.open(shelf, read_only=True) as plane:
        assert plane.differing() == []
    # Whole, of this plane and log, and made of other texts.
    with memplane.open(shelf) as plane:
        index = plane._engine.finder.index(plane.policies)
        seq, mark = index._index.seq, index._index.mark
        texts = [document._replace(text="else") for document in index._documents(plane.event(1))]
        index._index.clear()
        index._index.add_many(texts)
        assert index._index.save(seq, mark)
    with memplane.open(shelf, read_only=True) as plane:
        assert plane.differing() == ["index/manifest.json"]
    with memplane.open(shelf) as plane:
        plane.rebuild()
        assert plane.differing() == []


def test_what_was_erased_is_nowhere_in_the_index(shelf):
    with memplane.open(shelf, durability="os") as plane:
        gone = plane.record("herons and a storkling")
        before = set(seqs(plane, "herons", most=5000))
        index = plane._engine.finder.index(plane.policies)
        assert index.save()
        assert any(b"storkling" in data for data in index_files(shelf).values())
        index.erase([gone.seq])
        assert set(seqs(plane, "herons", most=5000)) == before - {gone.seq}
    with memplane.open(shelf) as plane:
        assert set(seqs(plane, "herons", most=5000)) == before - {gone.seq}
    assert not any(b"storkling" in data for data in index_files(shelf).values())
