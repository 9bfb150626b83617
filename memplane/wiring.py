"""Names in a policy to objects, and the two ways into a plane: `init` and `open`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from memplane import home, tokens
from memplane.clock import clock
from memplane.errors import HomeError, InputError
from memplane.home import HOME_NAME, Assets, Home
from memplane.intake.redact import shown
from memplane.plane.ulids import ulid
from memplane.policy import NAMES, variables
from memplane.ports import Clock, Detector, Embedder, TokenCounter

if TYPE_CHECKING:
    from memplane.plane import Plane
    from memplane.plane.packer import Packer
    from memplane.plane.restoring import RestoreReport

__all__ = [
    "clock",
    "find_detector",
    "find_embedder",
    "find_home",
    "init",
    "make_counter",
    "open_light",
    "open_plane",
    "restore",
]


# The groups of entry points.
DETECTORS = "memplane.detectors"
EMBEDDERS = "memplane.embedders"


@cache
def make_counter(name: str, scale_ppm: int) -> TokenCounter:
    """The counter that a policy names, one a process; its tables are read at the first count."""
    return tokens.make(name, scale_ppm=scale_ppm, table=_table)


def _table() -> bytes:
    return (Path(__file__).parent / "tokens" / "bound1.idx").read_bytes()


def find_home(path: str | os.PathLike[str] | None = None) -> Path:
    """The plane's folder: the path given, else MEMPLANE_HOME, else the nearest one upward.

    Raises HomeError where there is none.
    """
    given = path if path is not None else os.environ.get("MEMPLANE_HOME") or None
    if given is not None:
        folder = Path(given).expanduser()
        nested = folder / HOME_NAME
        return nested if not (folder / "plane.json").exists() and nested.is_dir() else folder
    found = home.find(os.getcwd())  # noqa: PTH109 - a text is asked for
    if found is None:
        raise HomeError(
            f"{Path.cwd()}: no {HOME_NAME} here or above; make one with `memplane init`, or name "
            "one with --home or MEMPLANE_HOME"
        )
    return Path(found)


def init(
    path: str | os.PathLike[str] | None = None, *, durability: Literal["sync", "os"] = "sync",
    clock: Clock = clock, detector: Detector | None = None,
    environment: Mapping[str, str] | None = None, embedder: Embedder | None = None,
) -> Plane:  # fmt: skip
    """Make a plane in a folder (default: `.memplane` here) and open it, or open the one there."""
    folder = Path(path).expanduser() if path is not None else Path.cwd() / HOME_NAME
    from memplane.plane.files import put_schemas  # noqa: PLC0415 - a hook does without

    now = clock()
    made = home.create(folder, ulid(now), now, Assets("policies", NAMES))
    put_schemas(made.path)
    return _opened(made, durability, clock, detector, environment, embedder)


def open_plane(
    path: str | os.PathLike[str] | None = None, *, durability: Literal["sync", "os"] = "sync",
    clock: Clock = clock, read_only: bool = False, detector: Detector | None = None,
    environment: Mapping[str, str] | None = None, embedder: Embedder | None = None,
) -> Plane:  # fmt: skip
    """Open the plane in a folder; without one, find it as `find_home` does.

    `detector` is a second engine for secrets, asked after memplane's own rules. `embedder` makes
    the vectors in place of the one that plane.yaml names. Variables of the
    `environment` (by default the process's) stand before values of the policies:
    `MEMPLANE_BUDGETS__SCALE=1.2`; give {} for none.
    """
    found = home.open_home(find_home(path))
    if read_only:
        found = found._replace(read_only=True)
    return _opened(found, durability, clock, detector, environment, embedder)


def open_light(found: Home, clock: Clock, environment: Mapping[str, str]) -> Packer:
    """Open a plane for one answer: nothing is written, and the saved index is read without arrays.

    The standard library alone, for a process that lives for a tenth of a second.
    """
    from memplane.plane.packer import Packer  # noqa: PLC0415 - and nothing else of a plane

    return Packer(
        found._replace(read_only=True), clock=clock, make_counter=make_counter,
        overrides=variables(environment), plain=True,
    )  # fmt: skip


def restore(
    export: str | os.PathLike[str] | IO[bytes], into: str | os.PathLike[str] | None = None, *,
    durability: Literal["sync", "os"] = "sync", clock: Clock = clock, name: str = "",
    environment: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RestoreReport:  # fmt: skip
    """Bring an export back: a file, or an open one that can be read twice.

    A whole one becomes the plane that it was in a folder without a plane, or in a plane that holds
    nothing: same id, seqs and chain, the same bytes. Into a plane with events, and of a part, the
    events are recorded anew, with their ids and, in `data.origin`, where they are from; a second
    time records nothing. Without `into` it is the plane that `find_home` finds, else `.memplane`
    here. All of the export is checked before anything is written: raises InputError for one that
    is damaged, cut or foreign (`name` stands before the line), FormatError for a newer one,
    WriteError, HomeError.
    """
    from memplane.plane import restoring  # noqa: PLC0415 - whoever records and packs does without
    from memplane.plane.files import put_schemas  # noqa: PLC0415 - likewise

    folder = _restored_to(into)
    with contextlib.ExitStack() as opened:
        if isinstance(export, str | os.PathLike):
            name = name or os.fspath(export)
            try:
                file: IO[bytes] = opened.enter_context(Path(export).open("rb"))
            except OSError as error:
                raise InputError(f"{name}: cannot be read: {error.strerror}") from error
        else:
            file, name = export, name or "export"
        checked = restoring.check_export(file, name, progress)
        empty = restoring.is_empty(folder)
        if checked.opened.whole and empty:
            restoring.restore_whole(
                file, name, folder, checked, created=clock(), policies=Assets("policies", NAMES),
                progress=progress,
            )  # fmt: skip
            put_schemas(folder)
            return restoring.RestoreReport(os.fspath(folder), checked, None)
        begin = init if empty else open_plane
        with begin(folder, durability=durability, clock=clock, environment=environment) as plane:
            if plane.read_only:
                raise HomeError(f"{folder}: is read-only; nothing was restored")
            restoring.clear_left(folder)
            merged = plane.merge(file, name, progress)
        return restoring.RestoreReport(os.fspath(folder), checked, merged)


def _restored_to(into: str | os.PathLike[str] | None) -> Path:
    """The folder that is named or found; the usual one here where there is none."""
    if into is None and not os.environ.get("MEMPLANE_HOME"):
        return Path(home.find(os.getcwd()) or HOME_NAME).absolute()  # noqa: PTH109 - likewise
    return find_home(into)


def find_detector(name: str) -> Detector:
    """The detector that an installed package offers by this name, in group `memplane.detectors`.

    Raises InputError naming those there are.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that few processes pay

    offered = entry_points(group=DETECTORS)
    if name not in offered.names:
        known = ", ".join(sorted(offered.names)) or "none"
        raise InputError(
            f"no detector {shown(name)} is installed (found: {known}); a package offers one as an "
            f"entry point of the group {DETECTORS}",
            where="detector",
        )
    made = offered[name].load()
    detector: Detector = made() if isinstance(made, type) else made
    return detector


@cache
def find_embedder(name: str) -> Embedder:
    """The embedder that a policy names, one a process.

    memplane's own, or what an installed package offers in group `memplane.embedders`. Raises
    MissingExtraError for `all-MiniLM-L6-v2` without its weights, InputError naming those there are.
    """
    if name == "all-MiniLM-L6-v2":
        from memplane.adapters.minilm import MiniLM  # noqa: PLC0415 - it brings numpy along

        return MiniLM()
    if name == "static":
        from memplane.index.static import StaticTable  # noqa: PLC0415 - likewise

        return StaticTable((Path(__file__).parent / "index" / "data" / "static.i8").read_bytes())
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that few processes pay

    offered = entry_points(group=EMBEDDERS)
    if name not in offered.names:
        known = ", ".join(("all-MiniLM-L6-v2", "static", *sorted(offered.names)))
        raise InputError(
            f"no embedder {shown(name)} is installed (found: {known}); a package offers one as an "
            f"entry point of the group {EMBEDDERS}",
            where="policies/plane.yaml: index.embedder",
        )
    made = offered[name].load()
    embedder: Embedder = made() if isinstance(made, type) else made
    return embedder


def _opened(
    found: Home, durability: str, clock: Clock, detector: Detector | None,
    environment: Mapping[str, str] | None, embedder: Embedder | None,
) -> Plane:  # fmt: skip
    if durability not in ("sync", "os"):
        raise InputError(f"expected sync or os, found {durability!r}", where="durability")
    from memplane.plane import Plane  # noqa: PLC0415 - likewise

    return Plane(
        found, clock=clock, make_counter=make_counter, durability=durability, loads=_loads(),
        detector=detector, overrides=variables(os.environ if environment is None else environment),
        make_embedder=find_embedder, embedder=embedder,
    )  # fmt: skip


def _loads() -> Callable[[bytes], Any]:
    """The reader of lines: orjson, five times the standard library's speed over a whole log."""
    import orjson  # noqa: PLC0415 - 20 ms that a process which only imports memplane does not pay

    return orjson.loads
