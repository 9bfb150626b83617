"""The tools and resources as handlers of the official MCP SDK.

Resources are what a client can attach without a tool call: decisions, tasks, a report, handles.
Errors that memplane raises on purpose reach the agent in their own words. Anything else is a bug:
the agent gets a short message that there was one, and stderr the traceback.

`Worker` has the open plane and the threads that use it, so that the event loop never waits for a
disk. Two threads read and one writes, so that no search delays a record, and records keep the order
in which they arrived. A cancelled read that has not begun is dropped; one that has begun runs to
its end, and a write is carried out in any case: only its answer is dropped.

Run the server over stdin and stdout, until the input ends or a signal comes.

At the end of the input all requests received until then are answered. After a signal there is one
second for that; then only records that have begun are finished and the rest is cancelled. Nothing
but the protocol reaches stdout, whatever else prints.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar
from urllib.parse import unquote

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from memplane.errors import InputError, MemplaneError, NotFoundError
from memplane.home import VERSION, open_home
from memplane.intake import permitted_actor
from memplane.intake.redact import masked, masked_name, quoted_value
from memplane.lazy import NamedTuple
from memplane.mcp import (
    INSTRUCTIONS,
    TOOLS,
    Answer,
    Desk,
    Tool,
    checked,
    clipped,
    curate,
    expanded,
    forget_tool,
    get_tool,
    list_keys,
    search_tool,
    store,
    task_tool,
    tool_named,
)
from memplane.plane import Plane
from memplane.ports import TokenCounter
from memplane.projections.item import safe_name
from memplane.upkeep import reports

_ACTS: Final[dict[str, Callable[..., Answer]]] = {
    "memory_store": store,
    "memory_get": get_tool,
    "memory_search": search_tool,
    "memory_curate": curate,
    "memory_task": task_tool,
    "memory_forget": forget_tool,
    "memory_list_keys": list_keys,
}
# What the plane calls the arguments that an agent knows by another name.
_ARGUMENTS: Final = {"text": "content", "kind": "type", "k": "limit", "budget": "max_tokens"}
_ERROR_CHARS: Final = 1_000
_ACTOR_CHARS: Final = 100
_CLIENT_CHARS: Final = 4096  # of a client's name that are looked at
_Context = ServerRequestContext[Any, Any]
# Does something at the desk of who calls, and says whether that writes.
_AtDesk = Callable[[_Context, Callable[[Desk], Any], bool], Awaitable[Any]]


class Own(NamedTuple):
    """The session of a client whose hooks record it.

    `client`: the program by whose name alone it is taken; what it starts inherits its environment.
    `held`: the seq behind which it has before it what was said there, in the plane of that folder.
    """

    client: str
    session: str
    held: Callable[[Path], int]


class Serving(NamedTuple):
    """What a server serves: how its plane opens, for which channel and session.

    `own` stands before `session` where the client is the one that it names. `fresh`: `session` was
    made for this server, which says when it begins and ends.
    """

    open_plane: Callable[[], Plane]
    make_counter: Callable[[str, int], TokenCounter]
    channel: str
    session: str
    read_only: bool = False
    own: Own | None = None
    fresh: bool = False


class _Visit:
    """A session that was made for this server: begun at its first record, ended when it leaves.

    Nothing here stops a record.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._met, self._begun = False, False

    def begin(self, plane: Plane, agent: str) -> None:
        """Say that the session began, by which agent. In the thread of writes."""
        if self._met:
            return
        self._met = True
        from memplane.work.sessions import session_row, write  # noqa: PLC0415 - it folds and sums up

        with suppress(MemplaneError, OSError):
            row = {**session_row(self._session, "start", "Session started"), "actor": agent}
            write(plane.context, [dict(plane.context.placed(row))])
            self._begun = True

    def end(self, plane: Plane) -> None:
        """End it, with the summary of what happened in it."""
        if self._begun:
            with suppress(MemplaneError, OSError):
                plane.work.sessions.end(self._session)


