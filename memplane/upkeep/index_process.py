"""A process that compares or makes the index while its caller does the same for projections.

It opens the plane itself, by the same environment. Where it cannot be started, ends, or finds
another plane or other policies than its caller has, there is no result, and the caller does the
work: what is found or made is the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Self

from memplane.lazy import late
from memplane.search.service import index_service

if TYPE_CHECKING:
    from memplane.context.context import PlaneContext
    from memplane.policy import Policies
    from memplane.ports import Progress
    from memplane.recall import documents
else:
    documents = late("memplane.recall.documents")

Task = Literal["differs", "rebuild"]
# Lines of the log: a process takes half a second of a processor to start.
_LINES_MIN: Final = 20_000
_STEPS: Final = 200  # in which it tells how far it is
_CHILD: Final = """
import json, os, sys
told = json.load(sys.stdin)
sys.path[:] = told["path"]
from memplane import home, wiring
from memplane.upkeep.index_process import serve_index
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
        head = context.log.head().seq
        if processes < 2 or head < _LINES_MIN or not sys.executable:
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
