"""A plane's folder: where it is, what it must contain, and the files that people edit.

::

    HOME/           .memplane/ found upward as git finds .git, if trusted; 0700, files 0600
      plane.json    {"format": 1, "plane": <id>, "created": <time>, "memplane": <version>}
      policies/     budgets.yaml privacy.yaml channels.yaml scoring.yaml plane.yaml
      views/        *.md
      scenarios/    *.yaml
      log/ bodies/ projections/ index/ reports/ shared/ hooks.log   kept out of git by .gitignore
"""

# Paths are strings here where a hook comes by: `pathlib` is a twentieth of what one costs.
# ruff: noqa: PTH111, PTH113, PTH114, PTH116, PTH117, PTH118, PTH119, PTH120, PTH123
from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import FormatError, HomeError, InputError, StrangeFileError, WriteError
from memplane.lazy import NamedTuple, regex, word_table

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = "0.1.0"  # of memplane; the build reads it here
FORMAT: Final = 1  # of a plane on disk
# What brings a plane of a format to the next one, in its folder: safe to be interrupted, with the
# new number in plane.json last. None yet: there has been one format.
MIGRATIONS: Final[dict[int, Callable[[str], None]]] = {}
HOME_NAME: Final = ".memplane"
# Of every format: what people write, what memplane writes, what a command answers.
SCHEMAS: Final = word_table("""
    acb budgets channels event hotset plane privacy report research_bundle research_report
    scenario scoring why
""")
_PLANE: Final = "plane.json"
_FOLDERS: Final = ("policies", "views", "scenarios", "log", "bodies", "projections", "reports")
# What a plane has at its top, and the folders that are made in those.
_PARTS: Final = dict.fromkeys(
    (*_FOLDERS, "index", "schemas", "shared"), "a folder"
) | dict.fromkeys((_PLANE, ".gitignore", "hooks.log"), "a file")
_INNER: Final = ("log/spool", "log/quarantine", "bodies/sha256", "index/ids")
_GITIGNORE: Final = """\
# What people write (policies, views, scenarios) is for git; the log and its caches are not.
log/
bodies/
projections/
index/
reports/
shared/
hooks.log
"""


SHARED_FORMAT: Final = 2  # of a plane whose log follows a shared one: earlier versions refuse it
ADDRESS_VARIABLE: Final = "MEMPLANE_SHARED"  # how the variable with the address begins
_SHARED_NAME: Final = regex(r"[a-z0-9][a-z0-9_-]{0,39}")
_VARIABLE: Final = regex(rf"{ADDRESS_VARIABLE}[A-Z0-9_]{{0,40}}")


class SharedName(NamedTuple):
    """The shared log that a plane follows: its name, and the variable that has its address."""

    name: str
    address: str = ADDRESS_VARIABLE


def shared_name(name: object, address: object = ADDRESS_VARIABLE) -> SharedName:
    """Return the names of a shared log; raises InputError for what cannot be one.

    The variable's name is bound to begin as memplane's do: a stranger's plane.json chooses no
    database of another program.
    """
    if not isinstance(name, str) or not _SHARED_NAME.fullmatch(name):
        raise InputError(
            f"expected small letters, digits, - and _ (40 at most), found {name!r:.60}",
            where="shared",
        )
    if not isinstance(address, str) or not _VARIABLE.fullmatch(address):
        raise InputError(
            f"expected a variable whose name begins with {ADDRESS_VARIABLE}, found {address!r:.60}",
            where="address",
        )
    return SharedName(name, address)


class RefoldWarning(UserWarning):
    """Projections of another version of memplane were folded again from the log."""


class SharedLogWarning(UserWarning):
    """A shared log is not reached, or does not fit this machine's; what is recorded waits."""


class Trusted(NamedTuple):
    """The bytes that some files of a plane were trusted in, by path under the home.

    None is a file that was not there. `salt` is a secret of this machine.
    """

    files: Mapping[str, bytes | None]
    salt: str


class Home(NamedTuple):
    """An opened folder, and the identity of the plane in it.

    `trusted`: of a plane that was not named but found, what stands for files that differ from it.
    `read`: bytes that it took to open it. `parted`: it is the user's own, `~/.memplane`, and parted
    into projects. `project`: the namespace of the one in which whoever asks works; None for all.
    `entry`: rows that say which folder is of it, to be recorded before anything else is. `passing`:
    the plane lives in this process alone, and nothing but what must be a file lies in the folder.
    `shared`: the log that many machines share, which this plane's own follows.
    """

    folder: str
    plane_id: str
    read_only: bool
    trusted: Trusted | None = None
    read: int = 0
    parted: bool = False
    project: str | None = None
    entry: tuple[Mapping[str, Any], ...] = ()
    passing: bool = False
    shared: SharedName | None = None

    @property
    def path(self) -> Path:
        """The folder for who asks more of it than its name."""
        from pathlib import Path  # noqa: PLC0415 - a twentieth of what a hook costs

        return Path(self.folder)


