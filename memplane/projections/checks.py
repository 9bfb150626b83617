"""What a shell command checks, and which later success says that a failure is in order.

A command line is cut into its parts, and each part that does work is named by its program with its
verb, its targets and its filter, without what changes from run to run: flags, redirections, who
runs it (`uv run`, `time`, `python -m`), what is piped behind it. Commands that only look at
something (`ls`, `git status`) have no name: that they fail is an answer. Nor has a call that was
wrong in itself (an unknown flag, a program that is not there).

When in doubt nothing is called open: see `closes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from memplane.lazy import NamedTuple, regex, word_set

SHELLS: Final = frozenset(
    ("bash", "exec", "exec_command", "local_shell", "run_terminal_cmd", "sh", "shell", "terminal")
)
_COMMAND_MAX: Final = 4_000
_PARTS_MAX: Final = 40
_NAMES_CHARS: Final = 240  # of what a call checks; what is longer is covered by the same alone
_OUTPUT_READ: Final = 4_000  # of an output's beginning, and of its end


# They look at something, prepare or tidy up.
_LOOKS: Final = word_set(
    """
    . : [ [[ ack ag alias awk basename bat cat cd chmod chown clear cmp code column command comm cp
    curl cut date declare df diff dig dirname du echo env exit export false fd file find fold fuser
    grep head help history hostname id jobs jq kill less ln local locate ls lsof man mkdir mktemp
    more mv nc nl od open pbcopy pbpaste pgrep ping pkill popd printenv printf ps pushd pwd read
    readlink realpath rg rm rmdir sed seq set shasum shopt sha256sum sleep sort source ssh stat
    strings stty tac tail tee test time touch tr trap tree true type uname unalias uniq unset uptime
    wait watch wc wget whereis which whoami xargs xxd yes yq
    """
)
_GRAMMAR: Final = word_set(
    "if then else elif fi for while until do done case esac { } ! function in"
)
_GIT_WORKS: Final = {
    "am": "integrate",
    "cherry-pick": "integrate",
    "commit": "commit",
    "merge": "integrate",
    "pull": "integrate",
    "push": "push",
    "rebase": "integrate",
    "revert": "integrate",
}
_GH_LOOKS: Final = word_set("api auth checks diff list search status view watch")
_VERBS: Final = word_set(
    """
    ansible bazel bun bundle cargo cmake composer conda dbt deno docker docker-compose dotnet fly go
    golangci-lint goreleaser gradle gradlew helm hugo just kubectl make mise mix mvn mvnw nox npm nx
    pip pip3 pnpm podman poetry pre-commit pulumi rake ruff rustup sam sbt serverless swift task
    terraform tofu tox turbo uv vercel wrangler xcodebuild yarn
    """
)
_LOOKING_VERBS: Final = word_set(
    """
    config describe doc env explain fmt-check get help images info inspect list log logs ls outdated
    ps run-list search show status tasks top tree version view which why
    """
)
_RUN_SCRIPTS: Final = word_set("bun mise npm pnpm yarn just task nx deno turbo rake")
_RUNNERS: Final = word_set("bunx command env exec nice nohup npx sudo time timeout xvfb-run")
_RUNNERS_OF_TWO: Final = frozenset(
    [("bundle", "exec"), ("hatch", "run"), ("pdm", "run"), ("pipenv", "run"), ("pnpm", "exec"),
     ("pnpm", "dlx"), ("poetry", "run"), ("python", "-m"), ("python3", "-m"), ("uv", "run"),
     ("yarn", "dlx")]
)  # fmt: skip
_INTERPRETERS: Final = word_set("python python3 node ruby perl bash sh zsh php deno bun osascript")
_INLINE: Final = word_set("-c -e -p - -i /dev/stdin --eval --print")
_FILTERS: Final = word_set("-run --run -k --filter --grep --testNamePattern -bench")
_TEST_FILTERS: Final = _FILTERS | word_set("-t -g -m")
_VALUED: Final = word_set(
    "-C -count -coverprofile -n -o -p -parallel -tags -timeout --jobs -j --timeout --maxfail -f "
    "--file --config -c --profile --target -l -t --tag"
)
_SCRATCH: Final = ("/tmp/", "/var/tmp/")  # noqa: S108 - named, not used
_EVERYTHING: Final = frozenset((".", "./", "...", "./..."))
# Who runs the tools of a language on behalf of a project.
_PROJECT_RUNNERS: Final = word_set("bazel just make mise nox pre-commit task tox")
_LANGUAGE_TOOLS: Final = word_set(
    """
    black cargo clippy eslint flake8 go gofmt goimports golangci-lint gotestsum isort jest mypy
    prettier pyright pytest python python3 ruff rustfmt staticcheck tsc unittest vitest
    """
)
_CLASSES: Final = (
    (
        "test",
        regex(
            r"(?:^|[\s:_-])(?:tests?|spec|check)(?:[:\s_-]|$)|pytest|jest|vitest|unittest|gotestsum"
        ),
    ),
    (
        "lint",
        regex(
            r"lint|\bvet\b|\bruff\b(?! format)|mypy|pyright|tsc|clippy|staticcheck|flake8|typecheck"
        ),
    ),
    ("format", regex(r"fmt|format|prettier|black|isort|goimports")),
    ("build", regex(r"build|compile|install|\bcargo check\b")),
)
# A green run of the first says that the second is in order.
_IMPLIES: Final = {
    "test": ("test", "build"),
    "lint": ("lint", "build", "format"),
    "build": ("build",),
    "format": ("format",),
}
_ARGUMENT: Final = regex(r"(?:\A|\s)(?:command|cmd)=(?=\S)")
_BLOCK: Final = regex(r"(?ms)^(?:command|cmd):\n(.*?)(?=^\w+:$|\Z)")
_HEREDOC: Final = regex(r"(?ms)<<-?\s*(['\"]?)(\w+)\1.*?(?:^\s*\2\s*$|\Z)")
_HERE: Final = "<<HERE"
_REDIRECTION: Final = regex(r"\s*(?:\d?>>?|&>>?|<)(?:&\d|\s*[^\s;|&()]+)")
_ASSIGNMENT: Final = regex(r"\w+=")
_MISUSED: Final = regex(
    r"(?i)\b(?:exit code:? 12[67]\b|unknown (?:flag|option|command|subcommand|shorthand)|"
    r"unrecognized (?:option|argument|subcommand)|(?:invalid|no such) option|command not found|"
    r"no such file or directory|not a git repository|did you mean|no module named|usage:|"
    r"parse error|syntax error near|is not recognized|no (?:task|rule|target|script)\b.{0,60}"
    r"\b(?:found|make)|missing script|timed? ?out|permission denied|not found in path|"
    r"cannot find (?:module|package)\b.{0,80}\bargument)"
)
_MISSING: Final = regex(
    r"(?i)\b(?:(?:file|path|directory) does not exist|no such file or directory|enoent|not found)\b"
)
_WRONG_CALL: Final = regex(
    r"(?i)\b(?:exit code:? 12[67]\b|unknown (?:flag|option|command|subcommand|shorthand)|"
    r"unrecognized (?:option|argument|subcommand)|(?:invalid|no such) option|command not found|"
    r"no module named|no go files in|syntax error|is not recognized|missing script|"
    r"no (?:task|rule|target|script)\b.{0,60}\b(?:found|make))"
)
# What a linter calls its rule, in a line that begins with a place: `a.go:3:1: G104: ... (gosec)`.
_RULE: Final = regex(
    r"(?m)^\S+\.\w{1,5}:\d+(?::\d+)?:\s+(?:(?:error|warning)[: ]\s*)?"
    r"(?:([A-Z]{1,4}\d{2,4})\b)?.*?(?:[(\[]([a-z][a-z0-9_/-]{2,30})[)\]])?\s*$"
)
_RULES_MAX: Final = 8  # of one output
_NO_RULES: Final = frozenset(("typecheck", "error", "warning"))  # that it does not compile
_PATH: Final = regex(r"[\w.@+-]*(?:/[\w.@+-]+)+|[\w@+-]+\.[A-Za-z]\w{0,4}")
_NAMED_RED: Final = regex(
    r"(?m)^\s*\[([\w:.-]+)\] (?:ERROR|FAIL)|"
    r"\bmake(?:\[\d+\])?: \*\*\* \[(?:[^\]]*: )?([\w.:-]+)\]"
)
_RED: Final = regex(
    r"(?im)^\s*(?:-{2,} ?fail|fail(?:ed)?\b|panic:|error\b|fatal:|traceback \(|npm err!|"
    r"make: \*\*\*|"
    r"e  +\w+error)|\b[1-9]\d* (?:failed|failures?|errors?)\b|\berror(?:\[\w+\])?: |"
    r"^\S+\.\w{1,4}:\d+:(?:\d+:)? |\[\w+\] error"
)
_GREEN_SAID: Final = regex(
    r"(?i)\b(?:all|both|every|the|unit|integration)\b(?: [\w`/().:-]+){0,4} "
    r"(?:tests?|checks?|suites?|linters?|lint)\b(?: [\w`-]+){0,3} (?:pass(?:es|ed|ing)?|green|"
    r"clean)\b|"
    r"\btests?(?: and lint\w*)?(?: all| now| still)* pass(?:es|ed|ing)?\b|"
    r"\blint\w*(?: is| are| now)* (?:clean|pass\w*)\b|\b0 issues\b|\bno lint\w* (?:issues|"
    r"errors)\b|"
    r"\ball (?:pass\w*|green)\b"
)
_NOT_GREEN: Final = regex(
    r"(?i)\b(?:not|n't|until|once|if|when|make sure|should|will|verify|ensure|whether|except)\b"
)


class ShellCheck(NamedTuple):
    """What a part of a command line checks. `behind`: an `&&` stood before it."""

    program: str  # with its verb
    targets: tuple[str, ...] = ()
    filter: str = ""
    behind: bool = False

    @property
    def sort(self) -> str:
        """test, lint, format, build; "" for anything else."""
        return next((name for name, form in _CLASSES if form.search(self.program)), "")

    @property
    def whole(self) -> bool:
        """Whether it checks all that there is."""
        every = not self.targets or any(_is_everything(one) for one in self.targets)
        return not self.filter and every


def command_in(tool: str, text: str) -> str:
    """The command line that a call of a shell ran, from its text; "" for other tools."""
    if tool.lower() not in SHELLS:
        return ""
    rest = text.removeprefix(tool).lstrip(" ")
    found = _ARGUMENT.search(rest)
    if found is None:
        block = _BLOCK.search(rest)
        return (rest if block is None else block[1])[:_COMMAND_MAX]
    value = rest[found.end() :]
    if not value.startswith('"'):
        return value.split(None, 1)[0][:_COMMAND_MAX]
    import json  # noqa: PLC0415 - only who folds calls of a shell needs it

    try:
        read, _ = json.JSONDecoder().raw_decode(value)
    except ValueError:
        return ""
    return str(read)[:_COMMAND_MAX]


def checks_in(command: str) -> list[ShellCheck]:
    """What the parts of a command line check, in order; look-ups are none."""
    found = (_check(part, behind=behind) for part, behind in _parts(command))
    return [one for one in found if one is not None]


def blamed(command: str, output: str) -> ShellCheck | None:
    """The check that failed where a command line did; None where none did, or nobody can tell.

    The one that the output names, else the last: what stood before an `&&` succeeded.
    """
    checks = checks_in(command)
    if not checks or is_misused(output):
        return None
    return _blamed(checks, output)


def _blamed(checks: Sequence[ShellCheck], output: str) -> ShellCheck:
    named = _NAMED_RED.search(_ends(output))
    if named is not None:
        word = named[1] or named[2]
        for one in checks:
            if word in one.program.split() or word in one.targets:
                return one
    return checks[-1]


def check_names(tool: str, text: str) -> str:
    """What a call checks, a line each as `covers` takes it; "" for no shell or nothing checked.

    `text` is that of the call: the tool with its arguments, or a command line alone.
    """
    names = [_name_of(one) for one in checks_in(command_in(tool, text))]
    names = names if sum(map(len, names)) <= _NAMES_CHARS else names[-1:]
    joined = "\n".join(names)
    return joined if len(joined) <= _NAMES_CHARS else ""


def blamed_name(names: str, output: str) -> str:
    """Of `check_names` the one that failed."""
    checks = [_named(line) for line in names.split("\n")]
    if len(checks) < 2 or None in checks:
        return names
    return _name_of(_blamed([one for one in checks if one is not None], output))


def covers(passed: str, failed: str) -> bool:
    """Whether what passed (`check_names`) says that what failed (`blamed_name`) is in order now.

    Names of calls that check nothing are covered by the same ones alone.
    """
    if passed == failed:
        return True
    red = _named(failed)
    greens = [_named(line) for line in passed.split("\n")]
    return red is not None and any(one is not None and closes(one, red) for one in greens)


def _name_of(check: ShellCheck) -> str:
    return "\t".join((check.program, check.filter, *check.targets))


def _named(name: str) -> ShellCheck | None:
    """The check of a name; None for what is no such name."""
    if "\t" not in name:
        return None
    program, filter_, *targets = name.split("\t")
    return ShellCheck(program, tuple(targets), filter_)


def closes(passed: ShellCheck, failed: ShellCheck) -> bool:
    """Whether a check that passed says that one which failed is in order now.

    The same program on the same or more, without a narrower filter; a project's runner on all of
    it for the tools of a language; what goes on behind a merge for the merge.
    """
    if passed.program == failed.program:
        return _is_wider(passed, failed)
    if failed.program in ("git integrate", "git commit"):
        return passed.program in ("git integrate", "git commit", "git push")
    sort = passed.sort
    if not sort or failed.sort not in _IMPLIES[sort] or not passed.whole:
        return False
    runner, tool = passed.program.split(None, 1)[0], failed.program.split(None, 1)[0]
    return (tool in _LANGUAGE_TOOLS and (runner in _PROJECT_RUNNERS or runner == tool)) or (
        runner == tool and runner in _PROJECT_RUNNERS
    )


def is_misused(output: str) -> bool:
    """Whether the output says that the call was wrong, rather than what it checked."""
    return _MISUSED.search(output[:_OUTPUT_READ]) is not None


def is_missing(output: str) -> bool:
    """Whether a result says that a file is not there."""
    return _MISSING.search(output[:_OUTPUT_READ]) is not None


def is_variant(command: str, failed: str, output: str) -> bool:
    """Whether a command that works is another wording of one that was a wrong call.

    `output` is what the wrong call gave. They share half of their words, but are not the same.
    """
    if _WRONG_CALL.search(output[:_OUTPUT_READ]) is None or "\n" in f"{command}{failed}":
        return False
    mine, other = set(_split(command)), set(_split(failed))
    both = len(mine & other)
    return mine != other and bool(both) and 2 * both >= min(len(mine), len(other))


def paths_in(command: str) -> list[str]:
    """The paths and names of files in a command line, each once."""
    return list(dict.fromkeys(_PATH.findall(command[:_COMMAND_MAX])))


def rules_in(output: str) -> list[str]:
    """The rules that a linter's output names, each once: `gosec G104`, `F401`, `no-shadow`."""
    found: dict[str, None] = {}
    for line in _RULE.finditer(_ends(output)):
        named = " ".join(part for part in (line[2], line[1]) if part)
        if named and named not in _NO_RULES and len(found) < _RULES_MAX:
            found[named] = None
    return list(found)


def shows_red(output: str) -> bool:
    """Whether an output shows that something failed, whatever the exit code of a pipe says."""
    return _RED.search(_ends(output)) is not None


def says_green(answer: str) -> bool:
    """Whether an agent says that checks pass now."""
    for found in _GREEN_SAID.finditer(answer[:_OUTPUT_READ]):
        start = max(answer.rfind(mark, 0, found.start()) for mark in (".", "!", "\n")) + 1
        if _NOT_GREEN.search(answer[start : found.end()]) is None:
            return True
    return False


def _ends(output: str) -> str:
    if len(output) <= 2 * _OUTPUT_READ:
        return output
    return f"{output[:_OUTPUT_READ]}\n{output[-_OUTPUT_READ:]}"


def _is_everything(target: str) -> bool:
    return target in _EVERYTHING


def _is_wider(one: ShellCheck, other: ShellCheck) -> bool:
    if one.filter not in ("", other.filter):
        return False
    if one.targets == other.targets or not one.targets:
        return True
    return bool(other.targets) and all(
        any(_holds(mine, target) for mine in one.targets) for target in other.targets
    )


def _holds(wide: str, target: str) -> bool:
    if _is_everything(wide):
        return True
    wide, target = wide.rstrip("/"), target.rstrip("/")
    folder = wide.removesuffix("/...")
    target = target.removesuffix("/...") if folder != wide else target
    return target == folder or target.startswith((f"{folder}/", f"{folder}::"))


def _parts(command: str) -> Iterator[tuple[str, bool]]:
    """The simple commands of a line that no pipe feeds, each with whether `&&` stands before it."""
    command = _HEREDOC.sub(_HERE, command[:_COMMAND_MAX]).replace("\\\n", " ")
    start = at = depth = count = 0
    quote, mark = "", ""
    while at <= len(command) and count < _PARTS_MAX:
        char = command[at : at + 1]
        if quote:
            quote = "" if char == quote and command[at - 1] != "\\" else quote
        elif char and char in "'\"`":
            quote = char
        elif char in ("(", ")"):
            depth = max(0, depth + (1 if char == "(" else -1))
        found = "" if quote and char else _mark_at(command, at)
        if found and (depth == 0 or not char):
            part = command[start:at].strip()
            if part and mark != "|":
                count += 1
                yield part, mark == "&&"
            mark = found
            at += len(found)
            start = at
            if not char:
                return
            continue
        at += 1


def _mark_at(command: str, at: int) -> str:
    """What ends a part here; "" for nothing. The end of the line does."""
    if at >= len(command):
        return "\n"
    two = command[at : at + 2]
    if two in ("&&", "||", "|&"):
        return two if two != "|&" else "|"
    char = command[at]
    if char == "&":
        around = command[max(0, at - 1) : at] + command[at + 1 : at + 2]
        return "" if ">" in around or "<" in around else "&"
    return char if char in ";\n|" else ""


def _check(part: str, *, behind: bool) -> ShellCheck | None:
    written = _HERE in part
    bare = _REDIRECTION.sub(" ", part.replace(_HERE, " ")).strip().strip("()").strip()
    words = _bare(_split(bare))
    if not words:
        return None
    path, rest = words[0], words[1:]
    program = path.rpartition("/")[2]
    if _is_probe(path, program) or (program in _INTERPRETERS and (written or _is_inline(rest))):
        return None
    if program in ("git", "gh"):
        return _forge(program, rest, behind=behind)
    verb: list[str] = []
    if program in _VERBS:
        flags = 0
        while flags < len(rest) and rest[flags].startswith("-"):
            flags += 2 if rest[flags] in _VALUED else 1
        named = rest[flags : flags + 1]
        if (named and named[0] in _LOOKING_VERBS) or (program == "go" and named == ["run"]):
            return None
        verb = rest[flags : flags + 2] if named == ["run"] and program in _RUN_SCRIPTS else named
        rest = rest[flags + len(verb) :]
    check = ShellCheck(" ".join([program, *verb]), behind=behind)
    targets, filter_ = _arguments(rest, _TEST_FILTERS if check.sort == "test" else _FILTERS)
    return check._replace(targets=targets, filter=filter_)


def _is_probe(path: str, program: str) -> bool:
    """Whether it only looks, prepares, or is a program that was written for the moment."""
    if not program or program in _LOOKS or program in _GRAMMAR or program[0] in "$#!<>-":
        return True
    return path.startswith((*_SCRATCH, "$"))


def _is_inline(rest: Sequence[str]) -> bool:
    return not rest or rest[0] in _INLINE or rest[0] in ("--version", "-V", "-v", "--help", "-h")


def _forge(program: str, rest: list[str], *, behind: bool) -> ShellCheck | None:
    """What git or gh does; whatever it is called on, done is done."""
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c", "-R", "--repo") else rest[1:]
    if not rest:
        return None
    if program == "git":
        verb = _GIT_WORKS.get(rest[0])
        return None if verb is None else ShellCheck(f"git {verb}", behind=behind)
    if len(rest) < 2 or rest[0] in _GH_LOOKS or rest[1] in _GH_LOOKS:
        return None
    return ShellCheck(f"gh {rest[0]} {rest[1]}", behind=behind)


def _arguments(rest: Sequence[str], filtering: frozenset[str]) -> tuple[tuple[str, ...], str]:
    """The targets of a program, sorted, and its filter."""
    filters, targets = [], []
    words = iter(rest)
    for word in words:
        if word.startswith("-"):
            flag, equals, value = word.partition("=")
            if flag in filtering:
                filters.append(value if equals else next(words, ""))
            elif flag in _VALUED and not equals:
                next(words, None)
        elif not word.isdigit():
            targets.append(word if _is_everything(word) else word.removeprefix("./"))
    return tuple(sorted(targets)), " ".join(filters)


def _split(part: str) -> list[str]:
    import shlex  # noqa: PLC0415 - only who folds calls of a shell needs it

    try:
        return shlex.split(part)
    except ValueError:  # a quote that does not close
        return part.split()


def _bare(words: list[str]) -> list[str]:
    """The words of a command without assignments and those who only run it."""
    while words:
        if _ASSIGNMENT.match(words[0]) is not None:
            words = words[1:]
        elif (words[0].rpartition("/")[2], *words[1:2]) in _RUNNERS_OF_TWO:
            words = words[2:]
        elif words[0].rpartition("/")[2] in _RUNNERS and len(words) > 1:
            takes = words[0] == "timeout" or words[1] in ("-n", "-u", "-k", "-s")
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[1:]
            words = words[1:] if takes and len(words) > 1 else words
        else:
            break
    return words
