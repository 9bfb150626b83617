"""Results of scenarios: as text, as JSON, and as files in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from memplane.intake.redact import masked, masked_data
from memplane.scenario.assertions import p95, percentile_of
from memplane.scenario.run import CheckedAssertion, ScenarioOutcome
from memplane.scenario.scene import StepPacks

__all__ = ["REPORT_VERSION", "as_json", "as_words", "write_reports"]

REPORT_VERSION: Final = 1
_MS: Final = 1_000_000


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
