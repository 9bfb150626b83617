"""What a report says of the pack before it: repeated, broken, paid."""

import random
from itertools import pairwise

import pytest
from builders_planes import sentence

from memplane.errors import NotFoundError
from memplane.explain.replay import first_difference, shared_by
from memplane.pack.report import CAUSES
from memplane.policy.records import CachePrices
from memplane.upkeep import reports


def talk(plane, turns: int, seed: int = 1, budget: int = 4000) -> list:
    """A session packed at each call of the model; the blocks, with saved reports."""
    chance, blocks = random.Random(seed), []
    plane.record(kind="session", session="s", data={"status": "start"})
    for number in range(turns):
        if number % 4 == 0:
            plane.record(sentence(chance), role="user", session="s")
        else:
            said = {"session": "s", "data": {"tool": "Bash"}}
            plane.record(sentence(chance), kind="tool_call", role="assistant", **said)
            plane.record(sentence(chance), kind="tool_result", role="tool", **said)
        blocks.append(plane.pack(session="s", budget=budget, save_report=True))
    return blocks


def prefixes(blocks) -> list[dict]:
    return [block.report["prefix"] for block in blocks]


@pytest.fixture(autouse=True)
def _ticking(clock, monkeypatch):
    """Reports are told apart by their time."""
    ticks = iter(range(10_000))
    monkeypatch.setattr(
        type(clock), "__call__",
        lambda _: f"2026-01-05T{12 + (n := next(ticks)) // 3600:02}:{n // 60 % 60:02}:{n % 60:02}.000000Z",
    )  # fmt: skip


def test_each_pack_is_held_against_the_one_before_it(plane):
    blocks = talk(plane, 20)
    first, *later = prefixes(blocks)
    assert first["compared_with"] is None
    for before, block, prefix in zip(blocks, blocks[1:], later, strict=False):
        assert prefix["compared_with"] == before.report_path.name.removesuffix(".report.json")
        old, new = before.text.encode(), block.text.encode()
        byte = prefix["common_bytes"]
        assert old[:byte] == new[:byte]
        assert 0 <= prefix["common_tokens"] <= block.tokens
        same = before.report["prefix"]["prompt_seq"] == prefix["prompt_seq"]
        stable = before.report["prefix"]["stable_bytes"]["call" if same else "prompt"]
        assert prefix["stable_kept"] == new.startswith(old[:stable])
        assert (prefix["break"] is None) == prefix["stable_kept"]


def test_packs_of_another_shape_are_not_compared(plane):
    plane.record("hello", role="user", session="s")
    plane.pack(session="s", budget=4000, save_report=True)
    other = plane.pack(session="s", budget=5000, save_report=True)
    assert other.report["prefix"]["compared_with"] is None
    without = plane.pack("hello", budget=4000, save_report=True)
    again = plane.pack("hello", budget=4000, save_report=True)
    assert without.report["prefix"]["compared_with"] is None
    assert again.report["prefix"]["compared_with"] is None


def edit_policy(plane):
    path = plane.home / "policies" / "budgets.yaml"
    path.write_text(path.read_text().replace("share: 0.28", "share: 0.01"))


CHANGES = {
    "policy": edit_policy,
    "view": lambda plane: (plane.home / "views" / "identity.md").write_text("Another.\n"),
    "superseded": lambda plane: plane.record("we use mysql", kind="decision", key="db"),
    "forgotten": lambda plane: plane.forget("db"),
    "epoch": lambda plane: plane.record(
        "we ship", kind="decision", session="o"
    ) and plane.record(kind="session", session="s", data={"status": "checkpoint"}),
}  # fmt: skip


@pytest.mark.parametrize("cause", CHANGES)
def test_what_broke_the_prefix_is_named(plane, cause):
    (plane.home / "views" / "identity.md").write_text("You are the build agent.\n")
    plane.record("we keep pg", kind="decision", key="db")
    blocks = talk(plane, 9)
    CHANGES[cause](plane)
    block = plane.pack(session="s", budget=4000, save_report=True)
    broken = block.report["prefix"]["break"]
    assert broken["cause"] == cause
    assert not block.text.encode().startswith(
        blocks[-1].text.encode()[: blocks[-1].report["prefix"]["stable_bytes"]["call"]]
    )
    assert first_difference(plane, block).cause == cause


def test_the_window_moving_on_is_named(plane):
    found = prefixes(talk(plane, 60, budget=1500))
    causes = {prefix["break"]["cause"] for prefix in found if prefix["break"]}
    assert causes == {"anchor"}