def asset(name: str) -> bytes:
    """A file that ships with memplane: `policies/budgets.yaml`, `schemas/event.schema.json`.

    A wheel has them inside the package, an editable install beside it.
    """
    package = os.path.dirname(os.path.realpath(__file__))
    for root in (f"{package}/assets", os.path.dirname(package)):
        with contextlib.suppress(OSError), open(f"{root}/{name}", "rb") as file:
            return file.read()
    raise HomeError(f"memplane was installed without {name}; install it again")


def schema(name: str) -> bytes:
    """One of `SCHEMAS`, as JSON that needs no other file: what it refers to stands in its `$defs`.

    Raises InputError for a name that is none of them.
    """
    if name not in SCHEMAS:
        raise InputError(f"expected one of {', '.join(SCHEMAS)}, found {name!r:.60}", where="name")
    data = asset(f"schemas/{name}.schema.json")
    others = [one for one in SCHEMAS if f'"$ref": "memplane:{one}"'.encode() in data]
    if not others:
        return data
    # An `$id` inside makes the other a resource of this document, so its own references hold.
    whole = json.loads(data)
    within = {one: json.loads(schema(one)) for one in others}
    whole["$defs"] = {**whole.get("$defs", {}), **within}
    return json.dumps(whole, indent=1, ensure_ascii=False).encode() + b"\n"


