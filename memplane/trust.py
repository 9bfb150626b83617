"""The planes that this user trusts, and the bytes of their policies and views: `memplane trust`.

A plane that is named (`--home`, `MEMPLANE_HOME`, a path given to the library) is trusted by naming
it, and so is the user's own, `~/.memplane`. One that is found by looking upward from a folder may
have come with a clone or an archive: it is used only if a record of it lies here.

::

    STATE/memplane/trust/      mode 0700; STATE is XDG_STATE_HOME, else ~/.local/state
      <name>.json              mode 0600; <name>: the first 32 hex of SHA-256(location)
        {"format": 1, "location": <folder as found>, "path": <its real path>, "plane": <id>,
         "trusted": <time>, "memplane": <version>, "salt": <hex>,
         "files": {"policies/privacy.yaml": {"sha256": <hex>, "text": <text>}, ...: null}}
      <name>.met               {"location": <folder as found>, "asked": <whether a person was>}

`location` is the real path of the folder above, and the plane's own name: a link to a trusted plane
is not trusted by that. `text` is UTF-8, other bytes as lone surrogates; null is a file that was not
there. `salt` is mixed into the names of parsed policies, so that none can be brought along.

A record counts only if it, and the folders that it lies in, belong to this user and nobody else may
write them. It is written under another name, synced and renamed.
"""

# A hook comes by here: `pathlib` is a twentieth of what one costs.
# ruff: noqa: PTH100, PTH108, PTH110, PTH111, PTH112, PTH113, PTH116, PTH117, PTH118, PTH208
from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from memplane import nofollow
from memplane.errors import HomeError, UntrustedError, WriteError
from memplane.home import HOME_NAME, VERSION, Home, Trusted, nearest_home, open_home, replace_file
from memplane.lazy import NamedTuple

_FORMAT: Final = 1
_RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class TrustWarning(UserWarning):
    """A trust could not be kept, or trusted bytes stand for files that differ."""


class TrustRecord(NamedTuple):
    """One trusted plane. `files`: bytes by path under the home, None where there was no file."""

    location: str
    path: str
    plane: str
    at: str
    memplane: str
    salt: str
    files: Mapping[str, bytes | None]


class Met(NamedTuple):
    """A plane that was found and not trusted; `asked`: a person was asked and did not take it."""

    location: str
    asked: bool


class Located(NamedTuple):
    """The plane to use, if any, and one that was found and passed over, because of `fault`."""

    home: Home | None
    passed: str | None = None
    fault: str = ""


def state_folder(environment: Mapping[str, str]) -> str:
    """Where memplane keeps what is of this user and machine alone."""
    given = environment.get("XDG_STATE_HOME", "")
    if not os.path.isabs(given):
        user = environment.get("HOME", "")
        given = os.path.join(user if os.path.isabs(user) else _listed_user(), ".local", "state")
    return os.path.join(given, "memplane")


def _listed_user() -> str:
    """The user's folder as the system lists it: a relative HOME would be one of any clone."""
    import pwd  # noqa: PLC0415 - few processes have no HOME

    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_dir
    return "/nonexistent"


def is_own_plane(location: str, user: str) -> bool:
    """Whether this is the place of the user's own plane, which needs no trust."""
    return os.path.isabs(user) and location == location_of(os.path.join(user, HOME_NAME))


def location_of(folder: str) -> str:
    """The place of a plane: the real path of the folder above, and its own name there."""
    above, name = os.path.split(os.path.abspath(folder))
    return os.path.join(os.path.realpath(above), name) if name else above


def named_plane(given: str | os.PathLike[str]) -> str:
    """The plane that a person names: the folder itself, or the `.memplane` in it."""
    folder = os.path.expanduser(os.fspath(given))
    nested = os.path.join(folder, HOME_NAME)
    whole = os.path.exists(os.path.join(folder, "plane.json"))
    return nested if not whole and os.path.isdir(nested) else folder


def upward(environment: Mapping[str, str], folder: str, user: str) -> Located:
    """The nearest plane at or above a folder, if it is trusted or `user`'s own.

    Of one that is not trusted no file is opened. Raises what `open_home` does for a trusted one.
    """
    found = nearest_home(folder.rstrip("/") or "/") if os.path.isabs(folder) else None
    if found is None:
        return Located(None)
    location = location_of(found)
    if is_own_plane(location, user):
        return Located(open_home(found))
    record, fault = TrustStore(environment).get(location)
    if record is not None and not fault:
        fault = _mismatch(found, record)
    if record is None or fault:
        return Located(None, location, fault)
    home = open_home(found)
    if home.plane_id != record.plane:
        fault = f"trusted here was another plane, {printable(record.plane)}"
        return Located(None, location, fault)
    return Located(home._replace(trusted=Trusted(record.files, record.salt)))


