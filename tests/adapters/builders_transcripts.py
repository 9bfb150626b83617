"""Transcript entries in the form that Claude Code writes, and a store over a plane."""

import asyncio

from memplane.adapters.claude_sessions import PlaneSessionStore

KEY = {"project_key": "proj", "session_id": "11111111-2222-4333-8444-555555555555"}
SUB = {**KEY, "subpath": "subagents/agent-1"}
OTHER = {**KEY, "project_key": "other"}


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012x}"


def said(number, text, role="user", session=KEY["session_id"]):
    """One turn of a conversation."""
    content = text if role == "user" else [{"type": "text", "text": text}]
    return {
        "parentUuid": uuid(number - 1) if number else None,
        "isSidechain": False,
        "type": role,
        "message": {"role": role, "content": content},
        "uuid": uuid(number),
        "timestamp": f"2026-01-05T12:{number // 60 % 60:02}:{number % 60:02}.123Z",
        "sessionId": session,
        "cwd": "/srv/shop",
        "version": "2.1.0",
    }


def entry(**fields):
    """The least that an entry is."""
    return {"type": "x", **fields}


def fold(before, key, entries):
    """A fold like the SDK's: the newest title, and how many entries it saw."""
    data = dict(before["data"]) if before else {"count": 0}
    for entry in entries:
        data["count"] += 1
        data["title"] = entry.get("customTitle", data.get("title"))
    return {
        "session_id": key["session_id"],
        "mtime": before["mtime"] if before else 0,
        "data": data,
    }


class Store:
    """The store's calls, waited for: tests read as what happens one after the other."""

    def __init__(self, plane, **given):
        self.inner = PlaneSessionStore(plane, **given)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.inner.close()

    def __getattr__(self, name):
        method = getattr(self.inner, name)
        return lambda *given: asyncio.run(method(*given))
