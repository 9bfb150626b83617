"""The policy that holds, value by value, and where each comes from."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import PolicyError
from memplane.policy import budgets
from memplane.policy.document import Node, Path, key_text, scalar
from memplane.policy.formats import NAMES
from memplane.policy.loading import documents
from memplane.policy.overrides import WHOLE
from memplane.policy.reading import default_document, filled
from memplane.policy.values import PPM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memplane.policy.reading import Documents
    from memplane.policy.values import Json

__all__ = ["Row", "as_yaml", "rows", "rows_of"]

# Needs no quotes, wherever in a line of YAML it stands.
_PLAIN: Final = r"[A-Za-z_][A-Za-z0-9_./-]*"


class Row(NamedTuple):
    """One value in force. `origin` is default, file (then with its line) or environment."""

    file: str
    key: str
    value: Any
    origin: str
    line: int | None = None
    variable: str | None = None

    def __str__(self) -> str:
        source = self.origin
        if self.line is not None:
            source = f"policies/{self.file}:{self.line}"
        elif self.variable is not None:
            source = f"environment {self.variable}"
        return f"{self.file.removesuffix('.yaml')}.{self.key}: {as_yaml(self.value)}    # {source}"


def rows(
    files: Mapping[str, bytes | None],
    *,
    defaults: Mapping[str, bytes],
    schemas: Mapping[str, bytes],
    overrides: Mapping[str, str],
) -> list[Row]:
    """Return every value of every policy, file by file; raises PolicyError where one has mistakes.

    A list of plain values is one value. What a file leaves out is the default; a section without
    a share has the one that its max_tokens give it, and none has one where the file names none.
    """
    found = documents(files, defaults=defaults, schemas=schemas, overrides=overrides)
    if found.problems:
        raise PolicyError(tuple(found.problems))
    return [
        row
        for name in NAMES
        for row in rows_of(name, found, written=files.get(name) is not None, defaults=defaults)
    ]


def rows_of(
    name: str, found: Documents, *, written: bool, defaults: Mapping[str, bytes]
) -> Iterator[Row]:
    """Yield the values of one policy, which must be without mistakes.

    `written` says whether there is such a file, else the defaults were read in its place.
    """
    variables = {override.path: override.variable for override in found.of(name)}
    root = found.roots[name] if written else None
    whole = filled(found.effective[name], default_document(name, defaults), WHOLE.get(name))
    for path, value in _leaves(_with_shares(name, whole), ()):
        line = None if root is None else _line(root, path)
        if path in variables:
            yield Row(name, key_text(path), value, "environment", None, variables[path])
        elif line is not None:
            yield Row(name, key_text(path), value, "file", line)
        else:
            yield Row(name, key_text(path), value, "default")


def _with_shares(name: str, document: Json) -> Json:
    if name != "budgets.yaml":
        return document
    built, rows = budgets.build(document), document["sections"]
    sections = {}
    for section in built.sections:
        row = rows.get(section.name)
        if row is None:
            row = {"max_tokens": section.max_tokens, "priority": section.priority}
        if "share" not in row and not built.by_priority:
            row = {**row, "share": section.weight / PPM}
        sections[section.name] = row
    return {**document, "sections": sections}


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for at, inner in enumerate(value):
            yield from _leaves(inner, (*path, at))
    else:
        yield path, value


def _line(root: Node, path: Path) -> int | None:
    """The line of a value that the file holds itself."""
    node = root
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[str(step)]
        elif isinstance(node.value, list) and isinstance(step, int):
            node = node.value[step]
        else:
            return None
    return root.place(path)[0]


def as_yaml(value: Any) -> str:
    """A value as it could stand in a line of a policy."""
    if isinstance(value, list):
        return f"[{', '.join(as_yaml(item) for item in value)}]"
    if isinstance(value, dict) and value:
        return f"{{{', '.join(f'{key}: {as_yaml(item)}' for key, item in value.items())}}}"
    if isinstance(value, str) and re.fullmatch(_PLAIN, value) and isinstance(scalar(value), str):
        return value
    return json.dumps(value, ensure_ascii=False)
