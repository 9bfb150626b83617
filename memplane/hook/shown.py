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

__all__ = ["Shown"]

_IDS_MAX: Final = 2_000
_FILES_MAX: Final = 64


class Shown:
    """The ids of the events that a session holds, and two seqs.

    Behind `held` it holds all that it said itself; up to `seen` it was told what was decided.
    """

    def __init__(self, home: Path, session: str) -> None:
        self._folder = home / "projections" / "hooks"
        name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._file = self._folder / f"{name}.json"
        self.ids: list[str] = []
        self.held = self.seen = 0
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            kept = json.loads(self._file.read_bytes())
            ids, held, seen = kept["ids"], kept["held"], kept["seen"]
            numbers = isinstance(held, int) and isinstance(seen, int)
            if numbers and all(isinstance(one, str) for one in ids):
                self.ids, self.held, self.seen = list(ids), held, seen

    def forget(self, held: int) -> None:
        """The client has dropped what it held up to that seq."""
        self.ids, self.held, self.seen = [], held, 0

    def add(self, ids: list[str]) -> None:
        """They were shown now."""
        self.ids = [*dict.fromkeys([*self.ids, *ids])][-_IDS_MAX:]

    def save(self) -> None:
        """Keep it for the next hook of the session; a disk that refuses costs a repetition."""
        new = not self._file.exists()
        kept = {"held": self.held, "seen": self.seen, "ids": self.ids}
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            draft = self._file.with_name(f".{os.getpid()}.{self._file.name}")
            try:
                # No sync: what a power cut leaves of it is no JSON.
                draft.touch(0o600)
                draft.write_text(json.dumps(kept))
                draft.replace(self._file)
            finally:
                draft.unlink(missing_ok=True)
            if new:
                self._clear()

    def _clear(self) -> None:
        """Drop what is of the oldest sessions."""
        files = sorted(self._folder.glob("*.json"), key=os.path.getmtime)
        for old in files[:-_FILES_MAX]:
            old.unlink(missing_ok=True)
