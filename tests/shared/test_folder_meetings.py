"""The law of a shared folder: whoever met whom in whatever order, the same values are in force."""

import itertools

from builders_folders import Carried, Ticking, device_in, in_force, made
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from memplane.errors import InputError, NotFoundError

KEYS = ("a", "b", "c")
SPACES = ("/global", "/project/x")
LONG = settings.default.max_examples >= 500
LAW = settings(
    max_examples=1_000 if LONG else 7, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck), phases=[Phase.generate],
)  # fmt: skip

OPS = st.one_of(
    st.tuples(st.just("record"), st.sampled_from(KEYS), st.sampled_from(SPACES)),
    st.tuples(st.just("record"), st.sampled_from(KEYS), st.just("/global")),
    st.tuples(st.just("dated"), st.sampled_from(KEYS), st.integers(1, 9)),
    st.tuples(st.just("forget"), st.sampled_from(KEYS), st.booleans()),
    st.tuples(st.just("session"), st.sampled_from(("s0", "s1")), st.booleans()),
    st.tuples(st.just("id"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("pin"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("purge"), st.integers(0, 9), st.none()),
    st.tuples(st.just("sync"), st.none(), st.none()),
    st.tuples(st.just("meet"), st.integers(1, 2), st.none()),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 2), OPS), min_size=6, max_size=26)


class Devices:
    """Three devices with a folder each, and what happens to them."""

    def __init__(self, top, ahead, *, mine=True):
        Ticking.looks = 0
        self.planes = [made(top / f"p{at}", by) for at, by in enumerate(ahead)]
        self.carried = Carried(top, 3)
        self.ids = []
        self.said = []
        self.count = itertools.count()
        for at, plane in enumerate(self.planes):
            plane.upkeep.sync(self.carried.folders[at], name=f"p{at}")
            self.ids.append(device_in(plane, self.carried.folders[at]))
            self.carried.wrote(at, self.ids[at])
        for one, other in itertools.combinations(range(3), 2):
            self.carried.meet(one, other)
        self.carried.meet(0, 1)
        for at, plane in enumerate(self.planes):
            for device in self.ids:
                if device != self.ids[at]:
                    plane.upkeep.sync(self.carried.folders[at], accept=device, mine=mine)

    def close(self):
        for plane in self.planes:
            plane.close()

    def sync(self, at):
        report = self.planes[at].upkeep.sync(self.carried.folders[at])
        assert report.refused == []
        self.carried.wrote(at, self.ids[at])
        return report

    def do(self, at, op):
        what, name, how = op
        plane = self.planes[at]
        if what == "record":
            n = next(self.count)
            made = plane.record(
                f"{name} is {n}", kind="fact", key=name, ns=how, session=f"s{n % 2}"
            )
            self.said.append(made.id)
        elif what == "dated":
            ts = f"2026-01-0{how}T12:00:00Z"
            n = next(self.count)
            self.said.append(plane.record(f"{name} is {n}", kind="fact", key=name, ts=ts).id)
        elif what == "forget":
            (plane.unforget if how else plane.forget)(name)
        elif what == "session":
            (plane.unforget if how else plane.forget)(session=name)
        elif what == "id" and self.said:
            (plane.unforget if how else plane.forget)(id=self.said[name % len(self.said)])
        elif what == "pin" and self.said:
            (plane.unpin if how else plane.pin)(self.said[name % len(self.said)])
        elif what == "purge" and self.said:
            plane.upkeep.purge(self.said[name % len(self.said)])
        elif what == "sync":
            self.sync(at)
        elif what == "meet":
            self.carried.meet(at, (at + name) % 3)

    def all_meet(self):
        for _ in range(5):
            for at in range(3):
                self.sync(at)
            for one, other in ((0, 1), (1, 2), (0, 2), (0, 1)):
                self.carried.meet(one, other)


def ended(history, ahead, top, *, mine=True):
    devices = Devices(top, ahead, mine=mine)
    try:
        for at, op in history:
            try:
                devices.do(at, op)
            except (NotFoundError, InputError):
                continue  # it names what this device has not, or what is so already
        devices.all_meet()
        heads = [plane.context.log.head().seq for plane in devices.planes]
        found = [in_force(plane, SPACES) for plane in devices.planes]
        assert found[0] == found[1] == found[2]
        for at in range(3):
            assert devices.sync(at).sent == 0
        assert [plane.context.log.head().seq for plane in devices.planes] == heads
        for plane in devices.planes:
            assert plane.upkeep.verify().ok
    finally:
        devices.close()


@LAW
@given(HISTORIES.map(lambda found: [one for one in found if one[1][0] != "dated"]))
def test_all_devices_end_with_the_same_values_in_force(tmp_path_factory, history):
    ended(history, (0, 0, 0), tmp_path_factory.mktemp("met"))


@LAW
@given(HISTORIES.map(lambda found: [one for one in found if one[1][0] != "purge"]))
def test_clocks_that_differ_change_nothing_in_that(tmp_path_factory, history):
    ended(history, (0, 40, -25), tmp_path_factory.mktemp("apart"))


@LAW
@given(HISTORIES.map(lambda found: [one for one in found if one[1][0] not in ("purge", "pin")]))
def test_persons_who_share_a_folder_end_with_the_same_values_too(tmp_path_factory, history):
    """A person's purge erases that person's own events alone, and pins are everybody's own."""
    ended(history, (0, 10, 0), tmp_path_factory.mktemp("persons"), mine=False)
