"""What cards and decisions cost in a block stands in their projections: a new process counts none."""

import memplane


def fill(plane):
    for number in range(60):
        plane.record(f"We keep heron {number} in its marsh", kind="decision", key=f"heron.{number}")
    for number in range(6):
        plane.record(f"Pond {number} is deep.", kind="fact", session=f"s{number}")
    plane.record("A long one. " * 200, kind="decision", key="long")


def counted(plane, monkeypatch, **asked):
    """The texts that a pack counts, and its block."""
    counter = plane.context.counter(plane.upkeep.policies)
    texts, count = [], type(counter).count
    with monkeypatch.context() as patch:
        patch.setattr(
            type(counter), "count", lambda self, text: texts.append(text) or count(self, text)
        )
        return texts, plane.pack("", **asked)


def test_the_first_pack_of_a_process_counts_no_statement(plane, clock, monkeypatch):
    fill(plane)
    before = plane.pack("", intent="orient", budget=4000)
    plane.upkeep.rebuild()
    with memplane.open(plane.home, clock=clock) as other:
        texts, block = counted(other, monkeypatch, intent="orient", budget=4000)
    assert block.text == before.text
    assert "heron 59" in block.text
    assert "Pond 5" in block.text
    assert texts
    assert [text for text in texts if text.startswith(("decision ", "fact"))] == []


def test_a_saved_ledger_gives_the_same_blocks_as_one_that_was_not(plane, clock):
    fill(plane)
    for budget in (150, 600, 2000, 8000):
        before = plane.pack("heron 7", budget=budget)
        plane.upkeep.rebuild()
        with memplane.open(plane.home, clock=clock) as other:
            after = other.pack("heron 7", budget=budget)
        assert (after.text, after.tokens) == (before.text, before.tokens)


def test_another_counter_counts_anew(plane, clock):
    fill(plane)
    plane.upkeep.rebuild()
    plane.close()
    (plane.home / "policies" / "budgets.yaml").write_text("version: 1\ncounter: len4\n")
    with memplane.open(plane.home, clock=clock) as other:
        block = other.pack("", budget=4000)
        count = other.context.counter(other.upkeep.policies).count
        assert all(entry.tokens == count(entry.text) for entry in block.entries)


def test_statements_that_not_everyone_sees_are_not_counted_either(plane, clock, monkeypatch):
    fill(plane)
    plane.record("The heron of high ones.", kind="decision", key="high", sensitivity="high")
    plane.record("An agent keeps its reeds.", kind="decision", key="own", ns="/agent/ada")
    asked = {"intent": "orient", "budget": 4000, "channel": "private", "agent": "ada"}
    before = plane.pack("", **asked)
    plane.upkeep.rebuild()
    with memplane.open(plane.home, clock=clock) as other:
        texts, block = counted(other, monkeypatch, **asked)
    assert block.text == before.text
    assert "The heron of high ones." in block.text
    assert "An agent keeps its reeds." in block.text
    assert [text for text in texts if text.startswith(("decision ", "fact"))] == []
