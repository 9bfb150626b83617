"""Of planes that are merged, the later value is in force: in any order, however often, in each."""

import io
import itertools
import json
import shutil
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import memplane
from tests.examples import examples

KEYS = ("limit", "deploy")
NS = ("/global", "/project")


class Clock:
    """A clock that a test moves; every look at it is a microsecond later."""

    def __init__(self, day=1):
        self.day, self.looks = day, 0

    def __call__(self):
        self.looks += 1
        return f"2026-{self.day // 28 + 1:02}-{self.day % 28 + 1:02}T12:00:00.{self.looks:06}Z"


def made(home, day=1):
    plane = memplane.init(home, durability="os", clock=Clock(day), environment={})
    plane.clock = plane.context.clock
    return plane


def opened(home, day=1):
    plane = memplane.open(home, durability="os", clock=Clock(day), environment={})
    plane.clock = plane.context.clock
    return plane


def copied(plane, to):
    """A plane that begins as a copy of another and goes on by itself."""
    plane.flush()
    shutil.copytree(plane.home, to)
    return opened(to, plane.clock.day)


def merged(into, *exports):
    """Take exports of planes (or of bytes) into a plane; the last report."""
    report = None
    for one in exports:
        data = one if isinstance(one, bytes) else backup(one)
        report = into.upkeep.merge(io.BytesIO(data), "export")
    return report


def backup(plane, **asked):
    to = io.BytesIO()
    plane.upkeep.export(to, **asked)
    return to.getvalue()


def value(plane, key, ns="/global"):
    event = plane.get(key, ns)
    return None if event is None else event.text


def fates(plane, key):
    return [(one.event.text, one.reason) for one in plane.history(key)]


@pytest.fixture
def plane(tmp_path):
    with made(tmp_path / "here") as plane:
        yield plane


@pytest.fixture
def other(tmp_path):
    with made(tmp_path / "there") as other:
        yield other


def test_a_newer_decision_stays_when_an_older_backup_is_restored(plane, other):
    other.record("Deploy to Heroku", kind="decision", key="deploy", ts="2026-01-10T00:00:00Z")
    plane.record("Deploy to Fly.io", kind="decision", key="deploy", ts="2026-06-10T00:00:00Z")
    plane.search("Fly")
    assert merged(plane, other).kept == 1
    assert value(plane, "deploy") == "Deploy to Fly.io"
    assert fates(plane, "deploy") == [
        ("Deploy to Heroku", "superseded"), ("Deploy to Fly.io", None)
    ]  # fmt: skip
    assert [one.text for one in plane.work.decisions()] == ["Deploy to Fly.io"]
    block = plane.pack("where do we deploy?").text
    assert "Fly.io" in block
    assert "Heroku" not in block
    assert [one.event.text for one in plane.search("deploy")] == ["Deploy to Fly.io"]
    assert plane.upkeep.differing() == []


def test_a_later_value_of_another_plane_takes_the_place_of_the_one_here(plane, other):
    plane.record("Deploy to Heroku", kind="decision", key="deploy", ts="2026-01-10T00:00:00Z")
    other.record("Deploy to Fly.io", kind="decision", key="deploy", ts="2026-06-10T00:00:00Z")
    assert merged(plane, other).kept == 0
    assert value(plane, "deploy") == "Deploy to Fly.io"


def test_a_forget_in_an_export_hides_what_it_meant_there_alone(plane, other):
    other.record("old limit 10", kind="fact", key="limit", ts="2026-01-10T00:00:00Z", id="theirs")
    other.forget("limit")
    plane.record("limit 20", kind="fact", key="limit", ts="2026-06-10T00:00:00Z")
    merged(plane, other)
    assert value(plane, "limit") == "limit 20"
    assert fates(plane, "limit") == [("old limit 10", "forgotten"), ("limit 20", None)]


def test_a_key_that_was_forgotten_here_does_not_come_back_with_an_older_value(plane, other):
    other.record("old limit 10", kind="fact", key="limit", ts="2026-01-10T00:00:00Z")
    plane.record("limit 20", kind="fact", key="limit", ts="2026-06-10T00:00:00Z")
    plane.forget("limit")
    merged(plane, other)
    assert value(plane, "limit") is None
    plane.forget("limit") if value(plane, "limit") else plane.unforget("limit")
    assert value(plane, "limit") == "limit 20"


