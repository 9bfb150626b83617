"""The projects of the user's own plane: which folder is of which, and who sees what of them.

Only `~/.memplane` is parted: what is recorded there belongs to a project, and a session sees its
own and `/global`. A project's own plane is one whole. A namespace is `/project/<name>-<8 hex>`: of
the git origin's address without credentials, else of the root's path.

**What a folder says of itself** (`Root`): root, origin and work trees, read from its `.git`.
git is not run (a repository's own configuration names programs that git would start), links are not
followed, a `.git` of another user counts as none, and every read is bounded. What is found here is
a claim: a `.git` can say any origin. Layout as in gitrepository-layout(5) and git-worktree(1): the
`.git` of a work tree is a file with `gitdir: <path>`; that folder has `commondir`, and `gitdir`,
which names the `.git` file back. The `.git` file of a submodule names a folder whose config has
`core.worktree`.

**What the log says.** Which root is of which project is said by events of kind `project`, whose
`data` is one of::

    {"root": {"project": NS, "key": HEX, "place": HEX, "path": P, "address": A, "trees": [P, ..],
              "sessions": [ID, ..]}}          a root was met, and the work trees of it
    {"join": {"project": NS, "place": HEX, "path": P, "was": NS}}          the user joined a root
    {"assign": {"project": NS, "sessions": [ID, ..], "folder": NAME}}      the user moved sessions

`key` is the SHA-256 of what the project is made of (`origin <address>`, `path <root>`), `place`
that of the root's path. `sessions` of a root are those that the client keeps in the folder that it
has for that root. What was recorded earlier keeps its bytes: its place is decided where it is read.

`KnownProjects` is a fold of the `project` and `session` events of a log, and says of any event
where it belongs (`KnownProjects.place`). `Registry` keeps it for one plane: it finds those lines by
their bytes, so that a hook, which folds nothing, has it within a millisecond, and keeps it in
`projections/projects.json`, a cache that names the byte up to which it was made.

An event that says no project belongs to one as follows. Of what hooks and imports recorded into
`/global` before the plane was parted (`is_of_client`; and the summaries of such sessions), the
session is given to the project that the user assigned it to, else to the one in whose client's
folder it stands, else to the first one that has the name of the session's folder, else to
`UNKNOWN`. Preferences stay. What the user assigned or joined later is moved likewise.

**Where a folder belongs** (`enter_folder`). A root that was met before stays where it is. A new one
whose origin nobody has claimed yet begins that project. A new one whose origin is known joins it
only if the known root lists it as a work tree, or the user says so (`memplane projects join`): any
folder can claim any origin. Until then it is a project of its own, by its path, and is shown
nothing of the other. `for_folder` and `for_name` open the user's own plane for the project that
somebody works in, or for one that is named.
"""

# A hook comes by here: `pathlib` is a twentieth of what one costs.
# ruff: noqa: PTH111, PTH117, PTH118, PTH119, PTH120
from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import InputError, NotFoundError
from memplane.event import GLOBAL, PROJECTS, bare_project
from memplane.lazy import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from memplane.home import Home


_UPWARD_MAX: Final = 64  # folders
_POINTER_BYTES: Final = 4096  # of a `.git` file, `commondir`, `gitdir`
_CONFIG_BYTES: Final = 256 * 1024
_TREES_MAX: Final = 64
_NAME_MAX: Final = 40
_GIT: Final = ".git"
# Where clients and people put work trees inside of a root; what is below is of the root.
_INNER_TREES: Final = ("/.claude/worktrees/", "/.worktrees/", "/.codex/worktrees/")


class Root(NamedTuple):
    """A folder and what its `.git` claims.

    `path`: the real path. `main`: the root that it is a work tree of, which lists it; else "".
    `origin`: the address without credentials, "" where none is said. `git`: there is a `.git`.
    `there`: the folder is on this machine.
    """

    path: str
    main: str = ""
    origin: str = ""
    git: bool = False
    there: bool = True


NO_ROOT: Final = Root("")


def find_root(folder: str) -> Root:
    """The root of a folder: the nearest with a `.git` at or above it, else the folder itself.

    Of a folder that is not there nothing is looked for on the disk: it is its own root.
    """
    if not os.path.isabs(folder):
        return NO_ROOT
    try:
        real = os.path.realpath(folder, strict=True)
        there = stat.S_ISDIR(os.lstat(real).st_mode)
    except (OSError, ValueError):
        there = False
    if not there:
        return Root(os.path.normpath(folder), there=False)
    at = real
    for _ in range(_UPWARD_MAX):
        found = _root_at(at)
        if found is not None:
            return found
        above = os.path.dirname(at)
        if above == at:
            break
        at = above
    return Root(real)


