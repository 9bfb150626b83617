"""Packs of all kinds over worlds of all kinds, and what makes the story of an event true."""

import contextlib
import random
from collections import Counter

from builders_planes import rows, sentence

from memplane.errors import NotFoundError, ScopeError
from memplane.explain.why import retold
from memplane.upkeep import reports

# What no channel is told of, and what the owner is.
PRIVATE = ("sensitivity", "kind", "ns")


def busy(plane, seed: int, count: int) -> None:
    """Rows, and over them forgets, pins, expiry, repeated words, other agents' namespaces."""
    chance = random.Random(seed)
    for at, row in enumerate(rows(seed, count)):
        if chance.random() < 0.05 and row.get("kind") not in ("session", "task"):
            row["valid_until"] = chance.choice(["2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"])
        if chance.random() < 0.05 and row.get("kind") != "session":
            row["ns"] = chance.choice(["/agent/a", "/agent/b", "/spec/parser"])
        if chance.random() < 0.05 and row.get("kind") is None:
            row["text"] = "the parser must retry each timeout of the queue once more"
        plane.record(**row)
        if chance.random() < 0.03:
            keys = plane.keys()
            if keys:
                plane.forget(chance.choice(keys))
        with contextlib.suppress(NotFoundError):
            if chance.random() < 0.01:
                plane.forget(id=f"e{seed}-{chance.randint(0, at)}")
            if chance.random() < 0.02:
                plane.pin(id=f"e{seed}-{chance.randint(0, at)}")


def asked(plane, chance: random.Random) -> dict:
    """A request of any kind."""
    found = {
        "query": chance.choice(["", "parser retry timeout", sentence(chance, 6)]),
        "intent": chance.choice(["auto", "fast", "deep", "orient"]),
        "budget": chance.choice([30, 150, 400, 900, 1500, 2000, 4000, 9000]),
        "channel": chance.choice(["private", "agent", "public"]),
        "session": chance.choice([None, None, "s0", "s1", "s2"]),
    }
    if chance.random() < 0.2:
        found["expand"] = [
            chance.choice(
                [f"expand://event/{chance.randint(2, plane.head().seq)}", "session/s1?depth=3"]
            )
        ]
    if chance.random() < 0.2:
        found["as_of"] = chance.randint(1, plane.head().seq)
    if chance.random() < 0.1:
        found["sections"] = chance.sample(["retrieved_evidence", "recent_window", "rules"], 2)
    if chance.random() < 0.1:
        found["agent"] = "a"
    if chance.random() < 0.1:
        found["exclude"] = [event_at(plane, chance.randint(2, plane.head().seq)).id]
    return found


def event_at(plane, seq: int):
    """An event as the log has it, whoever may see it."""
    return plane._log.line(seq).event


def packed(plane, chance: random.Random, budgets=()):
    """A pack, and its saved report."""
    while True:
        given = asked(plane, chance)
        if budgets:
            given["budget"] = chance.choice(budgets)
        try:
            block = plane.pack(save_report=True, **given)
        except (NotFoundError, ScopeError):  # a handle of what is hidden, or not there yet
            continue
        return block, reports.read_report(block.report_path)


def untrue(plane, block, saved, event, story) -> list[str]:
    """What of a story does not hold against the block, its report and the log."""
    wrong = []
    there = [
        (at, entry.section, event.id in entry.events)
        for at, entry in enumerate(block.entries, 1)
        if event.id in entry.events or event.id in entry.parts
    ]
    told = [(place.entry, place.section, place.how == "whole") for place in story.places]
    if [(at, section) for at, section, _ in there] != [(at, section) for at, section, _ in told]:
        wrong.append(f"stands at {there}, told {told}")
    if any(whole and not (one or said.how == "named") for (_, _, whole), (_, _, one), said in zip(there, told, story.places, strict=False)):  # fmt: skip
        wrong.append(f"whole at {there}, told {told}")
    if (story.outcome == "left_out") != (not there):
        wrong.append(f"outcome {story.outcome}, stands at {there}")
    if story.outcome == "left_out" and not story.left_out:
        wrong.append("left out without a reason")
    if story.outcome == "placed" and not story.sourced.names:
        wrong.append("placed, from no source")
    for omission in block.report["omissions"]["listed"]:
        if omission["seq"] == event.seq:
            named = [(one.reason, one.section, one.short_by) for one in story.left_out]
            if (omission["reason"], omission["section"], omission["short_by"]) not in named:
                wrong.append(f"the report has {omission}, told {named}")
    upto, free = saved.report["log"]["seq"], block.report["budget"] - block.tokens
    for reason in story.left_out:
        wrong += why_wrong(plane, event, reason, upto, free, block)
    for gone in story.held.gone:
        if not took(plane, event, gone.reason, gone.seq, upto):
            wrong.append(f"{gone} did not")
    return wrong


def why_wrong(plane, event, reason, upto, free, block) -> list[str]:
    wrong = []
    if reason.reason == "budget":
        if reason.short_by < 1 or reason.of != ("block" if reason.short_by > free else "section"):
            wrong.append(f"{reason}, {free} free")
        if reason.tokens - reason.short_by > block.report["sections"][reason.section]["cap"]:
            wrong.append(f"{reason}: more room than the section may ever have")
    elif reason.short_by:
        wrong.append(f"{reason}: short of nothing")
    if reason.reason in ("superseded", "forgotten") and not took(
        plane, event, reason.reason, reason.by_seq, upto
    ):
        wrong.append(f"{reason}: by that event it was not")
    if reason.reason == "duplicate":
        other = event_at(plane, reason.by_seq)
        # A long one is compared as far as the hotset keeps it.
        one, two = (" ".join(each.text.lower().split())[:200] for each in (event, other))
        if one != two or other.seq <= event.seq:
            wrong.append(f"{reason}: says something else")
    if reason.reason == "expired" and (event.valid_until or "9") > block.report["request"]["now"]:
        wrong.append(f"{reason}: still valid")
    if reason.reason == "excluded" and event.id not in block.report["request"]["exclude"]:
        wrong.append(f"{reason}: nobody excluded it")
    if reason.reason == "as_of" and event.seq <= upto:
        wrong.append(f"{reason}: it was there")
    return wrong


def took(plane, event, reason: str, by: int, upto: int) -> bool:
    """Whether the log's event `by` took the other out of force."""
    if not event.seq < by <= upto:
        return False
    other = event_at(plane, by)
    if reason == "superseded":
        return (other.ns, other.key) == (event.ns, event.key) and not any(
            (one.ns, one.key) == (event.ns, event.key)
            and one.kind not in ("forget", "pin", "session")
            for one in (event_at(plane, seq) for seq in range(event.seq + 1, by))
        )
    named = {"id": event.id, "key": event.key, "session": event.session}
    return other.kind == "forget" and any(
        value and (other.data or {}).get(name) in (value, None) for name, value in named.items()
    )


def reasons_counted(plane, saved) -> Counter:
    """The reasons of all events of the log, as far as the report counts them."""
    found = Counter()
    with retold(plane, saved, channel="private") as pack:
        for line in plane._log.read():
            story = pack.story(line)
            found.update(reason.reason for reason in story.left_out if reason.counted)
    return found
