"""An index keeps the lines of its events, but long ones: a search opens no older segment for them."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.index.terms import Sentences
from memplane.log import FileLog
from memplane.search import indexing
from memplane.search.indexing import KeptLines, raw_lines, unpacked_line
from memplane.search.retriever import LogRetriever
from memplane.search.service import index_service

TEXTS = ("herons nest by the lake", 'a "quoted" heron\n\tand\\more', "왜가리 鷺 🪶", "heron " * 900)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A plane of several segments with an index, the texts at the beginning of the log."""
    monkeypatch.setitem(FileLog.__init__.__kwdefaults__, "segment_bytes_max", 30_000)
    home = tmp_path / "plane"
    with memplane.init(home) as plane:
        for number, text in enumerate(TEXTS):
            plane.record(text, id=f"first:{number}", session="s", role="user", tags=["bird"])
        plane.record("terns", id="decision.000000Z,", session="s")
        plane.record("heron " * 9000, id="long", kind="tool_result", session="s")
        for at in range(12):
            plane.record_many(
                [{"text": f"turn {at * 40 + n} of the cranes. " * 9} for n in range(40)]
            )
        plane.search("herons")
    assert len(list((home / "log").glob("*.jsonl"))) > 3
    return home


def index_of(plane):
    return index_service(plane.context).index(plane.upkeep.policies)


def without_log(plane, monkeypatch):
    """The index of a plane that cannot look a line up in its log."""
    index = index_of(plane)
    for name in ("line", "find", "line_at"):
        monkeypatch.setattr(plane._log, name, lambda *_: None)
    return index


def test_a_kept_line_is_the_line_of_the_log(home, monkeypatch):
    with memplane.open(home, read_only=True) as plane:
        lines = {line.event.seq: line for line in plane._log.read()}
        index = without_log(plane, monkeypatch)
        kept = {seq: index.lines.line(seq) for seq in lines}
        found = {seq for seq, line in kept.items() if line is not None}
        assert all(kept[seq] == lines[seq] for seq in found)
        newest = max(line.segment for line in lines.values())  # those are read in the log
        assert not [seq for seq in found if lines[seq].segment == newest]
        older = (seq for seq in set(lines) - found if lines[seq].segment < newest)
        missing = {lines[seq].event.kind for seq in older}
        assert missing <= {"segment", "tool_result"}  # one says nothing, the other is long
        for number in range(len(TEXTS)):
            line = index.lines.find(f"first:{number}")
            assert line is not None
            assert line.event.text == TEXTS[number]
        assert index.lines.find("nobody") is None


def test_an_id_comes_from_a_kept_line_that_nobody_reads_or_parses(home, monkeypatch):
    with memplane.open(home, read_only=True) as plane:
        ids = {line.event.seq: line.event.id for line in plane._log.read()}
        index = without_log(plane, monkeypatch)
        index.lines.look()
        kept = {seq for seq in ids if index.lines.line(seq) is not None}
        for name in ("line_kept", "head", "bytes_before"):
            monkeypatch.setattr(plane._log, name, None)
        found = {seq: index.lines.id(seq) for seq in ids}
        assert {seq for seq in ids if found[seq] is not None} == kept
        assert all(found[seq] == ids[seq] for seq in kept)


def test_an_id_that_the_hash_beside_it_does_not_fit_is_none(home):
    path = max(home.glob("index/*.bin"), key=lambda one: one.stat().st_size)
    data, found = path.read_bytes(), path.stat()
    changed = data.replace(b"\x03first:0", b"\x03first:9")
    assert changed != data
    with path.open("r+b") as file:
        file.write(changed)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    with memplane.open(home, read_only=True) as plane:
        lines = index_of(plane).lines
        seq = plane._log.find("first:0").event.seq
        assert lines.id(seq) is None
        assert lines.id(seq + 1) == "first:1"


@given(
    st.lists(
        st.sampled_from(indexing._PHRASES) | st.text(max_size=5).map(lambda text: text.encode())
    ).map(b"".join)
)
def test_what_is_packed_always_comes_back_or_is_not_kept(line):
    packed = indexing._CODES.packed(line)
    if any(one < 32 for one in line):
        assert not packed
    else:
        assert unpacked_line(bytes(indexing._FIELDS.size) + packed) == line
        assert len(packed) <= len(line)


