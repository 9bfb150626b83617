"""Vectors beside the words: made when asked for, used as far as they reach, of nothing hidden."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest
from anagrams import Anagrams
from hypothesis import example, given, settings
from hypothesis import strategies as st

import memplane
from memplane import wiring
from memplane.adapters import minilm
from memplane.errors import HomeError, InputError, LockError, MissingExtraError, WriteError
from memplane.index import dense
from memplane.index.reader import Reader
from memplane.index.terms import query as analysed
from memplane.plane import dense as dense_room

NOW = "2026-03-01T12:00:00Z"
ODD = "hreons nset naer the lkae"  # no word of it is in the log
HERONS = "herons nest near the lake"
WORDS = "ledger parser budget segment replay window anchor queue cranes storks printer ink".split()


def rows(count, start=0):
    for number in range(start, start + count):
        words = (WORDS[(number * step + step) % len(WORDS)] for step in range(1, 5 + number % 5))
        yield {"text": f"{' '.join(words)} {number}", "session": f"s{number % 3}", "ts": NOW}


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os", embedder=Anagrams()) as plane:
        plane.record_many(rows(40))
        plane.record(HERONS, id="herons", ts=NOW)
        plane.record_many(rows(19, 40))
        written(plane, "scoring.yaml", "dense_least", 2)
        yield plane


def again(plane, **fields):
    return memplane.open(plane.home, durability="os", **{"embedder": Anagrams(), **fields})


def written(plane, name, pattern, value):
    """Change a value of a policy file."""
    path = plane.home / "policies" / name
    text, count = re.subn(rf"(?m)^( *{pattern}: ).*$", rf"\g<1>{value}", path.read_text())
    assert count == 1
    path.write_text(text)


def packed(plane, query=ODD, **asked):
    return plane.pack(query, **{"now": NOW, "budget": 900, "intent": "deep"} | asked)


def found(plane, query=ODD, **asked):
    return [hit.event.id for hit in plane.search(query, **{"now": NOW} | asked)]


def files(home):
    folder = home / "index" / "dense"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def is_there(home):
    return (home / "index" / "dense" / dense.HEADER).exists()


# --- when vectors are made ---


def test_nothing_is_embedded_while_events_are_recorded_searched_or_packed(plane):
    embedder = plane._engine.embedder
    plane.record("another line")
    plane.search(HERONS)
    packed(plane)
    assert embedder.given == []
    assert not is_there(plane.home)
    plane.embed()
    known = len(embedder.given)
    plane.record("and one more")
    packed(plane)
    assert embedder.given[known:] == [ODD]


def test_what_words_do_not_find_is_found_once_it_is_embedded(plane):
    assert "herons" not in found(plane)
    assert plane.embed() == 60
    assert found(plane)[0] == "herons"
    (hit,) = plane.search(ODD, 1)
    assert hit.parts["similar"] == hit.score > 0
    assert HERONS in packed(plane).text


def test_what_is_far_from_everything_finds_nothing(plane):
    plane.embed()
    assert found(plane, "vvvvvv zzzz") == []
    assert packed(plane, "vvvvvv zzzz").report["candidates"]["found"] == 0


def test_an_entry_of_a_block_names_what_similarity_earned(plane):
    plane.embed()
    (entry,) = [one for one in packed(plane).report["entries"] if one["events"] == ["herons"]]
    assert entry["score_parts"]["similar"] > 0
    assert entry["score_parts"]["words"] == 0


def test_each_document_is_embedded_once_and_the_rest_when_asked_again(plane):
    embedder = plane._engine.embedder
    assert [plane.embed(25), plane.embed(25), plane.embed(25), plane.embed()] == [25, 25, 10, 0]
    assert len(embedder.given) == 60
    plane.record("a new one")
    assert plane.embed() == 1


def test_progress_is_told_up_to_the_end(plane):
    told = []
    plane.embed(50, progress=lambda *done: told.append(done))
    assert told == [(32, 50), (50, 50)]


@settings(max_examples=15)
@given(st.lists(st.integers(1, 40), max_size=5), st.booleans())
def test_any_split_of_embedding_always_gives_the_same_bytes(tmp_path_factory, limits, reopens):
    folder = tmp_path_factory.mktemp("split")
    plane = memplane.init(folder / "parts", durability="os", embedder=Anagrams())
    every = list(rows(70))
    every.insert(20, {"text": "The herons nest by the lake. " * 300, "id": "herons", "ts": NOW})
    for at, row in enumerate(every):
        plane.record(**row)
        if at % 17 == 3 and limits:
            plane.embed(limits.pop())
            if reopens:
                plane = again(plane)
    plane.embed()
    ignored = shutil.ignore_patterns("index", "projections")
    with memplane.open(
        shutil.copytree(plane.home, folder / "whole", ignore=ignored), embedder=Anagrams()
    ) as whole:
        assert whole.embed() > 75
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
        other.embed()
    assert packed(plane).report["request"]["dense_seq"] == 33  # the first line of a log is its own
    assert plane.embed() == 28
    assert len(plane._engine.embedder.given) == 28 + 1  # the query


def killed(home):
    with memplane.open(
        home, embedder=Stops(32, lambda: os.kill(os.getpid(), signal.SIGKILL))
    ) as one:
        one.embed()


def test_a_process_that_is_killed_loses_no_more_than_its_last_texts(plane):
    child = multiprocessing.get_context("spawn").Process(target=killed, args=(plane.home,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert plane.embed() == 28
    assert found(plane)[0] == "herons"


def test_only_one_process_embeds_at_a_time(plane):
    kind = dense.Kind("p", "v", "e", 1)
    folder = plane.home / "index" / "dense"
    plane.index()
    with dense.adding(folder, kind), pytest.raises(LockError, match="another process embeds"):
        plane.embed()
    assert plane.embed() == 60


# --- whose vectors they are ---


def test_another_embedder_begins_again(plane):
    plane.embed()
    other = Anagrams("anagrams/2")
    with again(plane, embedder=other) as second:
        assert packed(second).report["request"]["dense_seq"] == 0
        assert "herons" not in found(second)
        assert second.embed() == 60
        assert found(second)[0] == "herons"
    assert "herons" not in found(plane)


@pytest.mark.parametrize("name", [dense.HEADER, dense.ROWS])
def test_harmed_vectors_are_no_error_and_are_made_again(plane, name):
    plane.embed()
    before = files(plane.home)
    path = plane.home / "index" / "dense" / name
    path.write_bytes(path.read_bytes()[:-5] + b"12345")
    assert "herons" not in found(plane)
    assert plane.embed() == 60
    assert files(plane.home) == before


def test_vectors_of_another_plane_are_not_believed(plane, tmp_path):
    plane.embed()
    with memplane.init(tmp_path / "other", embedder=Anagrams()) as other:
        other.record_many(rows(60))
        shutil.copytree(plane.home / "index" / "dense", tmp_path / "other" / "index" / "dense")
        assert packed(other).report["request"]["dense_seq"] == 0
        assert other.embed() == 60


def test_vectors_of_a_log_that_went_another_way_are_begun_again(plane, tmp_path):
    before = shutil.copytree(plane.home, tmp_path / "again")
    plane.record_many([{"text": "herons"}] * 30)
    plane.embed()
    shutil.copytree(plane.home / "index" / "dense", before / "index" / "dense")
    with memplane.open(before, durability="os", embedder=Anagrams()) as other:
        other.record_many(rows(40, 100))
        assert packed(other).report["request"]["dense_seq"] == 0
        assert other.embed() == 100
        assert found(other)[0] == "herons"


def test_a_rebuild_keeps_the_vectors(plane):
    plane.embed()
    before = files(plane.home)
    plane.rebuild()
    assert files(plane.home) == before
    assert found(plane)[0] == "herons"


def test_documents_made_by_other_rules_are_embedded_again(plane):
    plane.embed()
    written(plane, "plane.yaml", "tool_result_tokens", 150)
    assert packed(plane).report["request"]["dense_seq"] == 0
    assert plane.embed() == 60


# --- a pack is a function of its request ---


def test_a_report_names_the_seq_with_which_the_same_block_is_packed_again(plane):
    plane.embed(50)
    then = packed(plane, f"{ODD} ledger")
    assert then.report["request"]["dense_seq"] == 51
    plane.embed()
    asked = {**then.report["request"]}
    assert plane.pack(asked.pop("query"), **asked).text == then.text
    assert packed(plane, f"{ODD} ledger").report["request"]["dense_seq"] == 61
    assert packed(plane, f"{ODD} ledger", dense_seq=51).text == then.text


@settings(max_examples=25)
@example(1, 1)  # the log's first event has no document
@example(1, 61)
@given(st.integers(0, 61), st.integers(0, 61))
def test_a_prefix_of_the_vectors_always_gives_what_it_gave_alone(shelf, upto, as_of):
    whole, parts = shelf
    asked = {"dense_seq": upto, "as_of": as_of, "now": NOW}
    short = parts(upto)
    assert found(whole, **asked) == found(short, as_of=as_of)
    block, other = packed(whole, **asked), packed(short, as_of=as_of)
    assert block.text == other.text
    assert block.report["request"] == other.report["request"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A plane with all of its vectors, and how to get the same one with those up to a seq."""
    folder = tmp_path_factory.mktemp("shelf")
    whole = memplane.init(folder / "whole", durability="os", embedder=Anagrams())
    whole.record_many([*rows(40), {"text": HERONS, "id": "herons", "ts": NOW}, *rows(19, 40)])
    written(whole, "scoring.yaml", "dense_least", 2)
    made = {}

    def parts(upto):
        if upto not in made:
            home = folder / f"{upto}"
            if not home.exists():
                shutil.copytree(whole.home, home, ignore=shutil.ignore_patterns("dense"))
            made[upto] = memplane.open(home, durability="os", embedder=Anagrams())
            if upto > 1:
                made[upto].embed(upto - 1)
        return made[upto]

    whole.embed()
    yield whole, parts
    for plane in (whole, *made.values()):
        plane.close()


