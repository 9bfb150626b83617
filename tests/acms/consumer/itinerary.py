"""A travel agent's memory on memplane.acms: what a project that installs memplane writes."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from memplane.acms import (
    ACMS,
    ACMSConfig,
    ACMSError,
    ContextItem,
    EpisodeBoundaryConfig,
    MarkerType,
    Role,
    SessionNotFoundError,
)


@dataclass(frozen=True)
class Prompt:
    """What goes to the model: memory first, then the question."""

    memory: list[ContextItem]
    question: str

    def render(self) -> str:
        lines = [f"[{item.source}] {item.role}: {item.content}" for item in self.memory]
        return "\n".join([*lines, f"user: {self.question}"])


class WordCounter:
    """The counter of this project's model."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


async def reopen(folder: str, config: ACMSConfig) -> ACMS:
    try:
        return await ACMS.resume("athens", folder, None, token_counter=WordCounter(), config=config)
    except SessionNotFoundError:
        return ACMS("athens", folder, None, token_counter=WordCounter(), config=config)


async def main(folder: str) -> None:
    config = ACMSConfig(boundaries=EpisodeBoundaryConfig(max_turns=4), durability="os")
    async with await reopen(folder, config) as session:
        await session.ingest(Role.USER, "Budget: 900 euros for the three of us", actor_id="ana")
        await session.ingest(Role.ASSISTANT, "Decision: we take the night ferry")
        await session.ingest(
            Role.TOOL, "ferry 22:30, 3 x 61 euros", markers=[], metadata={"tool": "timetable"}
        )
        await session.ingest(
            Role.USER, "The hotel must have a lift", markers=[MarkerType.CONSTRAINT]
        )
        question = "which ferry do we take, and what may the hotel cost?"
        memory = await session.recall(question, token_budget=120, min_relevance=0.0)
        sys.stdout.write(f"{Prompt(memory, question).render()}\n")
        closed = await session.close_episode("planned")
        stats = await session.get_session_stats()
        turns, episodes = stats.turn_count, stats.episode_count
        sys.stdout.write(f"{closed.startswith('athens/')} {turns} turns, {episodes} episodes\n")


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except ACMSError as error:
        sys.exit(str(error))
