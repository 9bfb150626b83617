"""The face of the package: its names, its weight, its errors."""

import builtins
import subprocess
import sys

import memplane
from memplane import errors

HEAVY = ("numpy", "yaml", "typer", "rich", "jsonschema", "orjson", "asyncio", "sqlite3", "rs_bpe")


def loaded_after(code: str, *arguments: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    return set(ran.stdout.split())


def test_the_public_names_are_these_and_each_can_be_had():
    assert memplane.__all__ == [
        "AsyncPlane", "Block", "BudgetError", "BulkReceipt", "ChangedError", "ConfigurationError", "ConflictError", "CorruptError",
        "Entry", "EpisodeNotFoundError", "Event", "FormatError", "HomeError", "InputError", "LockError", "MarkerType", "MemplaneError",
        "MissingExtraError", "NotFoundError", "Omission", "ParsedBlock", "ParsedEntry", "ParsedSection",
        "Plane", "PlaneError", "PolicyError", "ProviderError", "PurgedError", "Receipt", "ScopeError", "SearchHit",
        "SecurityError", "SessionNotFoundError", "Spooled", "UntrustedError", "WriteError", "aopen", "init", "open", "parse_block", "restore", "schema",
    ]  # fmt: skip
    assert all(getattr(memplane, name) is not None for name in memplane.__all__)


def test_the_types_of_markers_are_texts_that_record_takes(tmp_path):
    assert [*memplane.MarkerType] == ["decision", "constraint", "failure", "goal"]
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        given = [memplane.MarkerType.GOAL, "custom:later"]
        event = plane.record("Ship it", markers=given).event
        assert event.markers == ("goal", "custom:later")
        assert {type(marker) for marker in event.markers} == {str}
    with memplane.open(tmp_path / "p") as plane:
        assert plane.event(event.id) == event


def test_importing_memplane_imports_nothing_heavy():
    added = loaded_after("import memplane") - loaded_after("pass")
    assert not added & set(HEAVY)
    assert len(added) <= 40, sorted(added)


def test_a_fast_pack_with_warm_caches_imports_no_yaml_jsonschema_typer_or_numpy(tmp_path):
    with memplane.init(tmp_path / "p") as plane:
        plane.record("hello", role="user", session="s")
        plane.pack("hello")
    code = (
        "import memplane, sys\nwith memplane.open(sys.argv[1]) as p: p.pack('hello', intent='fast')"
    )
    loaded = loaded_after(code, str(tmp_path / "p"))
    assert not loaded & {"numpy", "yaml", "typer", "rich", "jsonschema", "asyncio", "rs_bpe"}


def test_every_error_is_a_memplane_error_and_shadows_no_builtin():
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert not hasattr(builtins, name)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            assert issubclass(kind, errors.MemplaneError)
            assert kind.__doc__


def test_the_error_tree_in_the_docstring_is_the_real_one():
    drawn = errors.__doc__
    for name in errors.__all__:
        if name != "Problem":
            assert name in drawn, name
