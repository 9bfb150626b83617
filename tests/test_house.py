"""House rules that a reader can rely on: length of functions, names, purity, and what is absent."""

import ast
import functools
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "memplane"
MODULES = sorted(PACKAGE.rglob("*.py"))
FUNCTION_LINES_MAX = 60
FOLDER_MODULES_MAX = 20
PURE = ("event.py", "intake", "recall", "pack", "tokens", "policy")
BANNED_WORDS = ("utils", "helpers", "manager", "base", "core", "misc", "common")


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


@functools.cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def functions(module: Path):
    """The functions of a module, inner ones too: statements alone are looked at."""
    left: list[ast.AST] = [tree_of(module)]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, inner, []) if not isinstance(node, ast.expr) else []


def test_no_function_is_longer_than_a_screen():
    long = [
        f"{name_of(module)}:{node.name} {node.end_lineno - node.lineno + 1}"
        for module in MODULES
        for node in functions(module)
        if node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_every_module_says_what_it_is_for():
    assert [name_of(m) for m in MODULES if not ast.get_docstring(tree_of(m))] == []


def test_names_say_what_a_room_is_for():
    assert [name_of(m) for m in MODULES if m.stem in BANNED_WORDS] == []


def test_no_room_has_more_than_twenty_modules():
    rooms = Counter(module.parent.relative_to(PACKAGE).as_posix() for module in MODULES)
    assert {room: count for room, count in rooms.items() if count > FOLDER_MODULES_MAX} == {}


def imports_of(module: Path, modules: frozenset[str]) -> set[str]:
    """The modules of the package that one imports, for type checkers alone and late ones too."""
    found = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {f"{node.module}.{one.name}" for one in node.names}
            found |= {one if one in modules else node.module for one in names}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found & modules


def test_no_two_modules_import_each_other_by_whatever_way():
    """import-linter sees rooms only, and no import for type checkers; a reader meets them all."""
    named = {
        ".".join(("memplane", *m.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): m
        for m in MODULES
    }
    graph = {name: imports_of(module, frozenset(named)) - {name} for name, module in named.items()}
    while leaves := {name for name, to in graph.items() if not to & graph.keys()}:
        graph = {name: to for name, to in graph.items() if name not in leaves}
    assert sorted(graph) == []  # what is left stands in a circle, or leads into one


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
            for node in ast.walk(tree_of(module)):
                assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)), module
                assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), (
                    module
                )


def test_nothing_in_the_repository_is_left_to_be_done():
    words = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert [name_of(m) for m in MODULES if words.search(m.read_text())] == []


