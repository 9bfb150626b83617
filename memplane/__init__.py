"""memplane: an event-sourced, file-based memory plane for LLM agents.

    import memplane

    with memplane.init("demo") as plane:
        plane.record("We keep PostgreSQL", kind="decision", key="db.engine")
        block = plane.pack("which database do we use?", budget=2000)
        print(block.text)

Everything that happens is an event in an append-only log; `pack` builds the agent's context from
it: within a token budget, each entry with the events it came from, and with a reason for
everything that was left out.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memplane.acms.runner import AsyncPlane as AsyncPlane, aopen as aopen
    from memplane.errors import (
        BudgetError as BudgetError,
        ChangedError as ChangedError,
        ConfigurationError as ConfigurationError,
        ConflictError as ConflictError,
        CorruptError as CorruptError,
        EpisodeNotFoundError as EpisodeNotFoundError,
        FormatError as FormatError,
        HomeError as HomeError,
        InputError as InputError,
        LockError as LockError,
        MemplaneError as MemplaneError,
        MissingExtraError as MissingExtraError,
        NotFoundError as NotFoundError,
        PlaneError as PlaneError,
        PolicyError as PolicyError,
        ProviderError as ProviderError,
        PurgedError as PurgedError,
        ScopeError as ScopeError,
        SecurityError as SecurityError,
        SessionNotFoundError as SessionNotFoundError,
        UntrustedError as UntrustedError,
        WriteError as WriteError,
    )
    from memplane.event import Event as Event, MarkerType as MarkerType
    from memplane.home import schema as schema
    from memplane.pack.block import Block as Block, Entry as Entry, Omission as Omission
    from memplane.pack.layout import (
        ParsedBlock as ParsedBlock,
        ParsedEntry as ParsedEntry,
        ParsedSection as ParsedSection,
        parse_block as parse_block,
    )
    from memplane.plane import (
        BulkReceipt as BulkReceipt,
        Plane as Plane,
        Receipt as Receipt,
        SearchHit as SearchHit,
        Spooled as Spooled,
    )
    from memplane.wiring import init as init, open_plane, restore as restore

    open = open_plane  # noqa: A001 - memplane.open

_HOMES = {
    "memplane.acms.runner": ("AsyncPlane", "aopen"),
    "memplane.errors": (
        "BudgetError",
        "ChangedError",
        "ConfigurationError",
        "ConflictError",
        "CorruptError",
        "EpisodeNotFoundError",
        "FormatError",
        "HomeError",
        "InputError",
        "LockError",
        "MemplaneError",
        "MissingExtraError",
        "NotFoundError",
        "PlaneError",
        "PolicyError",
        "ProviderError",
        "PurgedError",
        "ScopeError",
        "SecurityError",
        "SessionNotFoundError",
        "UntrustedError",
        "WriteError",
    ),
    "memplane.event": ("Event", "MarkerType"),
    "memplane.home": ("schema",),
    "memplane.pack.block": ("Block", "Entry", "Omission"),
    "memplane.pack.layout": ("ParsedBlock", "ParsedEntry", "ParsedSection", "parse_block"),
    "memplane.plane": ("BulkReceipt", "Plane", "Receipt", "SearchHit", "Spooled"),
    "memplane.wiring": ("init", "open", "restore"),
}
_NAMED = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_NAMED)  # noqa: PLE0605 - a sorted list of the table above


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import memplane` costs next to nothing."""
    module = _NAMED.get(name)
    if module is None:
        raise AttributeError(f"module 'memplane' has no attribute {name!r}")
    value = getattr(import_module(module), "open_plane" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