def test_the_first_other_line_is_shown_with_what_it_comes_from(plane):
    *_, before, block = talk(plane, 6)
    found = first_difference(plane, block)
    old, new = before.text.splitlines(), block.text.splitlines()
    assert old[: found.line - 1] == new[: found.line - 1]
    assert (old[found.line - 1], new[found.line - 1]) == (found.old, found.new)
    assert found.old != found.new
    assert found.cause == "log"
    plane.record("and now?", role="user", session="s")
    asked = plane.pack(session="s", budget=4000, save_report=True)
    assert first_difference(plane, asked).cause == "prompt"
    same = plane.pack(session="s", budget=4000, save_report=True)
    assert first_difference(plane, same).cause == "same"
    assert first_difference(plane, plane.pack(session="s", budget=900, save_report=True)) is None


def test_costs_add_up_to_the_block_and_what_is_read_was_written_before(plane):
    prices = CachePrices()
    for block in talk(plane, 24):
        for cost in block.report["prefix"]["cost"].values():
            assert cost["fresh"] + cost["written"] + cost["read"] == block.tokens
            assert cost["read"] <= block.report["prefix"]["common_tokens"]
            assert cost["price"] == (
                cost["fresh"] * 1000 + cost["written"] * prices.write + cost["read"] * prices.read
            )


def test_a_session_packed_at_each_call_reads_most_of_it_from_the_cache(plane):
    talk(plane, 60)
    (shared,) = shared_by(reports.saved(plane.home), CachePrices())
    assert shared.packs == 60
    assert len(shared.shares) == 59
    assert shared.kept + sum(shared.breaks.values()) == 59
    assert set(shared.breaks) <= set(CAUSES) - {"unexplained"}
    assert shared.costs["call"].read * 2 > shared.tokens
    assert shared.of_fresh("call") < shared.of_fresh("prompt")


def test_a_cache_that_finds_prefixes_by_itself_charges_no_writing(plane):
    talk(plane, 30)
    openai = CachePrices(write=1000, marks=0, step_tokens=128)
    (shared,) = shared_by(reports.saved(plane.home), openai)
    for cost in shared.costs.values():
        assert cost.written == 0
        assert cost.read % 128 == 0
        assert cost.read > 0


def test_marks_stand_where_the_next_pack_still_agrees(plane):
    """Each text that was marked once is the beginning of a later block up to a mark of its own."""
    blocks = talk(plane, 24)
    for before, block in pairwise(blocks):
        if not block.report["prefix"]["stable_kept"]:
            continue
        same = before.report["prefix"]["prompt_seq"] == block.report["prefix"]["prompt_seq"]
        if not same:
            continue
        written = joined(before.messages("anthropic", reuse="call"))
        read = joined(block.messages("anthropic", reuse="call"))
        assert written[-1] in read, "what the call before wrote last is read by this one"


def joined(message: dict) -> list[str]:
    """The text up to each cache mark."""
    found, text = [], ""
    for piece in message["system"]:
        text += piece["text"]
        if "cache_control" in piece:
            found.append(text)
    assert len(found) <= 4
    return found


def test_a_pack_of_the_past_is_held_against_none_and_none_against_it(plane):
    *_, last = talk(plane, 8)
    past = plane.pack(session="s", budget=4000, as_of=4, save_report=True)
    assert past.report["prefix"]["compared_with"] is None
    plane.record("and now?", role="user", session="s")
    block = plane.pack(session="s", budget=4000, save_report=True)
    before = last.report_path.name.removesuffix(".report.json")
    assert block.report["prefix"]["compared_with"] == before
    (shared,) = shared_by(reports.saved(plane.home), CachePrices())
    assert shared.packs == 9


def test_the_budget_in_force_is_the_shape_whoever_named_it(plane):
    plane.record("hello", role="user", session="s")
    plane.pack(session="s", save_report=True)
    named = plane.pack(session="s", budget=4000, save_report=True)
    assert named.report["prefix"]["compared_with"] is not None


def test_a_pack_before_that_cannot_be_made_again_is_named(plane):
    (plane.home / "views" / "identity.md").write_text("You are the build agent.\n")
    *_, before, block = talk(plane, 5)
    reports.kept_bytes_path(plane.home, before.report["views"]["views/identity.md"]).unlink()
    with pytest.raises(NotFoundError, match=r"cannot be made again: view views/identity\.md"):
        first_difference(plane, block)


def test_a_first_value_of_a_key_elsewhere_explains_no_break(plane):
    """What nobody saw before cannot have been taken out of a block."""
    *_, before = talk(plane, 5)
    plane.record("new", kind="fact", key="brand.new", ns="/spec/other")
    after = plane.pack(session="s", budget=4000, save_report=True)
    told = reports.story(plane.context, before.report, after.report)
    assert told.corrected("A") is told.corrected("B") is told.corrected("E") is None
