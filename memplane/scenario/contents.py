"""Assertions about what is there: in blocks, hits and outputs, in their order, and what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from memplane.pack.block import Block
from memplane.scenario.finding import Finding, block_of, listed, pack_of, quoted, texts
from memplane.scenario.scene import Scene
from memplane.scenario.stored import missing_events

__all__ = ["CONTENTS"]


class _Shown(NamedTuple):
    """What is looked at: its name in messages, its text, and the events that it names."""

    name: str
    text: str
    events: frozenset[str]


def _shown(scene: Scene, said: Mapping[str, Any]) -> _Shown:
    if "run" in said:
        output = scene.outputs[said["run"]]
        return _Shown(f"the output of {quoted(said['run'])}", output.out + output.err, frozenset())
    if "search" in said:
        hits = scene.searches[said["search"]].hits
        ids = frozenset(hit.event.id for hit in hits)
        name = f"the {len(hits)} hits of {quoted(said['search'])}"
        return _Shown(name, "\n".join(hit.text for hit in hits), ids)
    packed = pack_of(scene, said)
    block, name = packed.last.block, f"block {quoted(packed.name)}"
    if "section" not in said:
        named = (id_ for entry in block.entries for id_ in (*entry.events, *entry.parts))
        return _Shown(name, block.text, frozenset(named))
    entries = [entry for entry in block.entries if entry.section == said["section"]]
    named = (id_ for entry in entries for id_ in (*entry.events, *entry.parts))
    text = "".join(entry.text for entry in entries)
    return _Shown(f"section {said['section']} of {name}", text, frozenset(named))


def _contains(scene: Scene, said: Mapping[str, Any]) -> Finding:
    shown = _shown(scene, said)
    wanted = [*texts(said, "text"), *texts(said, "event")]
    missing = [text for text in texts(said, "text") if text not in shown.text]
    missing += [id_ for id_ in texts(said, "event") if id_ not in shown.events]
    expected = f"{listed(map(quoted, wanted))} in {shown.name}"
    if not missing:
        return Finding(True, expected, "it there" if len(wanted) == 1 else "all of it there")
    return Finding(False, expected, f"no {listed(map(quoted, missing))}")


def _lacks(scene: Scene, said: Mapping[str, Any]) -> Finding:
    shown = _shown(scene, said)
    events = texts(said, "event")
    expected = f"no {listed(map(quoted, [*texts(said, 'text'), *events]))} in {shown.name}"
    # A slip of the pen is in no block either.
    unknown = missing_events(scene, events)
    if unknown:
        return Finding(
            False, f"{listed(map(quoted, unknown))} in the log, and {expected}", "no such event"
        )
    there = [text for text in texts(said, "text") if text in shown.text]
    there += [id_ for id_ in events if id_ in shown.events]
    return Finding(not there, expected, listed(map(quoted, there)))


def _order(scene: Scene, said: Mapping[str, Any]) -> Finding:
    block = block_of(scene, said)
    wanted = texts(said, "events") or texts(said, "texts")
    if "events" in said:
        places = {one: _entry_of(block, one) for one in wanted}
    else:
        places = {one: block.text.find(one) for one in wanted}
    expected = " before ".join(map(quoted, wanted))
    missing = [one for one in wanted if places[one] < 0]
    if missing:
        return Finding(False, expected, f"no {listed(map(quoted, missing))}")
    found = sorted(wanted, key=places.__getitem__)
    return Finding(found == wanted, expected, " before ".join(map(quoted, found)))


def _entry_of(block: Block, id_: str) -> int:
    """The number of the first entry that names the event, -1 where none does."""
    named = (
        at for at, entry in enumerate(block.entries) if id_ in entry.events or id_ in entry.parts
    )
    return next(named, -1)


def _omitted(scene: Scene, said: Mapping[str, Any]) -> Finding:
    block = block_of(scene, said)
    reason = said.get("reason")
    if "event" in said:
        return _omitted_event(block, said["event"], reason)
    counts = block.report["omissions"]["counts"]
    found = counts.get(reason, 0)
    wanted = said.get("count")
    passed = found > 0 if wanted is None else found == wanted
    number = "some" if wanted is None else str(wanted)
    others = listed(f"{count} {name}" for name, count in counts.items())
    return Finding(
        passed, f"{number} left out as {quoted(reason or '')}", f"{found}; in all: {others}"
    )


def _omitted_event(block: Block, id_: str, reason: str | None) -> Finding:
    expected = f"{quoted(id_)} left out" + (f" as {quoted(reason)}" if reason else "")
    for omission in block.omissions:
        if omission.id == id_:
            return Finding(
                reason in (None, omission.reason), expected,
                f"left out as {quoted(omission.reason)}",
            )  # fmt: skip
    at = _entry_of(block, id_)
    if at >= 0:
        return Finding(False, expected, f"it in section {block.entries[at].section}")
    return Finding(False, expected, "it neither in the block nor among what is listed as left out")


def _exit(scene: Scene, said: Mapping[str, Any]) -> Finding:
    name = said.get("run") or next(reversed(scene.outputs))
    output = scene.outputs[name]
    messages = texts(said, "message")
    missing = [message for message in messages if message not in output.err]
    what = f" and {listed(map(quoted, messages))} on stderr" if messages else ""
    # Of a traceback the last line says what went wrong, of all else the first.
    last = output.err.strip().rpartition("\n")[2]
    words = last if output.err.startswith("Traceback") else output.err
    heard = f", {quoted(words)}" if words.strip() else ", nothing on stderr"
    return Finding(
        output.code == said["code"] and not missing,
        f"exit {said['code']}{what} of {quoted(name)}",
        f"exit {output.code}{heard}",
    )


CONTENTS: Final = {
    "contains": _contains,
    "lacks": _lacks,
    "order": _order,
    "omitted": _omitted,
    "exit": _exit,
}
