"""Choose implementations by their names in the policies, and open planes."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from memplane import home, observe, tokens, trust
from memplane.clock import clock, ulid
from memplane.errors import HomeError, InputError, WriteError
from memplane.home import HOME_NAME, Assets, Home
from memplane.intake.redact import quoted_value, unexpected
from memplane.lazy import NamedTuple, late
from memplane.nofollow import temporary_folder
from memplane.policy import NAMES, variables
from memplane.ports import Clock, Detector, Embedder, TokenCounter
from memplane.tokens import CountsTokens, PluggedCounter

if TYPE_CHECKING:
    import mmap

    import orjson

    from memplane import plane as plane_room, projects, providers
    from memplane.adapters import minilm
    from memplane.context import context as context_context, watched_files
    from memplane.event import Draft, Event
    from memplane.index import vectors
    from memplane.log import FileLog
    from memplane.observe import Observer
    from memplane.plane import Plane, packer
    from memplane.providers import AsyncEmbedder
    from memplane.shared import follower as shared_follower
    from memplane.upkeep import restore as upkeep_restore
    from memplane.upkeep.restore import RestoreReport
else:
    mmap = late("mmap")
    orjson = late("orjson")
    minilm = late("memplane.adapters.minilm")
    context_context = late("memplane.context.context")
    watched_files = late("memplane.context.watched_files")
    vectors = late("memplane.index.vectors")
    plane_room = late("memplane.plane")
    packer = late("memplane.plane.packer")
    projects = late("memplane.projects")
    providers = late("memplane.providers")
    shared_follower = late("memplane.shared.follower")
    upkeep_restore = late("memplane.upkeep.restore")

MEMORY: Final = ":memory:"  # what `open` and `init` take for a plane in this process alone

# The groups of entry points.
DETECTORS = "memplane.detectors"
EMBEDDERS = "memplane.embedders"
_MINILM, _STATIC = "all-MiniLM-L6-v2", "static"  # embedders that come with memplane
COUNTERS = "memplane.counters"
_LOG_VARIABLE: Final = "MEMPLANE_LOG"


@cache
def make_counter(name: str, scale_ppm: int) -> TokenCounter:
    """The counter that a policy names, one a process; its tables are read at the first count."""
    return tokens.make(name, scale_ppm=scale_ppm, table=_table)


def _table() -> memoryview:
    """The counter's table: mapped, since a process asks for a small part of its four megabytes."""
    with (Path(__file__).parent / "tokens" / "bound1.idx").open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def find_home(path: str | os.PathLike[str] | None = None) -> Path:
    """The plane's folder: the path given, else MEMPLANE_HOME, else the nearest one upward.

    Else the user's own, `~/.memplane`. Raises HomeError where there is none, UntrustedError for one
    upward that is not trusted.
    """
    given = _named(path)
    return Path(trust.named_plane(given)) if given is not None else _upward().path


def find_plane(path: str | os.PathLike[str] | None = None) -> Home:
    """The plane that `find_home` finds, opened. Raises what that and `open_home` do."""
    given = _named(path)
    return home.open_home(trust.named_plane(given)) if given is not None else _upward()