@pytest.mark.parametrize("first", [0, 1])
def test_two_copies_that_went_apart_have_the_same_value_in_either_order(plane, tmp_path, first):
    plane.record("limit 1", kind="fact", key="limit", ts="2026-11-01T00:00:00Z")
    with copied(plane, tmp_path / "copy") as copy:
        plane.record("limit of 2 December", kind="fact", key="limit", ts="2026-12-02T00:00:00Z")
        copy.record("limit of 1 December", kind="fact", key="limit", ts="2026-12-01T00:00:00Z")
        pair = (plane, copy) if first == 0 else (copy, plane)
        merged(*pair)
        merged(pair[1], pair[0])
        for one in pair:
            assert value(one, "limit") == "limit of 2 December"


def test_a_correction_acts_at_once_though_the_clock_here_is_behind(plane, other):
    other.record("limit 10", kind="fact", key="limit", ts="2027-01-10T00:00:00Z")
    merged(plane, other)
    plane.record("limit 20", kind="fact", key="limit")
    assert value(plane, "limit") == "limit 20"
    merged(other, plane)
    assert value(other, "limit") == "limit 20"
    plane.forget("limit")
    plane.unforget("limit")
    plane.forget("limit")
    merged(other, plane)
    assert value(other, "limit") is None


def test_inside_one_plane_its_own_order_stays_also_elsewhere(plane, other, tmp_path):
    """What was recorded later there holds, though it is dated before what it replaced."""
    other.record("limit 10", kind="fact", key="limit", ts="2026-06-10T00:00:00Z", id="z")
    other.record("limit 9", kind="fact", key="limit", ts="2026-02-10T00:00:00Z", id="a")
    plane.record("limit 20", kind="fact", key="limit", ts="2026-04-10T00:00:00Z", id="m")
    with made(tmp_path / "third") as third:
        merged(third, plane, other)
        merged(plane, other)
        merged(other, plane)
        for one in (plane, other, third):
            assert value(one, "limit") == "limit 9"
            assert [text for text, _ in fates(one, "limit")] == ["limit 20", "limit 10", "limit 9"]


def test_a_part_of_an_export_carries_the_order_too(plane, other):
    other.record("limit 10", kind="fact", key="limit", ts="2026-06-10T00:00:00Z", session="s1")
    other.record("limit 9", kind="fact", key="limit", ts="2026-02-10T00:00:00Z", session="s2")
    plane.record("limit 20", kind="fact", key="limit", ts="2026-04-10T00:00:00Z")
    merged(plane, backup(other, session="s2"))
    assert value(plane, "limit") == "limit 9"


def test_a_decision_that_left_the_ledger_is_not_replaced_by_an_older_one(plane, other):
    plane.record("Deploy to Fly.io", kind="decision", key="deploy", ts="2026-06-10T00:00:00Z")
    rows = [{"text": f"decision {n}", "kind": "decision", "key": f"k{n}"} for n in range(600)]
    plane.record_many(rows)
    other.record("Deploy to Heroku", kind="decision", key="deploy", ts="2026-01-10T00:00:00Z")
    merged(plane, other)
    assert "Deploy to Heroku" not in [one.text for one in plane.work.decisions()]
    assert "Heroku" not in plane.pack("deploy").text
    assert plane.upkeep.differing() == []


def test_what_is_superseded_on_arrival_is_so_as_of_every_later_seq(plane, other):
    plane.record("limit 20", kind="fact", key="limit", ts="2026-06-10T00:00:00Z")
    other.record("limit 10", kind="fact", key="limit", ts="2026-01-10T00:00:00Z", id="theirs")
    merged(plane, other)
    late = plane.event("theirs")
    assert plane.work.archived(late) == ("superseded", 2)
    assert plane.work.standing(late).supersedes is None
    plane.record("limit 30", kind="fact", key="limit", ts="2026-07-10T00:00:00Z")
    assert plane.work.archived(plane.event("theirs")) == ("superseded", 2)
    assert [one.by_seq for one in plane.history("limit")] == [2, late.seq + 1, None]
    assert [one.supersedes for one in plane.history("limit")] == [None, None, 2]


def test_without_the_newer_value_the_older_one_of_the_other_plane_is_in_force(plane, other):
    plane.record("limit 20", kind="fact", key="limit", ts="2026-06-10T00:00:00Z", id="ours")
    other.record("limit 10", kind="fact", key="limit", ts="2026-01-10T00:00:00Z", id="theirs")
    merged(plane, other)
    done = plane.upkeep.purge("ours")
    assert [id_ for _, id_ in done.revived] == ["theirs"]
    assert value(plane, "limit") == "limit 10"