class _Handlers:
    """What the SDK calls."""

    def __init__(self, done: _AtDesk, *, read_only: bool = False) -> None:
        self._done = done
        self._tools = [tool for tool in TOOLS if not (read_only and tool.writes)]

    async def list_tools(
        self, _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(tool) for tool in self._tools])

    async def call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Answer, or say what went wrong as the tool's result: an agent can do something then."""
        tool = tool_named(params.name)
        if tool is None:
            known = ", ".join(one.name for one in self._tools)
            raise MCPError(
                types.INVALID_PARAMS, f"no tool {quoted_value(params.name)}; known: {known}"
            )
        if tool not in self._tools:
            return _failed(f"this server reads only (--read-only); {tool.name} writes")
        try:
            given = checked(tool, params.arguments)
            named = (params.arguments or {}).get("ns") is not None
            act = partial(_acted, tool.name, given, named)
            answer = await self._done(context, act, tool.writes)
        except MemplaneError as error:
            return _failed(_words(error))
        except OSError as error:  # the disk's fault, or of whoever made these files
            return _failed(_of_disk(error))
        except Exception:  # noqa: BLE001 - no bug of ours may end the session
            return _failed(_bug(tool.name))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.words)],
            structured_content=answer.data,
        )

    async def list_resources(
        self, _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=one.uri,
                    name=one.name,
                    description=one.description,
                    mime_type=one.mime_type,
                )
                for one in RESOURCES
            ]
        )

    async def list_templates(
        self, _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=TEMPLATE,
            name="handle",
            mime_type="text/plain",
            description="What a handle of a block or search opens: event/12, task/ID?depth=0..3, "
            "session/ID?depth=0..3, memory/NS/KEY.",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Raise what a client expects of a resource that is not there: invalid params."""
        try:
            text, mime = await self._done(context, partial(read_resource, uri=params.uri), False)
        except (NotFoundError, InputError) as error:
            raise MCPError(types.INVALID_PARAMS, _words(error)) from None
        except MemplaneError as error:
            raise MCPError(types.INTERNAL_ERROR, _words(error)) from None
        except OSError as error:
            raise MCPError(types.INTERNAL_ERROR, _of_disk(error)) from None
        except Exception:  # noqa: BLE001 - as for a tool
            raise MCPError(types.INTERNAL_ERROR, _bug("resources/read")) from None
        contents = types.TextResourceContents(uri=params.uri, mime_type=mime, text=text)
        return types.ReadResourceResult(contents=[contents])


def _acted(tool: str, given: dict[str, Any], named: bool, desk: Desk) -> Answer:
    """Do what a tool does; `named`: the call names its namespace."""
    if desk.spaces and "ns" in given and not named:
        given = {**given, "ns": desk.spaces[0]}
    return _ACTS[tool](desk, given=given)


class _OneClient:
    """The desk of the one client of a server over pipes."""

    def __init__(self, serving: Serving, worker: Worker, visit: _Visit) -> None:
        self._serving, self._worker, self._visit = serving, worker, visit

    async def __call__(self, context: _Context, act: Callable[[Desk], Any], writes: bool) -> Any:
        """Do something at a desk of this caller, in a thread."""
        actor = _actor(context)
        serving = self._serving
        session, held, visit = serving.session, None, self._visit
        if serving.own is not None and serving.own.client == actor:
            session, held = serving.own.session, serving.own.held

        def work(plane: Plane, tell: Tell) -> Any:
            desk = Desk(plane, serving.make_counter, serving.channel, session, actor, held, tell)
            if serving.fresh and session == serving.session:  # no other's to begin or end
                desk = desk._replace(begin=partial(visit.begin, plane, actor))
            return act(desk)

        async def progress(done: int, total: int) -> None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client left
                await context.session.report_progress(done, total, "indexing")

        return await self._worker.run(work, writes=writes, progress=progress)


def server_of(serving: Serving) -> tuple[Server[Any], Worker]:
    """The SDK's server of one plane, and the worker behind it."""
    visit = _Visit(serving.session)
    worker = Worker(serving.open_plane, visit.end)
    handlers = _Handlers(_OneClient(serving, worker, visit), read_only=serving.read_only)

    @asynccontextmanager
    async def lifespan(_server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        async with worker.working():
            yield {}

    return _server(handlers, lifespan), worker


def server_of_many(at_desk: Callable[[Any, Callable[[Desk], Any], bool], Awaitable[Any]]) -> Any:
    """The SDK's server of many callers over HTTP.

    `at_desk` takes the HTTP request of a call, what is to be done at the desk of who sent it, and
    whether that writes; it gives back what was done, or raises what that raised.
    """

    async def done(context: _Context, act: Callable[[Desk], Any], writes: bool) -> Any:
        return await at_desk(context.request, act, writes)

    @asynccontextmanager
    async def lifespan(_server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        yield {}

    return _server(_Handlers(done), lifespan)


def _server(handlers: _Handlers, lifespan: Any) -> Server[Any]:
    return Server(
        "memplane",
        version=VERSION,
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_read_resource=handlers.read_resource,
        on_list_resource_templates=handlers.list_templates,
    )


def _actor(context: _Context) -> str:
    """The client's name, as far as an event can have it."""
    client = context.session.client_params
    name = client.client_info.name if client is not None else ""
    # Masked first: of a token that is cut off no rule knows the rest.
    name = masked_name(name[:_CLIENT_CHARS])[: _ACTOR_CHARS * 4]
    printed = "".join(one if one.isprintable() else " " for one in name)
    return permitted_actor(clipped(printed, _ACTOR_CHARS), None) or "mcp"


def _listed(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.writes,
        open_world_hint=False,
        destructive_hint=tool.archives if tool.writes else None,
        idempotent_hint=True if tool.writes else None,
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.takes,
        output_schema=tool.gives,
        annotations=hints,
    )


def _failed(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=True)


def _words(error: MemplaneError) -> str:
    """What the error says, in the names that the agent knows, without secrets, not too long."""
    said = str(error)
    if isinstance(error, InputError) and error.where in _ARGUMENTS:
        said = f"{_ARGUMENTS[error.where]}{said.removeprefix(error.where)}"
    said = masked(said)
    return said if len(said) <= _ERROR_CHARS else f"{said[:_ERROR_CHARS]} …"


def _of_disk(error: OSError) -> str:
    """What the system refused, and of which file: as a command says it."""
    place = f"{error.filename}: " if error.filename else ""
    return masked(f"{place}{error.strerror or error}")[:_ERROR_CHARS]


def _bug(where: str) -> str:
    """Put the traceback where the person looks, and give the agent words that help it along."""
    sys.stderr.write(masked(traceback.format_exc()))
    sys.stderr.flush()
    return f"{where} failed: a bug in memplane; its traceback is in the server's stderr"


TOKENS_MAX: Final = 4_000
TEMPLATE: Final = "expand://{+handle}"
_SCHEME: Final = "expand://"
_STATEMENT_CHARS: Final = 400
_MORE_TOKENS: Final = 40  # that say how many entries did not fit


class Resource(NamedTuple):
    """One resource, and what reads it: at most TOKENS_MAX tokens."""

    uri: str
    name: str
    description: str
    mime_type: str
    read: Callable[[Desk], str]


def read_resource(desk: Desk, uri: str) -> tuple[str, str]:
    """The text of a resource and its type; raises NotFoundError for one that is not there."""
    for one in RESOURCES:
        if one.uri == uri:
            return one.read(desk), one.mime_type
    if uri.startswith(_SCHEME):
        return _expanded(desk, uri), "text/plain"
    known = ", ".join(one.uri for one in RESOURCES)
    asked = clipped(masked_name(uri), 80)  # masked first: of what is cut off no rule knows the rest
    raise NotFoundError(f"no resource {asked}; there are {known} and {TEMPLATE}")


def _expanded(desk: Desk, uri: str) -> str:
    # A client that fills `{handle}` in without the plus writes a slash as %2F.
    handle = uri if "/" in uri.removeprefix(_SCHEME) else unquote(uri)
    found = expanded(desk, handle, TOKENS_MAX - 100)
    if found.next is None:
        return found.text
    return f"{found.text.rstrip()}\n[cut; goes on at {_SCHEME}{found.next.removeprefix(_SCHEME)}]\n"


def _decisions(desk: Desk) -> str:
    found = desk.plane.work.decisions(**desk.who)
    lines = (
        f"#{event.seq} {event.ts[:10]}{f' {safe_name(event.key)}' if event.key else ''}: "
        f"{clipped(event.text, _STATEMENT_CHARS)}\n"
        for event in reversed(found)
    )
    return _fitting(desk, lines, len(found), "older decisions; memory_search with type decision")


def _tasks(desk: Desk) -> str:
    found = desk.plane.work.tasks.list(session=desk.session, **desk.who)
    texts = (view.paragraph for view in found)
    return _fitting(desk, texts, len(found), "older tasks; expand://task/ID opens one")


def _fitting(desk: Desk, texts: Iterable[str], total: int, rest: str) -> str:
    """As many texts as fit, and how many more there are."""
    kept: list[str] = []
    left = TOKENS_MAX - 40
    for text in texts:
        left -= desk.counter.count(text)
        if left < 0:
            return "".join([*kept, f"[{total - len(kept)} {rest}]\n"])
        kept.append(text)
    return "".join(kept) or "none\n"


def _report(desk: Desk) -> str:
    """The newest report of this channel, without its longest lists where it does not fit whole.

    None of another agent's or project's packs, which name what is in its namespace; nor of one that
    had more namespaces than this agent may use.
    """
    project = desk.plane.context.home.project
    for one in reports.saved(desk.plane.home):
        request = one.report["request"]
        whose = (one.report["channel"], request.get("agent", desk.actor), request.get("project"))
        spaces = request.get("ns", ())
        bound = not desk.spaces or (spaces and set(spaces) <= set(desk.spaces))
        if bound and whose == (desk.channel, desk.actor, project):
            return _cut_report(desk, one)
    raise NotFoundError("no report is saved yet; memory_curate saves one")


def _cut_report(desk: Desk, saved: reports.Saved) -> str:
    report, counter = {"id": saved.id, **saved.report}, desk.counter
    for cut in (dict, _counted, _without_prefix, _named):
        report = cut(report)
        text = _json(report)
        if counter.count(text) <= TOKENS_MAX:
            return text
        report["cut"] = f"all of it is reports/{saved.path.name} in the plane's folder"
    entries = report["entries"]
    left = TOKENS_MAX - counter.count(_json({**report, "entries": []})) - _MORE_TOKENS
    costs = accumulate(counter.count(_json(entry)) + 1 for entry in entries)
    report["entries"] = entries[: sum(cost <= left for cost in costs)]
    report["more_entries"] = len(entries) - len(report["entries"])
    return _json(report)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _counted(report: dict[str, Any]) -> dict[str, Any]:
    """What was left out by counts alone."""
    return {**report, "omissions": {"counts": report["omissions"]["counts"]}}


def _without_prefix(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "prefix"}


def _named(report: dict[str, Any]) -> dict[str, Any]:
    """Entries by where they stand, cost and are made of; the query's beginning."""
    names = ("section", "tokens", "events", "parts")
    entries = [{name: entry[name] for name in names} for entry in report["entries"]]
    query = clipped(report["request"].get("query", ""), _STATEMENT_CHARS)
    return {**report, "entries": entries, "request": {**report["request"], "query": query}}


RESOURCES: Final = (
    Resource(
        "memplane://decisions",
        "decisions",
        "The decisions in force, newest first.",
        "text/plain",
        _decisions,
    ),
    Resource("memplane://tasks", "tasks", "The open tasks, newest first.", "text/plain", _tasks),
    Resource(
        "memplane://report",
        "last report",
        "The report of the last packed block: entries, what was left out and why.",
        "application/json",
        _report,
    ),
)


Result = TypeVar("Result")
Tell = Callable[[int, int], None]  # done, in all

_READERS: Final = 2
_LEAVE_SECONDS: Final = 1.5  # clients wait for two at the end of the input
_TELL_EVERY_SECONDS: Final = 0.1


class _Call(Generic[Result]):
    """One piece of work: what came of it, how far it is, and whether anybody still waits."""

    def __init__(self, work: Callable[[Plane, Tell], Result], *, writes: bool) -> None:
        self.work, self.writes = work, writes
        self.news, self.finished, self.abandoned = anyio.Event(), False, False
        self.at: tuple[int, int] | None = None
        self.result: Result
        self.error: BaseException | None = None
        self._next = 0.0

    def tell(self, done: int, total: int) -> None:
        """Called in the thread, as often as the work likes."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _TELL_EVERY_SECONDS
            anyio.from_thread.run_sync(self._heard, done, total)

    def _heard(self, done: int, total: int) -> None:
        self.at = done, total
        self.news.set()

    def end(self) -> None:
        self.finished = True
        self.news.set()


class Worker:
    """Opens the plane for the first call; where that fails so does the call, until it works.

    A plane that was moved away or replaced since is opened anew, where there is one. `leave` is
    called with the plane before it is closed; where that takes longer than clients wait, the plane
    is left as it is: all that was acknowledged is in its log.
    """

    def __init__(
        self, open_plane: Callable[[], Plane], leave: Callable[[Plane], None] | None = None
    ) -> None:
        self._open, self._leave = open_plane, leave
        self._opening = threading.Lock()
        self._plane: Plane | None = None
        self._writes = 0

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Take calls; at the end wait for what has begun, and close the plane."""
        self._reading = anyio.CapacityLimiter(_READERS)
        self._writing = anyio.CapacityLimiter(1)
        try:
            async with anyio.create_task_group() as self._tasks:
                yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._close)

    async def run(
        self,
        work: Callable[[Plane, Tell], Result],
        *,
        writes: bool = False,
        progress: Callable[[int, int], Awaitable[None]] | None = None,
    ) -> Result:
        """Do the work in a thread and give back what it gives, or raise what it raises."""
        call = _Call(work, writes=writes)
        self._writes += writes
        self._tasks.start_soon(self._carry_out, call)
        try:
            while not call.finished:
                await call.news.wait()
                call.news = anyio.Event() if not call.finished else call.news
                if progress is not None and call.at is not None and not call.finished:
                    await progress(*call.at)
        finally:
            call.abandoned = not call.finished
        if call.error is not None:
            raise call.error
        return call.result

    @property
    def writing(self) -> bool:
        """Whether something is being written; any thread may ask."""
        return self._writes > 0

    async def _carry_out(self, call: _Call[Result]) -> None:
        limiter = self._writing if call.writes else self._reading
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._work, call, limiter=limiter)
        finally:
            call.end()
            self._writes -= call.writes

    def _work(self, call: _Call[Result]) -> None:
        if call.abandoned and not call.writes:
            return
        try:
            call.result = call.work(self._opened(), call.tell)
        except BaseException as error:  # noqa: BLE001 - raised again where the call is awaited
            call.error = error

    def _opened(self) -> Plane:
        with self._opening:
            if self._plane is not None and not _is_there(self._plane):
                self._plane = None  # not closed: it would write where its folder was
            if self._plane is None:
                self._plane = self._open()
            return self._plane

    def _close(self) -> None:
        with self._opening:
            if self._plane is not None and _is_there(self._plane) and self._left(self._plane):
                self._plane.close()
            self._plane = None

    def _left(self, plane: Plane) -> bool:
        """Whether `leave` has come to its end."""
        if self._leave is None:
            return True
        leaving = threading.Thread(target=self._leave, args=(plane,), daemon=True)
        leaving.start()
        leaving.join(_LEAVE_SECONDS)
        return not leaving.is_alive()


def _is_there(plane: Plane) -> bool:
    """Whether its folder still holds this plane."""
    try:
        return open_home(plane.home).plane_id == plane.id
    except MemplaneError:
        return False


_CHUNK_BYTES: Final = 65_536
# Clients wait for two seconds at the end of the input, and for two more behind a signal.
_ANSWER_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05
_TURNS: Final = 20  # of the loop, for what was read last to come to where it is noted


def serve_client(serving: Serving) -> None:
    """Serve one client until its end of the pipe closes or this process is told to end."""
    with suppress(KeyboardInterrupt):
        anyio.run(_serve, serving)


async def _serve(serving: Serving) -> None:
    server, worker = server_of(serving)
    lines = _Lines(worker)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_on_signal, lines)
        try:
            async with stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type] # all that it does is iterate
                pending = lines.pending
                try:
                    await server.run(
                        Heard(read, pending),
                        ServerMessage(write, pending),
                        server.create_initialization_options(),
                    )
                finally:
                    # What a library printed leaves while descriptor 1 still is stderr's.
                    with suppress(OSError, ValueError):
                        sys.stdout.flush()
        except* (BrokenPipeError, anyio.BrokenResourceError):
            pass  # the client is gone, and nobody is left to tell
        finally:
            lines.left()
            tasks.cancel_scope.cancel()


