"""What an install did to a file besides our own entries, so that an uninstall leaves none of it.

::

    {"file": "/home/ann/.claude/settings.json", "part": "hooks",
     "before": SHA-256 of the file as it was, null where there was none,
     "backups": [[a copy that was made of it, its SHA-256]], "folders": [those made for it],
     "made": [["hooks"], ["hooks", "Stop"]], "inner": [[["hooks"], " "]],
     "blank": "", "joint": ""}

It lies in the user's folder of state (XDG_STATE_HOME, else ~/.local/state), a file for each
settings file: not beside the settings, which are often in git and shared, and not in a plane, which
may be moved or deleted before. So do the copies of a project's settings, for the same reason. Where
it is lost, our entries are found by what they run, and empty containers stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from memplane.clients import jsontext
from memplane.errors import WriteError
from memplane.home import replace_file
from memplane.trust import state_folder

__all__ = ["Record", "Store", "Traces"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What an edit left in a text besides our entries.

    `made` are containers that were not there, `inner` what stood in those that were empty, `blank`
    the whole text where there was nothing in it, `joint` what divides a table from what was before.
    """

    made: tuple[jsontext.Path, ...] = ()
    inner: tuple[tuple[jsontext.Path, str], ...] = ()
    blank: str | None = None
    joint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is remembered of a file: the traces in it, and what it was before."""

    file: str
    part: str
    before: str | None = None
    backups: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    traces: Traces = field(default_factory=Traces)

    def with_more(self, traces: Traces) -> Record:
        """The same after another edit: what was there before the first one stays known."""
        known = self.traces
        inner = dict(traces.inner) | dict(known.inner)
        made = dict.fromkeys((*known.made, *traces.made))
        blank = traces.blank if known.blank is None else known.blank
        more = Traces(
            made=tuple(made), inner=tuple(inner.items()), blank=blank,
            joint=known.joint or traces.joint,
        )  # fmt: skip
        return replace(self, traces=more)


class Store:
    """The records of one user."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Resolved: a person may have put a link anywhere in it.
        self._folder = (Path(state_folder(environment)) / "clients").resolve()

    def get(self, file: Path, part: str) -> Record | None:
        """The record of a file, None where there is none that can be read."""
        try:
            found = json.loads(self._place(file, part).read_bytes())
            traces = found.pop("traces")
            return Record(
                **{
                    **found,
                    "folders": tuple(found["folders"]),
                    "backups": tuple((copy, digest) for copy, digest in found["backups"]),
                },
                traces=Traces(
                    made=tuple(tuple(path) for path in traces["made"]),
                    inner=tuple((tuple(path), text) for path, text in traces["inner"]),
                    blank=traces["blank"], joint=traces["joint"],
                ),
            )  # fmt: skip
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def put(self, record: Record) -> None:
        """Keep a record; WriteError where that cannot be."""
        place = self._place(Path(record.file), record.part)
        if not replace_file(place, (json.dumps(asdict(record), indent=1) + "\n").encode()):
            raise WriteError(f"{place}: cannot be written: permission denied")

    def copies(self, file: Path, part: str) -> Path:
        """The folder for copies of a file that should not have them beside it."""
        return self._place(file, part).with_suffix("")

    def drop(self, file: Path, part: str) -> None:
        """Forget a record, and the folders that then are empty."""
        with contextlib.suppress(OSError):
            self._place(file, part).unlink()
        for folder in (self.copies(file, part), self._folder, self._folder.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _place(self, file: Path, part: str) -> Path:
        name = hashlib.sha256(f"{part}\n{file}".encode(errors="surrogateescape")).hexdigest()[:24]
        return self._folder / f"{name}.json"
