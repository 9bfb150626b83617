"""Texts that are alike among the evidence: only what says the same stands once, in every process."""

import pytest

import memplane
from memplane.pack import evidence

BEGINNING = " ".join(f"line {number} of the heron table" for number in range(60))


def read_twice(plane, *ends: str) -> list[str]:
    """Long results of a tool that begin alike and are of one length; ids, oldest first."""
    plane.record(kind="session", session="s", data={"status": "start"})
    ids = [
        plane.record(
            f"{BEGINNING} {end}",
            kind="tool_result",
            role="tool",
            session="old",
            data={"tool": "Read"},
        ).id
        for end in ends
    ]
    plane.record("what does the heron table say?", role="user", session="s")
    return ids


def shown(block) -> set[str]:
    found = (entry for entry in block.entries if entry.section == "retrieved_evidence")
    return {id_ for entry in found for id_ in (*entry.events, *entry.parts)}


def test_two_texts_that_differ_only_at_their_end_both_stand(plane):
    ids = read_twice(plane, "marsh", "river")
    assert set(ids) <= shown(plane.pack(session="s", budget=24_000))


def test_of_two_that_say_the_same_to_the_end_the_newer_stands(plane):
    older, newer = read_twice(plane, "marsh", "marsh")
    block = plane.pack(session="s", budget=24_000)
    assert newer in shown(block)
    assert older not in shown(block)
    assert [o.reason for o in block.omissions if o.id == older] == ["duplicate"]


def test_the_evidence_of_a_prompt_is_the_same_in_each_pack_of_one_process(plane):
    """What an earlier pack has cut and counted must not decide what is alike in the next."""
    for number in range(12):
        plane.record(
            f"{BEGINNING} {number % 3} marsh", kind="tool_result", role="tool", session="old",
            data={"tool": "Read"},
        )  # fmt: skip
    read_twice(plane, "marsh", "river", "1 marsh")
    first = plane.pack(session="s", budget=24_000).text
    assert [plane.pack(session="s", budget=24_000).text for _ in range(3)] == [first] * 3
    with memplane.open(plane.home) as other:
        other.pack("heron table", budget=2_000)
        assert other.pack(session="s", budget=24_000).text == first


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_what_a_user_pastes_again_is_shown_again_and_what_an_agent_repeats_is_not(tmp_path, role):
    pasted = "\n".join(f"    boats.append(rows[{at}])  # keeps row {at} of it" for at in range(6))
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        for day, said in enumerate(("loses its last row of", "is slow by now with"), 1):
            plane.record(
                f"The harbour import {said} boats:\n{pasted}",
                role=role,
                session="s",
                ts=f"2026-01-{day:02}T08:00:00Z",
            )
        block = plane.pack("What is wrong with the harbour import of boats?", budget=1500)
    evidence = [entry for entry in block.entries if entry.section == "retrieved_evidence"]
    assert len(evidence) == (2 if role == "user" else 1)
    duplicates = [one for one in block.omissions if one.reason == "duplicate"]
    assert len(duplicates) == 2 - len(evidence)


def test_what_says_the_same_is_compared_once_a_pack(tmp_path, monkeypatch):
    """The room that dates leave is spent behind the rest: what was a repeat is one still."""
    compared: list[int] = []
    plain = evidence._yields

    def counted(item, other):
        compared.append(item.seq)
        return plain(item, other)

    monkeypatch.setattr(evidence, "_yields", counted)
    with memplane.init(tmp_path / "plane", durability="os") as plane:
        for number in range(60):
            text = f"Quay {number % 4} of the heron harbour has {number % 4} boats in its tables"
            plane.record(text, role="assistant", session=f"s{number}")
        block = plane.pack("heron harbour boats", budget=2_000, intent="deep")
    repeats = [one for one in block.omissions if one.reason == "duplicate"]
    assert len(repeats) >= 50
    assert len(compared) == len(set(compared)) >= 50
