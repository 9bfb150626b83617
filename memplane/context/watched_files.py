"""Policies and views, read again only when their files changed.

`Watched` reads those of a home, `Frozen` those of another moment from given bytes, and `Held` those
of a plane that was found, in the bytes that its user trusted. Bytes that are read are counted.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final

from memplane import nofollow, policy
from memplane.errors import MissingExtraError, PolicyError, Problem, WriteError
from memplane.home import SCHEMAS, VERSION, Assets, Home, Trusted, replace_file, schema
from memplane.lazy import NamedTuple, late, regex
from memplane.policy import NAMES, Budgets, Policies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from memplane.intake import redact
    from memplane.pack import request
    from memplane.pack.request import View
    from memplane.policy import PolicyCheck, PolicyValue, regex_safety
    from memplane.policy.records import Hooks
else:
    redact = late("memplane.intake.redact")
    request = late("memplane.pack.request")
    regex_safety = late("memplane.policy.regex_safety")

# A file that changed this recently may change again within one tick of its time stamp.
_SETTLED_NS: Final = 2_000_000_000
# One byte more than policies may have, so that a larger one is told from one that fits.
_POLICY_BYTES_MAX: Final = 256 * 1024 + 1
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)
_QUOTED: Final = regex(r"\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)'")
_VIEW_BYTES_MAX: Final = 1024 * 1024
_SCHEMAS: Final = tuple(name.replace(".yaml", ".schema.json") for name in NAMES)
# Of the policies as they are now, a broken privacy.yaml alone, of a change taken back, and of a
# plane that is found: two of plane.yaml alone, as it is and as it was trusted.
_FORMS_KEPT: Final = 6
# What counts as it lies in the home wherever the plane is from: it says what fits, not for whom.
_FREE: Final = frozenset(("policies/budgets.yaml", "policies/scoring.yaml"))
_PLANE_YAML: Final = "plane.yaml"
# What a draft depends on: its redaction, its markers and its count of tokens.
_DRAFTED: Final = ("privacy.yaml", "scoring.yaml", "budgets.yaml")
_NO_OVERRIDES: Final[dict[str, str]] = {}
_BOUNDS: Final[ContextVar[tuple[str, ...]]] = ContextVar("bounds", default=())


@contextlib.contextmanager
def bound_to(spaces: tuple[str, ...]) -> Iterator[None]:
    """Bind what this thread asks of planes to these namespaces; empty: to none in particular.

    All that is read and written goes by the policies, so they carry it: see `Policies.bounds`.
    """
    before = _BOUNDS.set(spaces)
    try:
        yield
    finally:
        _BOUNDS.reset(before)


def _bound(policies: Policies) -> Policies:
    bounds = _BOUNDS.get()
    return policies._replace(bounds=bounds) if bounds else policies


def put_schemas(home: Path) -> None:
    """Write the schemas of all formats where the first line of a policy or scenario names them.

    Existing files stay. Errors are ignored: only an editor's hints depend on them.
    """
    for name in SCHEMAS:
        path = home / "schemas" / f"{name}.schema.json"
        if not os.path.lexists(path):
            with contextlib.suppress(WriteError):
                replace_file(path, schema(name))


class _Seen(NamedTuple):
    signature: tuple[int, int, int]
    settled: bool
    data: bytes | None


class Watched:
    """Policies and views of a home. `overrides` are the variables that stand before its files.

    `counts` raises MissingExtraError for policies whose counter cannot be made here.
    """

    def __init__(
        self,
        home: Path | str,
        keep: Callable[[], bool],
        overrides: Mapping[str, str] = _NO_OVERRIDES,
        counts: Callable[[Policies], object] = bool,
        *,
        salt: str = "",
    ) -> None:
        self._home = home
        self._keep = keep  # whether parsed forms may be written
        self.overrides, self._counts = overrides, counts
        self._seen: dict[str, _Seen] = {}
        self._unread: dict[str, str] = {}  # what is there and cannot be read, and why
        self._paths = {name: f"{home}/policies/{name}" for name in NAMES}
        self._drafted = {self._paths[name] for name in _DRAFTED}
        # In the names of parsed forms: with a salt, none is found that came with a clone.
        self._version = f"{VERSION} {salt}".rstrip()
        self.project: str | None = None  # in which whoever asks works: see `Policies`
        self._policies: Policies | None = None
        self._hashes: tuple[bytes | None, ...] = ()
        self._views: dict[str, View] = {}
        self._clean: dict[str, tuple[bytes, bytes]] = {}  # of views: as they lie there, as loaded

    def bytes_of(self, path: str, most: int = _POLICY_BYTES_MAX) -> bytes | None:
        """The bytes of the file now, None if missing; read only where it may have changed."""
        self._unread.pop(path, None)
        try:
            state = os.lstat(path)
        except OSError as error:
            self._seen.pop(path, None)
            if error.errno not in _MISSING:
                self._unread[path] = error.strerror or str(error)
            return None
        signature = (state.st_mtime_ns, state.st_size, state.st_ino)
        seen = self._seen.get(path)
        if seen is not None and seen.settled and seen.signature == signature:
            return seen.data
        try:
            data = nofollow.read_bytes(path, most, home=self._home)
        except OSError as error:
            self._seen.pop(path, None)
            self._unread[path] = error.strerror or str(error)
            return None
        settled = time.time_ns() - state.st_mtime_ns > _SETTLED_NS
        self._seen[path] = _Seen(signature, settled, data)
        return data

    def take(self, other: Watched) -> None:
        """Take over the policies that another one of the same home parsed, while files say so."""
        alike = (type(self), self._home, self._version, self.overrides) == (
            (type(other), other._home, other._version, other.overrides)
        )
        if alike and other._policies is not None:
            self._policies = other._policies._replace(project=self.project)
            self._hashes = other._hashes

    def policies(self) -> Policies:
        """The policies as they are now; raises PolicyError with every mistake in them."""
        files = self._policy_bytes()
        given = tuple(files.values())
        if self._policies is None or given != self._hashes:
            self._policies = self._loaded(files, self.overrides)
        self._hashes = given
        return _bound(self._policies)

    def policies_or_last(self) -> Policies:
        """For recording, which goes on under a broken policy: the last good one, else the defaults.

        A mistake in another file leaves privacy.yaml in force. Where it is broken itself, every
        quoted text in it that is a pattern still redacts: too much is better than a secret. A
        counter that is not installed here is replaced by the default one.
        """
        return self._countable(self._good_or_last())

    def policies_to_record(self) -> Policies:
        """As `policies_or_last`, but only files that a draft depends on are looked at again.

        This runs for every event, and each look is a system call. Of the others the last ones
        count; where one of these changed, all are looked at.
        """
        last = self._policies
        if last is None:
            return self.policies_or_last()
        for path, data in zip(self._paths.values(), self._hashes, strict=True):
            if path not in self._drafted:
                continue
            seen = self._seen.get(path)
            # That of a file which does not fit the others was seen, and is not in force.
            if seen is None or not seen.settled or seen.data is not data:
                return self.policies_or_last()
            try:
                state = os.lstat(path)
            except OSError:
                return self.policies_or_last()
            if seen.signature != (state.st_mtime_ns, state.st_size, state.st_ino):
                return self.policies_or_last()
        return self._countable(_bound(last))

    def _countable(self, policies: Policies) -> Policies:
        try:
            self._counts(policies)
        except MissingExtraError:
            return policies._replace(budgets=policies.budgets._replace(counter=Budgets().counter))
        return policies

    def _good_or_last(self) -> Policies:
        try:
            return self.policies()
        except PolicyError:
            if self._policies is not None:
                return _bound(self._policies)
        privacy = self.bytes_of(self._paths["privacy.yaml"])
        try:
            return _bound(self._loaded({"privacy.yaml": privacy}, _NO_OVERRIDES))
        except PolicyError:
            defaults = self._loaded({}, _NO_OVERRIDES)
            found = defaults.privacy.redact_patterns + _quoted_patterns(privacy or b"")
            return _bound(defaults)._replace(
                privacy=defaults.privacy._replace(redact_patterns=found),
                hashes={
                    **defaults.hashes,
                    "privacy.yaml": hashlib.sha256(privacy or b"").hexdigest(),
                },
            )

    def _loaded(self, files: dict[str, bytes | None], overrides: Mapping[str, str]) -> Policies:
        with _problems_in_the_home(files, overrides):
            loaded = policy.load_policies(
                files,
                defaults=Assets("policies", NAMES),
                schemas=Assets("schemas", _SCHEMAS),
                version=self._version,
                overrides=overrides,
                cached=self._cached,
                keep=self._kept,
            )
        return loaded if self.project is None else loaded._replace(project=self.project)

    def form_differs(self) -> bool:
        """Whether the parsed form that is kept of the policies is believed and says other things.

        Raises PolicyError.
        """
        files = self._policy_bytes()
        with _problems_in_the_home(files, self.overrides):
            anew = policy.load_policies(
                files,
                defaults=Assets("policies", NAMES),
                schemas=Assets("schemas", _SCHEMAS),
                version=self._version,
                overrides=self.overrides,
            )
        return self._loaded(files, self.overrides) != anew._replace(project=self.project)

    def rows(self) -> list[PolicyValue]:
        """Every value in force, with its origin; raises PolicyError."""
        files = self._policy_bytes()
        with _problems_in_the_home(files, self.overrides):
            return policy.policy_values(
                files,
                defaults=Assets("policies", NAMES),
                schemas=Assets("schemas", _SCHEMAS),
                overrides=self.overrides,
            )

    def checked(self) -> PolicyCheck:
        """Every mistake and every doubt, also about views that do not exist."""
        folder = f"{self._home}/views"
        above = len(f"{self._home}/")
        views = sorted(path[above:] for path in nofollow.walk_files(folder))
        files = self._bytes_of_all()
        found = policy.check_files(
            files,
            defaults=Assets("policies", NAMES),
            schemas=Assets("schemas", _SCHEMAS),
            overrides=self.overrides,
            views=[view for view in views if view.endswith(".md") and not self.view(view).lost],
        )
        problems = partial(_placed, files=files, overrides=self.overrides)
        mistakes = [*self._unreadable(), *problems(found.mistakes)]
        return found._replace(mistakes=mistakes, doubts=problems(found.doubts))

    def _bytes_of_all(self) -> dict[str, bytes | None]:
        return {name: self.bytes_of(path) for name, path in self._paths.items()}

    def _policy_bytes(self) -> dict[str, bytes | None]:
        """The files, None for one that is not there; PolicyError for one that cannot be read."""
        files = self._bytes_of_all()
        if self._unread and (problems := self._unreadable()):
            raise PolicyError(tuple(problems))
        return files

    def _unreadable(self) -> list[Problem]:
        """A policy that cannot be read is a mistake: it is not for us to guess what it forbids."""
        return [
            Problem(
                f"policies/{name}",
                0,
                "",
                f"cannot be read: {self._unread[path]}; expected a file that you may read",
            )
            for name, path in self._paths.items()
            if path in self._unread
        ]

    def policies_last_read(self) -> Policies:
        """The policies of a moment ago, for what follows in the same call."""
        last = self._policies
        return self.policies_or_last() if last is None else self._countable(_bound(last))

    def view(self, path: str) -> request.View:
        """A view by its path under the home; one that leads outside it is not read."""
        file = f"{self._home}/{path}"
        if not self._inside(file):
            return request.View(path, "", "", "outside")
        data = self._view_bytes(path)
        if data is None:
            return request.View(path, "", "", "missing")
        sha256 = hashlib.sha256(data).hexdigest()
        known = self._views.get(path)
        if known is None or known.sha256 != sha256:
            known = request.View(path, sha256, data.decode(errors="replace"))
            self._views[path] = known
        return known

    def unread(self, path: str) -> str:
        """Why a view that is there could not be read just now; "" where it could, or is missing."""
        return self._unread.get(f"{self._home}/{path}", "")

    def _view_bytes(self, path: str) -> bytes | None:
        """The bytes of a view as it is loaded: without the secrets that the built-in rules find.

        They are what its hash is of and what a snapshot holds, so that a replay gets the same.
        """
        data = self.bytes_of(f"{self._home}/{path}", _VIEW_BYTES_MAX)
        if data is None:
            return None
        known = self._clean.get(path)
        if known is None or known[0] != data:
            text = data.decode(errors="replace")
            clean = redact.masked(text)
            known = self._clean[path] = (data, data if clean == text else clean.encode())
        return known[1]

    def trustable(self) -> dict[str, bytes | None]:
        """What a trust in this plane keeps: privacy, channels, plane.yaml and the views in use.

        None for a file that is not there.
        """
        names = [f"policies/{name}" for name in NAMES if f"policies/{name}" not in _FREE]
        with contextlib.suppress(PolicyError):
            names += self._views_in_use()
        found: dict[str, bytes | None] = {}
        for name in names:
            most = _POLICY_BYTES_MAX if name.startswith("policies/") else _VIEW_BYTES_MAX
            file = f"{self._home}/{name}"
            found[name] = self.bytes_of(file, most) if self._inside(file) else None
        return found

    def held(self) -> list[str]:
        """The files that differ from what was trusted and are not used for that; sorted."""
        return []

    def _views_in_use(self) -> list[str]:
        policies = self.policies()
        names = [view for views in policies.channels.views.values() for view in views]
        names += [view for section in policies.budgets.sections for view in section.views]
        return list(dict.fromkeys(names))

    def _inside(self, file: str) -> bool:
        at = str(self._home)
        for part in file[len(at) + 1 :].split("/"):
            at = f"{at}/{part}"
            if part in ("", ".", "..") or os.path.islink(at):  # noqa: PTH114 - as above
                break
        else:  # as a rule: where no link leads away there is nothing to resolve
            return True
        return os.path.realpath(file).startswith(os.path.realpath(self._home) + os.sep)

    def source(self, path: str) -> bytes | None:
        """The bytes behind a view or policy as last read, for snapshots.

        Of a policy: those that stand for it, be they the environment's or the defaults.
        """
        folder, _, name = path.partition("/")
        is_policy = folder == "policies" and name in NAMES
        if is_policy and self._policies is not None and name in self._policies.overridden:
            return self._policies.overridden[name]
        if not is_policy:
            return self._view_bytes(path)
        data = self.bytes_of(f"{self._home}/{path}", _VIEW_BYTES_MAX)
        return Assets(folder, NAMES)[name] if data is None and is_policy else data

    def _cached(self, key: str) -> bytes | None:
        with contextlib.suppress(OSError):
            return nofollow.read_bytes(f"{self._home}/projections/policy-{key}.json")
        return None

    def _kept(self, key: str, form: bytes) -> None:
        if self._keep():
            with contextlib.suppress(WriteError, OSError):  # a cache not written is no error
                from pathlib import Path  # noqa: PLC0415 - a hook goes without

                folder = Path(self._home, "projections")
                replace_file(folder / f"policy-{key}.json", form)
                files = [folder / name for name in nofollow.file_names(folder)]
                # The name is a tie-break: files of one tick are ordered too.
                forms = [(file.lstat().st_mtime_ns, file) for file in files if _is_form(file.name)]
                for _, old in sorted(forms)[:-_FORMS_KEPT]:
                    nofollow.remove_name(old)


class Frozen(Watched):
    """Policies and views from bytes of another time, by their path under the home.

    Other paths count as missing, even where the home has them. No parsed form is saved.
    """

    def __init__(
        self,
        home: Path,
        files: Mapping[str, bytes],
        counts: Callable[[Policies], object] = bool,
        *,
        salt: str = "",
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(home, lambda: False, overrides or _NO_OVERRIDES, counts, salt=salt)
        self._files = files
        self._read: set[str] = set()  # asked only

    def bytes_of(self, path: str, most: int = _POLICY_BYTES_MAX) -> bytes | None:
        """What the file held then, None where there was none; counted when first asked for."""
        name = path.removeprefix(f"{self._home}/")
        data = self._files.get(name)
        if data is not None and name not in self._read:
            self._read.add(name)
        return None if data is None else data[:most]

    def _inside(self, _: str) -> bool:
        return True  # whatever the home has become, these bytes were read then


class HeldPolicies(Watched):
    """Policies and views of a plane that was found: where they differ from `trusted`, in its bytes.

    That is for views, privacy.yaml and channels.yaml, and for plane.yaml where its `hooks` differ.
    """

    def __init__(
        self,
        home: Path | str,
        keep: Callable[[], bool],
        trusted: Trusted,
        overrides: Mapping[str, str] = _NO_OVERRIDES,
        counts: Callable[[Policies], object] = bool,
    ) -> None:
        super().__init__(home, keep, overrides, counts, salt=trusted.salt)
        self._trusted = trusted.files
        self._agreed: dict[bytes, bool] = {}  # bytes of plane.yaml, whether its hooks are trusted

    def bytes_of(self, path: str, most: int = _POLICY_BYTES_MAX) -> bytes | None:
        """What counts for this file: what it holds now, or what was trusted."""
        found = super().bytes_of(path, most)
        name = path.removeprefix(f"{self._home}/")
        if name in _FREE:
            return found
        kept = self._trusted.get(name)
        if found is None and path not in self._unread and kept is None:
            return None
        if found is not None and self._agree(name, found, kept, most):
            return found
        self._unread.pop(path, None)
        return None if kept is None else kept[:most]

    def held(self) -> list[str]:
        """The files that differ from what was trusted and are not used for that; sorted."""
        names = {f"policies/{name}" for name in NAMES} | {*self._trusted}
        with contextlib.suppress(PolicyError):
            names.update(self._views_in_use())
        found = []
        for name in sorted(names - _FREE):
            path = f"{self._home}/{name}"
            most = _POLICY_BYTES_MAX if name.startswith("policies/") else _VIEW_BYTES_MAX
            there = super().bytes_of(path, most)
            unread = self._unread.pop(path, None) is not None
            if unread or not self._agree(name, there, self._trusted.get(name), most):
                found.append(name)
        return found

    def checked(self) -> PolicyCheck:
        """Every mistake in the files themselves, be they in use or not."""
        return Watched(self._home, self._keep, self.overrides, self._counts).checked()

    def _agree(self, name: str, found: bytes | None, kept: bytes | None, most: int) -> bool:
        if found == (None if kept is None else kept[:most]):
            return True
        if name != f"policies/{_PLANE_YAML}":
            return False
        data = found or b""
        if data not in self._agreed:
            try:
                self._agreed = {data: self._hooks(found) == self._hooks(kept)}
            except PolicyError:  # what it says of hooks cannot be known
                self._agreed = {data: False}
        return self._agreed[data]

    def _hooks(self, data: bytes | None) -> Hooks:
        return self._loaded({_PLANE_YAML: data}, _NO_OVERRIDES).plane.hooks

    def _inside(self, file: str) -> bool:
        # What a link leads to is at most compared with what was trusted.
        return file.removeprefix(f"{self._home}/") in self._trusted or super()._inside(file)


def _is_form(name: str) -> bool:
    return name.startswith("policy-") and name.endswith(".json")


def watched(
    home: Home,
    keep: Callable[[], bool],
    overrides: Mapping[str, str] = _NO_OVERRIDES,
    counts: Callable[[Policies], object] = bool,
) -> Watched:
    """The policies and views that count for an opened home."""
    if home.trusted is None:
        return Watched(home.folder, keep, overrides, counts)
    return HeldPolicies(home.folder, keep, home.trusted, overrides, counts)


@contextlib.contextmanager
def _problems_in_the_home(
    files: Mapping[str, bytes | None], overrides: Mapping[str, str]
) -> Iterator[None]:
    """Name the files by their paths in the home."""
    try:
        yield
    except PolicyError as error:
        raise PolicyError(tuple(_placed(error.problems, files, overrides))) from None


def _placed(
    problems: Iterable[Problem], files: Mapping[str, bytes | None], overrides: Mapping[str, str]
) -> list[Problem]:
    """The problems with their files as they lie in the home, and without the secrets in them."""
    if not (problems := list(problems)):
        return problems

    texts = [data.decode(errors="replace") for data in files.values() if data is not None]
    secrets = [
        secret for text in (*texts, *overrides.values()) for secret in redact.secrets_in(text)
    ]
    return [
        problem._replace(
            file=f"policies/{problem.file}" if problem.file in NAMES else problem.file,
            key=redact.without_secrets(problem.key, secrets),
            message=redact.without_secrets(problem.message, secrets),
        )
        for problem in problems
    ]


def _quoted_patterns(data: bytes) -> tuple[str, ...]:
    """The quoted texts of a broken file that are patterns, less what would stop all recording."""
    found: list[str] = []
    for double, single in _QUOTED.findall(data.decode(errors="replace")):
        text = double.replace("\\\\", "\\") or single
        if len(text) > 2 and not regex_safety.pattern_mistake(text):
            found.append(text)
        if len(found) == 100:
            break
    return tuple(found)
