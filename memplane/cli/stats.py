"""`memplane stats`: what the plane holds, what it takes on disk, what its packs repeat."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from memplane import nofollow
from memplane.cli.app import command
from memplane.cli.options import Channel, Home, Json, Session
from memplane.cli.output import one_line, put
from memplane.cli.progress import Bar
from memplane.errors import InputError
from memplane.event import UPKEEP_KINDS, Event
from memplane.explain.prefixes import Shared, shared_by
from memplane.log.purges import erased_by
from memplane.plane import Plane
from memplane.plane.reports import saved
from memplane.projections.sessions import is_extract
from memplane.wiring import open_plane

__all__ = ["stats"]


@command("stats", example="stats")
def stats(
    *,
    cache: Annotated[
        bool, typer.Option("--cache", help="What saved packs repeat, for prompt caches, instead.")
    ] = False,
    session: Session = None,
    channel: Channel = "private",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Count what the plane holds, by kind, and what it takes on disk.

    With --cache: of the packs in reports/, by session, how much each repeated of the one before,
    what broke the prefix, and what that costs by the prices of plane.yaml (prompt_cache).
    """
    if session is not None and not cache:
        raise InputError("expected --cache beside it", where="--session")
    with open_plane(home) as plane:
        if cache:
            prices = plane.policies.plane.cache
            shared = shared_by(saved(plane.home), prices, session=session)
            answer = [one.as_json() for one in shared]
            put(answer, _cache_words(shared), as_json=as_json)
            return
        found = _counted(plane, channel)
    disk = found["bytes"]
    kinds = ", ".join(f"{kind} {count}" for kind, count in found["kinds"].items())
    lines = [
        f"events    {found['events']}" + (f": {kinds}" if kinds else ""),
        f"sessions  {found['sessions']}",
        f"tokens    {found['tokens']}",
        f"time      {found['first'] or '-'} to {found['last'] or '-'}",
        f"decisions {found['decisions']} in force",
        "bytes     " + ", ".join(f"{name} {size}" for name, size in disk.items()),
    ]
    if found["hidden"]:
        lines.append(f"hidden    {found['hidden']} from this channel, or not readable")
    if found["purged"]:
        lines.append(f"purged    {found['purged']}")
    put(found, "\n".join(lines), as_json=as_json)


def _cache_words(shared: list[Shared]) -> str:
    """A line a session and shape: packs, shares, breaks, cost if packed a prompt or a call."""
    if not shared:
        return "no saved packs of a session: `memplane pack --session ID` saves one"
    lines = ["packs  budget  share median / p10   stable   cost P   cost T  session: breaks"]
    for one in shared:
        facts = one.as_json()["shares"]
        middle, low = (
            "-" if facts[name] is None else f"{facts[name] / 10_000:.0f} %"
            for name in ("median_ppm", "p10_ppm")
        )
        costs = [f"{one.of_fresh(reuse) / 10_000:6.0f} %" for reuse in ("prompt", "call")]
        breaks = ", ".join(f"{cause} {count}" for cause, count in one.breaks.items())
        lines.append(
            f"{one.packs:>5}  {one.budget:>6}  {middle:>12} / {low:<8} "
            f"{one.kept:>3}/{len(one.shares):<3}  "
            f"{costs[0]} {costs[1]}  {one_line(one.session, 40)}"
            + (f": {breaks}" if breaks else "")
            + (f"; {one.below_minimum} too short for the cache" if one.below_minimum else "")
        )
    lines.append(
        "cost: against sending every block anew, if nothing expires; P as if each pack came with a "
        "prompt of its own, T with a call of the model"
    )
    return "\n".join(lines)


def _counted(plane: Plane, channel: str) -> dict[str, Any]:
    head = plane.head()
    kinds: Counter[str] = Counter()
    sessions: set[str] = set()
    tokens = 0
    first, last = None, None
    purged: set[int] = set()
    with Bar("stats") as bar:
        for event in plane.events(channel=channel):
            bar(event.seq, head.seq)
            purged.update(one.seq for one in erased_by(event))
            kinds[event.kind] += 1
            tokens += event.tokens or 0
            if event.session is not None and _begins(event):
                sessions.add(event.session)
            if event.kind != "segment":
                first = event.ts if first is None else min(first, event.ts)
                last = event.ts if last is None else max(last, event.ts)
    segments = kinds.pop("segment", 0)
    return {
        "events": kinds.total(),
        "kinds": dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
        "hidden": max(0, head.seq - kinds.total() - segments - len(purged)),
        "purged": len(purged),
        "segments": segments,
        "sessions": len(sessions),
        "tokens": tokens,
        "first": first,
        "last": last,
        "decisions": len(plane.decisions(channel=channel)),
        "bytes": {
            name: _size(plane.home / name)
            for name in ("log", "bodies", "projections", "index", "reports")
        },
    }


def _begins(event: Event) -> bool:
    """Whether there is a session for this event, were it the only one, as `session list` has it.

    For what memplane itself says at a session's end, or about the log, there is none.
    """
    if event.kind in UPKEEP_KINDS or is_extract(event):
        return False
    return not (event.kind == "session" and event.data.get("status") == "end")


def _size(folder: Path) -> int:
    total = 0
    for path in nofollow.walk(folder):
        with suppress(OSError):
            total += Path(path).lstat().st_size
    return total
