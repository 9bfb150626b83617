"""memplane under memtru (PyPI, MIT), a suite of what memories promise: isolation, deletion, updates.

How its terms are met: a tenant is a plane, a user an agent with a namespace of its own, a session
a task. A write that is held in flight waits in the spool while another process holds the log's
lock. What needs an agent, or a memory that derives facts from chats by itself, is left out there.
"""

import fcntl
import itertools
from contextlib import suppress

import pytest
from memtru.adapters.base import MemoryAdapter
from memtru.adapters.lifecycle import HookReceipt, MemoryLifecycleHooks, PendingWrite
from memtru.core.config import Config
from memtru.core.engine import Engine
from memtru.core.models import Capability, MemoryRecord, Status
from memtru.scenarios import ALL_SCENARIOS

import memplane
from memplane.errors import MemplaneError

STORAGE = [
    "MT-ISO-001", "MT-TEN-002", "MT-DEL-003", "MT-STALE-004", "MT-SES-005", "MT-INT-006",
    "MT-AF-001",
]  # fmt: skip


class Planes(MemoryAdapter, MemoryLifecycleHooks):
    """A plane for each tenant, below one folder."""

    name = "memplane"

    def __init__(self, folder):
        self.folder = folder
        self.planes = {}
        self.numbers = itertools.count(1)
        self.held = {}  # by context: the lock of another writer, and what waits behind it

    def capabilities(self):
        return frozenset(
            Capability(name)
            for name in (
                "MEMORY_WRITE", "MEMORY_SEARCH", "MEMORY_READ_BY_ID", "MEMORY_UPDATE",
                "MEMORY_DELETE", "USER_ISOLATION", "TENANT_ISOLATION", "SESSION_ISOLATION",
                "METADATA_FILTERING", "LIFECYCLE_PENDING_WRITES", "LIFECYCLE_CONSOLIDATE",
                "LIFECYCLE_RESTART", "LIFECYCLE_SURFACES", "LIFECYCLE_NEW_SESSION",
            )
        )  # fmt: skip

    def plane(self, ctx):
        if ctx.tenant_id not in self.planes:
            home = self.folder / f"{ctx.namespace}-{ctx.tenant_id}"
            make = memplane.open if home.exists() else memplane.init
            self.planes[ctx.tenant_id] = make(home, durability="os")
        return self.planes[ctx.tenant_id]

    @staticmethod
    def rooms(ctx):
        """Where a user's own memories lie, and those of the session."""
        own = f"/agent/{ctx.user_id}"
        return [own] if ctx.session_id is None else [own, f"/task/{ctx.user_id}-{ctx.session_id}"]

    def asking(self, ctx):
        task = None if ctx.session_id is None else f"{ctx.user_id}-{ctx.session_id}"
        return {"agent": ctx.user_id, "task": task, "ns": self.rooms(ctx)}

    def record(self, event, ctx):
        return MemoryRecord(
            event.key, event.text, dict(event.data.get("metadata", {})),
            tenant_id=ctx.tenant_id, user_id=ctx.user_id,
            session_id=ctx.session_id if event.ns.startswith("/task/") else None, active=True,
        )  # fmt: skip

    def found(self, ctx, memory_id):
        for ns in self.rooms(ctx):
            event = self.plane(ctx).get(memory_id, ns, agent=ctx.user_id)
            if event is not None:
                return event
        return None

    def row(self, ctx, content, metadata, memory_id, ns):
        return {
            "text": content, "kind": "fact", "key": memory_id, "ns": ns, "session": ctx.session_id,
            "data": {"metadata": dict(metadata or {})},
        }  # fmt: skip

    def add(self, ctx, content, *, metadata=None, scope="user"):
        memory_id = f"memory.{next(self.numbers)}"
        ns = self.rooms(ctx)[-1 if scope == "session" else 0]
        done = self.plane(ctx).record(**self.row(ctx, content, metadata, memory_id, ns))
        return self.record(done.event, ctx)

    def search(self, ctx, query, *, limit=10):
        plane = self.plane(ctx)
        hits = plane.search(query, limit, kind="fact", **self.asking(ctx))
        return [self.record(hit.event, ctx) for hit in hits]

    def get(self, ctx, memory_id):
        event = self.found(ctx, memory_id)
        return None if event is None else self.record(event, ctx)

    def update(self, ctx, memory_id, content, *, metadata=None):
        before = self.found(ctx, memory_id)
        metadata = before.data["metadata"] if metadata is None else metadata
        done = self.plane(ctx).record(**self.row(ctx, content, metadata, memory_id, before.ns))
        return self.record(done.event, ctx)

    def delete(self, ctx, memory_id):
        for ns in self.rooms(ctx):
            with suppress(memplane.NotFoundError):
                self.plane(ctx).forget(memory_id, ns=ns)
                return
        raise MemplaneError(f"{memory_id}: not there")

    def begin_pending_write(self, ctx, content, *, target_id=None, metadata=None):
        plane = self.plane(ctx)
        event = self.found(ctx, target_id)
        with (plane.home / "log" / ".lock").open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            spooled = plane.work.spool(**self.row(ctx, content, metadata, target_id, event.ns))
        assert spooled.durability == "spool", "it was to wait"
        self.held.setdefault(ctx.tenant_id, []).append(spooled.id)
        return PendingWrite(spooled.id, target_id)

    def release_pending_writes(self, ctx):
        plane = self.plane(ctx)
        plane.flush()
        handled = tuple(self.held.pop(ctx.tenant_id, ()))
        landed = all(plane.event(id_) is not None for id_ in handled)
        return HookReceipt(
            landed and not plane.upkeep.waiting, "the spool was taken in", handled=handled
        )

    def start_session(self, ctx):
        done = self.plane(ctx).work.sessions.start(ctx.session_id or "another", agent=ctx.user_id)
        return HookReceipt(done is not None, "a session was started")

    def consolidate(self, ctx):
        self.plane(ctx).upkeep.rebuild()
        return HookReceipt(True, "projections and index were folded again")

    def restart(self):
        for plane in self.planes.values():
            plane.close()
        self.planes.clear()
        return HookReceipt(True, "every plane was closed and is opened again")

    def retrieval_surfaces(self):
        return ("pack", "keys", "expand")

    def inspect_surface(self, ctx, surface, query):
        plane, found = self.plane(ctx), []
        if surface == "pack":
            block = plane.pack(query, budget=2000, **self.asking(ctx))
            found = [plane.event(id_) for entry in block.entries for id_ in entry.events]
        for ns in self.rooms(ctx):
            keys = plane.keys(ns=ns, agent=ctx.user_id) if surface == "keys" else []
            found += [plane.get(row.key, ns, agent=ctx.user_id) for row in keys]
        return [self.record(event, ctx) for event in found if event is not None and event.key]

    def teardown(self, namespace):
        assert all(namespace in f"{plane.home}" for plane in self.planes.values())
        self.restart()


@pytest.mark.parametrize("id_", STORAGE)
def test_what_memtru_asks_of_a_memory_holds(tmp_path, id_):
    config = Config.model_validate({
        "version": 1, "project": {"name": "memplane"},
        "adapter": {"type": "custom", "entrypoint": "tests:Planes"},
        "execution": {"max_concurrency": 1, "retries": 0, "timeout_seconds": 120},
        "privacy": {"include_raw_content": True},
    })  # fmt: skip
    chosen = [one for one in ALL_SCENARIOS if one.spec.id == id_]
    report = Engine(config, Planes(tmp_path)).run(chosen)
    (result,) = report.results
    assert result.status is Status.PASS, result.model_dump_json(indent=1)


def test_no_scenario_of_memtru_is_forgotten():
    left_out = {"MT-POISON-007", "MT-AF-002"}  # need an agent; a memory that extracts from chats
    assert {one.spec.id for one in ALL_SCENARIOS} == {*STORAGE, *left_out}
