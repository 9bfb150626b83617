"""What packs of one session repeat, and what that costs: this layout beside a naive one.

Packs are made where an agent makes them, at every call of its model (T) and at every prompt (P), in
the order of the log. The naive block has the same entries and budget, but its window is the newest
events that fit, newest first, and no cache mark. Costs are modelled: a fresh token costs 1, one
that is written to the cache 1.25, one read from it 0.1 (plane.yaml, prompt_cache).
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import workload
import yaml

import memplane
from memplane.event import UPKEEP_KINDS
from memplane.importers import import_paths
from memplane.pack.block import Block
from memplane.pack.report import chain_of, compared, cost_of, marks_of
from memplane.plane import Plane
from memplane.policy.records import CachePrices
from memplane.upkeep.reports import story
from memplane.wiring import open_plane

__all__ = ["BUDGETS", "Series", "agent_log", "layouts", "table", "transcript_rows"]

Row = dict[str, Any]

BUDGETS: Final = (4_000, 8_000, 24_000)
# As notes on prompt caches have it: a small block has little room for evidence.
_EVIDENCE: Final = {4_000: 0.08, 8_000: 0.22, 24_000: 0.31}
_AIMS: Final = {("T", 4_000): (0.85, 0.35), ("T", 8_000): (0.92, 0.28), ("T", 24_000): (0.96, 0.24)}
_AGENT_BUDGET: Final = 8_000  # whose shares the file has
_FIXED: Final = frozenset(
    ("identity", "rules", "knowledge_cards", "task_state", "tool_state", "system_map")
)
_SHARE_P: Final = 0.40
_AGENT: Final = Path(__file__).with_name("agent-budgets.yaml")
# Calls of the model a prompt: three in the median, eight in the mean, as in transcripts of agents.
_CALLS_MEDIAN: Final = 3
_CALLS_SPREAD: Final = 1.4  # of their logarithm
_CALLS_MAX: Final = 60
_DECIDED_EVERY: Final = 15  # turns
_REPLACED, _REPLACED_AMONG = 0.2, 12
_TASK_EVERY: Final = 8
_CARD_EVERY: Final = 100
_PERMILLE: Final = 1_000
_FIELDS: Final = ("id", "ts", "kind", "session", "task", "actor", "role", "text", "tags", "data")


class Series:
    """The packs of all sessions under one policy, budget and way of packing (P or T)."""

    def __init__(self, policy: str, budget: int, mode: str) -> None:
        self.policy, self.budget, self.mode = policy, budget, mode
        self.shares: list[float] = []
        self.naive_shares: list[float] = []
        self.breaks: Counter[str] = Counter()
        self.kept = self.packs = self.price = self.naive_tokens = self.tokens = 0
        self.unexplained: list[dict[str, Any]] = []
        self._last: dict[str, dict[str, Any]] = {}
        self._naive: dict[str, list[str]] = {}
        self._known: dict[str, set[tuple[int, str]]] = {}

    def add(self, plane: Plane, session: str, block: Block) -> None:
        """Hold a pack against the session's pack before it."""
        report, prices = dict(block.report), CachePrices()
        report["prefix"] = {**report["prefix"], "chain": chain_of(block)}
        old = self._last.get(session)
        told = story(plane.context, old, report)
        held = compared(old, report, "" if old else None, told)
        reuse = "call" if self.mode == "T" else "prompt"
        known = self._known.setdefault(session, set())
        cost = cost_of(report, reuse, prices, known=known, common_tokens=held["common_tokens"])
        marks = marks_of(report, reuse, prices.marks)
        known.update(
            (byte, digest) for byte, tokens, digest in marks if tokens >= prices.minimum_tokens
        )
        naive, tokens = _naive(plane, session, block)
        self.packs += 1
        self.price, self.tokens = self.price + cost.price, self.tokens + block.tokens
        self.naive_tokens += tokens
        if old is not None:
            self.shares.append(held["share_ppm"] / 1e6)
            self.naive_shares.append(_common(self._naive[session], naive))
            self.kept += bool(held["stable_kept"])
            if held["break"] is not None:
                self.breaks[held["break"]["cause"]] += 1
                if held["break"]["cause"] == "unexplained":
                    self.unexplained.append({"session": session, **held["break"]})
        self._last[session], self._naive[session] = report, naive

    def as_json(self) -> dict[str, Any]:
        """The row of the table."""
        share, cost = _AIMS.get((self.mode, self.budget), (_SHARE_P, None))
        agent = self.policy == "agent"
        return {
            "policy": self.policy, "mode": self.mode, "budget": self.budget, "packs": self.packs,
            "share_median": statistics.median(self.shares) if self.shares else 0.0,
            "share_mean": statistics.fmean(self.shares) if self.shares else 0.0,
            "naive_median": statistics.median(self.naive_shares) if self.naive_shares else 0.0,
            "cost": self.price / _PERMILLE / max(1, self.naive_tokens),
            "filled": self.tokens / max(1, self.packs * self.budget),
            "kept": self.kept, "breaks": dict(sorted(self.breaks.items())),
            "unexplained": len(self.unexplained),
            "share_aim": share if agent else None, "cost_aim": cost if agent else None,
        }  # fmt: skip


