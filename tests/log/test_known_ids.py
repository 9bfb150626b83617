"""An id that is new costs few look-ups however long the log is, and one that is known is found."""

import pytest
from builders_damaged_logs import draft, filled, opened
from hypothesis import given, settings, strategies as st

from memplane.log import reader
from memplane.log.reader import KnownIds, SealedIds, id_hash
from tests.examples import examples


@given(st.sets(st.text(max_size=9)), st.text(max_size=9), st.integers(8, 14))
@settings(max_examples=examples(200), deadline=None)
def test_what_was_added_is_never_unknown(ids, other, bits):
    known = KnownIds(bits)
    for id_ in ids:
        known.add(id_hash(id_))
    assert all(known.may_have(id_hash(id_)) for id_ in ids)
    assert KnownIds(bits).may_have(id_hash(other)) is False


@pytest.fixture
def counted(monkeypatch):
    """How many tables of sealed segments were asked for an id."""
    asked = []
    plain = SealedIds.by_hash

    def by_hash(self, hashed):
        asked.append(hashed)
        return plain(self, hashed)

    monkeypatch.setattr(SealedIds, "by_hash", by_hash)
    monkeypatch.setattr(reader, "_BITS", 16)
    monkeypatch.setattr(KnownIds.__init__, "__defaults__", (16,))
    return asked


def test_a_second_reader_takes_over_what_the_first_has_verified(tmp_path, monkeypatch):
    filled(tmp_path, 40)
    with opened(tmp_path, segment_bytes_max=1500) as first:
        lines = [first.line(seq) for seq in range(1, 41)]
        with opened(tmp_path, segment_bytes_max=1500) as second:
            second.take(first)
            monkeypatch.setattr(SealedIds, "load", None)  # nothing is verified again
            assert [second.line(seq) for seq in range(1, 41)] == lines


def test_a_new_id_asks_no_more_segments_of_a_longer_log(tmp_path, counted):
    filled(tmp_path, 600)
    with opened(tmp_path, segment_bytes_max=1500) as log:
        segments = {line.segment for line in log.read()}
        assert len(segments) > 80
        for n in range(30):  # of which the first few look through all of them
            log.append([draft(f"early{n}")])
        counted.clear()
        for n in range(200):
            log.append([draft(f"late{n}")])
        assert len(counted) <= 200 * 20


def test_an_id_that_is_known_is_found_wherever_it_stands(tmp_path, counted):
    filled(tmp_path, 600)
    with opened(tmp_path, segment_bytes_max=1500) as log:
        for n in range(60):
            log.append([draft(f"new{n}")])
        for id_ in ("m0", "m299", "m599", "new0", "new59"):
            assert log.find(id_).event.id == id_
        (again,) = log.append([draft("m7", "turn number 7 about heron7")])
        assert again.duplicate
        assert log.find("m600") is None


def test_what_another_process_adds_and_seals_is_found(tmp_path, counted):
    filled(tmp_path, 600)
    with (
        opened(tmp_path, segment_bytes_max=1500) as log,
        opened(tmp_path, segment_bytes_max=1500) as other,
    ):
        for n in range(60):
            log.append([draft(f"new{n}")])
        for n in range(300):
            other.append([draft(f"theirs{n}")])
        assert all(log.find(f"theirs{n}") for n in range(300))
        assert log.find("theirs300") is None
        counted.clear()
        assert all(log.find(f"none{n}") is None for n in range(100))
        assert len(counted) <= 100 * 20
