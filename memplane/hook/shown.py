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

from memplane import nofollow

__all__ = ["Shown"]

_IDS_MAX: Final = 2_000
_FILES_MAX: Final = 64


class Shown:
    """The ids of the events that a session holds, and two seqs.

    Behind `held` it holds all that it said itself; up to `seen` it was told what was decided.
    """

    def __init__(self, home: Path, session: str) -> None:
        self._home, self._folder = home, home / "projections" / "hooks"
        name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._file = self._folder / f"{name}.json"
        self.ids: list[str] = []
        self.held = self.seen = 0
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            kept = json.loads(nofollow.read(self._file, home=self._home))
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
        new = not nofollow.is_file(self._file)
        kept = {"held": self.held, "seen": self.seen, "ids": self.ids}
        with suppress(OSError):
            nofollow.make_folder(self._folder, self._home)
            draft = self._file.with_name(f".{os.getpid()}.{self._file.name}")
            try:
                # No sync: what a power cut leaves of it is no JSON.
                with os.fdopen(nofollow.create(draft, home=self._home), "w") as file:
                    file.write(json.dumps(kept))
                nofollow.rename(draft, self._file, home=self._home)
            except BaseException:
                with suppress(OSError):
                    nofollow.remove(draft, home=self._home)
                raise
            if new:
                self._clear()

    def _clear(self) -> None:
        """Drop what is of the oldest sessions."""
        names = nofollow.files(self._folder, self._home)
        files = [self._folder / name for name in names if name.endswith(".json")]
        for old in sorted(files, key=os.path.getmtime)[:-_FILES_MAX]:
            nofollow.remove(old, home=self._home)
