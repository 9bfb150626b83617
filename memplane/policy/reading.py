"""The files as documents, each checked as it stands and again with what the environment says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from memplane.errors import Problem
from memplane.policy import channels, privacy
from memplane.policy.document import Fault, Node, Path, plain, read, shown
from memplane.policy.formats import FILLED, FORMATS, NAMES, VERSION
from memplane.policy.mistakes import against_schema, problems
from memplane.policy.overrides import WHOLE, Override, applied, blame, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memplane.policy.values import Json

__all__ = ["Documents", "default_document", "filled", "read_documents"]


class Documents(NamedTuple):
    """The files as they were read: `documents` as they stand, `effective` with the overrides.

    Where nothing is wrong, scoring.yaml says all there is to say in `effective`.
    A root is None where a file is empty or cannot be read. `problems` are those that stop a pack,
    file by file, the environment's last.
    """

    roots: dict[str, Node | None]
    documents: dict[str, Any]
    effective: dict[str, Json]
    overrides: list[Override]
    problems: list[Problem]

    def of(self, name: str) -> list[Override]:
        """The overrides of one file."""
        return [override for override in self.overrides if override.file == name]


def read_documents(
    data: Mapping[str, bytes],
    *,
    defaults: Mapping[str, bytes],
    schemas: Mapping[str, bytes],
    overrides: Mapping[str, str],
) -> Documents:
    """Read every file and name every mistake in it, and in the overrides."""
    roots: dict[str, Node | None] = {}
    found: dict[str, list[Problem]] = {}
    for name in NAMES:
        roots[name], found[name] = read(name, data[name])
    documents = {name: None if root is None else plain(root) for name, root in roots.items()}
    faults = {name: _faults(name, documents[name], schemas) for name in NAMES}
    if roots["channels.yaml"] is not None or not found["channels.yaml"]:
        faults["privacy.yaml"] += _unknown_channels(documents)
    for name, root in roots.items():
        if root is not None:
            found[name] = _in_order([*found[name], *problems(name, root, faults[name])])
    effective = {name: document or {} for name, document in documents.items()}
    known, said = resolve(overrides, documents, schemas) if overrides else ([], [])
    for name in NAMES:
        own = [override for override in known if override.file == name]
        if own and isinstance(effective[name], dict):
            default = lambda name=name: default_document(name, defaults)  # noqa: E731
            effective[name] = applied(name, effective[name], own, default)
            wrong = [f for f in _faults(name, effective[name], schemas) if f not in faults[name]]
            said += [blame(fault, own) for fault in wrong]
    every = [problem for name in NAMES for problem in found[name]] + list(dict.fromkeys(said))
    for name in FILLED if not every else ():
        ours = default_document(name, defaults)
        effective[name] = filled(effective[name], ours, WHOLE.get(name))
    return Documents(roots, documents, effective, known, every)


def filled(document: Json, default: Json, whole: Path | None, path: Path = ()) -> Json:
    """Add what the document leaves out; nothing below `whole`, which is of one piece."""
    more = dict(document)
    for key, value in default.items():
        at = (*path, key)
        if key not in document:
            more[key] = value
        elif isinstance(value, dict) and at != whole:
            more[key] = filled(document[key], value, whole, at)
    return more


def default_document(name: str, defaults: Mapping[str, bytes]) -> Json:
    """Return what memplane's own file of that name says."""
    root, _ = read(name, defaults[name])
    document = None if root is None else plain(root)
    return document if isinstance(document, dict) else {}


def _faults(name: str, document: Any, schemas: Mapping[str, bytes]) -> list[Fault]:
    if document is None or document == {}:
        return []
    if not isinstance(document, dict):
        return [Fault((), f"expected a mapping of keys, found {shown(document)}")]
    schema = schemas[name.replace(".yaml", ".schema.json")]
    found = [*against_schema(document, schema), *FORMATS[name].faults(document)]
    written = document.get("version")
    if isinstance(written, int) and written > VERSION:
        reads = f"expected {VERSION}, the version that this memplane reads"
        newer = f"{reads}, found {shown(written)}: written for a newer memplane"
        found = [fault for fault in found if fault.path != ("version",)]
        found.append(Fault(("version",), newer))
    return found


def _in_order(found: list[Problem]) -> list[Problem]:
    """By line; what is said of the file as a whole comes last."""
    return sorted(found, key=lambda problem: (problem.line == 0, problem.line))


def _unknown_channels(documents: Mapping[str, Any]) -> list[Fault]:
    """The rules of unknown channels: the one mistake that takes two files to see."""
    others = documents["channels.yaml"]
    known = channels.names({} if others is None else others)
    ours = documents["privacy.yaml"]
    if known is None or not isinstance(ours, dict):
        return []
    return list(privacy.unknown_channels(ours, known))
