"""What the owner of a plane decides: YAML bytes in, typed records out.

`load_policies` reads the five files of `NAMES` and returns `Policies`, or raises `PolicyError` with
every mistake of every file. Nothing here opens a file or looks at the environment: bytes, schemas,
variables and the cache come in as arguments. A file that is missing is its default; a key that is
missing is the default of its record. yaml and jsonschema are imported only where the parsed form is
not in the cache. For people: `policy_values` says where each value comes from (file, variable or
default), and `check_files` adds the doubts that `memplane policy check` names beside the mistakes
that stop a pack. A doubt is a value that is valid but hardly intended: a view that does not exist,
a channel without a rule of its own, shares in some sections only, a default block larger than the
total, hooks that answer for an unknown channel or end before they have recorded.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import PolicyError, Problem
from memplane.lazy import NamedTuple
from memplane.policy import records
from memplane.policy.document import (
    PPM,
    Fault,
    Node,
    Path,
    against_schema,
    closest,
    found_value,
    key_text,
    meant,
    one_of,
    problems,
    read_document,
    resolved,
    scalar,
    text_items,
    without_places,
)
from memplane.policy.records import (
    ALL_AGENTS,
    Budgets,
    ChannelRule,
    Channels,
    Hooks,
    Limits,
    PlanePolicy,
    Privacy,
    Scoring,
    SectionBudget,
    channel_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from memplane.policy.document import Json


__all__ = [
    "ALL_AGENTS",
    "NAMES",
    "Budgets",
    "ChannelRule",
    "Channels",
    "Limits",
    "PlanePolicy",
    "Policies",
    "Privacy",
    "Scoring",
    "SectionBudget",
    "load_policies",
    "variables",
]


class Policies(NamedTuple):
    """All policies of a plane; `hashes` has the SHA-256 of each file's bytes by its name.

    Where the environment overrides a file, `overridden` has the bytes that stand for it, and the
    hash is theirs. `project`: the namespace of the one project that is seen beside `/global`; None
    where a plane is not parted, or all of it is asked for. `bounds`: the only namespaces that the
    caller reads and writes; empty: all that its channel and agent may reach.
    """

    budgets: Budgets
    privacy: Privacy
    channels: Channels
    scoring: Scoring
    plane: PlanePolicy
    hashes: dict[str, str]
    overridden: dict[str, bytes] = {}  # noqa: RUF012 - read only
    project: str | None = None  # of no file
    bounds: tuple[str, ...] = ()  # of no file


_NO_OVERRIDES: Final[dict[str, str]] = {}


def _nothing_cached(_: str) -> bytes | None:
    return None


def _keep_nothing(_: str, __: bytes) -> None:
    return None


def load_policies(
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
    key = cache_key(version, data | more, overrides)
    kept = cached(key)
    form = None if kept is None else form_of(key, kept)
    if form is not None:
        try:
            return _built(form, data)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            pass  # another shape under a sound checksum: the files say what is right
    found = documents(files, defaults=defaults, schemas=schemas, overrides=overrides)
    if found.problems:
        raise PolicyError(tuple(found.problems))
    form = ParsedPolicies(found.effective, [name for name in NAMES if found.of(name)])
    keep(key, packed_form(key, form))
    return _built(form, data)


def documents(
    files: Mapping[str, bytes | None],
    *,
    defaults: Mapping[str, bytes],
    schemas: Mapping[str, bytes],
    overrides: Mapping[str, str] = _NO_OVERRIDES,
) -> Documents:
    """Read the files, with every mistake that `load` would raise; takes no cache."""
    return read_documents(
        _bytes(files, defaults), defaults=defaults, schemas=schemas, overrides=overrides
    )


def _bytes(files: Mapping[str, bytes | None], defaults: Mapping[str, bytes]) -> dict[str, bytes]:
    given = {name: files.get(name) for name in NAMES}
    return {name: defaults[name] if file is None else file for name, file in given.items()}


def _built(form: ParsedPolicies, data: dict[str, bytes]) -> Policies:
    overridden = {name: written(form.documents[name]) for name in form.overridden}
    records = [FORMATS[name].build(form.documents[name]) for name in NAMES]
    hashes = {name: sha256(overridden.get(name, data[name])).hexdigest() for name in NAMES}
    return Policies._make([*records, hashes, overridden, None, ()])


# The files as documents, each checked as it stands and again with what the environment says.


class Documents(NamedTuple):
    """The files as read: `documents` without and `effective` with the overrides.

    Without mistakes, scoring.yaml is complete in `effective`. A root is None where a file is empty
    or cannot be read. `problems` are those that stop a pack, file by file, the environment's last.
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
        roots[name], found[name] = read_document(name, data[name])
    documents = {
        name: None if root is None else without_places(root) for name, root in roots.items()
    }
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
    root, _ = read_document(name, defaults[name])
    document = None if root is None else without_places(root)
    return document if isinstance(document, dict) else {}


