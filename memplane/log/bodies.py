"""Texts that are not in a line: files named by their SHA-256, durable before their line is.

They hold the whole text of an event whose line would be too long (`data.body`), and the blocks that
were moved out of a text (`data.recalled`).
"""

# Paths are strings here: pathlib costs more than the append it would serve.
# ruff: noqa: PTH110, PTH118, PTH120
from __future__ import annotations

import os
from codecs import getincrementaldecoder
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from memplane import nofollow
from memplane.errors import NotFoundError, StrangeFileError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memplane.event import Draft, Event
    from memplane.log.disk import Disk


def body_path(home: str, digest: str) -> str:
    """Where the body with this SHA-256 lies."""
    return os.path.join(home, "bodies", "sha256", digest[:2], digest[2:])


def body_hash(event: Event) -> str | None:
    """The SHA-256 of the event's body, if its text did not fit the line."""
    body = event.data.get("body")
    return _hash_in(body)


def recalled_hashes(event: Event) -> list[str]:
    """The SHA-256 of each block that was moved out of the event's text, in order."""
    named = event.data.get("recalled")
    if not isinstance(named, list):
        return []
    return [digest for one in named if (digest := _hash_in(one)) is not None]


def bodies_of(draft: Draft) -> Iterator[bytes]:
    """What must be durable in bodies/ before the draft's line is written."""
    if draft.body is not None:
        yield draft.body
    yield from draft.recalled


def _hash_in(named: object) -> str | None:
    digest = named.get("sha256") if isinstance(named, dict) else None
    # The name comes from a file; it must not lead anywhere else.
    if isinstance(digest, str) and len(digest) == 64 and set(digest) <= set("0123456789abcdef"):
        return digest
    return None


def store_body(home: str, body: bytes, disk: Disk) -> str:
    """Make the body durable; storing it again does nothing."""
    digest = sha256(body).hexdigest()
    path = body_path(home, digest)
    folder = os.path.dirname(path)
    nofollow.make_folder(folder, home)
    if not _intact(home, digest):
        disk.publish(path, body, home)
    # Even where everything was there: whoever made it may not have come to its own sync yet.
    for _ in ("ab", "sha256", "bodies", "home"):
        disk.sync_directory(folder, home)
        folder = os.path.dirname(folder)
    return digest


def store_bodies(home: str, drafts: Iterable[Draft], disk: Disk) -> None:
    """Make the bodies of these drafts durable, or raise WriteError."""
    for draft in drafts:
        for body in bodies_of(draft):
            try:
                store_body(home, body, disk)
            except OSError as error:
                raise WriteError(
                    f"{home}/bodies: {error.strerror}; nothing was recorded"
                ) from error


def keep_bodies(home: str, drafts: Iterable[Draft], disk: Disk) -> None:
    """Store again what a purge has removed since. Under the log's lock, which a purge holds too."""
    for draft in drafts:
        for body in bodies_of(draft):
            digest = sha256(body).hexdigest()
            if not os.path.exists(body_path(home, digest)):
                store_bodies(home, [draft], disk)


def load_body(home: str, event: Event, digest: str) -> bytes:
    """The body's bytes; raises NotFoundError where the file is missing or not what was stored."""
    return b"".join(_stored(home, event, digest))


def body_text(home: str, event: Event, digest: str) -> str:
    """The body as text, decoded piece by piece; raises as `load_body` does."""
    decode = getincrementaldecoder("utf-8")().decode
    pieces = [decode(piece) for piece in _stored(home, event, digest)]
    return "".join([*pieces, decode(b"", final=True)])


def _stored(home: str, event: Event, digest: str) -> Iterator[bytes]:
    """The body in pieces; what they come to is checked behind the last one."""
    holds = "the whole text" if digest == body_hash(event) else "what was moved out of the text"
    path = body_path(home, digest)
    hashed = sha256()
    try:
        with nofollow.open_regular(path, home=home) as file:
            while piece := file.read(_PIECE):
                hashed.update(piece)
                yield piece
    except FileNotFoundError:
        raise NotFoundError(
            f"{path}: missing; it holds {holds} of event {event.seq}; restore it from a copy"
        ) from None
    except StrangeFileError as error:
        raise NotFoundError(
            f"{path}: {error.strerror}; it holds the whole text of event {event.seq}"
        ) from None
    if hashed.hexdigest() != digest:
        raise NotFoundError(
            f"{path}: damaged; it holds {holds} of event {event.seq}; restore it from a copy"
        )


_PIECE: Final = 1 << 20  # bytes


def _intact(home: str, digest: str) -> bool:
    try:
        hashed = sha256()
        with nofollow.open_regular(body_path(home, digest), home=home) as file:
            while piece := file.read(_PIECE):
                hashed.update(piece)
        return hashed.hexdigest() == digest
    except FileNotFoundError:
        return False
