"""What a call of a shell checked, so that a later success of the same check closes its failure.

A check is named by its program, a filter and its targets, without what changes from run to run:
descriptions, flags, redirections, what runs it (`uv run`, `python -m`, `time`) and what stands
before it (`cd x &&`) or behind a pipe. `pytest -x` is the check of `python -m pytest tests/a.py`,
only wider.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from memplane.lazy import regex

__all__ = ["check_of", "covers", "shows_failure"]

_CHARS_MAX: Final = 240  # of a check's name; a longer one is the same as its equal alone
_COMMAND_MAX: Final = 4000
_SEPARATOR: Final = "\t"
_ARGUMENT: Final = regex(r"(?:\A|\s)(?:command|cmd)=(?=\S)")
_BLOCK: Final = regex(r"(?ms)^(?:command|cmd):\n(.*?)(?=^\w+:$|\Z)")
_REDIRECTION: Final = regex(r"\d*(?:>>?|<)&?\s*[^\s;|&]+")
_ASSIGNMENT: Final = regex(r"\w+=")
_SHELLS: Final = frozenset(
    ("bash", "exec", "exec_command", "local_shell", "run_terminal_cmd", "sh", "shell", "terminal")
)
_ENDS: Final = frozenset(("&&", "||", ";", ";;", "&", "\n"))
# Who runs another program: these words go, and for some the word behind them.
_RUNNERS: Final = frozenset(("bunx", "env", "exec", "nice", "npx", "sudo", "time"))
_RUNNERS_OF_TWO: Final = frozenset(
    (
        ("bundle", "exec"), ("hatch", "run"), ("pipenv", "run"), ("pnpm", "exec"),
        ("poetry", "run"), ("python", "-m"), ("python3", "-m"), ("uv", "run"),
    )
)  # fmt: skip
# Look at something, and check nothing.
_PROBES: Final = frozenset(
    ("cat", "cd", "echo", "export", "grep", "head", "ls", "pwd", "set", "source", "tail", "true")
)
# Programs whose first word says what they do; of these runners of scripts the second does.
_WITH_VERB: Final = frozenset(
    (
        "bazel", "bun", "bundle", "cargo", "docker", "dotnet", "git", "go", "gradle", "gradlew",
        "helm", "just", "kubectl", "make", "mise", "mvn", "npm", "nx", "pnpm", "rake", "ruff",
        "swift", "terraform", "yarn",
    )
)  # fmt: skip
_FILTERS: Final = frozenset(("--filter", "--grep", "-k", "-m", "-run", "-t"))
_EVERYTHING: Final = frozenset((".", "./", "..."))
_RED: Final = regex(
    r"(?i)\b[1-9]\d* (?:failed|failures?|errors?)\b|^(?:failed|error|traceback)\b|\berror:"
)


class _Check(NamedTuple):
    program: str
    filter: str
    targets: tuple[str, ...]


def check_of(tool: str, text: str) -> str:
    """Name what a call of `tool` checks, as `covers` takes it; "" where it names no command.

    `text` is that of the call: the tool with its arguments, or a command line alone.
    """
    command = _command(tool, text[:_COMMAND_MAX])
    if not command or "<<" in command:
        return ""
    try:
        check = _blamed(command)
    except ValueError:  # quotes that do not close
        return ""
    if check is None:
        return ""
    name = _SEPARATOR.join((check.program, check.filter, *check.targets))
    return name if len(name) <= _CHARS_MAX else ""


def covers(passed: str, failed: str) -> bool:
    """Whether a check that passed says that one which failed is in order now."""
    if passed == failed:
        return True
    if _SEPARATOR not in passed or _SEPARATOR not in failed:
        return False
    program, filter_, *targets = passed.split(_SEPARATOR)
    of_failed, its_filter, *its_targets = failed.split(_SEPARATOR)
    if program != of_failed or filter_ not in ("", its_filter):
        return False
    if not targets or not _EVERYTHING.isdisjoint(targets):
        return True
    return bool(its_targets) and all(
        any(_lies_in(one, target) for target in targets) for one in its_targets
    )


def shows_failure(text: str) -> bool:
    """Whether what a call printed says that something failed, whatever its exit code was."""
    return any(_RED.search(line) is not None for line in text.splitlines())


def _lies_in(one: str, target: str) -> bool:
    return one == target or one.startswith((f"{target.rstrip('/')}/", f"{target}::"))


def _command(tool: str, text: str) -> str:
    """The command line of a call; "" where there is none."""
    rest = text.removeprefix(tool).lstrip(" ")
    found = _ARGUMENT.search(rest)
    if found is not None:
        value = rest[found.end() :]
        if not value.startswith('"'):
            return value.split(None, 1)[0]
        try:
            read, _ = json.JSONDecoder().raw_decode(value)
        except ValueError:
            return ""
        return str(read)
    block = _BLOCK.search(rest)
    if block is not None:
        return block.group(1)
    return rest if tool.lower() in _SHELLS else ""


def _blamed(command: str) -> _Check | None:
    """The last part of a command line that checks something."""
    import shlex  # noqa: PLC0415 - only who folds calls of a shell needs it

    command = _REDIRECTION.sub(" ", command.strip().replace("\n", " ; "))
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    parts: list[list[str]] = [[]]
    piped = False
    for word in words:
        if word in _ENDS:
            parts.append([])
            piped = False
        elif word == "|":
            piped = True
        elif not piped:
            parts[-1].append(word)
    checks = (_check(part) for part in reversed(parts))
    return next((one for one in checks if one is not None), None)


def _check(words: list[str]) -> _Check | None:
    words = _bare(words)
    if not words or words[0] in _PROBES:
        return None
    program, *rest = words
    named = [program]
    verbs = 0 if program not in _WITH_VERB else 2 if rest[:1] == ["run"] else 1
    while rest and len(named) <= verbs and not rest[0].startswith("-"):
        named.append(rest.pop(0))
    filters, targets = [], []
    behind_flag = False
    while rest:
        word = rest.pop(0)
        if word in _FILTERS and rest:
            filters += [word, rest.pop(0)]
        elif word.startswith("-"):
            filters += [word] if word.partition("=")[0] in _FILTERS else []
            behind_flag = "=" not in word
            continue
        elif not (behind_flag and word.isdigit()):  # the number of a flag
            targets.append(word.removeprefix("./") or word)
        behind_flag = False
    return _Check(" ".join(named), " ".join(filters), tuple(sorted(targets)))


def _bare(words: list[str]) -> list[str]:
    """The words of a command without assignments and those who run it, its program by its name."""
    words = list(words)
    while words:
        if _ASSIGNMENT.match(words[0]) is not None:
            del words[0]
            continue
        words[0] = words[0].rpartition("/")[2]
        if tuple(words[:2]) in _RUNNERS_OF_TWO or words[0] == "timeout":
            del words[:2]
        elif words[0] in _RUNNERS:
            del words[0]
        else:
            break
    return words
