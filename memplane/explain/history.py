"""What changed in the policies and views between two versions, in words.

Key by key, with what holds: where a file leaves a key out, memplane's default stands for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from memplane.explain.versions import Commit, Repository, Version
from memplane.home import Assets
from memplane.intake.redact import masked
from memplane.policy import NAMES
from memplane.policy.document import plain
from memplane.policy.effective import Row, as_yaml, rows_of
from memplane.policy.loading import documents
from memplane.policy.reading import Documents

__all__ = ["Change", "changes", "history"]

_SCHEMAS: Final = tuple(name.replace(".yaml", ".schema.json") for name in NAMES)
_NAMED_MAX: Final = 8  # keys named in one sentence
_VALUE_MAX: Final = 300  # characters
_LONG: Final = 80  # of longer values only what differs is shown,
_AROUND: Final = 20  # and so much around it
_NAME_OF_ITEM: Final = re.compile(r"^(channels\[)(\d+)(\])")
_STEP: Final = re.compile(r"[.\[]")

Value = tuple[Any, str]  # and where it comes from: file or default


class Change(NamedTuple):
    """One thing that is otherwise.

    `what`: changed, added, removed (a key, with its value; a file, without a key), written or
    unwritten (a key whose value stayed), order, layout, broken, lines (of a view).
    """

    file: str
    key: str
    what: str
    before: Any
    after: Any
    words: str

    def __str__(self) -> str:
        return f"{self.file}: {self.words}"


class _File(NamedTuple):
    """One policy at one version: its values, or its mistakes."""

    values: dict[str, Value]
    document: Any  # as it was written
    mistakes: tuple[str, ...]


def history(repository: Repository, limit: int) -> Iterator[tuple[Commit, list[Change] | None]]:
    """Yield the newest commits that touched policies or views, with what they changed.

    None where that cannot be known: the first commit of a shallow clone.
    """
    kept: dict[str, Version] = {}

    def at(hash_: str) -> Version:
        if hash_ not in kept:
            kept[hash_] = repository.at(hash_)
        return kept[hash_]

    for commit in islice(repository.log(limit), limit):
        if not commit.known:
            yield commit, None
            continue
        before = Version("", {}) if commit.parent is None else at(commit.parent)
        after = at(commit.hash)
        kept = {commit.hash: after} if commit.parent is None else {commit.parent: before}
        yield commit, changes(before, after)


def changes(old: Version, new: Version) -> list[Change]:
    """What is otherwise in the new version, file by file."""
    found: list[Change] = []
    for name in NAMES:
        path = f"policies/{name}"
        if old.files.get(path) != new.files.get(path):
            found += _of_policy(name, old, new)
        elif path in old.files and _file(name, *_bytes(old)) != _file(name, *_bytes(new)):
            found += _of_policy(name, old, new)  # privacy.yaml, for what channels.yaml says
    views = sorted(path for path in {*old.files, *new.files} if path.startswith("views/"))
    for path in views:
        if old.files.get(path) != new.files.get(path):
            found.append(_of_view(path, old.files.get(path), new.files.get(path)))
    for path in sorted({*new.lost} - {*old.lost}):
        found.append(
            Change(path, "", "broken", None, None, f"cannot be read at {new}: a link, or too many")
        )
    return found


def _bytes(version: Version) -> tuple[tuple[str, bytes], ...]:
    return tuple((path, data) for path, data in version.files.items() if path.startswith("pol"))


def _of_policy(name: str, old: Version, new: Version) -> list[Change]:
    before, after = _file(name, *_bytes(old)), _file(name, *_bytes(new))
    path = f"policies/{name}"
    whole = _whole_file(name, path in old.files, path in new.files)
    read = ((before, _where(old, "before")), (after, _where(new, "now")))
    broken = [_broken(name, file.mistakes, where) for file, where in read if file.mistakes]
    if broken:
        return [*whole, *broken]
    found = list(_values(name, before.values, after.values, both=not whole))
    if not whole:
        found += _orders(name, before.document, after.document, ())
        if not found:
            words = "only comments or layout changed"
            found.append(Change(name, "", "layout", None, None, words))
    elif not found:
        found.append(whole[0]._replace(words=f"{whole[0].words}; every value is as it was"))
        return found
    return [*whole, *found]


def _broken(name: str, mistakes: Sequence[str], where: str) -> Change:
    listed = "".join(f"\n  {mistake}" for mistake in mistakes)
    words = f"has mistakes {where}, so what it says there is not known:{listed}"
    return Change(name, "", "broken", None, list(mistakes), words)


def _where(version: Version, otherwise: str) -> str:
    return f"at {version}" if version.name else otherwise


def _whole_file(name: str, was: bool, is_: bool) -> list[Change]:
    if was and not is_:
        words = "removed; memplane's defaults stand for it"
        return [Change(name, "", "removed", None, None, words)]
    if is_ and not was:
        return [
            Change(name, "", "added", None, None, "added; memplane's defaults stood for it before")
        ]
    return []


@lru_cache(maxsize=64)
def _file(name: str, *files: tuple[str, bytes]) -> _File:
    """Read one policy of a version, which is given by its files."""
    read = _documents(*files)
    own = [problem for problem in read.problems if problem.file == name]
    if own:
        placed = (problem._replace(file=f"policies/{name}") for problem in own)
        return _File({}, None, tuple(masked(str(problem)) for problem in placed))
    written = any(path == f"policies/{name}" for path, _ in files)
    rows = list(rows_of(name, read, written=written, defaults=Assets("policies", NAMES)))
    root = read.roots[name]
    return _File(_by_name(rows), None if root is None else plain(root), ())


@lru_cache(maxsize=4)
def _documents(*files: tuple[str, bytes]) -> Documents:
    """Read all policies of a version: a mistake in one may take two to see."""
    data = {path.removeprefix("policies/"): held for path, held in files}
    defaults, schemas = Assets("policies", NAMES), Assets("schemas", _SCHEMAS)
    return documents(dict(data), defaults=defaults, schemas=schemas)


def _by_name(rows: Sequence[Row]) -> dict[str, Value]:
    """Values by key; channels go by their names, wherever they stand in the list."""
    names = {row.key: str(row.value) for row in rows if _NAME_OF_ITEM.sub("", row.key) == ".name"}

    def key(row: Row) -> str:
        found = _NAME_OF_ITEM.match(row.key)
        name = names.get(f"{found[0]}.name") if found else None
        return row.key if name is None or not found else f"channels[{name}]{row.key[found.end() :]}"

    return {key(row): (row.value, row.origin) for row in rows}


def _values(
    name: str, before: dict[str, Value], after: dict[str, Value], *, both: bool
) -> Iterator[Change]:
    """What holds otherwise; with `both` files there, also what is merely written or not."""
    silent: dict[str, list[str]] = {"written": [], "unwritten": []}
    told: set[str] = set()
    for key in [*before, *(key for key in after if key not in before)]:
        if key in before and key in after:
            (old, was), (new, is_) = before[key], after[key]
            if old != new:
                yield from _changed(name, key, before[key], after[key])
            elif was != is_:
                silent["written" if is_ == "file" else "unwritten"].append(key)
            continue
        gone = key in before
        own, other = (before, after) if gone else (after, before)
        top = _top(key, other)
        if top in told or (own[key][0] == {} and _holds(other, key)):
            continue
        told.add(top)
        value = _gathered(top, own)
        what = "removed" if gone else "added"
        words = f"{top} {what}, it was {_said(value)}" if gone else f"{top} {what}: {_said(value)}"
        yield Change(name, top, what, value if gone else None, None if gone else value, words)
    if both:
        for what, keys in silent.items():
            if keys:
                how = "now written, with" if what == "written" else "no longer written, which keeps"
                words = f"{_some(keys)} {how} the value of the default"
                yield Change(name, ", ".join(keys), what, None, None, words)


def _changed(name: str, key: str, before: Value, after: Value) -> Iterator[Change]:
    (old, was), (new, is_) = before, after
    one = Change(name, key, "changed", old, new, "")
    if isinstance(old, list) and isinstance(new, list):
        gone = list((Counter(map(_said, old)) - Counter(map(_said, new))).elements())
        come = list((Counter(map(_said, new)) - Counter(map(_said, old))).elements())
        if not gone and not come:
            yield one._replace(what="order", words=f"{key}: the same in another order {_said(new)}")
            return
        parts = [f"- {item}" for item in gone] + [f"+ {item}" for item in come]
        note = _note(was, is_)
        yield one._replace(words=f"{key}{note} " + ", ".join(parts))
        return
    was_said, is_said = (_cut(said) for said in _apart(as_yaml(old), as_yaml(new)))
    yield one._replace(words=f"{key} {was_said} -> {is_said}{_note(was, is_)}")


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two long values, less what they begin and end with alike."""
    if max(len(old), len(new)) <= _LONG:
        return old, new
    begin = _alike(old, new)
    end = _alike(old[begin:][::-1], new[begin:][::-1])
    begin, end = max(0, begin - _AROUND), max(0, end - _AROUND)
    return _between(old, begin, end), _between(new, begin, end)


