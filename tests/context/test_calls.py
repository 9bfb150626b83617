"""What is no text, no number or no event is refused in words, by every call that takes one."""

import pytest

from memplane.errors import InputError, MemplaneError, NotFoundError

HALF = ("\ud800", "a\udfffb")
NO_TEXTS = (*HALF, 1.5, True, -1, b"x", [], {}, 10**30)
NO_EVENTS = (*HALF, 1.5, True, -1, None, b"x", [], {}, 10**30)
NO_COUNTS = (*HALF, "a", 1.5, True, -1, b"x", [], {}, 10**30)

TEXTS = {
    "get": lambda plane, given: plane.get(given),
    "get in": lambda plane, given: plane.get("k", given),
    "get for": lambda plane, given: plane.get("k", agent=given),
    "get on": lambda plane, given: plane.get("k", channel=given),
    "keys": lambda plane, given: plane.keys(given),
    "history": lambda plane, given: plane.history(given),
    "events": lambda plane, given: list(plane.events(session=given)),
    "expand": lambda plane, given: plane.expand(given),
    "expand on": lambda plane, given: plane.expand("#2", channel=given),
    "expand an event": lambda plane, given: plane.expand(f"event/{given}"),
    "forget": lambda plane, given: plane.forget(given),
    "forget an id": lambda plane, given: plane.forget(id=given),
    "forget a session": lambda plane, given: plane.forget(session=given),
    "forget a source": lambda plane, given: plane.forget(source=given),
    "forget because": lambda plane, given: plane.forget("k", reason=given),
    "unforget": lambda plane, given: plane.unforget(given),
    "pin a key": lambda plane, given: plane.pin(key=given),
    "touch a key": lambda plane, given: plane.touch(key=given),
    "a task": lambda plane, given: plane.work.tasks.get(given),
    "a session": lambda plane, given: plane.work.sessions.get(given),
    "artifacts in": lambda plane, given: plane.work.artifacts.list(ns=given),
    "artifacts of": lambda plane, given: plane.work.artifacts.list(session=given),
    "add": lambda plane, given: plane.work.artifacts.add(given),
    "pack": lambda plane, given: plane.pack("x", query_event=given),
}
EVENTS = {
    "event": lambda plane, given: plane.event(given),
    "pin": lambda plane, given: plane.pin(given),
    "unpin": lambda plane, given: plane.unpin(given),
    "touch": lambda plane, given: plane.touch(given),
    "show": lambda plane, given: plane.work.artifacts.show(given),
    "export": lambda plane, given: plane.work.artifacts.export(given, "out"),
    "approve": lambda plane, given: plane.work.artifacts.approve(given),
    "revoke": lambda plane, given: plane.work.artifacts.revoke(given),
}
COUNTS = {
    "keys": lambda plane, given: plane.keys(limit=given),
    "events": lambda plane, given: list(plane.events(limit=given)),
    "events behind": lambda plane, given: list(plane.events(after=given)),
    "artifacts": lambda plane, given: plane.work.artifacts.list(limit=given),
    "search": lambda plane, given: plane.search("x", given),
    "expand": lambda plane, given: plane.expand("#2", given),
}


def refused(plane, call, given, wanted=MemplaneError):
    before = plane.head()
    with pytest.raises(wanted) as error:
        call(plane, given)
    str(error.value).encode()
    assert plane.head() == before
    return str(error.value)


@pytest.fixture
def some(plane):
    plane.record("x", kind="fact", key="k", id="f")
    return plane


@pytest.mark.parametrize("call", TEXTS.values(), ids=TEXTS)
def test_what_is_no_text_is_refused_and_nothing_is_written(some, call):
    for given in NO_TEXTS:
        said = refused(some, call, given)
        assert "expected" in said or "no " in said or "unknown" in said


@pytest.mark.parametrize("call", EVENTS.values(), ids=EVENTS)
def test_what_names_no_event_is_refused_and_nothing_is_written(some, call):
    for given in NO_EVENTS:
        said = refused(some, call, given, InputError)
        assert "expected" in said
    refused(some, call, "none", NotFoundError)
    refused(some, call, 99, NotFoundError)


@pytest.mark.parametrize("call", COUNTS.values(), ids=COUNTS)
def test_what_is_no_number_of_things_is_refused_with_what_was_found(some, call):
    for given in NO_COUNTS:
        if given == 10**30 and call is COUNTS["expand"]:
            continue  # as many tokens as there are
        assert "expected" in refused(some, call, given, InputError)


def test_what_was_found_is_said_beside_what_is_expected(some):
    assert refused(some, EVENTS["show"], "\ud800") == (
        "named: expected a text without half a character, found '\\ud800'"
    )
    assert refused(some, COUNTS["keys"], "a") == (
        "limit: expected a whole number from 1, found 'a'"
    )
