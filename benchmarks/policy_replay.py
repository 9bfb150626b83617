"""How long `memplane policy replay --last 500` takes on 65,000 events.

Makes a plane in a repository, records in 500 steps and saves a pack after each, changes a policy,
and runs the command in a process of its own. `--keep FOLDER` leaves the plane there for the next
run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import workload
from measure import calibrate

import memplane

_EVENTS: Final = 65_000
_PACKS: Final = 500
_BUDGETS: Final = (4000, 4000, 8000)
_IN_SESSION: Final = 0.8  # of the requests; the others ask of all there is
_OWN_PROMPT: Final = 0.7
_CHANGES: Final = {
    "evidence .32 to .20": ("share: 0.32", "share: 0.20"),
    "counts by 1.2": ("scale: 1.0", "scale: 1.2"),
}


def main() -> int:
    asked = _arguments()
    folder = asked.keep or Path(tempfile.mkdtemp(prefix=".replay-", dir=Path.cwd()))
    home = folder / "plane"
    try:
        if not (home / "plane.json").exists():
            built = _build(home, asked.events, asked.packs)
            print(f"built: {asked.events:,} events, {asked.packs} saved packs in {built:.0f} s")
        size = sum(file.stat().st_size for file in (home / "reports").iterdir())
        print(f"reports: {size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}, "
              f"a loop takes {calibrate() * 1e6:.0f} us")  # fmt: skip
        for name, change in _CHANGES.items():
            wall, processor, found = _replay(home, asked.packs, change)
            packs = f"{found['packs']} packs, {found['same']} the same, {found['failed']} failed"
            print(f"{name}: {wall:.1f} s, processor {processor:.1f} s; {packs}")
    finally:
        if asked.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=_EVENTS, help="events in the log")
    parser.add_argument("--packs", type=int, default=_PACKS, help="saved packs")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the plane there")
    return parser.parse_args()


def _build(home: Path, events: int, packs: int) -> float:
    """Record, and save a pack after each step, as an agent would."""
    begun = time.perf_counter()
    chance = random.Random(3)
    rows = list(workload.rows(events))
    memplane.init(home, trusted=False).close()
    plane_yaml = home / "policies" / "plane.yaml"
    plane_yaml.write_text(plane_yaml.read_text().replace("keep: 500", f"keep: {packs}", 1))
    for argv in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm begin"):
        subprocess.run(["git", "-C", str(home), *argv.split()], check=True)
    step, prompt = max(1, events // packs), ""
    with memplane.open(home, durability="os") as plane:
        for number in range(packs):
            chunk = rows[number * step : (number + 1) * step]
            plane.record_many(chunk)
            prompts = [row["text"] for row in chunk if row.get("role") == "user"]
            prompt = prompts[-1] if prompts else prompt
            own = chance.random() < _OWN_PROMPT
            session = chunk[-1]["session"] if chance.random() < _IN_SESSION else None
            query = prompt if own else chance.choice(workload.QUERIES)
            plane.pack(query, session=session, budget=chance.choice(_BUDGETS), save_report=True)
    return time.perf_counter() - begun


def _replay(home: Path, packs: int, change: tuple[str, str]) -> tuple[float, float, dict[str, int]]:
    """Seconds on the clock and of the processors, and what was said, for one changed policy."""
    budgets = home / "policies" / "budgets.yaml"
    before = budgets.read_text()
    budgets.write_text(before.replace(*change, 1))
    command = [sys.executable, "-m", "memplane", "policy", "replay", "--last", str(packs)]
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, "--home", str(home), "--json"], check=True, capture_output=True
        )
    finally:
        budgets.write_text(before)
    wall = time.perf_counter() - begun
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime
    return wall, processor, json.loads(done.stdout)


if __name__ == "__main__":
    raise SystemExit(main())