def _alike(old: str, new: str) -> int:
    """How many characters both begin with."""
    pairs = zip(old, new, strict=False)
    return next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(old), len(new)))


def _between(text: str, begin: int, end: int) -> str:
    shown = text[begin : len(text) - end]
    return f"{'…' * (begin > 0)}{shown}{'…' * (end > 0)}"


def _note(was: str, is_: str) -> str:
    if was == is_:
        return ""
    return " (the default: no longer written)" if is_ == "default" else " (was the default)"


def _orders(
    name: str, before: Any, after: Any, path: tuple[str, ...]
) -> Iterator[Change]:  # fmt: skip
    """Mappings below the top whose keys stand in another order, and channels that do."""
    if path == ("channels",) and isinstance(before, list) and isinstance(after, list):
        before, after = ({row["name"]: None for row in rows} for rows in (before, after))
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return
    old = [key for key in before if key in after]
    new = [key for key in after if key in before]
    if path and old != new:
        key = ".".join(path)
        words = f"{key}: in another order: {_some(new)}"
        yield Change(name, key, "order", old, new, words)
    for key in old:
        yield from _orders(name, before[key], after[key], (*path, key))


def _top(key: str, other: dict[str, Value]) -> str:
    """The shortest part of a key's path that the other version has nothing of."""
    for step in _STEP.finditer(key):
        end = step.start() if key[step.start()] == "." else key.find("]", step.start()) + 1
        if key[:end] != key and not _holds(other, key[:end]):
            return key[:end]
    return key