def test_a_block_is_the_same_from_another_process_and_another_hash_seed(plane):
    plane.embed()
    code = (
        "import sys, memplane; sys.path.insert(0, sys.argv[2]); from anagrams import Anagrams\n"
        "with memplane.open(sys.argv[1], read_only=True, embedder=Anagrams()) as plane:\n"
        f"    block = plane.pack({ODD!r}, now={NOW!r}, budget=900, intent='deep')\n"
        "    sys.stdout.buffer.write(block.text.encode())\n"
    )
    expected = packed(plane).text.encode()
    for seed in ("1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", code, plane.home, Path(__file__).parent],
            check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.stdout == expected


def test_the_plane_of_a_prefix_uses_the_vectors_of_its_events_alone(plane):
    plane.embed()
    with plane.at(30) as then:
        assert packed(then).report["request"]["dense_seq"] == 30
        assert "herons" not in found(then)
    with plane.at(45) as then:
        assert found(then)[0] == "herons"


def test_reports_with_a_dense_seq_keep_the_schema(plane):
    plane.embed()
    schema = json.loads(
        (Path(memplane.__file__).parents[1] / "schemas/report.schema.json").read_text()
    )
    for block in (packed(plane), packed(plane, dense_seq=0), packed(plane, intent="fast")):
        jsonschema.validate(block.report, schema)


