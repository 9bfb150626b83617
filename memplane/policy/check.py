"""Doubts that `memplane policy check` names beside the mistakes that stop a pack.

A doubt is a value that is valid but hardly intended: a view that does not exist, a channel without
a rule of its own, shares in some sections only, a default block larger than the total, hooks that
answer for an unknown channel or end before they have recorded.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.policy.document import Fault, Path, closest, found_value, meant, problems, text_items
from memplane.policy.files import NAMES, blame, documents
from memplane.policy.records import Budgets, Channels, Hooks, Privacy, channel_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from memplane.errors import Problem
    from memplane.policy.document import Json
    from memplane.policy.files import Documents

__all__ = ["PolicyCheck", "check_files"]

# Named by memplane's own policies before anybody has written them.
_EXPECTED_VIEWS: Final = frozenset(chain.from_iterable(Channels().views.values()))
_BUDGETS: Final = Budgets()
_HOOKS: Final = Hooks()


class PolicyCheck(NamedTuple):
    """`mistakes` stop packing, `doubts` do not; `unwritten` are the usual views not yet there."""

    mistakes: list[Problem]
    doubts: list[Problem]
    unwritten: list[str]


def check_files(
    files: Mapping[str, bytes | None],
    *,
    defaults: Mapping[str, bytes],
    schemas: Mapping[str, bytes],
    overrides: Mapping[str, str],
    views: Collection[str],
) -> PolicyCheck:
    """Check the files, and what they name against the views that exist; looks into no cache."""
    found = documents(files, defaults=defaults, schemas=schemas, overrides=overrides)
    broken = {problem.file for problem in found.problems}
    named = {name: list(_views_named(name, found.documents[name])) for name in NAMES}
    every = {view for rows in named.values() for _, view in rows}
    faults: dict[str, list[Fault]] = {name: _missing(named[name], every, views) for name in NAMES}
    if not broken & {"channels.yaml", "privacy.yaml"}:
        faults["channels.yaml"] += _without_rule(found)
    if not broken & {"budgets.yaml", "environment"}:
        faults["budgets.yaml"] += _of_budgets(found.effective["budgets.yaml"])
    if not broken & {"channels.yaml", "plane.yaml", "environment"}:
        faults["plane.yaml"] += _of_hooks(found)
    doubts = [problem for name in NAMES for problem in _placed(name, faults[name], found)]
    unwritten = sorted((every & _EXPECTED_VIEWS) - set(views))
    return PolicyCheck(found.problems, doubts, unwritten)


def _placed(name: str, faults: list[Fault], found: Documents) -> list[Problem]:
    own = found.of(name)
    paths = {override.path for override in own}
    root = found.roots[name]
    written = [fault for fault in faults if fault.path not in paths]
    placed = [] if root is None else problems(name, root, written)
    return placed + [blame(fault, own) for fault in faults if fault.path in paths]


def _views_named(name: str, document: Any) -> Iterator[tuple[Fault, str]]:
    """The views that a file names, each with the place where it does."""
    top = document if isinstance(document, dict) else {}
    lists: list[tuple[Path, Any]] = []
    if name == "budgets.yaml":
        lists = [(("sections", section, "views"), row) for section, row in _rows(top, "sections")]
    elif name == "channels.yaml":
        rows = top.get("channels")
        listed = enumerate(rows if isinstance(rows, list) else ())
        lists = [(("channels", at, "default_load_views"), row) for at, row in listed]
    elif name == "privacy.yaml":
        rules = _rows(top.get("load"), "channel_rules")
        lists = [(("load", "channel_rules", rule, "suppress_views"), row) for rule, row in rules]
    for path, row in lists:
        views = row.get(str(path[-1])) if isinstance(row, dict) else None
        for at, view in text_items(views):
            yield Fault((*path, at), ""), view


def _rows(above: Any, key: str) -> list[tuple[str, Any]]:
    rows = above.get(key) if isinstance(above, dict) else None
    return list(rows.items()) if isinstance(rows, dict) else []


def _missing(
    named: list[tuple[Fault, str]], every: Collection[str], views: Collection[str]
) -> list[Fault]:
    """Name the views without a file; the usual ones only where a file beside them may be meant."""
    found = []
    for fault, view in named:
        if view in views:
            continue
        unnamed = views if view not in _EXPECTED_VIEWS else [v for v in views if v not in every]
        # Without what all of them share, which would make any two names look alike.
        near = closest(_stem(view), {_stem(one): one for one in unnamed})
        if near is not None or view not in _EXPECTED_VIEWS:
            hint = f"; did you mean `views/{near}.md`?" if near is not None else ""
            message = f"expected a view that exists, found {found_value(view)}: no such file{hint}"
            found.append(fault._replace(message=message))
    return found


def _stem(view: str) -> str:
    return view.removeprefix("views/").removesuffix(".md")


def _without_rule(found: Documents) -> Iterator[Fault]:
    """Name the channels that no rule stands for, where the files have rules."""
    channels = found.effective["channels.yaml"].get("channels", [])
    load = found.effective["privacy.yaml"].get("load", {})
    rules = load.get("channel_rules", Privacy().rules)
    for at, row in enumerate(channels):
        name = row["name"]
        if name not in rules:
            unused = [rule for rule in rules if rule not in {other["name"] for other in channels}]
            said = "the rule of `agent` applies" if "agent" in rules else "high and secret stay out"
            message = f"expected a rule in privacy.yaml, found none for {found_value(name)}: {said}"
            yield Fault(("channels", at, "name"), f"{message}{meant(name, unused)}")


def _of_hooks(found: Documents) -> Iterator[Fault]:
    """Name a channel of the hooks that is none, and a wait for the log that outlasts a hook."""
    hooks = found.effective["plane.yaml"].get("hooks", {})
    known = channel_names(found.effective["channels.yaml"]) or ()
    channel = hooks.get("channel", _HOOKS.channel)
    usual = Channels().views  # known whether or not the file lists them
    if channel not in (*known, *usual):
        listed = ", ".join(f"`{name}`" for name in dict.fromkeys((*known, *usual)))
        what = f"expected a channel ({listed}), found {found_value(channel)}"
        message = f"{what}: hooks record, and answer nothing{meant(channel, (*known, *usual))}"
        yield Fault(("hooks", "channel"), message)
    wait = hooks.get("wait_ms", _HOOKS.wait_ms)
    most = hooks.get("milliseconds_max", _HOOKS.milliseconds_max)
    if wait >= most:
        key = "wait_ms" if "wait_ms" in hooks else "milliseconds_max"
        what = f"expected wait_ms below milliseconds_max, found {wait} and {most}"
        yield Fault(("hooks", key), f"{what}: a hook would end while it waits and lose the event")


def _of_budgets(document: Json) -> Iterator[Fault]:
    total = document.get("acb_total_max_tokens", _BUDGETS.acb_total_max_tokens)
    room = total - document.get("reserve_tokens", _BUDGETS.reserve_tokens)
    asked = document.get("default_pack_tokens", 0)
    if asked > room:
        why = "what `reserve_tokens` leaves of `acb_total_max_tokens`"
        yield Fault(
            ("default_pack_tokens",), f"expected at most {room}, {why}, found {found_value(asked)}"
        )
    sections = document.get("sections", {})
    shares = {name: row["share"] for name, row in sections.items() if "share" in row}
    for name in sections:
        if shares and name not in shares:
            others = f"{len(shares)} of {len(sections)} sections"
            what = f"missing; expected a share in every section or in none, found one in {others}"
            yield Fault(("sections", name, "share"), f"{what}: this one follows its max_tokens")
    if len(sections) > 1 and len(shares) == len(sections) and not any(shares.values()):
        yield Fault(
            ("sections",), "expected a share above 0, found none: all sections count the same"
        )
