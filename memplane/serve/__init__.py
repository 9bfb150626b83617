"""One address for many agents and planes: MCP over streamable HTTP, and a small JSON API.

`web` opens planes on demand, has the table of what the JSON API takes, gives and does, checks and
answers each request, and listens until SIGTERM; it needs the extra `[mcp]`. Here are the bearer
tokens: who may ask, each bound to an agent, a channel, namespaces and planes.

The file holds no token, only the SHA-256 of each: a token has 256 random bits, so a slow hash would
add nothing. Its mode is 0600; one that others may read or write is refused. It is JSON::

    {"format": 1, "tokens": [{"name", "sha256", "agent", "channel", "ns", "planes", "created"}]}

A server looks at the file's stamp at each request, so that a token that was removed is refused from
then on, without a restart.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from memplane.errors import HomeError, InputError, NotFoundError, WriteError
from memplane.event import GLOBAL
from memplane.intake import namespace
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple

PREFIX: Final = "mpt_"  # so that a scanner for secrets knows one
FORMAT: Final = 1
FILE_NAME: Final = "tokens.json"
TOKENS_MAX: Final = 10_000
_FILE_BYTES_MAX: Final = 16 << 20
_BYTES: Final = 32
# A name in an address: no dot at the beginning, so neither `..` nor a hidden folder.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FIELDS: Final = ("name", "sha256", "agent", "channel", "ns", "planes", "created")


class Token(NamedTuple):
    """Whom one token stands for. `ns` empty: all that the agent may reach on that channel."""

    name: str
    sha256: str
    agent: str
    channel: str
    ns: tuple[str, ...]
    planes: tuple[str, ...]
    created: str

    def reaches(self, ns: str) -> bool:
        """Whether a namespace is among those that it is bound to."""
        return not self.ns or ns in self.ns

    @property
    def home_ns(self) -> str:
        """Where it records when the request names no namespace."""
        return GLOBAL if not self.ns or GLOBAL in self.ns else self.ns[0]

    @property
    def spaces(self) -> tuple[str, ...]:
        """The namespaces that it is bound to, the one where it records first."""
        return tuple(dict.fromkeys((self.home_ns, *self.ns))) if self.ns else ()


def made(
    name: str, agent: str, channel: str, ns: Sequence[str], planes: Sequence[str], created: str
) -> tuple[Token, str]:
    """A new token and its secret, which is nowhere else. Raises InputError for what cannot be."""
    for where, one in (("name", name), ("agent", agent), ("channel", channel)):
        _check_name(one, where)
    for plane in planes:
        _check_name(plane, "plane")
    if not planes:
        raise InputError("expected the name of a plane or more, found none", where="plane")
    for one in ns:
        namespace(one, where="ns")
        if one.startswith("/agent/") and one != f"/agent/{agent}":
            raise InputError(f"{one} is another agent's than {agent}", where="ns")
    secret = PREFIX + secrets.token_urlsafe(_BYTES)
    token = Token(
        name, _hashed(secret), agent, channel, tuple(ns), tuple(dict.fromkeys(planes)), created
    )
    return token, secret


def _check_name(given: str, where: str) -> None:
    if not NAME.fullmatch(given):
        raise InputError(
            f"expected letters, digits, . _ - (64 at most), found {quoted_value(given)}",
            where=where,
        )


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class TokenFile:
    """The tokens in a file. Any thread may ask; writers take turns by a lock beside the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, ...] = ()
        self._tokens: dict[str, Token] = {}
        self._alone = threading.Lock()

    def holder(self, secret: str) -> Token | None:
        """The token that a secret is; None for one that was never given, or was removed.

        Raises HomeError where the file is not as it must be: then nobody is let in.
        """
        hashed = _hashed(secret)
        found = self._now().get(hashed)
        return found if found and hmac.compare_digest(found.sha256, hashed) else None

    def all(self) -> list[Token]:
        """All tokens by name; none where there is no file."""
        return sorted(self._now().values(), key=lambda one: one.name)

    def add(self, token: Token) -> None:
        """Add one; raises InputError where its name is taken, or there are too many."""
        with self._changing() as tokens:
            if any(one.name == token.name for one in tokens):
                raise InputError(f"there is a token {token.name}; remove it first", where="name")
            if len(tokens) >= TOKENS_MAX:
                raise InputError(f"expected at most {TOKENS_MAX:,} tokens")
            tokens.append(token)

    def remove(self, name: str) -> Token:
        """Remove one: servers refuse it from then on. Raises NotFoundError."""
        with self._changing() as tokens:
            for one in tokens:
                if one.name == name:
                    tokens.remove(one)
                    return one
            raise NotFoundError(f"no token {quoted_value(name)} in {self.path}")

    def _now(self) -> dict[str, Token]:
        with self._alone:
            try:
                self._follow()
            except FileNotFoundError:
                self._stamp, self._tokens = (), {}
            except OSError as error:
                raise HomeError(f"{self.path}: cannot be read: {error.strerror}") from None
            return self._tokens

    def _follow(self) -> None:
        """Read the file again where it is another than before."""
        # A pipe in its place is not waited for: it is no regular file, and refused below.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self.path, flags)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            _check_owner(self.path, found)
            stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp != self._stamp:
                self._tokens = _read(self.path, file.read(_FILE_BYTES_MAX))
                self._stamp = stamp

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(f"{self.path}.lock", flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                tokens = self.all()
                yield tokens
                self._write(tokens)
            finally:
                os.close(lock)
        except OSError as error:
            raise WriteError(f"{self.path}: cannot be written: {error.strerror}") from error

    def _write(self, tokens: list[Token]) -> None:
        draft = Path(f"{self.path}.new")
        with suppress(FileNotFoundError):
            draft.unlink()
        value = {"format": FORMAT, "tokens": [one._asdict() for one in tokens]}
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(value, indent=1).encode() + b"\n")
            file.flush()
            os.fsync(descriptor)
        draft.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.geteuid():
        raise HomeError(f"{path}: expected your own file that nobody else may open (chmod 600)")


def _read(path: Path, data: bytes) -> dict[str, Token]:
    """The tokens by their hash; raises HomeError for a file that is not one of tokens."""
    try:
        value = json.loads(data)  # one that is larger than it may be is cut, and does not parse
        tokens = [_token(one) for one in value["tokens"]]
        known = value["format"] == FORMAT
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HomeError(f"{path}: no file of tokens: {error}") from None
    if not known:
        raise HomeError(f"{path}: tokens of another version of memplane")
    return {one.sha256: one for one in tokens}


def _token(given: Any) -> Token:
    lists = {name: tuple(given[name]) for name in ("ns", "planes")}
    row = {name: given[name] for name in _FIELDS} | lists
    single = [row[name] for name in _FIELDS if name not in lists]
    if not all(isinstance(one, str) for one in (*single, *lists["ns"], *lists["planes"])):
        raise ValueError("a field is no text")
    return Token(**row)
