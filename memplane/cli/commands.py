"""What commands there are, how each is declared, what options they share, and exit codes.

Modules declare their commands with `command`: a function whose parameters say its arguments and
options. From that one declaration `plain_command` takes what is asked
plainly, and `memplane.cli.app` makes the commands of typer, for all else. `load_command` imports
only the module of the command that was called.

Options that several commands share have the same names and help everywhere. The fields of an event
are among them, with the conversion of their values.

Plain are words that are arguments, options by their whole names, and values that begin with no
dash, of texts and whole numbers; all else, and whatever is wrong, is typer's to take or to refuse.
So `memplane record "We keep PostgreSQL" --kind decision` does not wait for the import of typer,
which costs five times what a bare Python does. A law holds both equal (`tests/cli/test_plain.py`).

`exit_of` follows this table of exit codes.

==== ========= =====================================================================
code name      when
==== ========= =====================================================================
0    FINE      done, or answered. A list may be empty, a block too, and an import may
               have refused rows: both report it. `log --follow` was ended with Ctrl-C.
1    NO        the answer is no: nothing by that id, key or handle (NotFoundError), a
               namespace that is not for this channel or agent (ScopeError), the id is
               another event's (ConflictError), nothing there to forget, nothing that
               `search` finds; `verify`, `policy check`,
               `audit`, `scenario run` and `doctor` found something (3, where `doctor` finds
               that the plane cannot be opened); `replay` made another block than it was
2    WRONG     wrong use: arguments, options, or what was given cannot be taken
               (InputError, BudgetError). Nothing was stored
3    BROKEN    the plane cannot be used as it is: none there, not ours, newer, locked,
               corrupt, disk refused (PlaneError, OSError), the policies have mistakes
               (PolicyError), an extra is missing (MissingExtraError), or a bug. Bare
               `memplane` too, where it shows a plane with such a fault
130  STOPPED   Ctrl-C
141  PIPE      the reader of a pipe went away before it had all, as for any command that
               SIGPIPE ends; nothing is said
==== ========= =====================================================================

Errors are words on stderr, `memplane: <message>`. With `--json` stdout has one JSON value in any
case: where there is no answer that is `{"error": {"type", "message", "exit", ...}}`, with the
error's facts beside them, and stderr says the same in words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from memplane.errors import ConflictError, InputError, NotFoundError, ScopeError
from memplane.intake.redact import unexpected
from memplane.lazy import NamedTuple, word_table
from memplane.wiring import CALLER


class Option:
    """Declares an option: its names (else that of the parameter), and what typer is told of it.

    `metavar` and `help` as typer has them; `min` and `max` bound a number.
    """

    def __init__(self, *names: str, **more: Any) -> None:
        self.names, self.more = names, more


class Argument(Option):
    """Declares an argument, in the order of the parameters."""


Agent: TypeAlias = Annotated[
    str | None,
    Option(
        "--agent",
        metavar="ID",
        help="The agent that asks: it sees its own /agent/ID. Without it, the owner asks.",
    ),
]
Now: TypeAlias = Annotated[
    str | None, Option("--now", metavar="TIME", help="As the clock stands then: RFC 3339.")
]
Home: TypeAlias = Annotated[
    str | None,
    Option(
        "--home",
        metavar="DIR",
        help="The plane's folder; else MEMPLANE_HOME, else .memplane here or above, if you trust "
        "it.",
    ),
]
Project: TypeAlias = Annotated[
    str | None,
    Option(
        "--project",
        metavar="NAME",
        help="Of your own plane this project, in place of the one in this folder; '*': all.",
    ),
]
Json: TypeAlias = Annotated[
    bool, Option("--json", help="Print one JSON value on stdout, for errors too.")
]
Html: TypeAlias = Annotated[
    Path | None,
    Option("--html", metavar="FILE", help="And write the figures as a page to look at."),
]
Channel: TypeAlias = Annotated[
    str,
    Option(
        "--channel",
        metavar="NAME",
        help="Who asks: private, public, team, agent, or one of channels.yaml.",
    ),
]
Ns: TypeAlias = Annotated[
    str,
    Option(
        "--ns",
        metavar="NS",
        help="Namespace: /global, /project/NAME, /task/ID, /spec/NAME or /agent/ID.",
    ),
]
OneNs: TypeAlias = Annotated[
    str | None,
    Option("--ns", metavar="NS", help="Only this namespace, or a pattern: '/spec/*'."),
]
Session: TypeAlias = Annotated[
    str | None, Option("--session", metavar="ID", help="Only this session.")
]
Budget: TypeAlias = Annotated[
    int | None, Option("--budget", metavar="TOKENS", help="Tokens at most.")
]
Reason: TypeAlias = Annotated[str, Option("--reason", metavar="TEXT", help="Why; kept in the log.")]
WithoutTag: TypeAlias = Annotated[
    list[str] | None,
    Option("--without-tag", metavar="WORD", help="Nothing with this tag; repeatable."),
]
AtLeast: TypeAlias = Annotated[
    str | None,
    Option(
        "--importance-min", metavar="N", help="Only from this importance on: 0 to 1000, or 0.0-1.0."
    ),
]
WithTag: TypeAlias = Annotated[
    list[str] | None,
    Option("--tag", metavar="WORD", help="What has this tag; repeated: one of them."),
]
OlderThan: TypeAlias = Annotated[
    str | None,
    Option(
        "--older-than", metavar="AGE", help="What happened before: 90d, 12h, 2w (s, m, h, d, w)."
    ),
]
OfKind: TypeAlias = Annotated[
    list[str] | None,
    Option("--kind", metavar="KIND", help="Of what is described: only this kind; repeatable."),
]
Decisions: TypeAlias = Annotated[
    bool,
    Option("--decisions", help="Of what is described: decisions, rules, constraints, pins too."),
]
Yes: TypeAlias = Annotated[
    bool, Option("--yes", help="Do it with what is described (or due by --keep).")
]


def kept_words(kept: int) -> str:
    """The line about events that a description matched and that were kept because they last."""
    what = "1 stays that lasts" if kept == 1 else f"{kept} stay that last"
    return f"{what} (decisions, rules, constraints, pins): --decisions takes them too"


_Text: TypeAlias = str | None
_Texts: TypeAlias = list[str] | None

Kind: TypeAlias = Annotated[
    _Text,
    Option(metavar="KIND", help="message (default), decision, fact, task, ..., or custom:<name>."),
]
Key: TypeAlias = Annotated[
    _Text,
    Option(metavar="KEY", help="A later event of this namespace and key supersedes it."),
]
EventNs: TypeAlias = Annotated[
    _Text, Option(metavar="NS", help="Namespace; else /task/TASK with --task, else /global.")
]
EventSession: TypeAlias = Annotated[_Text, Option(metavar="ID", help="The session it happened in.")]
Task: TypeAlias = Annotated[_Text, Option(metavar="ID", help="The task it belongs to.")]
Actor: TypeAlias = Annotated[_Text, Option(metavar="NAME", help="Who did or said it.")]
Role: TypeAlias = Annotated[_Text, Option(metavar="ROLE", help="user, assistant, tool or system.")]
Tags: TypeAlias = Annotated[_Texts, Option(metavar="WORD", help="May be repeated.")]
Markers: TypeAlias = Annotated[
    _Texts,
    Option(metavar="WORD", help="decision, constraint, failure, goal or custom:NAME; repeatable."),
]
Refs: TypeAlias = Annotated[
    _Texts, Option(metavar="ID|SEQ", help="Another event that it is about; repeatable.")
]
Sensitivity: TypeAlias = Annotated[
    _Text, Option(metavar="LEVEL", help="low, normal (default), high or secret.")
]
Importance: TypeAlias = Annotated[
    _Text, Option(metavar="N", help="0 to 1000 (default 500), or 0.0 to 1.0 with a point.")
]
Time: TypeAlias = Annotated[_Text, Option(metavar="TIME", help="RFC 3339, with its zone.")]
Bound: TypeAlias = Annotated[
    _Text, Option(metavar="TIME", help="RFC 3339 with its zone, or a day (UTC).")
]
Data: TypeAlias = Annotated[
    _Text, Option("--data", metavar="JSON", help="An object of anything else.")
]
Id: TypeAlias = Annotated[
    _Text,
    Option("--id", metavar="ID", help="Your own id: the same event twice is stored once."),
]


def ref(given: str) -> str | int:
    """A seq where the argument is a number, or as blocks and hits write it (`#12`); else an id."""
    seq = given.removeprefix("#")
    return int(seq) if seq.isascii() and seq.isdigit() and len(seq) < 19 else given


def number(given: str | None, where: str = "--importance") -> int | float | None:
    """An importance: a fraction of 1 if it has a point, else 0 to 1000. Raises InputError."""
    if given is None:
        return None
    try:
        return float(given) if "." in given else int(given)
    except ValueError:
        raise unexpected("0 to 1000, or 0.0 to 1.0", given, where) from None


def object_of(given: str | None) -> dict[str, Any] | None:
    """The JSON object that is the value of `--data`. Raises InputError."""
    if given is None:
        return None
    try:
        value = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a JSON object: {error}", where="--data") from error
    if not isinstance(value, dict):
        raise unexpected("a JSON object", given, "--data")
    return value


Function = TypeVar("Function", bound=Callable[..., Any])

# The modules of `memplane.cli` that define each command, in the sections and the order of the help.
SECTIONS: Final = {
    "Start": {
        "init": "show",
        "join": "maintenance",
        "demo": "maintenance",
        "import": "transfer",
        "install": "agents",
        "uninstall": "agents",
        "trust": "policy",
    },
    "Record": {
        "record": "record",
        "remember": "work",
        "update": "memories",
        "confirm": "memories",
        "forget": "memories",
        "unforget": "memories",
        "undo": "memories",
        "pin": "memories",
        "unpin": "memories",
        "touch": "memories",
        "evict": "memories",
    },
    "Ask": {
        "pack": "retrieval",
        "search": "retrieval",
        "expand": "retrieval",
        "get": "show",
        "keys": "show",
        "history": "show",
        "decisions": "show",
        "files": "retrieval",
        "today": "work",
        "last": "work",
    },
    "Work": {
        "task": "work",
        "session": "work",
        "artifact": "work",
        "projects": "work",
    },
    "Look into it": {
        "inspect": "maintenance",
        "log": "show",
        "show": "show",
        "why": "retrieval",
        "replay": "retrieval",
        "stats": "maintenance",
    },
    "Keep it": {
        "doctor": "maintenance",
        "verify": "maintenance",
        "repair": "maintenance",
        "rebuild": "maintenance",
        "audit": "maintenance",
        "purge": "memories",
        "export": "transfer",
        "restore": "transfer",
        "sync": "transfer",
        "embed": "retrieval",
        "shared": "maintenance",
    },
    "Policies": {
        "policy": "policy",
        "scenario": "trials",
        "eval": "trials",
        "schema": "policy",
    },
    "For agents": {
        "mcp": "agents",
        "hook": "agents",
        "serve": "agents",
        "token": "agents",
    },
    "memplane itself": {
        "help": "about",
        "version": "about",
        "where": "about",
        "completion": "about",
    },
}
COMMANDS: Final = {name: at for section in SECTIONS.values() for name, at in section.items()}

# What is done in a moment, within bounds: such a process collects no garbage, and ends at once.
BRIEF: Final = frozenset(
    word_table(
        "record remember update forget unforget undo pin unpin touch pack search expand get keys"
        " history decisions files last today show version"
    )
)
# Names with commands of their own behind them, and the beginning of their help.
GROUPS: Final = {
    "artifact": "Artifacts: files, and who may show their text.",
    "policy": "Policies: check, show, compare and try them.",
    "projects": "Projects of your own plane: list, join and assign them.",
    "scenario": "Scenarios: what a plane must do, held in CI.",
    "shared": "A log for many machines: status, follow and refill.",
    "session": "Sessions: begin, mark, end, list and show them.",
    "task": "Tasks: open them, say how they go, switch.",
    "token": "Tokens of those who may ask `memplane serve`: add, list, remove.",
}

FINE: Final = 0
NO: Final = 1
WRONG: Final = 2
BROKEN: Final = 3
STOPPED: Final = 130
PIPE: Final = 141


class Declared(NamedTuple):
    """A command: its name within its group, "" for what the group does without one.

    `group` is "" for commands that stand alone. The example ends its help; tests run it.
    """

    name: str
    group: str
    function: Callable[..., Any]
    example: str


DECLARED: Final[dict[tuple[str, str], Declared]] = {}
# Told of each command that is declared from then on: typer's tree, where that was made before.
_TOLD: Final[list[Callable[[Declared], None]]] = []


def command(name: str, *, example: str, group: str = "") -> Callable[[Function], Function]:
    """A decorator that declares a function as a command.

    A function with a parameter `home` gets an option `--project` as well (`with_project`).
    """

    def declared(function: Function) -> Function:
        DECLARED[group, name] = one = Declared(name, group, function, example)
        for told in _TOLD:
            told(one)
        return function

    return declared


def tell_declared(told: Callable[[Declared], None]) -> None:
    """Call for every command that was declared, and for each that will be."""
    for one in DECLARED.values():
        told(one)
    _TOLD.append(told)


def with_project(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with an argument that names the project of the caller, where it takes a home.

    See `memplane.wiring.Caller`.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if "home" not in names or "project" in names:
        return function

    @wraps(function)
    def called(*words: Any, project: str | None = None, **named: Any) -> Any:
        caller = CALLER.get()
        before = CALLER.set(caller if project is None else caller._replace(project=project))
        try:
            return function(*words, **named)
        finally:
            CALLER.reset(before)

    return called


class WrongUseError(Exception):
    """Arguments or options that no command takes; the words say where help is."""


class EndedError(Exception):
    """Ends a command with an exit code, after it said why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def load_command(word: str) -> None:
    """Import the module of a command or group; for any other word all modules, as for help."""
    for modules in [COMMANDS[word]] if word in COMMANDS else COMMANDS.values():
        for module in modules.split():
            import_module(f"memplane.cli.{module}")


