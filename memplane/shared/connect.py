"""From the address of an engine to a shared log, and who begins or joins one."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from memplane.errors import ConflictError, InputError, NotFoundError, SharedLogError
from memplane.lazy import late
from memplane.shared.entries import Beginning, beginning, parsed

if TYPE_CHECKING:
    from memplane.home import SharedName
    from memplane.ports import SharedLog
    from memplane.shared import nats, postgres
else:
    nats = late("memplane.shared.nats")
    postgres = late("memplane.shared.postgres")

_POSTGRES: Final = ("postgresql", "postgres")
_NATS: Final = ("nats", "tls")
_LOOKED: Final = 100  # entries, in which the beginning is found: others' rubbish may come before


def shared_log_of(shared: SharedName, environment: Mapping[str, str]) -> SharedLog:
    """The engine's log; nothing is connected yet.

    Raises SharedLogError where the environment has no address, InputError for one of no engine,
    MissingExtraError. No message repeats the address: it may hold a password.
    """
    address = environment.get(shared.address, "")
    scheme = address.partition("://")[0]
    if not address:
        raise SharedLogError(
            f"{shared.address} is not set: it holds the address of the shared log "
            f"{shared.name!r}, as postgresql://host/database or nats://host"
        )
    if scheme in _POSTGRES:
        return postgres.PostgresSharedLog(address, shared.name)
    if scheme in _NATS:
        return nats.NatsSharedLog(address, shared.name)
    raise InputError(
        f"expected an address that begins with postgresql:// or nats://, found {scheme!r:.20}",
        where=shared.address,
    )


def begin_shared_log(log: SharedLog, plane_id: str) -> None:
    """Publish the first entry; raises ConflictError where the log has one."""
    try:
        log.publish([beginning(plane_id)], expected=0)
    except ConflictError as error:
        raise ConflictError(
            "there is a shared log of that name; join it with `memplane join`", id="", seq=error.seq
        ) from None


def plane_of_log(log: SharedLog) -> str:
    """The plane that a shared log is of; NotFoundError where it has not begun."""
    for entry in log.read(0, _LOOKED):
        said = parsed(entry.payload)
        if isinstance(said, Beginning):
            return said.plane
    raise NotFoundError(
        "there is no shared log of that name; begin it with `memplane init --shared NAME`"
    )


def device_name(folder: str) -> str:
    """How a machine is called in its notes: its name, and the plane's folder by a hash."""
    host = "".join(c if c.isascii() and c.isalnum() else "-" for c in platform.node())[:40]
    return f"{host or 'machine'}-{sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:8]}"