# Which rooms touch a plane's folder: they open, list, make and remove through `memplane.nofollow`.
OF_THE_PLANE = (
    "home.py", "log/", "projections/", "index/", "context/", "search/", "artifacts.py", "work/", "upkeep/", "plane/", "hook/", "explain/", "adapters/", "mcp/",
    "recall/", "pack/", "intake/", "importers/records.py", "cli/maintenance.py", "cli/policy.py",
     "cli/show.py", "wiring.py",
)  # fmt: skip
OS_CALLS = frozenset((
    "open", "mkdir", "makedirs", "rename", "replace", "unlink", "remove", "rmdir", "listdir",
    "scandir", "link", "symlink", "truncate", "chmod", "utime", "walk", "fwalk", "mkfifo",
))  # fmt: skip
PATH_CALLS = frozenset((
    "read_bytes", "read_text", "write_bytes", "write_text", "mkdir", "unlink", "rename", "touch",
    "glob", "rglob", "iterdir", "symlink_to", "hardlink_to", "rmdir", "chmod",
))  # fmt: skip
# By the name before the dot; all calls where it says None.
ROOM_CALLS = {
    "os": OS_CALLS, "shutil": None, "tempfile": None, "sqlite3": ("connect",), "nofollow": (),
    "commands": (),
}  # fmt: skip
# What is no file of a plane, or is reached through a descriptor that `nofollow` gave.
ELSEWHERE = {
    "home.py": {
        'open(f"{root}/{name}", "rb")',  # files that ship with memplane
        "path.mkdir(mode=0o700, parents=True, exist_ok=True)",  # the home itself, and above it
        "os.scandir(home)",  # looks for the links that are refused
        'open(descriptor, "wb")',
        "os.link(draft, path)",  # in the home, or in a folder of it that was entered for the draft
        "os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)",  # synced, nothing else
    },
    "log/segments.py": {"os.scandir(fd)"},
    "index/storage.py": {'open(descriptor, "wb")'},
    "index/segment.py": {"(folder / name).read_bytes()"},  # tables of the package
    "projections/memories.py": {  # after a look at the names, in a folder that is open
        "sqlite3.connect(name, uri=path is not None, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)"
    },
    "search/retriever.py": {"path.open('rb')"},  # tables of the package
    "search/passages.py": {"_COMMON.read_bytes()"},  # likewise
    "upkeep/restore.py": {"os.rmdir(folder)"},  # those above the home that it has made
    "context/context.py": {"shutil.rmtree(folder, ignore_errors=True)"},  # of a plane in memory
    "upkeep/export.py": {"sqlite3.connect(new, isolation_level=None)"},  # a draft made just before
    "cli/maintenance.py": {  # the folder of a demo, and its sample
        "tempfile.TemporaryDirectory(prefix='memplane-')",
        "transcript.write_bytes(asset(f'{SAMPLES}/{SESSION}'))", "view.write_text(text)",
        "os.listdir(folder)",
    },
    "upkeep/doctor.py": {
        "Path('/proc/self/mounts').read_text(errors='surrogateescape')",
    },
    "context/artifact_files.py": {  # a file that a person names, to add or to write
        "os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 384)",
        "open(descriptor, 'wb')", "draft.replace(path)", "os.link(draft, path)",
        "draft.unlink(missing_ok=True)", "os.open(path, flags)", "open(descriptor, 'rb')",
    },
    "upkeep/reports.py": {"path.read_bytes()"},  # a report that a person names
    "explain/history.py": {  # git's output; names, of a person's folder too
        "tempfile.TemporaryFile()", "(root / 'views').rglob('*.md')",
        # Modes, through descriptors; links are not followed.
        "os.fwalk(top, follow_symlinks=False)", "os.open(name, flags, dir_fd=descriptor)",
    },
    "adapters/minilm.py": {  # the model's own files
        "(place / _WEIGHTS).open('rb')", "(place / _VOCABULARY).read_text(encoding='utf-8')",
    },
    "importers/records.py": {"os.walk(folder)", "path.open('rb')"},  # transcripts
    "index/stems.py": {"path.read_bytes()"},  # ships with memplane
    "mcp/server.py": {"os.open(os.devnull, os.O_RDONLY)"},
    "wiring.py": {
        "(Path(__file__).parent / 'tokens' / 'bound1.idx').open('rb')",
        "(Path(__file__).parent / 'index' / 'data' / 'static.i8').read_bytes()",
        "Path(export).open('rb')",  # what is restored
        "folder.iterdir()",  # whether there is anything
    },
}  # fmt: skip


def reaches_files(call: ast.Call) -> bool:
    """Whether a call opens, lists, makes, renames or removes a file by its name."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "open"
    if not isinstance(call.func, ast.Attribute):
        return False
    name, of = call.func.attr, call.func.value
    room = of.id if isinstance(of, ast.Name) else ""
    if room in ROOM_CALLS:
        return ROOM_CALLS[room] is None or name in ROOM_CALLS[room]
    only_constants = all(isinstance(one, ast.Constant) for one in call.args)
    if name == "open":
        modes = [one.value for one in call.args if isinstance(one, ast.Constant)]
        return bool(modes) and str(modes[0]).strip("bt+") in ("r", "w", "a", "x")
    if name == "replace":  # a text's has two arguments, a time's has names
        return len(call.args) == 1 and not call.keywords
    return name in PATH_CALLS and (name != "touch" or only_constants)  # an event is touched too


def test_files_of_a_plane_are_reached_through_the_one_module_that_follows_no_link():
    found, used = [], set()
    for module in MODULES:
        name = name_of(module)
        if not name.startswith(OF_THE_PLANE):
            continue
        allowed = {ast.unparse(ast.parse(one)) for one in ELSEWHERE.get(name, ())}
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Call) and reaches_files(node):
                said = ast.unparse(node)
                used.add((name, said))
                if said not in allowed:
                    found.append(f"{name}: {said}")
    assert found == []
    stale = [
        f"{name}: {one}"
        for name, calls in ELSEWHERE.items()
        for one in calls
        if (name, ast.unparse(ast.parse(one))) not in used
    ]
    assert stale == []


def test_a_public_name_means_one_thing():
    """Methods are not counted: what they mean is said by their class."""
    defined = defaultdict(list)
    for module in MODULES:
        for node in tree_of(module).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                defined[node.name].append(name_of(module))
    twice = {name: at for name, at in defined.items() if len(at) > 1 and not name.startswith("_")}
    assert twice == {}