def _named(path: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    """The folder that is named, by the path given or by MEMPLANE_HOME; InputError for no path."""
    given = path if path is not None else os.environ.get("MEMPLANE_HOME") or None
    if given is not None and "\0" in os.fspath(given):
        raise InputError(f"expected a folder, found {quoted_value(os.fspath(given))}", where="path")
    return given


class Caller(NamedTuple):
    """On whose behalf planes are opened: the command line sets it.

    `folder`: where it works, in the user's own plane its project; `project`: another one by name.
    `tell` is told what a person should know.
    """

    folder: str = ""
    project: str | None = None
    tell: Callable[[str], None] | None = None


CALLER: Final[ContextVar[Caller]] = ContextVar("CALLER", default=Caller())  # noqa: B039 - a tuple


def in_project(found: Home) -> Home:
    """The user's own plane for the project of the caller; any other as it is.

    Raises what `projects.for_name` does.
    """
    caller = CALLER.get()
    if caller.project is None and not found.parted:
        return found
    if caller.project is not None:
        return projects.for_name(found, caller.project)
    return projects.for_folder(found, caller.folder)[0]


def _upward() -> Home:
    """The nearest plane at or above this folder, if it is trusted; else the user's own."""
    here = os.getcwd()  # noqa: PTH109 - a text is asked for
    found = trust.upward(os.environ, here, user_folder())
    if found.passed is not None:
        raise trust.refusal(found, os.environ)
    own = os.path.join(user_folder(), HOME_NAME)  # noqa: PTH118 - a text
    if found.home is None and os.path.isabs(own) and os.path.isfile(f"{own}/plane.json"):  # noqa: PTH113, PTH117
        tell = CALLER.get().tell
        if tell is not None:
            tell(f"no {HOME_NAME} here or above: your own plane is used, {trust.printable(own)}")
        return home.open_home(own)
    if found.home is None:
        raise HomeError(
            f"{here}: no {HOME_NAME} here or above; make one with `memplane init`, or name "
            "one with --home or MEMPLANE_HOME"
        )
    return found.home


def user_folder() -> str:
    """The home folder of the user; `~` where there is no user."""
    return os.path.expanduser("~")  # noqa: PTH111 - pathlib raises where there is no user


def init(
    path: str | os.PathLike[str] | None = None,
    *,
    durability: Literal["sync", "os"] = "sync",
    clock: Clock = clock,
    detector: Detector | None = None,
    environment: Mapping[str, str] | None = None,
    embedder: Embedder | AsyncEmbedder | None = None,
    observer: Observer | None = None,
    counter: CountsTokens | str | None = None,
    trusted: bool = True,
    agent: str | None = None,
) -> Plane:
    """Make a plane in a folder (default: `.memplane` here) and open it, or open the one there.

    What is made is trusted from then on, so that it is used when it is found by looking upward;
    where that cannot be kept, a TrustWarning says so. Not for a plane that will always be named:
    `trusted=False`. Raises UntrustedError where `.memplane` is here already, and not trusted.
    """
    if path is not None and "\0" in os.fspath(path):
        raise InputError(f"expected a folder, found {quoted_value(os.fspath(path))}", where="path")
    used, observer = _plugged_in(embedder, observer, environment)
    if in_memory(path):
        return _opened(
            passing_home(clock), durability, clock, detector, environment, used, counter, agent,
            observer,
        )  # fmt: skip
    folder = Path(path).expanduser() if path is not None else Path.cwd() / HOME_NAME
    if not folder.name:  # ".": what is below it would not begin with it
        folder = folder.absolute()
    if path is None and (folder / "plane.json").exists():
        found = in_project(_upward())
        return _warned(
            _opened(found, durability, clock, detector, environment, used, counter, agent, observer)
        )

    now, empty = clock(), _is_empty(folder)
    made = home.create_home(folder, ulid(now), now, Assets("policies", NAMES))
    watched_files.put_schemas(made.path)
    if trusted and empty:
        _trust(made, folder, now)
    place = in_project(made)
    return _opened(place, durability, clock, detector, environment, used, counter, agent, observer)


def init_shared(
    path: str | os.PathLike[str] | None = None,
    name: str = "",
    *,
    address: str = home.ADDRESS_VARIABLE,
    join: bool = False,
    durability: Literal["sync", "os"] = "sync",
    clock: Clock = clock,
    environment: Mapping[str, str] | None = None,
) -> Plane:
    """Make a plane in a folder that follows a shared log, and open it.

    `name` is the log's; its engine's address stands in the variable `address` of the environment:
    `postgresql://host/database`, `nats://host`. The log is begun, or with `join` taken as it is.
    Raises InputError, ConflictError (begun before), NotFoundError (nothing to join), HomeError (a
    plane is here already), SharedLogError (the engine is not reached).
    """
    shared = home.shared_name(name, address)
    folder = Path(path).expanduser() if path is not None else Path.cwd() / HOME_NAME
    if not folder.name:
        folder = folder.absolute()
    if (folder / "plane.json").exists():
        raise HomeError(
            f"{folder}: a plane is here already; one that follows a shared log is made in a folder "
            "without; bring an export of this one there with `memplane restore`"
        )
    log = shared_follower.shared_log_of(shared, os.environ if environment is None else environment)
    now, empty = clock(), _is_empty(folder)
    try:
        if join:
            plane_id = shared_follower.plane_of_log(log)
        else:
            plane_id = ulid(now)
            shared_follower.begin_shared_log(log, plane_id)
    finally:
        log.close()
    made = home.create_home(folder, plane_id, now, Assets("policies", NAMES), shared)
    watched_files.put_schemas(made.path)
    if empty:
        _trust(made, folder, now)
    return _opened(in_project(made), durability, clock, None, environment, None)


def _make_log(
    found: Home, clock: Clock, durability: str, environment: Mapping[str, str] | None
) -> context_context.MakeLog | None:
    """What opens the log of a plane that follows a shared one; None for any other."""
    if found.shared is None or found.read_only:
        return None
    shared, given = found.shared, os.environ if environment is None else environment

    def make(
        context: context_context.PlaneContext,
        loads: Callable[[bytes], Any],
        same: Callable[[Event, Draft], bool],
    ) -> FileLog:
        policy = context.watched.policies_or_last().plane
        return shared_follower.FollowerLog(
            found.folder,
            found.plane_id,
            clock=clock,
            connect=lambda: shared_follower.shared_log_of(shared, given),
            catch_up_ms=policy.catch_up_ms,
            publish_ms=policy.publish_ms,
            device=shared_follower.device_name(found.folder),
            about=lambda: {"files": context.watched.policies_or_last().hashes},
            lock_wait_ms_max=policy.lock_wait_ms_max,
            loads=loads,
            same=same,
            durability="os" if durability == "os" else "sync",
        )

    return make


def _is_empty(folder: Path) -> bool:
    """Whether all that a plane will hold here is made now: what lay there may be a stranger's."""
    try:
        return next(folder.iterdir(), None) is None
    except FileNotFoundError:
        return True
    except OSError:  # `create` says what is wrong
        return False


def _trust(made: Home, folder: Path, now: str) -> None:
    """Trust a plane that was made just now; a TrustWarning where that cannot be kept."""
    location = trust.location_of(os.fspath(folder))
    if trust.is_own_plane(location, user_folder()):
        return

    files = watched_files.Watched(made.folder, bool).trustable()
    try:
        trust.TrustStore(os.environ).put(trust.record_of(made, location, files, now))
    except WriteError as error:
        warnings.warn(
            f"{made.folder}: was made, but that it is yours could not be kept ({error}); below "
            "it, name it with --home or MEMPLANE_HOME",
            trust.TrustWarning,
            stacklevel=3,
        )


def open_plane(
    path: str | os.PathLike[str] | None = None,
    *,
    durability: Literal["sync", "os"] = "sync",
    clock: Clock = clock,
    read_only: bool = False,
    detector: Detector | None = None,
    environment: Mapping[str, str] | None = None,
    embedder: Embedder | AsyncEmbedder | None = None,
    observer: Observer | None = None,
    counter: CountsTokens | str | None = None,
    project: str | None = None,
    agent: str | None = None,
) -> Plane:
    """Open the plane in a folder; without one, find it as `find_home` does.

    `:memory:` is a new plane in this process, with the shipped policies, gone when it is closed.
    `project`: of the user's own plane this project and `/global` are seen, and it is recorded into;
    without one all of them, and where a pack names a session, the session's.
    `agent`: who asks where a call names nobody (its own namespace is seen, no other agent's), who
    starts sessions, and the actor of what the role assistant says; upkeep stays the owner's.
    `detector` is a second engine for secrets, asked after memplane's own rules. `embedder` makes
    the vectors in place of the one that plane.yaml names, and `counter` counts tokens in place of
    the one that budgets.yaml names: any object with `count(text)`, or the name under which an
    installed package offers one (group `memplane.counters`). Variables of the
    `environment` (by default the process's) stand before values of the policies:
    `MEMPLANE_BUDGETS__SCALE=1.2`; give {} for none. `observer` is told of each call, with numbers
    and never with what it is about (`memplane.observe`); MEMPLANE_LOG=json writes that to stderr.
    """
    used, observer = _plugged_in(embedder, observer, environment)
    if in_memory(path):
        if project is not None:
            raise InputError("a plane in memory has no projects", where="project")
        found = passing_home(clock)._replace(read_only=read_only)
        return _opened(
            found, durability, clock, detector, environment, used, counter, agent, observer
        )
    found = find_plane(path)
    found = in_project(found) if project is None else projects.for_name(found, project)
    if read_only:
        found = found._replace(read_only=True)
    return _warned(
        _opened(found, durability, clock, detector, environment, used, counter, agent, observer)
    )


def in_memory(path: object) -> bool:
    """Whether a path means a plane in memory, as SQLite calls it: `:memory:`.

    Not on the command line, where it would be gone with what it was told.
    """
    return isinstance(path, str) and path == MEMORY and CALLER.get().tell is None


def passing_home(clock: Clock) -> Home:
    """The home of a plane in memory, with an empty folder of its own.

    In it lie what an embedder made and copies of artifacts, if there are any, until the plane is
    closed.
    """
    return Home(temporary_folder(), ulid(clock()), read_only=False, passing=True)


def _warned(plane: Plane) -> Plane:
    """The plane, after a TrustWarning that names the files that do not count as they are."""
    if held := plane.context.held_files():
        warnings.warn(held_words(plane, held), trust.TrustWarning, stacklevel=3)
    return plane


def held_words(plane: Plane, held: Sequence[str]) -> str:
    """What a person is told of files that differ from what was trusted."""
    names = ", ".join(map(trust.printable, held))
    return (
        f"{trust.printable(str(plane.home))}: {names} changed since you trusted this plane and "
        "count as they were then; `memplane policy accept` shows the difference and takes it"
    )


def open_found(found: Home, *, read_only: bool = False) -> Plane:
    """Open a plane that `memplane.trust` located; nothing warns of files that count as trusted."""
    if read_only:
        found = found._replace(read_only=True)
    return _opened(found, "sync", clock, None, None, None)


def open_light(
    found: Home,
    clock: Clock,
    environment: Mapping[str, str],
    known: tuple[watched_files.Watched, FileLog] | None = None,
) -> packer.Packer:
    """Open a plane for one answer: of its files none but caches is written.

    The saved index is read without arrays: the standard library alone, for a process that lives for
    a tenth of a second. What it had to fold or to hash it keeps, so that the next one need not.
    `known`: the policies and the log with which the process recorded before.
    """
    context = context_context.PlaneContext(
        found._replace(read_only=True),
        clock=clock,
        make_counter=make_counter,
        durability="sync",
        overrides=variables(environment),
        make_embedder=find_embedder,
        keeps=not found.read_only,
        known=known,
    )
    return packer.Packer(context, plain=True)


def restore(
    export: str | os.PathLike[str] | IO[bytes],
    into: str | os.PathLike[str] | None = None,
    *,
    durability: Literal["sync", "os"] = "sync",
    clock: Clock = clock,
    name: str = "",
    environment: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RestoreReport:
    """Bring an export back: a file, or an open one that can be read twice.

    A whole one becomes the plane that it was in a folder without a plane, or in a plane that holds
    nothing: same id, seqs and chain, the same bytes. Into a plane with events, and of a part, the
    events are recorded anew, with their ids and, in `data.origin`, where they are from; a second
    time records nothing. Of two values of a key the later is in force, whichever plane it is from
    and whenever it comes. Without `into` it is the plane that `find_home` finds, else `.memplane`
    here; a plane that is made is trusted, as by `init`. All of the export is checked before
    anything is written: raises InputError for one that is damaged, cut or foreign (`name` stands
    before the line), FormatError for a newer one, WriteError, HomeError.
    """
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
        checked = upkeep_restore.check_export(file, name, progress)
        empty = upkeep_restore.has_no_events(folder) and not _follows(folder)
        fresh = empty and _is_empty(folder)
        if checked.opened.whole and empty:
            upkeep_restore.restore_whole(
                file,
                name,
                folder,
                checked,
                created=clock(),
                policies=Assets("policies", NAMES),
                progress=progress,
            )
            watched_files.put_schemas(folder)
            if fresh:
                _trust(home.open_home(folder), folder, clock())
            return upkeep_restore.RestoreReport(os.fspath(folder), checked, None)
        begin = init if empty else open_plane  # one that follows a shared log takes it as events
        with begin(folder, durability=durability, clock=clock, environment=environment) as plane:
            if plane.read_only:
                raise HomeError(f"{folder}: is read-only; nothing was restored")
            upkeep_restore.clear_left(folder)
            merged = plane.upkeep.merge(file, name, progress)
        return upkeep_restore.RestoreReport(os.fspath(folder), checked, merged)


def _follows(folder: Path) -> bool:
    """Whether the plane in a folder, if there is one, follows a shared log."""
    return (folder / "plane.json").is_file() and home.open_home(folder).shared is not None


def _restored_to(into: str | os.PathLike[str] | None) -> Path:
    """The folder that is named or found; the usual one here where there is none."""
    if in_memory(into):
        raise InputError("expected a folder; a plane in memory cannot be restored", where="into")
    named = into is not None or os.environ.get("MEMPLANE_HOME")
    if not named and home.nearest_home(os.getcwd()) is None:  # noqa: PTH109 - a text is asked for
        return Path(HOME_NAME).absolute()
    return find_home(into)


def find_detector(name: str) -> Detector:
    """The detector that an installed package offers by this name, in group `memplane.detectors`.

    Raises InputError naming those there are.
    """
    detector: Detector = _offered("detector", name, DETECTORS, "detector")
    return detector


def _plugged(counter: CountsTokens | str) -> Callable[[str, int], TokenCounter]:
    """What makes the counter that was given, whatever the policy names; its scale applies."""
    given = find_counter(counter) if isinstance(counter, str) else counter
    made = PluggedCounter(given)
    if made.name in tokens.NAMES:
        raise InputError(
            f"{made.name} is a counter of memplane: expected another name", where="counter"
        )
    scaled = cache(partial(tokens.scaled, made))
    return lambda _, scale_ppm: scaled(scale_ppm)


@cache
def find_counter(name: str) -> CountsTokens:
    """The token counter that an installed package offers, in group `memplane.counters`.

    Raises InputError naming those there are.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that few processes pay

    offered = entry_points(group=COUNTERS)
    if name not in offered.names:
        known = ", ".join(sorted(offered.names)) or "none"
        raise InputError(
            f"no counter {quoted_value(name)} is installed (found: {known}); a package offers one "
            f"as an entry point of the group {COUNTERS}",
            where="counter",
        )
    made = offered[name].load()
    counter: CountsTokens = made() if isinstance(made, type) else made
    return counter


@cache
def find_embedder(name: str) -> Embedder:
    """The embedder that a policy names, one a process.

    memplane's own, or what an installed package offers in group `memplane.embedders`. Raises
    MissingExtraError for `all-MiniLM-L6-v2` without its weights, InputError naming those there are.
    """
    if name == _MINILM:
        return minilm.MiniLM()
    if name == _STATIC:
        return vectors.StaticTable(
            (Path(__file__).parent / "index" / "data" / "static.i8").read_bytes()
        )
    where = "policies/plane.yaml: index.embedder"
    embedder: Embedder = _offered("embedder", name, EMBEDDERS, where, (_MINILM, _STATIC))
    return embedder


def _offered(what: str, name: str, group: str, where: str, own: tuple[str, ...] = ()) -> Any:
    """What an installed package offers by a name in a group of entry points; a class is called."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that few processes pay

    offered = entry_points(group=group)
    if name not in offered.names:
        known = ", ".join((*own, *sorted(offered.names))) or "none"
        raise InputError(
            f"no {what} {quoted_value(name)} is installed (found: {known}); a package offers one "
            f"as an entry point of the group {group}",
            where=where,
        )
    made = offered[name].load()
    return made() if isinstance(made, type) else made


def _opened(
    found: Home,
    durability: str,
    clock: Clock,
    detector: Detector | None,
    environment: Mapping[str, str] | None,
    embedder: Embedder | None,
    counter: CountsTokens | str | None = None,
    agent: str | None = None,
    observer: Observer | None = None,
) -> plane_room.Plane:
    if agent is not None and (not isinstance(agent, str) or not agent.strip()):
        raise unexpected("a name", agent, "agent")
    if durability not in ("sync", "os"):
        raise InputError(f"expected sync or os, found {durability!r}", where="durability")

    on_close = None
    if embedder is not None and isinstance(embedder, providers.Bridged) and embedder.loop is None:
        on_close = embedder.stop  # its loop is this plane's own
    files = None
    if found.passing:
        files = {f"policies/{name}": home.asset(f"policies/{name}") for name in NAMES}
    return plane_room.Plane(
        context_context.PlaneContext(
            found,
            files=files,
            make_log=_make_log(found, clock, durability, environment),
            clock=clock,
            make_counter=make_counter if counter is None else _plugged(counter),
            durability=durability,
            loads=_Lines(),
            detector=detector,
            overrides=variables(os.environ if environment is None else environment),
            make_embedder=find_embedder,
            embedder=embedder,
            agent=agent,
            on_close=on_close,
            observing=None if observer is None else observe.Observing(observer, str(found.path)),
        )
    )


def _plugged_in(
    embedder: Embedder | AsyncEmbedder | None,
    observer: Observer | None,
    environment: Mapping[str, str] | None,
) -> tuple[Embedder | None, Observer | None]:
    """The embedder as a plane takes it, and the observer, with stderr where MEMPLANE_LOG says json.

    Raises ConfigurationError and InputError, before anything is made on the disk.
    """
    used = None if embedder is None else providers.bridged(embedder, None)
    said = (os.environ if environment is None else environment).get(_LOG_VARIABLE, "")
    if observer is not None:
        observe.check_observer(observer)
    if said:
        name, _, level = said.partition(":")
        if name != "json":
            raise InputError(
                f"expected json, or json: and a level, found {quoted_value(said)}",
                where=_LOG_VARIABLE,
            )
        logs = observe.JsonLogs(level=level or "info")
        observer = logs if observer is None else observe.Both(observer, logs)
    return used, observer


class _Lines:
    """The reader of lines: orjson, five times the standard library's speed over a whole log.

    To import it costs twice a bare Python, or the parsing of 2,000 lines: a process that reads few
    goes without.
    """

    __slots__ = ("_left", "_loads")
    parser: Final = "orjson"  # for the processes of a verification
    _FEW: Final = 100

    def __init__(self) -> None:
        self._left = self._FEW
        self._loads: Callable[[bytes], Any] | None = None

    def __call__(self, line: bytes) -> Any:
        loads = self._loads
        if loads is None:
            if self._left > 0:
                self._left -= 1
                return json.loads(line)
            loads = self._loads = orjson.loads
        return loads(line)
