"""One call of a hook, from stdin to exit code 0."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.errors import MemplaneError
from memplane.hook import told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from memplane.home import Home
    from memplane.plane import Plane
    from memplane.ports import Clock

__all__ = ["Openers", "run"]

_STDIN_BYTES_MAX: Final = 16 * 1024 * 1024
# Until the policy is read: a plane on a disk that does not answer must not hold the agent up.
_MILLISECONDS: Final = 4_000
# Claude Code runs it in the background; Codex waits for it, and for ten seconds at most.
_CATCH_UP_MILLISECONDS: Final = {"claude-code": 58_000, "codex": 8_000}
_LOG_BYTES_MAX: Final = 256 * 1024
_LOG: Final = "hooks.log"


class Openers(NamedTuple):
    """The two ways into a plane: for one answer without arrays, and for all that it can do."""

    light: Callable[[Home, Clock, Mapping[str, str]], Plane]
    whole: Callable[[Home], Plane]


def run(argv: Sequence[str], environment: Mapping[str, str], opened: Openers) -> int:
    """Do what `memplane hook` was called for. Raises nothing, gives 0."""
    _end_after(_MILLISECONDS)
    home: Home | None = None
    clock: Clock | None = None
    try:
        from memplane.clock import clock as wall  # noqa: PLC0415 - inside, so that nothing escapes
        from memplane.home import located, open_home  # noqa: PLC0415 - likewise

        clock = wall
        agent = argv[0] if argv else ""
        user = os.path.expanduser("~")  # noqa: PTH111 - pathlib has nothing to add
        named = _named_home(argv)
        folder = located(environment, None, user, named=named)
        home = None if folder is None else open_home(folder)  # who hears of a stdin that is none
        said = _stdin()
        folder = located(environment, said.get("cwd"), user, named=named)
        home = None if folder is None else open_home(folder)
        if home is None or agent not in told.AGENTS:
            return 0
        if "--catch-up" in argv:
            from memplane.hook.catching_up import catch_up  # noqa: PLC0415 - see above

            _end_after(_CATCH_UP_MILLISECONDS[agent])
            with opened.whole(home) as plane:
                catch_up(plane)
            return 0
        answer = _answered(home, clock, environment, told.read(agent, said), opened)
        if answer:
            sys.stdout.write(answer)
            sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - the agent that runs this must not notice
        _tell(home, clock, error)
    return 0


def _answered(
    home: Home, clock: Clock, environment: Mapping[str, str], said: told.Told, opened: Openers
) -> str:  # fmt: skip
    from memplane.hook.recording import Recording  # noqa: PLC0415 - see `run`
    from memplane.policy import variables  # noqa: PLC0415 - likewise

    recording = Recording(home, clock, variables(environment))
    try:
        hooks = recording.policies.plane.hooks
        _end_after(hooks.milliseconds_max)
        if not home.read_only:
            recording.record(said.rows)
        for fault in recording.faults:
            _tell(home, clock, fault)
    finally:
        recording.close()
    if not said.asks:
        return ""
    from memplane.hook.answering import answered  # noqa: PLC0415 - what records does without

    with opened.light(home, clock, environment) as plane:
        text = answered(plane, said, hooks)
    if not text:
        return ""
    output = {"hookEventName": said.event, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": output}, ensure_ascii=True)


def _named_home(argv: Sequence[str]) -> str | None:
    """What stands behind `--home`, where it does."""
    return argv[argv.index("--home") + 1] if "--home" in argv[:-1] else None


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


def _end_after(milliseconds: int) -> None:
    """End this process then, as a kill would: what was acknowledged is safe from that."""
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)


def _end(_: int, __: FrameType | None) -> None:
    os._exit(0)


def _tell(home: Home | None, clock: Clock | None, what: BaseException | str) -> None:
    """Leave a line in the plane's own log, which stays small; to nobody where there is no plane."""
    if home is None:
        return
    try:
        now = time.time() if clock is None else clock()
        known = isinstance(what, str | MemplaneError)
        text = str(what) if known else f"{type(what).__name__}: {what}"
        line = f"{now} {os.getpid()} {' '.join(text.split())[:1000]}\n"
        path = os.path.join(home.path, _LOG)  # noqa: PTH118 - pathlib is not imported for this
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size > _LOG_BYTES_MAX:
                os.ftruncate(fd, 0)
            os.write(fd, line.encode("utf-8", "backslashreplace"))
        finally:
            os.close(fd)
    except OSError:
        return
