"""Rows of several agents in one write: each is judged alone, and gets its own answer."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.acms.runner import AgentRow, record_each_as
from memplane.errors import ConflictError, InputError, MemplaneError, ScopeError
from memplane.log import disk as log_disk
from memplane.work.changes import record_as


def agent_row(agent="ann", bounds=(), **row):
    return AgentRow({"kind": "fact", **row}, "agent", agent, bounds)


@pytest.fixture
def syncs(monkeypatch):
    """The sync of each write of the log."""
    made = []
    real = log_disk.Disk.fdatasync

    def counted(disk, fd):
        made.append(fd)
        return real(disk, fd)

    monkeypatch.setattr(log_disk.Disk, "fdatasync", counted)
    return made


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane") as plane:
        plane.record("the plane begins")
        yield plane


def test_rows_of_different_keys_share_one_sync(plane, syncs):
    rows = [agent_row(text=f"lamp {n}", key=f"lamp.{n}") for n in range(40)]
    rows += [agent_row(text=f"note {n}") for n in range(40)]
    del syncs[:]
    done = record_each_as(plane.context, rows)
    assert len(syncs) == 1
    assert [plane.event(one.seq).text for one in done] == [one.row["text"] for one in rows]


def test_the_last_of_one_key_is_its_value_and_each_has_its_receipt(plane):
    done = record_each_as(
        plane.context, [agent_row(text=f"value {n}", key="depth") for n in range(5)]
    )
    seqs = [one.seq for one in done]
    assert seqs == sorted(set(seqs))
    assert plane.get("depth").text == "value 4"
    assert [one.reason for one in plane.history("depth")] == ["superseded"] * 4 + [None]


def test_who_is_refused_keeps_no_other_from_being_stored(plane):
    plane.record("for high eyes", key="vault", kind="fact", sensitivity="high")
    plane.record("taken", id="once", kind="fact")
    done = record_each_as(
        plane.context,
        [
            agent_row(text="good one"),
            agent_row(text="in another's", ns="/agent/bob"),
            agent_row(text="x", kind="nonsense"),
            agent_row(text="over a hidden value", key="vault"),
            agent_row(text="another text", id="once"),
            agent_row(text="out of bounds", ns="/global", bounds=("/project/red",)),
            agent_row(text="within", ns="/project/red", bounds=("/project/red",), key="k"),
            agent_row("bob", text="bob's own", ns="/agent/bob", key="k"),
        ],
    )
    kinds = [type(one) for one in done]
    assert kinds[1:6] == [ScopeError, InputError, ScopeError, ConflictError, ScopeError]
    assert [plane.event(done[at].seq).text for at in (0, 6, 7)] == [
        "good one", "within", "bob's own",
    ]  # fmt: skip
    assert plane.get("vault", channel="private").text == "for high eyes"


def test_one_id_twice_is_stored_once(plane):
    row = agent_row(text="low water at six", id="tide")
    first, second, other = record_each_as(
        plane.context, [row, row, agent_row(text="at seven", id="tide")]
    )
    assert (first.duplicate, second.duplicate, first.seq == second.seq) == (False, True, True)
    assert isinstance(other, ConflictError)


def test_a_value_that_others_wrote_in_between_is_read_again(plane, monkeypatch):
    """Somebody stores a hidden value between the look and the write: it is not replaced."""
    context, real, came = plane.context, type(plane.context).append, []

    def append(self, drafts, *, expected_seq=None):
        if not came:
            came.append(True)
            plane.record("for high eyes", key="vault", kind="fact", sensitivity="high")
        return real(self, drafts, expected_seq=expected_seq)

    monkeypatch.setattr(type(context), "append", append)
    refused, stored = record_each_as(
        context, [agent_row(text="over it", key="vault"), agent_row(text="beside it")]
    )
    assert isinstance(refused, ScopeError)
    assert plane.event(stored.seq).text == "beside it"
    assert plane.get("vault", channel="private").text == "for high eyes"


rows = st.builds(
    agent_row,
    agent=st.sampled_from(["ann", "bob"]),
    bounds=st.sampled_from([(), ("/project/red",), ("/global", "/agent/ann")]),
    text=st.sampled_from(["", "deep", "shallow", "dry"]),
    key=st.sampled_from([None, "a", "b"]),
    id=st.sampled_from([None, "one", "two"]),
    ns=st.sampled_from([None, "/global", "/project/red", "/agent/ann"]),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(rows, max_size=8))
def test_a_batch_comes_to_what_the_rows_one_by_one_come_to(tmp_path_factory, batch):
    def ended(record):
        home = tmp_path_factory.mktemp("each") / "plane"
        with memplane.init(home, durability="os") as plane:
            done = record(plane.context)
            stored = [
                type(one) if isinstance(one, MemplaneError) else plane.event(one.seq).text
                for one in done
            ]
            values = [
                getattr(plane.get(key, ns, channel="private", agent="ann"), "text", None)
                for key in "ab"
                for ns in ("/global", "/project/red", "/agent/ann")
            ]
        return stored, values

    def one_by_one(context):
        return [one for row in batch for one in record_each_as(context, [row])]

    assert ended(one_by_one) == ended(lambda context: record_each_as(context, batch))


def test_one_row_is_recorded_as_record_as_does_it(plane):
    done = record_each_as(plane.context, [agent_row(text="a lamp", key="lamp", ns="/agent/ann")])
    again = record_as(
        plane.context, {"text": "a lamp", "kind": "fact", "key": "lamp", "ns": "/agent/ann"},
        channel="agent", agent="ann",
    )  # fmt: skip
    first, second = plane.event(done[0].seq), plane.event(again.seq)
    own = ("id", "seq", "ts", "rec", "dur", "h", "refs")
    plain = [
        {name: value for name, value in one._asdict().items() if name not in own}
        for one in (first, second)
    ]
    assert plain[0] == plain[1]