def test_it_is_the_same_after_a_rebuild_in_another_process_and_without_caches(plane, other):
    plane.record("limit 20", kind="fact", key="limit", ts="2026-06-10T00:00:00Z")
    other.record("limit 10", kind="fact", key="limit", ts="2026-01-10T00:00:00Z", id="theirs")
    merged(plane, other)
    plane.upkeep.index()
    plane.flush()
    for caches in (True, False):
        if not caches:
            shutil.rmtree(plane.home / "projections")
            shutil.rmtree(plane.home / "index")
        with memplane.open(plane.home) as again:
            assert value(again, "limit") == "limit 20"
            assert again.work.archived(again.event("theirs")) == ("superseded", 2)
            assert again.upkeep.differing() == []


def test_the_command_says_how_many_newer_values_were_kept(plane, other, tmp_path):
    for n in range(3):
        other.record(f"old {n}", kind="fact", key=f"k{n}", ts="2026-01-10T00:00:00Z")
        other.record(f"not so old {n}", kind="fact", key=f"k{n}", ts="2026-01-11T00:00:00Z")
        plane.record(f"new {n}", kind="fact", key=f"k{n}", ts="2026-06-10T00:00:00Z")
    other.record("only there", kind="fact", key="k9", ts="2026-01-10T00:00:00Z")
    other.upkeep.export(tmp_path / "e.jsonl")
    other.close()
    plane.close()
    command = [sys.executable, "-m", "memplane", "restore", tmp_path / "e.jsonl"]
    copy = shutil.copytree(plane.home, tmp_path / "copied")
    said = subprocess.run(
        [*command, "--into", plane.home], capture_output=True, check=True, text=True
    )
    assert "kept 3 newer values" in said.stdout
    told = subprocess.run(
        [*command, "--into", copy, "--json"], capture_output=True, check=True, text=True
    )
    assert json.loads(told.stdout)["kept"] == 3
    with memplane.open(plane.home) as again:
        assert [value(again, f"k{n}") for n in range(3)] == [f"new {n}" for n in range(3)]
        assert value(again, "k9") == "only there"


def test_a_task_that_was_closed_later_stays_closed(plane, tmp_path):
    plane.work.tasks.open("billing", "Move the ledger")
    with copied(plane, tmp_path / "copy") as copy:
        copy.work.tasks.block("billing", "waits for a review")
        plane.clock.day += 1
        plane.work.tasks.done("billing")
        merged(plane, copy)
        merged(copy, plane)
        assert [one.work.tasks.get("billing").status for one in (plane, copy)] == ["done", "done"]
        copy.clock.day += 2
        copy.work.tasks.open("billing", "Again")
        merged(plane, copy)
        assert [one.work.tasks.get("billing").status for one in (plane, copy)] == ["open", "open"]


def test_an_approval_that_was_taken_back_later_stays_so(plane, tmp_path):
    (tmp_path / "report.md").write_text("Herons nest in trees.")
    id_ = plane.work.artifacts.add(tmp_path / "report.md").receipt.id
    with copied(plane, tmp_path / "copy") as copy:
        copy.work.artifacts.approve(id_)
        plane.clock.day += 1
        plane.work.artifacts.approve(id_)
        plane.work.artifacts.revoke(id_)
        for into, of in ((plane, copy), (copy, plane)):
            merged(into, of)
            assert not into.work.artifacts.show(id_).approved
            assert "Herons" not in into.pack("herons").text


def test_a_forget_by_session_and_by_source_means_the_same_in_each_plane(plane, other):
    other.record("said", kind="fact", key="limit", session="s1", id="notes:a:1")
    other.record("heard", kind="fact", key="deploy", id="notes:b:1")
    other.forget(session="s1")
    other.forget(source="notes:b")
    plane.record("ours", kind="fact", key="other", session="s1", id="notes:b:2")
    merged(plane, other)
    assert [value(plane, key) for key in ("limit", "deploy", "other")] == [None, None, "ours"]


def test_a_callers_own_word_under_origin_is_no_other_plane_and_is_not_lost(plane, other):
    other.record("limit 10", kind="fact", key="limit", data={"origin": "a file"}, id="theirs")
    merged(plane, other)
    assert plane.event("theirs").data["origin"]["given"] == "a file"


# --- the law ---