def _root_at(folder: str) -> Root | None:
    """The root in this very folder; None where it has no `.git` of this user."""
    git = os.path.join(folder, _GIT)
    try:
        state = os.lstat(git)
    except (OSError, ValueError):
        return None
    if state.st_uid != os.geteuid():
        return None
    if stat.S_ISDIR(state.st_mode):
        return Root(folder, "", _origin(git, folder), git=True)
    if stat.S_ISREG(state.st_mode):
        return _pointed(folder, git)
    return None  # a link, or what no git makes


def _pointed(folder: str, git: str) -> Root:
    """The root whose `.git` is a file: a work tree or submodule, if the other side says so too."""
    plain = Root(folder, git=True)
    said = _line(git, folder)
    if not said.startswith("gitdir:"):
        return plain
    gitdir = _resolved(said.removeprefix("gitdir:").strip(), folder)
    if not gitdir or not _is_ours(gitdir):
        return plain
    if _resolved(_line(os.path.join(gitdir, "gitdir"), gitdir), gitdir) == git:
        common = _resolved(_line(os.path.join(gitdir, "commondir"), gitdir), gitdir)
        # The main root lists it: its own folder of work trees has the place that names us.
        if common and os.path.dirname(gitdir) == os.path.join(common, "worktrees"):
            main = os.path.dirname(common) if os.path.basename(common) == _GIT else common
            return Root(folder, main, _origin(common, main), git=True)
        return plain
    values = _config(gitdir)
    if _resolved(values.get("core.worktree", ""), gitdir) == folder:
        return Root(folder, "", address_of(values.get("remote.origin.url", ""), folder), git=True)
    return plain


def work_trees(main: str) -> list[str]:
    """The roots that a main root lists as its work trees, at most 64; none of one without."""
    git = os.path.join(main, _GIT)
    common = git if _is_folder(git) else main
    found: list[str] = []
    with suppress(OSError):
        for name in nofollow.folder_names(os.path.join(common, "worktrees"), common)[:_TREES_MAX]:
            place = os.path.join(common, "worktrees", name)
            named = _resolved(_line(os.path.join(place, "gitdir"), common), place)
            if os.path.basename(named) == _GIT:
                found.append(os.path.dirname(named))
    return found


def tree_base(path: str) -> str:
    """The root that a path lies in by the usual places of work trees below it; "" for no such."""
    for inner in _INNER_TREES:
        before, found, behind = path.partition(inner)
        if found and behind:
            return before
    return ""