def test_without_an_embedder_a_block_says_nothing_of_vectors(plane):
    plane.embed()
    with memplane.open(plane.home) as other:
        assert "dense_seq" not in packed(other).report["request"]
        assert found(other, "herons") == found(plane, "herons", dense_seq=0)
    written(plane, "scoring.yaml", "dense", 0)
    assert "dense_seq" not in packed(plane).report["request"]


@pytest.mark.parametrize("value", [-1, True, "5", 1.5])
def test_a_dense_seq_that_is_none_is_named(plane, value):
    for ask in (packed, found):
        with pytest.raises(InputError) as caught:
            ask(plane, dense_seq=value)
        assert caught.value.where == "dense_seq"


def test_evidence_of_a_prompt_stays_where_it_is_until_more_is_embedded(plane):
    plane.embed()
    plane.record(ODD, role="user", session="s1", ts=NOW)
    before = packed(plane, "", session="s1", budget=3_000)
    assert HERONS in before.text
    plane.record("The herons nest there.", role="assistant", session="s1", ts=NOW)
    after = packed(plane, "", session="s1", budget=3_000)
    assert after.report["request"]["dense_seq"] == before.report["request"]["dense_seq"] == 61
    stable = before.report["prefix"]["stable_bytes"]["call"]
    assert stable > before.text.encode().index(HERONS.encode())
    assert after.text.encode()[:stable] == before.text.encode()[:stable]


