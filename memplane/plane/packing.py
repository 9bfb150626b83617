"""One pack, from request to report: materials, timings, counted reads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from memplane.pack.pack import Laid, pack
from memplane.pack.request import Expansion, LastSession, Materials, Request, View
from memplane.recall.suppress import Approvals, Labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from memplane.pack.block import Block
    from memplane.pack.expansion_depths import Opened
    from memplane.plane.files import Watched
    from memplane.plane.folds import Folds, Seen
    from memplane.policy import Policies
    from memplane.ports import Line
    from memplane.projections.files import FilesState
    from memplane.projections.item import Item, Printer
    from memplane.recall.retrieval import Retriever

__all__ = ["Stopwatch", "materials_of", "run", "view_paths"]

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
    policies: Policies, folds: Folds, seen: Seen, *, views: list[View],
    expansions: list[Expansion | Opened | View],
    memo: dict[tuple[str, int, str], tuple[str, int, bool]],
    files: FilesState | None = None, retriever: Callable[[], Retriever] | None = None,
    query_seq: int = 0, sessions: Callable[[], tuple[LastSession, ...]] | None = None,
    approvals: Approvals | None = None, line: Callable[[int], Line | None] | None = None,
) -> Materials:  # fmt: skip
    """Put together what the stages read."""

    def touched(item: Item, upto: int) -> tuple[str | None, bool]:
        memories = folds.memories
        return memories.touched(item, upto=upto), memories.pinned(item, upto=upto)

    def moment(seq: int) -> str:
        found = line(seq) if seq and line is not None else None
        return "" if found is None else found.event.rec

    def labels(seq: int) -> Labels | None:
        found = line(seq) if line is not None else None
        return None if found is None else Labels(found.event.tags, found.event.importance)

    return Materials(
        policies, seen.hotset, seen.tasks, tuple(seen.decisions), tuple(seen.cards),
        seen.pinned, tuple(views), tuple(expansions), memo, seen.gap, seen.shed_seq, files,
        retriever, query_seq, seen.plane_map, sessions, approvals, touched, moment, labels,
        seen.hidden, tuple(seen.left), seen.left_more, tuple(seen.pins),
    )  # fmt: skip


def load_views(watched: Watched, policies: Policies, channel: str) -> list[View]:
    """Read the channel's views: as many files as file_reads_max allows."""
    most = policies.budgets.limits.file_reads_max
    paths = view_paths(policies, channel)
    views = [watched.view(path) for path in paths[:most]]
    return [*views, *(View(path, "", "", "limit") for path in paths[most:])]


def run(
    request: Request, materials: Materials, printer: Printer, watch: Stopwatch,
    head: tuple[int, str], *, laid: Callable[[Laid], None] | None = None,
) -> Block:  # fmt: skip
    """Pack and add to the report what only the plane knows: the log's head and the timings."""
    printer = printer._replace(redact=_remembering(printer.redact))
    block = pack(request, materials, printer, mark=watch.mark, watch=laid)
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
