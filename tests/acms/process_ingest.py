"""Ingests turns for ever, each with its own number, and prints the ids that were returned."""

import asyncio
import itertools
import sys

from memplane.acms import ACMS, ACMSConfig


async def one(path, name):
    async with ACMS(name, path, config=ACMSConfig(durability="os")) as session:
        for n in itertools.count():
            id_ = await session.ingest("user", f"turn {n} of {name}")
            sys.stdout.write(f"{id_}\n")
            sys.stdout.flush()


async def main():
    await asyncio.gather(*(one(sys.argv[1], f"s{n}") for n in range(5)))


asyncio.run(main())
