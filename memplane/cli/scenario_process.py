"""One process of a scenario: `python -m memplane.cli.scenario_process work|command TIME ...`.

What the two words mean is told in `memplane.scenario.process`.
"""

import sys

from memplane import wiring
from memplane.cli.scenario import builders
from memplane.scenario import work

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Do what a scenario asks of one process; its exit code."""
    kind, now, *rest = argv
    if kind == "work":
        work(sys.stdin, sys.stdout, now, builders())
        return 0
    from memplane.cli.run import run  # noqa: PLC0415 - work does without

    # Commands ask the one clock that there is, by the name that they were given at import: it is
    # made to stand where the scenario's does.
    setattr(type(wiring.clock), "__call__", lambda _: now)  # noqa: B010 - no method of that class
    return run(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
