"""A process that only writes folds nothing as it goes, and leaves checkpoints for readers."""

import json

import pytest

import memplane
from memplane.context import context as contexts
from memplane.projections import projector


@pytest.fixture
def home(tmp_path):
    memplane.init(tmp_path / "plane", trusted=False).close()
    return tmp_path / "plane"


@pytest.fixture
def folded(monkeypatch):
    """The seqs that any projection was shown, and whose."""
    found, fold = [], projector.fold

    def counted(which, state, lines):
        found.extend((which.name, line.event.seq) for line in lines)
        fold(which, state, lines)

    monkeypatch.setattr(projector, "fold", counted)
    return found


def opened(home):
    return memplane.open(home, durability="os")


def record(plane, count):
    for number in range(count):
        plane.record(f"line {number} of the log", role="user", session="s")


def kept_seq(home, name="hotset"):
    path = home / "projections" / f"{name}.json"
    return json.loads(path.read_bytes())["seq"] if path.exists() else 0


def test_writers_fold_neither_their_own_events_nor_those_of_others(home, folded):
    with opened(home) as one, opened(home) as other:
        for _ in range(20):
            record(one, 10)
            record(other, 10)
        assert folded == []
    assert folded == []  # few enough for the next reader
    assert kept_seq(home) == 0


def test_one_who_wrote_much_leaves_checkpoints_when_it_closes(home, folded):
    with opened(home) as plane:
        record(plane, contexts._CHECKPOINT_EVENTS)
        assert folded == []
        head = plane.head().seq
    assert kept_seq(home) == kept_seq(home, "digests") == head
    del folded[:]
    with opened(home) as plane:
        assert "line 487 of the log" in plane.pack("", intent="fast").text
    assert folded == []


def test_one_who_writes_on_and_on_leaves_them_now_and_then_each_line_folded_once(
    home, folded, monkeypatch
):
    monkeypatch.setattr(contexts, "_CHECKPOINT_WRITING", 100)
    with opened(home) as plane:
        record(plane, 350)
        shown = [seq for name, seq in folded if name == "hotset"]
        assert shown == list(range(1, shown[-1] + 1))
        assert 300 <= shown[-1] <= 352
        assert not any(name in ("digests", "files") for name, _ in folded)
        assert kept_seq(home) == shown[-1]
        assert plane.context._folds is None


def test_a_reader_that_writes_folds_as_it_goes(home, folded):
    with opened(home) as plane:
        plane.pack("nothing yet", intent="fast")
        del folded[:]
        record(plane, 2 * contexts._FOLD_EVERY)
        assert {seq for name, seq in folded if name == "hotset"}
        at = plane.head().seq
        assert at - max(seq for _, seq in folded) < contexts._FOLD_EVERY


def test_files_and_digests_that_a_writer_left_out_are_folded_in_one_pass(home, monkeypatch):
    monkeypatch.setattr(contexts, "_CHECKPOINT_WRITING", 700)
    read, batches = [], projector._batches

    def counted(lines, *given):
        return batches((read.append(line.event.seq) or line for line in lines), *given)

    with opened(home) as plane:
        record(plane, 1_250)
        kept, head = kept_seq(home), plane.head().seq
        assert (kept, kept_seq(home, "digests")) == (701, 0)
        monkeypatch.setattr(projector, "_batches", counted)
        assert plane.pack("line 30", intent="deep").entries
    assert sorted(read) == sorted([*range(1, head + 1), *range(kept + 1, head + 1)])
    assert kept_seq(home, "digests") == kept_seq(home, "files") == head
