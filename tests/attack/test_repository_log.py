"""Logs that a stranger forged, in a plane that the user came to trust.

Who attacks: whoever wrote the repository that the plane came with. What they control: every line of
the log; its chain has no secret, so all of them verify.

What is promised: what is no event is listed as damage, whatever else stands in a line is data; every
reader answers or refuses in words, and no file outside is read or written.
"""

import random
import shutil
from contextlib import suppress

import pytest
from builders_hostile_repositories import FORGED, Stranger, chain, changed, entries

import memplane
from memplane.errors import MemplaneError
from memplane.log import segments
from memplane.projections import projector
from tests.examples import sampled


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Stranger(tmp_path_factory.mktemp("stranger"))


def forged(stranger, home, name):
    """A copy of the plane with a log that was forged in this way, and no caches."""
    shutil.copytree(stranger.home, home)
    for folder in ("projections", "index", "reports"):
        shutil.rmtree(home / folder)
    lines = stranger.lines()
    data = FORGED[name](lines, random.Random(name))
    data = chain(lines, stranger.id) if data is None else data
    if isinstance(data, str):
        data = data.encode()
    (home / "log" / "00000001.jsonl").write_bytes(data)
    return home


def used(plane):
    """Everything that reads a log; each answers or refuses in words."""
    for read in (
        lambda: plane.pack("deploy", session="s1", intent="deep", save_report=True),
        lambda: plane.pack("", intent="orient", channel="agent"), lambda: plane.pack("turn", intent="fast"),
        lambda: list(plane.events()), lambda: plane.search("deploy"), lambda: plane.get("deploy"),
        lambda: plane.history("deploy"), lambda: plane.keys(""), plane.work.decisions, plane.work.tasks.list,
        plane.work.sessions.list, plane.work.artifacts.list, lambda: plane.expand("session/s1?depth=2"),
        lambda: plane.event(64), plane.upkeep.verify, lambda: plane.record("the user's own"), plane.upkeep.rebuild,
        plane.upkeep.differing,
    ):  # fmt: skip
        with suppress(MemplaneError):
            read()


@pytest.mark.parametrize("name", sampled(FORGED, 5))
def test_a_forged_log_is_read_or_refused_in_words(stranger, tmp_path, monkeypatch, name):
    # A purge that erased nothing is met each time: it makes no difference how often, nor how many
    # places in the index it may say that an event had.
    monkeypatch.setattr(projector, "_PURGES_AT_ONCE", 3)
    monkeypatch.setattr(segments, "_DOCUMENTS_MAX", 5_000)
    read_or_refused(stranger, tmp_path, name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in FORGED if "purge" in name])
def test_a_forged_purge_is_met_as_often_and_is_as_large_as_may_be(stranger, tmp_path, name):
    read_or_refused(stranger, tmp_path, name)


def read_or_refused(stranger, tmp_path, name):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "letter.txt").write_text("a letter\n")
    before = entries(tmp_path / "precious")
    home = forged(stranger, tmp_path / "a" / "b" / ".memplane", name)
    with suppress(MemplaneError), memplane.open(home) as plane:
        used(plane)
    assert changed(before, entries(tmp_path / "precious")) == []


@pytest.mark.parametrize("field", ["text", "id", "tags", "data", "session", "seq", "importance"])
def test_a_line_that_verifies_and_is_no_event_is_listed_and_the_others_are_read(
    stranger, tmp_path, field
):
    home = forged(stranger, tmp_path / ".memplane", "markers")
    lines = stranger.lines()
    at = next(number for number, line in enumerate(lines) if line["id"] == "m7")
    lines[at][field] = 5.5
    (home / "log" / "00000001.jsonl").write_bytes(chain(lines, stranger.id))
    with memplane.open(home, read_only=True) as plane:
        ids = [event.id for event in plane.events()]
        assert "m6" in ids
        assert "m7" not in ids
        if field not in ("seq", "id"):
            assert "m8" in ids
        assert plane.upkeep.verify(deep=True).problems
