"""A stand-in for the few names of LangGraph and LangChain that the adapters use.

`make test` runs the adapters over it; `make test-frameworks` runs them over the real ones.
"""

from __future__ import annotations

import pickle
import types
from typing import Any, NamedTuple

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
    monkeypatch.setattr(memplane.adapters.langgraph, "_base", lambda: made)
    kind = memplane.adapters.langgraph._made.__wrapped__()
    return kind(plane, **given)
