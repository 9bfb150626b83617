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