def test_a_long_line_is_read_where_it_stands_without_a_look_at_tables(home, monkeypatch):
    with memplane.open(home, read_only=True) as plane:
        index = index_of(plane)
        expected = plane._log.find("long")
        monkeypatch.setattr(plane._log, "line", lambda _: None)
        assert index.lines.find("long") == expected


def test_the_bytes_of_lines_and_the_hashes_before_them_are_those_of_the_log(home):
    with memplane.open(home, read_only=True) as plane:
        lines = list(plane._log.read())
        before = ""
        for line, (h, raw) in zip(lines, raw_lines(plane._log, lines), strict=True):
            data = (home / "log" / f"{line.segment:08}.jsonl").read_bytes()
            assert raw == data[line.offset : line.end - 1]
            assert h.decode() == (before if line.offset else "")
            before = line.event.h


@pytest.mark.parametrize("said", [b"rest by the lake", b"nest by the \xffake"])
def test_an_index_that_says_something_else_shows_what_the_log_says(home, said):
    """Changed in place, with the time that it had: nobody looks at its sum again."""
    path = max(home.glob("index/*.bin"), key=lambda one: one.stat().st_size)
    data, found = path.read_bytes(), path.stat()
    changed = data.replace(b"nest by the lake", said)
    assert changed != data
    with path.open("r+b") as file:
        file.write(changed)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    with memplane.open(home, read_only=True) as plane:
        line = index_of(plane).lines.find("first:0")
        assert line is not None
        assert line.event.text == TEXTS[0]


def test_nothing_of_a_purged_line_is_kept(home):
    with memplane.open(home) as plane:
        plane.upkeep.purge("first:1")
        assert index_of(plane).lines.find("first:1") is None
    with memplane.open(home) as plane:
        view = index_of(plane).view()
        kept = [unpacked_line(view.kept(doc)) for doc in range(view.count)]
        assert not [line for line in kept if b"first:1" in line]
        assert [line for line in kept if b"first:2" in line]
        assert plane.upkeep.differing() == []


def test_a_line_that_was_purged_behind_the_index_is_gone(home):
    with memplane.open(home, read_only=True) as plane:
        index = index_of(plane)
        with memplane.open(home) as other:
            other.upkeep.purge("first:1")
        assert index.lines.find("first:1") is None


@given(texts=st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=8))
def test_whatever_a_text_is_its_line_comes_back(tmp_path_factory, texts):
    with memplane.init(tmp_path_factory.mktemp("any") / "plane", durability="os") as plane:
        plane.record_many([{"text": f"heron {text}"} for text in texts])
        lines = {line.event.seq: line for line in plane._log.read()}
        view = index_of(plane).view()
        kept = KeptLines(plane._log, lambda: view, lambda: 0)
        plane._log.line = lambda _: None
        for seq in list(lines)[1:]:
            assert kept.line(seq) == lines[seq]
        del plane._log.line


@given(k=st.integers(1, 60))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_search_reads_a_line_a_text_and_the_sentences_of_each_hit_once_and_no_others(home, k):
    """What a hit costs does not grow with what else there is; the second time it costs no line."""
    read, texts, analysed = [], [], []
    with memplane.open(home, read_only=True) as plane, pytest.MonkeyPatch.context() as patch:
        count_calls(patch, KeptLines, "line", read)
        count_calls(patch, LogRetriever, "passages", texts)
        count_calls(patch, Sentences, "holding", analysed)
        patch.setattr(plane._log, "line", lambda _: pytest.fail("an older segment was opened"))
        hits = plane.search("cranes turn", k=k)
        assert len(hits) == k
        again = plane.search("cranes turn", k=k)
    assert again == hits
    assert sorted(seq for (seq,) in read) == sorted(hit.event.seq for hit in hits)
    assert sum(len(docs) for docs, *_ in texts) == 2 * k
    assert len(analysed) == k


def count_calls(patch, owner, name, calls):
    """Keep the arguments of each call of a method."""
    method = getattr(owner, name)

    def counted(self, *args, **named):
        calls.append(args)
        return method(self, *args, **named)

    patch.setattr(owner, name, counted)
