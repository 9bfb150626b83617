"""Figures for people: tables of at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["collection_table", "table"]

_HEAD: Final = (
    f"{'system':<10}{'budget':>6}{'n':>5}{'whole':>7}{'±q':>5}{'±c':>5}{'any':>6}{'all':>6}"
    f"{'touched':>8}{'±q':>5}{'±c':>5}{'any':>6}{'all':>6}{'tokens':>7}{'p50':>6}{'p95':>6}"
)
_LEGEND: Final = """\
Percent of the evidence that the rendered block holds: events that are there `whole`, and those
`touched`, whole or in part. ±q ±c: standard errors over questions and over conversations. any, all:
questions with some, with all of their evidence. tokens: mean of the block in the plane's counter.
p50 p95: milliseconds of a pack."""


def table(report: dict[str, Any]) -> str:
    """The rows of `report_of`, a block for each group."""
    return "\n".join(_lines(report))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    about, asked = report["set"], report["asked"]
    planes = "one plane for all" if asked["together"] else "a plane for each"
    yield (
        f"{about['conversations']} conversations ({planes}), {about['recorded']} events, "
        f"{about['questions']} questions, {about['with_evidence']} with evidence"
    )
    yield f"counter {report['counter']}, channel {asked['channel']}"
    for group in report["groups"]:
        yield ""
        yield from _group(group, asked["folds"])
    yield ""
    yield _LEGEND


def _group(group: dict[str, Any], folds: dict[str, int]) -> Iterator[str]:
    kind, name = group["group"], group["name"]
    if kind == "fold":
        count = sum(str(fold) == name for fold in folds.values())
        yield f"fold {name} ({count} conversation{'' if count == 1 else 's'})"
    else:
        yield "all questions" if kind == "all" else f"{kind} {name}"[:100]
    yield _HEAD
    for row in group["rows"]:
        yield _row(row)
    if group["search"] is not None:
        recall = "  ".join(
            f"@{k} {_percent(value).strip()}" for k, value in group["search"]["recall_at"].items()
        )
        yield f"search    recall {recall}; p50 {_ms(group['search']['p50_ns']).strip()} ms"


def _row(row: dict[str, Any]) -> str:
    cells = [f"{row['system']:<10}{row['budget']:>6}{row['questions']:>5}"]
    for column, width in (("whole", 7), ("touched", 8)):
        cells.append(f"{100 * row[column]:>{width}.1f}")
        cells += [_error(row[f"{column}_se_{of}"]) for of in ("questions", "conversations")]
        cells += [_percent(row[f"{column}_{of}"]) for of in ("any", "all")]
    cells.append(f"{row['tokens_mean']:>7.0f}{_ms(row['p50_ns']):>6}{_ms(row['p95_ns']):>6}")
    return "".join(cells)


def _percent(share: float) -> str:
    return f"{100 * share:>6.1f}"


def _error(error: float | None) -> str:
    return f"{'-':>5}" if error is None else f"{100 * error:>5.1f}"


def _ms(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1e6:.1f}"


def collection_table(report: dict[str, Any]) -> str:
    """The rows of `collection_report`."""
    about = report["collection"]
    ranks = list(report["rows"][0]["recall_at"])
    lines = [
        f"{about['documents']} documents, {about['queries']} queries, {about['judged']} judged",
        "",
        f"{'system':<10}{'queries':>8}{'nDCG@10':>9}{'±q':>7}"
        + "".join(f"{f'R@{k}':>8}" for k in ranks)
        + f"{'p50 ms':>9}{'p95 ms':>9}",
    ]
    for row in report["rows"]:
        found = row["ndcg_at_10_se"]
        error = f"{'-':>7}" if found is None else f"{found:>7.4f}"
        recall = "".join(f"{row['recall_at'][k]:>8.3f}" for k in ranks)
        lines.append(
            f"{row['system']:<10}{row['queries']:>8}{row['ndcg_at_10']:>9.4f}"
            f"{error}{recall}{_ms(row['p50_ns']):>9}{_ms(row['p95_ns']):>9}"
        )
    return "\n".join(lines)