OPS = st.one_of(
    st.tuples(st.just("record"), st.sampled_from(KEYS), st.sampled_from((None, 1, 2, 3, 40))),
    st.tuples(st.just("forget"), st.sampled_from(KEYS), st.booleans()),
    st.tuples(st.just("name"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("pin"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("session"), st.sampled_from(("s0", "s1")), st.booleans()),
    st.tuples(st.just("copy"), st.none(), st.none()),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), OPS), max_size=24)
FEW = settings(
    max_examples=examples(8), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck), phases=[Phase.generate],
)  # fmt: skip
MANY = settings(FEW, max_examples=examples(50))


class Planes:
    """Three planes with clocks that differ, two of which begin alike; and what happens to them."""

    def __init__(self, folder):
        first = made(folder / "p0", 5)
        first.record("the first", kind="fact", key=KEYS[0], id="common", session="s0")
        self.all = [first, copied(first, folder / "p1"), made(folder / "p2", 9)]
        self.all[1].clock.day = 3
        self.count = itertools.count()

    def close(self):
        for plane in self.all:
            plane.close()

    def do(self, at, of, op):
        what, name, how = op
        plane = self.all[at]
        try:
            if what == "copy":
                if of != at and of < len(self.all):
                    merged(plane, self.all[of])
            elif what == "record":
                n = next(self.count)
                ts = None if how is None else f"2026-01-{how % 28 + 1:02}T00:00:00Z"
                plane.record(
                    f"value {n} from p{at}", kind=("fact", "decision")[n % 2], key=name,
                    id=f"{'zyx'[at]}:v{n}", session=f"s{n % 2}", ts=ts,
                )  # fmt: skip
            elif what == "forget":
                (plane.unforget if how else plane.forget)(name)
            elif what == "session":
                (plane.unforget if how else plane.forget)(session=name)
            else:
                events = [one for one in plane.events() if one.key in KEYS]
                id_ = events[name % len(events)].id if events else "none"
                if what == "pin":
                    (plane.unpin if how else plane.pin)(id_)
                else:
                    (plane.unforget if how else plane.forget)(id=id_)
        except memplane.errors.NotFoundError:
            pass

    def holds(self):
        """Everything that is in force in each of them; what memplane keeps of it agrees with it."""
        found = []
        for plane in self.all:
            events = {one.id: one for one in plane.events() if one.key in KEYS}
            standings = {id_: plane.work.standing(one) for id_, one in events.items()}
            fates = {id_: (one.reason, one.pinned) for id_, one in standings.items()}
            live = {id_ for id_, (reason, _) in fates.items() if reason is None}
            hits = {one.event.id for one in plane.search("value first", 100)}
            assert hits == live
            decisions = {one.id for one in plane.work.decisions()}
            assert decisions == {id_ for id_ in live if events[id_].kind == "decision"}
            values = {key: getattr(plane.get(key), "id", None) for key in KEYS}
            assert set(values.values()) - {None} == live
            hotset = plane.context.caught_up().hotset.state.seen().items.values()
            shown = {one.id for one in hotset if one.key and not (one.superseded or one.forgotten)}
            assert shown == live
            pins = {one.id for one in plane.context.caught_up().decisions.state.active()
                    if one.pinned_at}  # fmt: skip
            assert pins == {id_ for id_ in decisions if fates[id_][1]}
            orders = [[one.event.id for one in plane.history(key)] for key in KEYS]
            found.append((values, fates, orders))
        return found


def law(folder, history, order):
    planes = Planes(folder)
    try:
        for at, of, op in history:
            planes.do(at, of, op)
        pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
        for _ in range(2):
            for n in order:
                a, b = pairs[n]
                merged(planes.all[a], planes.all[b])
        first, *others = planes.holds()
        assert all(one == first for one in others)
        for plane in planes.all:
            assert plane.upkeep.differing() == []
    finally:
        planes.close()


@FEW
@given(HISTORIES, st.permutations(range(6)))
def test_planes_merged_in_any_order_have_the_same_values_forgets_and_pins(
    tmp_path_factory, history, order
):
    law(tmp_path_factory.mktemp("law"), history, order)


@pytest.mark.long
@MANY
@given(HISTORIES, st.permutations(range(6)))
def test_many_planes_merged_in_any_order_have_the_same_values_forgets_and_pins(
    tmp_path_factory, history, order
):
    law(tmp_path_factory.mktemp("law"), history, order)
