"""Record what the frameworks' own stores answer to some calls, for `test_recorded_frameworks.py`.

    .frameworks/bin/python tests/adapters/record_frameworks.py

Writes recorded/NAME.jsonl: a call a line with its arguments and the answer, as JSON. The full comparison is in `test_frameworks_sessions.py`.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from builders_framework_messages import adk_event, chat_message, item, model_message

RECORDED = Path(__file__).parent / "recorded"
CALLS = 120


class Tape:
    """Calls and answers of one store."""

    def __init__(self, name: str) -> None:
        self.name, self.lines = name, list[str]()

    def add(self, call: str, given: Any, answer: Any) -> None:
        told = {"call": call, "given": given, "answer": answer}
        self.lines.append(json.dumps(told, ensure_ascii=False, sort_keys=True))

    def save(self) -> None:
        RECORDED.mkdir(exist_ok=True)
        (RECORDED / f"{self.name}.jsonl").write_text("\n".join(self.lines) + "\n")


async def openai_agents() -> None:
    from agents import SQLiteSession

    chance, tape, session = random.Random(1), Tape("openai_agents"), SQLiteSession("s")
    for step in range(CALLS):
        act = chance.choices(["add_items", "get_items", "pop_item", "clear_session"],
                             [40, 35, 20, 4])[0]  # fmt: skip
        given: list[Any] = []
        if act == "add_items":
            given = [[item(chance, step) for _ in range(chance.randrange(3))]]
        elif act == "get_items":
            given = [chance.choice([None, 0, 1, 4, -1])]
        tape.add(act, given, await getattr(session, act)(*given))
    session.close()
    tape.save()


def _session(found: Any) -> Any:
    return None if found is None else found.model_dump(
        mode="json", exclude_none=True, exclude={"last_update_time"}
    )  # fmt: skip


async def adk() -> None:
    from google.adk.sessions import InMemorySessionService
    from google.adk.sessions.base_session_service import GetSessionConfig

    chance, tape, service = random.Random(2), Tape("adk"), InMemorySessionService()
    for step in range(CALLS):
        named = {"app_name": "x", "user_id": chance.choice("uv"), "session_id": chance.choice("ab")}
        act = chance.choices(["create", "append", "get", "state", "delete"], [12, 40, 25, 8, 3])[0]
        if act == "create":
            state = {"k": step, "user:l": step, "app:m": step, "temp:t": 1}
            given = {**named, "state": state}
            try:
                tape.add(act, given, _session(await service.create_session(**given)))
            except Exception as error:  # noqa: BLE001 - its name is the answer
                tape.add(act, given, type(error).__name__)
        elif act == "append":
            session = await service.get_session(**named)
            if session is None:
                continue
            event = adk_event(chance, step)
            given = {**named, "event": event.model_dump(mode="json", exclude_none=True)}
            await service.append_event(session, event)
            tape.add(act, given, _session(session))
        elif act == "get":
            most = chance.choice([None, 0, 1, 3])
            config = None if most is None else GetSessionConfig(num_recent_events=most)
            found = _session(await service.get_session(**named, config=config))
            tape.add(act, {**named, "most": most}, found)
        elif act == "state":
            named.pop("session_id")
            tape.add(act, named, await service.get_user_state(**named))
        else:
            tape.add(act, named, await service.delete_session(**named))
    tape.save()


async def pydantic_ai() -> None:
    """The calls of the five primitives, under random calls of the store."""
    from pydantic import TypeAdapter
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationRecord, InMemoryConversationStore
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    tape, record = Tape("pydantic_ai"), TypeAdapter(ConversationRecord)

    def told(value: Any) -> Any:
        if isinstance(value, ConversationRecord):
            return record.dump_python(value, mode="json")
        if isinstance(value, list | tuple):
            return [told(one) for one in value]
        if hasattr(value, "parent_id"):
            (message,) = ModelMessagesTypeAdapter.dump_python([value.message], mode="json")
            return {"id": value.id, "parent_id": value.parent_id, "message": message}
        return value

    class Watched(InMemoryConversationStore):
        async def _watched(self, name: str, *given: Any, **named: Any) -> Any:
            arguments = [told(given), {key: told(value) for key, value in named.items()}]
            try:
                answer = await getattr(super(), name)(*given, **named)
            except Exception as error:
                tape.add(name, arguments, type(error).__name__)
                raise
            tape.add(name, arguments, told(answer))
            return answer

        async def read_record(self, *given: Any, **named: Any) -> Any:
            return await self._watched("read_record", *given, **named)

        async def read_records(self, *given: Any, **named: Any) -> Any:
            return await self._watched("read_records", *given, **named)

        async def write_record(self, *given: Any, **named: Any) -> Any:
            return await self._watched("write_record", *given, **named)

        async def delete_record(self, *given: Any, **named: Any) -> Any:
            return await self._watched("delete_record", *given, **named)

        async def read_entry(self, *given: Any, **named: Any) -> Any:
            return await self._watched("read_entry", *given, **named)

    chance, store = random.Random(3), Watched()
    for step in range(CALLS // 4):
        name = chance.choice("ab")
        act = chance.choices(["save", "stale", "fork", "delete", "list"], [30, 5, 8, 3, 4])[0]
        try:
            if act in ("save", "stale"):
                found = await store.load(name) or Conversation(conversation_id=name)
                found.messages.append(model_message(chance, step))
                if act == "stale":
                    found.revision = "another"
                await store.save(found, scope=chance.choice([None, "s"]))
            elif act == "fork":
                await store.fork(name, at=1, new_conversation_id=chance.choice("abc"))
            elif act == "delete":
                await store.delete(name)
            else:
                await store.list_conversations(scope=chance.choice([None, "s"]))
        except Exception:  # noqa: BLE001 - what the primitives answered is recorded
            continue
    tape.save()


async def llamaindex() -> None:
    from llama_index.core.llms import ChatMessage
    from llama_index.core.storage.chat_store import SimpleChatStore

    def told(value: Any) -> Any:
        if isinstance(value, ChatMessage):
            return value.model_dump(mode="json")
        return [told(one) for one in value] if isinstance(value, list) else value

    chance, tape, store = random.Random(4), Tape("llamaindex"), SimpleChatStore()
    for step in range(CALLS):
        key = chance.choice(["a", "ü/1"])
        act = chance.choices(
            ["add_message", "set_messages", "get_messages", "delete_last_message",
             "delete_message", "delete_messages", "get_keys"],
            [35, 3, 30, 10, 10, 2, 8],
        )[0]  # fmt: skip
        if act == "delete_last_message" and not store.get_messages(key):
            continue
        given: list[Any] = [key]
        if act == "add_message":
            given.append(chat_message(chance, step))
        elif act == "set_messages":
            given.append([chat_message(chance, step) for _ in range(chance.randrange(3))])
        elif act == "delete_message":
            given.append(chance.randrange(4))
        elif act == "get_keys":
            given = []
        answer = told(getattr(store, act)(*given))
        tape.add(act, told(given), sorted(answer) if act == "get_keys" else answer)
    tape.save()


async def langgraph() -> None:
    """The saver in memory; its checkpoints and configs are JSON."""
    from langgraph.checkpoint.memory import InMemorySaver

    chance, tape, saver = random.Random(5), Tape("langgraph"), InMemorySaver()
    made: list[tuple[str, str, str]] = []
    for step in range(CALLS):
        thread, ns = chance.choice("tu"), chance.choice(["", "sub:1"])
        known = [one[2] for one in made if one[:2] == (thread, ns)]
        parent = chance.choice(known) if known and chance.random() < 0.8 else None
        named = {"thread_id": thread, "checkpoint_ns": ns}
        config: Any = {"configurable": named | ({"checkpoint_id": parent} if parent else {})}
        act = chance.choices(["put", "put_writes", "get_tuple", "list", "delete_thread"],
                             [35, 20, 30, 14, 1])[0]  # fmt: skip
        given: list[Any] = [config]
        if act == "put":
            values = {name: [step, name] for name in "xyz" if chance.random() < 0.6}
            versions = dict.fromkeys(values, f"{step:08}")
            checkpoint = {"v": 1, "ts": "2026-01-05T12:00:00+00:00", "id": f"c{step:04}",
                          "channel_values": values, "channel_versions": versions,
                          "versions_seen": {}}  # fmt: skip
            given += [checkpoint, {"source": "loop", "step": step}, versions]
            made.append((thread, ns, f"c{step:04}"))
        elif act == "put_writes":
            if parent is None:
                continue
            names = ["x", "y", "__error__", "__interrupt__"]
            writes = [[chance.choice(names), step] for _ in range(chance.randrange(4))]
            given += [writes, chance.choice("kl"), chance.choice(["", "~1"])]
        elif act == "delete_thread":
            given, made = [thread], [one for one in made if one[0] != thread]
        answer: Any = getattr(saver, act)(*given)
        tape.add(act, given, list(answer) if act in ("list", "get_tuple") and answer else answer)
    tape.save()


async def langgraph_store() -> None:
    from langgraph.store.memory import InMemoryStore

    chance, tape, store = random.Random(6), Tape("langgraph_store"), InMemoryStore()
    for step in range(CALLS):
        space = chance.choice([["a"], ["a", "b"], ["ab"], ["a/b", "c"], ["ü", "%2F"]])
        key = chance.choice(["k", "k/1", "//", "x y"])
        act = chance.choices(["put", "get", "delete", "search"], [35, 30, 10, 25])[0]
        if act == "search":
            prefix = chance.choice([[], ["a"], space])
            asked = chance.choice([None, {"n": 2}, {"n": {"$gte": 2, "$ne": 4}}])
            found = store.search(tuple(prefix), filter=asked, limit=100)
            items = [[list(one.namespace), one.key, one.value] for one in found]
            tape.add(act, [prefix, asked], sorted(items, key=json.dumps))
        elif act == "put":
            value = {"n": chance.randrange(5), "said": f"heron {step}", "in": {"d": [step, None]}}
            store.put(tuple(space), key, value)
            tape.add(act, [space, key, value], None)
        elif act == "get":
            item = store.get(tuple(space), key)
            tape.add(act, [space, key], None if item is None else item.value)
        else:
            tape.add(act, [space, key], store.delete(tuple(space), key))
    tape.save()


async def langchain() -> None:
    """Bytes are told as Latin-1, messages as type and content."""
    from langchain_core.chat_history import InMemoryChatMessageHistory
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.stores import InMemoryByteStore

    chance, tape = random.Random(7), Tape("langchain")
    store, history = InMemoryByteStore(), InMemoryChatMessageHistory()
    kinds: Any = {"human": HumanMessage, "ai": AIMessage}
    for step in range(CALLS):
        act = chance.choices(["mset", "mget", "mdelete", "keys", "add", "messages", "clear"],
                             [20, 20, 6, 14, 22, 16, 2])[0]  # fmt: skip
        keys = chance.sample(["a", "a/b", "ab", "ü", "", "x" * 200], chance.randrange(4))
        given: Any = keys
        answer: Any = None
        if act == "mset":
            given = [[key, chance.randbytes(chance.randrange(9)).decode("latin-1")] for key in keys]
            store.mset([(key, value.encode("latin-1")) for key, value in given])
        elif act == "mget":
            found = store.mget(keys)
            answer = [None if one is None else one.decode("latin-1") for one in found]
        elif act == "mdelete":
            store.mdelete(keys)
        elif act == "keys":
            given = chance.choice([None, "a", "x"])
            answer = sorted(store.yield_keys(prefix=given))
        elif act == "add":
            given = [[chance.choice(["human", "ai"]), f"heron {step}"] for _ in keys]
            history.add_messages([kinds[kind](content) for kind, content in given])
        elif act == "messages":
            given, answer = None, [[one.type, one.content] for one in history.messages]
        else:
            given, answer = None, history.clear()
        tape.add(act, given, answer)
    tape.save()


if __name__ == "__main__":
    for record in (
        openai_agents, adk, pydantic_ai, llamaindex, langgraph, langgraph_store, langchain,
    ):  # fmt: skip
        asyncio.run(record())