def _faults(name: str, document: Any, schemas: Mapping[str, bytes]) -> list[Fault]:
    if document is None or document == {}:
        return []
    if not isinstance(document, dict):
        return [Fault((), f"expected a mapping of keys, found {found_value(document)}")]
    schema = schemas[name.replace(".yaml", ".schema.json")]
    found = [*against_schema(document, schema), *FORMATS[name].faults(document)]
    written = document.get("version")
    if isinstance(written, int) and written > VERSION:
        reads = f"expected {VERSION}, the version that this memplane reads"
        newer = f"{reads}, found {found_value(written)}: written for a newer memplane"
        found = [fault for fault in found if fault.path != ("version",)]
        found.append(Fault(("version",), newer))
    return found


def _in_order(found: list[Problem]) -> list[Problem]:
    """By line; what is said of the file as a whole comes last."""
    return sorted(found, key=lambda problem: (problem.line == 0, problem.line))


def _unknown_channels(documents: Mapping[str, Any]) -> list[Fault]:
    """The rules of unknown channels: the one mistake that takes two files to see."""
    others = documents["channels.yaml"]
    known = records.channel_names({} if others is None else others)
    ours = documents["privacy.yaml"]
    if known is None or not isinstance(ours, dict):
        return []
    return list(records.unknown_channels(ours, known))


# The parsed form of the five policies in one file, so that a warm plane parses no YAML.
#
# One line of JSON: `{"documents":{...},"overridden":[...],"sha256":"..."}`: the documents by their
# file names, and which of them the environment changed. The checksum is over the key and the rest,
# so a damaged form, and a good one under another key, are no forms at all.

# What JSON leaves as it is and YAML would refuse or fold.
_ESCAPED: Final = "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"


class ParsedPolicies(NamedTuple):
    """Documents without mistakes, and the names of those that the environment changed."""

    documents: dict[str, Json]
    overridden: list[str]


def cache_key(version: str, data: Mapping[str, bytes], overrides: Mapping[str, str]) -> str:
    """Name the parsed form of these bytes and variables as this version of memplane reads them."""
    parts = [version.encode()]
    parts += [part for name, given in data.items() for part in (name.encode(), given)]
    for variable, value in sorted(overrides.items()):
        # A variable may hold any bytes; Python has those that are no UTF-8 as lone surrogates.
        parts += [variable.encode(errors="surrogatepass"), value.encode(errors="surrogatepass")]
    digests = b"".join(sha256(part).digest() for part in parts)
    return sha256(digests).hexdigest()


def packed_form(at: str, form: ParsedPolicies) -> bytes:
    """Return the form to keep under the key `at`."""
    kept = form._asdict()
    return _canonical({**kept, "sha256": _checksum(at, kept)})


def form_of(at: str, data: bytes) -> ParsedPolicies | None:
    """Return the form kept under `at`, None for anything that memplane did not write there."""
    try:
        kept = json.loads(data)
        found = kept.pop("sha256")
        form = ParsedPolicies(**kept)
        sound = found == _checksum(at, kept) and isinstance(form.documents, dict)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return form if sound else None


def written(document: Json) -> bytes:
    """Return a document as canonical JSON that YAML reads as the same document."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub(_ESCAPED, lambda odd: f"\\u{ord(odd[0]):04x}", text).encode() + b"\n"


def _checksum(at: str, kept: Any) -> str:
    return sha256(at.encode() + _canonical(kept)).hexdigest()


def _canonical(value: Any) -> bytes:
    # Keys stay in the file's order: sections, channels and intents have one.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


# The five files by name: what builds the record of each, and what only its own rules see.

VERSION: Final = 1  # of the files' formats
NAMES: Final = ("budgets.yaml", "privacy.yaml", "channels.yaml", "scoring.yaml", "plane.yaml")
# What such a file leaves out is filled in from memplane's own: its record has no defaults.
FILLED: Final = ("scoring.yaml",)


class Format(NamedTuple):
    """What is particular to one file."""

    build: Callable[[Json], Any]
    faults: Callable[[Json], Iterator[Fault]]


FORMATS: Final = {
    "budgets.yaml": Format(records.build_budgets, records.budget_faults),
    "privacy.yaml": Format(records.build_privacy, records.privacy_faults),
    "channels.yaml": Format(records.build_channels, records.channel_faults),
    "scoring.yaml": Format(records.build_scoring, records.scoring_faults),
    "plane.yaml": Format(records.build_plane_policy, records.plane_faults),
}


# Values from the environment: `MEMPLANE_BUDGETS__SCALE=1.2` stands before `scale` of budgets.yaml.
#
# The name is the file, then the key and those below it, joined by two underscores; letters may be
# large or small. One value each: lists and mappings stand in files only. Nothing here reads the
# environment. A file that is overridden is, for all that follows, the canonical JSON of what it
# then says: JSON is YAML, so that these bytes load to the same policy wherever they are kept.

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
    """Return the variables of an environment that override policies, sorted by name.

    `MEMPLANE_HOME` is not one, nor is a name without two underscores behind the prefix.
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


