"""Knowledge cards: short statements in the head by importance and pin, others where they answer."""

import pytest


def shown(block, part=None, section="knowledge_cards"):
    return [
        e.text.partition(": ")[2].strip()
        for e in block.entries
        if e.section == section and part in (None, e.part)
    ]


def cards(plane, count, **fields):
    for n in range(count):
        plane.record(f"Port {n} is taken.", kind="fact", **fields)


@pytest.mark.parametrize("kind", ["preference", "rule", "insight", "fact"])
def test_a_card_is_a_preference_rule_insight_or_fact_about_the_plane_as_a_whole(plane, kind):
    plane.record("Tabs, no spaces.", kind=kind)
    plane.record("Spaces, no tabs.", kind=kind, ns="/task/t")
    assert shown(plane.pack(budget=4000), "B") == ["Tabs, no spaces."]


@pytest.mark.parametrize(
    ("text", "card"),
    [
        ("One. Two. Three.", True),
        ("One. Two. Three. Four.", False),
        ("one\ntwo\nthree", True),
        ("- one\n- two\n- three\n- four", False),
        ("Use v1.2.3 of db.py, e.g. from a mirror.org, and no other!", True),
        ("一。二。三。", True),
        ("一。二。三。四。", False),
        ("word " * 130, False),
    ],
)
def test_a_card_has_one_to_three_sentences_and_stands_whole(plane, text, card):
    plane.record(text, kind="fact")
    assert len(shown(plane.pack(budget=4000))) == card


def test_what_a_person_pins_stands_in_the_head_however_long_it_is(plane):
    plane.record("One. Two. Three. Four.", kind="rule", key="r")
    plane.pin(key="r")
    assert shown(plane.pack(budget=4000), "B") == ["One. Two. Three. Four."]


def test_the_head_has_the_pinned_then_the_most_important_cards_in_log_order(plane):
    plane.record("Pinned.", kind="fact", importance=1, key="p")
    plane.record("Great.", kind="rule", importance=900)
    cards(plane, 10)
    plane.pin(key="p")
    block = plane.pack(session="s", budget=4000)
    assert shown(plane.pack(budget=4000), "B") == [
        "Pinned.", "Great.", "Port 6 is taken.", "Port 7 is taken.", "Port 8 is taken.",
        "Port 9 is taken.",
    ]  # fmt: skip
    assert len(shown(block, "B")) == 6


def test_further_cards_stand_in_the_tail_where_they_answer_the_query(plane):
    plane.record("The harbour closes at dusk.", kind="fact")
    cards(plane, 8)
    plane.record(kind="session", session="s", data={"status": "start"})
    plane.record("when does the harbour close?", role="user", session="s")
    block = plane.pack(session="s", budget=4000)
    assert shown(block, section="retrieved_evidence") == ["The harbour closes at dusk."]
    block = plane.pack("harbour", session="s", budget=4000)
    assert shown(block, "G") == ["The harbour closes at dusk."]
    assert "## More knowledge\n" in block.text
    assert len(shown(block, "B")) == 6


def test_a_card_of_another_session_waits_in_the_tail_for_the_next_epoch(plane):
    plane.record(kind="session", session="s", data={"status": "start"})
    plane.record("hello", role="user", session="s")
    plane.record("The harbour closes at dusk.", kind="fact", session="t")
    block = plane.pack("harbour hours", session="s", budget=4000)
    assert shown(block, "B") == []
    assert shown(block, "G") == ["The harbour closes at dusk."]


def test_the_head_goes_by_importance_as_recorded_and_the_tail_by_what_is_left_of_it(plane, clock):
    budgets = plane.home / "policies" / "budgets.yaml"
    budgets.write_text(budgets.read_text().replace("cards_max: 6", "cards_max: 1"))
    plane.record("Great.", kind="insight", importance=900)
    long = " and so on, through all the ports of the northern coast, one by one, and back again"
    plane.record(f"Old{long}.", kind="insight", importance=600)
    clock.now = "2029-01-05T12:00:00.000000Z"
    plane.record(f"New{long}.", kind="insight", importance=500)
    plane.record(kind="session", session="s", data={"status": "start"})
    early, late = (
        plane.pack(session="s", budget=1000, now=when)
        for when in ("2026-01-05T12:00:00Z", "2029-01-05T12:00:00Z")
    )
    assert shown(early, "B") == shown(late, "B") == ["Great."]
    # There is room for one of them.
    assert [text[:3] for text in shown(early, "G")] == ["Old"]
    assert [text[:3] for text in shown(late, "G")] == ["New"]
    plane.touch(id=next(e.id for e in plane.events(kind="insight") if e.text.startswith("Old")))
    touched = plane.pack(session="s", budget=1000, now="2029-01-05T12:00:00Z")
    assert [text[:3] for text in shown(touched, "G")] == ["Old"]


