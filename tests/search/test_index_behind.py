"""A request that finds the index far behind answers at once, says how far it reached, and is replayed."""

import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.explain.replay import replay_pack
from memplane.index import store
from memplane.upkeep.reports import find_report
from tests.examples import examples

NOW = "2026-03-01T12:00:00.000000Z"
LIMIT = 40


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", durability="os", clock=lambda: NOW) as plane:
        path = plane.home / "policies" / "budgets.yaml"
        path.write_text(
            f"version: 1\nlimits: {{index_behind_max: {LIMIT}, hotset_max_events: 60}}\n"
        )
        yield plane


@pytest.fixture
def taken(monkeypatch):
    """Count the documents that are taken into an index."""
    counted = [0]
    real = store.SegmentedIndex.add_many

    def add_many(self, documents):
        documents = list(documents)
        counted[0] += len(documents)
        return real(self, documents)

    monkeypatch.setattr(store.SegmentedIndex, "add_many", add_many)
    return counted


def rows(first, count):
    return [
        {"text": f"the heron number{n} stands in the canal", "role": "user", "session": f"s{n % 4}"}
        for n in range(first, first + count)
    ]


def record_elsewhere(plane, rows):
    """In a process that searches nothing, and so indexes nothing."""
    with memplane.open(plane.home, clock=lambda: NOW, durability="os") as other:
        other.record_many(rows)


def used(block):
    return block.report["request"].get("index_seq")


def test_the_first_request_after_many_rows_indexes_few_and_says_how_far_it_came(plane, taken):
    plane.record_many(rows(0, 500))
    block = plane.pack("where does the heron number499 stand?")
    assert taken[0] <= LIMIT
    assert used(block) <= LIMIT + 1
    assert block.report["degraded"] == [f"index: {plane.head().seq - used(block)} events behind"]
    assert "heron number499" in block.text  # the hotset has it
    assert "heron number5 " in plane.pack("where does the heron number5 stand?").text  # indexed
    hits = plane.search("heron number250")  # neither
    assert all("number250 " not in hit.text for hit in hits)
    assert hits.degraded[0].startswith("index: ")


def test_requests_bring_the_index_forward_until_it_is_there(plane):
    plane.record_many(rows(0, 300))
    reached = []
    while (seq := used(plane.pack("heron number150"))) is not None:
        reached.append(seq)
    assert reached == sorted(set(reached))
    assert len(reached) == 300 // LIMIT
    block = plane.pack("where does the heron number150 stand?")
    assert "degraded" not in block.report
    assert "heron number150" in block.text


def test_who_waits_and_who_is_no_more_than_the_limit_behind_gets_all(plane):
    plane.record_many(rows(0, 300))
    block = plane.pack("where does the heron number150 stand?", wait=True)
    assert used(block) is None
    assert "heron number150" in block.text
    plane.record_many(rows(300, LIMIT))
    block = plane.pack("where does the heron number150 stand?")
    assert used(block) is None
    assert "degraded" not in block.report


def test_a_search_that_waits_finds_all(plane):
    plane.record_many(rows(0, 300))
    hits = plane.search("heron number150", wait=True)
    assert "number150" in hits[0].text
    assert hits.degraded == ()


@pytest.mark.parametrize(
    "query", ["where does the heron number399 stand?", "heron number20", "canal"]
)
def test_the_report_is_replayed_to_the_same_bytes_however_much_is_indexed_since(plane, query):
    plane.record_many(rows(0, 200))
    plane.upkeep.index()
    record_elsewhere(plane, [
        {"text": "The heron eats frogs", "kind": "fact", "key": "food"},
        *rows(200, 200),
        {"text": "The heron eats eels", "kind": "fact", "key": "food"},
    ])  # fmt: skip
    plane.forget(session="s1")
    plane.unforget(session="s1")
    plane.forget(session="s2")
    block = plane.pack(query, save_report=True)
    seq = used(block)
    assert seq < plane.head().seq
    plane.upkeep.index()
    assert (
        plane.pack(query, index_seq=seq, now=NOW, as_of=block.report["log"]["seq"]).text
        == block.text
    )
    saved = find_report(plane.home, "last")
    done = replay_pack(plane, saved)
    assert done.same, done
    assert used(done.block) == seq
    assert done.block.report["degraded"] == block.report["degraded"]


def test_what_was_replaced_or_forgotten_behind_the_index_is_not_found(plane):
    plane.record("The canal is closed by ice", kind="fact", key="canal", id="old")
    plane.record("The storks left the mill", id="gone")
    plane.upkeep.index()
    record_elsewhere(plane, rows(0, 200))
    plane.record("The canal is open", kind="fact", key="canal")
    plane.forget(id="gone")
    record_elsewhere(plane, rows(200, 100))
    for query in ("is the canal closed by ice?", "did the storks leave the mill?"):
        block = plane.pack(query)
        assert used(block) is not None
        assert "closed by ice" not in block.text
        assert "storks" not in block.text
        assert not {"old", "gone"} & {hit.event.id for hit in plane.search(query)}


def test_what_a_channel_may_not_see_stays_hidden_behind_the_index_too(plane):
    plane.record_many(rows(0, 200))
    plane.record("The heron's nest is secretly at the lock", sensitivity="high")
    found = plane.pack("where is the heron's nest?", channel="public")
    assert used(found) is not None
    assert "secretly" not in found.text
    assert all("secretly" not in hit.text for hit in plane.search("heron's nest", channel="public"))
    assert "secretly" in plane.pack("where is the heron's nest?").text


