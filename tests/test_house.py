"""House rules that a reader can rely on: length of functions, names, purity, and what is absent."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "memplane"
MODULES = sorted(PACKAGE.rglob("*.py"))
FUNCTION_LINES_MAX = 60
PURE = ("event.py", "intake", "recall", "pack", "tokens", "policy")
BANNED_WORDS = ("utils", "helpers", "manager", "base", "core", "misc", "common")


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def functions(module: Path):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_function_is_longer_than_a_screen():
    long = [
        f"{name_of(module)}:{node.name} {node.end_lineno - node.lineno + 1}"
        for module in MODULES
        for node in functions(module)
        if node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_every_module_says_what_it_is_for():
    assert [name_of(m) for m in MODULES if not ast.get_docstring(ast.parse(m.read_text()))] == []


def test_names_say_what_a_room_is_for():
    assert [name_of(m) for m in MODULES if m.stem in BANNED_WORDS] == []


def test_no_pure_stage_asks_for_the_time():
    """The imports are import-linter's business; datetime is allowed for parsing, its clock is not."""
    asks = re.compile(r"\.(now|utcnow|today|fromtimestamp)\(")
    found = [
        f"{name_of(module)}: {line.strip()}"
        for module in MODULES
        if name_of(module).split("/")[0] in PURE
        for line in module.read_text().splitlines()
        if asks.search(line)
    ]
    assert found == []


def test_no_score_is_computed_in_floats():
    """Design: scores are integers. A division or a math function would make them depend on the CPU."""
    for module in MODULES:
        if name_of(module).startswith(("recall/", "pack/")):
            for node in ast.walk(ast.parse(module.read_text())):
                assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)), module
                assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), (
                    module
                )


def test_nothing_in_the_repository_is_left_to_be_done():
    words = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert [name_of(m) for m in MODULES if words.search(m.read_text())] == []
