"""What `memplane policy log`, `diff` and `replay` print."""

from __future__ import annotations

from typing import Any, Final

from memplane.cli.output import counted, one_line
from memplane.explain.history import Change
from memplane.explain.trying import Moved, Trial, Tried
from memplane.explain.versions import Commit

__all__ = ["change", "commit", "commit_json", "trial"]

_LINES_SHOWN: Final = 20  # of a view, that came or went
_MOVED_SHOWN: Final = 5  # entries that came or went, in each pack
_WIDTH: Final = 300


def commit(one: Commit, told: list[Change] | None) -> str:
    """A commit, and behind it what it changed."""
    head = one_line(f"{one.hash[:8]}  {one.at}  {one.author}  {one.subject}")
    if told is None:
        return f"{head}\n  the first commit of a shallow clone: what it changed is not known here"
    said = [line for each in told for line in change(each, lines=0).split("\n")]
    return "\n".join([head, *(f"  {line}" for line in said or ["nothing that memplane reads"])])


def commit_json(one: Commit, told: list[Change] | None) -> dict[str, Any]:
    """The same as plain JSON values; `changes` is null where they are not known."""
    changed = None if told is None else [each._asdict() for each in told]
    return {
        "hash": one.hash, "at": one.at, "author": one.author, "subject": one.subject,
        "changes": changed,
    }  # fmt: skip


def change(one: Change, lines: int = _LINES_SHOWN) -> str:
    """A change in words; of a view also the lines, where so many are asked for."""
    said = [one_line(line, _WIDTH) if at == 0 else f"  {one_line(line, _WIDTH)}"
            for at, line in enumerate(str(one).split("\n"))]  # fmt: skip
    if one.file.startswith("views/") and lines:
        for mark, some in (("-", one.before or []), ("+", one.after or [])):
            said += [f"  {mark} {one_line(line)}" for line in some[:lines]]
            if len(some) > lines:
                said.append(f"  {mark} and {len(some) - lines} more")
    return "\n".join(said)


def trial(found: Trial, shown: int) -> str:
    """The summary, and the packs that changed most."""
    if not found.rows:
        return ""
    packed = found.packed
    same = sum(row.same for row in packed)
    head = f"{counted(len(found.rows), 'pack')} from {found.old} to {found.new}: {same} the same"
    head += f", {len(packed) - same} changed"
    failed = [row for row in found.rows if row.before is None or row.after is None]
    lines = [head + (f", {len(failed)} not packed" if failed else ""), "", *_sections(found)]
    for row in found.largest(shown):
        lines += ["", *_row(row)]
    if failed:
        lines.append("")
    lines += [f"not packed: {row.report}: {one_line(row.why)}" for row in failed[: max(shown, 1)]]
    return "\n".join(lines)


def _sections(found: Trial) -> list[str]:
    facts = found.as_json()
    before, after = found.side("before"), found.side("after")
    lines = [f"{'tokens by section':<24}{'before':>12}{'after':>12}{'enters':>9}{'leaves':>9}"]
    names = dict.fromkeys([*before.sections, *after.sections])
    for name in names:
        was, is_ = before.sections.get(name, 0), after.sections.get(name, 0)
        come, gone = facts["enters"].get(name, 0), facts["leaves"].get(name, 0)
        if was or is_:
            lines.append(f"{name:<24}{was:>12,}{is_:>12,}{come:>9,}{gone:>9,}")
    lines.append(f"{'all':<24}{before.tokens:>12,}{after.tokens:>12,}")
    shares = [_percent(side.prefix_ppm) for side in (before, after)]
    lines.append(f"{'shared with pack before':<24}{shares[0]:>12}{shares[1]:>12}")
    return lines


def _percent(ppm: int | None) -> str:
    return "-" if ppm is None else f"{ppm / 10_000:.1f} %"


def _row(row: Tried) -> list[str]:
    assert row.before is not None
    assert row.after is not None
    tokens = f"{row.before.tokens:,} -> {row.after.tokens:,} tokens"
    about = f"{row.report} (event {row.seq}{f', {row.session}' if row.session else ''})"
    lines = [f"{one_line(about)}: {tokens}"]
    for mark, some in (("+", row.enters), ("-", row.leaves)):
        best = sorted(some, key=_by_tokens)[:_MOVED_SHOWN]
        lines += [f"  {mark} {one.section}  {one_line(one.name)}  {one.tokens}" for one in best]
        if len(some) > len(best):
            lines.append(f"  {mark} and {len(some) - len(best)} more")
    return lines


def _by_tokens(moved: Moved) -> tuple[int, str]:
    return -moved.tokens, moved.name