def test_filters_hold_for_what_is_not_indexed(plane):
    plane.record_many(rows(0, 200))
    plane.record("The heron is tagged", tags=["ring"], kind="observation")
    (hit,) = plane.search("heron", tag="ring")
    assert hit.event.tags == ("ring",)
    assert {hit.event.session for hit in plane.search("heron canal", session="s3")} == {"s3"}


def test_a_deleted_index_is_answered_by_the_same_rule_and_a_cold_process_gives_the_same_bytes(
    plane,
):
    plane.record_many(rows(0, 300))
    plane.pack("heron", wait=True)
    plane.close()
    texts = set()
    for _ in range(2):
        shutil.rmtree(plane.home / "index")
        with memplane.open(plane.home, clock=lambda: NOW, durability="os") as again:
            block = again.pack("where does the heron number299 stand?")
            texts.add((block.text, used(block)))
    assert len(texts) == 1
    assert used(block) <= LIMIT + 1


def test_closing_a_plane_does_not_index_the_whole_log(plane, taken):
    plane.record_many(rows(0, 500))
    plane.search("heron")
    plane.close()
    assert taken[0] <= 2 * LIMIT


def test_recording_behind_a_far_index_indexes_in_proportion(plane, taken):
    plane.record_many(rows(0, 500))
    plane.search("heron")
    before = taken[0]
    for row in rows(500, 33):
        plane.record(row.pop("text"), **row)
    assert taken[0] - before <= 4 * LIMIT


def test_reports_keep_the_schema(plane):
    schema = json.loads((Path(__file__).parents[2] / "schemas" / "report.schema.json").read_text())
    plane.record_many(rows(0, 200))
    jsonschema.validate(plane.pack("heron").report, schema)


def test_evidence_that_changes_as_the_index_comes_nearer_is_told_as_that(plane):
    plane.record_many(rows(0, 300))
    plane.record("where does the heron number150 stand?", role="user", session="mine")
    broken = []
    for _ in range(300 // LIMIT + 2):
        plane.pack(session="mine", save_report=True, now=NOW)
        broken.append(find_report(plane.home, "last").report["prefix"]["break"])
    assert "heron number150" in plane.pack(session="mine").text
    causes = {one["cause"] for one in broken if one is not None}
    assert causes == {"index"}


@pytest.mark.parametrize("value", [-1, True, "5"])
def test_an_index_seq_that_is_none_is_named(plane, value):
    plane.record("a heron")
    with pytest.raises(memplane.InputError) as caught:
        plane.pack("heron", index_seq=value)
    assert caught.value.where == "index_seq"


WORDS = "heron canal lock mill frost ledger stork ferry".split()
SAID = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), SAID, st.sampled_from(["s1", "s2", "s3"])),
        st.tuples(st.just("fact"), SAID, st.sampled_from(["k1", "k2"])),
        st.tuples(st.just("forget"), st.sampled_from(["s1", "s2", "s3"]), st.booleans()),
        st.tuples(st.just("hide"), SAID, st.sampled_from(["high", "secret"])),
    ),
    min_size=8, max_size=40,
)  # fmt: skip


def take(plane, step):
    match step:
        case ("say", text, session):
            plane.record(text, session=session, role="user")
        case ("fact", text, key):
            plane.record(text, kind="fact", key=key)
        case ("forget", session, undo):
            with suppress(memplane.NotFoundError):  # nothing was said there
                (plane.unforget if undo else plane.forget)(session=session)
        case ("hide", text, sensitivity):
            plane.record(text, sensitivity=sensitivity)


@settings(max_examples=examples(10), deadline=None)
@given(steps=STEPS, data=st.data())
def test_how_far_the_index_reached_gives_the_same_block_whatever_is_indexed_since(steps, data):
    at = data.draw(st.integers(0, len(steps)))
    query, channel = data.draw(SAID), data.draw(st.sampled_from(["private", "agent", "public"]))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "plane"
        asked = {"intent": "deep", "channel": channel, "budget": data.draw(st.integers(100, 900))}
        with memplane.init(home, durability="os", clock=lambda: NOW, trusted=False) as plane:
            text = "version: 1\nlimits: {index_behind_max: 0, hotset_max_events: 8}\n"
            (home / "policies" / "budgets.yaml").write_text(text)
            for step in steps[:at]:
                take(plane, step)
            plane.upkeep.index()
        with memplane.open(home, durability="os", clock=lambda: NOW) as plane:
            for step in steps[at:]:
                take(plane, step)
            block = plane.pack(query, **asked)
            request = block.report["request"]
            reached = request.get("index_seq", request["as_of"])
            plane.upkeep.index()
            again = plane.pack(query, index_seq=reached, **asked)
            assert again.text == block.text
            assert again.report.get("degraded") == block.report.get("degraded")


def test_what_an_agent_said_is_found_behind_the_index_however_many_agents_spoke_since(plane):
    said = {"text": "the otter swims below the weir", "role": "user", "session": "o"}
    others = [{**said, "text": f"noise {n}", "ns": f"/agent/other{n}"} for n in range(15)]
    record_elsewhere(plane, [*rows(0, 3 * LIMIT), {**said, "ns": "/agent/me"}, *others])
    found = plane.search("otter", agent="me")
    assert [hit.event.text for hit in found] == [said["text"]]
    assert not plane.search("otter", agent="other3")
