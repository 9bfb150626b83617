"""The README's blocks run as they stand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def ran(line: str, folder: Path) -> str:
    """What a line of a shell prints; a line that is one command of memplane needs no shell."""
    one = line.startswith("memplane ") and not {*"|&;<>$`*?"} & {*line.partition("#")[0]}
    words = shlex.split(line, comments=True)[1:]
    memplane = [sys.executable, "-m", "memplane"]
    shell = ["sh", "-e", "-c", line.replace("memplane ", f"{shlex.join(memplane)} ")]
    done = subprocess.run(
        [*memplane, *words] if one else shell, cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout


def test_the_tours_on_the_command_line_run_one_after_the_other(tmp_path):
    lines = "".join(blocks("sh")).splitlines()
    said = "".join(ran(line, tmp_path) for line in lines)
    assert "We move to SQLite" in said
    block = said[said.index("memplane:begin") : said.index("memplane:end")]
    assert "We keep PostgreSQL" not in block
    goal_on = said[said.rindex("memplane:begin") :]
    assert "task parse-nested-lists (active): Parse nested lists" in goal_on
    assert "The lexer never looks ahead" in goal_on


def test_the_python_blocks_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), names)
    assert "Never push to main" in names["openai_messages"][0]["content"]
    pieces = names["request"]["system"]
    assert "".join(piece["text"] for piece in pieces) == names["block"].text
    assert sum("cache_control" in piece for piece in pieces) <= 4
    assert "Why does the build fail?" in capsys.readouterr().out


def test_every_command_is_named_in_the_readme_or_its_help():
    help_page = subprocess.run(
        [sys.executable, "-m", "memplane", "--help"], capture_output=True, text=True, check=True
    ).stdout
    code = "\n".join(
        [
            *re.findall(r"^```.*?^```$", README, re.MULTILINE | re.DOTALL),
            *re.findall(r"`[^`]+`", README),
        ]
    )
    for command in re.findall(r"(?:^|`)memplane ([a-z]+)", code, re.MULTILINE):
        assert f"  {command}" in help_page, command


def test_every_file_that_the_readme_links_to_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_two_commands_of_the_readme_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test", "test-long", "bench", "lint"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
