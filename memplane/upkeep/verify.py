"""Check a whole plane: `verify` compares the log with what was made from it, `audit` finds secrets.

First the log is checked, then what was made from it: by the sums that its files state and the lines
of the log that they name; `deep`, by making all of it again in memory. A cache that would not be
used anyway (torn, stale, of another version) is a note, not a problem: it is made again when it is
needed. Nothing is written, but by `rebuild_caches`, which makes caches again.

`audit` searches what is stored for secrets that older redaction rules did not know. It shows no
secret: a finding names event, field, rule and count, and the secrets themselves are held only while
the audit runs, to find where they were quoted.

A process that compares or makes the index while its caller does the same for projections.

It opens the plane itself, by the same environment. Where it cannot be started, ends, or finds
another plane or other policies than its caller has, there is no result, and the caller does the
work: what is found or made is the same.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Self

from memplane import log as logs, nofollow
from memplane.context.folds import BUNDLED, Folds, Prefix, RememberedLog
from memplane.errors import LockError, NotFoundError, PolicyError, Problem, WriteError
from memplane.index import storage
from memplane.index.storage import alone, holder, remove_index_file
from memplane.lazy import NamedTuple, late
from memplane.log import LogProblem, VerifyReport
from memplane.log.segments import recalled_hashes
from memplane.log.verifying import REBUILD, EndEvidence, hash_of
from memplane.projections import projector
from memplane.projections.artifacts import is_digest
from memplane.projections.digests import Digests
from memplane.projections.files import AllFiles
from memplane.projections.memories import ACTS_NAME, CACHE_NAME, has_its_sum, position_of
from memplane.projections.projector import BUNDLE, Bundle
from memplane.search.service import IndexService, index_service
from memplane.upkeep.reports import kept_bytes_path, saved

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.event import Event
    from memplane.index import engine as index_engine
    from memplane.intake import Redactor
    from memplane.intake.redact import Counts
    from memplane.policy import Policies
    from memplane.ports import Position, Progress
    from memplane.projections.projector import Folded, State
    from memplane.recall import documents
else:
    documents = late("memplane.recall.documents")
    index_engine = late("memplane.index.engine")


Task = Literal["differs", "rebuild"]
# Lines of the log: a process takes half a second of a processor to start.
_LINES_MIN: Final = 20_000
_REBUILT_MIN: Final = 5  # times as many: both read the log, a third of the work of a short one
_STEPS: Final = 200  # in which it tells how far it is
_CHILD: Final = """
import json, os, sys
told = json.load(sys.stdin)
sys.path[:] = told["path"]
from memplane import home, wiring
from memplane.upkeep.verify import serve_index
found = home.open_home(told["home"])._replace(read_only=told["task"] == "differs")
with wiring.open_light(found, wiring.clock, os.environ) as plane:
    serve_index(plane.context, told, sys.stdout)
"""


class IndexProcess:
    """The index of a plane, compared (`differs`) or made again (`rebuild`) by another process.

    None is started where `processes` is 1, the log is short, or the plane is not one that another
    process opens as this one has it.
    """

    def __init__(
        self,
        context: PlaneContext,
        policies: Policies,
        task: Task,
        processes: int,
        progress: Progress,
    ) -> None:
        self._progress = progress
        self._child: subprocess.Popen[bytes] | None = None
        self._said: list[Any] = []
        self._rest = b""
        head, least = context.log.head().seq, _LINES_MIN
        if task == "rebuild":
            least *= _REBUILT_MIN
        if processes < 2 or head < least or not sys.executable:
            return
        if context.as_of is not None or context.home.passing:
            return
        told = {
            "path": sys.path,
            "home": os.fspath(context.home.path),
            "task": task,
            "plane": context.cache_id,
            "variant": documents.variant_of(policies),
        }
        with suppress(OSError):
            self._child = subprocess.Popen(  # noqa: S603 - this interpreter, this package
                [sys.executable, "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert self._child.stdin is not None
            with self._child.stdin as pipe:
                pipe.write(json.dumps(told).encode())

    @property
    def is_running(self) -> bool:
        """Whether a process was started for it."""
        return self._child is not None

    def looked_after(self, progress: Progress) -> Progress:
        """The caller's own progress; at each call of it that of the process is passed on too."""

        def told(done: int, total: int) -> None:
            progress(done, total)
            if self._child is not None and self._child.stdout is not None:
                os.set_blocking(self._child.stdout.fileno(), False)
                self._read()

        return told

    def result(self) -> bool | None:
        """What it found, or that it made it; None where the caller has to do the work. Waits."""
        child = self._child
        if child is None or child.stdout is None:
            return None
        os.set_blocking(child.stdout.fileno(), True)
        while self._read():
            pass
        if child.wait() or not self._said or not isinstance(self._said[-1], bool):
            return None
        return self._said[-1]

    def _read(self) -> bool:
        """Take what it has said; False at the end, or where there is nothing yet."""
        assert self._child is not None
        assert self._child.stdout is not None
        try:
            data = os.read(self._child.stdout.fileno(), 65_536)
        except OSError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with suppress(ValueError):
                self._said.append(json.loads(line))
                if isinstance(self._said[-1], list):
                    self._progress(*self._said.pop())
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._child is not None:
            self._child.kill()
            if self._child.stdout is not None:
                self._child.stdout.close()
            self._child.wait()


