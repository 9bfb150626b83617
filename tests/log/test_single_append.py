"""A log for one append: it believes what was durable, and verifies what may have been torn."""

import os
import shutil

import pytest
from builders_damaged_logs import draft, filled, messages, opened, quarantined, segment
from hypothesis import given, settings, strategies as st

from memplane.errors import CorruptError, MemplaneError
from memplane.log import verify_log
from tests.examples import examples

PLANE = "demo"
NEW = draft("new", "what a brief process has to say")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    home = tmp_path_factory.mktemp("brief") / "home"
    filled(home, 12, plane=PLANE, segment_bytes_max=1 << 20)
    return home


def outcome(home, **options):
    """What an append makes of the log: its error, what a reader sees then, what was cut out."""
    error = None
    try:
        with opened(home, PLANE, **options) as one:
            one.append([NEW])
    except MemplaneError as raised:
        error = type(raised)
    return error, messages(home, PLANE), quarantined(home)


@settings(max_examples=examples(20), deadline=None)
@given(cut=st.integers(0, 700), more=st.binary(max_size=40))
def test_a_torn_end_is_judged_as_by_who_verifies_all(log, tmp_path_factory, cut, more):
    homes = [tmp_path_factory.mktemp("torn") / name for name in ("brief", "whole")]
    for home in homes:
        shutil.copytree(log, home)
        data = segment(home, 1).read_bytes()
        segment(home, 1).write_bytes(data[: len(data) - cut] + more)
    brief, whole = (
        outcome(home, brief=flag) for home, flag in zip(homes, (True, False), strict=True)
    )
    assert brief == whole
    for home in homes:
        shutil.rmtree(home)


def test_damage_in_what_was_durable_stays_for_readers_and_a_salvage_to_find(log, tmp_path):
    home = shutil.copytree(log, tmp_path / "home")
    data = bytearray(segment(home, 1).read_bytes())
    at = data.index(b"heron3")
    data[at : at + 5] = b"HERON"
    segment(home, 1).write_bytes(data)
    assert outcome(home, brief=True)[0] is None
    assert not verify_log(home, PLANE).ok
    ids, gaps = messages(home, PLANE)
    assert ids == [f"m{n}" for n in range(12) if n != 3] + ["new"]
    assert len(gaps) == 1
    with opened(home, PLANE) as one, pytest.raises(CorruptError):
        one.append([draft("more")])


def test_only_the_end_of_the_last_segment_is_read_however_long_it_is(tmp_path, monkeypatch):
    read = []
    for lines in (50, 1000):
        home = tmp_path / str(lines)
        with opened(home, PLANE) as one:
            one.append([draft(f"m{n}", "text " * 60) for n in range(lines)])
        with opened(home, PLANE, brief=True) as one:  # syncs, and says so
            one.append([draft("second")])
        with monkeypatch.context() as patched, opened(home, PLANE, brief=True) as one:
            pread, count = os.pread, [0]

            def counted(fd, size, offset, pread=pread, count=count):
                data = pread(fd, size, offset)
                count[0] += len(data)
                return data

            patched.setattr(os, "pread", counted)
            one.append([draft("third")._replace(id_given=False)])
            read.append(count[0])
    assert read[1] <= 64 * 1024 + 3 * 4096
    assert segment(tmp_path / "1000", 1).stat().st_size > 5 * read[1]
