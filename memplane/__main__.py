"""The console script, and `python -m memplane`.

Only `sys` is imported here: what a hook will run must not wait for the whole command line.
"""

import sys
from typing import Any

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run one command; give back its exit code (see `memplane.cli.exits`)."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["hook"] and not {"-h", "--help"} & set(given):
        return _hook(given[1:])
    from memplane.cli.run import run  # noqa: PLC0415 - the reason of this module

    return run(given)


def _hook(given: list[str]) -> int:
    """Run `memplane hook` without the rest of the command line."""
    import os  # noqa: PLC0415 - loaded already

    from memplane.hook.run import Openers, run  # noqa: PLC0415 - the reason of this module

    def light(*asked: Any) -> Any:
        from memplane.wiring import open_light  # noqa: PLC0415 - likewise

        return open_light(*asked)

    def whole(home: Any) -> Any:
        from memplane.wiring import open_plane  # noqa: PLC0415 - likewise

        return open_plane(home.path)

    return run(given, os.environ, Openers(light, whole))


if __name__ == "__main__":
    sys.exit(main())
