"""`plane.episodes`: list, get and close, as one reader sees them; refolded where rules change."""

import pytest

import memplane
from memplane.errors import EpisodeNotFoundError, InputError, SessionNotFoundError
from memplane.policy.records import CHAT
from memplane.work.episodes import PlaneEpisodes


@pytest.fixture
def chat(tmp_path):
    with memplane.init(tmp_path / "plane", trusted=False, environment={}) as plane:
        rules(plane, "profile: chat")
        yield plane


def rules(plane, text):
    (plane.home / "policies" / "plane.yaml").write_text(f"version: 1\nepisodes: {{{text}}}\n")


def say(plane, count=1, session="s1", **fields):
    return [plane.record(f"turn {n}", role="user", session=session, **fields) for n in range(count)]


def test_turns_are_listed_by_their_episodes_oldest_first(chat):
    """A2-17: every turn belongs to exactly one episode."""
    ids = [one.id for one in say(chat, 8)]
    first, second = chat.episodes.list("s1")
    assert (first.turn_ids, second.turn_ids) == (tuple(ids[:6]), tuple(ids[6:]))
    assert (first.status, first.close_reason) == ("closed", "max_turns")
    assert (second.status, second.ended_at) == ("open", None)
    assert first.ended_at >= first.started_at
    assert first.token_count == sum(chat.event(id_).tokens for id_ in ids[:6])
    assert chat.episodes.get(first.id) == first
    assert chat.episodes.list("s1", status="open") == [second]
    assert chat.episodes.list("s1", limit=1) == [second]
    assert chat.episodes.list("nobody") == []


def test_closing_gives_the_id_of_the_episode_that_was_open(chat):
    """A2-13: close_episode(reason="manual") returns the episode's id."""
    say(chat, 2)
    (opened,) = chat.episodes.list("s1")
    assert chat.episodes.close("s1") == opened.id
    assert chat.episodes.get(opened.id).close_reason == "manual"
    with pytest.raises(EpisodeNotFoundError, match="is open"):
        chat.episodes.close("s1")
    say(chat)
    assert len(chat.episodes.list("s1")) == 2
    with pytest.raises(SessionNotFoundError):
        chat.episodes.close("nobody")


def test_what_is_asked_wrongly_is_refused(chat):
    for wrong in ({"limit": 0}, {"limit": 10_001}, {"status": "ajar"}):
        with pytest.raises(InputError):
            chat.episodes.list("s1", **wrong)
    for name in ("s1/1", "s1/x", "", "s1"):
        with pytest.raises(EpisodeNotFoundError):
            chat.episodes.get(name)
    with pytest.raises(InputError, match="reason"):
        chat.episodes.close("s1", "")


def test_a_close_is_no_line_of_a_block(chat):
    say(chat)
    before = chat.pack("turn", session="s1", now="2026-01-05T12:00:00Z").text
    chat.episodes.close("s1", "another topic")
    after = chat.pack("turn", session="s1", now="2026-01-05T12:00:00Z").text
    assert before == after


def test_a_changed_rule_divides_history_anew_as_a_fresh_plane_does(chat, tmp_path):
    """A2-23: a refold after a rule change equals a fresh plane."""
    for n in range(20):
        chat.record("thanks" if n == 9 else f"turn {n}", role="user", session="s1", id=f"t{n}")
    assert len(chat.episodes.list("s1")) == 4
    chat.upkeep.rebuild()
    rules(chat, "profile: none, max_turns: 7")
    found = chat.episodes.list("s1")
    assert [len(one.turn_ids) for one in found] == [7, 7, 6]
    with memplane.init(tmp_path / "fresh", trusted=False, environment={}) as fresh:
        rules(fresh, "profile: none, max_turns: 7")
        for event in chat.events(session="s1"):
            fresh.record(event.text, role="user", session="s1", id=event.id, ts=event.ts)
        assert [one.turn_ids for one in fresh.episodes.list("s1")] == [
            one.turn_ids for one in found
        ]
    rules(chat, "profile: chat")
    assert len(chat.episodes.list("s1")) == 4


def test_other_rules_than_the_policys_may_be_asked_for_beside_it(chat):
    say(chat, 8)
    by_two = PlaneEpisodes(chat.context, CHAT._replace(max_turns=2))
    assert len(by_two.list("s1")) == 4
    assert len(chat.episodes.list("s1")) == 2


def test_episodes_are_the_same_after_a_restart_and_from_their_checkpoint(chat):
    """A2-24: episodes survive; ids are the same for every restart."""
    say(chat, 600)
    found = chat.episodes.list("s1")
    chat.close()
    with memplane.open(chat.home, environment={}) as again:
        assert again.episodes.list("s1") == found
        say(again, 3)
        assert again.episodes.list("s1")[: len(found) - 1] == found[1:] or len(found) == 100


def test_what_a_reader_may_not_see_is_in_no_episode(chat):
    open_, hidden = say(chat)[0], say(chat, sensitivity="high")[0]
    say(chat, 2, session="s2", sensitivity="high")
    assert chat.episodes.list("s1")[0].turn_ids == (open_.id, hidden.id)
    assert chat.episodes.list("s1", channel="agent")[0].turn_ids == (open_.id,)
    assert chat.episodes.list("s2", channel="agent") == []
    with pytest.raises(EpisodeNotFoundError):
        chat.episodes.get(chat.episodes.list("s2")[0].id, channel="agent")


def test_a_forgotten_turn_is_named_in_no_episode_and_ids_stay(chat):
    ids = [one.id for one in say(chat, 8)]
    before = [one.id for one in chat.episodes.list("s1")]
    chat.forget(id=ids[0])
    found = chat.episodes.list("s1")
    assert [one.id for one in found] == before
    assert found[0].turn_ids == tuple(ids[1:6])


def test_a_purged_turn_is_gone_and_the_rest_is_divided_as_if_it_had_never_been(chat):
    ids = [one.id for one in say(chat, 8)]
    assert len(chat.episodes.list("s1")) == 2
    chat.upkeep.purge(ids[0])
    found = chat.episodes.list("s1")
    assert [one.turn_ids for one in found] == [tuple(ids[1:7]), tuple(ids[7:])]


def test_the_plane_of_a_prefix_has_the_episodes_of_then(chat):
    fifth = say(chat, 8)[4].id
    assert [len(one.turn_ids) for one in chat.at(chat.event(fifth).seq).episodes.list("s1")] == [5]


def test_the_checkpoint_is_compared_with_the_log_and_made_again(chat):
    chat.episodes.list("s1")
    say(chat, 600)
    chat.episodes.list("s1")
    assert (chat.home / "projections" / "episodes.json").exists()
    assert chat.upkeep.differing() == []
    chat.upkeep.rebuild()
    assert not (chat.home / "projections" / "episodes.json").exists()
