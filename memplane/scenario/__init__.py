"""Scenarios: what a plane must do, as YAML that is run in CI.

A file says what is given, what happens and what must hold in the end::

    version: 1
    scenario: db-choice
    title: A replaced decision leaves the block
    given:
      events:
        - {id: old, kind: decision, key: db.engine, text: We keep PostgreSQL}
    when:
      - record: {id: new, kind: decision, key: db.engine, text: We move to SQLite}
      - pack: {query: which database do we use?, budget: 2000}
    assertions:
      - contains: {event: new}
      - lacks: {event: old}
      - {type: acb_max_tokens, max: 2000}

Each runs in a plane of its own, in a temporary folder, under a clock that stands still until the
file moves it; ids that a file does not give are `event-1`, `event-2` and so on. So the blocks of a
scenario are the same on every machine; how long they took is reported, and enforced only on
request. Limits (`acb_*`) hold for every pack, other assertions for the last one, unless they name
one by its `as`. `schemas/scenario.schema.json` has every step and assertion.

`document` reads files and has the plane and clock of one scenario and its other processes; here are
the steps, the table of assertions with the check of each, and the reports.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from memplane.errors import InputError, MemplaneError
from memplane.event import Event
from memplane.home import open_home
from memplane.intake.redact import masked, masked_data
from memplane.lazy import NamedTuple
from memplane.log import FileLog, verify_log
from memplane.pack.block import Block, Entry
from memplane.policy.document import read_document, without_places
from memplane.scenario.document import (
    Assertion,
    Pack,
    Scenario,
    ScenarioError,
    ScenarioStep,
    Scene,
    SceneFactory,
    Searched,
    StepPacks,
    is_scenario,
    numbered,
    outings,
    pack_arguments,
    read_scenario,
    run_command,
    work,
)

__all__ = [
    "Runner",
    "Scenario",
    "ScenarioError",
    "ScenarioOutcome",
    "SceneFactory",
    "Settings",
    "as_json",
    "as_words",
    "is_scenario",
    "read_scenario",
    "work",
    "work_of",
    "write_reports",
]


# Assertions about what is there: in blocks, hits and outputs, in their order, and what is not.


class _Shown(NamedTuple):
    """What is looked at: its name in messages, its text, and the events that it names."""

    name: str
    text: str
    events: frozenset[str]


def _shown(scene: Scene, said: Mapping[str, Any]) -> _Shown:
    if "run" in said:
        output = scene.outputs[said["run"]]
        return _Shown(
            f"the output of {message_text(said['run'])}", output.out + output.err, frozenset()
        )
    if "search" in said:
        hits = scene.searches[said["search"]].hits
        ids = frozenset(hit.event.id for hit in hits)
        name = f"the {len(hits)} hits of {message_text(said['search'])}"
        return _Shown(name, "\n".join(hit.text for hit in hits), ids)
    packed = pack_of(scene, said)
    block, name = packed.last.block, f"block {message_text(packed.name)}"
    if "section" not in said:
        named = (id_ for entry in block.entries for id_ in (*entry.events, *entry.parts))
        return _Shown(name, block.text, frozenset(named))
    entries = [entry for entry in block.entries if entry.section == said["section"]]
    named = (id_ for entry in entries for id_ in (*entry.events, *entry.parts))
    text = "".join(entry.text for entry in entries)
    return _Shown(f"section {said['section']} of {name}", text, frozenset(named))


def _contains(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    shown = _shown(scene, said)
    wanted = [*texts_or_none(said, "text"), *texts_or_none(said, "event")]
    missing = [text for text in texts_or_none(said, "text") if text not in shown.text]
    missing += [id_ for id_ in texts_or_none(said, "event") if id_ not in shown.events]
    expected = f"{list_words(map(message_text, wanted))} in {shown.name}"
    if not missing:
        return AssertionResult(
            True, expected, "it there" if len(wanted) == 1 else "all of it there"
        )
    return AssertionResult(False, expected, f"no {list_words(map(message_text, missing))}")


def _lacks(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    shown = _shown(scene, said)
    events = texts_or_none(said, "event")
    words = list_words(map(message_text, [*texts_or_none(said, "text"), *events]))
    expected = f"no {words} in {shown.name}"
    # A slip of the pen is in no block either.
    unknown = missing_events(scene, events)
    if unknown:
        return AssertionResult(
            False,
            f"{list_words(map(message_text, unknown))} in the log, and {expected}",
            "no such event",
        )
    there = [text for text in texts_or_none(said, "text") if text in shown.text]
    there += [id_ for id_ in events if id_ in shown.events]
    return AssertionResult(not there, expected, list_words(map(message_text, there)))


def _order(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    block = block_of(scene, said)
    wanted = texts_or_none(said, "events") or texts_or_none(said, "texts")
    if "events" in said:
        places = {one: _entry_of(block, one) for one in wanted}
    else:
        places = {one: block.text.find(one) for one in wanted}
    expected = " before ".join(map(message_text, wanted))
    missing = [one for one in wanted if places[one] < 0]
    if missing:
        return AssertionResult(False, expected, f"no {list_words(map(message_text, missing))}")
    found = sorted(wanted, key=places.__getitem__)
    return AssertionResult(found == wanted, expected, " before ".join(map(message_text, found)))


def _entry_of(block: Block, id_: str) -> int:
    """The number of the first entry that names the event, -1 where none does."""
    named = (
        at for at, entry in enumerate(block.entries) if id_ in entry.events or id_ in entry.parts
    )
    return next(named, -1)


def _omitted(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    block = block_of(scene, said)
    reason = said.get("reason")
    if "event" in said:
        return _omitted_event(block, said["event"], reason)
    counts = block.report["omissions"]["counts"]
    found = counts.get(reason, 0)
    wanted = said.get("count")
    passed = found > 0 if wanted is None else found == wanted
    number = "some" if wanted is None else str(wanted)
    others = list_words(f"{count} {name}" for name, count in counts.items())
    return AssertionResult(
        passed, f"{number} left out as {message_text(reason or '')}", f"{found}; in all: {others}"
    )


def _omitted_event(block: Block, id_: str, reason: str | None) -> AssertionResult:
    expected = f"{message_text(id_)} left out" + (f" as {message_text(reason)}" if reason else "")
    for omission in block.omissions:
        if omission.id == id_:
            return AssertionResult(
                reason in (None, omission.reason),
                expected,
                f"left out as {message_text(omission.reason)}",
            )
    at = _entry_of(block, id_)
    if at >= 0:
        return AssertionResult(False, expected, f"it in section {block.entries[at].section}")
    return AssertionResult(
        False, expected, "it neither in the block nor among what is listed as left out"
    )


def _exit(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    name = said.get("run") or next(reversed(scene.outputs))
    output = scene.outputs[name]
    messages = texts_or_none(said, "message")
    missing = [message for message in messages if message not in output.err]
    what = f" and {list_words(map(message_text, messages))} on stderr" if messages else ""
    # Of a traceback the last line says what went wrong, of all else the first.
    last = output.err.strip().rpartition("\n")[2]
    words = last if output.err.startswith("Traceback") else output.err
    heard = f", {message_text(words)}" if words.strip() else ", nothing on stderr"
    return AssertionResult(
        output.code == said["code"] and not missing,
        f"exit {said['code']}{what} of {message_text(name)}",
        f"exit {output.code}{heard}",
    )


CONTENTS: Final = {
    "contains": _contains,
    "lacks": _lacks,
    "order": _order,
    "omitted": _omitted,
    "exit": _exit,
}


# Assertions that hold one pack against another: bytes, beginnings, sections.


def _identical(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    """Every run of one pack has the bytes of every run of the other."""
    packed, other = pack_of(scene, said), pack_of(scene, said, "to")
    expected = f"the bytes of {message_text(other.name)} in {message_text(packed.name)}"
    first = other.last.block.text
    for run in (*other.runs, *packed.runs):
        if run.block.text != first:
            return AssertionResult(False, expected, _difference(first, run.block.text))
    return AssertionResult(True, expected, f"the same {len(first.encode())} bytes")


def _difference(one: str, other: str) -> str:
    """Where two texts part, in the words of both."""
    ours, theirs = one.splitlines(), other.splitlines()
    for number, (left, right) in enumerate(zip(ours, theirs, strict=False), 1):
        if left != right:
            return f"another line {number}: {message_text(right)} instead of {message_text(left)}"
    return f"{len(theirs)} lines instead of {len(ours)}"


def _prefix_kept(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    block, earlier = block_of(scene, said), block_of(scene, said, "of")
    reuse = said.get("reuse", "prompt")
    stable: int = earlier.report["prefix"]["stable_bytes"][reuse]
    expected = f"the first {stable} bytes of {message_text(said['of'])} at the beginning ({reuse})"
    if not stable:
        return AssertionResult(False, expected, "nothing stable in it to be kept")
    kept, begins = earlier.text.encode()[:stable], block.text.encode()
    if begins.startswith(kept):
        return AssertionResult(True, expected, "them there", {"stable_bytes": stable})
    same = next(at for at, byte in enumerate(kept) if begins[at : at + 1] != bytes((byte,)))
    return AssertionResult(
        False, expected, f"{same} of them; then {message_text(_at(begins, same))}"
    )


def _at(data: bytes, place: int) -> str:
    """The line in which a byte stands."""
    start = data.rfind(b"\n", 0, place) + 1
    end = data.find(b"\n", place)
    return data[start : end if end >= 0 else None].decode(errors="replace")


def _same_sections(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    ours, theirs = _by_section(block_of(scene, said)), _by_section(block_of(scene, said, "to"))
    but = said.get("but", [])
    differ = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    expected = f"the sections of {message_text(said['to'])}"
    expected += f", other ones in {list_words(but)} alone" if but else ""
    found = f"other ones in {list_words(differ)}" if differ else "all the same"
    return AssertionResult(sorted(differ) == sorted(but), expected, found)


def _by_section(block: Block) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for entry in block.entries:
        sections.setdefault(entry.section, []).append(entry.text)
    return sections


LIKENESS: Final = {
    "identical": _identical,
    "prefix_kept": _prefix_kept,
    "same_sections": _same_sections,
}


# Assertions about the log and the disk: what entries came from, what is kept, what is nowhere.

_ALL: Final = "all"
# How a text may lie in a file beside as it is.
_ENCODINGS: Final = ("utf-8", "utf-16-le")


def _event(scene: Scene, id_: str) -> Event | None:
    """An event of the log, whoever may see it; None where there is none."""
    _ = scene.plane.upkeep.policies  # raises where the plane cannot be asked
    line = scene.plane.context.log.find(id_)
    return None if line is None else line.event


def missing_events(scene: Scene, ids: Iterable[str]) -> list[str]:
    """Those of the ids that no event of the log has."""
    return [id_ for id_ in ids if _event(scene, id_) is None]


def _traceability(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    block, target = block_of(scene, said), said["target"]
    must = said.get("must_have_refs", False)
    rooted = (
        "events that are in the log, and these others" if must else "events that are in the log"
    )
    expected = f"every entry of {message_text(target)} to name {rooted}"
    checked, faults = 0, list[str]()
    for entry in block.entries:
        events = [_event(scene, id_) for id_ in (*entry.events, *entry.parts)]
        kinds = {event.kind for event in events if event is not None}
        if target not in (_ALL, entry.section, *kinds):
            continue
        checked += 1
        faults += _untraced(scene, entry, events)
        if must:
            own = target if target in kinds else None
            faults += _unfounded(scene, [event for event in events if event is not None], own)
    if not checked:
        return AssertionResult(False, expected, f"no entry of {message_text(target)}")
    return AssertionResult(not faults, expected, list_words(faults, f"it so in all {checked}"))


def _untraced(scene: Scene, entry: Entry, events: list[Event | None]) -> list[str]:
    """What does not lead from an entry to what it came from."""
    kind, _, named = entry.source.partition(":")
    if kind == "view":
        path, _, sha256 = named.rpartition("@")
        file = scene.home / path
        same = file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256
        return [] if same else [f"{message_text(entry.source)}, which is no view of the plane"]
    ids = (*entry.events, *entry.parts)
    lost = [message_text(id_) for id_, event in zip(ids, events, strict=True) if event is None]
    if lost:
        return [f"{', '.join(lost)}, which is not in the log, in {message_text(entry.text)}"]
    return [] if ids else [f"{message_text(entry.text)} without any event"]


def _unfounded(scene: Scene, events: list[Event], kind: str | None) -> list[str]:
    """Events (of the kind, where one is asked for) that name no others, or lost ones."""
    faults = []
    for event in events:
        if kind is not None and event.kind != kind:
            continue
        lost = missing_events(scene, event.refs)
        if not event.refs:
            faults.append(f"{message_text(event.id)} without refs")
        elif lost:
            faults.append(
                f"{message_text(event.id)} with refs to nothing: "
                f"{list_words(map(message_text, lost))}"
            )
    return faults


def _redacted_on_disk(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    scene.close()  # what is still in memory is written
    secrets = texts_or_none(said, "text")
    expected = f"no {list_words(map(message_text, secrets))} in any file of the plane"
    found, files, size = list[str](), 0, 0
    for file in scene.files_of_home():
        data = file.read_bytes()
        files, size = files + 1, size + len(data)
        place = file.relative_to(scene.home).as_posix()
        found += [
            f"{message_text(secret)} in {place}" for secret in secrets if _lies_in(secret, data)
        ]
    return AssertionResult(
        not found, expected, list_words(found, f"none in {files} files, {size} bytes")
    )


def _lies_in(secret: str, data: bytes) -> bool:
    forms = {secret.encode(encoding) for encoding in _ENCODINGS}
    forms |= {json.dumps(secret, ensure_ascii=ascii_)[1:-1].encode() for ascii_ in (True, False)}
    return any(form in data for form in forms)


def _events_intact(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    acknowledged = scene.acknowledged
    expected = f"all {len(acknowledged)} acknowledged events once in the log"
    scene.close()
    home = scene.home
    plane_id = open_home(home).plane_id
    seen = _ids(home, plane_id, scene)
    lost = [id_ for id_ in dict.fromkeys(acknowledged) if seen.get(id_, 0) != 1]
    if lost:
        found = (f"{message_text(id_)} {_times(seen.get(id_, 0))}" for id_ in lost)
        return AssertionResult(False, expected, list_words(found))
    if said.get("verify", True):
        report = verify_log(home, plane_id)
        if not report.ok:
            return AssertionResult(
                False, f"{expected}, and a log that verifies", list_words(map(str, report.problems))
            )
    return AssertionResult(True, expected, f"{len(acknowledged)} of them")


def _ids(home: Path, plane_id: str, scene: Scene) -> dict[str, int]:
    """How often each id is in the log."""
    seen: dict[str, int] = {}
    with FileLog(home, plane_id, clock=scene.now, read_only=True) as log:
        for line in log.read():
            seen[line.event.id] = seen.get(line.event.id, 0) + 1
    return seen


def _times(count: int) -> str:
    return "nowhere" if not count else f"{count} times"


STORED: Final = {
    "traceability": _traceability,
    "redacted_on_disk": _redacted_on_disk,
    "events_intact": _events_intact,
}


# Assertions about what packs cost: tokens, time, candidates, files, bytes, sections.

_MS: Final = 1_000_000  # nanoseconds


def percentile_of(values: list[int], percent: int) -> int:
    """The value that so many percent of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def p95(packs: list[Pack]) -> float:
    """How long packs take, in milliseconds: 95 of 100 no longer."""
    return round(percentile_of([pack.ns for pack in packs], 95) / _MS, 3)