def _naive(plane: Plane, session: str, block: Block) -> tuple[list[str], int]:
    """The lines of a block with a sliding window, newest first, and its tokens.

    Other entries are those of this block, the most important section first.
    """
    policies = plane.upkeep.policies
    printer = plane.context.printer(policies)
    section = {one.name: one for one in policies.budgets.sections}
    others = [one for one in block.entries if one.section != "recent_window"]
    others.sort(key=lambda one: -section[one.section].priority)
    room = block.report["sections"]["recent_window"]["room"]
    shown = {one.seq for one in others if one.seq}
    lines, spent = [], 0
    hotset = plane.upkeep.hotset()
    ring = hotset.sessions.get(session)
    for turn in reversed(ring.ring if ring is not None else []):
        item = hotset.items[turn.seq]
        text, tokens, _ = item.form(0, printer)
        if item.seq in shown or spent + tokens > room:
            continue
        lines.append(text)
        spent += tokens
    total = block.tokens - sum(e.tokens for e in block.entries if e.section == "recent_window")
    return [*(one.text for one in others), *lines], total + spent


def _common(old: list[str], new: list[str]) -> float:
    """The part of the new lines' characters that begins like the old ones."""
    same = 0
    for one, two in zip(old, new, strict=False):
        if one != two:
            pairs = enumerate(zip(one, two, strict=False))
            same += next((at for at, (a, b) in pairs if a != b), min(len(one), len(two)))
            break
        same += len(one)
    return same / max(1, sum(map(len, new)))


def agent_log(prompts: int, seed: int = 11) -> Iterator[Row]:
    """Sessions of an agent that grow as real ones do: 155 tokens a call, eight calls a prompt.

    The spread of calls is what makes packs at prompts hard: a few prompts move the window far.
    """
    chance, number = random.Random(seed), 0
    for at in range(prompts):
        session = f"agent-{at * 4 // max(1, prompts)}"
        number += 1
        yield {"role": "user", "session": session, "text": workload.text(number, 300)}
        calls = round(_CALLS_MEDIAN * math.exp(chance.gauss(0, _CALLS_SPREAD)))
        for _ in range(min(_CALLS_MAX, max(1, calls))):
            number += 1
            data = {"tool": chance.choice(("Bash", "Read")), "path": f"src/m{number % 40}.py"}
            said = {"session": session, "data": data}
            short, long = chance.randint(60, 160), chance.randint(200, 700)
            call, result = workload.text(number, short), workload.text(number + 7, long)
            yield {"kind": "tool_call", "role": "assistant", "text": call, **said}
            yield {"kind": "tool_result", "role": "tool", "text": result, **said}


def stated(rows: Iterable[Row], seed: int = 5) -> Iterator[Row]:
    """The rows, with what agents that use a memory also record, as no transcript holds it.

    A decision every 15 turns, of which a fifth replaces one of the last twelve, a task's state
    every 8, a card every 100.
    """
    chance, made = random.Random(seed), 0
    for number, row in enumerate(rows, 1):
        yield row
        about = {"session": row.get("session")} if row.get("session") else {}
        if number % _DECIDED_EVERY == 0:
            made += 1
            old = chance.random() < _REPLACED and made > _REPLACED_AMONG
            key = made - chance.randint(1, _REPLACED_AMONG) if old else made
            yield {
                "kind": "decision",
                "key": f"d{key}",
                "text": workload.text(number, 120),
                **about,
            }
        if number % _TASK_EVERY == 0:
            state = {"status": "active", "plan": [{"step": workload.text(number, 40)}]}
            yield {"kind": "task", "task": "t1", "text": workload.text(number, 80), "data": state,
                   **about}  # fmt: skip
        if number % _CARD_EVERY == 0:
            yield {"kind": "rule", "text": f"{workload.text(number, 90)}.", **about}


