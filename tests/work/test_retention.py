"""`keep` of plane.yaml: tool results of old sessions, told before they go; off by default."""

import re
import shutil

import pytest

import memplane
from memplane.errors import InputError

NOW = "2026-06-30T00:00:00.000000Z"


class Clock:
    now = "2026-01-01T00:00:00.000000Z"

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three sessions a month or more apart, with a megabyte and a half of results each."""
    clock = Clock()
    home = tmp_path_factory.mktemp("made") / "p"
    with memplane.init(home, trusted=False, durability="os", clock=clock) as plane:
        for month, session in ((1, "old"), (5, "later"), (6, "new")):
            clock.now = f"2026-0{month}-20T00:00:00.000000Z"
            for number in range(3):
                plane.record(
                    f"{session} output {number} " + "x" * 500_000, kind="tool_result", role="tool",
                    session=session, id=f"{session}:{number}",
                )  # fmt: skip
            plane.record(f"{session} fact", kind="fact", session=session, id=f"{session}:fact")
        plane.record("because of it", kind="decision", refs=["old:1"])
    return home


@pytest.fixture
def plane(made, tmp_path, clock):
    clock.now = NOW
    home = shutil.copytree(made, tmp_path / "p")
    with memplane.open(home, durability="os", clock=clock) as plane:
        yield plane


def keep(plane, **given):
    path = plane.home / "policies" / "plane.yaml"
    text = path.read_text()
    for name, value in given.items():
        text, count = re.subn(rf"(?m)^  {name}: \d+", f"  {name}: {value}", text)
        assert count == 1
    path.write_text(text)


def named(plane, due):
    return [plane.event(seq).id for seq in due.seqs]


def test_nothing_is_over_by_default(plane):
    assert plane.upkeep.due().seqs == ()
    assert plane.upkeep.purge_due() is None


def test_results_of_sessions_that_were_silent_for_longer_are_over(plane):
    keep(plane, tool_result_days=30)
    due = plane.upkeep.due()
    assert named(plane, due) == ["old:0", "old:2", "later:0", "later:1", "later:2"]
    assert due.sessions == 2
    assert due.bytes > 2_500_000
    keep(plane, tool_result_days=60)
    assert named(plane, plane.upkeep.due()) == ["old:0", "old:2"]
    assert plane.upkeep.due(now="2026-02-01T00:00:00Z").seqs == ()


def test_results_of_the_oldest_sessions_beyond_the_size_are_over(plane):
    keep(plane, tool_result_mb=4)
    assert named(plane, plane.upkeep.due()) == ["old:0", "old:2"]
    keep(plane, tool_result_mb=1)
    assert len(plane.upkeep.due().seqs) == 8
    keep(plane, tool_result_mb=5)
    assert plane.upkeep.due().seqs == ()


def test_a_session_that_is_at_work_keeps_its_results_whatever_their_size(plane, clock):
    keep(plane, tool_result_mb=1)
    clock.now = "2026-06-20T00:10:00.000000Z"
    assert "new:0" not in named(plane, plane.upkeep.due())


def test_the_purge_is_dry_first_takes_results_alone_and_says_why_in_the_log(plane):
    keep(plane, tool_result_days=30)
    head = plane.head()
    dry = plane.upkeep.purge_due(dry_run=True)
    assert (len(dry.events), dry.dry_run, plane.head()) == (5, True, head)
    done = plane.upkeep.purge_due()
    assert {id_.partition(":")[0] for _, id_ in done.events} == {"old", "later"}
    assert "keep of plane.yaml: 5 tool results of 2 old sessions" in plane.event(done.by[0]).text
    assert plane.event("old:fact").text == "old fact"
    assert plane.event("old:1").kind == "tool_result"
    assert plane.upkeep.due().seqs == ()
    assert plane.upkeep.verify(deep=True).ok


def test_a_statement_is_never_over(plane):
    plane.record("old output in words", kind="summary", session="old", role="tool")
    keep(plane, tool_result_days=1, tool_result_mb=1)
    assert {plane.event(seq).kind for seq in plane.upkeep.due().seqs} <= {"tool_result"}
    with pytest.raises(InputError):
        plane.upkeep.due(now="soon")
