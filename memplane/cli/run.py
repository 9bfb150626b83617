"""Run the command line: arguments in, exit code out; no exception escapes.

Errors become messages here and nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from memplane.cli.commands import (
    BRIEF,
    BROKEN,
    FINE,
    GROUPS,
    PIPE,
    STOPPED,
    WRONG,
    EndedError,
    Home,
    Json,
    Option,
    Project,
    WrongUseError,
    exit_of,
    load_command,
    plain_command,
    values_of,
)
from memplane.cli.output import data, error_json, print_answer, say
from memplane.errors import MemplaneError, UntrustedError
from memplane.home import VERSION, RefoldWarning, SharedLogWarning
from memplane.lazy import late
from memplane.wiring import CALLER, Caller

if TYPE_CHECKING:
    import traceback

    from memplane import trust as trust_room
    from memplane.cli import about, app as cli_app, policy as cli_policy, show as cli_show
    from memplane.intake import redact
else:
    traceback = late("traceback")
    trust_room = late("memplane.trust")
    about = late("memplane.cli.about")
    cli_app = late("memplane.cli.app")
    cli_show = late("memplane.cli.show")
    cli_policy = late("memplane.cli.policy")
    redact = late("memplane.intake.redact")

# The variable that a completion script sets, to the form in which it takes the words.
COMPLETING: Final = "_MEMPLANE_COMPLETE"


def status(
    *,
    home: Home = None,
    project: Project = None,
    as_json: Json = False,
    show_version: Annotated[
        bool, Option("--version", help="Print the version of memplane.")
    ] = False,
    show_completion: Annotated[
        bool, Option("--show-completion", help="Print the completion script of this shell.")
    ] = False,
) -> int:
    """A memory plane for LLM agents. Without a command: what is in it, and the next step."""
    if show_version:
        print_answer({"version": VERSION}, f"memplane {VERSION}", as_json=as_json)
        return FINE
    if show_completion:
        print_answer(*about.script_of(about.this_shell()), as_json=as_json)
        return FINE
    return cli_show.print_status(home, project, as_json=as_json)


def is_brief(argv: list[str]) -> bool:
    """Whether the words ask for what is done in a moment."""
    words = _options_last(argv)
    return not words or words[0] in BRIEF or {*words} <= {"--version", "--json"}


def run_brief_command(argv: list[str]) -> int:
    """`run_command_line` for what `is_brief`, in a process that ends with it.

    BLAS gets one thread where the environment does not say how many: others with nothing to do
    spin, for a third of the CPU time of a search, and no such command multiplies large matrices.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return run_command_line(argv)


def run_command_line(argv: list[str]) -> int:
    """Run the command that the arguments name; returns its exit code and raises nothing."""
    _speak_utf8()
    code = FINE
    try:
        if COMPLETING in os.environ:
            return about.print_completions(argv, os.environ[COMPLETING], _add_status)
        with _warnings(), _calling():
            code = _answer(_options_last(argv))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough
        _drop_stdout()
        return PIPE
    except KeyboardInterrupt:
        return STOPPED
    except OSError as error:  # stdout itself: a full disk
        say(f"stdout: {error.strerror or error}")
        _drop_stdout()
        return BROKEN
    return code


@contextlib.contextmanager
def _calling() -> Iterator[None]:
    """Open planes on behalf of who works in this folder."""
    folder = ""
    with contextlib.suppress(OSError):
        folder = os.getcwd()  # noqa: PTH109 - a text is asked for
    before = CALLER.set(Caller(folder, None, _once(say)))
    try:
        yield
    finally:
        CALLER.reset(before)


def _once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """What says the same words once."""
    said: set[str] = set()

    def told(words: str) -> None:
        if words not in said:
            said.add(words)
            tell(words)

    return told


