"""The five files together: cache, reading, checking, and every mistake at once."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import PolicyError, Problem
from memplane.policy import budgets, channels, plane, privacy, scoring
from memplane.policy import cached as forms
from memplane.policy.document import Node, plain, read, shown
from memplane.policy.mistakes import against_schema, problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from memplane.policy.document import Fault
    from memplane.policy.values import Json

__all__ = ["NAMES", "VERSION", "Policies", "load"]

VERSION: Final = 1  # of the files' formats
NAMES: Final = ("budgets.yaml", "privacy.yaml", "channels.yaml", "scoring.yaml", "plane.yaml")


class Policies(NamedTuple):
    """All policies of a plane; `hashes` has the SHA-256 of each file's bytes by its name."""

    budgets: budgets.Budgets
    privacy: privacy.Privacy
    channels: channels.Channels
    scoring: scoring.Scoring
    plane: plane.PlanePolicy
    hashes: dict[str, str]


class _Format(NamedTuple):
    """What is particular to one file."""

    build: Callable[[Json], Any]
    faults: Callable[[Json], Iterator[Fault]]


_FORMATS: Final = {
    "budgets.yaml": _Format(budgets.build, budgets.faults),
    "privacy.yaml": _Format(privacy.build, privacy.faults),
    "channels.yaml": _Format(channels.build, channels.faults),
    "scoring.yaml": _Format(scoring.build, scoring.faults),
    "plane.yaml": _Format(plane.build, plane.faults),
}


class _Loaded(NamedTuple):
    """One file on its way: `record` is None where there are problems."""

    document: Any
    record: Any
    problems: list[Problem]


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
    cached: Callable[[str], bytes | None] = _nothing_cached,
    keep: Callable[[str, bytes], None] = _keep_nothing,
) -> Policies:
    """Return the policies, or raise PolicyError with all mistakes of all files in order.

    `files` has the bytes by name; None, or no entry, means the bytes in
    `defaults`. `schemas` has the JSON Schemas by their file names
    (`budgets.schema.json`). `version` is memplane's own and part of the cache's
    keys. `cached` and `keep` read and write parsed forms by key; a form that is
    damaged is ignored. `defaults` and `schemas` are asked only for what is
    needed: a schema only where a form is not cached.
    """
    given = {name: files.get(name) for name in NAMES}
    data = {name: defaults[name] if file is None else file for name, file in given.items()}
    loaded = {
        name: _from_cache(name, data[name], version, cached)
        or _from_yaml(name, data[name], version, schemas, keep)
        for name in NAMES
    }
    _check_channels(loaded, data["privacy.yaml"])
    found = [problem for name in NAMES for problem in loaded[name].problems]
    if found:
        raise PolicyError(tuple(found))
    hashes = {name: sha256(data[name]).hexdigest() for name in NAMES}
    return Policies._make([*(loaded[name].record for name in NAMES), hashes])


def _from_cache(
    name: str, data: bytes, version: str, cached: Callable[[str], bytes | None]
) -> _Loaded | None:
    key = forms.key(version, name, data)
    form = cached(key)
    document = None if form is None else forms.unpack(key, form)
    if document is None:
        return None
    try:
        return _Loaded(document, _FORMATS[name].build(document), [])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _from_yaml(
    name: str,
    data: bytes,
    version: str,
    schemas: Mapping[str, bytes],
    keep: Callable[[str, bytes], None],
) -> _Loaded:
    root, found = read(name, data)
    if root is None:
        # An empty file says nothing, so every default applies; an unreadable one has its problem.
        return _Loaded(None, None, found) if found else _Loaded({}, _FORMATS[name].build({}), [])
    document = plain(root)
    checked = _in_order([*found, *_mistakes(name, document, root, schemas)])
    if checked:
        return _Loaded(document, None, checked)
    document = document or {}
    key = forms.key(version, name, data)
    keep(key, forms.pack(key, document))
    return _Loaded(document, _FORMATS[name].build(document), [])


def _mistakes(name: str, document: Any, root: Node, schemas: Mapping[str, bytes]) -> list[Problem]:
    if document is None or document == {}:
        return []
    if not isinstance(document, dict):
        what = f"expected a mapping of keys, found {shown(document)}"
        return [Problem(name, root.at[0], "", what)]
    written = document.get("version")
    if isinstance(written, int) and written > VERSION:
        # Another format: what else would be said about it could only mislead.
        reads = f"expected {VERSION}, the version that this memplane reads"
        line = root.place(("version",))[0]
        newer = f"{reads}, found {shown(written)}: written for a newer memplane"
        return [Problem(name, line, "version", newer)]
    schema = schemas[name.replace(".yaml", ".schema.json")]
    faults = [*against_schema(document, schema), *_FORMATS[name].faults(document)]
    return problems(name, root, faults)


def _in_order(found: list[Problem]) -> list[Problem]:
    """By line; what is said of the file as a whole comes last."""
    return sorted(found, key=lambda problem: (problem.line == 0, problem.line))


def _check_channels(loaded: dict[str, _Loaded], data: bytes) -> None:
    """Add the rules of unknown channels: the one mistake that takes two files to see."""
    known = channels.names(loaded["channels.yaml"].document)
    ours = loaded["privacy.yaml"]
    if known is None or not isinstance(ours.document, dict):
        return
    faults = list(privacy.unknown_channels(ours.document, known))
    root = read("privacy.yaml", data)[0] if faults else None
    if root is not None:
        both = [*ours.problems, *problems("privacy.yaml", root, faults)]
        loaded["privacy.yaml"] = ours._replace(record=None, problems=_in_order(both))
