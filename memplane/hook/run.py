"""One call of a hook: JSON from stdin, an answer on stdout, exit code 0.

Record the rows of a hook in the log, or in the spool where the lock is held for too long.

The intake is that of `Plane.record`, without an open plane: what only folds and packs need is not
imported. Tokens are left uncounted; the first fold of a full process counts them.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.clock import ulid
from memplane.context.watched_files import watched
from memplane.errors import CorruptError, InputError, LockError, MemplaneError
from memplane.harness import remembered
from memplane.hook import payload
from memplane.hook.payload import completed
from memplane.importers.rows import HOOK_TAG, name, short_text
from memplane.intake import Intake, Redactor, marker_of, same
from memplane.intake.check import with_permitted_actor
from memplane.lazy import NamedTuple, late, late_calls
from memplane.log import FileLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from memplane import clock as clock_room, errors, policy, trust
    from memplane.context.watched_files import Watched
    from memplane.event import Draft, Event
    from memplane.home import Home
    from memplane.hook import context
    from memplane.hook.payload import HookPayload
    from memplane.importers.decided import plan_proposed
    from memplane.importers.rows import Row
    from memplane.intake import redact
    from memplane.plane import Plane
    from memplane.plane.packer import Packer
    from memplane.policy import Policies
    from memplane.ports import Clock
    from memplane.trust import Located
else:
    clock_room = late("memplane.clock")
    errors = late("memplane.errors")
    context = late("memplane.hook.context")
    redact = late("memplane.intake.redact")
    policy = late("memplane.policy")
    trust = late("memplane.trust")
    (plan_proposed,) = late_calls("memplane.importers.decided", "plan_proposed")


_STDIN_BYTES_MAX: Final = 16 * 1024 * 1024
# Until the policy is read: a plane on a disk that does not answer must not hold the agent up.
_MILLISECONDS: Final = 4_000
# Claude Code runs it in the background; Codex waits for it, and for ten seconds at most.
_CATCH_UP_MILLISECONDS: Final = {"claude-code": 58_000, "codex": 8_000}
# Lines of the log that one call folds: more takes longer than half a second, each time until some
# process has saved what it folded. That is left to `--catch-up`, which nobody waits for.
_FOLDED_MAX: Final = 10_000
_LOG_BYTES_MAX: Final = 256 * 1024
_LOG: Final = "hooks.log"


class Openers(NamedTuple):
    """The two ways into a plane: for one answer without arrays, and for all that it can do."""

    light: Callable[[Home, Clock, Mapping[str, str], tuple[Watched, FileLog]], Packer]
    whole: Callable[[Home], Plane]


def run_hook(argv: Sequence[str], environment: Mapping[str, str], opened: Openers) -> int:
    """Do what `memplane hook` was called for. Raises nothing, gives 0."""
    watch = _Watch()
    try:
        watch.end_after(_MILLISECONDS)
        found = _located(argv, environment, None)
        watch.home = found.home  # its log has what is wrong with stdin
        said = _stdin()
        if not _works_here(said.get("cwd")):
            found = _located(argv, environment, said.get("cwd"))
        watch.home = home = found.home
        agent = _agent(argv)
        if home is None:
            _write(_answer("", "", _notice(agent, said, found, environment)))
            return 0
        if agent not in payload.AGENTS:
            watch.tell(f"unknown agent {agent!r}: expected {' or '.join(payload.AGENTS)}")
            return 0
        if "--catch-up" in argv:
            # Claude Code asks what runs in the background to end with it, and waits for a second.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            watch.end_after(_CATCH_UP_MILLISECONDS[agent])
            with opened.whole(home) as plane:
                catch_up_plane(plane)
            return 0
        notice = _notice(agent, said, found, environment)
        event = payload.event_name(said)
        _respond(
            home,
            watch,
            environment,
            agent,
            said,
            opened,
            lambda text: _write(_answer(event, text, notice)),
        )
    except BaseException as error:  # noqa: BLE001 - the agent that runs this must not notice
        watch.tell(error)
    return 0


def _located(argv: Sequence[str], environment: Mapping[str, str], folder: object) -> Located:
    """The plane of the session. Raises what `open_home` does."""
    if _agent(argv) == "claude-code":
        # `cwd` follows the agent's `cd`; this does not. Other agents may have inherited it.
        folder = environment.get("CLAUDE_PROJECT_DIR") or folder
    user = os.path.expanduser("~")  # noqa: PTH111 - pathlib has nothing to add
    return trust.located(environment, folder, user, given=_named_home(argv))


def _works_here(folder: object) -> bool:
    """Whether the folder that an agent works in is the one that its hook was started in."""
    try:
        return folder == os.getcwd()  # noqa: PTH109 - a text is asked for
    except OSError:
        return False


def _notice(
    agent: str, said: Mapping[str, Any], found: Located, environment: Mapping[str, str]
) -> str:
    """What the person is told where a session starts beside a plane that is not trusted.

    The plane is noted, for `memplane trust --found`.
    """
    if found.passed is None or said.get("hook_event_name") != "SessionStart":
        return ""
    if agent not in payload.AGENTS or said.get("source") == "compact":
        return ""

    with suppress(errors.WriteError):
        trust.TrustStore(environment).meet(found.passed)
    used = (
        "no memory is used"
        if found.home is None
        else f"{trust.printable(found.home.folder)} is used"
    )
    return (
        f"memplane: {trust.printable(found.passed)} is a plane that you have not trusted, so "
        f"{used}; to look at it and trust it: memplane trust {trust.shell_word(found.passed)}"
    )


def _answer(event: str, text: str, notice: str) -> str:
    """The JSON for the client: `text` for the agent, `notice` for the person alone."""
    output: dict[str, Any] = {}
    if notice:
        output["systemMessage"] = notice
    if text:
        output["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": text}
    return json.dumps(output, ensure_ascii=True) if output else ""


def _write(answer: str) -> None:
    if answer:
        sys.stdout.write(answer)
        sys.stdout.flush()


def _respond(
    home: Home,
    watch: _Watch,
    environment: Mapping[str, str],
    agent: str,
    given: Mapping[str, Any],
    opened: Openers,
    give: Callable[[str], None],
) -> None:
    """Record what was said, `give` the text for the agent ("" for none), keep the report of it.

    Of a folder that plane.yaml excludes nothing is recorded, and nothing is said there.
    """
    recording = HookLog(home, clock_room.clock, policy.variables(environment))
    try:
        hooks = recording.policies.plane.hooks
        watch.end_after(hooks.milliseconds_max)
        at = payload.work_place(home, payload.folders_of(agent, given, environment), hooks.exclude)
        if at is None:
            give("")
            return
        home = at.home
        given = with_proposed_plan(agent, given)
        said = payload.read_payload(agent, given, at.roots)
        if not home.read_only:
            recording.enter(at.ns, at.rows)
            recording.record(
                recording.mark(said) if said.marks else recording.complete(agent, said)
            )
        for fault in recording.faults:
            watch.tell(fault)
    finally:
        recording.close()
    if not said.asks or (said.asks == "tool" and hooks.tool.when == "never"):
        give("")
        return
    with opened.light(home, clock_room.clock, environment, recording.known) as plane:
        missing = plane.lines_to_fold(digests=said.asks == "start")
        if missing > _FOLDED_MAX:
            give("")
            watch.tell(
                f"{missing} lines of the log are not folded, of another version or a lost file: "
                "nothing was recalled; `memplane hook --catch-up` folds them when the agent stops"
            )
            return
        block = context.packed_answer(plane, said, hooks, at.root)
        give(context.answer_text(block))
        # The report names the prompt by its event; where that waits for the log, it would quote it.
        if block is not None and not block.report["request"].get("query"):
            plane.save_report(block)


def _agent(argv: Sequence[str]) -> str:
    """The agent that is named, wherever options stand; "" where none is."""
    rest = iter(argv)
    for word in rest:
        if word == "--home":
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def _named_home(argv: Sequence[str]) -> str | None:
    """What `--home DIR` or `--home=DIR` names, where it does."""
    for word, behind in zip(argv, (*argv[1:], None), strict=True):
        if word == "--home":
            return behind
        if word.startswith("--home="):
            return word.partition("=")[2]
    return None


def _stdin() -> dict[str, Any]:
    """What the agent says; ValueError for what is no JSON object, or more than can be."""
    data = sys.stdin.buffer.read(_STDIN_BYTES_MAX + 1)
    if len(data) > _STDIN_BYTES_MAX:
        raise ValueError(f"stdin: more than {_STDIN_BYTES_MAX} bytes; nothing was recorded")
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"stdin: expected a JSON object: {error}") from error
    if not isinstance(said, dict):
        raise ValueError("stdin: expected a JSON object")  # noqa: TRY004 - the input is at fault
    return said


class _Watch:
    """Ends the process in time, and tells the plane of what went wrong: nobody else listens."""

    def __init__(self) -> None:
        self.home: Home | None = None

    def end_after(self, milliseconds: int) -> None:
        """End this process then, as a kill would: what was acknowledged is safe from that."""

        def end(_: int, __: FrameType | None) -> None:
            self.tell(f"ended after {milliseconds} ms; what it was told may not be recorded")
            os._exit(0)

        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)

    def tell(self, what: BaseException | str) -> None:
        """Leave a line in the plane's own log of faults, which stays small."""
        if self.home is None:
            return
        known = isinstance(what, str | MemplaneError)
        text = " ".join((str(what) if known else f"{type(what).__name__}: {what}").split())
        with suppress(OSError):
            path = os.path.join(self.home.folder, _LOG)  # noqa: PTH118 - a text is asked for
            nofollow.separate(path)  # a backup of hard links keeps the lines that it had
            fd = nofollow.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                if os.fstat(fd).st_size > _LOG_BYTES_MAX:
                    os.ftruncate(fd, 0)
                line = f"{_now()} {os.getpid()} {_clean(text)}\n"
                os.write(fd, line.encode("utf-8", "backslashreplace"))
            finally:
                os.close(fd)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _clean(text: str) -> str:
    """Without the secrets that an error may quote."""
    return redact.masked(text[:4096])[:1000]