async def _end_on_signal(lines: _Lines) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for _ in signals:
            lines.hurry()


class _Lines:
    """The lines of stdin, until its end or until `end` is called.

    They are read by a thread of their own that dies with the process: a read that blocks cannot
    be called back, and a signal must not wait for the client's next line.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker, self._leaving = worker, _Leaving(worker)
        self._file: int | None = None
        self._send, self._lines = anyio.create_memory_object_stream[bytes](math.inf)
        self._answering, self.pending = anyio.CancelScope(), Pending()

    def end(self) -> None:
        """Take no more lines."""
        self._send.close()

    def hurry(self) -> None:
        """Take no more lines, and leave soon."""
        self.end()
        if not self._leaving.is_alive():
            self._leaving.start()
            self._answering.deadline = anyio.current_time() + _ANSWER_SECONDS

    def left(self) -> None:
        """All is done, nothing has to be cut short; stdin is what it was."""
        self._leaving.cancel()
        self._send.close()
        self._lines.close()
        if self._file is not None:
            os.dup2(self._file, 0)  # and stays open itself: a thread may still read it

    async def __aiter__(self) -> AsyncIterator[str]:
        token = anyio.lowlevel.current_token()
        file = self._file = _taken_stdin()

        def read() -> None:
            # At the end of the loop it does not matter what was still to be sent.
            with suppress(Exception):
                for line in _lines_of(file):
                    anyio.from_thread.run_sync(self._send.send_nowait, line, token=token)
                anyio.from_thread.run_sync(self.end, token=token)

        threading.Thread(target=read, name="stdin", daemon=True).start()
        async for line in self._lines:
            yield _whole(line.decode("utf-8", "replace"))
        await self._answered()

    async def _answered(self) -> None:
        """Wait until what was asked is answered."""
        with self._answering:
            for _ in range(_TURNS):
                await anyio.lowlevel.checkpoint()
            await self.pending.none()


class _Leaving(threading.Timer):
    """Ends the process where a search would hold it up: what is acknowledged is safe by then."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(_LEAVE_SECONDS, self._leave)
        self.daemon, self._worker = True, worker

    def _leave(self) -> None:
        while self._worker.writing:
            time.sleep(_LOOK_SECONDS)
        os._exit(0)


