"""The README and the pages name commands, files and targets that are there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]  # fmt: skip
EVERY = "\n".join(page.read_text() for page in PAGES)


def label(page):
    return page.relative_to(ROOT).as_posix()


def test_the_blocks_of_the_library_give_what_providers_take(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    page = (ROOT / "docs" / "library.md").read_text()
    for code in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(compile(code, "library.md", "exec"), names)
    assert "Never push to main" in names["openai_messages"][0]["content"]
    pieces = names["request"]["system"]
    assert "".join(piece["text"] for piece in pieces) == names["block"].text
    assert sum("cache_control" in piece for piece in pieces) <= 4
    assert "Why does the build fail?" in capsys.readouterr().out


def test_every_command_that_a_page_names_is_there_and_every_command_is_named():
    help_page = subprocess.run(
        [sys.executable, "-m", "memplane", "--help"], capture_output=True, text=True, check=True
    ).stdout
    there = set(re.findall(r"^  ([a-z]+)  ", help_page, re.MULTILINE))
    code = "\n".join(
        [
            *re.findall(r"^```.*?^```$", EVERY, re.MULTILINE | re.DOTALL),
            *re.findall(r"`[^`\n]+`", EVERY),
        ]
    )
    named = set(re.findall(r"(?:^|[`$|&(] ?)memplane ([a-z]+)", code, re.MULTILINE))
    assert named - there == set()
    assert there - named == set()


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_every_file_that_a_page_links_to_is_there(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_every_heading_that_a_page_links_to_is_there(page):
    for target, place in re.findall(r"\]\(([^):]*)#([^)]+)\)", page.read_text()):
        text = (page.parent / target).read_text() if target else page.read_text()
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert place in {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


def test_the_commands_of_the_readme_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test", "test-long", "bench", "lint", "docs"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