# The policy that holds, value by value, and where each comes from.

# Needs no quotes, wherever in a line of YAML it stands.
_PLAIN: Final = r"[A-Za-z_][A-Za-z0-9_./-]*"


class PolicyValue(NamedTuple):
    """One value in force. `origin` is default, file (then with its line) or environment."""

    file: str
    key: str
    value: Any
    origin: str
    line: int | None = None
    variable: str | None = None

    @property
    def name(self) -> str:
        """The key behind the name of its policy: budgets.default_pack_tokens."""
        return f"{self.file.removesuffix('.yaml')}.{self.key}"

    @property
    def source(self) -> str:
        """What sets the value: a line of a file, a variable of the environment, or a default."""
        if self.line is not None:
            return f"policies/{self.file}:{self.line}"
        return self.origin if self.variable is None else f"environment {self.variable}"


def policy_values(
    files: Mapping[str, bytes | None],
    *,
    defaults: Mapping[str, bytes],
    schemas: Mapping[str, bytes],
    overrides: Mapping[str, str],
) -> list[PolicyValue]:
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
        for row in values_of_policy(
            name, found, written=files.get(name) is not None, defaults=defaults
        )
    ]


def values_of_policy(
    name: str, found: Documents, *, written: bool, defaults: Mapping[str, bytes]
) -> Iterator[PolicyValue]:
    """Yield the values of one policy, which must be without mistakes.

    `written` says whether there is such a file, else the defaults were read in its place.
    """
    variables = {override.path: override.variable for override in found.of(name)}
    root = found.roots[name] if written else None
    whole = filled(found.effective[name], default_document(name, defaults), WHOLE.get(name))
    for path, value in _leaves(_with_shares(name, whole), ()):
        line = None if root is None else _line(root, path)
        if path in variables:
            yield PolicyValue(name, key_text(path), value, "environment", None, variables[path])
        elif line is not None:
            yield PolicyValue(name, key_text(path), value, "file", line)
        else:
            yield PolicyValue(name, key_text(path), value, "default")


def _with_shares(name: str, document: Json) -> Json:
    if name != "budgets.yaml":
        return document
    built, rows = records.build_budgets(document), document["sections"]
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


# Named by memplane's own policies before anybody has written them.
_EXPECTED_VIEWS: Final = frozenset(chain.from_iterable(Channels().views.values()))
_BUDGETS: Final = Budgets()
_HOOKS: Final = Hooks()


class PolicyCheck(NamedTuple):
    """`mistakes` stop packing, `doubts` do not; `unwritten` are the usual views not yet there."""

    mistakes: list[Problem]
    doubts: list[Problem]
    unwritten: list[str]


def check_files(
    files: Mapping[str, bytes | None],
    *,
    defaults: Mapping[str, bytes],
    schemas: Mapping[str, bytes],
    overrides: Mapping[str, str],
    views: Collection[str],
) -> PolicyCheck:
    """Check the files, and what they name against the views that exist; looks into no cache."""
    found = documents(files, defaults=defaults, schemas=schemas, overrides=overrides)
    broken = {problem.file for problem in found.problems}
    named = {name: list(_views_named(name, found.documents[name])) for name in NAMES}
    every = {view for rows in named.values() for _, view in rows}
    faults: dict[str, list[Fault]] = {name: _missing(named[name], every, views) for name in NAMES}
    if not broken & {"channels.yaml", "privacy.yaml"}:
        faults["channels.yaml"] += _without_rule(found)
    if not broken & {"budgets.yaml", "environment"}:
        faults["budgets.yaml"] += _of_budgets(found.effective["budgets.yaml"])
    if not broken & {"channels.yaml", "plane.yaml", "environment"}:
        faults["plane.yaml"] += _of_hooks(found)
    doubts = [problem for name in NAMES for problem in _placed(name, faults[name], found)]
    unwritten = sorted((every & _EXPECTED_VIEWS) - set(views))
    return PolicyCheck(found.problems, doubts, unwritten)


def _placed(name: str, faults: list[Fault], found: Documents) -> list[Problem]:
    own = found.of(name)
    paths = {override.path for override in own}
    root = found.roots[name]
    written = [fault for fault in faults if fault.path not in paths]
    placed = [] if root is None else problems(name, root, written)
    return placed + [blame(fault, own) for fault in faults if fault.path in paths]


