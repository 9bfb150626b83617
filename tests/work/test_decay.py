"""Memories fade by the reader's clock, a touch renews them, and what has faded can be archived."""

import pytest

import memplane
from memplane.errors import InputError, NotFoundError

DAY = "2026-01-05T12:00:00.000000Z"  # the clock of the tests
LATER = "2026-02-04T12:00:00.000000Z"  # 30 days on: half of an observation's importance
MUCH_LATER = "2027-01-05T12:00:00.000000Z"


def left(plane, event, now=None):
    return plane.work.standing(plane.event(event), now=now).importance


def taken(plane, below, **asked):
    return [one.event.id for one in plane.work.evict(below, **asked).taken]


@pytest.fixture
def notes(plane):
    plane.record("the build takes nine minutes", id="slow", kind="observation", importance=400)
    plane.record("split the build", id="plan", kind="plan", key="build.plan", importance=400)
    plane.record("CI has two runners", id="fact", kind="fact", key="ci.runners", importance=400)
    plane.record("We keep one pipeline", id="keep", kind="decision", key="ci", importance=100)
    plane.record("never push on Friday", id="rule", kind="rule", importance=100)
    plane.record("at most ten minutes", id="bound", kind="fact", importance=100,
                 markers=["constraint"])  # fmt: skip
    plane.record("short answers", id="likes", kind="preference", importance=300)
    plane.record("hello", id="turn", role="user", importance=10)
    return plane


def test_importance_halves_with_the_readers_clock_and_nothing_is_written(notes):
    head = notes.head()
    assert [left(notes, one, LATER) for one in ("slow", "plan")] == [200, 282]
    assert left(notes, "slow", MUCH_LATER) == 0
    assert [left(notes, one, MUCH_LATER) for one in ("keep", "rule", "bound", "likes", "turn")] == [
        100, 100, 100, 300, 10,
    ]  # fmt: skip
    assert left(notes, "slow") == 400
    assert notes.head() == head


def test_a_touch_counts_from_when_it_was_and_names_a_key_an_id_or_a_seq(notes, clock):
    clock.now = LATER
    notes.touch(key="build.plan")
    notes.touch("slow")
    notes.touch(notes.event("fact").seq)
    assert [left(notes, one) for one in ("slow", "plan", "fact")] == [400, 400, 400]
    assert notes.work.standing(notes.event("plan")).touched == LATER
    before = notes.at(notes.event("turn").seq)
    assert before.work.standing(before.event("plan"), now=LATER).importance == 282
    assert before.work.standing(before.event("plan"), now=LATER).touched is None


def test_a_touch_that_names_nothing_or_two_things_is_refused(notes):
    head = notes.head()
    with pytest.raises(NotFoundError):
        notes.touch("none")
    with pytest.raises(NotFoundError):
        notes.touch(key="none")
    with pytest.raises(InputError):
        notes.touch()
    with pytest.raises(InputError):
        notes.touch("slow", key="ci")
    assert notes.head() == head


def test_a_touch_outlives_a_save_and_a_new_process_reads_it(tmp_path, clock):
    home = tmp_path / "kept"
    with memplane.init(home, durability="os", clock=clock) as plane:
        plane.record("x", id="note", kind="observation")
        clock.now = LATER
        plane.touch("note")
        plane.upkeep.rebuild()
        assert left(plane, "note", LATER) == 500
    with memplane.open(home, clock=clock) as again:
        assert left(again, "note", LATER) == 500
        assert again.work.standing(again.event("note")).touched == LATER


def test_evict_takes_what_has_faded_below_the_line_and_says_so_before_it_does(notes):
    head = notes.head()
    assert taken(notes, 250, now=LATER, dry_run=True) == ["slow"]
    assert notes.head() == head
    done = notes.work.evict(250, now=LATER)
    assert [(one.event.id, one.importance) for one in done.taken] == [("slow", 200)]
    assert notes.work.archived(notes.event("slow")) == ("evicted", done.receipts[0].seq)
    assert taken(notes, 250, now=LATER) == []
    assert not [hit for hit in notes.search("build") if hit.event.id == "slow"]
    assert "nine minutes" not in notes.pack("how long does the build take?").text


def test_decisions_rules_constraints_and_pinned_memories_are_never_evicted(notes):
    notes.pin("slow")
    assert taken(notes, 1000, now=MUCH_LATER) == ["plan", "fact", "likes"]
    notes.unpin("slow")
    assert taken(notes, 1.0, now=MUCH_LATER) == ["slow"]
    notes.record("Decision: we deploy with Nomad", id="nomad", kind="observation")
    assert taken(notes, 1000, now=MUCH_LATER) == [], "whatever kind a decision was recorded as"


def test_what_was_evicted_is_current_again_once_it_is_unforgotten(notes):
    notes.work.evict(1000, kind="plan", now=LATER)
    assert notes.get("build.plan") is None
    assert [one.reason for one in notes.history("build.plan")] == ["evicted"]
    notes.unforget("build.plan")
    assert notes.get("build.plan").id == "plan"
    assert notes.work.archived(notes.event("plan")) is None