def _most(
    unit: str, of: Callable[[Pack], int]
) -> Callable[[Scene, Mapping[str, Any]], AssertionResult]:
    """An assertion that no pack has more of something."""

    def check(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
        packs = limited_blocks(scene, said)
        most, name = max(((of(pack), name) for name, pack in packs), key=lambda one: one[0])
        of_many = f", the most of {len(packs)} packs" if len(packs) > 1 else ""
        return AssertionResult(
            most <= said["max"],
            f"at most {said['max']} {unit}",
            f"{most} in {message_text(name)}{of_many}",
            {"most": most},
        )

    return check


def _tokens(pack: Pack) -> int:
    """What a block costs: what it says, or what is counted anew, whichever is more."""
    return max(pack.block.tokens, pack.counted)


def _candidates(pack: Pack) -> int:
    scored: int = pack.block.report["candidates"]["scored"]
    return scored


def _files(pack: Pack) -> int:
    files: int = pack.block.report["io"]["files"]
    return files


def _bytes(pack: Pack) -> int:
    read: int = pack.block.report["io"]["bytes"]
    return read


def _latency(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    """Of each name's packs on its own: the slowest name decides."""
    by_name: dict[str, list[Pack]] = {}
    for name, pack in limited_blocks(scene, said):
        by_name.setdefault(name, []).append(pack)
    slowest, name = max((p95(packs), name) for name, packs in by_name.items())
    count = len(by_name[name])
    aim = {"aim": float(said["aim"])} if "aim" in said else {}
    wished = f" (our aim: {said['aim']})" if aim else ""
    return AssertionResult(
        slowest <= said["max"],
        f"a p95 of at most {said['max']} ms{wished}",
        f"{slowest:.1f} ms in {message_text(name)}, of {count} {'pack' if count == 1 else 'packs'}",
        {"p95_ms": slowest, "max_ms": float(said["max"]), **aim},
    )


def _section_tokens(scene: Scene, said: Mapping[str, Any]) -> AssertionResult:
    block, name = block_of(scene, said), said["section"]
    sections = block.report["sections"]
    if name not in sections:
        there = ", ".join(sections)
        return AssertionResult(
            False, f"a section {message_text(name)}", f"none; the block has {there}"
        )
    used = sections[name]["used"]
    least, most = said.get("min", 0), said.get("max")
    bounds = f"{least} to {most}" if most is not None else f"at least {least}"
    passed = least <= used and (most is None or used <= most)
    return AssertionResult(passed, f"{bounds} tokens in {name}", f"{used}", {"tokens": used})


LIMITS: Final = {
    "acb_max_tokens": _most("tokens", _tokens),
    "acb_build_latency_p95_ms": _latency,
    "acb_candidate_scan_max": _most("candidates scored", _candidates),
    "acb_file_reads_max": _most("files opened", _files),
    "acb_bytes_read_max": _most("bytes read", _bytes),
    "section_tokens": _section_tokens,
}


# What an assertion found, and how it asks a scene for what it is about.

_SHOWN_MAX = 80


class AssertionResult(NamedTuple):
    """One assertion held against what happened. `figures` are numbers for the report."""

    passed: bool
    expected: str
    found: str
    figures: dict[str, float] = {}  # noqa: RUF012 - read only


def pack_of(scene: Scene, said: Mapping[str, Any], key: str = "pack") -> StepPacks:
    """The packs that an assertion names, else the last that were made."""
    if key in said:
        return scene.packs[said[key]]
    return next(reversed(scene.packs.values()))


def block_of(scene: Scene, said: Mapping[str, Any], key: str = "pack") -> Block:
    """The last block of those packs."""
    return pack_of(scene, said, key).last.block


def limited_blocks(scene: Scene, said: Mapping[str, Any]) -> list[tuple[str, Pack]]:
    """Every pack that a limit is for: of the name given, else all; each with its name."""
    chosen = [scene.packs[said["pack"]]] if "pack" in said else scene.packs.values()
    return [(packed.name, run) for packed in chosen for run in packed.runs]


def texts_or_none(said: Mapping[str, Any], key: str) -> list[str]:
    """One text or several, as a list; none where the key is left out."""
    value = said.get(key, [])
    return [value] if isinstance(value, str) else list(value)


def message_text(text: str) -> str:
    """A text as it stands in a message: on one line, not too long."""
    line = " ".join(text.split())
    line = masked(line)  # before it is cut: of a part of a token no rule knows the rest
    return f"`{line if len(line) <= _SHOWN_MAX else line[:_SHOWN_MAX] + '…'}`"


def list_words(words: Iterable[str], none: str = "none") -> str:
    """Several words in a message, the first few of many."""
    every = list(words)
    more = f" and {len(every) - 5} more" if len(every) > 5 else ""
    return (", ".join(every[:5]) + more) or none


Check = Callable[[Scene, Mapping[str, Any]], AssertionResult]

ASSERTIONS: Final[Mapping[str, Check]] = {**LIMITS, **CONTENTS, **LIKENESS, **STORED}
# Of these the machine decides: they are reported always and enforced only where that is asked for.
TIMED: Final = frozenset(("acb_build_latency_p95_ms",))


_PREFIX: Final = "memplane-scenario-"


class Settings(NamedTuple):
    """How scenarios are run.

    `short` makes long ones short, `lenient_time` only reports limits of time. `policies` (by file
    name) replace memplane's own. `progress` is called with the work done: steps, and events by the
    thousand.
    """

    short: bool = False
    lenient_time: bool = False
    policies: Mapping[str, bytes] = MappingProxyType({})
    progress: Callable[[float], None] = lambda _done: None


class CheckedAssertion(NamedTuple):
    """An assertion and what it found; one that is not `enforced` fails nothing."""

    assertion: Assertion
    finding: AssertionResult
    enforced: bool

    @property
    def timed(self) -> bool:
        """Whether it limits a time: its figure is reported in every mode."""
        return self.assertion.type in TIMED

    @property
    def passed(self) -> bool:
        """Whether it stands in nobody's way."""
        return self.finding.passed or not self.enforced

    def message(self, file: str) -> str:
        """Where it stands in the file, what was expected and what was found."""
        expected, found = self.finding.expected, self.finding.found
        where = f"{file}:{self.assertion.line}: {self.assertion.type}"
        return f"{where}: expected {expected}, found {found}"


class ScenarioOutcome(NamedTuple):
    """What became of a scenario. `error` names the step that could not happen, "" where all did."""

    scenario: Scenario
    held: tuple[CheckedAssertion, ...]
    packs: tuple[StepPacks, ...]
    error: str
    short: bool
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every step happened and every enforced assertion holds."""
        return not self.error and all(held.passed for held in self.held)

    @property
    def failures(self) -> list[str]:
        """What failed, a message each."""
        failed = [held.message(self.scenario.file) for held in self.held if not held.passed]
        return [self.error, *failed] if self.error else failed


class Runner:
    """Runs scenarios one after the other. Use it as a context manager: its folder goes with it.

    What is generated is made once for all scenarios with the same `given`, and copied.
    """

    def __init__(self, builders: SceneFactory, settings: Settings = Settings()) -> None:  # noqa: B008
        self._builders, self._settings = builders, settings
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._given: dict[str, tuple[Path, list[str], str]] = {}

    def run(self, scenario: Scenario) -> ScenarioOutcome:
        """Run one scenario. Whatever a step raises is its outcome; a bug in memplane is raised."""
        start = time.perf_counter()
        short = scenario.long and self._settings.short
        with tempfile.TemporaryDirectory(prefix="one-", dir=self._home()) as folder:
            scene = Scene(
                Path(folder),
                scenario,
                self._builders,
                short=short,
                progress=lambda events: self._settings.progress(events / 1000),
            )
            try:
                error = self._played(scene, scenario)
                held = () if error else tuple(self._held(scene, scenario.assertions))
            finally:
                scene.close()
        seconds = time.perf_counter() - start
        return ScenarioOutcome(scenario, held, tuple(scene.packs.values()), error, short, seconds)

    def _home(self) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        return self._folder.name

    def _played(self, scene: Scene, scenario: Scenario) -> str:
        """Let everything happen; what went wrong, with its place in the file, or nothing."""
        place = f"{scenario.file}: given"
        try:
            self._give(scene, scenario)
            for step in scenario.steps:
                place = f"{scenario.file}:{step.line}: {step.where}"
                do(scene, step)
                self._settings.progress(1)
        except (MemplaneError, OSError) as error:
            return f"{place}: {type(error).__name__}: {error}"
        return ""

    def _give(self, scene: Scene, scenario: Scenario) -> None:
        """Make what is given, or copy it from a scenario that was given the same."""
        given = scenario.given
        if not any("generate" in source for source in given.events):
            self._make(scene, scenario)
            return
        name = self._name(scenario, scene)
        if name not in self._given:
            self._make(scene, scenario)
            scene.close()
            kept = Path(self._home(), f"given-{len(self._given) + 1}")
            shutil.copytree(scene.home, kept)
            self._given[name] = (kept, scene.acknowledged[:], scene.now())
        else:
            kept, acknowledged, now = self._given[name]
            shutil.copytree(kept, scene.home)
            scene.acknowledged += acknowledged
            scene.set_clock(now)

    def _name(self, scenario: Scenario, scene: Scene) -> str:
        """What a plane that is given can be told by: all that it is made from."""
        given = scenario.given
        named = {source["file"] for source in given.events if "file" in source}
        files = {name: hashlib.sha256(scenario.files[name]).hexdigest() for name in sorted(named)}
        # `short` decides how many events there are, and nothing else.
        events = [
            {**source["generate"], "count": scene.count_of(source["generate"]), "short": 0}
            if "generate" in source
            else source
            for source in given.events
        ]
        parts = [given.clock, given.policies, given.views, events, files]
        return json.dumps(parts, sort_keys=True)

    def _make(self, scene: Scene, scenario: Scenario) -> None:
        given = scenario.given
        scene.make(self._settings.policies)
        change_policies(scene.home, given.policies)
        change_views(scene.home, given.views)
        scene.record_many(given.events)
        scene.close()  # from here on with the durability that a plane has for people

    def _held(self, scene: Scene, assertions: Sequence[Assertion]) -> list[CheckedAssertion]:
        """Hold every assertion against what happened; one that cannot be asked has failed."""
        held = []
        for assertion in assertions:
            try:
                finding = ASSERTIONS[assertion.type](scene, assertion.said)
            except MemplaneError as error:
                found = f"{type(error).__name__}: {error}"
                finding = AssertionResult(False, "a plane that can be asked", found)
            enforced = assertion.type not in TIMED or not self._settings.lenient_time
            held.append(CheckedAssertion(assertion, finding, enforced))
            self._settings.progress(1)
        return held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the folder away, with all planes in it."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
            self._given = {}


def work_of(scenario: Scenario, *, short: bool) -> float:
    """How much there is to do, in the units of `Settings.progress`."""
    steps = len(scenario.steps) + len(scenario.assertions)
    made = [source["generate"] for source in scenario.given.events if "generate" in source]
    counts: list[int] = [one.get("short" if short else "count", one["count"]) for one in made]
    return steps + sum(counts) / 1000


# What happens in a scenario: one function for each step, in a table by its name in the file.

_CACHES: Final = {
    "projections": ("projections",),
    "index": ("index",),
    "both": ("projections", "index"),
}


def do(scene: Scene, step: ScenarioStep) -> None:
    """Let one step happen; raises what it raises."""
    STEPS[step.verb](scene, step)


def _record(scene: Scene, step: ScenarioStep) -> None:
    scene.record(step.said)


def _record_many(scene: Scene, step: ScenarioStep) -> None:
    scene.record_many(step.said)


def _pack(scene: Scene, step: ScenarioStep) -> None:
    """Pack, and time it: from the call to the block, with opening the plane where it is closed."""
    said, name = step.said, step.said.get("as", step.where)
    if said.get("process"):
        times = said.get("repeat", 1)
        once = step._replace(said={**pack_arguments(said), "as": name})
        (outing,) = outings(scene, (once,), 1, times)
        for _, pack in outing.packs:
            scene.keep(name, pack)
        return
    for _ in range(said.get("repeat", 1)):
        start = time.perf_counter_ns()
        block = scene.plane.pack(**pack_arguments(said))
        ns = time.perf_counter_ns() - start
        scene.keep(name, Pack(block, ns, scene.counted(block.text)))


def _search(scene: Scene, step: ScenarioStep) -> None:
    said, name = step.said, step.said.get("as", step.where)
    asked = {key: value for key, value in said.items() if key != "as"}
    scene.searches.pop(name, None)
    scene.searches[name] = Searched(name, scene.plane.search(**asked))


def _forget(scene: Scene, step: ScenarioStep) -> None:
    scene.plane.forget(**step.said)


def _unforget(scene: Scene, step: ScenarioStep) -> None:
    scene.plane.unforget(**step.said)


def _restart(scene: Scene, _step: ScenarioStep) -> None:
    scene.close()


def _rebuild(scene: Scene, _step: ScenarioStep) -> None:
    scene.plane.upkeep.rebuild()


def _delete(scene: Scene, step: ScenarioStep) -> None:
    scene.close()
    for name in _CACHES[step.said]:
        folder = scene.home / name
        if folder.exists():
            shutil.rmtree(folder)


def _tear_tail(scene: Scene, step: ScenarioStep) -> None:
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


def _edit_policy(scene: Scene, step: ScenarioStep) -> None:
    change_policies(scene.home, step.said)


def _edit_view(scene: Scene, step: ScenarioStep) -> None:
    change_views(scene.home, step.said)


def _advance(scene: Scene, step: ScenarioStep) -> None:
    scene.advance(timedelta(**step.said))


def _processes(scene: Scene, step: ScenarioStep) -> None:
    said = step.said
    for outing in outings(scene, said["steps"], said["count"], said.get("times", 1)):
        scene.acknowledged += outing.acknowledged
        for name, pack in outing.packs:
            scene.keep(name or step.where, pack)


def _run(scene: Scene, step: ScenarioStep) -> None:
    said, name = step.said, step.said.get("as", step.where)
    # The plane here may stay open: other processes have it open as well, in real life too.
    scene.outputs.pop(name, None)
    scene.outputs[name] = run_command(scene, name, said["command"], said.get("stdin", ""))


def _repeat(scene: Scene, step: ScenarioStep) -> None:
    for number in range(1, step.said["times"] + 1):
        for inner in step.said["steps"]:
            do(scene, numbered(inner, "n", number))


STEPS: Final[Mapping[str, Callable[[Scene, ScenarioStep], None]]] = {
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
        root, problems = read_document(
            file.name, file.read_bytes() if file.exists() else b"version: 1\n"
        )
        document = None if root is None else without_places(root)
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


REPORT_VERSION: Final = 1


def as_words(outcomes: Sequence[ScenarioOutcome]) -> str:
    """A line a scenario, its failures below it, its times where limits of time were named."""
    return "\n".join([*_lines(outcomes), _sum(outcomes)])


def _lines(outcomes: Sequence[ScenarioOutcome]) -> Iterator[str]:
    width = max((len(outcome.scenario.name) for outcome in outcomes), default=0)
    for outcome in outcomes:
        scenario = outcome.scenario
        said = "ok    " if outcome.passed else "FAILED"
        short = ", run short" if outcome.short else ""
        name = f"{scenario.name:<{width}}"
        yield f"{said} {name}  {masked(scenario.title)} ({outcome.seconds:.1f} s{short})".rstrip()
        yield from (f"       {masked(failure)}" for failure in outcome.failures)
        yield from (f"       {_timed(held)}" for held in outcome.held if held.timed)


def _timed(held: CheckedAssertion) -> str:
    over = "OVER" if held.enforced else "OVER, not enforced"
    state = "within" if held.finding.passed else over
    return masked(f"{held.finding.found}; expected {held.finding.expected}: {state}")


def _sum(outcomes: Sequence[ScenarioOutcome]) -> str:
    failed = sum(not outcome.passed for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    count = f"{len(outcomes)} scenario{'' if len(outcomes) == 1 else 's'}"
    held = sum(len(outcome.held) for outcome in outcomes)
    ended = f"{failed} failed" if failed else "all pass"
    return f"{count}, {held} assertions, {ended}, {seconds:.1f} s"


def as_json(outcomes: Sequence[ScenarioOutcome]) -> dict[str, Any]:
    """All of it as plain JSON values; no block, no report of a pack."""
    return {
        "version": REPORT_VERSION,
        "ok": all(outcome.passed for outcome in outcomes),
        "scenarios": [_scenario(outcome) for outcome in outcomes],
    }


def _scenario(outcome: ScenarioOutcome) -> dict[str, Any]:
    scenario = outcome.scenario
    return {
        "scenario": scenario.name,
        "title": masked(scenario.title),
        "file": scenario.file,
        "passed": outcome.passed,
        "short": outcome.short,
        "seconds": round(outcome.seconds, 3),
        "error": masked_data(outcome.error),
        "failures": masked_data(outcome.failures),
        "assertions": [
            {
                "type": held.assertion.type,
                "line": held.assertion.line,
                "passed": held.finding.passed,
                "enforced": held.enforced,
                "expected": masked(held.finding.expected),
                "found": masked(held.finding.found),
                "figures": held.finding.figures,
            }
            for held in outcome.held
        ],
        "packs": [_packed(packed) for packed in outcome.packs],
    }


def _packed(packed: StepPacks) -> dict[str, Any]:
    """What the packs of a name took: times in milliseconds, the most of each other figure."""
    runs = packed.runs
    reports = [run.block.report for run in runs]
    stages = sorted({stage for report in reports for stage in report["timings_ns"]})
    return {
        "name": packed.name,
        "runs": len(runs),
        "tokens": max(run.block.tokens for run in runs),
        "budget": reports[-1]["budget"],
        "p50_ms": round(percentile_of([run.ns for run in runs], 50) / _MS, 3),
        "p95_ms": p95(runs),
        "stages_p95_ms": {
            stage: round(
                percentile_of([report["timings_ns"].get(stage, 0) for report in reports], 95) / _MS,
                3,
            )
            for stage in stages
        },
        "candidates_scored": max(report["candidates"]["scored"] for report in reports),
        "files": max(report["io"]["files"] for report in reports),
        "bytes": max(report["io"]["bytes"] for report in reports),
        "acb_sha256": reports[-1]["acb_sha256"],
    }


def write_reports(folder: Path, outcomes: Sequence[ScenarioOutcome]) -> None:
    """Write `scenarios.txt` and `scenarios.json`, and of each scenario its packs.

    `NAME.PACK.md` is the last block of a pack, `NAME.PACK.report.json` its report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenarios.txt").write_text(as_words(outcomes) + "\n", encoding="utf-8")
    (folder / "scenarios.json").write_text(_dumped(as_json(outcomes)), encoding="utf-8")
    for outcome in outcomes:
        for packed in outcome.packs:
            stem = f"{outcome.scenario.name}.{re.sub(r'[^A-Za-z0-9]+', '-', packed.name)}"
            block = packed.last.block
            (folder / f"{stem}.md").write_text(block.text, encoding="utf-8")
            (folder / f"{stem}.report.json").write_text(_dumped(block.report), encoding="utf-8")


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
