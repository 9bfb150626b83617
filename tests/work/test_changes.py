"""Statements changed and taken back: the log grows, and what holds is as it was."""

import pytest

import memplane
from memplane.errors import InputError, NotFoundError


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        yield plane


def facts(plane):
    """What a search finds."""
    return sorted(hit.event.text for hit in plane.search("herons storks cranes", 50))


def test_a_statement_without_a_key_is_changed_and_the_old_one_goes(plane):
    first = plane.record(
        "herons nest in May", kind="fact", tags=["birds"], importance=300, session="s"
    )
    plane.record("storks nest in April", kind="fact")
    done = plane.work.update(first.seq, text="herons nest in March", importance=0.9)
    new = done.event
    assert (new.text, new.importance, new.tags, new.kind) == (
        "herons nest in March",
        900,
        ("birds",),
        "fact",
    )
    assert (new.refs, new.session) == ((first.id,), None)
    assert facts(plane) == ["herons nest in March", "storks nest in April"]
    assert "May" not in plane.pack("when do herons nest?").text
    assert plane.work.standing(first.event).reason == "forgotten"
    assert plane.work.update(new.id, tags=["a", "b"]).event.text == "herons nest in March"
    assert plane.upkeep.verify(deep=True).ok


def test_a_statement_with_a_key_is_superseded_by_its_change(plane):
    first = plane.record("Deploy to Fly", kind="decision", key="deploy", markers=["goal"])
    plane.work.update(first.id, importance=1000)
    value = plane.get("deploy")
    assert (value.text, value.importance, value.markers) == ("Deploy to Fly", 1000, ("goal",))
    assert [row.reason for row in plane.history("deploy")] == ["superseded", None]


def test_a_long_text_is_kept_whole_and_a_secret_in_a_new_one_is_masked(plane):
    long = "the herons nest. " * 80_000
    first = plane.record(long, kind="fact")
    again = plane.work.update(first.id, importance=1).event
    assert plane.context.log.text(again) == plane.context.log.text(first.event)
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    assert token not in plane.work.update(again.id, text=f"the token is {token}").event.text


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ((99, {"text": "x"}), NotFoundError, "no event 99"),
        (("e", {}), InputError, "expected a change"),
        (("e", {"kind": "rule"}), InputError, "cannot be changed"),
        (("turn", {"text": "x"}), InputError, "is no statement but a message"),
        (("old", {"text": "x"}), InputError, "no longer in force: forgotten by event"),
        (("e", {"importance": 1001}), InputError, "importance"),
        ((True, {"text": "x"}), InputError, "expected an id or a seq"),
    ],
)
def test_what_cannot_be_changed_is_refused_and_nothing_is_written(plane, given, error, said):
    plane.record("a", kind="fact", id="e")
    plane.record("b", kind="message", id="turn")
    plane.record("c", kind="fact", id="old")
    plane.forget(id="old")
    head = plane.head()
    with pytest.raises(error, match=said):
        plane.work.update(given[0], **given[1])
    assert plane.head() == head


def test_undo_takes_the_last_statement_back_and_the_value_before_holds_again(plane):
    plane.record("Deploy to Heroku", kind="decision", key="deploy", tags=["ops"])
    plane.record("Deploy to Fly", kind="decision", key="deploy")
    plane.record("Deploy to AWS", kind="decision", key="deploy")
    plane.record("ok, go on", role="user", session="s")
    done = plane.work.undo()
    assert [event.text for event in done.events] == ["Deploy to AWS"]
    assert (done.restored.text, plane.get("deploy").text) == ("Deploy to Fly",) * 2
    plane.work.undo()
    assert (plane.get("deploy").text, plane.get("deploy").tags) == ("Deploy to Heroku", ("ops",))
    block = plane.pack("where do we deploy?").text
    assert "Heroku" in block
    assert not any(word in block for word in ("Fly", "AWS"))
    plane.work.undo()
    assert plane.get("deploy") is None
    with pytest.raises(NotFoundError, match="no statement and no forget"):
        plane.work.undo()
    plane.record("Deploy to Fly", kind="decision", key="deploy")
    assert plane.work.undo().restored is None
    assert plane.get("deploy") is None


def test_undo_takes_a_forget_back_with_the_summaries_that_went_with_it(plane):
    plane.work.sessions.start("s1")
    for number in range(4):
        plane.record(f"herons {number}", kind="fact", id=f"h{number}", session="s1")
    plane.record("Keep PostgreSQL", kind="decision", session="s1", id="d")
    plane.work.sessions.end("s1")
    (summary,) = plane.events(kind="summary")
    plane.forget(id="d", reason="wrong")
    assert plane.work.standing(summary).reason == "forgotten"
    dry = plane.work.undo(dry_run=True)
    assert ({event.kind for event in dry.events}, dry.receipts) == ({"forget"}, ())
    assert len(plane.work.undo().events) == 2
    assert plane.work.standing(summary).reason is None
    assert plane.work.standing(plane.event("d")).reason is None
    assert [event.id for event in plane.work.undo().events] == ["d"]
    assert plane.work.standing(plane.event("d")).reason == "forgotten"


def test_undo_takes_an_unforget_an_eviction_and_forgets_by_tag_back(plane):
    for name in ("a", "b", "c"):
        plane.record(f"herons {name}", kind="fact", tags=[name], importance=1, id=name)
    plane.forget(id="a")
    plane.unforget(id="a")
    plane.work.undo()
    assert facts(plane) == ["herons b", "herons c"]
    plane.work.undo()  # the forget before
    assert facts(plane) == ["herons a", "herons b", "herons c"]
    plane.work.forget_many(tag=["b", "c"])
    assert facts(plane) == ["herons a"]
    plane.work.undo()
    plane.work.evict(500)
    assert facts(plane) == []
    plane.work.undo()
    assert facts(plane) == ["herons a", "herons b", "herons c"]


def test_undo_takes_an_update_back_whole(plane):
    first = plane.record("herons nest in May", kind="fact")
    plane.work.update(first.id, text="herons nest in March")
    plane.work.undo()
    assert facts(plane) == ["herons nest in May"]
    plane.work.undo()
    assert facts(plane) == []
    keyed = plane.record("cranes fly", kind="fact", key="cranes")
    plane.work.update(keyed.id, text="cranes walk")
    plane.work.undo()
    assert plane.get("cranes").text == "cranes fly"
    assert plane.upkeep.verify(deep=True).ok