def _holds(values: dict[str, Value], key: str) -> bool:
    return key in values or any(one.startswith((f"{key}.", f"{key}[")) for one in values)


def _gathered(top: str, values: dict[str, Value]) -> Any:
    """What stands below a key, as one value."""
    if top in values:
        return values[top][0]
    return {
        key.removeprefix(top).lstrip("."): value
        for key, (value, _) in values.items()
        if key.startswith((f"{top}.", f"{top}["))
    }


def _of_view(path: str, old: bytes | None, new: bytes | None) -> Change:
    """The lines that came and went; one that moved did neither."""
    was, is_ = _lines(old), _lines(new)
    gone, come = _without(was, is_), _without(is_, was)
    if old is None or new is None:
        what = "added" if old is None else "removed"
        count = len(is_ if old is None else was)
        words = f"{what}, {count} line{'s' * (count != 1)}"
    elif not gone and not come:
        words = "the same lines in another order, or with other ends"
        return Change(path, "", "layout", None, None, words)
    else:
        what = "lines"
        words = f"{len(come)} line{'s' * (len(come) != 1)} added, {len(gone)} removed"
    return Change(path, "", what, gone, come, words)


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode("utf-8", "replace").splitlines()


def _without(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """The lines that the others have not, as often as they have them not, in order."""
    left = Counter(others)
    found = []
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
        elif line.strip():
            found.append(line)
    return found


def _some(keys: Sequence[str]) -> str:
    more = len(keys) - _NAMED_MAX
    return ", ".join(keys[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _said(value: Any) -> str:
    return _cut(as_yaml(value))


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}…"
