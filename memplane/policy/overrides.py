"""Values from the environment: `MEMPLANE_BUDGETS__SCALE=1.2` stands before `scale` of budgets.yaml.

The name is the file, then the key and those below it, joined by two underscores; letters may be
large or small. One value each: lists and mappings stand in files only. Nothing here reads the
environment. A file that is overridden is, for all that follows, the canonical JSON of what it then
says: JSON is YAML, so that these bytes load to the same policy wherever they are kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import Problem
from memplane.policy.document import Path, key_text, scalar
from memplane.policy.mistakes import closest, one_of, resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from memplane.policy.document import Fault
    from memplane.policy.values import Json

__all__ = ["WHOLE", "Override", "applied", "blame", "resolve", "variables"]

_PREFIX: Final = "MEMPLANE_"
_BETWEEN: Final = "__"
# A mapping that is taken whole from the file or whole from the defaults, never from both.
WHOLE: Final[dict[str, Path]] = {
    "budgets.yaml": ("sections",),
    "privacy.yaml": ("load", "channel_rules"),
    "scoring.yaml": ("intents",),
}


class Override(NamedTuple):
    """One variable: whose key it stands before, and the value."""

    variable: str
    file: str
    path: Path
    value: object


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that are meant to override, in order of their names.

    `MEMPLANE_HOME`, and any other name without two underscores behind the prefix, is none.
    """
    return {
        name: environment[name]
        for name in sorted(environment)
        if name.startswith(_PREFIX) and _BETWEEN in name[len(_PREFIX) :]
    }


def resolve(
    given: Mapping[str, str], documents: Mapping[str, Any], schemas: Mapping[str, bytes]
) -> tuple[list[Override], list[Problem]]:
    """Find the key of each variable, or name what is wrong with it."""
    found: dict[tuple[str, Path], Override] = {}
    problems: list[Problem] = []
    files = {name.removesuffix(".yaml"): name for name in documents}
    for variable, value in sorted(given.items()):
        stem, *keys = variable[len(_PREFIX) :].split(_BETWEEN)
        file = files.get(stem.lower())
        if file is None:
            near = closest(stem.lower(), files)
            hint = f"did you mean `{_named([near, *keys])}`?" if near else f"expected {_one(files)}"
            problems.append(Problem("environment", 0, variable, f"unknown; {hint}"))
            continue
        schema = json.loads(schemas[file.replace(".yaml", ".schema.json")])
        try:
            override = _found(variable, value, file, keys, schema, documents[file])
        except _RefusedError as refused:
            problems.append(Problem("environment", 0, variable, str(refused)))
            continue
        first = found.setdefault((file, override.path), override)
        if first is not override:
            message = f"given twice; `{first.variable}` has it already"
            problems.append(Problem("environment", 0, variable, message))
    return list(found.values()), problems


class _RefusedError(Exception):
    """The variable names no single value."""


def _found(
    variable: str, text: str, file: str, keys: list[str], schema: Any, document: Any
) -> Override:
    at, definitions = schema, schema.get("$defs", {})
    for depth, written_key in enumerate(keys):
        if at.get("type") != "object":
            above = key_text(tuple(key.lower() for key in keys[:depth]))
            raise _RefusedError(f"expected one value, found a key below `{above}`, {at['title']}")
        key = written_key.lower()
        own = at.get("additionalProperties")
        held = document if isinstance(own, dict) and isinstance(document, dict) else {}
        known = [*at.get("properties", {}), *(name for name in held if isinstance(name, str))]
        if key not in known:
            near = closest(key, known)
            stem = file.removesuffix(".yaml")
            whole = _named([stem, *keys[:depth], near or "", *keys[depth + 1 :]])
            hint = (
                f"did you mean `{whole}`?" if near else f"expected {one_of(dict.fromkeys(known))}"
            )
            raise _RefusedError(f"`{key}` unknown; {hint}" if depth else f"unknown; {hint}")
        at = resolved(
            at["properties"][key] if key in at.get("properties", {}) else own, definitions
        )
        document = document.get(key) if isinstance(document, dict) else None
    if at.get("type") in ("object", "array"):
        raise _RefusedError(f"expected one value, found {at['title']}; write that into {file}")
    value = text if at.get("type") == "string" else scalar(text)
    return Override(variable, file, tuple(key.lower() for key in keys), value)


def _named(words: Iterable[str]) -> str:
    return _PREFIX + _BETWEEN.join(word.upper() for word in words)


def _one(stems: Iterable[str]) -> str:
    return one_of(f"{_PREFIX}{stem.upper()}{_BETWEEN}<KEY>" for stem in stems)


def applied(
    file: str, document: Json, overrides: Iterable[Override], default: Callable[[], Json]
) -> Json:
    """Return a copy of the document that says what the overrides say.

    `default` gives the document of memplane's own file: where an override reaches into a mapping
    that is taken whole and that the file leaves out, the others of it are still the default's.
    """
    from copy import deepcopy  # noqa: PLC0415 - few environments override anything

    made: Json = deepcopy(document) or {"version": 1}
    for override in overrides:
        at: Any = made
        for depth, step in enumerate(override.path[:-1], start=1):
            if step not in at:
                whole = override.path[:depth] == WHOLE.get(file)
                at[step] = deepcopy(default()[str(step)]) if whole else {}
            at = at[step]
            if not isinstance(at, dict):
                break  # a mistake of the file, which is named as such
        else:
            at[override.path[-1]] = override.value
    return made


def blame(fault: Fault, overrides: list[Override]) -> Problem:
    """Say which variable is at fault for what is wrong only with the overrides in place."""

    def shared(override: Override) -> int:
        same = 0
        while fault.path[: same + 1] == override.path[: same + 1] and same < len(fault.path):
            same += 1
        return same

    nearest = max(overrides, key=shared)  # the first of several
    message = fault.message
    if nearest.path != fault.path:
        message = f"{key_text(fault.path)}: {message}"
    return Problem("environment", 0, nearest.variable, message)
