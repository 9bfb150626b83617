"""Measure rankings of a collection in BEIR form (Thakur et al. 2021): nDCG@10 and recall at k.

    python tools/rank_collection.py --corpus CORPUS --queries QUERIES --qrels QRELS
        [--baselines rank_bm25,lexical] [--channel private] [--policies FOLDER] [--json]

    corpus.jsonl    _id, title, text
    queries.jsonl   _id, text
    qrels.tsv       query-id <tab> corpus-id <tab> score, under a heading; 0 is not relevant

Files may be gzipped. Only queries with a relevant document count. The documents are imported into
a plane in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import memplane
from memplane.errors import InputError, MemplaneError
from memplane.evaluate import (
    DEPTH,
    PLACES,
    PRODUCT,
    RANKS,
    RESAMPLES,
    SEED,
    Conversation,
    Mistakes,
    PlainIndex,
    SystemFactory,
    check_baselines,
    checked_file,
    mean_of,
    order_of,
    percentile,
    plane_ranking,
    read_label,
    read_rows,
    recorded,
    se_values,
)
from memplane.importers.records import Jsonl, read_lines
from memplane.policy import NAMES
from memplane.wiring import make_counter

if TYPE_CHECKING:
    import os

    from memplane.evaluate import Order
    from memplane.event import Event
    from memplane.plane import Plane

_NAME: Final = "collection"
_NO_POLICIES: Final[Mapping[str, bytes]] = {}

Ranking = Callable[[str], list[str | None]]


class Collection(NamedTuple):
    """Documents, queries and what is relevant. `unresolved`: judged documents that are not there.

    `relevant` is query -> document -> gain; documents are named as in the corpus.
    """

    documents: Conversation
    queries: dict[str, str]
    relevant: dict[str, dict[str, int]]
    unresolved: int


class RankedQuery(NamedTuple):
    """One query, ranked by one system: nDCG@10, and the ranks at which relevant documents stand."""

    query: str
    system: str
    ndcg: float
    relevant: int
    ranks: tuple[int, ...]
    ns: int

    def recall(self, k: int) -> float:
        """The part of the relevant documents among the first k."""
        return sum(rank <= k for rank in self.ranks) / self.relevant


class CollectionRun(NamedTuple):
    """Every ranking, and what was ranked."""

    rankings: list[RankedQuery]
    documents: int
    queries: int
    judged: int
    unresolved: int


def read_collection(
    corpus: str | os.PathLike[str], queries: str | os.PathLike[str], qrels: str | os.PathLike[str]
) -> Collection:
    """Read a collection from three files, plain or gzip. Raises InputError with every mistake."""
    mistakes = Mistakes()
    documents = _documents(checked_file(Path(corpus), "corpus"), mistakes)
    asked = _queries(checked_file(Path(queries), "queries"), mistakes)
    path = checked_file(Path(qrels), "qrels")
    relevant = _judgements(path, asked, mistakes)
    mistakes.settle()
    if not relevant:
        raise InputError(f"{path}: no query has a relevant document: there is nothing to measure")
    lost = sum(name not in documents.ids for found in relevant.values() for name in found)
    return Collection(documents, asked, relevant, lost)


def rank_collection(
    collection: Collection,
    baselines: Sequence[str],
    builders: SystemFactory,
    policies: Mapping[str, bytes] = _NO_POLICIES,
    *,
    channel: str = "private",
    progress: Callable[[int, int], None] | None = None,
) -> CollectionRun:
    """Rank the documents for each judged query: by `search`, and by the baselines.

    Raises InputError for recency, which has no query.
    """
    check_baselines(baselines)
    if "recency" in baselines:
        raise InputError("recency ranks no documents: it takes no query", where="baselines")
    rankings: list[RankedQuery] = []
    with recorded([collection.documents], builders, policies) as made:
        systems = _systems(made.plane, baselines, builders, channel)
        done, total = 0, len(collection.relevant) * len(systems)
        for system, rank in systems.items():
            for query, gains in collection.relevant.items():
                begun = time.perf_counter_ns()
                found = rank(collection.queries[query])
                ns = time.perf_counter_ns() - begun
                rankings.append(_placed(collection, query, gains, system, found, ns))
                done += 1
                if progress is not None:
                    progress(done, total)
    return CollectionRun(
        rankings,
        len(collection.documents.lines),
        len(collection.queries),
        len(collection.relevant),
        collection.unresolved,
    )


def _systems(
    plane: Plane, baselines: Sequence[str], builders: SystemFactory, channel: str
) -> dict[str, Ranking]:
    systems: dict[str, Ranking] = {}
    systems[PRODUCT] = lambda query: list(plane_ranking(plane.search, query, channel))
    events = [event for event in plane.events(channel=channel) if event.kind == "message"]
    for name in baselines:
        order = order_of(name, events, builders.make_index)
        systems[name] = partial(_first, order, events)
    return systems


def _first(order: Order, events: Sequence[Event], query: str) -> list[str | None]:
    return [events[at].id for at in islice(order(query), DEPTH)]


def _placed(
    collection: Collection,
    query: str,
    gains: dict[str, int],
    system: str,
    found: list[str | None],
    ns: int,
) -> RankedQuery:
    ids = collection.documents.ids
    gain_of = {ids[name]: gain for name, gain in gains.items() if name in ids}
    ranked = [gain_of.get(one, 0) if one is not None else 0 for one in found]
    ranks = tuple(rank for rank, gain in enumerate(ranked, start=1) if gain)
    score = ndcg(ranked, list(gains.values()), 10)
    return RankedQuery(query, system, score, len(gains), ranks, ns)


def _documents(path: Path, mistakes: Mistakes) -> Conversation:
    """Make an event of each document: the title, and its text on the lines below."""
    reader = Jsonl()
    found = Conversation(_NAME, [], {})
    seen: dict[str, int] = {}
    for row in read_rows(path, mistakes):
        name = read_label(row, "_id", path, mistakes)
        if not name:
            continue
        if seen.setdefault(name, row.line) != row.line:
            message = f"{name!r:.60} is another document already, in line {seen[name]}"
            mistakes.add(path, row.line, "_id", message)
            continue
        title, text = row.record.get("title", ""), row.record.get("text", "")
        if not isinstance(title, str) or not isinstance(text, str):
            mistakes.add(path, row.line, "text", "expected a title and a text")
            continue
        record: dict[str, Any] = {
            "conversation_id": _NAME,
            "event_id": name,
            "text": "\n".join(filter(None, (title, text))),
        }
        body = json.dumps(record).encode()
        found.lines.append(body)
        for made in reader.read(record, body).rows:
            found.ids[name] = made["id"]
    return found


def _queries(path: Path, mistakes: Mistakes) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in read_rows(path, mistakes):
        name, text = read_label(row, "_id", path, mistakes), row.record.get("text")
        if not isinstance(text, str) or not text.strip():
            mistakes.add(path, row.line, "text", f"expected a text, found {text!r:.60}")
        elif name:
            found[name] = text
    return found


def _judgements(
    path: Path, queries: Mapping[str, str], mistakes: Mistakes
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    with closing(read_lines(path)) as lines:
        for line in lines:
            fields = line.body.decode("utf-8", "replace").rstrip("\r\n").split("\t")
            heading = line.number == 1 and not fields[-1].strip().lstrip("-").isdecimal()
            if line.fault:
                mistakes.add(path, line.number, "", f"{line.fault}: nothing can be read here")
            elif heading or not line.body.strip():
                continue
            elif len(fields) != 3 or not fields[2].strip().lstrip("-").isdecimal():
                start = line.body[:60].decode("utf-8", "replace")
                expected = "expected query, document and a whole score between tabs"
                mistakes.add(path, line.number, "", f"{expected}, found {start!r}")
            elif fields[0] not in queries:
                mistakes.add(path, line.number, "query-id", f"no query {fields[0]!r:.60}")
            elif int(fields[2]) > 0:
                found.setdefault(fields[0], {})[fields[1]] = int(fields[2])
    return found


def ndcg(gains: Sequence[int], ideal: Sequence[int], k: int) -> float:
    """NDCG at k: `gains` of the documents in the order they were ranked, `ideal` of all judged.

    The gain is linear, as trec_eval has it.
    """
    best = _dcg(sorted(ideal, reverse=True)[:k])
    return _dcg(gains[:k]) / best if best else 0.0


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def collection_report(run: CollectionRun) -> dict[str, Any]:
    """Put the figures of a collection together: a row for each ranking."""
    systems: Iterable[str] = dict.fromkeys(one.system for one in run.rankings)
    rows = []
    for system in systems:
        own = [one for one in run.rankings if one.system == system]
        times = [one.ns for one in own]
        error = se_values([one.ndcg for one in own])
        rows.append(
            {
                "system": system,
                "queries": len(own),
                "ndcg_at_10": round(mean_of([one.ndcg for one in own]), PLACES),
                "ndcg_at_10_se": None if error is None else round(error, PLACES),
                "recall_at": {
                    str(k): round(mean_of([one.recall(k) for one in own]), PLACES) for k in RANKS
                },
                "p50_ns": percentile(times, 50),
                "p95_ns": percentile(times, 95),
            }
        )
    return {
        "collection": {
            "documents": run.documents,
            "queries": run.queries,
            "judged": run.judged,
            "unresolved": run.unresolved,
        },
        "bootstrap": {"resamples": RESAMPLES, "seed": SEED},
        "rows": rows,
    }


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
            f"{error}{recall}{row['p50_ns'] / 1e6:>9.1f}{row['p95_ns'] / 1e6:>9.1f}"
        )
    return "\n".join(lines)


def make_plane(folder: Path, policies: Mapping[str, bytes]) -> Plane:
    """A plane in a folder under these policies; it is thrown away, so nothing is synced."""
    memplane.init(folder, durability="os", trusted=False).close()
    for name, data in policies.items():
        (folder / "policies" / name).write_bytes(data)
    return memplane.open(folder, durability="os")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures of a collection; 2 where the files or options are wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("corpus", "queries", "qrels"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--baselines", default="", metavar="NAMES")
    parser.add_argument("--channel", default="private")
    parser.add_argument("--policies", type=Path, metavar="FOLDER")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    named = [one.strip() for one in given.baselines.split(",") if one.strip()]
    files = [] if given.policies is None else [given.policies / name for name in NAMES]
    policies = {path.name: path.read_bytes() for path in files if path.is_file()}
    builders = SystemFactory(make_plane, make_counter, PlainIndex)
    try:
        collection = read_collection(given.corpus, given.queries, given.qrels)
        run = rank_collection(collection, named, builders, policies, channel=given.channel)
    except MemplaneError as error:
        print(error, file=sys.stderr)
        return 2
    report = collection_report(run)
    if collection.unresolved:
        print(f"judgements of no document: {collection.unresolved}", file=sys.stderr)
    print(json.dumps(report) if given.json else collection_table(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
