"""A session of `memplane.acms`: turns go in, and what the next turn needs comes back.

Many turns that wait at once share one sync of the log, so they are durable at the price of one.

    python examples/async_session.py [FOLDER]
"""

import asyncio
import sys

from memplane.acms import ACMS, Role

LEGS = ("Athens 14:20", "Naxos 18:05", "Amorgos 21:40")


async def plan(folder: str) -> None:
    """Record a constraint and three offers, then ask for what decides between them."""
    async with ACMS("islands", folder) as session:
        await session.ingest(Role.USER, "Constraint: no ferry after 20:00, the child is small")
        await asyncio.gather(
            *(session.ingest(Role.TOOL, f"ferry to {leg}, seats left") for leg in LEGS)
        )
        await session.ingest(Role.USER, "Which ferries may we take?")
        for item in await session.recall("which ferries may we take?", token_budget=300):
            print(f"{item.role}: {item.content}")
        stats = await session.get_session_stats()
        print(f"{stats.turn_count} turns")


if __name__ == "__main__":
    asyncio.run(plan(sys.argv[1] if len(sys.argv) > 1 else "islands-plane"))