def exit_of(error: BaseException) -> int:
    """The exit code for an error that ended a command."""
    if isinstance(error, InputError):
        return WRONG
    if isinstance(error, NotFoundError | ScopeError | ConflictError):
        return NO
    return BROKEN


# What is asked plainly.

_DIGITS_MAX: Final = 18


class _Parameter(NamedTuple):
    """What a parameter of a command takes; `kind` None is what only typer reads."""

    name: str
    declared: Option
    kind: type | None
    many: bool
    required: bool

    @property
    def is_argument(self) -> bool:
        return isinstance(self.declared, Argument)

    def flags(self) -> tuple[list[str], list[str]]:
        """The names of an option, and those that switch it off."""
        names = self.declared.names
        if not names:
            plain = self.name.replace("_", "-")
            return [f"--{plain}"], [f"--no-{plain}"] if self.kind is bool else []
        both = [name.partition("/") for name in names]
        return [on for on, _, _ in both], [off for _, _, off in both if off]

    def value(self, word: str) -> Any:
        """What a word means; raises ValueError for one that typer has to judge."""
        if self.kind is str:
            return word
        if self.kind is not int or not (word.isascii() and word.isdigit()):
            raise ValueError(word)
        number, more = int(word[: _DIGITS_MAX + 1]), self.declared.more
        if len(word) > _DIGITS_MAX or not more.get("min", 0) <= number <= more.get("max", number):
            raise ValueError(word)
        return number