def serve_index(context: PlaneContext, told: dict[str, Any], out: IO[str]) -> None:
    """Do the work of an `IndexProcess`: lines `[done, total]`, then `true` or `false`."""
    policies = context.watched.policies()
    if (context.cache_id, documents.variant_of(policies)) != (told["plane"], told["variant"]):
        return
    step = 0

    def tell(done: int, total: int) -> None:
        nonlocal step
        if done * _STEPS >= step * total:
            step = done * _STEPS // max(total, 1) + 1
            print(json.dumps([done, total]), file=out, flush=True)

    with context.lock:
        service = index_service(context)
        if told["task"] == "differs":
            found = service.differs(policies, tell)
        else:
            service.rebuild(policies, tell)
            found = service.is_saved(policies)
    print(json.dumps(found), file=out, flush=True)


# Of a thousand: what the parts take of the time, measured on logs of 20,000 and a million events.
_PARTS: Final = {"log": 800, "sums": 200}
_DEEP_PARTS: Final = {"log": 40, "sums": 10, "projections": 600, "index": 350}
_REBUILT_PARTS: Final = {"projections": 600, "index": 400}
_TOGETHER_PARTS: Final = {"projections": 980, "index": 20}  # to save the last of it


_OTHER_FORM: Final = LogProblem(
    "projections/policy-*.json",
    0,
    "is not what the policies say",
    "the same as if they were parsed anew",
    "delete these files; they are made again",
)


class PlaneReport(NamedTuple):
    """The result of `verify`: the log's report, and the findings and notes of all parts.

    `mistakes` are those of the policies: with any, projections and index were not `compared`, as
    without `deep`.
    """

    log: VerifyReport
    problems: tuple[LogProblem, ...]
    notes: tuple[str, ...]
    mistakes: tuple[Problem, ...] = ()
    deep: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def compared(self) -> bool:
        """Whether projections and index were made again from the log and compared."""
        return self.deep and not self.mistakes


def verify_caches(
    context: PlaneContext,
    report: VerifyReport,
    progress: Progress | None = None,
    processes: int = 1,
    *,
    deep: bool = False,
) -> PlaneReport:
    """Check what the plane keeps beside its log, whose report is given. Hold the plane's lock.

    `progress` gets shares of all parts; the log's part is done. With `deep` projections, index and
    the parsed form of the policies are made again and compared; else their sums are believed.
    """
    problems, notes = [*report.problems], [*report.notes]
    home = context.home.path
    parts = _DEEP_PARTS if deep else _PARTS
    told = part_progress(progress, parts, "sums")
    notes += _ahead(context, report)
    snapshots: set[str] = set()
    for found in _snapshots(home, snapshots):
        (problems if isinstance(found, LogProblem) else notes).append(found)  # type: ignore[arg-type]
    notes += _orphans(home, report.named | snapshots)
    try:
        policies = context.watched.policies()
    except PolicyError as error:
        return PlaneReport(report, tuple(problems), tuple(notes), error.problems, deep)
    told(1, 2)
    harmed, more = _index_sums(context, policies)
    problems, notes = problems + harmed, notes + more
    told(1, 1)
    if deep:
        lost = any(one.file.startswith("bodies/") for one in report.problems)
        if lost:
            notes.append("index: not compared, as texts that it holds are lost beside the log")
        found_there = _differing_files(
            context, policies, progress, processes, with_index=not lost and not harmed
        )
        problems += [_other(file) for file in found_there]
        if context.watched.form_differs():
            problems.append(_OTHER_FORM)
        part_progress(progress, parts, "index")(1, 1)
    return PlaneReport(report, tuple(problems), tuple(notes), (), deep)