# --- what may not be seen ---


@pytest.mark.parametrize(
    "fields",
    [
        {"sensitivity": "high"},
        {"sensitivity": "secret"},
        {"ns": "/agent/other"},
        {"valid_until": "2026-01-01T00:00:00Z"},
    ],
)
def test_what_a_channel_may_not_see_is_not_found_by_its_vector(tmp_path, fields):
    with memplane.init(tmp_path / "plane", durability="os", embedder=Anagrams()) as plane:
        plane.record_many(rows(30))
        plane.record(HERONS, id="herons", ts=NOW, **fields)
        plane.embed()
        assert "herons" not in found(plane, channel="agent")
        assert HERONS not in packed(plane, channel="agent").text


def test_what_is_forgotten_or_replaced_is_not_found_by_its_vector(plane):
    old = plane.record(HERONS, kind="fact", key="birds", id="old", ts=NOW)
    plane.embed()
    assert {"herons", old.id} <= set(found(plane))
    plane.record("storks now", kind="fact", key="birds", ts=NOW)
    plane.forget(id="herons")
    assert not {"herons", "old"} & set(found(plane))
    assert HERONS not in packed(plane).text
    plane.unforget(id="herons")
    assert "herons" in found(plane)


def test_filters_are_for_vectors_too(plane):
    plane.record(HERONS, kind="fact", id="fact", ts=NOW)
    plane.embed()
    assert found(plane, kind="fact") == ["fact"]
    assert "herons" not in found(plane, since="2026-03-02T00:00:00Z")


def test_of_what_is_erased_no_vector_stays(plane):
    plane.embed()
    indexed = plane._engine.finder.index(plane.policies)
    seq = plane.event("herons").seq
    row = Anagrams().embed([HERONS])[0]
    assert row in files(plane.home)[dense.ROWS]
    indexed.erase([seq])
    assert row not in files(plane.home)[dense.ROWS]
    assert "herons" not in found(plane)
    assert plane.embed() == 0
    with again(plane) as other:
        assert "herons" not in found(other)
        assert packed(other).report["request"]["dense_seq"] == 61


def test_vectors_that_an_erasure_did_not_reach_are_not_used_and_go_with_the_next_embedding(plane):
    plane.embed()
    stale = files(plane.home)
    indexed = plane._engine.finder.index(plane.policies)
    indexed.erase([plane.event("herons").seq])
    for name, data in stale.items():
        (plane.home / "index" / "dense" / name).write_bytes(data)
    assert "herons" not in found(plane)
    assert plane.embed() == 0
    assert Anagrams().embed([HERONS])[0] not in files(plane.home)[dense.ROWS]


# --- names ---


