"""The pages for users do what they show: each block runs, and prints what stands behind it."""

import re
import shutil

import pytest
from checks_pages import DOCS, ROOT, agree, run, steps

PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
WITH_STEPS = [page for page in PAGES if steps(page.read_text())]
EVERY = "".join(page.read_text() for page in PAGES)


def label(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", WITH_STEPS, ids=label)
def test_each_block_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path):
    found = steps(page.read_text())
    if any(step.code.startswith("git ") for step in found) and shutil.which("git") is None:
        pytest.skip("no git here")
    wrong = [
        f"{label(page)}, line {step.line}: {step.code}\nsays\n{step.said}\nprinted\n{printed}"
        for step, printed in zip(found, run(found, tmp_path), strict=True)
        if step.said is not None and not agree(step.said, printed)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_readme_fits_a_screen_or_two_and_shows_a_picture():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 120
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+\.svg)\)", readme)
    assert (ROOT / picture).stat().st_size < 20_000


def test_outputs_agree_by_their_form_and_dots_stand_for_any_lines():
    assert agree("2 01M8ACABQ7E5HN97E94B5XCD8H", "2 01M8ZZZZZZE5HN97E94B5XCD8H\n")
    assert agree("a\n…\nz\n", "a\nb\nc\nz\n")
    assert agree("a\n…\nm\n…\n", "a\nb\nm\nz\n")
    assert agree("12.5 ms", "7.1 ms")
    assert not agree("a\n…\nm\n…\n", "a\nb\nz\n")
    assert not agree("3 events", "4 events")
    assert not agree("a\n", "a\nb\n")
    assert not agree("", "a\n")


def test_the_navigation_names_every_page_once_and_no_other():
    text = (ROOT / "mkdocs.yml").read_text()
    named = re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", text, re.MULTILINE)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
