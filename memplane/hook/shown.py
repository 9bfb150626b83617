"""What a session of a client was shown, so that nothing is shown to it twice.

`HOME/projections/hooks/<name>.json`: a cache. Where it is lost, something is shown again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from memplane.errors import WriteError
from memplane.home import replace_file

__all__ = ["Shown"]

_IDS_MAX: Final = 2_000
_FILES_MAX: Final = 64


class Shown:
    """The ids of the events that a session holds; `held` is the seq behind which it holds all."""

    def __init__(self, home: Path, session: str) -> None:
        self._folder = home / "projections" / "hooks"
        name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._file = self._folder / f"{name}.json"
        self.ids: list[str] = []
        self.held = 0
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            kept = json.loads(self._file.read_bytes())
            ids, held = kept["ids"], kept["held"]
            if isinstance(held, int) and all(isinstance(one, str) for one in ids):
                self.ids, self.held = list(ids), held

    def forget(self, held: int) -> None:
        """The client has dropped what it held up to that seq."""
        self.ids, self.held = [], held

    def add(self, ids: list[str]) -> None:
        """They were shown now."""
        self.ids = [*dict.fromkeys([*self.ids, *ids])][-_IDS_MAX:]

    def save(self) -> None:
        """Keep it for the next hook of the session; a disk that refuses costs a repetition."""
        data = json.dumps({"held": self.held, "ids": self.ids}).encode()
        with suppress(OSError, WriteError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            replace_file(self._file, data)
            files = sorted(self._folder.glob("*.json"), key=os.path.getmtime)
            for old in files[:-_FILES_MAX]:
                old.unlink(missing_ok=True)