def test_evict_narrows_to_a_kind_and_a_namespace_and_passes_over_what_is_archived(notes):
    notes.record("a task's note", id="mine", kind="observation", ns="/task/a", importance=1)
    assert taken(notes, 1000, kind="fact", now=LATER, dry_run=True) == ["fact"]
    assert taken(notes, 1000, ns="/task/a", now=LATER, dry_run=True) == ["mine"]
    notes.forget("ci.runners")
    notes.record("split it in two", id="newer", kind="plan", key="build.plan")
    found = taken(notes, 1000, now=LATER, dry_run=True)
    assert found == ["slow", "likes", "mine", "newer"]


def test_more_than_one_event_can_name_are_archived_by_several(plane):
    plane.record_many(
        {"text": f"note {n}", "kind": "observation", "importance": 1, "id": f"n{n}"}
        for n in range(450)
    )
    done = plane.work.evict(0.5)
    assert (len(done.taken), len(done.receipts)) == (450, 3)
    assert plane.work.archived(plane.event("n449")) == ("evicted", done.receipts[2].seq)
    assert plane.work.evict(0.5).taken == ()


@pytest.mark.parametrize("below", [-1, 1001, 1.5, "much", None, True])
def test_a_line_that_is_no_importance_is_refused(notes, below):
    with pytest.raises(InputError) as refused:
        notes.work.evict(below)
    assert refused.value.where == "below"


def test_a_kind_that_is_never_evicted_is_refused(notes):
    with pytest.raises(InputError) as refused:
        notes.work.evict(500, kind="decision")
    assert refused.value.where == "kind"


def test_a_hit_says_that_it_is_stale_at_the_requests_clock(notes):
    stale = {hit.event.id: hit.stale for hit in notes.search("build minutes runners", now=LATER)}
    assert stale["slow"]
    assert not any(hit.stale for hit in notes.search("build minutes runners"))
    assert notes.work.standing(notes.event("slow"), now=LATER).stale
    assert not notes.work.standing(notes.event("keep"), now=MUCH_LATER).stale


def test_of_equal_hits_the_one_that_has_kept_more_of_its_importance_comes_first(plane, clock):
    plane.record("grey herons", id="old", kind="observation", importance=600)
    clock.now = LATER
    plane.record("grey herons", id="new", kind="observation", importance=400)
    assert [hit.event.id for hit in plane.search("herons", now=DAY)] == ["old", "new"]
    assert [hit.event.id for hit in plane.search("herons")] == ["new", "old"]
    plane.touch("old")
    assert [hit.event.id for hit in plane.search("herons")] == ["old", "new"]


def test_half_lives_and_the_days_are_the_policys(tmp_path, clock):
    with memplane.init(tmp_path / "p", durability="os", clock=clock) as plane:
        file = tmp_path / "p" / "policies" / "scoring.yaml"
        text = file.read_text().replace("observation: 720 ", "observation: 24 ")
        file.write_text(text.replace("stale_after_days: 30", "stale_after_days: 2"))
        plane.record("x", id="note", kind="observation", importance=800)
        assert left(plane, "note", "2026-01-07T12:00:00.000000Z") == 200
        assert plane.work.standing(plane.event("note"), now="2026-01-07T12:00:00.000000Z").stale


def says(block, id_):
    return next(e.text for e in block.entries if id_ in (*e.events, *e.parts))


@pytest.mark.parametrize("intent", ["fast", "deep"])
def test_a_stale_memory_says_so_in_the_tail_by_one_word_that_the_clock_alone_decides(notes, intent):
    asked = {"intent": intent, "budget": 2000, "sections": ["retrieved_evidence"]}
    query = "how many minutes does the build take?"
    fresh = says(notes.pack(query, now=DAY, **asked), "slow")
    stale = notes.pack(query, now=LATER, **asked)
    assert says(stale, "slow") == fresh.replace("observation:", "observation (stale):") != fresh
    assert notes.pack(query, now=MUCH_LATER, **asked).text == stale.text
    assert stale.tokens <= 2000
    notes.touch("slow")
    assert says(notes.pack(query, now=DAY, **asked), "slow") == fresh
    notes.pin("slow")
    assert says(notes.pack(query, now=MUCH_LATER, **asked), "slow") == fresh


def test_a_card_says_so_where_no_session_asks(notes):
    where = {"sections": ["knowledge_cards"], "budget": 2000}
    assert says(notes.pack("", **where), "fact").startswith("fact ci.runners: CI has")
    late = notes.pack("", now=MUCH_LATER, **where)
    assert says(late, "fact").startswith("fact ci.runners (stale): CI has")
    assert "(stale)" not in notes.pack("", now=MUCH_LATER, session="s", **where).text
    assert "(stale)" not in says(late, "rule") + says(late, "likes")


def test_before_the_tail_no_word_follows_the_clock(notes):
    """A session's prompt has its evidence in the middle: the provider's cache holds it."""
    notes.record("how many minutes does the build take?", role="user", session="s", id="ask")
    for intent in ("fast", "deep"):
        early, late = (
            notes.pack("", session="s", intent=intent, budget=2000, now=now)
            for now in (DAY, MUCH_LATER)
        )
        assert "nine minutes" in early.text
        assert "stale" not in late.text.partition("## Tasks")[0].partition("## Files")[0]
        assert early.text == late.text
