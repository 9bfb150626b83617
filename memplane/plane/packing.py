"""One pack, from request to saved report: materials, timings, counted reads."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from memplane.errors import WriteError
from memplane.home import replace_file
from memplane.pack.block import Block
from memplane.pack.pack import pack
from memplane.pack.request import Expansion, LastSession, Materials, Request, View
from memplane.pack.shards import Opened
from memplane.plane.files import Watched
from memplane.plane.folds import Folds
from memplane.policy import Policies
from memplane.projections.files import FilesState
from memplane.projections.hotset import HotsetState
from memplane.projections.item import Item, Printer
from memplane.recall.retrieval import Retriever
from memplane.recall.suppress import Approvals

__all__ = ["OTHER_FILES", "Stopwatch", "materials_of", "run", "save", "view_paths"]

# What a pack opens besides views, at most: five policies and their one parsed form, the checkpoints
# of hotset, decisions, cards, memories, tasks, map, artifacts, files and sessions, and the log's
# last segment.
OTHER_FILES: Final = 16
_LABEL_MAX: Final = 40  # characters


class Stopwatch:
    """Nanoseconds by stage: each mark ends one."""

    def __init__(self) -> None:
        self.spans: dict[str, int] = {}
        self._last = time.perf_counter_ns()

    def mark(self, stage: str) -> None:
        now = time.perf_counter_ns()
        self.spans[stage] = self.spans.get(stage, 0) + now - self._last
        self._last = now


def view_paths(policies: Policies, channel: str) -> list[str]:
    """The views that a channel loads, in its order, then those that own sections name."""
    hidden = frozenset(policies.privacy.rule(channel).suppress_views)
    name = channel if policies.channels.known(channel) else "agent"
    paths = [*policies.channels.default_views(name)]
    paths += [path for section in policies.budgets.sections for path in section.views]
    return [path for path in dict.fromkeys(paths) if path not in hidden]


def materials_of(
    policies: Policies, folds: Folds, hotset: HotsetState, *, views: list[View],
    expansions: list[Expansion | Opened | View],
    memo: dict[tuple[str, int, str], tuple[str, int, bool]],
    gap: bool, files: FilesState | None = None, retriever: Callable[[], Retriever] | None = None,
    query_seq: int = 0, sessions: Callable[[], tuple[LastSession, ...]] | None = None,
    approvals: Approvals | None = None,
    touched: Callable[[Item], tuple[str | None, bool]] | None = None,
) -> Materials:  # fmt: skip
    """Put together what the stages read."""
    decisions, pinned = folds.statements("decisions")
    cards, pinned_cards = folds.statements("cards")
    return Materials(
        policies, hotset, folds.tasks.state, tuple(decisions), tuple(cards),
        {**pinned, **pinned_cards},
        tuple(views), tuple(expansions), memo, gap,
        max(folds.decisions.state.shed_seq, folds.cards.state.shed_seq), files, retriever,
        query_seq, folds.plane_map.state, sessions, approvals, touched,
    )  # fmt: skip


def load_views(watched: Watched, policies: Policies, channel: str) -> list[View]:
    """Read the channel's views: as many as file_reads_max allows beside the policies."""
    most = max(0, policies.budgets.limits.file_reads_max - OTHER_FILES)
    views = []
    for at, path in enumerate(view_paths(policies, channel)):
        # By place in the list, not by what happens to be cached: a block must not depend on that.
        views.append(watched.view(path) if at < most else View(path, "", "", "limit"))
    return views


def run(
    request: Request, materials: Materials, printer: Printer, watch: Stopwatch,
    head: tuple[int, str],
) -> Block:  # fmt: skip
    """Pack and add to the report what only the plane knows: the log's head and the timings."""
    printer = printer._replace(redact=_remembering(printer.redact))
    block = pack(request, materials, printer, mark=watch.mark)
    block.report["log"] = {"seq": head[0], "h": head[1]}
    block.report["timings_ns"] = watch.spans
    return block


def _remembering(redact: Callable[[str], str]) -> Callable[[str], str]:
    """`redact` for one pack: the labels of its entries are a dozen, and come hundreds of times."""
    known: dict[str, str] = {}

    def redacted(text: str) -> str:
        if len(text) > _LABEL_MAX:
            return redact(text)
        found = known.get(text)
        if found is None:
            found = known[text] = redact(text)
        return found

    return redacted


def save(
    home: Path, block: Block, now: str, keep: int, bodies: Callable[[str], bytes | None]
) -> Path | None:
    """Write the report, and the policies and views that it names; None on a read-only home."""
    report = block.report
    names = [f"policies/{name}" for name in report["policies"]]
    hashes = [*report["policies"].values(), *report["views"].values()]
    try:
        for name, sha256 in zip([*names, *report["views"]], hashes, strict=True):
            data = bodies(name)
            if data is not None and hashlib.sha256(data).hexdigest() == sha256:
                path = home / "bodies" / "sha256" / sha256[:2] / sha256[2:]
                if not path.exists() and not replace_file(path, data):
                    return None
        stamp = "".join(digit for digit in now if digit.isdigit() or digit == "T")
        path = home / "reports" / f"{stamp}-{report['acb_sha256'][:8]}.report.json"
        if not replace_file(path, dumped(report)):
            return None
    except WriteError:  # a full disk must not cost the caller the block
        return None
    for old in sorted((home / "reports").glob("*.report.json"))[: -keep or None]:
        old.unlink(missing_ok=True)
    return path if path.exists() else None


def dumped(report: dict[str, Any]) -> bytes:
    """The report's file: JSON for people, indented."""
    import json  # noqa: PLC0415

    return (json.dumps(report, ensure_ascii=False, indent=1) + "\n").encode()