def _mismatch(found: str, record: TrustRecord) -> str:
    """What keeps a record from being about the folder that was found, "" where nothing does."""
    if os.stat(found).st_uid != os.geteuid():
        return "it belongs to another user"
    if os.path.realpath(found) != record.path:
        return f"it was trusted when it led to {printable(record.path)}"
    return ""


def located(
    environment: Mapping[str, str], folder: object, user: str, *, given: str | None = None
) -> Located:
    """The plane of who works in a folder: the one named, MEMPLANE_HOME, the nearest upward.

    Else, and in place of one that is not trusted, the user's own: `.memplane` in the folder `user`.
    """
    if name := given or environment.get("MEMPLANE_HOME"):
        return Located(open_home(named_plane(name)))
    found = upward(
        environment, folder if isinstance(folder, str) and folder else working_folder(), user
    )
    own = os.path.join(user, HOME_NAME)
    is_there = os.path.isabs(own) and os.path.isfile(os.path.join(own, "plane.json"))
    if found.home is None and is_there:
        return found._replace(home=open_home(own))
    return found


def refusal(passed: Located, environment: Mapping[str, str]) -> UntrustedError:
    """The error for a plane that was found and is not trusted, with what makes it so."""
    assert passed.passed is not None
    path, why = passed.passed, passed.fault or _elsewhere(passed.passed, TrustStore(environment))
    found = f"{printable(path)}: a plane that you have not trusted, so nothing of it was used"
    if why:
        found += f" ({why})"
    remedy = (
        f"`memplane trust {shell_word(path)}` shows what it says and asks; or name it with --home"
    )
    return UntrustedError(found, remedy, path=path, fault=passed.fault)


def _elsewhere(location: str, store: TrustStore) -> str:
    """Where the same plane is trusted: a copy, or one that was moved, is a plane by itself."""
    with suppress(HomeError, OSError):
        plane = open_home(location).plane_id
        for record in store.records():
            if record.plane == plane:
                return f"trusted is the same plane in {printable(record.location)}"
    return ""


def record_of(home: Home, location: str, files: Mapping[str, bytes | None], at: str) -> TrustRecord:
    """The trust in a plane as it is now. `files` are those that count only as trusted."""
    path = os.path.realpath(home.folder)
    return TrustRecord(location, path, home.plane_id, at, VERSION, salt(), dict(files))


def salt() -> str:
    """A secret of this machine, never seen before."""
    return os.urandom(16).hex()


