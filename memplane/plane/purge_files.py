"""Where else below a plane's home an event's text may stand: what goes with it, what is told."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["Look", "Quotations", "set_aside"]

_QUOTE_MIN: Final = 8  # characters; less stands in other texts by chance
_LINE_MIN: Final = 24  # of one line of several
_NEEDLES_MAX: Final = 2_000
_WRITTEN: Final = ("views", "policies", "scenarios")  # by people: told of, never touched
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
_FIRST: Final = 3  # words by which a quotation is known
_WORD: Final = re.compile(r"\w+")
_CACHES: Final = ("projections", "index")  # made again, or rewritten, after a purge
_LEFT: Final = (".new", ".tmp")  # of a file that was being written when somebody died
_PID: Final = re.compile(r"\.(\d+)(?:\.\d+)?\.(?:new|tmp)$")


class Look:
    """A look at the files of a home for these texts and ids.

    `named`: the hashes of files in bodies/ that other events need; what they quote is told with
    the events.
    """

    def __init__(self, home: Path, texts: Iterable[str], ids: set[str], named: set[str]) -> None:
        self._home, self._ids, self._named = home, ids, named
        self._quotations = Quotations(texts)

    def reports(self) -> list[str]:
        """The reports that name one of the events or have a text."""
        return [
            self._name(path)
            for path in sorted((self._home / "reports").glob("*.json"))
            if names(text := _content(path), self._ids) or self._quotes(text)
        ]

    def to_remove(self) -> list[str]:
        """Files that go as a whole: reports, what repairs set aside, what nothing names."""
        found = self.reports()
        for path in sorted((self._home / "log" / "quarantine").glob("*")):
            text = _content(path)
            if _has_id(text, self._ids) or self._quotes(text):
                found.append(self._name(path))
        found += [self._name(path) for path in self._orphans() if self._quotes(_content(path))]
        return found

    def to_tell(self) -> Iterator[tuple[str, str]]:
        """Files of people that have a text, and those into which nobody could look."""
        removed = set(self._orphans())
        for path in self._files():
            top = self._name(path).split("/", maxsplit=1)[0]
            if top in (*_CACHES, "log", "bodies", "reports") or path in removed:
                continue
            size = path.stat().st_size
            if size > _FILE_BYTES_MAX:
                yield self._name(path), "unread"
            elif self._quotes(_content(path)):
                yield self._name(path), "text"

    def _orphans(self) -> Iterator[Path]:
        """Snapshots and bodies that no event needs, and what a dead process left half written."""
        for path in self._files():
            name = self._name(path)
            if path.suffix in _LEFT:
                if not _is_written(path) and name.split("/")[0] not in _CACHES:
                    yield path
            elif name.startswith("bodies/") and path.parent.name + path.name not in self._named:
                yield path

    def _files(self) -> Iterator[Path]:
        paths = sorted(self._home.rglob("*"))
        return (path for path in paths if path.is_file() and not path.is_symlink())

    def _name(self, path: Path) -> str:
        return path.relative_to(self._home).as_posix()

    def _quotes(self, text: str) -> bool:
        return self._quotations.in_file(text)


def set_aside(home: Path, id_: str) -> str:
    """Where a repair has put an event with that id, for who looks for it; "" where it has not."""
    for path in sorted((home / "log" / "quarantine").glob("*")):
        if _has_id(_content(path), {id_}):
            name = path.relative_to(home).as_posix()
            return f"; a repair has set aside one of that id: remove {name}"
    return ""


def _has_id(text: str, ids: set[str]) -> bool:
    return any(f'"id":{json.dumps(one)}' in text for one in ids)


def _is_written(path: Path) -> bool:
    """Whether the process that began the file may still be writing it."""
    match = _PID.search(path.name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _needles(texts: Iterable[str]) -> list[str]:
    """What tells a quotation: whole texts and their longer lines."""
    found: dict[str, None] = {}
    for text in texts:
        whole = text.strip()
        if len(whole) >= _QUOTE_MIN:
            found[whole] = None
        for line in whole.splitlines():
            if len(line.strip()) >= _LINE_MIN:
                found[line.strip()] = None
    return sorted(list(found)[:_NEEDLES_MAX], key=lambda one: (-len(one), one))


class Quotations:
    """Finds quotations of these texts: whole, or one of their longer lines.

    A text is looked through word by word, whatever the number of quotations that are looked for:
    where the first words of one stand, the whole of it is compared.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._by_words: dict[tuple[str, ...], list[str]] = {}
        self._others: list[str] = []  # of a word at most
        for needle in _needles(texts):
            # The last word may go on in a text that quotes it.
            words = tuple(_WORD.findall(needle)[:-1][:_FIRST])
            (self._by_words.setdefault(words, []) if words else self._others).append(needle)
        self._sizes = sorted({len(words) for words in self._by_words})

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._by_words or self._others)

    def in_text(self, text: str) -> bool:
        """Whether a text has one of them."""
        if any(needle in text for needle in self._others):
            return True
        words = _WORD.findall(text) if self._by_words else []
        by_words = self._by_words
        for size in self._sizes:
            for at in range(len(words) - size + 1):
                found = by_words.get(tuple(words[at : at + size]))
                if found is not None and any(needle in text for needle in found):
                    return True
        return False

    def in_file(self, text: str) -> bool:
        """Whether a file's text has one of them, or what it is the JSON of."""
        return bool(self) and (self.in_text(text) or self.in_text(_plain(text)))


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            return ""
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _plain(text: str) -> str:
    """The text as it was before it was written as JSON."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1).replace("\\n", "\n")
    except ValueError:
        return text.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def names(report: str, ids: set[str]) -> bool:
    """Whether a report names one of the events, wherever: as entry, omission, prompt, query."""
    try:
        said: list[Any] = [json.loads(report)]
    except ValueError:
        return False
    while said:
        one = said.pop()
        if isinstance(one, str):
            if one in ids:
                return True
        elif isinstance(one, dict):
            said += one.values()
        elif isinstance(one, list):
            said += one
    return False
