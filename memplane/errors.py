"""Everything memplane raises.

::

    MemplaneError
    ├── InputError          what the caller gave cannot be taken (an event, a request, a name)
    │   ├── BudgetError     a token budget that no block can meet
    │   └── SecurityError   what would put a secret, or a path outside, where it must not stand
    ├── ConflictError       an id that is taken by another event
    │   └── PurgedError     an id whose event was erased
    ├── NotFoundError       nothing by that id, key or handle
    │   ├── ChangedError    a file is no longer what was added: gone, or with other content
    │   ├── SessionNotFoundError    nothing was recorded in a session of that name
    │   └── EpisodeNotFoundError    no such episode, or none is open
    ├── ScopeError          a namespace or write that is not for this channel or agent
    ├── ConfigurationError  how memplane is set up cannot work
    │   ├── PolicyError     the YAML of the policies has mistakes, all of them listed
    │   └── MissingExtraError   a feature needs an optional dependency; names the extra
    ├── ProviderError       an embedder or a model failed
    └── PlaneError          the plane on disk cannot be used as it is
        ├── HomeError       no plane there, not ours, not writable, or not a directory
        │   └── StrangeFileError    a link or pipe where a plane keeps a file; an OSError too
        │   └── UntrustedError  found by looking upward, and not trusted by this user
        ├── FormatError     written by a newer memplane
        ├── LockError       another process held the log's lock for too long
        ├── WriteError      the disk refused; nothing was acknowledged
        ├── CorruptError    the log fails its checks below the durable watermark
        ├── SharedLogError  the engine of a shared log is not reached, or refuses
        │   └── DivergedError   what the engine has is not what this machine was given before
        └── DegradedError   a part failed that an answer can do without; caught by who asks again

Messages say where, what was found, what was expected and what to do; the facts
are attributes too, so that callers need not parse words.
"""

from __future__ import annotations

from memplane.lazy import NamedTuple

__all__ = [
    "BudgetError",
    "ChangedError",
    "ConfigurationError",
    "ConflictError",
    "CorruptError",
    "DegradedError",
    "DivergedError",
    "EpisodeNotFoundError",
    "FormatError",
    "HomeError",
    "InputError",
    "LockError",
    "MemplaneError",
    "MissingExtraError",
    "NotFoundError",
    "PlaneError",
    "PolicyError",
    "Problem",
    "ProviderError",
    "PurgedError",
    "ScopeError",
    "SecurityError",
    "SessionNotFoundError",
    "SharedLogError",
    "StrangeFileError",
    "UntrustedError",
    "WriteError",
]


class MemplaneError(Exception):
    """The root: catching it catches everything memplane raises on purpose."""


class InputError(MemplaneError):
    """What the caller gave cannot be taken; nothing was stored.

    `where` names the field or argument (`importance`, `rows[3].ts`), "" where none can be blamed.
    """

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class BudgetError(InputError):
    """A budget of zero or fewer tokens: no block can meet it."""


class SecurityError(InputError):
    """A credential in plain words, which the message leaves out, or a path that leads outside."""


class ConflictError(MemplaneError):
    """The id is taken by an event with other content; nothing was stored."""

    def __init__(self, message: str, *, id: str, seq: int) -> None:  # noqa: A002 - the field's name
        super().__init__(message)
        self.id, self.seq = id, seq


class PurgedError(ConflictError):
    """The id is that of an event that a purge erased; nothing was stored.

    `ids` are all such ids of the batch, with `id` as the first.
    """

    def __init__(self, message: str, *, id: str, seq: int, ids: tuple[str, ...]) -> None:  # noqa: A002 - the field's name
        super().__init__(message, id=id, seq=seq)
        self.ids = ids


class NotFoundError(MemplaneError):
    """There is nothing by that id, key or handle."""


class ChangedError(NotFoundError):
    """A file is no longer what was added; nothing of it was used.

    `expected` is the SHA-256 that it had, `found` the one that it has, or what stands there.
    """

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(
            f"{path}: is not what was added: expected sha256 {expected}, found {found}; "
            "bring it back, or add what is there now"
        )
        self.path, self.expected, self.found = path, expected, found


class SessionNotFoundError(NotFoundError):
    """Nothing was recorded in a session of that name that who asks may see."""


class EpisodeNotFoundError(NotFoundError):
    """There is no such episode, or none is open."""


class ScopeError(MemplaneError):
    """A namespace is not for the channel or agent of this call, to read or to write.

    What they may not see is a NotFoundError, as what is not there.
    """


class Problem(NamedTuple):
    """One mistake in a policy file. `line` counts from 1; 0 means the file as a whole."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class ConfigurationError(MemplaneError):
    """How memplane is set up cannot work; the message names every mistake, a line each."""


class ProviderError(MemplaneError):
    """An embedder or a model failed. `retryable`: the same call may work later; `cause`: why.

    `retry_after`: seconds that the provider asks to wait before it, 0 where it asks for none.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        retryable: bool = False,
        cause: Exception | None = None,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.provider, self.retryable, self.cause = provider, retryable, cause
        self.retry_after = retry_after


class PolicyError(ConfigurationError):
    """The policies have mistakes; `problems` lists every one of them."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class MissingExtraError(ConfigurationError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'memplane[{extra}]'")
        self.feature, self.extra = feature, extra


class PlaneError(MemplaneError):
    """The plane on disk cannot be used as it is."""


class HomeError(PlaneError):
    """No plane there, or a home that cannot be used (owner, permissions, not a directory)."""


class StrangeFileError(HomeError, OSError):
    """A link, pipe or device lies where a plane keeps a file, or a file where it has a folder.

    `filename` is where, `strerror` what was found and what to do.
    """

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class UntrustedError(HomeError):
    """A plane that was found by looking upward, and that this user has not trusted.

    `path` is its folder; `fault` says why a trust that is kept does not count, "" without one.
    """

    def __init__(self, found: str, remedy: str, *, path: str, fault: str = "") -> None:
        super().__init__(f"{found}; {remedy}")
        self.found, self.remedy, self.path, self.fault = found, remedy, path, fault


class FormatError(PlaneError):
    """The plane was written in a newer format than this memplane reads."""


class LockError(PlaneError):
    """Another process held the log's lock for longer than the policy's bound."""

    def __init__(self, message: str, *, holder: int | None) -> None:
        super().__init__(message)
        self.holder = holder


class WriteError(PlaneError):
    """The disk refused a write or a sync; the event was not acknowledged."""


class CorruptError(PlaneError):
    """The log fails its checks at a place that was durable: nothing is appended after it.

    `segment` is the file, `offset` the first bad byte, `seq` the last good number before it.
    """

    def __init__(self, message: str, *, segment: str, offset: int, seq: int) -> None:
        super().__init__(message)
        self.segment, self.offset, self.seq = segment, offset, seq


class SharedLogError(PlaneError):
    """The engine of a shared log is not reached, or refuses; nothing was recorded.

    `unsure`: it may have taken what was published all the same; published again it counts once.
    """

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.unsure = unsure


class DivergedError(SharedLogError):
    """What the engine has is not what it gave this machine before; nothing was overwritten.

    `seq` is the last line of this machine's log that the engine has too.
    """

    def __init__(self, message: str, *, seq: int) -> None:
        super().__init__(message)
        self.seq = seq


class DegradedError(PlaneError):
    """A part failed that an answer can do without; `part` names it and the error, without its text.

    The caller asks again without that part, and the answer names it.
    """

    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part
