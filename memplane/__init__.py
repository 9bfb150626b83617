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
    from memplane.acms.plane import AsyncPlane as AsyncPlane
    from memplane.acms.plane import aopen as aopen
    from memplane.errors import (
        BudgetError as BudgetError,
    )
    from memplane.errors import (
        ChangedError as ChangedError,
    )
    from memplane.errors import (
        ConfigurationError as ConfigurationError,
    )
    from memplane.errors import (
        ConflictError as ConflictError,
    )
    from memplane.errors import (
        CorruptError as CorruptError,
    )
    from memplane.errors import (
        EpisodeNotFoundError as EpisodeNotFoundError,
    )
    from memplane.errors import (
        FormatError as FormatError,
    )
    from memplane.errors import (
        HomeError as HomeError,
    )
    from memplane.errors import (
        InputError as InputError,
    )
    from memplane.errors import (
        LockError as LockError,
    )
    from memplane.errors import (
        MemplaneError as MemplaneError,
    )
    from memplane.errors import (
        MissingExtraError as MissingExtraError,
    )
    from memplane.errors import (
        NotFoundError as NotFoundError,
    )
    from memplane.errors import (
        PlaneError as PlaneError,
    )
    from memplane.errors import (
        PolicyError as PolicyError,
    )
    from memplane.errors import (
        ProviderError as ProviderError,
    )
    from memplane.errors import (
        PurgedError as PurgedError,
    )
    from memplane.errors import (
        ScopeError as ScopeError,
    )
    from memplane.errors import (
        SecurityError as SecurityError,
    )
    from memplane.errors import (
        SessionNotFoundError as SessionNotFoundError,
    )
    from memplane.errors import (
        UntrustedError as UntrustedError,
    )
    from memplane.errors import (
        WriteError as WriteError,
    )
    from memplane.event import Event as Event
    from memplane.event import MarkerType as MarkerType
    from memplane.home import schema as schema
    from memplane.pack.block import Block as Block
    from memplane.pack.block import Entry as Entry
    from memplane.pack.block import Omission as Omission
    from memplane.pack.render import ParsedBlock as ParsedBlock
    from memplane.pack.render import ParsedEntry as ParsedEntry
    from memplane.pack.render import ParsedSection as ParsedSection
    from memplane.pack.render import parse_block as parse_block
    from memplane.plane import (
        BulkReceipt as BulkReceipt,
    )
    from memplane.plane import (
        Plane as Plane,
    )
    from memplane.plane import (
        Receipt as Receipt,
    )
    from memplane.plane import (
        SearchHit as SearchHit,
    )
    from memplane.plane import (
        Spooled as Spooled,
    )
    from memplane.wiring import init as init
    from memplane.wiring import open_plane
    from memplane.wiring import restore as restore

    open = open_plane  # noqa: A001 - memplane.open

_HOMES = {
    "memplane.acms.plane": ("AsyncPlane", "aopen"),
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
    "memplane.pack.render": ("ParsedBlock", "ParsedEntry", "ParsedSection", "parse_block"),
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