def plain_command(argv: Sequence[str]) -> Callable[[], Any] | None:
    """What runs the command that the words ask for plainly; None where they do not."""
    declared, words = _declared(argv)
    if declared is None:
        return None
    values = values_of(declared.function, words)
    if values is None or (not declared.name and "project" in values):  # a group has no such option
        return None
    return partial(with_project(declared.function), **values)


def _declared(argv: Sequence[str]) -> tuple[Declared | None, Sequence[str]]:
    """The command that is named, and the words behind its name."""
    if not argv or argv[0] not in COMMANDS or argv[0] == "help":  # help is typer's
        return None, argv
    first, words = argv[0], argv[1:]
    load_command(first)
    if first not in GROUPS:
        return DECLARED.get(("", first)), words
    if words and not words[0].startswith("-"):
        return DECLARED.get((first, words[0])), words[1:]
    return DECLARED.get((first, "")), words


def values_of(function: Callable[..., Any], words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments that plain words give a command; None for others, and where one is missing."""
    parameters = parameters_of(function)
    options, switches = _names(parameters)
    values: dict[str, Any] = {}
    loose: list[str] = []
    rest = iter(words)
    try:
        for word in rest:
            if not word.startswith("-"):
                loose.append(word)
                continue
            if word in switches:
                name, on = switches[word]
                values[name] = on
                continue
            name, sign, value = word.partition("=")
            option = options[name]
            if not sign:
                value = next(rest)
                if value.startswith("-") and value != "-":
                    return None
            _put(values, option, value)
        for argument in (one for one in parameters if one.is_argument):
            while loose and (argument.many or argument.name not in values):
                _put(values, argument, loose.pop(0))
    except (KeyError, StopIteration, ValueError):
        return None
    missing = any(one.required and one.name not in values for one in parameters)
    return None if loose or missing else values


def _put(values: dict[str, Any], parameter: _Parameter, word: str) -> None:
    value = parameter.value(word)
    if parameter.many:
        values.setdefault(parameter.name, []).append(value)
    else:
        values[parameter.name] = value


def _names(
    parameters: Sequence[_Parameter],
) -> tuple[Mapping[str, _Parameter], Mapping[str, tuple[str, bool]]]:
    """The options that take a value, and those that switch something, each by its names."""
    options: dict[str, _Parameter] = {}
    switches: dict[str, tuple[str, bool]] = {}
    for one in parameters:
        if one.is_argument:
            continue
        on, off = one.flags()
        if one.kind is bool:
            switches |= dict.fromkeys(on, (one.name, True))
            switches |= dict.fromkeys(off, (one.name, False))
        else:
            options |= dict.fromkeys(on, one)
    return options, switches


def parameters_of(function: Callable[..., Any]) -> list[_Parameter]:
    """The parameters of a command's function, and `project` where it takes a `home`."""
    code, plain = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    optional = {*names[code.co_argcount - len(plain) : code.co_argcount]}
    optional |= {*(function.__kwdefaults__ or ())}
    found = [
        _parameter(name, _annotation(function, name), required=name not in optional)
        for name in names
    ]
    if "home" in names and "project" not in names:
        found.append(_parameter("project", Project, required=False))
    return found


def _annotation(function: Callable[..., Any], name: str) -> Any:
    said = function.__annotations__[name]
    return eval(said, function.__globals__) if isinstance(said, str) else said  # noqa: S307 - ours


def _parameter(name: str, annotation: Any, *, required: bool) -> _Parameter:
    kind = annotation.__origin__
    for one in (
        getattr(kind, "__args__", ()) if getattr(kind, "__origin__", None) is not list else ()
    ):
        if one is not type(None):
            kind = one  # of `str | None`
    many = getattr(kind, "__origin__", None) is list
    of = kind.__args__[0] if many else kind
    known = of if of in (str, int, bool) else None
    return _Parameter(name, annotation.__metadata__[0], known, many, required)