def _differing_files(
    context: PlaneContext,
    policies: Policies,
    progress: Progress | None,
    processes: int,
    *,
    with_index: bool,
) -> list[str]:
    """The files that are not what the log gives; the index is compared beside the projections."""
    shares = Shares(progress, _DEEP_PARTS, "projections", "index")
    with IndexProcess(context, policies, "differs", processes, shares.of("index")) as beside:
        told = beside.looked_after(shares.of("projections"))
        found = [f"projections/{name}" for name in differing_caches(context, policies, told)]
        differs = beside.result() if with_index else False
    if differs is None:
        differs = index_service(context).differs(policies, shares.of("index"))
    return [*found, "index/manifest.json"] if differs else found


def of_log(
    context: PlaneContext,
    progress: Progress | None = None,
    processes: int = 1,
    *,
    deep: bool = False,
) -> VerifyReport:
    """The report of the log, the first part of `verify`."""
    home, parts = context.home, _DEEP_PARTS if deep else _PARTS
    return logs.verify_log(
        home.path,
        home.plane_id,
        progress=part_progress(progress, parts, "log"),
        loads=context.loads,
        processes=processes,
        witnesses=list(witnesses(home.path, context.cache_id)),
    )


def part_progress(progress: Progress | None, parts: Mapping[str, int], name: str) -> Progress:
    """A progress callback that reports one of the parts as its share; those before it are done."""
    names = [*parts]
    return Shares(progress, parts, *names[names.index(name) :]).of(name)


class Shares:
    """The progress of parts that go on beside each other, as one; those not named are done."""

    def __init__(self, progress: Progress | None, parts: Mapping[str, int], *names: str) -> None:
        self._progress, self._parts = progress, parts
        self._done = {name: 0 if name in names else weight for name, weight in parts.items()}

    def of(self, name: str) -> Progress:
        """The callback of one part: done and total, whatever their unit."""
        weight = self._parts[name]

        def told(done: int, total: int) -> None:
            share = weight * min(done, total) // max(total, 1)
            if share > self._done[name]:
                self._done[name] = share
                if self._progress is not None:
                    self._progress(sum(self._done.values()), sum(self._parts.values()))

        return told


def _other(file: str) -> LogProblem:
    return LogProblem(
        file,
        0,
        "is not what the log gives",
        "the same as if it were made anew",
        f"{REBUILD} makes it again",
    )


def _ahead(context: PlaneContext, report: VerifyReport) -> Iterator[str]:
    """What was made from another log, or is torn: it is not believed. See `witnesses` too."""
    folder = context.home.path / "projections"
    for name, at in stated_positions(context.home.path, context.cache_id):
        if at is None or (name == CACHE_NAME and not has_its_sum(folder / name)):
            yield f"{name}: torn, or of another plane; it is made again when needed"
        elif at.seq <= report.head.seq and not context.log.matches(at):
            yield f"{name}: is not of this log; it is made again when needed"
    if not Bundle(folder, context.cache_id, ()).is_whole():
        yield f"{BUNDLE}: torn, or of another plane; it is made again when needed"


