"""The console script, and `python -m memplane`.

Only `sys` is imported here: what a hook will run must not wait for the whole command line.
"""

import sys

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run one command; give back its exit code (see `memplane.cli.exits`)."""
    from memplane.cli.run import run  # noqa: PLC0415 - the reason of this module

    return run(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
