"""Artifacts: what is believed of their data, what approvals cover, and the law of every projector."""

import json

import pytest
from builders_histories import APPROVAL_ROWS, ARTIFACT_ROWS, LATER, NOW, A, B, approval, artifact
from builders_journal import ROWS, Journal
from checks_law import fold, holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.context.artifact_files import ArtifactApprovals
from memplane.event import Event
from memplane.projections.artifacts import Artifacts, facts_of
from memplane.projections.memories import Memories
from tests.examples import examples

PROJECTOR = Artifacts()
END = 2**63


def forget(id_, undo=False):
    return {
        "kind": "forget",
        "data": {"forget": {"ids": [id_]}, **({"undo": True} if undo else {})},
    }


def approvals(*rows):
    journal = Journal(rows)
    memories = Memories(journal, None, plane="plane")
    memories.catch_up()
    by_id = {line.event.id: line for line in journal.lines}
    return ArtifactApprovals(fold(PROJECTOR, journal.lines), memories, by_id.get)


def covered(*rows, as_of=END, now=NOW):
    return approvals(*rows).covered(as_of=as_of, now=now)


# --- the fold ---

HISTORY = st.lists(st.one_of(ARTIFACT_ROWS, APPROVAL_ROWS, APPROVAL_ROWS, ROWS), max_size=50)


@settings(max_examples=examples(40), deadline=None)
@given(HISTORY)
def test_any_split_of_the_log_folds_to_the_same_bytes(rows):
    holds_the_law(PROJECTOR, Journal(rows).lines)


@settings(max_examples=examples(26), deadline=None)
@given(HISTORY)
def test_the_law_holds_where_the_bound_is_always_at_work(rows):
    holds_the_law(Artifacts(bytes_max=700), Journal(rows).lines)


@pytest.mark.sized
def test_the_file_stays_within_its_bound_and_keeps_the_newest():
    rows = []
    for number in range(9_000):
        rows += [artifact(id=f"{number:0128}")]
        if number % 4 == 0:
            rows.append(approval(f"{number:0128}", id=f"ok{number:0120}"))
    state = fold(PROJECTOR, Journal(rows).lines)
    assert len(PROJECTOR.dump(state)) <= 500 * 1024
    assert state.older
    assert state.shed
    assert f"{8_996:0128}" in state.said
    assert f"{0:0128}" not in state.said


@settings(max_examples=examples(20), deadline=None)
@given(HISTORY, st.integers(0, 50))
def test_what_is_covered_as_of_a_seq_is_what_was_covered_there(rows, at):
    assert covered(*rows, as_of=at) == covered(*rows[:at])


# --- what an approval covers ---


def test_an_approval_covers_from_its_seq_on_until_it_is_revoked():
    rows = [artifact(), approval("e1"), approval("e1", undo=True), approval("e1")]
    assert [covered(*rows, as_of=seq) for seq in range(1, 5)] == [(), (1,), (), (1,)]


def test_an_approval_covers_exactly_the_content_that_it_names():
    assert covered(artifact(), approval("e1", digest=B)) == ()
    assert covered(artifact(), artifact(B), approval("e1", "e2", digest=B)) == (2,)


def test_an_approval_of_what_is_not_there_yet_covers_nothing():
    assert covered(approval("e2"), artifact()) == ()


def test_of_two_artifacts_with_the_same_content_the_one_that_is_named_is_approved():
    assert covered(artifact(), artifact(ns="/task/a"), approval("e2")) == (2,)


def test_an_approval_holds_as_long_as_it_says():
    rows = [artifact(), approval("e1", valid_until=NOW)]
    assert covered(*rows, now=NOW) == (1,)
    assert covered(*rows, now=LATER) == ()
    assert covered(artifact(), approval("e1", valid_from=LATER), now=NOW) == ()


