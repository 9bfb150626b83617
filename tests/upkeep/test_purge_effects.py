"""What a purge brings back is said before it is done: forgotten, replaced, taken back."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from tests.examples import examples

WORD = "quaggafile"


def shown(plane):
    return bool(plane.search(WORD, channel="agent"))


@pytest.fixture
def added(plane, file):
    return plane.work.artifacts.add(
        file("a.md", f"The {WORD} nests in trees"), text="birds"
    ).receipt


def test_an_artifact_whose_revoke_is_purged_is_told_to_be_approved_again(plane, added):
    approval = plane.work.artifacts.approve(added.id)
    assert shown(plane)
    revoke = plane.work.artifacts.revoke(added.id)
    assert not shown(plane)
    planned = plane.upkeep.purge(revoke.seq, dry_run=True)
    assert planned.revived == ((added.seq, added.id),)
    assert planned.approved == {added.seq}
    assert not shown(plane)
    assert plane.upkeep.purge(revoke.seq, approval.seq, dry_run=True).revived == ()
    assert plane.upkeep.purge(revoke.seq, added.seq, dry_run=True).revived == ()
    assert plane.upkeep.purge(revoke.seq).approved == {added.seq}
    assert shown(plane)
    assert plane.upkeep.purge(approval.seq).revived == ()
    assert not shown(plane)


def test_an_artifact_whose_approval_is_no_longer_forgotten_is_told_too(plane, added):
    approval = plane.work.artifacts.approve(added.id)
    forget = plane.forget(id=approval.id)
    assert not shown(plane)
    report = plane.upkeep.purge(forget.seq)
    assert report.revived == ((added.seq, added.id), (approval.seq, approval.id))
    assert report.approved == {added.seq}
    assert shown(plane)


def test_an_artifact_that_another_event_took_the_place_of_is_told(plane, file):
    first = plane.work.artifacts.add(file("a.md", WORD), key="birds").receipt
    plane.work.artifacts.approve(first.id)
    second = plane.work.artifacts.add(file("b.md", "Owls"), key="birds").receipt
    assert not shown(plane)
    assert plane.upkeep.purge(second.seq).revived == ((first.seq, first.id),)
    assert shown(plane)


rows = st.lists(
    st.tuples(
        st.sampled_from(("say", "say", "forget", "forget key", "unforget")),
        st.integers(0, 5), st.sampled_from("ab"),
    ),
    min_size=2, max_size=12,
)  # fmt: skip


@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows, st.data())
def test_what_is_told_to_come_back_is_what_comes_back(tmp_path_factory, made, data):
    home = tmp_path_factory.mktemp("revived") / "home"
    with memplane.init(home) as plane:
        said = [plane.record("We use 0", kind="decision", key="a").seq]
        for act, which, key in made:
            if act == "say":
                said.append(plane.record(f"We use {which}", kind="decision", key=key).seq)
            elif act == "forget key":
                if plane.get(key) is not None:
                    said.append(plane.forget(key).seq)
            else:
                one = plane.event(said[which % len(said)])
                if one.kind == "decision":
                    how = plane.forget if act == "forget" else plane.unforget
                    said.append(how(id=one.id).seq)

        def gone():
            events = [event for event in plane.events() if event.kind == "decision"]
            return {event.seq for event in events if plane.work.archived(event) is not None}

        taken = data.draw(st.lists(st.sampled_from(said), min_size=1, max_size=3, unique=True))
        before = gone()
        report = plane.upkeep.purge(*taken)
        after = gone()
        assert {seq for seq, _ in report.revived} == before - after - set(taken)