def _snapshots(home: Path, named: set[str]) -> Iterator[LogProblem | str]:
    """The policies and views that saved reports name; adds their hashes to `named`."""
    missing = 0
    for one in saved(home):
        for kind in ("policies", "views"):
            for name, digest in one.report[kind].items():
                if not is_digest(digest) or digest in named:
                    continue
                named.add(digest)
                path = kept_bytes_path(home, digest)
                there = hash_of(os.fspath(home), os.fspath(path))
                if there is None:
                    missing += 1
                elif there != digest:
                    yield LogProblem(
                        os.fspath(path.relative_to(home)),
                        0,
                        f"is damaged; report {one.id} names it as {name}",
                        "the bytes with that SHA-256",
                        "bring it back from a copy, or delete it: that pack cannot be replayed",
                    )
    if missing:
        yield f"reports: {missing} policies or views that they name are not kept: no replay of them"


def _orphans(home: Path, named: frozenset[str]) -> Iterator[str]:
    """Files in bodies/ that nothing names: left by a crash before the line that would have."""
    count = size = 0
    for path in map(Path, nofollow.walk_files(home / "bodies" / "sha256")):
        if path.parent.name + path.name not in named:
            count += 1
            size += path.lstat().st_size
    if count:
        yield f"bodies: {count} files of {size} bytes that nothing names"


def _index_sums(context: PlaneContext, policies: Policies) -> tuple[list[LogProblem], list[str]]:
    """The files of the index by their sums, and notes on vectors."""
    folder = context.home.path / "index"
    problems = [
        LogProblem(
            f"index/{name}",
            0,
            "does not have its sum",
            "the bytes that were written",
            f"{REBUILD} makes it again",
        )
        for name in storage.harmed(folder, context.cache_id, documents.variant_of(policies))
    ]
    notes = []
    manifest = folder / "manifest.json"
    said = storage.signed_fields(manifest)
    if os.path.lexists(manifest) and (said is None or said.get("plane") != context.cache_id):
        notes.append("index/manifest.json: torn, or of another plane; it is made again when needed")
    for name in (storage.DENSE_FOLDER, storage.STATIC_FOLDER):
        header = storage.vectors_header(folder / name)
        if (
            header is not None
            and header.documents
            and storage.load_vectors(folder / name, header.kind) is None
        ):
            notes.append(f"index/{name}: vectors that are harmed; they are made again when needed")
    for name in index_engine.ENGINES:
        filled = index_engine.read_header(folder / name)
        if filled is not None and not index_engine.has_its_files(folder / name, filled):
            notes.append(f"index/{name}: does not have its sums; it is filled again when needed")
    return problems, notes


# Projections and index: how far they reach, whether they are what the log gives, made again.

# In the same folder, and no projections: what importers have read, parsed policies.
_OTHERS = ("imports.json", "policy-", "projects.json", "segments.json")


def stated_positions(home: Path, plane: str) -> Iterator[tuple[str, Position | None]]:
    """Each kept projection by its name below `projections/`, with the line it was folded up to.

    None for one that is torn, no file, or of another plane.
    """
    folder = home / "projections"
    for name in nofollow.folder_names(folder):
        if name == ACTS_NAME or (name.endswith(".json") and not name.startswith(_OTHERS)):
            kept = projector.read_checkpoint(folder / name)
            yield name, kept.position if kept is not None and kept.plane == plane else None
    cache = folder / CACHE_NAME
    if os.path.lexists(cache):
        yield CACHE_NAME, position_of(cache, plane)


def witnesses(home: Path, plane: str) -> Iterator[EndEvidence]:
    """Evidence of how far the log went: projections, the index, reports of packs.

    Must be collected before the log is read: what they know by then, it must hold.
    """
    for name, at in stated_positions(home, plane):
        if at is not None:
            yield EndEvidence(f"projections/{name}", at.seq, at.segment)

    index = storage.signed_fields(home / "index" / "manifest.json") or {}
    if index.get("plane") == plane and type(seq := index.get("seq")) is int:
        yield EndEvidence("index/manifest.json", seq, 0)
    for one in saved(home):
        head = one.report["log"].get("head")
        if type(head) is int:
            yield EndEvidence(f"reports/{one.path.name}", head, 0)


# Compare the projections on disk with a new fold of the log.
_STEP: Final = 2_000  # lines that are held at a time
_STEPS_MAX: Final = 10_000


