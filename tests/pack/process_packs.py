"""Random requests from a seed, and what a process answers to them: `python process_packs.py HOME SEED N`."""

import hashlib
import random
import sys
from collections.abc import Iterator

WORDS = (
    "database cache token parser retry timeout deploy schema ledger prompt archive queue".split()
)
TIMES = ("2026-01-05T00:00:00Z", "2026-01-05T12:00:00Z", "2026-02-01T00:00:00Z")


def requests(seed: int, count: int, head: int) -> Iterator[dict]:
    """Requests of all kinds for the worlds of `builders_planes.rows`; several share an `as_of`."""
    chance = random.Random(seed)
    ends = [chance.randint(head // 2, head) for _ in range(3)]
    for _ in range(count):
        asked = {
            "query": chance.choice(["", " ".join(chance.choices(WORDS, k=chance.randint(1, 5)))]),
            "budget": chance.choice([1, 60, 150, 700, 1000, 2500, 4000, 9000, 30_000]),
            "channel": chance.choice(["private", "agent", "public", "team"]),
            "intent": chance.choice(["auto", "auto", "fast", "deep", "orient"]),
            "session": chance.choice([None, "s0", "s1", "s2", "unknown"]),
            "now": chance.choice(TIMES),
        }
        more = {
            "task": lambda: f"t{chance.randrange(4)}",
            "agent": lambda: "planner",
            "ns": lambda: ["/global"],
            "as_of": lambda: chance.choice(ends),
            "since": lambda: TIMES[0],
            "until": lambda: TIMES[1],
            "exclude": lambda: [f"e21-{chance.randrange(300)}"],
            "held_seq": lambda: chance.randrange(500),
            "cited": lambda: True,
            "tag": lambda: [chance.choice(WORDS)],
            "without_tag": lambda: [chance.choice(WORDS)],
            "importance_min": lambda: chance.choice([1, 500, 501, 0.9]),
            "sections": lambda: chance.sample(
                ["relevant_decisions", "recent_window", "retrieved_evidence", "tool_state"], 2
            ),
            "expand": lambda: [
                chance.choice(["session/s1?depth=2", "task/t1?depth=1", "memory/global/k1"])
            ],
        }
        for name in chance.sample(sorted(more), k=chance.choice([0, 0, 1, 2])):
            asked[name] = more[name]()
        yield asked


def answers(plane, seed: int, count: int) -> Iterator[str]:
    """A digest of each block, its entries and its omissions; of a refusal its words."""
    from memplane.errors import MemplaneError

    for asked in requests(seed, count, 400):
        try:
            block = plane.pack(**asked)
        except MemplaneError as error:
            yield f"{type(error).__name__}: {error}"
            continue
        said = repr((block.text, block.entries, block.omissions))
        yield f"{hashlib.sha256(said.encode()).hexdigest()} {block.tokens}"


if __name__ == "__main__":
    import memplane

    with memplane.open(sys.argv[1]) as opened:
        found = answers(opened, int(sys.argv[2]), int(sys.argv[3]))
        sys.stdout.write("\n".join(found) + "\n")
