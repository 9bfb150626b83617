"""The console script, and `python -m memplane`.

Only `sys` is imported at the top: a hook must not wait for the import of the whole command line.
"""

import sys
from typing import Any, NoReturn

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run one command; give back its exit code (see `memplane.cli.commands`)."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["hook"] and not {"-h", "--help"} & set(given):
        _hook(given[1:])
    import gc  # noqa: PLC0415 - part of the interpreter

    collects = gc.isenabled()
    gc.disable()  # until it is known how long this lasts: see `_hook`
    from memplane.cli.run import is_brief, run_brief_command, run_command_line  # noqa: PLC0415 - likewise

    if argv is None and _is_program() and is_brief(given):
        _end(run_brief_command(given))
    if collects:
        gc.enable()
    return run_command_line(given)


def _is_program() -> bool:
    """Whether this process is memplane's: a program that calls `main` goes on after it."""
    running = sys.modules.get("__main__")
    if getattr(getattr(running, "__spec__", None), "name", "") == "memplane.__main__":
        return True
    script = str(getattr(running, "__file__", None) or "").replace("\\", "/")
    return script.rpartition("/")[2] in ("memplane", "memplane.exe")


def _end(code: int) -> NoReturn:
    """End the process at once: to take the interpreter down in order costs two bare Pythons."""
    import contextlib  # noqa: PLC0415 - loaded already
    import os  # noqa: PLC0415 - likewise

    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            with contextlib.suppress(OSError, ValueError):  # who reads it is gone: the code says so
                stream.flush()
    os._exit(code)


def _hook(given: list[str]) -> NoReturn:
    """Run `memplane hook` without the rest of the command line; ends the process."""
    import gc  # noqa: PLC0415 - part of the interpreter
    import os  # noqa: PLC0415 - loaded already
    import signal  # noqa: PLC0415 - needed below

    # Ctrl-C in the terminal of an agent reaches its hooks, too: they end, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What lives for a tenth of a second leaves nothing behind that is worth a search for garbage.
    gc.disable()
    from memplane.hook.run import Openers, run_hook  # noqa: PLC0415 - the reason of this module

    def light(*asked: Any) -> Any:
        from memplane.wiring import open_light  # noqa: PLC0415 - likewise

        return open_light(*asked)

    def whole(home: Any) -> Any:
        from memplane.wiring import open_found  # noqa: PLC0415 - likewise

        return open_found(home)

    # At once: to take the interpreter down in order costs a twentieth of the whole.
    os._exit(run_hook(given, os.environ, Openers(light, whole)))


if __name__ == "__main__":
    sys.exit(main())
