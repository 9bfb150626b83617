"""A stand-in for the few names of LangGraph and LangChain that the adapters use.

`make test` runs the adapters over it; `make test-frameworks` runs them over the real ones.
"""

from __future__ import annotations

import pickle
import types
from typing import Any, NamedTuple

import memplane.adapters.langchain
import memplane.adapters.langgraph


class Serde:
    def dumps_typed(self, value):
        return ("pickle", pickle.dumps(value))

    def loads_typed(self, typed):
        return pickle.loads(typed[1])


class Saver:
    def __init__(self, *, serde=None):
        self.serde = serde or Serde()


class CheckpointTuple(NamedTuple):
    config: Any
    checkpoint: Any
    metadata: Any
    parent_config: Any = None
    pending_writes: Any = None


def checkpoint_module():
    made = types.ModuleType("langgraph.checkpoint.base")
    made.BaseCheckpointSaver = Saver
    made.CheckpointTuple = CheckpointTuple
    made.get_checkpoint_metadata = lambda _, metadata: dict(metadata)
    return made


def stand_in_saver(monkeypatch, plane, **given):
    """A PlaneSaver over the stand-in."""
    made = checkpoint_module()
    monkeypatch.setattr(memplane.adapters.langgraph, "_langgraph", lambda _: made)
    return type("PlaneSaver", (memplane.adapters.langgraph._Saver, Saver), {})(plane, **given)


class Message:
    """A message of the stand-in: a type, a content, and a name."""

    def __init__(self, type_, content, name=None):
        self.type, self.content, self.name = type_, content, name

    @property
    def text(self):
        return str(self.content)

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


class Document:
    def __init__(self, **fields):
        vars(self).update(fields)


def _to_dict(message):
    return {"type": message.type, "data": {"content": message.content, "name": message.name}}


def _from_dicts(dicts):
    return [Message(one["type"], one["data"]["content"], one["data"]["name"]) for one in dicts]


def stand_in_langchain(monkeypatch):
    """The adapters of LangChain over the stand-in."""
    core = types.SimpleNamespace(
        message_to_dict=_to_dict, messages_from_dict=_from_dicts, Document=Document
    )
    adapter = memplane.adapters.langchain
    monkeypatch.setattr(adapter, "_core", lambda _: core)
    retriever = type("PlaneRetriever", (adapter._Retriever, types.SimpleNamespace), {"asked": {}})
    return types.SimpleNamespace(
        PlaneByteStore=adapter._ByteStore,
        PlaneChatHistory=adapter._ChatHistory,
        PlaneRetriever=retriever,
    )
