"""Several servers and the command line on one plane at once: whatever was acknowledged is there."""

import subprocess
import sys

import anyio
import pytest

import memplane

AT_ONCE = 8


async def stores(process, name, count, mode):
    """Store `count` facts through a server of its own, eight calls at a time."""
    from mcp import Client, types

    acknowledged = []
    async with Client(
        process("--session", name), mode=mode,
        client_info=types.Implementation(name=name, version="1"),
    ) as client:  # fmt: skip

        async def some(start):
            for number in range(start, count, AT_ONCE):
                asked = {"content": f"{name} says {number}", "type": "fact"}
                result = await client.call_tool("memory_store", asked)
                assert not result.is_error, result.content
                acknowledged.append((result.structured_content["seq"], asked["content"]))

        async with anyio.create_task_group() as tasks:
            for start in range(AT_ONCE):
                tasks.start_soon(some, start)
    return acknowledged


LOOP = """
import sys
from memplane.cli.run import run_command_line
for number in range(int(sys.argv[2])):
    run_command_line(["record", f"loop says {number}", "--kind", "fact", "--home", sys.argv[1]])
"""


def all_at_once(home, process, count):
    """Two servers and a loop of commands, each `count` facts; give back what was acknowledged."""
    acknowledged = []
    loop = subprocess.Popen(
        [sys.executable, "-c", LOOP, str(home), str(count)], stdout=subprocess.PIPE, text=True
    )

    async def main():
        async def one(name, mode):
            acknowledged.extend(await stores(process, name, count, mode))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "heron", "auto")
            tasks.start_soon(one, "crow", "legacy")

    anyio.run(main)
    out, _ = loop.communicate()
    lines = [line.split() for line in out.splitlines()]
    acknowledged += [(int(seq), f"loop says {at}") for at, (seq, _) in enumerate(lines)]
    return acknowledged


def check(home, acknowledged, count):
    with memplane.open(home) as plane:
        stored = {event.seq: event.text for event in plane.events(kind="fact")}
        assert plane.upkeep.verify(deep=True).ok
    assert len(acknowledged) == 3 * count
    assert stored == dict(acknowledged)


def test_two_servers_and_a_loop_of_commands_lose_nothing(home, process):
    check(home, all_at_once(home, process, 12), 12)


@pytest.mark.long
def test_two_servers_and_a_loop_of_commands_write_3000_events_and_lose_none(home, process):
    check(home, all_at_once(home, process, 1000), 1000)


def test_servers_see_what_each_other_stores(process):
    from mcp import Client

    async def main():
        async with Client(process()) as one, Client(process(), mode="legacy") as two:
            seen = []
            for number, (says, asks) in enumerate([(one, two), (two, one)] * 3):
                asked = {"content": f"walrus {number}", "type": "fact", "key": "walrus"}
                await says.call_tool("memory_store", asked)
                found = await asks.call_tool("memory_get", {"key": "walrus"})
                seen.append(found.structured_content["text"])
            return seen

    assert anyio.run(main) == [f"walrus {number}" for number in range(6)]


def test_of_two_servers_that_say_the_same_at_once_one_is_told_that_it_was_known(process, home):
    from mcp import Client

    async def main():
        answers = []
        async with Client(process()) as one, Client(process()) as two:

            async def say(client):
                for number in range(10):
                    asked = {"content": f"walrus {number}", "type": "fact"}
                    said = await client.call_tool("memory_store", asked)
                    answers.append((number, said.structured_content["duplicate"]))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(say, one)
                tasks.start_soon(say, two)
        return answers

    assert sorted(anyio.run(main)) == [(n, known) for n in range(10) for known in (False, True)]
    with memplane.open(home) as plane:
        assert len(list(plane.events(kind="fact"))) == 10