class HookLog:
    """The log of a plane, for rows that must not wait. `faults` gathers what was refused, in words.

    Raises HomeError where nothing may be written.
    """

    def __init__(self, home: Home, clock: Clock, overrides: Mapping[str, str]) -> None:
        keep = partial(bool, not home.read_only)
        self._watched = watched(home, keep, overrides)
        self.policies: Policies = self._watched.policies_or_last()
        privacy = self.policies.privacy
        self._intake = Intake(
            Redactor(privacy.redact_patterns, None),
            privacy.never_store_kinds,
            marker_of(self.policies.scoring.markers),
        )
        self._clock = clock
        self._log = FileLog(
            home.folder,
            home.plane_id,
            clock=clock,
            same=self._same,
            lock_wait_ms_max=self.policies.plane.hooks.wait_ms,
            read_only=home.read_only,
            brief=True,
            outbox=home.shared is not None,
        )
        self.faults: list[str] = []
        self._ns: str | None = None
        self._entry: tuple[Mapping[str, Any], ...] = ()

    def enter(self, ns: str | None, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record into a namespace from now on; `rows` go before the first event there."""
        self._ns, self._entry = ns, tuple(rows)

    def record(self, rows: Sequence[Row]) -> None:
        """Append the rows, or leave them to the spool; what cannot be taken is a fault, no error.

        They go in one piece; where one of them is refused, one by one.
        """
        never = self.policies.privacy.never_store_kinds  # as the owner wants it: no fault
        wanted = [row for row in rows if row["kind"] not in never]
        drafts = [draft for row in wanted if (draft := self._draft(row)) is not None]
        if not drafts:
            return
        entry, self._entry = self._entry, ()
        drafts = [*(self._own(row) for row in entry), *drafts]
        try:
            self._put(drafts)
        except InputError:
            raise
        except MemplaneError as error:
            if len(drafts) == 1:
                self.faults.append(str(error))
                return
            for draft in drafts:
                try:
                    self._put([draft])
                except MemplaneError as again:
                    self.faults.append(str(again))

    def mark(self, said: HookPayload) -> Sequence[Row]:
        """The rows that say that a session ended or went on, named by what the log has last."""
        return marked_rows(self._log, said)

    def complete(self, agent: str, said: HookPayload) -> Sequence[Row]:
        """The rows, with what they come to by what the log has of the session last."""
        if said.change is None and not said.replies:
            return said.rows  # nearly always
        log, events = self._log, []
        look = _LOOK_MAX if said.change is not None else _LOOK_FOR_REPLY
        with suppress(MemplaneError, OSError):  # whoever appends says what is wrong
            for line in log.read(max(log.head().seq - look, 0)):
                event = line.event
                if event.session == said.session and event.kind in ("message", "task"):
                    events.append(event._replace(text=log.text(event)))
        return completed(agent, said, map(remembered, events))

    @property
    def known(self) -> tuple[Watched, FileLog]:
        """What was read of the plane, also when closed: its policies, and where lines are."""
        return self._watched, self._log

    def close(self) -> None:
        """Let go of the files."""
        with suppress(MemplaneError, OSError):
            self._log.close()

    def _put(self, drafts: list[Draft]) -> None:
        try:
            self._log.append(drafts)
        except LockError:
            self._log.spool(drafts)
        except CorruptError as error:
            # Beside the log it waits until that is repaired.
            self._log.waiting.put(drafts, self._clock())
            self.faults.append(str(error))

    def _draft(self, row: Row) -> Draft | None:
        try:
            row = with_permitted_actor(row)
            if self._ns is not None:
                row = {**row, "ns": self._ns}
            return self._intake.prepare(self._named(row), id=ulid(self._clock()))
        except InputError as error:
            self.faults.append(str(error))
            return None

    def _own(self, row: Mapping[str, Any]) -> Draft:
        return self._intake.prepare(row, id=ulid(self._clock()), internal=True)

    def _named(self, row: Row) -> Row:
        """The row without what the policy masks in its identifiers; an id like that is left out."""
        redactor = self._intake.redactor
        changed: Row = {
            field: redactor.name(row[field])
            for field in ("session", "actor")
            if field in row and redactor.in_name(row[field])
        }
        if "id" in row and redactor.in_name(row["id"]):
            changed["id"] = None
        return {**row, **changed} if changed else row

    def _same(self, event: Event, draft: Draft) -> bool:
        log = self._log
        return same(
            event,
            draft,
            self._intake.redactor,
            lambda: log.text(event),
            lambda: log.recalled(event),
        )


# Ends and continuations of a session, with ids made of the event before them.
#
# Clients report them without a number: the same payload means the same end given twice (by two
# installs, or again), or another end of a session that went on in between. The last event that the
# log has of the session distinguishes the two.

_LOOK_FOR_REPLY: Final = 200  # lines: what is answered was said just before, other sessions aside
_LOOK_MAX: Final = 1_000  # lines; who has been silent for longer is named by the very last one


def marked_rows(log: FileLog, said: HookPayload) -> Sequence[Row]:
    """The rows of a Told that `marks`; none where the log has the same from the same time."""
    [row] = said.rows
    with suppress(MemplaneError, OSError):  # whoever appends says what is wrong
        last = _last(log, said.session)
        if last is None:
            return said.rows
        status = last.data.get("status") if last.kind == "session" else None
        if last.session == said.session and status == row["data"]["status"]:
            return ()
        before = hashlib.sha256(last.id.encode()).hexdigest()[:16]
        return [{**row, "id": name(*said.marks, before)}]
    return said.rows


def _last(log: FileLog, session: str) -> Event | None:
    """The newest event of a session, but for what memplane itself says of it; else the newest."""
    found = newest = None
    for line in log.read(max(log.head().seq - _LOOK_MAX, 0)):
        newest = line.event
        if newest.session == session and newest.data.get("extract") is not True:
            found = newest
    return found or newest


# What Codex keeps from its hooks: a turn that ends with a plan ends without a last message there.

_TAIL_BYTES: Final = 256 * 1024  # of a transcript; the plan stands at its end


def with_proposed_plan(agent: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload of a stop, with the plan that Codex's transcript has of that turn as last words.

    The same where the payload has words, or the transcript no plan.
    """
    turn, path = short_text(said, "turn_id"), short_text(said, "transcript_path")
    silent = said.get("hook_event_name") == "Stop" and not said.get("last_assistant_message")
    if agent != "codex" or not silent or not turn or not path:
        return said
    for line in reversed(_tail(path)):
        if b"<proposed_plan>" in line and turn.encode() in line:
            with suppress(ValueError, RecursionError, KeyError, TypeError):
                item = json.loads(line)["payload"]
                text = "".join(part["text"] for part in item["content"])
                if item["role"] == "assistant" and plan_proposed(text):
                    return {**said, "last_assistant_message": text}
    return said


def _tail(path: str) -> list[bytes]:
    """The last lines of a file; none of what is no regular file."""
    try:
        fd = nofollow.open_file(path)
    except (OSError, MemplaneError, ValueError):
        return []
    try:
        size = os.fstat(fd).st_size
        return nofollow.pread(fd, _TAIL_BYTES, max(size - _TAIL_BYTES, 0)).splitlines()
    except OSError:
        return []
    finally:
        os.close(fd)


def catch_up_plane(plane: Plane) -> None:
    """Sum up the sessions that are over; bring projections and index up to the log, keep them.

    Agents run it (`memplane hook --catch-up`) when they have stopped, in the background where they
    can, so that the next answer finds what was recorded. If another process is doing it already,
    this one leaves it to that process; the hook's timer ends it like any other.
    """
    plane.upkeep.index()  # first: who runs this may end it after a second
    plane.work.sessions.sum_up(HOOK_TAG)
    plane.pack("", budget=1_000)
    with plane.context.lock:
        plane.context.save_all()
    plane.upkeep.index()
    plane.flush()
