"""`plane.upkeep` and `plane.work`, and the names that stood on `Plane` before: they warn, once."""

import inspect
import re
from datetime import UTC, datetime

import pytest

import memplane
from memplane.plane.plane import _MOVED, Plane, PlaneUpkeep
from memplane.plane.work import PlaneWork

FACES = {"upkeep": PlaneUpkeep, "work": PlaneWork}
OFTEN = (
    "record", "record_many", "flush", "pack", "search", "recall", "event", "events", "text", "get", "keys", "history",
    "expand", "forget", "unforget", "pin", "unpin", "touch", "session", "episodes", "head", "at", "close", "upkeep", "work",
)  # fmt: skip


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False, environment={}) as made:
        made.record("We keep PostgreSQL", kind="decision", key="db.engine", session="s1")
        yield made


def public(kind):
    return {name for name in vars(kind) if not name.startswith("_")}


def test_what_is_called_at_each_turn_stands_on_the_plane_and_the_rest_on_its_faces():
    assert set(OFTEN) <= public(Plane)
    assert public(Plane) - set(OFTEN) == {"under", "advance"}  # with `at`, for replays
    for name in OFTEN:
        assert name not in _MOVED
    for one in FACES.values():
        assert not public(one) & public(Plane)
    assert not public(PlaneUpkeep) & public(PlaneWork)


# `projects` is an error of a plane that is no user's own, under both names.
@pytest.mark.parametrize("name", sorted(_MOVED.keys() - {"projects"}))
def test_a_name_of_before_warns_with_its_new_one_and_is_the_same(plane, name):
    face = _MOVED[name]
    assert name in public(FACES[face])
    message = f"plane.{name} is now plane.{face}.{name}"
    with pytest.warns(DeprecationWarning, match=f"^{re.escape(message)}$") as told:
        old = getattr(plane, name)
    assert len(told) == 1
    assert told[0].filename == __file__  # the caller's line, so that it can be found
    new = getattr(getattr(plane, face), name)
    assert type(old) is type(new)
    if inspect.ismethod(new):
        assert old == new


def test_a_name_of_before_does_what_the_new_one_does(plane):
    with pytest.warns(DeprecationWarning, match=r"plane\.work\.decisions"):
        found = plane.decisions()
    assert found == plane.work.decisions()
    with pytest.warns(DeprecationWarning, match=r"plane\.upkeep\.purge"):
        report = plane.purge(key="db.engine", dry_run=True)
    assert report == plane.upkeep.purge(key="db.engine", dry_run=True)


def test_the_new_names_warn_of_nothing_and_what_never_was_is_an_error(plane):
    plane.upkeep.verify()
    plane.upkeep.index()
    plane.work.sessions.list()
    plane.work.tasks.open("Mend the parser")
    with pytest.raises(AttributeError, match="'Plane' has no attribute 'prge'"):
        plane.prge  # noqa: B018
    assert not hasattr(plane, "_repr_pretty_")


def test_faces_say_of_which_plane_they_are(plane):
    assert repr(plane.upkeep) == f"<upkeep of the plane {str(plane.home)!r}>"
    assert repr(plane.work) == f"<work of the plane {str(plane.home)!r}>"
    work = plane.work
    for one, name in (
        (work.tasks, "tasks"), (work.sessions, "sessions"), (work.artifacts, "artifacts"),
        (plane.episodes, "episodes"),
    ):  # fmt: skip
        assert repr(one) == f"<{name} of the plane {str(plane.home)!r}>"


def test_an_update_takes_what_it_names_alone(plane):
    changed = plane.work.update(
        2, text="We keep PostgreSQL 17", valid_from=datetime(2030, 1, 1, tzinfo=UTC)
    )
    assert changed.event.text == "We keep PostgreSQL 17"
    with pytest.raises(memplane.InputError, match="cannot be changed"):
        plane.work.update(3, kind="fact")
