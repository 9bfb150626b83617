"""The parsed form of a policy file, so that a warm plane parses no YAML.

One line of canonical JSON: `{"document":{...},"sha256":"..."}`. The checksum is
over the cache's key and the document, so a damaged form, and a good one under
the key of another file, are no forms at all.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.policy.values import Json

__all__ = ["key", "pack", "unpack"]


def key(version: str, name: str, data: bytes) -> str:
    """Name the parsed form of these bytes as this version of memplane understands them."""
    return sha256(b"\0".join((version.encode(), name.encode(), data))).hexdigest()


def pack(at: str, document: Json) -> bytes:
    """Return the form to keep under the key `at`."""
    return _canonical({"document": document, "sha256": _checksum(at, document)})


def unpack(at: str, form: bytes) -> Json | None:
    """Return the document kept under `at`, None for anything that memplane did not write there."""
    try:
        kept = json.loads(form)
        document = kept["document"]
        sound = isinstance(document, dict) and kept["sha256"] == _checksum(at, document)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return document if sound else None


def _checksum(at: str, document: Json) -> str:
    return sha256(at.encode() + _canonical(document)).hexdigest()


def _canonical(value: Json) -> bytes:
    # Keys stay in the file's order: sections, channels and intents have one.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