class TrustStore:
    """The trusts of one user."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._above = state_folder(environment)
        self.folder = os.path.join(self._above, "trust")

    def get(self, location: str) -> tuple[TrustRecord | None, str]:
        """The record of a place; else None and what is wrong with it, "" where there is none."""
        try:
            data = self._read(self._file(location, "json"))
            record = _parsed(data)
        except FileNotFoundError:
            return None, ""
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            return None, f"its trust cannot be used: {self._file(location, 'json')}: {what}"
        if record.location != location:
            return None, f"its trust cannot be used: it is of {printable(record.location)}"
        return record, ""

    def put(self, record: TrustRecord) -> None:
        """Keep a record; WriteError where that cannot be."""
        files = {name: None if data is None else _kept(data) for name, data in record.files.items()}
        kept = {
            "format": _FORMAT,
            "location": record.location,
            "path": record.path,
            "plane": record.plane,
            "trusted": record.at,
            "memplane": record.memplane,
            "salt": record.salt,
            "files": files,
        }
        self._write(self._file(record.location, "json"), kept)
        with suppress(OSError):
            os.unlink(self._file(record.location, "met"))

    def drop(self, location: str) -> bool:
        """Forget a trust; False where there was none. WriteError where it cannot be removed."""
        path = self._file(location, "json")
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise WriteError(f"{path}: cannot be removed: {error.strerror}") from error
        return True

    def records(self) -> list[TrustRecord]:
        """Every trust that can be used, by place."""
        found = [_or_none(self._read, path, _parsed) for path in self._paths("json")]
        return sorted((one for one in found if one is not None), key=lambda one: one.location)

    def met(self) -> list[Met]:
        """The planes that were found, are there still and are not trusted, by place."""
        found = [_or_none(self._read, path, _met) for path in self._paths("met")]
        return sorted(
            one
            for one in found
            if one is not None and os.path.isfile(os.path.join(one.location, "plane.json"))
        )

    def was_asked(self, location: str) -> bool:
        """Whether a person was asked about this plane."""
        found = _or_none(self._read, self._file(location, "met"), _met)
        return found is not None and found.location == location and found.asked

    def meet(self, location: str, *, asked: bool = False) -> None:
        """Note that a plane was found, for `memplane trust --found`; WriteError if that cannot be.

        What was noted already stays as it is, unless a person was asked now.
        """
        path = self._file(location, "met")
        if asked or _or_none(self._read, path, _met) is None:
            self._write(path, {"location": location, "asked": asked})

    def faults(self) -> Iterator[str]:
        """What keeps trusts from being used, or from being kept."""
        try:
            self._check_folders()
        except FileNotFoundError:
            return
        except OSError as error:
            yield f"{error.filename or self.folder}: {error.strerror}"
            return
        for path in self._paths("json"):
            try:
                _parsed(self._read(path))
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
                yield f"{path}: {e.strerror if isinstance(e, OSError) else e}"

    def _file(self, location: str, ending: str) -> str:
        digest = hashlib.sha256(location.encode(errors="surrogateescape")).hexdigest()[:32]
        return os.path.join(self.folder, f"{digest}.{ending}")

    def _paths(self, ending: str) -> list[str]:
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return []
        return [
            os.path.join(self.folder, name)
            for name in names
            if name.endswith(f".{ending}") and not name.startswith(".")
        ]

    def _read(self, path: str) -> Any:
        """The JSON in a file of the store; OSError or ValueError for one that may not be used."""
        self._check_folders()
        with nofollow.open_regular(path) as file:
            _check(os.fstat(file.fileno()), path, stat.S_ISREG, "a file")
            data = file.read(_RECORD_BYTES_MAX + 1)
        if len(data) > _RECORD_BYTES_MAX:
            raise ValueError(f"more than {_RECORD_BYTES_MAX} bytes")
        return json.loads(data)

    def _check_folders(self) -> None:
        for folder in (self._above, self.folder):
            _check(os.lstat(folder), folder, stat.S_ISDIR, "a folder")

    def _write(self, path: str, value: Any) -> None:
        from pathlib import Path  # noqa: PLC0415 - what reads goes without

        try:
            self._check_folders()
        except FileNotFoundError:
            pass  # made below, for the owner alone
        except OSError as error:
            raise WriteError(f"{error.filename}: {error.strerror}") from error
        data = json.dumps(value, indent=1) + "\n"
        if not replace_file(Path(path), data.encode()):
            raise WriteError(f"{path}: cannot be written: permission denied")
        with suppress(OSError):
            nofollow.sync_folder(self.folder)


def printable(text: str) -> str:
    """A text that cannot drive a terminal: what is not printed is written as an escape."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def shell_word(path: str) -> str:
    """A path as a word of a shell's command."""
    plain = printable(path)
    if plain and all(one.isalnum() or one in "/._-+=:,@%" for one in plain):
        return plain
    return "'" + plain.replace("'", "'\\''") + "'"


def _check(state: os.stat_result, path: str, is_kind: Any, kind: str) -> None:
    wrong = ""
    if not is_kind(state.st_mode):
        wrong = f"expected {kind}, found something else"
    elif state.st_uid != os.geteuid():
        wrong = f"belongs to user id {state.st_uid}, expected {os.geteuid()}"
    elif state.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(state.st_mode)
        wrong = f"mode {mode:04o} lets others write; `chmod go-w {path}` when you have looked at it"
    if wrong:
        raise OSError(0, wrong, path)


def _parsed(found: Any) -> TrustRecord:
    """The record in a JSON value; ValueError, KeyError, TypeError or AttributeError for none."""
    if found["format"] != _FORMAT:
        raise ValueError(f"format {found['format']!r}, expected {_FORMAT}: upgrade memplane")
    texts = [found[name] for name in ("location", "path", "plane", "trusted", "memplane", "salt")]
    if not all(isinstance(one, str) for one in texts):
        raise ValueError("expected texts")
    files = {name: None if one is None else _bytes(one) for name, one in found["files"].items()}
    location, path, plane, at, memplane, salt = texts
    return TrustRecord(location, path, plane, at, memplane, salt, files)


def _kept(data: bytes) -> dict[str, str]:
    text = data.decode(errors="surrogateescape")
    return {"sha256": hashlib.sha256(data).hexdigest(), "text": text}


def _bytes(kept: Mapping[str, str]) -> bytes:
    data = kept["text"].encode(errors="surrogateescape")
    if hashlib.sha256(data).hexdigest() != kept["sha256"]:
        raise ValueError("a text does not have its sha256: the record is damaged")
    return data


def _met(found: Any) -> Met:
    if not isinstance(found["location"], str):
        raise TypeError("expected a text in location")
    return Met(found["location"], found["asked"] is True)


def _or_none(read: Any, path: str, parse: Any) -> Any:
    try:
        return parse(read(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def working_folder() -> str:
    """The folder of the process; "" where it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109 - a text is asked for
    except OSError:  # the folder was taken away under its process
        return ""
