"""What a command's exit code says. The one table; `exit_of` follows it.

==== ========= =====================================================================
code name      when
==== ========= =====================================================================
0    FINE      done, or answered. A list may be empty, a block too, and an import may
               have refused rows: both say so. The reader of a pipe went away.
               `log --follow` was ended with Ctrl-C.
1    NO        the answer is no: nothing by that id, key or handle (NotFoundError), a
               namespace that is not for this channel or agent (ScopeError), the id is
               another event's (ConflictError), nothing there to forget, nothing that
               `search` finds; `verify`, `policy check`,
               `audit`, `scenario run` and `doctor` found something (3, where `doctor` finds
               that the plane cannot be opened); `replay` made another block than it was
2    WRONG     wrong use: arguments, options, or what was given cannot be taken
               (InputError, BudgetError). Nothing was stored
3    BROKEN    the plane cannot be used as it is: none there, not ours, newer, locked,
               corrupt, disk refused (PlaneError, OSError), a pipe that took less than
               all of an export, the policies have mistakes
               (PolicyError), an extra is missing (MissingExtraError), or a bug. Bare
               `memplane` too, where it shows a plane with such a fault
130  STOPPED   Ctrl-C
==== ========= =====================================================================

Errors are words on stderr, `memplane: <message>`. With `--json` stdout has one JSON value in any
case: where there is no answer that is `{"error": {"type", "message", "exit", ...}}`, with the
error's facts beside them, and stderr says the same in words.
"""

from __future__ import annotations

from typing import Final

from memplane.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    ScopeError,
)

__all__ = ["BROKEN", "FINE", "NO", "STOPPED", "WRONG", "exit_of"]

FINE: Final = 0
NO: Final = 1
WRONG: Final = 2
BROKEN: Final = 3
STOPPED: Final = 130


def exit_of(error: BaseException) -> int:
    """The code for an error that ended a command."""
    if isinstance(error, InputError):
        return WRONG
    if isinstance(error, NotFoundError | ScopeError | ConflictError):
        return NO
    return BROKEN
