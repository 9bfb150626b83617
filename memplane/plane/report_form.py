"""Whether JSON is a report that can be worked with: files in reports/ may come from anywhere."""

from __future__ import annotations

from typing import Any, Final

from memplane.policy import NAMES

__all__ = ["mistake_in"]

_WORDS: Final = {dict: "a mapping", list: "a list", str: "a text", int: "a whole number"}
_TOP: Final[dict[str, type]] = {
    "request": dict, "log": dict, "policies": dict, "views": dict, "entries": list,
    "prefix": dict, "omissions": dict, "gaps": list, "budget": int, "tokens": int, "channel": str,
    "acb_sha256": str,
}  # fmt: skip
_PREFIX: Final[dict[str, type]] = {
    "anchor_seq": int, "epoch_seq": int, "prompt_seq": int, "shed_seq": int, "map_shed_seq": int,
    "breakpoints": list, "stable_bytes": dict,
}  # fmt: skip
# What saved reports have beside it, all or none of it.
_COMPARED: Final = ("common_tokens", "share_ppm", "stable_kept", "break", "compared_with")
_ENTRY: Final[dict[str, type]] = {"events": list, "parts": list, "area": str, "section": str}


def mistake_in(report: object) -> str | None:
    """What is wrong with it, None where nothing is: only what readers of reports rely on."""
    if not isinstance(report, dict):
        return "other JSON"
    return (
        _typed(report, _TOP, "")
        or _typed(report["log"], {"seq": int, "h": str}, "log.")
        or _typed(report["prefix"], _PREFIX, "prefix.")
        or _entries(report["entries"])
        or _hashes(report)
        or _chain(report)
    )


def _typed(values: dict[str, Any], form: dict[str, type], place: str) -> str | None:
    for name, kind in form.items():
        found = values.get(name)
        if not isinstance(found, kind) or isinstance(found, bool):
            return f"no {place}{name} that is {_WORDS[kind]}"
    return None


def _entries(entries: list[Any]) -> str | None:
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            return f"no mapping as entries[{number}]"
        odd = _typed(entry, _ENTRY, f"entries[{number}].")
        if odd is not None:
            return odd
    return None


def _hashes(report: dict[str, Any]) -> str | None:
    missing = [name for name in NAMES if name not in report["policies"]]
    if missing:
        return f"no hash of {missing[0]} among policies"
    every = (*report["policies"].values(), *report["views"].values())
    if not all(isinstance(one, str) and _is_hash(one) for one in every):
        return "a policy or view without its SHA-256"
    return None


def _is_hash(text: str) -> bool:
    return len(text) == 64 and all(digit in "0123456789abcdef" for digit in text)


def _chain(report: dict[str, Any]) -> str | None:
    prefix = report["prefix"]
    if "chain" not in prefix:
        return None
    rows = prefix["chain"]
    if not isinstance(rows, list) or len(rows) != len(report["entries"]):
        return "no prefix.chain with a row for each entry"
    if not all(isinstance(row, list) and list(map(type, row)) == [int, int, str] for row in rows):
        return "a row of prefix.chain that is not a byte, tokens and a hash"
    lacks = [name for name in _COMPARED if name not in prefix]
    return f"no prefix.{lacks[0]}" if lacks else None