def differing_caches(
    context: PlaneContext, policies: Policies, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """The files below `projections/` whose state differs from a fold from the log's start.

    Files that are not believed were folded again in memory, and do not differ. Writes nothing; the
    log is read once. `progress` gets the seqs. Hold the plane's lock.
    """
    kept = context.caught_up(policies)
    head = kept.log.head().seq
    log = Prefix(RememberedLog(context.log), 0)
    made = Folds(log, None, context.cache_id, context.counter(policies), kept.variant)
    # Those that are not kept cannot differ, and folding them costs as much as all others.
    folder = context.home.path / "projections"
    with_sessions = kept.sessions_opened or nofollow.is_file(folder / "sessions.json")
    with_files = kept.files_opened or nofollow.is_file(folder / "files.json")
    rules = policies.plane.episodes
    with_episodes = nofollow.is_file(folder / "episodes.json")
    with_digests = kept.digests_opened or nofollow.is_file(folder / "digests.json")
    try:
        # Opened at the start, they come along.
        _ = made.sessions if with_sessions else None, made.files if with_files else None
        _ = made.digests if with_digests else None
        _ = made.episodes(rules) if with_episodes else None
        step = max(_STEP, head // _STEPS_MAX)  # a damaged log may jump to any seq
        for seq in range(step, head + step, step):
            log.advance(min(seq, head))
            made.catch_up()
            if progress is not None:
                progress(min(seq, head), head)
        found = _differing(kept, made, with_sessions=with_sessions, with_files=with_files)
        if with_digests and Digests().dump(kept.digests) != Digests().dump(made.digests):
            found.append("digests.json")
        if with_episodes:
            (ours, one), (fresh, _) = kept.episodes(rules), made.episodes(rules)
            if one.dump(ours) != one.dump(fresh):
                found.append("episodes.json")
        return found
    finally:
        made.close()


def _differing(kept: Folds, made: Folds, *, with_sessions: bool, with_files: bool) -> list[str]:
    pairs = {
        "hotset.json": (_dumped(kept.hotset), _dumped(made.hotset)),
        "decisions.json": (_dumped(kept.decisions), _dumped(made.decisions)),
        "cards.json": (_dumped(kept.cards), _dumped(made.cards)),
        "tasks.json": (_dumped(kept.tasks), _dumped(made.tasks)),
        "plane_map.json": (_dumped(kept.plane_map), _dumped(made.plane_map)),
        "artifacts.json": (_dumped(kept.artifacts), _dumped(made.artifacts)),
        CACHE_NAME: (kept.memories.dump(), made.memories.dump()),
    }
    if with_sessions:
        pairs["sessions.json"] = (_dumped(kept.sessions), _dumped(made.sessions))
    if with_files:
        pairs["files.json"] = (AllFiles().dump(kept.files), AllFiles().dump(made.files))
    return [name for name, (ours, fresh) in pairs.items() if ours != fresh]


def _dumped(folded: Folded[State]) -> bytes:
    return folded.projector.dump(folded.state)


# `rebuild`: delete what was made from the log and make it again, or raise why not.
_CACHES: Final = (
    "hotset.json",
    *BUNDLED,
    BUNDLE,
    CACHE_NAME,
)
# Opened for who asks for them: no pack does but, for files, that of a session without any.
_LAZY: Final = (
    "sessions.json",
    "files.json",
    "digests.json",
    "episodes.json",
    "transcripts.sqlite",
)
_WAIT_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05


def rebuild_caches(
    context: PlaneContext,
    progress: Callable[[int, int], None] | None = None,
    processes: int = 1,
) -> int:
    """Remove projections and index and make them again; returns the number of events folded.

    With more `processes` than one the index is made beside the projections. Where another process
    holds one of the folders, nothing is removed. Raises LockError, and WriteError where the result
    cannot be kept. Hold the plane's lock.
    """
    context.check_open()
    if not context.keeps:
        return _made_again(context, progress, 1)
    folders = [context.home.path / name for name in ("projections", "index")]
    for folder in folders:
        _await(folder, "nothing was changed")
    folded = _made_again(context, progress, processes)
    if folded and not _saved(context):
        _await(folders[0], "the projections were not kept", seconds=0)
        raise WriteError(
            f"{folders[0]}: the disk refuses what was made; it was not kept, and the next pack "
            "makes it again; make room and try again"
        )
    return folded


def _made_again(context: PlaneContext, progress: Progress | None, processes: int) -> int:
    folder = context.home.path / "projections"
    context.forget_folds()
    if context.keeps:
        for name in (*_CACHES, *_LAZY):
            remove_index_file(folder / name)
    policies, service = context.watched.policies_or_last(), index_service(context)
    shares = Shares(progress, _REBUILT_PARTS, "projections", "index")
    apart = processes if service.is_there() else 1
    with IndexProcess(context, policies, "rebuild", apart, shares.of("index")) as beside:
        if not beside.is_running and context.keeps:
            return _made_together(context, policies, service, progress)
        folds = context.caught_up(progress=beside.looked_after(shares.of("projections")))
        if context.keeps:
            folds.save()
        made = beside.result()
    if made:
        service.drop()  # the folder has it
    else:
        service.rebuild(policies, shares.of("index"))
    shares.of("index")(1, 1)
    return folds.log.head().seq


def _made_together(
    context: PlaneContext, policies: Policies, service: IndexService, progress: Progress | None
) -> int:
    """Make projections and index in one pass: each line is read, verified and parsed once."""
    shares = Shares(progress, _TOGETHER_PARTS, "projections", "index")
    begun = service.begin_again(policies)
    try:
        beside = () if begun is None else (begun.indexed,)
        folds = context.caught_up(progress=shares.of("projections"), beside=beside)
        folds.save()
        if begun is not None:
            service.finish(policies, begun, shares.of("index"))
    except BaseException:
        service.drop()  # half a batch may be in: what is in the folder is whole
        raise
    shares.of("index")(1, 1)
    return folds.log.head().seq


def _saved(context: PlaneContext) -> bool:
    """Whether the projections are kept: who came between has them for a moment only."""
    folds, deadline = context.caught_up(), time.monotonic() + _WAIT_SECONDS
    while not (saved := folds.save()) and time.monotonic() < deadline:
        with alone(context.home.path / "projections") as held:
            if held:
                break  # not for the lock's sake
        time.sleep(_PAUSE_SECONDS)
        folds.catch_up()
    return saved


def _await(folder: Path, said: str, seconds: float = _WAIT_SECONDS) -> None:
    """Wait until no process holds the folder; raises LockError where one keeps holding it."""
    deadline = time.monotonic() + seconds
    while True:
        with alone(folder) as held:
            # Where it cannot be made or written there is no lock to wait for; the writing says so.
            if held or not nofollow.is_file(folder / ".lock"):
                return
        if time.monotonic() >= deadline:
            break
        time.sleep(_PAUSE_SECONDS)
    pid = holder(folder)
    who = "another process" if pid is None else f"process {pid}"
    raise LockError(
        f"{folder}/.lock: held by {who} for more than {round(seconds)} s; {said}; try again, or "
        "end that process",
        holder=pid,
    )


FINDINGS_MAX: Final = 1000
# Beyond these, what a purge would take is counted at least, not exactly: memory stays bounded.
_KNOWN_MAX: Final = 100_000
_SECRETS_MAX: Final = 2_000
_QUOTE_MIN: Final = 8  # a shorter secret stands in other texts by chance
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
_FOLDERS: Final = ("views", "policies", "scenarios", "log/quarantine", "log/spool")
_NAMES: Final = ("id", "ns", "session", "task", "actor", "key")
_OWN: Final = ("redactions", "replaced", "body", "recalled")  # keys of data that memplane writes


class SecretFinding(NamedTuple):
    """Secrets of one rule in one field of one event."""

    seq: int
    id: str
    field: str
    rule: str
    times: int


class FileFinding(NamedTuple):
    """Secrets of one rule in a file that is not part of the log; `path` is below the home."""

    path: str
    rule: str
    times: int


@dataclass(frozen=True, slots=True)
class Purge:
    """What would have to be purged or written again, so that no finding stays on disk.

    `quotes` are events that no rule finds, but in which a secret of another event stands; `refs`
    are events that rest on one with a secret. `exact` is False where there were too many to tell.
    """

    events: int
    bodies: int
    quotes: int
    refs: int
    reports: int
    exact: bool


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The scope and the findings of an audit. `findings` are the first ones, `total` counts all."""

    events: int
    files: int
    secrets: int
    total: int
    by_rule: dict[str, int]
    findings: tuple[SecretFinding, ...]
    file_findings: tuple[FileFinding, ...]
    purge: Purge
    unread: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.total and not self.file_findings

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            **asdict(self),
            "findings": [finding._asdict() for finding in self.findings],
            "file_findings": [finding._asdict() for finding in self.file_findings],
        }


def audit(
    context: PlaneContext,
    *,
    limit: int = FINDINGS_MAX,
    progress: Callable[[int, int], None] | None = None,
) -> AuditReport:
    """Scan log, bodies, reports, and the files beside them; see `Plane.audit`."""
    context.check_open()
    redactor = context.intake(context.watched.policies()).redactor
    return _Audit(context, redactor, limit, progress or _silent).run()


def _silent(_: int, __: int) -> None:
    pass


class _Audit:
    """One run: a pass over the log, one over the files, one more over the log for quotes."""

    def __init__(
        self,
        context: PlaneContext,
        redactor: Redactor,
        limit: int,
        progress: Callable[[int, int], None],
    ) -> None:
        self._context, self._redactor = context, redactor
        self._limit, self._progress = limit, progress
        self._home = context.home.path
        self._events = self._files = 0
        self._by_rule: Counter[str] = Counter()
        self._findings: list[SecretFinding] = []
        self._total = 0
        self._in_files: list[FileFinding] = []
        self._unread: list[str] = []
        self._seqs: set[int] = set()  # of events with a finding
        self._ids: set[str] = set()
        self._found_events = 0
        self._bodies: set[str] = set()  # named by events
        self._found_bodies: set[str] = set()
        self._secrets: dict[str, None] = {}
        self._exact = True

    def run(self) -> AuditReport:
        for event in self._log():
            self._events += 1
            self._event(event)
        reports = self._look_at_files()
        quotes, refs = self._derived() if self._found_events else (0, 0)
        for gap in self._context.log.gaps():
            self._unread.append(f"log segment {gap.segment}, byte {gap.offset}: damaged")
        return AuditReport(
            self._events,
            self._files,
            self._by_rule.total(),
            self._total,
            dict(sorted(self._by_rule.items())),
            tuple(self._findings),
            tuple(self._in_files),
            Purge(self._found_events, len(self._found_bodies), quotes, refs, reports, self._exact),
            tuple(self._unread),
        )

    def _log(self) -> Iterator[Event]:
        head = self._context.log.head().seq
        for line in self._context.log.read(0, self._context.as_of):
            self._progress(line.event.seq, head)
            yield line.event

    def _event(self, event: Event) -> None:
        before = self._total
        taken: list[str] = []
        for field, counts in self._fields(event, taken):
            for rule, times in counts.items():
                self._total += 1
                self._by_rule[rule] += times
                if len(self._findings) < self._limit:
                    finding = SecretFinding(event.seq, self._shown(event.id), field, rule, times)
                    self._findings.append(finding)
        if self._total > before:
            self._remember(event, taken)

    def _fields(self, event: Event, taken: list[str]) -> Iterator[tuple[str, Counts]]:
        """Every field that can hold a secret, and what stands in it."""
        body = event.data.get("body")
        whole = [str(body.get("sha256"))] if isinstance(body, dict) else []
        yield "text", self._counted(self._text(event), whole, taken)
        digests = recalled_hashes(event)
        for number, (digest, block) in enumerate(zip(digests, self._recalled(event), strict=True)):
            yield f"recalled[{number}]", self._counted(block, [digest], taken)
        for field in _NAMES:
            yield field, self._redactor.in_name(getattr(event, field) or "")
        for field in ("refs", "markers"):
            for number, value in enumerate(getattr(event, field)):
                yield f"{field}[{number}]", self._redactor.in_name(value)
        for number, tag in enumerate(event.tags):
            yield f"tags[{number}]", self._redactor.redact(tag, taken)[1]
        for key, value in event.data.items():
            if key not in _OWN:
                shown, counts = self._redactor.redact_data({key: value}, taken)
                yield f"data.{next(iter(shown))}"[:80], counts

    def _counted(self, text: str, bodies: list[str], taken: list[str]) -> Counts:
        """What stands in a text, which is that of these bodies, if any."""
        counts = self._redactor.redact(text, taken)[1]
        self._bodies.update(bodies)
        if counts:
            self._found_bodies.update(bodies)
        return counts

    def _text(self, event: Event) -> str:
        try:
            return self._context.log.text(event)
        except (NotFoundError, OSError):
            self._lost(f"the body of event {event.seq}")
            return event.text

    def _recalled(self, event: Event) -> list[str]:
        """The blocks that were moved out of the event's text; "" for a lost one."""
        blocks = self._context.log.recalled(event)
        if None in blocks:
            self._lost(f"what was moved out of the text of event {event.seq}")
        return [block or "" for block in blocks]

    def _lost(self, what: str) -> None:
        said = f"{what}: missing or damaged"
        if said not in self._unread:
            self._unread.append(said)

    def _shown(self, name: str) -> str:
        """An id is stored as it is: one that holds a secret is named by its event's seq alone."""
        return "" if self._redactor.in_name(name) else name

    def _remember(self, event: Event, taken: list[str]) -> None:
        self._found_events += 1
        if len(self._seqs) < _KNOWN_MAX:
            self._seqs.add(event.seq)
            self._ids.add(event.id)
        else:
            self._exact = False
        for secret in taken:
            if len(secret) >= _QUOTE_MIN and "[redacted:" not in secret:
                if len(self._secrets) < _SECRETS_MAX:
                    self._secrets[secret] = None
                else:
                    self._exact = self._exact and secret in self._secrets

    def _derived(self) -> tuple[int, int]:
        """Events without a finding that quote a secret, and those that rest on one with a finding.

        A quote is found where no rule finds it: `password: x1y2z3w4` in one event, and in another
        `try x1y2z3w4`.
        """
        secrets = sorted(self._secrets, key=lambda secret: (-len(secret), secret))
        quoted = re.compile("|".join(map(re.escape, secrets))) if secrets else None
        quotes = refs = 0
        for event in self._log():
            if event.seq in self._seqs:
                continue
            refs += any(ref in self._ids for ref in event.refs)
            if quoted is not None:
                data = json.dumps(event.data, ensure_ascii=False) if event.data else ""
                texts = (self._text(event), data, *self._recalled(event))
                quotes += any(quoted.search(text) for text in texts)
        return quotes, refs

    def _look_at_files(self) -> int:
        """Files that people write, what a repair set aside, snapshots and reports.

        Returns how many of the reports must go.
        """
        for folder in _FOLDERS:
            for path in map(Path, nofollow.walk_files(self._home / folder)):
                self._file(path)
        for path in map(Path, nofollow.walk_files(self._home / "bodies" / "sha256")):
            if path.parent.name + path.name not in self._bodies:
                self._file(path)
        reports = 0
        for path in map(Path, nofollow.walk_files(self._home / "reports")):
            if path.suffix != ".json":
                continue
            hit, text = self._file(path)
            reports += hit or self._names_event(text)
        return reports

    def _file(self, path: Path) -> tuple[bool, str]:
        name = path.relative_to(self._home).as_posix()
        try:
            small = path.lstat().st_size <= _FILE_BYTES_MAX
            data = nofollow.read_bytes(path, home=self._home) if small else None
        except OSError as error:
            self._unread.append(f"{name}: {error.strerror}")
            return False, ""
        if data is None:
            self._unread.append(f"{name}: more than {_FILE_BYTES_MAX} bytes")
            return False, ""
        self._files += 1
        text = data.decode(errors="replace")
        counts = self._redactor.redact(text)[1]
        for rule, times in counts.items():
            self._by_rule[rule] += times
            if len(self._in_files) < self._limit:
                self._in_files.append(FileFinding(name, rule, times))
        return bool(counts), text

    def _names_event(self, report: str) -> bool:
        if not self._ids:
            return False
        try:
            entries = json.loads(report).get("entries", ())
            named = {one for entry in entries for one in (*entry["events"], *entry["parts"])}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return False
        return not named.isdisjoint(self._ids)
