"""Requests of the golden corpus: a list for each plane, drawn from a seed and from what is in it."""

import random
from typing import Any

from planes import AGENTS, NOW

PACKS = {"large": 90, "world": 110, "shared": 100, "small": 60, "sample": 80}
PACKS_ELSE = 50
SEARCHES = 20
BUDGETS = (100, 150, 240, 400, 700, 999, 1000, 1500, 2000, 3000, 4000, 8000, 20_000, 65_000)
INTENTS = ("auto", "fast", "deep", "orient")
CHANNELS = ("private", "private", "agent", "agent", "public", "team")
SECTIONS = (
    "relevant_decisions", "recent_window", "retrieved_evidence", "tool_state", "knowledge_cards",
)  # fmt: skip
PROMPTS = (
    "", "continue", "what did we decide?", "why did the test fail?", "what are we working on?",
    "remind me of the rules", "which files did we change yesterday?", "what is left to do?",
)  # fmt: skip

# Broad ones, and one about a beginning: where an assistant answers they prefer the user's turns.
BROAD = ("give me an overview of what we worked on, in order", "what did I want of it at first?")


def facts(plane) -> dict[str, list]:
    """What requests are drawn from, in the order of the log."""
    events = list(plane.events())
    said = [one for one in events if one.text and one.sensitivity != "secret"]
    return {
        "texts": [one.text for one in said],
        "sessions": list(dict.fromkeys(one.session for one in events if one.session)),
        "tasks": list(dict.fromkeys(one.task for one in events if one.task)),
        "keys": list(dict.fromkeys((one.ns, one.key) for one in events if one.key)),
        "tags": list(dict.fromkeys(tag for one in events for tag in one.tags)),
        "ids": [one.id for one in said],
        "seqs": [one.seq for one in events],
    }


def query(chance: random.Random, known: dict[str, list]) -> str:
    if chance.random() < 0.25:
        return chance.choice(PROMPTS)
    words = chance.choice(known["texts"])[:2000].split()[:60] or ["nothing"]
    at = chance.randrange(len(words))
    return " ".join(words[at : at + chance.randint(1, 9)])


def handle(chance: random.Random, known: dict[str, list]) -> str:
    ns, key = chance.choice(known["keys"]) if known["keys"] else ("/global", "none")
    return chance.choice([
        f"event/{chance.choice(known['seqs'])}",
        f"session/{chance.choice(known['sessions'] or ['none'])}?depth={chance.randrange(4)}",
        f"task/{chance.choice(known['tasks'] or ['none'])}?depth={chance.randrange(4)}",
        f"memory{ns}/{key}?depth={chance.randrange(2)}",
        "views/identity.md",
    ])  # fmt: skip


def scope(chance: random.Random, known: dict[str, list]) -> dict[str, Any]:
    """One or two of the arguments that packs and searches share."""
    more = {
        "task": lambda: chance.choice(known["tasks"] or ["none"]),
        "agent": lambda: chance.choice(AGENTS),
        "ns": lambda: chance.choice([["/global"], "/agent/*", ["/agent/planner"]]),
        "as_of": lambda: chance.choice(known["seqs"]),
        "since": lambda: "2026-01-05T00:00:00Z",
        "until": lambda: "2026-01-05T11:00:00Z",
        "tag": lambda: [chance.choice(known["tags"] or ["none"])],
        "without_tag": lambda: [chance.choice(known["tags"] or ["none"])],
        "importance_min": lambda: chance.choice([1, 500, 501, 0.9]),
    }
    names = chance.sample(sorted(more), k=chance.choice([0, 0, 0, 1, 1, 2]))
    return {name: more[name]() for name in names}


def packs(name: str, known: dict[str, list]) -> list[dict[str, Any]]:
    chance = random.Random(f"packs {name}")
    made = []
    for n in range(PACKS.get(name, PACKS_ELSE)):
        asked = {
            "query": query(chance, known), "budget": BUDGETS[n % len(BUDGETS)],
            "intent": INTENTS[n // 3 % len(INTENTS)], "channel": CHANNELS[n // 2 % len(CHANNELS)],
            "session": chance.choice([None, *known["sessions"][-4:], "unheard of"]), "now": NOW,
        } | scope(chance, known)  # fmt: skip
        more = {
            "exclude": lambda: chance.sample(known["ids"], k=2),
            "held_seq": lambda: chance.choice(known["seqs"]),
            "cited": lambda: True,
            "sections": lambda: chance.sample(SECTIONS, 2),
            "expand": lambda: [handle(chance, known) for _ in range(chance.randint(1, 2))],
            "index_seq": lambda: chance.choice(known["seqs"]),
        }
        for one in chance.sample(sorted(more), k=chance.choice([0, 0, 1, 1, 2])):
            asked[one] = more[one]()
        made.append(asked)
    made += [
        {"query": query, "budget": budget, "intent": "deep", "now": NOW}
        for query in BROAD
        for budget in (500, 2000)
    ]
    return made


def searches(name: str, known: dict[str, list]) -> list[dict[str, Any]]:
    chance = random.Random(f"searches {name}")
    return [
        {"query": query(chance, known), "k": chance.choice([1, 5, 10, 40]), "now": NOW,
         "channel": CHANNELS[n % len(CHANNELS)], "similar": n % 7 == 6} | scope(chance, known)
        for n in range(SEARCHES)
    ]  # fmt: skip


def calls(name: str, known: dict[str, list]) -> list[tuple[str, str, dict[str, Any]]]:
    """Calls of other readers: a method's name, its first argument and the others."""
    chance = random.Random(f"calls {name}")
    made = [("expand", handle(chance, known), {"budget": chance.choice([60, 400, 2000]), "now": NOW,
             "channel": CHANNELS[n % len(CHANNELS)]}) for n in range(16)]  # fmt: skip
    for ns, key in chance.sample(known["keys"], k=min(6, len(known["keys"]))):
        made += [("get", key, {"ns": ns}), ("history", key, {"ns": ns})]
    made += [("keys", "", {"channel": channel}) for channel in ("private", "public")]
    made += [("decisions", "", {"channel": channel}) for channel in ("private", "public")]
    made += [("files", "", {}), ("tasks.list", "", {}), ("sessions.list", "", {})]
    made += [("tasks.get", task, {}) for task in known["tasks"][:3]]
    made += [("sessions.get", session, {}) for session in known["sessions"][-3:]]
    return made