def _views_named(name: str, document: Any) -> Iterator[tuple[Fault, str]]:
    """The views that a file names, each with the place where it does."""
    top = document if isinstance(document, dict) else {}
    lists: list[tuple[Path, Any]] = []
    if name == "budgets.yaml":
        lists = [(("sections", section, "views"), row) for section, row in _rows(top, "sections")]
    elif name == "channels.yaml":
        rows = top.get("channels")
        listed = enumerate(rows if isinstance(rows, list) else ())
        lists = [(("channels", at, "default_load_views"), row) for at, row in listed]
    elif name == "privacy.yaml":
        rules = _rows(top.get("load"), "channel_rules")
        lists = [(("load", "channel_rules", rule, "suppress_views"), row) for rule, row in rules]
    for path, row in lists:
        views = row.get(str(path[-1])) if isinstance(row, dict) else None
        for at, view in text_items(views):
            yield Fault((*path, at), ""), view


def _rows(above: Any, key: str) -> list[tuple[str, Any]]:
    rows = above.get(key) if isinstance(above, dict) else None
    return list(rows.items()) if isinstance(rows, dict) else []


def _missing(
    named: list[tuple[Fault, str]], every: Collection[str], views: Collection[str]
) -> list[Fault]:
    """Name the views without a file; the usual ones only where a file beside them may be meant."""
    found = []
    for fault, view in named:
        if view in views:
            continue
        unnamed = views if view not in _EXPECTED_VIEWS else [v for v in views if v not in every]
        # Without what all of them share, which would make any two names look alike.
        near = closest(_stem(view), {_stem(one): one for one in unnamed})
        if near is not None or view not in _EXPECTED_VIEWS:
            hint = f"; did you mean `views/{near}.md`?" if near is not None else ""
            message = f"expected a view that exists, found {found_value(view)}: no such file{hint}"
            found.append(fault._replace(message=message))
    return found


def _stem(view: str) -> str:
    return view.removeprefix("views/").removesuffix(".md")


def _without_rule(found: Documents) -> Iterator[Fault]:
    """Name the channels that no rule stands for, where the files have rules."""
    channels = found.effective["channels.yaml"].get("channels", [])
    load = found.effective["privacy.yaml"].get("load", {})
    rules = load.get("channel_rules", Privacy().rules)
    for at, row in enumerate(channels):
        name = row["name"]
        if name not in rules:
            unused = [rule for rule in rules if rule not in {other["name"] for other in channels}]
            said = "the rule of `agent` applies" if "agent" in rules else "high and secret stay out"
            message = f"expected a rule in privacy.yaml, found none for {found_value(name)}: {said}"
            yield Fault(("channels", at, "name"), f"{message}{meant(name, unused)}")


def _of_hooks(found: Documents) -> Iterator[Fault]:
    """Name an unknown channel of the hooks, and a wait for the log longer than a hook may run."""
    hooks = found.effective["plane.yaml"].get("hooks", {})
    known = channel_names(found.effective["channels.yaml"]) or ()
    channel = hooks.get("channel", _HOOKS.channel)
    usual = Channels().views  # known whether or not the file lists them
    if channel not in (*known, *usual):
        listed = ", ".join(f"`{name}`" for name in dict.fromkeys((*known, *usual)))
        what = f"expected a channel ({listed}), found {found_value(channel)}"
        message = f"{what}: hooks record, and answer nothing{meant(channel, (*known, *usual))}"
        yield Fault(("hooks", "channel"), message)
    wait = hooks.get("wait_ms", _HOOKS.wait_ms)
    most = hooks.get("milliseconds_max", _HOOKS.milliseconds_max)
    if wait >= most:
        key = "wait_ms" if "wait_ms" in hooks else "milliseconds_max"
        what = f"expected wait_ms below milliseconds_max, found {wait} and {most}"
        yield Fault(("hooks", key), f"{what}: a hook would end while it waits and lose the event")


def _of_budgets(document: Json) -> Iterator[Fault]:
    total = document.get("acb_total_max_tokens", _BUDGETS.acb_total_max_tokens)
    room = total - document.get("reserve_tokens", _BUDGETS.reserve_tokens)
    asked = document.get("default_pack_tokens", 0)
    if asked > room:
        why = "what `reserve_tokens` leaves of `acb_total_max_tokens`"
        yield Fault(
            ("default_pack_tokens",), f"expected at most {room}, {why}, found {found_value(asked)}"
        )
    sections = document.get("sections", {})
    shares = {name: row["share"] for name, row in sections.items() if "share" in row}
    for name in sections:
        if shares and name not in shares:
            others = f"{len(shares)} of {len(sections)} sections"
            what = f"missing; expected a share in every section or in none, found one in {others}"
            yield Fault(("sections", name, "share"), f"{what}: this one follows its max_tokens")
    if len(sections) > 1 and len(shares) == len(sections) and not any(shares.values()):
        yield Fault(
            ("sections",), "expected a share above 0, found none: all sections count the same"
        )