def inner_path(path: str) -> str:
    """A file's path from its root, without the usual places of work trees before it."""
    for inner in _INNER_TREES:
        head = inner.removeprefix("/")
        if path.startswith(head):
            tree, slash, rest = path[len(head) :].partition("/")
            if tree and slash and rest:
                return rest
    return path


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_ours(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except (OSError, ValueError):
        return False


def _line(path: str, home: str) -> str:
    """The first line of a small file; "" where there is none, or no such file."""
    try:
        data = nofollow.read_bytes(path, _POINTER_BYTES, home=home)
    except (OSError, ValueError):
        return ""
    line = data.partition(b"\n")[0].strip()
    return "" if b"\0" in line else os.fsdecode(line)


def _resolved(named: str, folder: str) -> str:
    """A path as it was named in a folder, without `..`; "" of none."""
    return os.path.normpath(os.path.join(folder, named)) if named else ""


def _origin(common: str, root: str) -> str:
    return address_of(_config(common).get("remote.origin.url", ""), root)


def _config(folder: str) -> dict[str, str]:
    """`core.worktree` and `remote.origin.url` of a git config, the last of each; no includes."""
    found: dict[str, str] = {}
    try:
        data = nofollow.read_bytes(os.path.join(folder, "config"), _CONFIG_BYTES, home=folder)
    except (OSError, ValueError):
        return found
    section = ""
    for raw in data.decode("utf-8", "surrogateescape").splitlines():
        line = raw.strip()
        if line.startswith("["):
            head, _, line = line[1:].partition("]")
            word, _, name = head.partition(" ")
            name = name.strip().removeprefix('"').removesuffix('"')
            section = f"{word.strip().lower()}.{name}".rstrip(".")
            line = line.strip()
        key, equals, value = line.partition("=")
        wanted = f"{section}.{key.strip().lower()}"
        if equals and wanted in ("core.worktree", "remote.origin.url"):
            found[wanted] = value.strip().strip('"')
    return found


def address_of(url: str, root: str) -> str:
    """An origin's address: host and path, without scheme, user, password, query and `.git`.

    So `git@host:team/app.git` and `https://token@host/team/app` are one. Of a folder of this
    machine it is the path. "" for what is none.
    """
    url = url.strip()
    if not url or not url.isprintable():
        return ""
    scheme, slashes, rest = url.partition("://")
    if slashes and scheme.lower() != "file":
        host, _, path = rest.partition("/")
    elif not slashes and ":" in url.partition("/")[0]:  # the form of scp
        host, _, path = url.partition(":")
    else:
        path = rest if slashes else url
        return f"{os.path.normpath(os.path.join(root, path))}".removesuffix("/.git")
    host = host.rpartition("@")[2].lower()
    path = path.partition("?")[0].partition("#")[0].strip("/").removesuffix(_GIT).rstrip("/")
    return f"{host}/{path}" if host and path else ""


def project_name(path: str) -> str:
    """The last part of an address or path as a name: letters, digits, `.`, `_` and `-`."""
    last = path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    plain = "".join(
        one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in last
    )
    return plain.strip("-.")[:_NAME_MAX].strip("-.") or "project"


def digest(text: str) -> str:
    """The SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def client_folder(path: str) -> str:
    """The name that Claude Code gives the folder of what it keeps for a project."""
    return "".join(one if one.isascii() and one.isalnum() else "-" for one in path)


def is_excluded(folders: Sequence[str], globs: Sequence[str]) -> bool:
    """Whether one of the folders, or one above it, is named by one of the globs.

    `*` stands for any characters, `/` among them; `~` for the user's folder. A folder is compared
    as it is named and by its real path.
    """
    if not globs:
        return False
    import fnmatch  # noqa: PLC0415 - most plane.yaml have none

    named = [os.path.expanduser(one).rstrip("/") or "/" for one in globs]
    return any(
        fnmatch.fnmatchcase(above, glob)
        for folder in dict.fromkeys(folders)
        for above in _at_and_above(folder)
        for glob in named
    )


def _at_and_above(folder: str) -> Iterator[str]:
    if not os.path.isabs(folder):
        return
    for path in dict.fromkeys((os.path.normpath(folder), os.path.realpath(folder))):
        at = path
        while True:
            yield at
            above = os.path.dirname(at)
            if above == at:
                break
            at = above


PREFIX: Final = PROJECTS
UNKNOWN: Final = f"{PREFIX}unknown"
NOWHERE: Final = f"{PREFIX}-"  # of who works in no folder: nothing is recorded there
_FORMAT: Final = 1
_HEX: Final = 8
_CLIENTS: Final = ("claude-code:", "codex:")
_HOOKED: Final = "hook"  # the tag of what a hook recorded
_STAYS: Final = frozenset(("preference", "pin", "touch", "purge", "repair", "segment", "project"))
_MARKS: Final = (b'"kind":"project"', b'"kind":"session"')
_PURGE: Final = b'"kind":"purge"'
_KEEP_BYTES: Final = 256 * 1024  # so much behind the cache is looked through again by each process
_CACHE: Final = "projects.json"
_CACHE_BYTES: Final = 64 * 1024 * 1024


class SessionPlace(NamedTuple):
    """A session as its own events say it: namespace, folder's name, and when it began.

    `client`: a coding agent's, recorded by a hook or an import.
    """

    ns: str
    folder: str = ""
    since: str = ""
    client: bool = False


class KnownProjects:
    """The fold: projects, roots, sessions and moves. Read only outside of `Registry`."""

    __slots__ = (
        "aliases",
        "basenames",
        "by_key",
        "claims",
        "folders",
        "given",
        "listed",
        "moves",
        "named",
        "projects",
        "roots",
        "sessions",
    )

    def __init__(self) -> None:
        self.projects: dict[str, tuple[str, str]] = {}  # ns -> key, address
        self.by_key: dict[str, str] = {}  # key -> ns
        self.roots: dict[str, tuple[str, str]] = {}  # place -> ns, path
        self.claims: dict[str, str] = {}  # place -> the project whose origin it only claims
        self.aliases: dict[str, str] = {}  # the project that a joined root had -> its project now
        self.sessions: dict[str, SessionPlace] = {}
        self.given: dict[str, str] = {}  # session -> ns, by the user
        self.folders: dict[str, str] = {}  # name of a folder -> ns, by the user
        self.listed: dict[str, str] = {}  # session -> ns, by the client's folder
        self.named: dict[str, str] = {}  # name of a folder -> the first project of that name
        self.basenames: dict[str, set[str]] = {}  # ns -> names of the folders of its roots
        self.moves = False  # whether any event belongs elsewhere than its line says

    # --- what is known of a place ---

    def of_root(self, path: str) -> str | None:
        """The project of a root; None for one that was not met."""
        found = self.roots.get(digest(path))
        return None if found is None else self.now(found[0])

    def now(self, ns: str) -> str:
        """The project that another one is part of now, or itself."""
        for _ in range(len(self.aliases) + 1):
            if ns not in self.aliases:
                break
            ns = self.aliases[ns]
        return ns

    def of_session(self, session: str) -> str | None:
        """The namespace of a session as it stands; None for one that nothing was said of."""
        if session in self.given:
            return self.now(self.given[session])
        found = self.sessions.get(session)
        if found is None:
            return None
        if found.ns == GLOBAL and found.client:
            return self._given_to(session)
        return self.now(found.ns)

    def claimed_by(self, path: str) -> str:
        """The project whose origin a root claims and has not joined, "" for none."""
        found = self.claims.get(digest(path), "")
        return self.now(found) if found else ""

    def roots_of(self, ns: str) -> list[str]:
        """The paths of the roots of a project, in the order in which they were met."""
        return [path for its, path in self.roots.values() if self.now(its) == ns]

    def above(self, path: str) -> tuple[str, str] | None:
        """The nearest root that a path lies in, by its words alone, and its project."""
        best, user = "", os.path.expanduser("~")
        for _, root in self.roots.values():
            # What lies in the user's folder is of no project by that.
            if f"{user}/".startswith(f"{root.rstrip('/')}/"):
                continue
            if len(root) > len(best) and (path == root or path.startswith(f"{root}/")):
                best = root
        return (best, self.of_root(best) or "") if best else None

    def namespaces(self) -> list[str]:
        """All projects that something is known of, by name."""
        found = {self.now(ns) for ns in self.projects}
        found |= {
            ns for one in self.sessions if (ns := self.of_session(one) or "").startswith(PREFIX)
        }
        return sorted(found)

    def is_news(self, row: Mapping[str, Any]) -> bool:
        """Whether a row that names a root says something that is not known."""
        said = row.get("data", {}).get("root", {})
        return said.get("place") not in self.roots

    # --- where an event belongs ---

    def stamp(self) -> str:
        """A name of where events belong, "" where all belong where their lines say.

        What was folded under another name has events in other places.
        """
        if not self.moves:
            return ""
        moved = {
            session: ns
            for session, one in self.sessions.items()
            if (ns := self.of_session(session)) is not None and ns not in (one.ns, UNKNOWN)
        }
        moved |= {session: self.now(ns) for session, ns in self.given.items()}
        return digest(json.dumps([sorted(moved.items()), sorted(self.aliases.items())]))[:16]

    def place(self, fields: Mapping[str, Any]) -> str:
        """The namespace in which an event is read: `fields` as its line has them."""
        ns, session = fields.get("ns", GLOBAL), fields.get("session")
        if ns.startswith(PREFIX):
            if session in self.given:
                ns = self.given[session]
            return self.now(ns) if self.aliases else str(ns)
        if ns != GLOBAL or session is None or fields.get("kind") in _STAYS:
            return str(ns)
        return self._given_to(session) if _is_of_client(fields) else GLOBAL

    def _given_to(self, session: str) -> str:
        """The project of a session that was recorded before the plane was parted."""
        found = self.given.get(session)
        one = self.sessions.get(session)
        folder = one.folder if one is not None else ""
        if found is None and session in self.listed:
            # Two paths may have one name with the client: the folder's own name must fit.
            listed = self.listed[session]
            found = listed if folder in self.basenames.get(listed, ()) or not folder else None
        if found is None:
            found = (self.folders.get(folder) or self.named.get(folder)) if folder else None
        return UNKNOWN if found is None else self.now(found)

    # --- folding ---

    def apply(self, fields: Mapping[str, Any]) -> None:
        """Take in an event of kind `project` or `session`; what is odd changes nothing."""
        data = fields.get("data", {})
        if not isinstance(data, dict):
            return
        if fields["kind"] == "session":
            self._session(fields, data)
        elif isinstance(said := data.get("root"), dict):
            self._root(said)
        elif isinstance(said := data.get("join"), dict):
            self._join(said)
        elif isinstance(said := data.get("assign"), dict):
            self._assign(said)

    def _session(self, fields: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        session = fields.get("session")
        if not isinstance(session, str):
            return
        known = self.sessions.get(session)
        folder = data.get("folder")
        folder = folder if isinstance(folder, str) else ""
        if known is None:
            client = _is_of_client(fields)
            ns = str(fields.get("ns", GLOBAL))
            self.sessions[session] = SessionPlace(ns, folder, str(fields["ts"]), client)
            self.moves = self.moves or (client and ns == GLOBAL)
        elif folder and not known.folder:
            self.sessions[session] = known._replace(folder=folder)

    def _root(self, said: Mapping[str, Any]) -> None:
        ns, key, place, path = _texts(said, "project", "key", "place", "path")
        if not ns.startswith(PREFIX) or not key or not place or place in self.roots:
            return
        if ns in self.projects and said.get("tree") is not True:
            ns, key = path_place(self, path)  # of two that claimed it at once, the second
        address = _texts(said, "address")[0]
        self.projects.setdefault(ns, (key, address))
        self.by_key.setdefault(key, ns)
        self.roots.setdefault(place, (ns, path))
        for tree in _list(said.get("trees")):
            self.roots.setdefault(digest(tree), (ns, tree))
        # The first of a name: who comes later with the same takes nothing away.
        if claims := _texts(said, "claims")[0]:
            self.claims[place] = claims
        else:
            self.named.setdefault(_last(path), ns)
        self.basenames.setdefault(ns, set()).add(_last(path))
        for session in _list(said.get("sessions")):
            self.listed.setdefault(session, ns)

    def _join(self, said: Mapping[str, Any]) -> None:
        ns, place, path, was = _texts(said, "project", "place", "path", "was")
        if not ns.startswith(PREFIX) or not place:
            return
        self.roots[place] = (ns, path)
        self.claims.pop(place, None)
        if was.startswith(PREFIX) and was != UNKNOWN and self.now(ns) != was:
            self.aliases[was] = ns
            self.moves = True

    def _assign(self, said: Mapping[str, Any]) -> None:
        ns, folder = _texts(said, "project", "folder")
        if not ns.startswith(PREFIX):
            return
        self.moves = True
        for session in _list(said.get("sessions")):
            self.given[session] = ns
        if folder:
            self.folders[folder] = ns

    def fields(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "projects": self.projects,
            "roots": self.roots,
            "aliases": self.aliases,
            "claims": self.claims,
            "sessions": self.sessions,
            "given": self.given,
            "folders": self.folders,
            "listed": self.listed,
            "named": self.named,
            "moves": self.moves,
        }

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> KnownProjects:
        """The state that `fields` gave; raises ValueError, KeyError or TypeError for no such."""
        one = cls()
        one.projects = {ns: (key, address) for ns, (key, address) in fields["projects"].items()}
        one.by_key = {}
        for ns, (key, _) in one.projects.items():
            one.by_key.setdefault(key, ns)
        one.roots = {place: (ns, path) for place, (ns, path) in fields["roots"].items()}
        one.sessions = {each: SessionPlace(*said) for each, said in fields["sessions"].items()}
        for ns, path in one.roots.values():
            one.basenames.setdefault(ns, set()).add(_last(path))
        for name in ("aliases", "claims", "given", "folders", "listed", "named"):
            setattr(one, name, dict(fields[name]))
        one.moves = bool(fields["moves"])
        return one


def path_place(known: KnownProjects, path: str) -> tuple[str, str]:
    """The namespace of a root by its path, and its key."""
    key, text = digest(f"path {path}"), path
    while True:
        ns = f"{PREFIX}{project_name(path)}-{digest(text)[:_HEX]}"
        if ns not in known.projects or known.projects[ns][0] == key:
            return ns, key
        text = f"{text}/"  # eight digits can be met on purpose


def _is_of_client(fields: Mapping[str, Any]) -> bool:
    """Whether a hook or an import of a coding agent's transcript recorded it, or summed it up."""
    if str(fields.get("id", "")).startswith(_CLIENTS) or _HOOKED in fields.get("tags", ()):
        return True
    key, session = fields.get("key"), fields.get("session")
    return key is not None and key == f"session/{session}/summary"


def _last(path: str) -> str:
    """The name of a folder, as clients record it of a session."""
    return path.rstrip("/").rpartition("/")[2]


def _texts(said: Mapping[str, Any], *names: str) -> list[str]:
    return [value if isinstance(value := said.get(name), str) else "" for name in names]


def _list(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


class Registry:
    """`KnownProjects` of one plane, kept up with its log. `plane`: the id that the cache must name.

    `keeps`: the cache may be written. One thread at a time.
    """

    def __init__(self, home: str, plane: str, *, keeps: bool) -> None:
        self._home, self._plane, self._keeps = home, plane, keeps
        self._folder = f"{home}/log"
        self.known = KnownProjects()
        self._segment = self._offset = 0
        self._mark = ""  # the last hash before the offset
        self._stat: tuple[int, ...] = ()
        self._load()

    def follow(self) -> KnownProjects:
        """What the log says now; looks through what was appended since."""
        names = [name for name in nofollow.file_names(self._folder) if name.endswith(".jsonl")]
        numbers = sorted(int(name[:-6]) for name in names if name[:-6].isdecimal())
        stat = self._stat_of(numbers[-1]) if numbers else ()
        if stat == self._stat:
            return self.known
        if not self._continues(numbers) or not self._take(numbers):
            self._restart()
            self._take(numbers)
        self._stat = stat
        return self.known

    def loads(self, loads: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """A parser of lines that puts each event where it belongs."""

        def placed(raw: bytes) -> Any:
            fields = loads(raw)
            if not self.known.moves or not isinstance(fields, dict):
                return fields
            try:
                if fields.get("kind") == "forget":
                    return self._named(fields)
                ns = self.known.place(fields)
            except (TypeError, AttributeError):  # it is no event: who decodes it says so
                return fields
            if ns != fields.get("ns", GLOBAL):
                fields["ns"] = ns
            return fields

        return placed

    def _named(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A forget of the summary of a session that was moved: its key is where the session is."""
        data = fields.get("data")
        named = data.get("forget") if isinstance(data, dict) else None
        if not isinstance(named, dict) or named.get("ns", GLOBAL) != GLOBAL:
            return fields
        key = named.get("key")
        if isinstance(key, str) and key.startswith("session/") and key.endswith("/summary"):
            session = key.removeprefix("session/").removesuffix("/summary")
            said = {"kind": "summary", "key": key, "session": session}
            named["ns"] = self.known.place(said)
        return fields

    def _stat_of(self, number: int) -> tuple[int, ...]:
        try:
            found = os.lstat(f"{self._folder}/{number:08}.jsonl")
        except OSError:
            return ()
        return (number, found.st_size, found.st_mtime_ns, found.st_ino)

    def _continues(self, numbers: Collection[int]) -> bool:
        """Whether the log still holds what was read of it."""
        if not self._segment:
            return True
        if self._segment not in numbers:
            return False
        before = self._bytes(self._segment, max(self._offset - 19, 0), 19)
        return len(before) == 19 and before[:16].decode("ascii", "replace") == self._mark

    def _take(self, numbers: Collection[int]) -> bool:
        """Fold what is behind; False where something was erased in what was read before."""
        read = 0
        begun = self._segment
        for number in sorted(numbers):
            if number < self._segment:
                continue
            start = self._offset if number == self._segment else 0
            data = self._bytes(number, start)
            end = data.rfind(b"\n") + 1
            if begun and data.find(_PURGE, 0, end) >= 0:
                return False
            for line in _lines(data, end):
                with suppress(ValueError, KeyError, TypeError, RecursionError):
                    fields = json.loads(line)
                    if fields["kind"] in ("project", "session"):
                        self.known.apply(fields)
            if end:
                self._mark = data[end - 19 : end - 3].decode("ascii", "replace")
                self._segment, self._offset = number, start + end
            read += end
        if self._keeps and read > _KEEP_BYTES:
            self.save()
        return True

    def _bytes(self, number: int, start: int, most: int = -1) -> bytes:
        try:
            path = f"{self._folder}/{number:08}.jsonl"
            with nofollow.open_regular(path, home=self._home) as file:
                file.seek(start)
                return file.read(most)
        except OSError:
            return b""

    def _restart(self) -> None:
        self.known = KnownProjects()
        self._segment = self._offset = 0
        self._mark = ""

    def _load(self) -> None:
        try:
            path = f"{self._home}/projections/{_CACHE}"
            kept = json.loads(nofollow.read_bytes(path, _CACHE_BYTES, home=self._home))
            if kept["format"] != _FORMAT or kept["plane"] != self._plane:
                return
            known, segment, offset = (
                KnownProjects.of(kept["known"]),
                kept["segment"],
                kept["offset"],
            )
            mark = kept["h"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
        if type(segment) is int and type(offset) is int and isinstance(mark, str):
            self.known, self._segment, self._offset, self._mark = known, segment, offset, mark

    def save(self) -> None:
        """Write the cache; a disk that refuses costs the next process a look at the log."""
        kept = {
            "format": _FORMAT,
            "plane": self._plane,
            "segment": self._segment,
            "offset": self._offset,
            "h": self._mark,
            "known": self.known.fields(),
        }
        path = f"{self._home}/projections/{_CACHE}"
        draft = f"{self._home}/projections/.{os.getpid()}.{_CACHE}"
        with suppress(OSError):
            nofollow.make_folder(f"{self._home}/projections", self._home)
            with os.fdopen(nofollow.create_draft(draft, home=self._home), "w") as file:
                file.write(json.dumps(kept))
            nofollow.rename_name(draft, path, home=self._home)


def _lines(data: bytes, end: int) -> Iterator[bytes]:
    """The whole lines among the bytes that say one of `_MARKS`, each once, in order."""
    places: set[int] = set()
    for mark in _MARKS:
        at = data.find(mark, 0, end)
        while at >= 0:
            places.add(data.rfind(b"\n", 0, at) + 1)
            at = data.find(mark, data.find(b"\n", at), end)
    for start in sorted(places):
        yield data[start : data.find(b"\n", start)]


def shown_name(ns: str, others: Collection[str]) -> str:
    """A project's name, and its digits where another of these has the same name."""
    names = [one for one in others if bare_project(one) == bare_project(ns)]
    return bare_project(ns) if len(names) <= 1 else ns.removeprefix(PREFIX)


def shown_names(namespaces: Collection[str]) -> dict[str, str]:
    """The name of each project as it is shown among these."""
    return {ns: shown_name(ns, namespaces) for ns in namespaces}


_SESSIONS_MAX: Final = 1_000  # of a client's folder, the newest: an event holds 64 KiB
_NAMES_MAX: Final = 20_000
_DIGITS: Final = 8
_TRANSCRIPT: Final = ".jsonl"


class Place(NamedTuple):
    """A project, the root that paths are named from, and the other roots of it, longest first.

    `claims`: the project whose origin the root claims and has not joined, "" for none.
    """

    ns: str
    root: str
    trees: tuple[str, ...] = ()
    claims: str = ""

    @property
    def folders(self) -> tuple[str, ...]:
        """Where a file may lie to be named from its root: the deepest first."""
        return tuple(sorted({self.root, *self.trees} - {""}, key=lambda one: (-len(one), one)))


class Entered(NamedTuple):
    """A place, and the events that say so for the first time: rows for the log."""

    place: Place
    rows: tuple[dict[str, Any], ...] = ()


def enter_folder(known: KnownProjects, folder: str, *, kept: str = "") -> Entered:
    """The place of who works in a folder. Writes nothing; `rows` are for who records.

    `kept`: the client's own folder of transcripts for it, whose sessions are of the same project.
    """
    found = find_root(folder)
    if found == NO_ROOT:
        return Entered(Place("", ""))
    ns = known.of_root(found.path)
    if ns is not None:
        return Entered(_placed(known, ns, found))
    base = "" if found.git else tree_base(f"{found.path}/")
    if base and (its := known.of_root(base)) is not None:
        return Entered(Place(its, found.path, (base,)))  # by its words: the folder may be gone
    return _met(known, found, kept)


def _met(known: KnownProjects, found: Root, kept: str) -> Entered:
    """The place of a root that was not met before."""
    rows: list[dict[str, Any]] = []
    top = found
    if found.main:
        # It is listed as a work tree: it belongs where its main root does.
        ns = known.of_root(found.main)
        if ns is not None:
            row = root_row(known, ns, found.path, tree=True)
            return Entered(_placed(known, ns, found), (row,))
        top = Root(found.main, "", found.origin, git=True)
    ns, key, claims = _named(known, top)
    trees = [one for one in work_trees(top.path) if one != top.path] if top.git else []
    if found.path != top.path and found.path not in trees:
        trees.append(found.path)
    trees = [one for one in trees if known.of_root(one) is None]
    rows.append(
        root_row(
            known,
            ns,
            top.path,
            key=key,
            address=top.origin,
            trees=trees,
            sessions=sessions_in(kept or _kept_by_client(top.path)),
            claims=claims,
        )
    )
    return Entered(
        Place(ns, found.path, tuple({top.path, *trees} - {found.path}), claims), tuple(rows)
    )


def _named(known: KnownProjects, top: Root) -> tuple[str, str, str]:
    """The namespace and key of a new root, and the project whose origin it only claims."""
    claims = ""
    if top.origin:
        key = digest(f"origin {top.origin}")
        ns = f"{PREFIX}{project_name(top.origin)}-{digest(top.origin)[:_DIGITS]}"
        claims = known.by_key.get(key, "")
        # Eight digits can be met on purpose: a namespace belongs to who had it first.
        if not claims and ns not in known.projects:
            return ns, key, ""
        claims = claims or ns
    ns, key = path_place(known, top.path)
    return ns, key, known.now(claims) if claims else ""


def _placed(known: KnownProjects, ns: str, found: Root) -> Place:
    """A place of a root that is known; its work trees of now among the roots."""
    main = found.main or found.path
    trees = {*known.roots_of(ns), main}
    if found.git:
        trees.update(work_trees(main))
    trees.discard(found.path)
    return Place(ns, found.path, tuple(trees), known.claimed_by(found.path))


def root_row(
    known: KnownProjects,
    ns: str,
    path: str,
    *,
    key: str = "",
    address: str = "",
    trees: Sequence[str] = (),
    sessions: Sequence[str] = (),
    claims: str = "",
    tree: bool = False,
) -> dict[str, Any]:
    """The event that says of which project a root is, for the first time."""
    key = key or known.projects.get(ns, ("", ""))[0] or digest(f"path {path}")
    said: dict[str, Any] = {"project": ns, "key": key, "place": digest(path), "path": path}
    more = {"address": address, "trees": list(trees)[:64], "sessions": list(sessions)}
    said |= {name: value for name, value in more.items() if value}
    if claims:
        said["claims"] = claims
    if tree:
        said["tree"] = True
    return {"kind": "project", "ns": ns, "text": f"Root {path}", "data": {"root": said}}


def joined(known: KnownProjects, ns: str, root: str) -> dict[str, Any]:
    """The event by which the user joins a root to a project."""
    said = {"project": ns, "place": digest(root), "path": root}
    was = known.of_root(root)
    if was is not None and was != ns:
        said["was"] = was
    return {"kind": "project", "ns": ns, "text": f"Joined {root}", "data": {"join": said}}


def sessions_in(folder: str) -> list[str]:
    """The sessions whose transcripts stand in a client's folder, the newest 1,000.

    Names alone are read, of which the client makes each of a session's id.
    """
    if not os.path.isabs(folder):
        return []
    with suppress(OSError):
        names = nofollow.file_names(folder)[:_NAMES_MAX]
        stems = [name.removesuffix(_TRANSCRIPT) for name in names if name.endswith(_TRANSCRIPT)]
        plain = [one for one in stems if one and len(one) <= 64 and one.isascii()]
        if len(plain) > _SESSIONS_MAX:
            at = {one: os.lstat(f"{folder}/{one}{_TRANSCRIPT}").st_mtime_ns for one in plain}
            plain = sorted(sorted(plain, key=at.__getitem__)[-_SESSIONS_MAX:])
        return plain
    return []


def roots_of_folder(folder: str) -> tuple[str, ...]:
    """The root of a folder and its work trees, the deepest first; none of what is no path."""
    found = find_root(folder)
    if found == NO_ROOT:
        return ()
    main = found.main or found.path
    trees = tuple(work_trees(main)) if found.git else ()
    return Place("", found.path, (main, *trees)).folders


def _kept_by_client(root: str) -> str:
    """Where Claude Code keeps its transcripts of a root."""
    given = os.environ.get("CLAUDE_CONFIG_DIR", "")
    config = given if os.path.isabs(given) else os.path.expanduser("~/.claude")
    return f"{config}/projects/{client_folder(root)}"


def is_clients_folder(folder: str, root: str) -> bool:
    """Whether a folder of transcripts is the one that Claude Code has for a root."""
    return bool(root) and os.path.basename(folder.rstrip("/")) == client_folder(root)


EVERY: Final = "*"  # in the place of a project's name: all of them
_LISTED: Final = 12


def for_folder(home: Home, folder: str, *, kept: str = "") -> tuple[Home, Entered | None]:
    """The plane as whoever works in a folder sees it, and where that is.

    None, and the plane as it is, for one that is not parted, and for no folder. `kept`: where the
    client has its transcripts of that folder.
    """
    if not home.parted or not folder:
        return home, None
    entered = enter_folder(_known(home), folder, kept=kept)
    place = entered.place
    if not place.ns:
        return home, None
    return home._replace(project=place.ns, entry=entered.rows), entered


def for_name(home: Home, name: str) -> Home:
    """The plane for a project that is named, `EVERY` for all of them.

    Raises InputError where the plane is not parted, or two projects have the name, NotFoundError
    where none has it.
    """
    if not home.parted:
        raise InputError(
            f"{home.folder} is one project's plane, and is not parted; expected no --project",
            where="--project",
        )
    if name == EVERY:
        return home._replace(project=None, entry=())
    return home._replace(project=project_named(_known(home), name), entry=())


def project_named(known: KnownProjects, name: str, *, where: str = "--project") -> str:
    """The namespace of a project: by its name, its name with digits, or its namespace.

    Raises NotFoundError where there is none, InputError where several have the name.
    """
    namespaces = [*known.namespaces(), UNKNOWN]
    wanted = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
    if wanted in namespaces:
        return wanted
    found = [ns for ns in namespaces if ns.startswith(f"{wanted}-") and len(ns) == len(wanted) + 9]
    if len(found) == 1:
        return found[0]
    if found:
        digits = ", ".join(ns.removeprefix(PREFIX) for ns in found)
        raise InputError(
            f"found {name!r:.80}, the name of {len(found)} projects; expected one of {digits}",
            where=where,
        )
    names = sorted(shown_names(known.namespaces()).values())
    listed = ", ".join(names[:_LISTED]) or "none"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    raise NotFoundError(
        f"{where}: no project {name!r:.80}; known: {listed}{more} (`memplane projects` lists them)"
    )


def cache_id(home: Home) -> str:
    """The plane that the caches of a home are of: see `PlaneContext.cache_id`."""
    stamp = _known(home).stamp() if home.parted else ""
    return f"{home.plane_id}/{stamp}" if stamp else home.plane_id


def session_project(home: Home, session: str) -> str | None:
    """The project that a session is of by what was recorded; None where nothing says so."""
    ns = _known(home).of_session(session)
    return ns if ns is not None and ns.startswith(PREFIX) and ns != UNKNOWN else None


def _known(home: Home) -> KnownProjects:
    return Registry(home.folder, home.plane_id, keeps=not home.read_only).follow()
