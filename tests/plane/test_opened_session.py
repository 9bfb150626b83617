"""`with plane.session(...)`: it starts, it ends, also where its block fails; the typed front door."""

import pytest

import memplane
from memplane.errors import HomeError, InputError


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False, environment={}) as made:
        yield made


def test_a_session_starts_with_its_block_and_ends_behind_it(plane):
    """T-44: `with memory.session():`, with a goal."""
    with plane.session("s1", agent="ann", goal="mend the parser") as session:
        for n in range(3):
            session.record(f"Comma {n} is lost", role="user")
        session.record("I see", role="assistant")
        assert "Comma" in session.pack("commas", budget=400).text
        assert session.recall("commas").items
    assert session.ended.summary is not None
    told = plane.work.sessions.get("s1")
    assert (told.status, told.reason, told.agent) == ("ended", "explicit", "ann")
    started = next(plane.events(kind="session", session="s1"))
    assert started.data["goal"] == "mend the parser"
    assert [event.actor for event in plane.events(kind="message")][-1] == "ann"


def test_a_block_that_fails_ends_its_session_without_a_summary_and_its_error_is_seen(plane):
    """T-44: exception-safe."""
    session = plane.session()

    def work():
        with session:
            for n in range(4):
                session.record(f"Comma {n} is lost", role="user")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    told = plane.work.sessions.get(session.id)
    assert (told.status, told.reason, told.summary) == ("ended", "error", None)


def test_a_session_without_a_name_has_one_once_it_has_started(plane):
    session = plane.session()
    with pytest.raises(HomeError):
        _ = session.id
    with session:
        assert len(session.id) == 26


def test_a_session_ends_for_known_reasons_only(plane):
    plane.work.sessions.start("s1")
    with pytest.raises(InputError, match="reason"):
        plane.work.sessions.end("s1", reason="because")


def test_a_block_prints_its_text_and_says_what_is_left(plane):
    plane.record("We keep PostgreSQL", kind="decision", key="db.engine")
    block = plane.pack("which database?", budget=600)
    assert str(block) == block.text == block._repr_markdown_()
    assert block.budget_remaining == 600 - block.tokens
    assert repr(block).startswith(f"<Block of {block.tokens} tokens, ")
    assert "PostgreSQL" not in repr(block)


def test_a_plane_says_where_it_is_and_how_far_it_goes(plane):
    seq = plane.record("hello").seq
    assert repr(plane) == f"<Plane {str(plane.home)!r} up to seq {seq}>"
    assert repr(plane.at(1)).endswith("up to seq 1, read only>")
    plane.close()
    assert repr(plane).endswith("closed>")