class Assets(Mapping[str, bytes]):
    """A folder of shipped files by name, read when asked for."""

    def __init__(self, folder: str, names: tuple[str, ...]) -> None:
        self._folder, self._names = folder, names

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        return asset(f"{self._folder}/{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def nearest_home(start: str) -> str | None:
    """The nearest plane at or above a folder: the folder itself, or its `.memplane`."""
    folder = start
    while True:
        for home in (os.path.join(folder, HOME_NAME), folder):
            if os.path.isfile(f"{home}/{_PLANE}"):
                return home
        if (above := os.path.dirname(folder)) == folder:
            return None
        folder = above


def create_home(
    path: Path,
    plane_id: str,
    created: str,
    policies: Mapping[str, bytes],
    shared: SharedName | None = None,
) -> Home:
    """Make a plane in a folder that has none, with the default policies; open one that is there.

    `shared`: of a new plane, the log that its own will follow. Raises HomeError where the folder
    cannot be used.
    """
    path = path.resolve() if path.is_symlink() else path
    _refuse_strange(path)
    _refuse_links(path)
    if not os.path.lexists(path / _PLANE):
        try:
            above = next(one for one in path.absolute().parents if one.is_dir())
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in _FOLDERS:
                nofollow.make_folder(path / name, path)
            for name, data in policies.items():
                if not os.path.lexists(path / "policies" / name):
                    _write_new(path / "policies" / name, data)
            if not os.path.lexists(path / ".gitignore"):
                _write_new(path / ".gitignore", _GITIGNORE.encode())
            plane_id = _id_of_log(path) or plane_id
            facts = {"format": FORMAT, "plane": plane_id, "created": created, "memplane": VERSION}
            if shared is not None:
                facts |= {"format": SHARED_FORMAT, "shared": shared._asdict()}
            # Last: a folder with this file is a whole plane. Of two at once the first wins.
            made = (json.dumps(facts) + "\n").encode()
            _write_new(path / _PLANE, made, keep=True)
            try:
                _sync_all(path, above)
            except OSError:
                # Whoever opened it would acknowledge events that go with their folder.
                if nofollow.read_bytes(path / _PLANE) == made:
                    nofollow.remove_name(path / _PLANE)
                raise
        except OSError as error:
            raise HomeError(f"{path}: cannot make a plane here: {error.strerror}") from error
    return open_home(path)


def open_home(path: Path | str) -> Home:
    """Open the plane in a folder.

    Raises HomeError (none there, not a folder, another owner, unreadable, a part of it is a link),
    FormatError (newer). A home that is reached by a link is resolved here, once.
    """
    path = os.fspath(path)
    if os.path.islink(path):
        path = os.path.realpath(path)
    _refuse_strange(path)
    file = f"{path}/{_PLANE}"
    try:
        said = nofollow.read_bytes(file)
        facts = json.loads(said)
        found, plane_id = facts["format"], facts["plane"]
    except FileNotFoundError:
        raise HomeError(
            f"{path}: no plane here; make one with `memplane init`, or name one with --home"
        ) from None
    except StrangeFileError:
        raise
    except OSError as error:
        raise HomeError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HomeError(
            f"{file}: expected a JSON object with format and plane; it is damaged"
        ) from None
    if not isinstance(plane_id, str):
        raise HomeError(f"{file}: expected a text in plane")
    shared = _shared(file, facts)
    if shared is None:
        _check_format(file, facts)
    _refuse_links(path)
    if shared is None:
        for step in range(found, FORMAT):
            MIGRATIONS[step](path)
    read_only = not os.access(path, os.W_OK) or _on_read_only_disk(path)
    own = is_users_own(path)
    return Home(path, plane_id, read_only, read=len(said), parted=own, shared=shared)


def _shared(file: str, facts: Mapping[str, Any]) -> SharedName | None:
    """The shared log that plane.json names; None for a plane of one machine."""
    if facts["format"] != SHARED_FORMAT or "shared" not in facts:
        return None
    said = facts["shared"]
    try:
        return shared_name(said["name"], said["address"])
    except (KeyError, TypeError, InputError) as error:
        raise HomeError(f"{file}: shared: {error}; it is damaged, or not memplane's") from None


def _check_format(file: str, facts: Mapping[str, Any]) -> None:
    """Raise FormatError for a format that this memplane neither reads nor brings up to its own."""
    found = facts["format"]
    if type(found) is not int or found < 1:
        raise FormatError(
            f"{file}: expected a format from 1 to {FORMAT}, found {found!r:.40}: no memplane "
            "wrote it"
        )
    if found > FORMAT:
        writer = facts.get("memplane")
        # A clone's plane.json is a stranger's: only what reads as a version is repeated.
        said = writer if isinstance(writer, str) and len(writer) <= 32 else ""
        if not said or not all(c.isascii() and (c.isalnum() or c in ".+-") for c in said):
            writer = "of a newer version"
        raise FormatError(
            f"{file}: format {found}, written by memplane {writer}; this is memplane {VERSION}, "
            f"which reads up to format {FORMAT}: upgrade memplane"
        )
    for step in range(found, FORMAT):
        if step not in MIGRATIONS:
            raise FormatError(
                f"{file}: format {found}, of an older memplane; this is memplane {VERSION}, which "
                f"cannot bring format {step} up to {FORMAT}: export it with that one, and restore "
                "the export here"
            )


def is_users_own(path: str) -> bool:
    """Whether a folder is `~/.memplane`: by its real path."""
    user = os.path.expanduser("~")
    if not os.path.isabs(user) or os.path.basename(path) != HOME_NAME:
        return False
    return os.path.realpath(path) == os.path.realpath(os.path.join(user, HOME_NAME))


def _id_of_log(path: Path) -> str | None:
    """The plane that a log without plane.json belongs to, as its first line says."""
    folder = path / "log"
    first = next(
        (folder / name for name in nofollow.file_names(folder) if name.endswith(".jsonl")), None
    )
    if first is None:
        return None
    try:
        with nofollow.open_regular(first) as file:
            named = json.loads(file.readline(1 << 20))["data"]["plane"]
    except (ValueError, KeyError, TypeError, RecursionError):
        named = None
    if not isinstance(named, str):
        raise HomeError(f"{first}: a log whose first line names no plane; nothing was changed")
    return named


def _refuse_strange(path: Path | str) -> None:
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise HomeError(f"{path}: a part of this path is a file; expected folders") from None
    except OSError as error:
        raise HomeError(f"{path}: cannot be opened: {error.strerror}") from error
    if not stat.S_ISDIR(state.st_mode):
        raise HomeError(f"{path}: expected a folder, found a file")
    if state.st_uid != os.geteuid():
        raise HomeError(
            f"{path}: belongs to user id {state.st_uid}, you are {os.geteuid()}; "
            "a plane is used by its owner only"
        )


def _refuse_links(home: Path | str) -> None:
    """Raise StrangeFileError for a part of a plane that is a link, before anything is done.

    Nothing below a plane is opened through a link, so a part that is one could not be used.
    """
    with contextlib.suppress(FileNotFoundError), os.scandir(home) as entries:
        for entry in entries:
            if entry.is_symlink() and entry.name in _PARTS:
                nofollow.refuse_link(entry.path, _PARTS[entry.name])
    for name in _INNER:
        nofollow.refuse_link(f"{home}/{name}", "a folder")


def _on_read_only_disk(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _write_new(path: Path, data: bytes, *, keep: bool = False) -> None:
    """Write a file whole: under another name, synced, then given its name. `keep` an older one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = nofollow.create_draft(draft)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if keep:
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # in the home itself
            nofollow.remove_name(draft)
        else:
            nofollow.rename_name(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            nofollow.remove_name(draft)
        raise


def _sync_all(path: Path, above: Path) -> None:
    """Return when the plane in `path` and the folders up to `above` would survive a power cut."""
    # What is recorded from now on must not lose the folder that it lies in.
    for folder in (path / "policies", path, *path.absolute().parents):
        with contextlib.suppress(PermissionError):  # one above that may not be read
            sync_names(folder)
        if folder == above:
            return


def sync_names(folder: Path) -> None:
    """Return when the names in a folder would survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> bool:
    """Put a file in place by rename; False on a read-only home, WriteError on a full disk."""
    try:
        nofollow.make_folder(path.parent)
        _write_new(path, data)
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return False
        raise WriteError(f"{path}: cannot be written: {error.strerror}") from error
    return True
