"""ARCHITECTURE.md, the decisions and the glossary name modules and names that exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "memplane"
MAP = ROOT / "ARCHITECTURE.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [MAP, GLOSSARY, *DECISIONS]
FOR_USERS = [
    ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("agents", "formats", "library", "release")),
]  # fmt: skip
WORDS_MAX = 1_500
DATE = re.compile(r"20\d\d-\d\d-\d\d\. \S")
ELSEWHERE = ("tests/", "tools/", "benchmarks/")
RUNTIME = ("bodies/", "log/")  # folders of a plane


def paragraphs(page: Path) -> list[str]:
    """Runs of lines without a blank one between them; each row of a table and list by itself."""
    text = re.sub(r"\n(?=\||- |\d+\. )", "\n\n", page.read_text())
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def place_of(name: str) -> Path:
    """Where a path of the pages lies; most are relative to the package."""
    return (ROOT if name.startswith(ELSEWHERE) or name == "memplane/" else PACKAGE) / name


def named_paths(paragraph: str) -> list[Path]:
    """The paths in a paragraph; a bare file name belongs to the last folder named before it."""
    found, folder = [], ""
    for name in re.findall(r"`([\w./-]+(?:\.py|/)|tests/\w+)`", paragraph):
        if name.endswith("/"):
            folder = name
        elif "/" in name:
            folder = f"{name.rpartition('/')[0]}/"
        elif not place_of(name).exists():
            name = f"{folder}{name}"  # noqa: PLW2901 - the same name, whole
        found.append(place_of(name))
    return found


def label(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_every_module_that_a_page_names_exists(page):
    runtime = {PACKAGE / name for name in RUNTIME}
    paths = [path for paragraph in paragraphs(page) for path in named_paths(paragraph)]
    assert paths
    assert [str(path) for path in paths if not path.exists() and path not in runtime] == []


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_every_name_that_a_page_places_in_a_module_is_there(page):
    missing = []
    for paragraph in paragraphs(page):
        inside = re.findall(r"`([A-Za-z_.]+)` (?:in|of) `([\w/.]+\.py)`", paragraph)
        behind = re.findall(r"`([\w/.]+\.py)` \(`([A-Za-z_.]+)`\)", paragraph)
        for name, module in [*inside, *((name, module) for module, name in behind)]:
            text = place_of(module).read_text()
            missing += [
                f"{name} in {module}"
                for part in name.split(".")
                if not re.search(rf"\b{re.escape(part)}\b", text)
            ]
    assert missing == []


def test_every_member_of_a_class_that_a_page_names_is_there():
    modules = [module.read_text() for module in PACKAGE.rglob("*.py")]
    named = {
        pair for page in PAGES for pair in re.findall(r"`([A-Z]\w+)\.([a-z]\w+)`", page.read_text())
    }
    assert named
    for of, member in named:
        assert any(
            re.search(rf"^class {of}\b", text, re.MULTILINE) and re.search(rf"\b{member}\b", text)
            for text in modules
        ), f"{of}.{member}"


@pytest.mark.parametrize("page", FOR_USERS, ids=label)
def test_every_module_and_test_that_a_page_for_users_names_exists(page):
    text = page.read_text()
    dotted = re.findall(r"\b(?:from|import) (memplane(?:\.\w+)*)", text)
    paths = re.findall(r"(?<![\w./])((?:memplane|tests|tools|benchmarks)/[\w/.*-]*\w\*?)", text)
    named = [*paths, *(name.replace(".", "/") for name in dotted)]
    assert named
    assert [name for name in named if not any(ROOT.glob(f"{name.rstrip('*')}*"))] == []


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_every_file_that_a_page_links_to_is_there(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_architecture_is_two_pages():
    assert len(MAP.read_text().split()) <= WORDS_MAX


def test_the_architecture_gives_the_layers_that_the_linter_checks():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    assert " > ".join(layers) in " ".join(MAP.read_text().split())


def test_the_architecture_names_every_room():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    text = MAP.read_text()
    assert sorted(room for room in rooms if f"`{room}/`" not in text) == []


def test_the_page_of_decisions_lists_every_page():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    assert listed == {page.name for page in DECISIONS} - {"README.md"}


@pytest.mark.parametrize("page", DECISIONS, ids=label)
def test_every_decision_has_its_date(page):
    entries = re.split(r"^### ", page.read_text(), flags=re.MULTILINE)[1:]
    assert entries or page.name == "README.md"
    for entry in entries:
        title, _, body = entry.partition("\n")
        assert DATE.match(body), title


def test_every_term_of_the_glossary_names_the_file_where_it_lives():
    terms = [part for part in paragraphs(GLOSSARY) if part.startswith("- **")]
    assert len(terms) >= 40  # what a newcomer meets in the first files
    assert [term for term in terms if not term.endswith(".py`")] == []
