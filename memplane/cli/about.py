"""Commands about memplane itself: `help`, `version` and `completion`.

A completion script calls memplane with the words up to the cursor and `_MEMPLANE_COMPLETE` set, and
gets the words that may stand there, one a line. Names of commands are known without an import;
those of options need the module of their command alone.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from memplane.cli.commands import (
    COMMANDS,
    FINE,
    GROUPS,
    Argument,
    Home,
    Json,
    command,
    load_command,
)
from memplane.cli.output import print_answer
from memplane.errors import InputError
from memplane.home import VERSION
from memplane.intake.redact import quoted_value
from memplane.lazy import late
from memplane.policy.document import meant
from memplane.wiring import find_plane

if TYPE_CHECKING:
    import typer

    from memplane.cli import app as cli_app
else:
    typer = late("typer")
    cli_app = late("memplane.cli.app")


@command("help", example="help pack")
def print_help(
    words: Annotated[
        list[str] | None,
        Argument(metavar="[COMMAND]", help="A command, or a group and its command."),
    ] = None,
    *,
    home: Home = None,  # noqa: ARG001 - as everywhere; help needs no plane
    as_json: Json = False,
) -> None:
    """Print the help of a command; without one, all commands."""
    words = words or []
    if words and words[0] not in COMMANDS:
        raise InputError(
            f"no command {quoted_value(words[0])}{meant(words[0], list(COMMANDS))}", where="help"
        )
    load_command(words[0] if words else "")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        typer.main.get_command(cli_app.app).main(
            [*words, "--help"], prog_name="memplane", standalone_mode=False
        )
    text = said.getvalue().rstrip("\n")
    print_answer({"command": " ".join(words), "help": text}, text, as_json=as_json)


@command("version", example="version")
def print_version(
    *,
    home: Home = None,  # noqa: ARG001 - as everywhere
    as_json: Json = False,
) -> None:
    """Print the version of memplane."""
    print_answer({"version": VERSION}, f"memplane {VERSION}", as_json=as_json)


@command("where", example="where")
def print_where(*, home: Home = None, as_json: Json = False) -> None:
    """Print the folder of the plane that a command here would use; exit 3 where there is none."""
    found = find_plane(home)
    folder = os.path.abspath(found.folder)  # noqa: PTH100 - a text
    print_answer({"home": folder, "plane": found.plane_id}, folder, as_json=as_json)


@command("completion", example="completion bash")
def print_completion(
    shell: Annotated[
        str | None,
        Argument(metavar="[SHELL]", help="bash, zsh or fish; else the one in SHELL."),
    ] = None,
    *,
    home: Home = None,  # noqa: ARG001 - as everywhere
    as_json: Json = False,
) -> None:
    """Print a script that completes commands and options when you press Tab.

    bash: put `eval "$(memplane completion bash)"` into ~/.bashrc. zsh: the same with zsh, behind
    `autoload -Uz compinit; compinit` in ~/.zshrc. fish: memplane completion fish >
    ~/.config/fish/completions/memplane.fish
    """
    print_answer(*script_of(shell or this_shell()), as_json=as_json)


_BASH: Final = """\
_memplane_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $(_MEMPLANE_COMPLETE=words "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) )
}
complete -o default -F _memplane_completion memplane"""
_ZSH: Final = """\
#compdef memplane
_memplane_completion() {
    local -a found
    local said="$(_MEMPLANE_COMPLETE=colons "${words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)"
    found=( ${(f)said} )
    if (( $#found )); then
        _describe memplane found
    else
        _files
    fi
}
compdef _memplane_completion memplane"""
_FISH: Final = """\
function __memplane_completion
    set -l words (commandline -opc)
    set -l begun (commandline -ct)
    set -l found (env _MEMPLANE_COMPLETE=tabs $words[1] $words[2..-1] "$begun" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$begun"
    end
end
complete --command memplane --no-files --arguments '(__memplane_completion)'"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def this_shell() -> str:
    """The name of the user's shell, by the variable SHELL; empty where there is none."""
    return Path(os.environ.get("SHELL", "")).name


def script_of(shell: str) -> tuple[dict[str, str], str]:
    """The completion script of a shell, as JSON and as text; raises InputError for another one."""
    script = SCRIPTS.get(shell)
    if script is None:
        near = meant(shell, list(SCRIPTS))
        raise InputError(
            f"expected bash, zsh or fish, found {quoted_value(shell)}{near}", where="completion"
        )
    return {"shell": shell, "script": script}, script


def print_completions(argv: list[str], form: str, prepare: Callable[[], None]) -> int:
    """Print what may stand in the place of the last word, one a line; returns FINE.

    `prepare` completes typer's tree, which the options of memplane itself are read of.
    `form` is words, or colons or tabs: then a help text follows behind that sign. Where nothing is
    printed the shell completes names of files.
    """
    *before, begun = argv or [""]
    sign = {"colons": ":", "tabs": "\t"}.get(form)
    for word, said in _completions(before, begun, prepare):
        shown = word.replace(":", "\\:") if sign == ":" else word
        print(f"{shown}{sign}{said}" if sign and said else word)
    return FINE


def _completions(
    before: list[str], begun: str, prepare: Callable[[], None]
) -> Iterator[tuple[str, str]]:
    names = [word for at, word in enumerate(before) if not _is_option(before, at)]
    if not names and not begun.startswith("-"):
        yield from ((name, "") for name in COMMANDS if name.startswith(begun))
        return
    if names and names[0] not in COMMANDS:
        return
    load_command(names[0] if names else "init")
    prepare()
    found: Any = typer.main.get_command(cli_app.app)
    for name in names[: 2 if names[:1] and names[0] in GROUPS else 1]:
        found = getattr(found, "commands", {}).get(name, found)
    if begun.startswith("-"):
        rows = _options(found)
    else:
        below = getattr(found, "commands", {}) if names else {}
        rows = ((name, one.get_short_help_str(80)) for name, one in below.items())
    yield from (row for row in rows if row[0].startswith(begun))


def _options(found: Any) -> Iterator[tuple[str, str]]:
    for parameter in found.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("--"):
                yield option, parameter.help or ""


def _is_option(words: list[str], at: int) -> bool:
    """Whether a word is an option that may stand before a command, or the value of one."""
    return words[at].startswith("-") or (at > 0 and words[at - 1] in ("--home", "--project"))
