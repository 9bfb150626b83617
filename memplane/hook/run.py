"""One call of a hook: JSON from stdin, an answer on stdout, exit code 0."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from memplane import nofollow
from memplane.errors import MemplaneError
from memplane.hook import payload
from memplane.lazy import NamedTuple, late

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from memplane import clock as clock_room, errors, policy, trust
    from memplane.home import Home
    from memplane.hook import context, place, recording as hook_recording
    from memplane.intake import redact
    from memplane.plane import Plane
    from memplane.plane.packer import Packer
    from memplane.ports import Clock
    from memplane.trust import Located
else:
    clock_room = late("memplane.clock")
    errors = late("memplane.errors")
    context = late("memplane.hook.context")
    place = late("memplane.hook.place")
    hook_recording = late("memplane.hook.recording")
    redact = late("memplane.intake.redact")
    policy = late("memplane.policy")
    trust = late("memplane.trust")

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

    light: Callable[[Home, Clock, Mapping[str, str]], Packer]
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
                hook_recording.catch_up_plane(plane)
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
    recording = hook_recording.HookLog(home, clock_room.clock, policy.variables(environment))
    try:
        hooks = recording.policies.plane.hooks
        watch.end_after(hooks.milliseconds_max)
        at = place.work_place(home, place.folders_of(agent, given, environment), hooks.exclude)
        if at is None:
            give("")
            return
        home = at.home
        given = hook_recording.with_proposed_plan(agent, given)
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
    with opened.light(home, clock_room.clock, environment) as plane:
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
