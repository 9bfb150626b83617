"""The tables of speeds: `make bench`, in about 12 minutes; `make bench-quick`, for their form.

Prints it and leaves it in `reports/bench-<date>.txt` and `.json`. Figures compare within one run
and one machine only: that is why each has a peer or a floor in the same rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from crowds import CROWD_WORKS
from engine_works import ENGINE_WORKS
from framework_works import FRAMEWORK_WORKS, not_installed
from hook_works import HOOK_COPIED, HOOK_PROMPT, HOOK_RECORD, HOOK_WORKS
from index_peers import OPTIONAL, have
from index_works import INDEX_WORKS, LARGE_WORKS
from large_log import LARGE_LOG_WORKS
from layouts import Series, agent_log, layouts, table as layout_table, transcript_rows
from mcp_works import MCP_WORKS
from measure import Work, measure, table
from memory_works import MEMORY_WORKS
from place import Place
from process_works import PYTHONS
from session_works import SESSION_WORKS
from shared_works import SHARED_LARGE_WORKS, SHARED_WORKS
from side_by_side import SIDE_WORDS, SIZE_LARGE, SIZES, Sided, compare, side_rows, side_table
from store_works import STORE_WORKS
from works import WORKS
from writing_works import WRITING_WORKS

from memplane.cli.figures import bench_page
from memplane.inspect import document, write_page

ROOT = Path(__file__).resolve().parent.parent
_EVENTS, _EVENTS_QUICK = 65_000, 600
_CHUNKS, _CHUNKS_QUICK = 100_000, 2_000
_MEMORIES, _MEMORIES_QUICK = 100_000, 2_000
_LARGE = LARGE_WORKS | LARGE_LOG_WORKS | SHARED_LARGE_WORKS
_USUAL = WORKS | WRITING_WORKS | CROWD_WORKS | MEMORY_WORKS | SESSION_WORKS
_USUAL |= STORE_WORKS | INDEX_WORKS | ENGINE_WORKS | HOOK_WORKS | MCP_WORKS | SHARED_WORKS
_USUAL |= FRAMEWORK_WORKS
_ALL = _USUAL | _LARGE
_SIDE = "side-by-side"
_ROUNDS, _ROUNDS_QUICK = 5, 1
_ROUNDS_SIDE = 3
_RUNS, _RUNS_QUICK = 200, 20
_PROMPTS, _PROMPTS_QUICK = 100, 4


def main() -> int:
    asked = _arguments()
    begun = time.perf_counter()
    rounds = asked.rounds or (_ROUNDS_QUICK if asked.quick else _ROUNDS)
    # Below the repository, not in the system's folder for temporary files: that one may lie in
    # memory, where a sync costs nothing.
    asked.reports.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".bench-", dir=asked.reports))
    events = asked.events or (_EVENTS_QUICK if asked.quick else _EVENTS)
    place = Place(
        folder, events, _CHUNKS_QUICK if asked.quick else _CHUNKS,
        _MEMORIES_QUICK if asked.quick else _MEMORIES, _tell,
    )  # fmt: skip
    try:
        works = []
        usual = [*_USUAL]
        usual += _LARGE if asked.large else ()
        for name in [one for one in asked.only or usual if one != _SIDE]:
            _tell(f"preparing {name}")
            works.append(_ALL[name](place, _RUNS_QUICK if asked.quick else _RUNS))
        quiet = measure(works, rounds, _tell) if works else 0.0
        series = [] if asked.only else _layouts(folder / "layouts", asked)
        side, unable = _side(folder, asked)
    finally:
        place.close()
        shutil.rmtree(folder, ignore_errors=True)
    _tell("")
    _settle(works)
    facts = _facts(place, rounds, quick=asked.quick, took=time.perf_counter() - begun)
    facts["unable"] = unable
    text = f"{_words(facts)}\n\n{table(works, quiet)}\n"
    if series:
        text += f"\n{_LAYOUT_WORDS}\n\n{layout_table(series)}\n"
    if side:
        text += f"\n{SIDE_WORDS}\n\n{side_table(side, unable)}\n"
    print(text, end="")
    stem = asked.reports / f"bench-{datetime.now(UTC):%Y-%m-%d-%H%M%S}"
    rows, told = [work.as_json(quiet) for work in works], [one.as_json() for one in series]
    beside = side_rows(side)
    stem.with_suffix(".txt").write_text(text)
    stem.with_suffix(".json").write_text(
        json.dumps({**facts, "rows": rows, "layouts": told, "side": beside}, indent=1) + "\n"
    )
    if asked.html is not None:
        write_page(asked.html, document(bench_page(facts, rows, told, beside)), where="--html")
    print(f"\n{stem.with_suffix('.txt').name} and .json are in {asked.reports.name}/")
    return 0


_LAYOUT_WORDS = """\
Prefix layout: packs at every prompt (P) and every call of the model (T) of an agent's sessions.
share: tokens that a pack repeats from the start of the one before; cost: with cache marks, against
a naive block (newest first) without. agent: benchmarks/agent-budgets.yaml; default: policies/."""


def _layouts(home: Path, asked: argparse.Namespace) -> list[Series]:
    """The second table, of real transcripts where a folder of them is given."""
    if asked.transcripts is None:
        rows = agent_log(_PROMPTS_QUICK if asked.quick else _PROMPTS)
        return layouts(home, rows, tell=_tell)
    return layouts(home, transcript_rows(asked.transcripts), tell=_tell)


def _side(folder: Path, asked: argparse.Namespace) -> tuple[list[Sided], list[str]]:
    """The third table, and the engines that are not installed or not able."""
    if asked.only and _SIDE not in asked.only:
        return [], []
    sizes = SIZES[:1] if asked.quick else (*SIZES, *([SIZE_LARGE] if asked.large else []))
    if asked.texts:
        sizes = tuple(asked.texts)
    return compare(folder, sizes, _ROUNDS_QUICK if asked.quick else _ROUNDS_SIDE, tell=_tell)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small planes, one round")
    names = [*_ALL, _SIDE]
    only = f"only this row; may be repeated: {', '.join(names)}"
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=only)
    large = "a million in the index, the log and side by side: minutes"
    parser.add_argument("--large", action="store_true", help=large)
    parser.add_argument("--texts", type=int, nargs="+", metavar="N",
                        help="sizes of the side by side, in texts")  # fmt: skip
    parser.add_argument("--events", type=int, help=f"size of the big plane (default {_EVENTS})")
    parser.add_argument("--rounds", type=int, help=f"rounds (default {_ROUNDS})")
    parser.add_argument("--transcripts", type=Path, metavar="FOLDER",
                        help="Claude Code transcripts for the table of prefix layouts")  # fmt: skip
    parser.add_argument("--reports", type=Path, default=ROOT / "reports", help="where they go")
    parser.add_argument("--html", type=Path, metavar="FILE", help="and the tables as a page")
    return parser.parse_args()


def _settle(works: list[Work]) -> None:
    """Aims that follow from this run: of a bare sync 1.15 and the work above, of crowds' a share.

    Of hooks and commands so many times a bare Python.
    """
    by_name = {work.name: work for work in works}
    synced = by_name.get("record, 600 new characters, sync")
    above = by_name.get("record, 600 new characters, os, folded")
    if synced is not None and above is not None:
        synced.aim = 1.15 * synced.peers[0].p50 + above.p50
    crowd = by_name.get("log.append, 8 processes, sync")
    if crowd is not None:
        crowd.aim = 0.6 * crowd.peers[0].p50
    crowd = by_name.get("record, 8 processes, sync")
    if crowd is not None:
        crowd.aim = 0.4 * crowd.peers[0].p50
    hooks = {HOOK_RECORD: 5, HOOK_PROMPT: 8, HOOK_COPIED: 10}
    for name, times in (hooks | PYTHONS).items():
        if name in by_name:
            by_name[name].aim = times * by_name[name].peers[0].p50


def _facts(place: Place, rounds: int, *, quick: bool, took: float) -> dict[str, object]:
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "quick": quick,
        "rounds": rounds,
        "events": place.events,
        "chunks": place.chunks,
        "memories": place.memories,
        "missing": [name for name in OPTIONAL if have(name) is None] + not_installed(),
        "built_per_second": round(place.built_per_second),
        "seconds": round(took, 1),
    }


def _words(facts: dict[str, object]) -> str:
    built = facts["built_per_second"]
    return (
        f"memplane bench, {facts['date']}: Python {facts['python']}, SQLite {facts['sqlite']}, "
        f"{facts['system']} {facts['machine']},\n{facts['cores']} cores, load {facts['load']}; "
        f"{facts['rounds']} rounds in {facts['seconds']} s; the big plane has "
        f"{facts['events']:,} events" + (f", built at {built:,}/s" if built else "") + ".\n"
        "ratio: times the time of the peer below, above 1 is slower. loop: a fixed loop of Python "
        "beside each row;\nnoise: that loop against the run's quietest."
        + _missing(facts["missing"])
        + ("\nQUICK: too few and too small for any figure to mean much." if facts["quick"] else "")
    )


def _missing(names: object) -> str:
    if not isinstance(names, list) or not names:
        return ""
    return (
        f"\nNot installed, so without a row or not beside the index: {', '.join(names)} "
        "(pip install -r requirements-bench.txt -r requirements-frameworks.txt)."
    )


def _tell(what: str) -> None:
    """Say on a terminal what goes on, on one line."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
