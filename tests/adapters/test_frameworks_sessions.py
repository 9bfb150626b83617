"""Sessions of the OpenAI Agents SDK, ADK, Pydantic AI and LlamaIndex beside their own stores.

The documented differences are in the docstrings of the tests.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from builders_framework_messages import adk_event, chat_message, item, model_message

import memplane

pytestmark = pytest.mark.frameworks
STEPS = 2_000


class Reopened:
    """A plane that is closed and opened again now and then."""

    def __init__(self, path):
        self.path = path
        self.plane = memplane.init(path, durability="os")

    def again(self):
        self.plane.close()
        self.plane = memplane.open(self.path, durability="os")
        return self.plane


@pytest.fixture
def reopened(tmp_path):
    made = Reopened(tmp_path / "plane")
    yield made
    made.plane.close()


def test_openai_sessions_answer_as_sqlite_does(reopened):
    agents = pytest.importorskip("agents")
    from memplane.adapters.openai_agents import PlaneSession

    chance = random.Random(3)

    async def run():
        theirs = {name: agents.SQLiteSession(name) for name in "ab"}
        ours = {name: PlaneSession(reopened.plane, name) for name in "ab"}
        assert isinstance(ours["a"], agents.Session)
        for step in range(STEPS):
            name = chance.choice("ab")
            act = chance.choices(["add", "get", "pop", "clear", "reopen"], [40, 35, 20, 1, 1])[0]
            pair = theirs[name], ours[name]
            if act == "add":
                items = [item(chance, step) for _ in range(chance.randrange(4))]
                for one in pair:
                    await one.add_items(items)
            elif act == "get":
                limit = chance.choice([None, None, 0, 1, 5, -1])
                answers = [await one.get_items(limit) for one in pair]
                assert answers[0] == answers[1]
            elif act == "pop":
                answers = [await one.pop_item() for one in pair]
                assert answers[0] == answers[1]
            elif act == "clear":
                for one in pair:
                    await one.clear_session()
            else:
                plane = reopened.again()
                ours = {name: PlaneSession(plane, name) for name in "ab"}
        for one in theirs.values():
            one.close()

    asyncio.run(run())


def _told(session):
    if session is None:
        return None
    events = [one.model_dump(mode="json", exclude_none=True) for one in session.events]
    return session.app_name, session.user_id, session.id, session.state, events


class BothAdk:
    """Calls of two session services with the same arguments; their answers are equal."""

    def __init__(self, theirs, ours, chance):
        self.pair, self.chance = [theirs, ours], chance
        self.held, self.earlier = {}, []

    async def same(self, name, *given, told=_told, **named):
        answers = []
        for one in self.pair:
            try:
                answers.append(await getattr(one, name)(*given, **named))
            except Exception as error:  # noqa: BLE001 - compared below
                answers.append(error)
        if isinstance(answers[0], Exception):
            assert type(answers[0]) is type(answers[1])
            return None
        assert told(answers[0]) == told(answers[1])
        return answers

    async def create(self, step, named, id_):
        state = {"k": step, "user:l": step, "app:m": step, "temp:t": 1}
        given = {**named, "session_id": id_, "state": self.chance.choice([None, state])}
        if made := await self.same("create_session", **given):
            self.held[(*named.values(), id_)] = made

    async def append(self, step, named, id_, again=False):
        sessions = self.held.get((*named.values(), id_))
        if sessions is None:
            return
        event = adk_event(self.chance, step)
        if again and self.earlier:
            event = self.earlier[-1]
        if "temp:k" not in event.actions.state_delta:
            self.earlier.append(event.model_copy(deep=True))
        errors = []
        for one, session in zip(self.pair, sessions, strict=True):
            try:
                await one.append_event(session, event.model_copy(deep=True))
            except Exception as error:  # noqa: BLE001 - compared below
                errors.append(type(error))
        assert len(errors) in (0, 2)
        assert len({*errors}) < 2
        assert _told(sessions[0]) == _told(sessions[1])

    async def again(self, step, named, id_):
        await self.append(step, named, id_, again=True)

    async def get(self, step, named, id_):
        from google.adk.sessions.base_session_service import GetSessionConfig

        since = 1_750_000_000.0 + self.chance.randrange(step + 1)
        config = self.chance.choice([
            None,
            GetSessionConfig(num_recent_events=self.chance.randrange(4)),
            GetSessionConfig(after_timestamp=since),
        ])  # fmt: skip
        found = await self.same("get_session", **named, session_id=id_, config=config)
        if config is None and found and found[0] is not None:
            self.held[(*named.values(), id_)] = found

    async def list(self, step, named, id_):
        del step, id_
        asked = {**named, "user_id": self.chance.choice([None, named["user_id"]])}
        await self.same(
            "list_sessions",
            told=lambda one: sorted(map(_told, one.sessions), key=repr),
            **asked,
        )

    async def delete(self, step, named, id_):
        del step
        await self.same("delete_session", told=bool, **named, session_id=id_)

    async def state(self, step, named, id_):
        del step, id_
        await self.same("get_user_state", told=dict, **named)


def test_adk_sessions_answer_as_those_in_memory(reopened):
    """But for an event with temporary state that is given again: theirs is stored once more.

    The time of a session in which nothing was said yet is the clock's.
    """
    pytest.importorskip("google.adk.sessions")
    from google.adk.sessions import InMemorySessionService

    from memplane.adapters.adk import PlaneSessionService

    chance = random.Random(4)
    both = BothAdk(InMemorySessionService(), PlaneSessionService(reopened.plane), chance)
    weights = {"create": 12, "append": 40, "get": 25, "list": 8, "delete": 3, "state": 5}
    weights |= {"again": 3, "reopen": 1}

    async def run():
        for step in range(STEPS):
            named = {"app_name": chance.choice("xy"), "user_id": chance.choice("uv")}
            act = chance.choices([*weights], [*weights.values()])[0]
            if act == "reopen":
                both.pair[1] = PlaneSessionService(reopened.again())
            else:
                await getattr(both, act)(step, named, chance.choice("abc"))
        assert len(both.earlier) > STEPS // 10

    asyncio.run(run())


def test_adk_memories_answer_as_those_in_memory(reopened):
    """But for their order, and what is found by likeness: all that theirs finds is found.

    Whatever is found was added and not deleted.
    """
    pytest.importorskip("google.adk.memory")
    from google.adk.events import Event
    from google.adk.memory import InMemoryMemoryService
    from google.adk.sessions import Session
    from google.genai import types

    from memplane.adapters.adk import PlaneMemoryService

    chance = random.Random(8)
    animals = ["otter", "lynx", "stork", "newt", "viper", "crane", "moth", "pike"]

    def event(id_):
        # What an id says is always the same, as ids of events are given once.
        said = f"{animals[id_ % 8]} number{id_}"
        content = types.Content(role="user", parts=[types.Part(text=said)]) if id_ % 5 else None
        return Event(author="user", id=f"e{id_}", timestamp=1e9 + id_, content=content)

    async def run():
        theirs, ours = InMemoryMemoryService(), PlaneMemoryService(reopened.plane)
        added = {(user, id_): set() for user in "uv" for id_ in "ab"}
        for _ in range(STEPS):
            user = chance.choice("uv")
            named = {"app_name": "x", "user_id": user}
            act = chance.choices(["session", "events", "delete", "search", "reopen"],
                                 [8, 30, 8, 50, 1])[0]  # fmt: skip
            # Each session of each user has events of its own, as in ADK.
            id_ = chance.choice("ab")
            mine = range(10 + 20 * ("uv".index(user) * 2 + "ab".index(id_)), 30 + 20 * (
                "uv".index(user) * 2 + "ab".index(id_)))  # fmt: skip
            if act == "session":
                added[user, id_] |= {one for one in mine if chance.random() < 0.1}
                events = [event(one) for one in sorted(added[user, id_])]
                session = Session(id=id_, events=events, **named)
                for one in (theirs, ours):
                    await one.add_session_to_memory(session)
            elif act == "events":
                some = chance.choices(mine, k=chance.randrange(4))
                added[user, id_] |= {*some}
                events = [event(one) for one in some]
                for one in (theirs, ours):
                    await one.add_events_to_memory(**named, session_id=id_, events=events)
            elif act == "delete":
                gone = f"e{chance.choice(mine)}"
                for one in (theirs, ours):
                    await one.delete_memory(**named, memory_id=gone)
            elif act == "search":
                query = f"number{chance.choice(mine)}"
                found = [await asked.search_memory(**named, query=query)
                         for asked in (theirs, ours)]  # fmt: skip
                first, second = ([hit.model_dump() for hit in one.memories] for one in found)
                assert first == second[: len(first)]
                for hit in second:
                    word = hit["content"]["parts"][0]["text"].split()[1]
                    there = await theirs.search_memory(**named, query=word)
                    assert hit in [one.model_dump() for one in there.memories]
            elif act == "reopen":
                ours = PlaneMemoryService(reopened.again())

    asyncio.run(run())


def test_pydantic_conversations_answer_as_those_in_memory(reopened):
    """But for ids and revisions, which are chance's."""
    pytest.importorskip("pydantic_ai.conversation_store")
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationConflict, InMemoryConversationStore
    from pydantic_ai.exceptions import UserError

    from memplane.adapters.pydantic_ai import PlaneConversationStore

    chance = random.Random(6)

    async def both(stores, call):
        answers = []
        for at, one in enumerate(stores):
            try:
                answers.append(await call(one, at))
            except (ConversationConflict, UserError) as error:
                answers.append(type(error).__name__)
        return answers

    async def run():
        stores = [InMemoryConversationStore(), PlaneConversationStore(reopened.plane)]
        for step in range(STEPS):
            name, scope = chance.choice("abcd"), chance.choice([None, None, "s", "t"])
            act = chance.choices(
                ["save", "stale", "load", "branch", "fork", "list", "delete", "reopen"],
                [30, 5, 25, 8, 8, 8, 4, 1],
            )[0]
            more = [model_message(chance, step) for _ in range(chance.randrange(3))]
            keep = chance.random() < 0.8
            where, to = chance.randrange(6), chance.choice("abcd")
            limit = chance.choice([None, None, 0, 1, 3])

            async def save(store, _, name=name, scope=scope, more=more, keep=keep, where=where):
                found = await store.load(name, scope=scope)
                given = found or Conversation(conversation_id=name)
                if not keep:  # rewritten: what was said before is cut
                    given = Conversation(messages=given.messages[:where], conversation_id=name,
                                         revision=given.revision)  # fmt: skip
                given.messages.extend(more)
                stored = await store.save(given, scope=scope)
                return [one.message for one in stored]

            async def stale(store, _, name=name, more=more):
                one, other = await store.load(name), await store.load(name)
                if one is None:
                    return
                one.messages.extend(more)
                await store.save(one)
                await store.save(other)

            async def load(store, _, name=name, scope=scope, limit=limit):
                found = await store.load(name, scope=scope, limit=limit)
                return None if found is None else (found.messages, found.usage)

            async def branch(store, _, name=name, where=where, keep=keep):
                found = await store.load(name)
                revision = found.revision if found and keep else None
                return (await store.branch(name, at=where, expected_revision=revision)).messages

            async def fork(store, _, name=name, where=where, to=to):
                return (await store.fork(name, at=where, new_conversation_id=to)).messages

            async def listing(store, _, scope=scope):
                found = await store.list_conversations(scope=scope)
                return [(one.conversation_id, one.scope, one.forked_from, len(one.branches))
                        for one in found]  # fmt: skip

            async def delete(store, _, name=name, scope=scope):
                return await store.delete(name, scope=scope)

            calls = {"save": save, "stale": stale, "load": load, "branch": branch, "fork": fork,
                     "list": listing, "delete": delete}  # fmt: skip
            if act == "reopen":
                stores[1] = PlaneConversationStore(reopened.again())
                continue
            answers = await both(stores, calls[act])
            assert answers[0] == answers[1], act

    asyncio.run(run())