@contextlib.contextmanager
def _warnings() -> Iterator[None]:
    """Say on stderr what the library warns of; another warning is shown as it always is."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Any, category: Any, *more: Any, **named: Any) -> None:
            if issubclass(category, (trust_room.TrustWarning, RefoldWarning, SharedLogWarning)):
                say(str(message))
            else:
                shown(message, category, *more, **named)

        warnings.showwarning = show
        warnings.simplefilter("always", trust_room.TrustWarning)
        warnings.simplefilter("always", RefoldWarning)
        warnings.simplefilter("always", SharedLogWarning)
        yield


def _options_last(argv: list[str]) -> list[str]:
    """Move `--home`, `--project`, `--json` from before the command behind it: people write both."""
    at = _options_end(argv, 0)
    words = [*argv[at : at + 1]]
    if words and words[0] in GROUPS:  # options may stand between a group and its command too
        below = _options_end(argv, at + 1)
        words += argv[below : below + 1]
        moved, rest = [*argv[:at], *argv[at + 1 : below]], argv[below + 1 :]
    else:
        moved, rest = argv[:at], argv[at + 1 :]
    if not moved or not words or words[-1].startswith("-"):
        return argv
    end = rest.index("--") if "--" in rest else len(rest)
    return [*words, *rest[:end], *moved, *rest[end:]]


def _options_end(argv: list[str], at: int) -> int:
    while at < len(argv) and (argv[at] == "--json" or argv[at].startswith(("--home", "--project"))):
        at += 2 if argv[at] in ("--home", "--project") else 1
    return at


def _answer(argv: list[str]) -> int:
    streams = sys.stdout, sys.stderr
    try:
        plain = _plain(argv)
        found = _fully(argv) if plain is None else plain()
    except BrokenPipeError:
        raise
    except EndedError as end:
        return end.code
    except SystemExit as end:
        # Typer ends the process itself where a pipe is gone, and wraps the streams.
        sys.stdout, sys.stderr = streams
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        raise
    except MemplaneError as error:
        return _refuse(argv, error, str(error), exit_of(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _refuse(argv, error, f"{place}{error.strerror or error}", BROKEN)
    except WrongUseError as error:
        return _refuse(argv, error.__cause__ or error, str(error), WRONG)
    except Exception as error:  # noqa: BLE001 - a bug must not look like an answer
        traceback.print_exc()
        return _refuse(argv, error, f"this is a bug in memplane: {error!r}", BROKEN)
    return found if isinstance(found, int) else FINE


def _plain(argv: list[str]) -> Callable[[], Any] | None:
    """What runs what was asked, where typer need not be asked."""
    if argv and not argv[0].startswith("-"):
        return plain_command(argv)
    values = values_of(status, argv)
    return None if values is None else partial(status, **values)


def _fully(argv: list[str]) -> int:
    if not {*argv} <= {"--version", "--show-completion", "--json"}:
        load_command(argv[0] if argv else "init")
    _add_status()
    return cli_app.answer(argv)


@cache
def _add_status() -> None:
    """Give typer what memplane does without a command."""
    epilog = "\b\nExample:\n  memplane\n\nOptions stand before or behind the command."
    called = cli_app.without_command(status)
    cli_app.app.callback(invoke_without_command=True, epilog=epilog)(called)


def _refuse(argv: list[str], error: BaseException, message: str, code: int) -> int:
    if isinstance(error, UntrustedError) and not _wants_json(argv) and _trusted_now(error):
        return _answer(argv)  # nothing was done yet: a plane is found before all else
    message = redact.masked(message)  # an error quotes what was given, and that may be a secret
    if _wants_json(argv):
        data(error_json(error, message, code))
    for words in (message, *getattr(error, "__notes__", ())):
        say(words)
    return code


def _trusted_now(error: UntrustedError) -> bool:

    return cli_policy.ask_once(error)


def _wants_json(argv: list[str]) -> bool:
    """Whether JSON was asked for; the arguments may be too wrong to be parsed."""
    end = argv.index("--") if "--" in argv else len(argv)
    return "--json" in argv[:end]


def _speak_utf8() -> None:
    """Print UTF-8 whatever the locale: a log holds every language. Closed streams go nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=errors)


def _drop_stdout() -> None:
    """Let the interpreter's last flush go nowhere; it would complain about the same pipe again."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
