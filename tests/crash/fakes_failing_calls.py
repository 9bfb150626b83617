"""The k-th call that changes a file fails: for every k, in each of the ways that calls fail.

`die` ends the process where it stands, the call not made; the others raise, or write less than
they were given. A sync that fails has lost what it was for, as far as the program can know.
"""

import errno
import os

from fakes_syscalls import Passing

DIED = 77
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "EFBIG": errno.EFBIG}
SHORT = ("short 1", "short half", "all but newline")
FAULTS = (*ERRORS, *SHORT, "die")
# What a full disk refuses; it still cuts, unlinks and syncs what is there.
GROWING = ("open", "write", "mkdir", "rename", "link", "symlink")


def applies(name, fault):
    """Whether a call of that name can fail so."""
    if fault in SHORT:
        return name == "write"
    return fault not in ("ENOSPC", "EFBIG") or name in GROWING


def cases(names, lasting=()):
    """Every k and fault that can be met, for calls of these names; (k, fault, how many)."""
    return [
        (k, fault, lasts)
        for k, name in enumerate(names, 1)
        for fault in FAULTS
        for lasts in ((1, 3) if fault in lasting else (1,))
        if applies(name, fault)
    ]


class Failing(Passing):
    """While the block runs, the k-th call fails as told, and so do the next ones if it `lasts`."""

    def __init__(self, folder, k, fault, *, lasts=1):
        super().__init__(folder, self._handle)
        self.k, self.fault, self.lasts = k, fault, lasts
        self.names = []
        self.hit = None

    @property
    def calls(self):
        """How many there were so far."""
        return len(self.names)

    def _handle(self, call, run):
        self.names.append(call.name)
        if not self.k <= self.calls < self.k + self.lasts:
            return run()
        self.hit = call
        if self.fault == "die":
            if call.name == "write" and self.calls % 2:
                run(call.data[: len(call.data) // 2])
            os._exit(DIED)
        if not applies(call.name, self.fault):
            return run()
        if self.fault in SHORT:
            return self._short(call, run)
        code = ERRORS[self.fault]
        if call.fd >= 0:  # then the system names no file
            raise OSError(code, os.strerror(code))
        raise OSError(code, os.strerror(code), f"{self.folder}/{call.path}")

    def _short(self, call, run):
        size = {"short 1": 1, "short half": len(call.data) // 2}.get(self.fault, len(call.data) - 1)
        return run(call.data[:size])