def write_views(home: Path) -> None:
    """Views of an agent, about 600 tokens: who it is, and the project's rules."""
    (home / "views").mkdir(exist_ok=True)
    (home / "views" / "identity.md").write_text(f"{workload.text(1, 500)}\n")
    rules = "".join(f"- {workload.text(number, 110)}\n" for number in range(2, 18))
    (home / "views" / "rules.project.md").write_text(rules)


def transcript_rows(folder: Path) -> list[Row]:
    """The events of Claude Code transcripts, as importing them gives them, in the log's order."""
    with (
        tempfile.TemporaryDirectory() as home,
        memplane.init(home, durability="os", trusted=False) as plane,
    ):
        import_paths(plane, "claude-code", [folder])
        events = [one._asdict() for one in plane.events() if one.kind not in UPKEEP_KINDS]
    return [{name: event[name] for name in _FIELDS if event[name]} for event in events]


def layouts(
    home: Path, rows: Iterable[Row], *, budgets: Iterable[int] = BUDGETS,
    tell: Callable[[str], None] = lambda _: None, most: int | None = None,
    default: bool = True,
) -> list[Series]:  # fmt: skip
    """Record the rows in a new plane; pack at each call of the model under both policies.

    At most `most` calls are packed; the rest of the rows is left out.
    """
    memplane.init(home, durability="os", trusted=False).close()
    write_views(home)
    with ExitStack() as stack:
        writer = stack.enter_context(memplane.open(home, durability="os"))
        kinds = [
            (
                policy,
                budget,
                stack.enter_context(open_plane(home, durability="os", environment=set_)),
            )
            for policy, given in (("agent", _agent_variables), ("default", lambda _: {}))[
                : 1 + default
            ]
            for budget in budgets
            for set_ in [given(budget)]
        ]
        series = [
            (plane, Series(policy, budget, mode), mode)
            for mode in ("P", "T")
            for policy, budget, plane in kinds
        ]
        for done, (session, prompted) in enumerate(_calls(writer, stated(rows)), 1):
            blocks: dict[int, Block] = {}
            for plane, one, mode in series:
                if mode == "P" and not prompted:
                    continue
                if id(plane) not in blocks:
                    blocks[id(plane)] = plane.pack(session=session, budget=one.budget)
                one.add(plane, session, blocks[id(plane)])
            if done % 50 == 0:
                tell(f"layouts: {done} calls")
            if done == most:
                break
        return [one for _, one, _ in series]


def _agent_variables(budget: int) -> dict[str, str]:
    """agent-budgets.yaml as variables, for a budget: some sections need so many tokens in each."""
    policy = yaml.safe_load(_AGENT.read_text())
    found = {}
    for name, section in policy["sections"].items():
        share = section["share"]
        if name in _FIXED:
            share = share * _AGENT_BUDGET / budget
        if name == "retrieved_evidence":
            share = _EVIDENCE.get(budget, share)
        prefix = f"MEMPLANE_BUDGETS__SECTIONS__{name.upper()}__"
        found[f"{prefix}SHARE"] = f"{share:.6f}"
        found[f"{prefix}MAX_TOKENS"] = str(section["max_tokens"])
    return found


def _calls(plane: Plane, rows: Iterable[Row]) -> Iterator[tuple[str, bool]]:
    """Record the rows; before the model speaks say in which session, and if to a new prompt."""
    waiting: list[Row] = []
    before: dict[str, str | None] = {}
    for row in rows:
        session, role = row.get("session"), row.get("role")
        speaks = role == "assistant" and before.get(session) != "assistant"
        if speaks and session in before:
            plane.record_many(waiting, strict=False)
            waiting = []
            yield session, before[session] == "user"
        waiting.append(row)
        if session is not None and role is not None:
            before[session] = role
    plane.record_many(waiting, strict=False)


def table(series: list[Series]) -> str:
    """The rows as text."""
    lines = [
        "policy   pack budget  packs  share: median mean naive  aim  cost  aim filled  kept  breaks"
    ]
    for one in (each.as_json() for each in series):
        share_aim, cost_aim = (
            "   -" if one[name] is None else f"{one[name]:.2f}"
            for name in ("share_aim", "cost_aim")
        )
        breaks = ", ".join(f"{cause} {count}" for cause, count in one["breaks"].items())
        shares = f"{one['share_median']:.2f} {one['share_mean']:.2f}    {one['naive_median']:.2f}"
        lines.append(
            f"{one['policy']:<8} {one['mode']}   {one['budget']:>6} {one['packs']:>6}        "
            f"{shares}   {share_aim}  {one['cost']:.2f}  {cost_aim}    {one['filled']:.2f} "
            f"{one['kept']:>5}  {breaks}"
        )
    return "\n".join(lines)