def test_llamaindex_chat_stores_answer_as_the_simple_one(reopened):
    """But for the order of keys, and the last message of a key without any: theirs raises."""
    pytest.importorskip("llama_index.core.storage.chat_store")
    from llama_index.core.storage.chat_store import SimpleChatStore

    from memplane.adapters.llamaindex import PlaneChatStore

    chance = random.Random(9)
    theirs, ours = SimpleChatStore(), PlaneChatStore(reopened.plane)
    for step in range(STEPS):
        key = chance.choice(["a", "b/1", "ü x"])
        act = chance.choices(
            ["add", "set", "get", "pop", "at", "delete", "keys", "reopen"],
            [35, 3, 30, 10, 10, 2, 8, 1],
        )[0]
        pair = theirs, ours
        if act == "add":
            message = chat_message(chance, step)
            for one in pair:
                one.add_message(key, message)
        elif act == "set":
            messages = [chat_message(chance, step) for _ in range(chance.randrange(4))]
            for one in pair:
                one.set_messages(key, list(messages))
        elif act == "get":
            answers = [one.get_messages(key) for one in pair]
            assert answers[0] == answers[1]
        elif act == "pop":
            found = None
            with suppress(IndexError):
                found = theirs.delete_last_message(key)
            assert found == ours.delete_last_message(key)
        elif act == "at":
            place = chance.randrange(6)
            assert theirs.delete_message(key, place) == ours.delete_message(key, place)
        elif act == "delete":
            assert theirs.delete_messages(key) == ours.delete_messages(key)
        elif act == "keys":
            assert sorted(theirs.get_keys()) == sorted(ours.get_keys())
        else:
            ours = PlaneChatStore(reopened.again())