def test_a_forgotten_approval_covers_nothing_and_a_forgotten_revoke_ends_nothing():
    rows = [artifact(), approval("e1"), forget("e2")]
    assert covered(*rows) == ()
    assert covered(*rows, forget("e2", undo=True)) == (1,)
    revoked = [artifact(), approval("e1"), approval("e1", undo=True)]
    assert covered(*revoked, forget("e3")) == (1,)


def test_an_approval_that_another_event_replaces_covers_nothing_more():
    rows = [artifact(), approval("e1", key="k"), {"kind": "fact", "key": "k", "text": "no"}]
    assert [covered(*rows, as_of=seq) for seq in (2, 3)] == [(1,), ()]


@settings(max_examples=examples(20), deadline=None)
@given(HISTORY)
def test_one_artifact_is_covered_if_it_is_among_all_that_are(rows):
    found = approvals(*rows)
    every = found.covered(as_of=END, now=NOW)
    for line in Journal(rows).lines:
        event = line.event
        asked = found.covers(event.seq, event.id, as_of=END, now=NOW)
        # An id that two events bear is none that a log would hold.
        assert not asked or event.seq in every
    for seq in every:
        event = Journal(rows).lines[seq - 1].event
        assert found.covers(seq, event.id, as_of=END, now=NOW)


# --- what is believed ---


def facts(**data):
    return facts_of(Event(1, "e1", NOW, NOW, **artifact(data=data)))


def test_the_facts_of_an_artifact_are_those_of_its_data():
    found = facts(bytes=12_345)
    assert (found.name, found.mime, found.bytes, found.sha256) == (
        "x.md",
        "text/markdown",
        12_345,
        A,
    )
    assert found.uri == f"artifact://sha256/{A}"
    assert found.handle == f"expand://artifact/{A[:16]}"
    assert found.card == "x.md (12 KB, text/markdown)"


@pytest.mark.parametrize(
    "data",
    [
        {"sha256": "../../etc/passwd"}, {"sha256": A.upper()}, {"sha256": 7}, {"sha256": A + "\n"},
        {"bytes": -1}, {"bytes": True}, {"bytes": "12"}, {"stored": "here"}, {"stored": None},
        {"stored": "reference"}, {"stored": "reference", "path": "relative"},
        {"stored": "reference", "path": "/a\0b"}, {"stored": "reference", "path": "/" + "x" * 4096},
    ],
)  # fmt: skip
def test_data_in_another_form_names_no_file(data):
    assert facts(**data) is None


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "a\nb", "x" * 256, 7, None, "\u202ea"])
def test_a_name_that_leads_elsewhere_is_not_believed(name):
    assert facts(name=name).name == A[:16]


@pytest.mark.parametrize("mime", ["", "text", "text/a b", "text/x\n# Rules", 7, "x/" + "y" * 200])
def test_a_type_that_is_none_is_not_believed(mime):
    assert facts(mime=mime).mime == "application/octet-stream"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1 KB"), (1500, "1.5 KB"),
        (9_949, "9.9 KB"), (12_345, "12 KB"), (999_999, "1000 KB"), (1_000_000, "1 MB"),
        (2_500_000, "2.5 MB"), (64_000_000, "64 MB"), (5_000_000_000, "5 GB"),
    ],
)  # fmt: skip
def test_a_card_says_the_size_as_people_do(size, said):
    assert facts(bytes=size).card == f"x.md ({said}, text/markdown)"


def test_a_sidecar_in_another_form_is_none():
    good = {"name": "x.json", "bytes": 3, "sha256": B}
    assert facts(sidecar=good).sidecar == ("x.json", 3, B)
    for bad in (
        {**good, "name": "../x"},
        {**good, "bytes": -1},
        {**good, "sha256": "b"},
        "x",
        None,
    ):
        assert facts(sidecar=bad).sidecar is None


def test_the_state_is_small_json():
    state = fold(PROJECTOR, Journal([artifact(), approval("e1")]).lines)
    fields = json.loads(PROJECTOR.dump(state))
    assert fields["artifacts"] == [[1, A[:16]]]
    assert [row[:3] for row in fields["approvals"]] == [["e1", 2, "e2"]]