def test_a_policy_names_the_embedder(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        plane.record_many(rows(30))
        with pytest.raises(InputError, match=r"index\.embedder: expected the name of an embedder"):
            plane.embed()
        written(plane, "plane.yaml", "embedder", "static")
        assert plane.embed() == 30
        assert packed(plane, "ledger").report["request"]["dense_seq"] == 31


def test_without_the_extra_the_error_names_it_and_nothing_else_suffers(tmp_path, monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGES", (("no_such_package_of_weights", "model"),))
    wiring.find_embedder.cache_clear()
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        written(plane, "plane.yaml", "embedder", "all-MiniLM-L6-v2")
        plane.record(HERONS, id="herons", ts=NOW)
        with pytest.raises(MissingExtraError) as caught:
            plane.embed()
        assert caught.value.extra == "dense"
        # Nobody has embedded anything: there is nothing to miss.
        assert found(plane, "herons") == ["herons"]
        assert packed(plane, "herons").report["request"]["dense_seq"] == 0


def test_where_vectors_are_and_the_extra_is_not_a_pack_says_so(plane, monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGES", (("no_such_package_of_weights", "model"),))
    wiring.find_embedder.cache_clear()
    plane.embed()
    written(plane, "plane.yaml", "embedder", "all-MiniLM-L6-v2")
    with memplane.open(plane.home) as other:
        with pytest.raises(MissingExtraError):
            packed(other)
        assert packed(other, dense_seq=0).report["request"]["dense_seq"] == 0
        assert packed(other, intent="fast").text


def test_an_unknown_name_is_an_error_that_names_the_known_ones(plane):
    written(plane, "plane.yaml", "embedder", "word2vec")
    with memplane.open(plane.home) as other, pytest.raises(InputError) as caught:
        other.embed()
    assert "found: all-MiniLM-L6-v2, static" in str(caught.value)


def test_an_installed_package_may_offer_an_embedder(plane, monkeypatch):
    offered = metadata.EntryPoints(
        [metadata.EntryPoint("anagrams", "anagrams:Anagrams", wiring.EMBEDDERS)]
    )
    monkeypatch.setattr(metadata, "entry_points", lambda group: offered.select(group=group))
    wiring.find_embedder.cache_clear()
    written(plane, "plane.yaml", "embedder", "anagrams")
    with memplane.open(plane.home) as other:
        assert other.embed() == 60
        assert found(other)[0] == "herons"
    wiring.find_embedder.cache_clear()


class Short(Anagrams):
    def embed(self, texts):
        return [vector[:-1] for vector in super().embed(texts)]


class Few(Anagrams):
    def embed(self, texts):
        return super().embed(texts)[1:]


class Many(Anagrams):
    def embed(self, texts):
        return super().embed([*texts, "more"])


@pytest.mark.parametrize("embedder", [Short, Few, Many])
def test_an_embedder_that_gives_other_vectors_than_it_says_is_named(plane, embedder):
    with again(plane, embedder=embedder()) as other, pytest.raises(InputError) as caught:
        other.embed()
    assert "expected a vector of 36 bytes" in str(caught.value)
    assert not is_there(plane.home)


class Unplugged(Anagrams):
    def embed(self, _texts):
        raise ConnectionError("nobody answers")


def test_what_an_embedder_raises_reaches_the_caller_as_it_is(plane):
    with again(plane, embedder=Unplugged()) as other, pytest.raises(ConnectionError):
        other.embed()


def test_a_disk_that_refuses_is_an_error_that_names_the_folder(plane, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    plane.embed(32)
    monkeypatch.setattr(dense.Adder, "_put", full)
    with pytest.raises(WriteError, match=r"index/dense: .*No space left"):
        plane.embed()
    monkeypatch.undo()
    assert plane.embed() == 28


@pytest.mark.parametrize("limit", [0, -1, True, "many"])
def test_a_limit_that_is_none_is_named(plane, limit):
    with pytest.raises(InputError) as caught:
        plane.embed(limit)
    assert caught.value.where == "limit"


def test_a_plane_that_is_only_read_embeds_nothing_and_uses_what_is_there(plane):
    with again(plane, read_only=True) as reading:
        with pytest.raises(HomeError):
            reading.embed()
        with pytest.raises(HomeError):
            plane.at(20).embed()
        plane.embed()
        assert found(reading)[0] == "herons"


def test_the_reader_of_the_index_answers_the_same_beside_vectors(plane):
    plane.index()
    kind = {"plane": plane.id, "variant": plane._engine.finder.index(plane.policies).variant}
    before = Reader(plane.home / "index", **kind).hits(analysed("ledger parser"), 10)
    plane.embed()
    assert Reader(plane.home / "index", **kind).hits(analysed("ledger parser"), 10) == before
    assert before


def test_a_text_that_says_nothing_has_no_vector(plane):
    plane.record("", kind="tool_call", data={"tool": "herons"})
    plane.record("   ")
    embedder = plane._engine.embedder
    plane.embed()
    assert all(text.strip() for text in embedder.given)
    assert dense_room.is_empty(plane._engine) is False


def test_minilm_finds_what_shares_no_word_where_its_weights_are_installed(tmp_path):
    try:
        minilm.find_weights()
    except MissingExtraError:
        pytest.skip("no package with the weights is installed")
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        plane.record_many(rows(20))
        plane.record("The kids adopted a puppy from the shelter", id="puppy", ts=NOW)
        written(plane, "plane.yaml", "embedder", "all-MiniLM-L6-v2")
        plane.embed()
        assert found(plane, "which pet do they have?")[0] == "puppy"
