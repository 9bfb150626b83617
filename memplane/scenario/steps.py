"""What happens in a scenario: one function for each step, in a table by its name in the file."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from memplane.errors import InputError
from memplane.policy.document import plain, read
from memplane.scenario.document import Step
from memplane.scenario.process import command, outings, request_of
from memplane.scenario.scene import Pack, Scene, Searched, numbered

__all__ = ["STEPS", "change_policies", "change_views", "do"]

_CACHES: Final = {
    "projections": ("projections",), "index": ("index",), "both": ("projections", "index"),
}  # fmt: skip


def do(scene: Scene, step: Step) -> None:
    """Let one step happen; raises what it raises."""
    STEPS[step.verb](scene, step)


def _record(scene: Scene, step: Step) -> None:
    scene.record(step.said)


def _record_many(scene: Scene, step: Step) -> None:
    scene.record_many(step.said)


def _pack(scene: Scene, step: Step) -> None:
    """Pack, and time it: from the call to the block, with opening the plane where it is closed."""
    said, name = step.said, step.said.get("as", step.where)
    if said.get("process"):
        times = said.get("repeat", 1)
        once = step._replace(said={**request_of(said), "as": name})
        (outing,) = outings(scene, (once,), 1, times)
        for _, pack in outing.packs:
            scene.keep(name, pack)
        return
    for _ in range(said.get("repeat", 1)):
        start = time.perf_counter_ns()
        block = scene.plane.pack(**request_of(said))
        ns = time.perf_counter_ns() - start
        scene.keep(name, Pack(block, ns, scene.counted(block.text)))


def _search(scene: Scene, step: Step) -> None:
    said, name = step.said, step.said.get("as", step.where)
    asked = {key: value for key, value in said.items() if key != "as"}
    scene.searches.pop(name, None)
    scene.searches[name] = Searched(name, scene.plane.search(**asked))


def _forget(scene: Scene, step: Step) -> None:
    scene.plane.forget(**step.said)


def _unforget(scene: Scene, step: Step) -> None:
    scene.plane.unforget(**step.said)


def _restart(scene: Scene, _step: Step) -> None:
    scene.close()


def _rebuild(scene: Scene, _step: Step) -> None:
    scene.plane.rebuild()


def _delete(scene: Scene, step: Step) -> None:
    scene.close()
    for name in _CACHES[step.said]:
        folder = scene.home / name
        if folder.exists():
            shutil.rmtree(folder)


def _tear_tail(scene: Scene, step: Step) -> None:
    scene.close()
    last = max((scene.home / "log").glob("*.jsonl"), default=None)
    if last is None:
        raise InputError("expected events in the log, found none")
    data = last.read_bytes()
    if "cut" in step.said:
        if step.said["cut"] >= len(data):
            raise InputError(
                f"expected fewer bytes than the last segment has, {len(data)}, found "
                f"{step.said['cut']}",
                where="cut",
            )
        last.write_bytes(data[: -step.said["cut"]])
    else:
        last.write_bytes(data + step.said["add"].encode())


def _edit_policy(scene: Scene, step: Step) -> None:
    change_policies(scene.home, step.said)


def _edit_view(scene: Scene, step: Step) -> None:
    change_views(scene.home, step.said)


def _advance(scene: Scene, step: Step) -> None:
    scene.advance(timedelta(**step.said))


def _processes(scene: Scene, step: Step) -> None:
    said = step.said
    for outing in outings(scene, said["steps"], said["count"], said.get("times", 1)):
        scene.acknowledged += outing.acknowledged
        for name, pack in outing.packs:
            scene.keep(name or step.where, pack)


def _run(scene: Scene, step: Step) -> None:
    said, name = step.said, step.said.get("as", step.where)
    # The plane here may stay open: other processes have it open as well, in real life too.
    scene.outputs.pop(name, None)
    scene.outputs[name] = command(scene, name, said["command"], said.get("stdin", ""))


def _repeat(scene: Scene, step: Step) -> None:
    for number in range(1, step.said["times"] + 1):
        for inner in step.said["steps"]:
            do(scene, numbered(inner, "n", number))


STEPS: Final[Mapping[str, Callable[[Scene, Step], None]]] = {
    "record": _record,
    "record_many": _record_many,
    "pack": _pack,
    "search": _search,
    "forget": _forget,
    "unforget": _unforget,
    "restart": _restart,
    "rebuild": _rebuild,
    "delete": _delete,
    "tear_tail": _tear_tail,
    "edit_policy": _edit_policy,
    "edit_view": _edit_view,
    "advance": _advance,
    "processes": _processes,
    "run": _run,
    "repeat": _repeat,
}


def change_policies(home: Path, changes: Mapping[str, Any]) -> None:
    """Write policies: whole texts, or keys beside and in place of those that stand there."""
    for stem, change in changes.items():
        file = home / "policies" / f"{stem}.yaml"
        if isinstance(change, str):
            file.write_text(change, encoding="utf-8")
            continue
        root, problems = read(file.name, file.read_bytes() if file.exists() else b"version: 1\n")
        document = None if root is None else plain(root)
        if problems or not isinstance(document, dict):
            found = problems[0] if problems else f"{file.name}: expected a mapping"
            raise InputError(f"cannot change keys of a file that cannot be read: {found}")
        # JSON is YAML; a person writes the file, so it may as well be readable.
        text = json.dumps(_changed(document, change), ensure_ascii=False, indent=1)
        file.write_text(f"{text}\n", encoding="utf-8")


def _changed(there: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(there)
    for key, value in change.items():
        before = made.get(key)
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict) and isinstance(before, dict):
            made[key] = _changed(before, value)
        else:
            made[key] = value
    return made


def change_views(home: Path, changes: Mapping[str, str | None]) -> None:
    """Write views by their names, or take them away."""
    for name, text in changes.items():
        file = home / "views" / f"{name}.md"
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(text, encoding="utf-8")
