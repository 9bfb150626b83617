"""The `SessionStore` of the Claude Agent SDK over a plane: resumable transcripts, and recall.

Each entry of a transcript is stored twice, both times under ids made of its uuid. As it is, in
events of kind `session`: `load` returns it from there, and no block or search shows it. And as the
events that an import of the transcript would record, which packs and searches use (`Recall` in
`transcripts`); an import of the same transcript then finds those events there already.

Deleting a conversation forgets its entries and the recall events of its session. The log keeps both
until a purge; entries appended later start a new transcript. Secrets are masked before anything is
stored, so `load` returns such an entry with the mask in it, the only difference from what was
stored. Forgetting one message hides it from recall but not from its transcript, which could not be
resumed without it; forgetting a session hides both.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from memplane.adapters.transcripts import (
    ENTRY,
    Recall,
    TranscriptIndex,
    TranscriptPlace,
    packed,
    unpacked,
)
from memplane.errors import InputError, MemplaneError, MissingExtraError
from memplane.importers.rows import name
from memplane.intake import timestamp
from memplane.intake.check import with_permitted_actor
from memplane.intake.redact import quoted_value

if TYPE_CHECKING:
    from memplane.plane.plane import Plane

__all__ = ["SOURCE", "Fold", "PlaneSessionStore"]

SOURCE: Final = "claude-session"
Answer = TypeVar("Answer")
Key = Mapping[str, str]
Entry = dict[str, Any]
# A summary so far (None at first), the key, and the entries behind it: the summary with them.
Fold = Callable[[Any, Any, Any], Any]
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HASH: Final = 16  # hex digits of a hash that names
_SUMMARIES_AT_ONCE: Final = 100


class PlaneSessionStore:
    """Keeps transcripts in a plane: `ClaudeAgentOptions(session_store=PlaneSessionStore(plane))`.

    Threads and processes may share a plane; each has a store of its own, and all see the same
    transcripts. Within one store calls are served in their order. `fold` summarises (by default
    the SDK's `fold_session_summary`). Close the store, then the plane.
    """

    def __init__(self, plane: Plane, *, fold: Fold | None = None) -> None:
        self._plane, self._fold = plane, fold
        context = plane.context
        if context.as_of is not None:
            raise InputError("expected a plane of now, found one of a prefix of its log")
        self._context = context
        folder = context.home.path / "projections" if context.keeps else None
        self._index = TranscriptIndex(context.log, folder, plane=plane.id)
        self._recall = Recall(plane)
        self._cuts: dict[str, int] = {}  # by what was forgotten: the seq of the last that said so
        self._judged = 0
        # One thread: what is appended first is stored first, and what was stored is there to load.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="memplane-sessions")

    async def append(self, key: Key, entries: Sequence[Any]) -> None:
        """Store entries behind those of the key; one whose uuid is there already is left out."""
        await self._aside(partial(self._append, dict(key), list(entries)))

    async def load(self, key: Key) -> list[Any] | None:
        """Every entry of the key in the order of its storing; None where there is none."""
        return await self._aside(partial(self._load, dict(key)))

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The conversations of a project, with the time of their last entry in milliseconds."""
        return await self._aside(partial(self._list, project_key))

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """What `fold` says of each conversation; only what was appended since is read for it."""
        return await self._aside(partial(self._summaries, project_key))

    async def delete(self, key: Key) -> None:
        """Forget a conversation with its sub-agents, or one sub-agent's transcript."""
        await self._aside(partial(self._delete, dict(key)))

    async def list_subkeys(self, key: Key) -> list[str]:
        """The paths of a conversation's sub-agents."""
        conversation = _place(key).conversation
        ask = partial(self._index.ask, lambda index: index.branches(conversation))
        return await self._aside(ask)

    def close(self) -> None:
        """Finish what was begun and let go of the files; the plane stays open."""
        with suppress(MemplaneError, RuntimeError):  # a plane or a store that is closed already
            self._worker.submit(self._settle).result()
        self._worker.shutdown(wait=True)
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _aside(self, work: Callable[[], Answer]) -> Answer:
        """Do it in the store's thread, in the order of the calls."""
        future = self._worker.submit(work)
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # another event loop: the SDK runs under trio, too
            run_sync = import_module("anyio.to_thread").run_sync  # the SDK brings it along
            return cast("Answer", await run_sync(future.result))
        return await asyncio.wrap_future(future)

    # --- in the thread ---

    def _append(self, key: dict[str, str], entries: list[Any]) -> None:
        if not entries:
            return
        place = _place(key)
        cut = self._cut(place, key)
        rows = list(self._rows(place, key, entries, cut))
        if not self._store(rows):
            return
        # Some were there: what another process deleted meanwhile begins anew under other ids.
        gone = self._index.ask(lambda index: index.gone([row["id"] for row in rows]))
        now = self._cut(place, key)
        if gone:
            once = [entry for entry in entries if _stem(entry) is not None]
            again = list(self._raw_rows(place, key, once, cut))
            fresh = list(self._raw_rows(place, key, once, now))
            self._store([new for new, old in zip(fresh, again, strict=True) if old["id"] in gone])

    def _store(self, rows: list[dict[str, Any]]) -> int:
        """Record rows and return how many were there; raise where an entry cannot be stored."""
        receipt = self._plane.record_many(map(with_permitted_actor, rows), strict=False)
        for one in receipt.refused:
            # What was purged stays so; a turn that is no memory still stands in its transcript.
            if one.reason != "purged" and rows[one.index]["id"].startswith(f"{SOURCE}:"):
                raise InputError(one.message)
        return receipt.duplicates

    def _rows(
        self, place: TranscriptPlace, key: dict[str, str], entries: list[Any], cut: int
    ) -> Iterator[dict[str, Any]]:
        self._recall.look()
        reader = self._recall.reader(place)
        for entry in entries:
            yield from self._raw_rows(place, key, [entry], cut)
            yield from self._recall.rows(place, reader, entry)
        yield from self._recall.leave(place, reader)

    def _settle(self) -> None:
        """Record what waits for a hook that was never told of it."""
        self._recall.look()
        if rows := self._recall.settled():
            self._store(rows)

    def _raw_rows(
        self, place: TranscriptPlace, key: dict[str, str], entries: list[Any], cut: int
    ) -> Iterator[dict[str, Any]]:
        """The events that keep entries as they are."""
        scope = name(SOURCE, place.conversation, place.branch or "main", str(cut))
        redactor = self._context.intake(self._context.watched.policies_or_last()).redactor
        told = {"project": key["project_key"], "conversation": key["session_id"]}
        told |= {"subpath": key["subpath"]} if place.branch else {}
        for entry in entries:
            if not isinstance(entry, dict):
                raise InputError(
                    f"expected an object, found {quoted_value(entry)}", where="entries"
                )
            stem = f"{scope}:{_stem(entry) or uuid.uuid4().hex}"
            frame = {"kind": "session", "session": name(key["session_id"]), **_when(entry)}
            parts = packed(entry, redactor.redact_data)
            for number, part in enumerate(parts, 1):
                data = {"status": ENTRY, **told, "of": [*place], **part}
                if len(parts) > 1:
                    data |= {"stem": stem, "part": [number, len(parts)]}
                yield {**frame, "id": stem if number == 1 else f"{stem}:{number}", "data": data}

    def _load(self, key: dict[str, str]) -> list[Entry] | None:
        place = _place(key)
        stored = self._stored(self._index.ask(lambda index: index.entries(place)))
        return [self._masked(entry) for entry in stored] or None

    def _masked(self, value: Any) -> Any:
        """What leaves the plane, under the rules of today."""
        return self._context.intake(self._context.watched.policies_or_last()).redactor.redact_data(
            value
        )[0]

    def _stored(self, rows: list[tuple[int, str, int, int]]) -> Iterator[Entry]:
        """The entries that these parts make, each uuid once; those with a part missing are none."""
        parts: dict[str, dict[int, int]] = {}
        for seq, stem, part, _ in rows:
            parts.setdefault(stem, {}).setdefault(part, seq)
        whole = {stem: count for _, stem, _, count in rows if len(parts[stem]) == count}
        seen = set[str]()
        for stem in whole:
            entry = self._read([seq for _, seq in sorted(parts[stem].items())])
            if entry is None:
                continue
            once = _stem(entry)
            if once is None or once not in seen:
                if once is not None:
                    seen.add(once)
                yield entry

    def _read(self, seqs: list[int]) -> Entry | None:
        lines = [self._context.log.line(seq) for seq in seqs]
        found = [line.event.data for line in lines if line is not None]
        return unpacked(found) if len(found) == len(seqs) else None

    def _list(self, project_key: str) -> list[dict[str, Any]]:
        project = _hash(project_key)
        found = self._index.ask(lambda index: index.conversations(project))
        return [{"session_id": session, "mtime": ms} for _, session, _, _, ms in found]

    def _summaries(self, project_key: str) -> list[dict[str, Any]]:
        fold, told = self._fold or _sdk_fold(), list[dict[str, Any]]()
        fresh: list[tuple[str, int, int, dict[str, Any]]] = []
        project = _hash(project_key)
        for conversation, session, cut, last, ms in self._index.ask(
            lambda index: index.conversations(project)
        ):
            known = self._index.summary(conversation, cut)
            upto, data = known or (0, None)
            if data is None or upto < last:
                place = TranscriptPlace(project, conversation, "")
                entries = list(self._stored(self._index.entries(place, upto)))
                before = data and {"session_id": session, "mtime": ms, "data": data}
                key = {"project_key": project_key, "session_id": session}
                data = dict(fold(before, key, entries)["data"])
                fresh.append((conversation, last, cut, data))
                if len(fresh) == _SUMMARIES_AT_ONCE:
                    self._index.keep(fresh)
                    fresh = []
            told.append({"session_id": session, "mtime": ms, "data": self._masked(data)})
        if fresh:
            self._index.keep(fresh)
        return told

    def _delete(self, key: dict[str, str]) -> None:
        place, session = _place(key), name(key["session_id"])
        self._recall.drop(place)
        if not self._index.ask(lambda index: index.holds(place)):
            return
        # What `Plane.forget` would look for in the log is known to be there.
        self._forget({"source": _scope(place)})
        if not place.branch and not self._index.ask(lambda index: index.any_left(session)):
            self._forget({"session": session})

    def _forget(self, named: dict[str, str]) -> None:
        reason = "deleted by the Claude Agent SDK"
        self._context.write({"kind": "forget", "text": reason, "data": {"forget": named}})

    def _cut(self, place: TranscriptPlace, key: dict[str, str]) -> int:
        """The seq of the last forget that names a transcript; 0: there was none."""
        with self._context.lock:
            memories = self._context.caught_up().memories
            for act in memories.forgets(self._judged):
                self._cuts[act.target.value] = self._judged = act.seq
        whole = TranscriptPlace(place.project, place.conversation, "")
        named = (_scope(whole), _scope(place), name(key["session_id"]))
        return max(self._cuts.get(one, 0) for one in named)


def _scope(place: TranscriptPlace) -> str:
    """What the ids of a transcript's entries begin with; of a main one's, its sub-agents' too."""
    return name(SOURCE, place.conversation, *([place.branch] if place.branch else []))


def _place(key: Key) -> TranscriptPlace:
    project, conversation, subpath = key["project_key"], key["session_id"], key.get("subpath")
    if subpath == "":
        raise InputError("is empty; leave it out for the main transcript", where="subpath")
    branch = _hash(subpath) if subpath is not None else ""
    return TranscriptPlace(_hash(project), _hash(f"{_hash(project)}:{conversation}"), branch)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def _stem(entry: Entry) -> str | None:
    """What names an entry in its transcript, however often it is appended; None: nothing does."""
    given = entry.get("uuid")
    if not isinstance(given, str) or not given:
        return None
    return (
        given
        if _UUID.fullmatch(given)
        else hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()[:32]
    )


def _when(entry: Entry) -> dict[str, str]:
    given = entry.get("timestamp")
    try:
        return {"ts": timestamp(given)} if isinstance(given, str) else {}
    except InputError:
        return {}


def _sdk_fold() -> Fold:
    try:
        return cast("Fold", import_module("claude_agent_sdk").fold_session_summary)
    except ImportError as error:
        raise MissingExtraError("a summary of each session", "claude") from error