def test_cards_obey_the_channel_and_what_is_out_of_force_is_no_card(plane):
    plane.record("Likes tea.", kind="preference")
    plane.record("Old value.", kind="fact", key="k")
    plane.record("New value.", kind="fact", key="k")
    plane.record("Gone.", kind="fact", key="g")
    plane.forget("g")
    plane.record("Over.", kind="fact", valid_until="2020-01-01T00:00:00Z")
    plane.record("Hush.", kind="fact", sensitivity="high")
    plane.record("A tool said so.", kind="fact", role="tool")
    assert shown(plane.pack(budget=4000)) == ["Likes tea.", "New value.", "Hush."]
    assert shown(plane.pack(budget=4000, channel="team")) == ["Likes tea.", "New value."]
    assert shown(plane.pack(budget=4000, channel="public")) == ["New value."]


# --- cards of the same words ---


def card_entries(block):
    return [entry for entry in block.entries if entry.section == "knowledge_cards"]


@pytest.mark.parametrize("kind", ["preference", "fact", "rule", "insight"])
@pytest.mark.parametrize("asked", [{}, {"query": "short answers"}, {"session": "s9"}])
def test_what_several_sessions_say_is_one_card_with_all_its_sources(plane, kind, asked):
    ids = [
        plane.record(f"Ana likes{blank}short answers.", kind=kind, session=f"s{at}").id
        for at, blank in enumerate((" ", " ", "  "))
    ]
    cards(plane, 5)
    block = plane.pack(budget=4000, **asked)
    (entry,) = [one for one in block.entries if "Ana likes" in one.text and one.section == "knowledge_cards"]  # fmt: skip
    assert sorted(entry.events) == sorted(ids)
    assert block.text.count("Ana likes") == 1
    # The six places of the head are six cards.
    if "query" not in asked:
        assert len([one for one in card_entries(block) if one.part == "B"]) == 6


def test_what_differs_in_a_word_a_kind_or_a_key_is_another_card(plane):
    for fields in ({"kind": "fact"}, {"kind": "rule"}, {"kind": "fact", "key": "a"}, {"kind": "fact", "key": "b"}):  # fmt: skip
        plane.record("Port 1 is taken.", session="s", **fields)
    plane.record("Port 2 is taken.", kind="fact")
    assert len(card_entries(plane.pack(budget=4000))) == 5


def test_a_source_that_may_not_be_seen_is_not_named(plane):
    seen = plane.record("Ana likes tea.", kind="fact", session="s1").id
    plane.record("Ana likes tea.", kind="fact", session="s2", sensitivity="high")
    gone = plane.record("Ana likes tea.", kind="fact", session="s3").id
    plane.forget(id=gone)
    (entry,) = card_entries(plane.pack(budget=4000, channel="public"))
    assert entry.events == (seen,)


def test_what_is_said_again_after_the_head_was_laid_is_no_second_card(plane):
    plane.work.sessions.start("s1")
    plane.record("Ana likes tea.", kind="fact")
    plane.work.sessions.checkpoint("s1")
    again = plane.record("Ana likes tea.", kind="fact", session="s2").id
    block = plane.pack("tea", session="s1", budget=4000)
    (entry,) = card_entries(block)
    assert again not in entry.events
    assert "duplicate" in {one.reason for one in block.omissions if one.id == again} or again in {
        id_ for one in block.entries for id_ in one.events
    }


# --- recurring observations ---


def test_an_observation_that_recurs_is_a_card(plane):
    ids = [plane.record("ripgrep is installed", kind="observation", session="s1").id]
    assert card_entries(plane.pack(budget=4000)) == []
    ids.append(plane.record("ripgrep is installed", kind="observation", session="s1").id)
    assert card_entries(plane.pack(budget=4000)) == [], "one session that says it twice"
    ids.append(plane.record("ripgrep is installed", kind="observation", session="s2").id)
    plane.record("fd is installed", kind="observation", session="s2")
    for asked in ({}, {"query": "is ripgrep installed?"}):
        (entry,) = card_entries(plane.pack(budget=4000, **asked))
        assert sorted(entry.events) == sorted(ids)
        assert entry.text.startswith("observation: ripgrep is installed")


def test_only_observations_that_may_be_seen_make_one_recur(plane):
    plane.record("ripgrep is installed", kind="observation", session="s1")
    plane.record("ripgrep is installed", kind="observation", session="s2", sensitivity="high")
    assert card_entries(plane.pack(budget=4000, channel="public")) == []
    assert len(card_entries(plane.pack(budget=4000))) == 1


def test_observations_drive_out_no_card(plane):
    plane.record("Tabs, no spaces.", kind="rule")
    for number in range(300):
        plane.record(f"build {number} took {number} s", kind="observation")
    for session in ("s1", "s2"):
        plane.record("ripgrep is installed", kind="observation", session=session)
    assert shown(plane.pack(budget=4000), "B") == ["Tabs, no spaces.", "ripgrep is installed"]