def _whole(line: str) -> str:
    """The line without halves of characters, as clients send them that cut a text anywhere.

    The SDK drops such a message without a word, and its client would wait for ever.
    """
    if "\\ud" not in line and "\\uD" not in line:
        return line
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(line), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return line


def _taken_stdin() -> int:
    """A descriptor of stdin that nobody else has; whoever reads stdin from now on reads nothing."""
    file = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return file


def _lines_of(file: int) -> Iterator[bytes]:
    """The lines of a descriptor, with what stands behind the last newline as one more."""
    parts: list[bytes] = []
    while data := os.read(file, _CHUNK_BYTES):
        *whole, rest = data.split(b"\n")
        for line in whole:
            yield b"".join([*parts, line])
            parts.clear()
        parts.append(rest)
    if any(parts):
        yield b"".join(parts)


# What was asked and not answered yet, told by the messages that pass.
#
# The SDK drops what is under way as soon as its input ends. Who pipes questions in and closes the
# pipe wants the answers all the same, so the end is held back until there is nothing pending.


class Pending:
    """The requests that passed and were neither answered nor taken back."""

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self._fewer = anyio.Event()

    def heard(self, item: Any) -> None:
        """Note what the client says."""
        message: Any = getattr(item, "message", None)
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
        elif getattr(message, "method", "") == "notifications/cancelled" and message.params:
            named = message.params.get("requestId")
            if isinstance(named, str | int):  # what else a client may put there names no request
                self._drop(named)

    def said(self, item: Any) -> None:
        """Note what the client is told."""
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._drop(item.message.id)

    def _drop(self, one: Any) -> None:
        self._ids.discard(one)
        self._fewer.set()

    async def none(self) -> None:
        """Return when there is none."""
        while self._ids:
            self._fewer = anyio.Event()
            await self._fewer.wait()


class _Stream:
    """A stream of the SDK whose messages are noted; all else is the stream's own."""

    def __init__(self, stream: Any, pending: Pending) -> None:
        self._stream, self._pending = stream, pending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()


class Heard(_Stream):
    """What the client says."""

    async def receive(self) -> Any:
        item = await self._stream.receive()
        self._pending.heard(item)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        self._pending.heard(item)
        return item


class ServerMessage(_Stream):
    """What the client is told."""

    async def send(self, item: Any) -> None:
        await self._stream.send(item)
        self._pending.said(item)
