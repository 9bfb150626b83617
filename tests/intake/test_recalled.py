"""A block that an agent quotes back is not recorded as something new."""

import memplane
from memplane.intake.recalled import without_blocks


def test_a_quoted_block_is_taken_out_and_named_by_its_checksum(tmp_path):
    with memplane.init(tmp_path / "p", durability="os") as plane:
        plane.record("we keep herons", kind="decision", key="birds")
        block = plane.pack("herons", budget=2000).text
        receipt = plane.record(f"You told me:\n{block}And so I did.", role="assistant")
        event = plane.event(receipt.id)
        assert event.text == "You told me:\nAnd so I did."
        assert event.data["recalled"] == [block.rstrip().rpartition(" ")[2]]


def test_a_block_that_was_changed_stays_as_it_is():
    text = "memplane:begin\n## Rules\nbe kind\nmemplane:end 0123456789abcdef\n"
    assert without_blocks(text) == (text, [])
    assert without_blocks("no mark") == ("no mark", [])


def test_many_marks_are_looked_at_in_bounded_time():
    text = "memplane:begin\n" * 100_000
    assert without_blocks(text) == (text, [])
