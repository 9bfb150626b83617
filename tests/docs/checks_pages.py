"""Runs the blocks of the pages for users, in order, in one empty folder a page.

What is compared:

* a block `console`: lines that begin with `$ ` are commands of a shell, the lines behind each are
  what it prints, first on stderr, then on stdout; `# (exit code 1)` behind one says how it ends, else it ends well.
* a block `python`, and what it prints: the lines of the block `text` right behind it, if there is
  one.
* a block `sh` holds commands whose output nobody needs to read; they must end well.

Times, ids, hashes, durations and the folder are other ones in each run: they are compared by their
form. A line `…` stands for any number of lines. `python tests/docs/checks_pages.py PAGE...` writes what
the commands print into a page, for its author to read.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(console|python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FORMS = (
    (r"\b0[0-9A-HJKMNP-TV-Z]{25}\b", "ULID"),
    (r"\b\d{8}T\d{6}(?:\.\d+)?Z?[\w.-]*", "STAMP"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?", "TIME"),
    (r"\b\d\d-\d\d \d\d:\d\d\b", "TIME"),
    (r"\bto (?:\d\d:\d\d|\d{4}-\d\d-\d\d)\b", "to TIME"),
    (r"\b\d{4}-\d\d-\d\d\b", "DAY"),
    (r"\bsession \d\d-\d\d\b", "session DAY"),
    (r"\b\d+(?:\.\d+)? (?:ms|s|MB/s)\b", "DURATION"),
    (r"\b(?:[0-9a-f]{16,64}|[0-9a-f]{8})\b", "HASH"),
    (r"\b\d[\d,]* bytes\b", "SIZE"),
    # A day in a block costs more or less than another day.
    (r"\b\d[\d,]*(?= of \d[\d,]* tokens\b| tokens, byte for byte)", "COST"),
    (r"\b\d+ %(?= of the tokens as in)", "SHARE"),
)  # fmt: skip


# A line that is one command of memplane, and what its output goes to, needs no shell for it: it may
# be a copy of a process.
ONE = re.compile(
    r"""(?:cd\ (\w+)\ &&\ )?memplane\b
    ((?:"[^"$`\\]*" | '[^']*' | (?<=\ )\#.* | [^"'|&;<>$`*?~\\\n\#])*?)\ *
    (2>/dev/null\ )?(?:(\||>)\ ?(.*))?""",
    re.VERBOSE,
)


class Done(NamedTuple):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


class Step(NamedTuple):
    """A command or program of a page, what the page says that it prints, and where that stands."""

    kind: str
    code: str
    said: str | None
    line: int


def steps(text: str) -> list[Step]:
    """The steps of a page, in order."""
    found: list[Step] = []
    blocks = list(BLOCK.finditer(text))
    for at, block in enumerate(blocks):
        kind, body = block[1], block[2]
        line = text.count("\n", 0, block.start()) + 2
        if kind == "sh":
            found += [
                Step("sh", one, None, line + at) for at, one in enumerate(body.splitlines()) if one
            ]
        elif kind == "console":
            assert body.startswith("$ "), f"line {line}: a console begins with a command"
            for part in re.split(r"^\$ (?=[a-zA-Z])", body, flags=re.MULTILINE)[1:]:
                code, _, said = part.partition("\n")
                while code.endswith("\\"):
                    more, _, said = said.partition("\n")
                    code = f"{code}\n{more}"
                if "<<'END'" in code:
                    more, _, said = said.partition("\nEND\n")
                    code = f"{code}\n{more}\nEND"
                found.append(Step("console", code, said, line))
        elif kind == "python":
            behind = blocks[at + 1] if at + 1 < len(blocks) else None
            near = behind is not None and text[block.end() : behind.start()].strip() == ""
            said = behind[2] if near and behind[1] == "text" else None
            found.append(Step("python", body, said, line))
    return found


def run(found: list[Step], folder: Path) -> list[str]:
    """What each step prints, run one after the other in a folder. Raises where one fails."""
    folder.joinpath("bin").mkdir()
    program = folder / "bin" / "memplane"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memplane "$@"\n')
    program.chmod(0o755)
    work = folder / "project"
    work.mkdir()
    left_out = ("MEMPLANE", "CLAUDE", "CODEX", "NO_COLOR", "GIT_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    environment = {
        **kept, "HOME": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(folder / "state"), "SHELL": "/bin/bash", "COLUMNS": "80",
        "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "Ana", "GIT_COMMITTER_NAME": "Ana",
        "GIT_AUTHOR_EMAIL": "ana@example.org", "GIT_COMMITTER_EMAIL": "ana@example.org",
    }  # fmt: skip
    names: dict = {"__name__": "__main__"}
    return [_ran(step, work, environment, names) for step in found]


def _run(words: list[str], folder: Path, environment: dict[str, str], **more: str) -> Done:
    stdin = {} if more else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False,
        **more, **stdin,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def _ran(step: Step, work: Path, environment: dict[str, str], names: dict) -> str:
    if step.kind == "python":
        said = io.StringIO()
        with contextlib.chdir(work), contextlib.redirect_stdout(said):
            exec(compile(step.code, f"line {step.line}", "exec"), names)
        return said.getvalue()
    one = ONE.fullmatch(step.code)
    if one is None:
        done = _run(["bash", "-c", step.code], work, environment)
    else:
        folder, words, nothing, into, more = one.groups()
        at = work / (folder or "")
        words = shlex.split(words, comments=True)
        done = _run([sys.executable, "-m", "memplane", *words], at, environment)
        if nothing:
            done = done._replace(stderr="")
        if into == ">":
            (at / more).write_text(done.stdout)
            done = done._replace(stdout="")
        elif into:
            piped = _run(["bash", "-c", more], at, environment, input=done.stdout)
            done = piped._replace(stderr=done.stderr + piped.stderr)
    fails = step.kind == "console" and step.said is not None and "(exit code " in step.code
    expected = int(re.search(r"\(exit code (\d+)\)", step.code)[1]) if fails else 0
    printed = done.stderr + done.stdout
    assert done.code == expected, f"line {step.line}: {step.code}\n{printed}"
    return printed.replace(str(work.parent), "/home/ana")


def form(text: str) -> list[str]:
    """The lines of an output, with what is another in each run by its form."""
    for pattern, name in FORMS:
        text = re.sub(pattern, name, text)
    return [re.sub(r" {2,}", "  ", line.rstrip()) for line in text.strip("\n").splitlines()]


def agree(said: str, printed: str) -> bool:
    """Whether what a page says is what was printed; `…` alone in a line stands for any lines."""
    parts: list[list[str]] = [[]]
    for line in form(said):
        if line.strip() == "…":
            parts.append([])
        else:
            parts[-1].append(line)
    lines = form(printed)
    if len(parts) == 1:
        return parts[0] == lines
    first, *middle, last = parts
    if lines[: len(first)] != first or (last and lines[-len(last) :] != last):
        return False
    at = len(first)
    for part in middle:
        places = range(at, len(lines) - len(last) - len(part) + 1)
        place = next((one for one in places if lines[one : one + len(part)] == part), None)
        if place is None:
            return False
        at = place + len(part)
    return at <= len(lines) - len(last)


def written(text: str, printed: list[tuple[Step, str]]) -> str:
    """The page with what was printed in place of what it says; what has `…` is left alone."""

    consoles = iter([real for step, real in printed if step.kind == "console"])

    def block(found: re.Match) -> str:
        if found[1] != "console":
            return found[0]
        lines = []
        for step in steps(found[0]):
            real = next(consoles)
            keeps = step.said.strip() and agree(step.said, real)
            lines.append(f"$ {step.code}\n{step.said if keeps else real}".rstrip("\n"))
        return "```console\n" + "\n".join(lines) + "\n```"

    text = BLOCK.sub(block, text)
    for step, real in printed:
        if step.kind == "python" and step.said is not None and not agree(step.said, real):
            text = text.replace(f"{step.code}```\n\n```text\n{step.said}```", f"{step.code}```\n\n```text\n{real}```")  # fmt: skip
    return text


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        found = steps(page.read_text())
        with tempfile.TemporaryDirectory() as folder:
            done = run(found, Path(folder).resolve())
        page.write_text(written(page.read_text(), list(zip(found, done, strict=True))))
