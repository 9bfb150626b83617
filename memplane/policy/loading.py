"""The five files to the policies of a plane, by way of the parsed form where there is one."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.errors import PolicyError
from memplane.policy import budgets, channels, plane, privacy, scoring
from memplane.policy import cached as forms
from memplane.policy.formats import FILLED, FORMATS, NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memplane.policy.reading import Documents

__all__ = ["Policies", "documents", "load"]


class Policies(NamedTuple):
    """All policies of a plane; `hashes` has the SHA-256 of each file's bytes by its name.

    Where the environment overrides a file, `overridden` has the bytes that stand for it, and the
    hash is theirs.
    """

    budgets: budgets.Budgets
    privacy: privacy.Privacy
    channels: channels.Channels
    scoring: scoring.Scoring
    plane: plane.PlanePolicy
    hashes: dict[str, str]
    overridden: dict[str, bytes] = {}  # noqa: RUF012 - read only


_NO_OVERRIDES: Final[dict[str, str]] = {}


def _nothing_cached(_: str) -> bytes | None:
    return None


def _keep_nothing(_: str, __: bytes) -> None:
    return None


def load(
    files: Mapping[str, bytes | None],
    *,
    defaults: Mapping[str, bytes],
    schemas: Mapping[str, bytes],
    version: str = "",
    overrides: Mapping[str, str] = _NO_OVERRIDES,
    cached: Callable[[str], bytes | None] = _nothing_cached,
    keep: Callable[[str, bytes], None] = _keep_nothing,
) -> Policies:
    """Return the policies, or raise PolicyError with all mistakes of all files in order.

    `files` has the bytes by name; None, or no entry, means the bytes in
    `defaults`. `schemas` has the JSON Schemas by their file names
    (`budgets.schema.json`). `overrides` has the variables that stand before the
    files. `version` is memplane's own and part of the cache's key. `cached` and
    `keep` read and write the parsed form of all files by its key; one that is
    damaged is ignored. `defaults` and `schemas` are asked only for what is
    needed: a schema only where the form is not cached.
    """
    data = _bytes(files, defaults)
    # A form holds what was filled in, too.
    more = {f"default {name}": defaults[name] for name in FILLED if files.get(name) is not None}
    key = forms.key(version, data | more, overrides)
    kept = cached(key)
    form = None if kept is None else forms.unpack(key, kept)
    if form is not None:
        try:
            return _built(form, data)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            pass  # another shape under a sound checksum: the files say what is right
    found = documents(files, defaults=defaults, schemas=schemas, overrides=overrides)
    if found.problems:
        raise PolicyError(tuple(found.problems))
    form = forms.Form(found.effective, [name for name in NAMES if found.of(name)])
    keep(key, forms.pack(key, form))
    return _built(form, data)


def documents(
    files: Mapping[str, bytes | None],
    *,
    defaults: Mapping[str, bytes],
    schemas: Mapping[str, bytes],
    overrides: Mapping[str, str] = _NO_OVERRIDES,
) -> Documents:
    """Read the files, with every mistake that `load` would raise; takes no cache."""
    from memplane.policy.reading import read_documents  # noqa: PLC0415 - a warm plane reads no YAML

    return read_documents(
        _bytes(files, defaults), defaults=defaults, schemas=schemas, overrides=overrides
    )


def _bytes(files: Mapping[str, bytes | None], defaults: Mapping[str, bytes]) -> dict[str, bytes]:
    given = {name: files.get(name) for name in NAMES}
    return {name: defaults[name] if file is None else file for name, file in given.items()}


def _built(form: forms.Form, data: dict[str, bytes]) -> Policies:
    overridden = {name: forms.written(form.documents[name]) for name in form.overridden}
    records = [FORMATS[name].build(form.documents[name]) for name in NAMES]
    hashes = {name: sha256(overridden.get(name, data[name])).hexdigest() for name in NAMES}
    return Policies._make([*records, hashes, overridden])
