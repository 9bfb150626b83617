"""`memplane policy` and `schema`: mistakes, effective values, changes and their effect."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from memplane import nofollow
from memplane.cli.commands import FINE, NO, command
from memplane.cli.options import Argument, Home, Html, Json, Option
from memplane.cli.output import (
    Bar,
    TableColumn,
    clipped_line,
    counted,
    print_answer,
    print_list,
    say,
    write_figures,
)
from memplane.errors import InputError, PolicyError
from memplane.explain.history import PolicyChange, PolicyCommit
from memplane.explain.replay import Moved, Trial, Tried
from memplane.home import SCHEMAS, open_home, schema, schema as schema_of
from memplane.lazy import late
from memplane.policy import NAMES, variables
from memplane.policy.document import meant
from memplane.policy.files import PolicyValue, as_yaml
from memplane.wiring import find_home, open_plane

if TYPE_CHECKING:
    from memplane.explain import history, replay
    from memplane.inspect import figures
else:
    history = late("memplane.explain.history")
    replay = late("memplane.explain.replay")
    figures = late("memplane.inspect.figures")

_VALUE_SHOWN = 40  # characters of a default
_STEMS = [name.removesuffix(".yaml") for name in NAMES]


@command("check", example="policy check", group="policy")
def check_policies(*, home: Home = None, as_json: Json = False) -> int:
    """List every mistake in the policies; exit 1 if there is one.

    Most stop packs. A view that is not there, a channel without a rule, odd shares do not. Where
    there is none, the keys that a file leaves out are named, with the defaults that act for them.
    """
    with open_plane(home) as plane:
        found = plane.upkeep.check_policies()
        rows = [] if found.mistakes else plane.upkeep.policy_values()
        hashes = {} if found.mistakes else dict(sorted(plane.upkeep.policies.hashes.items()))
        unwritten = [name for name in NAMES if not os.path.lexists(plane.home / "policies" / name)]
        old = _other_schemas(plane.home)
    problems = [*found.mistakes, *found.doubts]
    defaults = [row for row in rows if row.origin == "default" and row.file not in unwritten]
    answer: dict[str, Any] = {
        "ok": not problems,
        "packs": not found.mistakes,
        "problems": [problem._asdict() for problem in problems],
        "defaults": [_json(row) for row in defaults],
    }
    if problems:
        print_answer(answer, "\n".join(map(str, problems)), as_json=as_json)
        _say_defaults(defaults)
        if not found.mistakes:
            say("packs go on under these policies; say what was meant, so that they do it")
        return NO
    words = f"{len(NAMES)} policies, no mistakes"
    if unwritten:
        words += f"; not there, so memplane's own defaults: {', '.join(unwritten)}"
    if found.unwritten:
        words += f"; views not written yet: {', '.join(found.unwritten)}"
    print_answer(
        {**answer, "hashes": hashes, "views_unwritten": found.unwritten}, words, as_json=as_json
    )
    _say_defaults(defaults)
    if old:
        say(f"editors check by other schemas: delete {', '.join(old)} and run `memplane init`")
    return FINE


@command("show", example="policy show budgets", group="policy")
def print_policies(
    file: Annotated[
        str | None,
        Argument(metavar="FILE", help="One of: budgets privacy channels scoring plane."),
    ] = None,
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print every value in force, and whether a file, a variable or a default says so.

    What is longer than a line is cut; --json has it whole.
    MEMPLANE_<FILE>__<KEY> stands before a file: MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS=6000.
    """
    stem = None if file is None else file.removeprefix("policies/").removesuffix(".yaml")
    if stem is not None and stem not in _STEMS:
        known = ", ".join(_STEMS)
        raise InputError(f"expected one of {known}, found {file!r}{meant(stem, _STEMS)}")
    with open_plane(home) as plane:
        found = plane.upkeep.policy_values()
    rows = [row for row in found if stem is None or row.file == f"{stem}.yaml"]
    print_list(
        [_json(row) for row in rows],
        _values_words(rows),
        _VALUES,
        [(row.name, "\n".join(_value_lines(row)), row.source) for row in rows],
        as_json=as_json,
    )


@command("log", example="policy log --limit 5", group="policy")
def print_policy_log(
    limit: Annotated[
        int, Option("--limit", metavar="N", min=1, help="Commits at most, newest first.")
    ] = 20,
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the commits that touched policies or views, and what each changed.

    A value is told as it held: where a file leaves a key out, as memplane's default.
    """
    repository = history.PolicyRepository(open_home(find_home(home)).path)
    found = list(history.policy_history(repository, limit))
    if not found:
        why = "git ignores them" if repository.ignored() else "commit them to keep their history"
        say(f"no commit has policies or views of {repository.home}: {why}")
    words = "\n".join(commit_words(one, told) for one, told in found)
    print_answer([commit_json(*one) for one in found], words, as_json=as_json)


@command("diff", example="policy diff HEAD~1 HEAD", group="policy")
def diff(
    old: Annotated[
        str, Argument(metavar="[A]", help="A revision, `now` or a folder; else HEAD.")
    ] = "HEAD",
    new: Annotated[
        str, Argument(metavar="[B]", help="Likewise; else `now`: what lies in the home.")
    ] = "now",
    *,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say what differs in policies and views, key by key, with the old and the new value."""
    folder = open_home(find_home(home)).path
    before, after = history.policy_version(folder, old), history.policy_version(folder, new)
    found = history.changes(before, after)
    words = "\n".join(map(change_words, found)) or f"no difference between {before} and {after}"
    answer = {"from": before.name, "to": after.name, "changes": [one._asdict() for one in found]}
    print_answer(answer, words, as_json=as_json)


@command("replay", example="policy replay --last 20 --from HEAD~1 --to HEAD", group="policy")
def replay_policies(
    most: Annotated[
        int, Option("--last", metavar="N", min=1, help="How many saved packs, newest first.")
    ] = 50,
    old: Annotated[
        str, Option("--from", metavar="A", help="A revision, `now` or a folder.")
    ] = "HEAD",
    new: Annotated[
        str, Option("--to", metavar="B", help="Likewise; `now` is what lies in the home.")
    ] = "now",
    shown: Annotated[
        int, Option("--show", metavar="N", min=0, help="Packs shown, largest change first.")
    ] = 5,
    *,
    html: Html = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Pack saved requests again under two policies: what enters, what leaves, what it costs.

    Each at its own place in the log and by its own clock. A folder has policies/ and views/; what
    it lacks is as in the home. Nothing is written.
    """
    with open_plane(home) as plane:
        before, after = (
            history.policy_version(plane.home, old),
            history.policy_version(plane.home, new),
        )
        aside = list(variables(os.environ))
        if aside:
            say(f"not of any version, so not heeded here: {', '.join(aside)}")
        asked = replay.last(plane.home, most)
        if not asked:
            say("no report is saved yet; `memplane pack` saves one")
        if history.say_the_same(before, after):
            say(f"{before} and {after} say the same")
            asked = []
        if asked:
            with suppress(PolicyError), Bar("index") as bar:  # of the home now, which need not do
                plane.upkeep.index(bar)
        with Bar("pack") as bar:
            found = replay.trial(plane, asked, before, after, progress=bar)
    print_answer(found.as_json(), trial_words(found, shown), as_json=as_json)
    write_figures(html, lambda: figures.trial_page(found.as_json()))


def _say_defaults(rows: list[PolicyValue]) -> None:
    """Name what the files leave out; a value by itself where it is short, several by their key."""
    groups: dict[str, list[PolicyValue]] = {}
    for row in rows:
        top = re.split(r"[.\[]", row.key, maxsplit=1)[0]
        groups.setdefault(f"{row.file.removesuffix('.yaml')}.{top}", []).append(row)
    named = []
    for name, some in groups.items():
        stem, value = name.partition(".")[0], as_yaml(some[0].value)
        if len(some) > 1:
            named.append(f"{name} ({len(some)} values)")
        else:
            named.append(f"{stem}.{some[0].key}" + f": {value}" * (len(value) <= _VALUE_SHOWN))
    if named:
        say(f"not in the files, so defaults act (`memplane policy show`): {', '.join(named)}")


def _other_schemas(home: Path) -> list[str]:
    """The schemas of the home that are not this memplane's: of an older one, or changed by hand."""
    files = {f"schemas/{name}.schema.json": name for name in SCHEMAS}
    there = [file for file in files if nofollow.is_file(home / file)]
    return [file for file in there if nofollow.read_bytes(home / file) != schema(files[file])]


_VALUES: Final = (
    TableColumn("key"),
    TableColumn("value", wraps=True),
    TableColumn("set by", dim=True),
)
_SOURCE_AT: Final = 56  # the column in which the source of a short value begins
_ITEM: Final = 160  # characters shown of an item of a long list; --json has it whole


def _values_words(rows: list[PolicyValue]) -> str:
    """A line a value, with its source behind `#`; a long list has a line an item."""
    lines = []
    for row in rows:
        first, *items = _value_lines(row)
        head = f"{row.name}: {first}".rstrip() if not items else f"{row.name}:"
        lines.append(f"{head:<{_SOURCE_AT}}  # {row.source}")
        lines += [f"  - {item}" for item in (first, *items)] if items else []
    return "\n".join(lines)


def _value_lines(row: PolicyValue) -> list[str]:
    """The value as YAML: one line, or a line an item of a list that is too long for one."""
    whole = as_yaml(row.value)
    if len(whole) <= _VALUE_SHOWN * 2 or not isinstance(row.value, list) or len(row.value) < 2:
        return [clipped_line(whole, _ITEM)]
    return [clipped_line(as_yaml(item), _ITEM) for item in row.value]


def _json(row: PolicyValue) -> dict[str, Any]:
    return {**row._asdict(), "file": f"policies/{row.file}"}


# What `memplane policy log`, `diff` and `replay` print.

_LINES_SHOWN: Final = 20  # of a view, that came or went
_MOVED_SHOWN: Final = 5  # entries that came or went, in each pack
_WIDTH: Final = 300


def commit_words(one: PolicyCommit, told: list[PolicyChange] | None) -> str:
    """A commit and its changes as text."""
    head = clipped_line(f"{one.hash[:8]}  {one.at}  {one.author}  {one.subject}")
    if told is None:
        return f"{head}\n  the first commit of a shallow clone: what it changed is not known here"
    said = [line for each in told for line in change_words(each, lines=0).split("\n")]
    return "\n".join([head, *(f"  {line}" for line in said or ["nothing that memplane reads"])])


def commit_json(one: PolicyCommit, told: list[PolicyChange] | None) -> dict[str, Any]:
    """A commit and its changes as JSON values; `changes` is null where they are not known."""
    changed = None if told is None else [each._asdict() for each in told]
    return {
        "hash": one.hash,
        "at": one.at,
        "author": one.author,
        "subject": one.subject,
        "changes": changed,
    }


def change_words(one: PolicyChange, lines: int = _LINES_SHOWN) -> str:
    """A change as text; of a view with at most `lines` changed lines."""
    said = [
        clipped_line(line, _WIDTH) if at == 0 else f"  {clipped_line(line, _WIDTH)}"
        for at, line in enumerate(str(one).split("\n"))
    ]
    if one.file.startswith("views/") and lines:
        for mark, some in (("-", one.before or []), ("+", one.after or [])):
            said += [f"  {mark} {clipped_line(line)}" for line in some[:lines]]
            if len(some) > lines:
                said.append(f"  {mark} and {len(some) - lines} more")
    return "\n".join(said)


def trial_words(found: Trial, shown: int) -> str:
    """The summary of a trial, and the `shown` packs that changed most."""
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
    lines += [
        f"not packed: {row.report}: {clipped_line(row.why)}" for row in failed[: max(shown, 1)]
    ]
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
    lines = [f"{clipped_line(about)}: {tokens}"]
    for mark, some in (("+", row.enters), ("-", row.leaves)):
        best = sorted(some, key=_by_tokens)[:_MOVED_SHOWN]
        lines += [f"  {mark} {one.section}  {clipped_line(one.name)}  {one.tokens}" for one in best]
        if len(some) > len(best):
            lines.append(f"  {mark} and {len(some) - len(best)} more")
    return lines


def _by_tokens(moved: Moved) -> tuple[int, str]:
    return -moved.tokens, moved.name


# `memplane schema`: the JSON Schemas of what memplane reads and writes.


@command("schema", example="schema event")
def print_schema(
    name: Annotated[
        str | None, Argument(metavar="[NAME]", help="Which one; without it, their names.")
    ] = None,
    *,
    home: Home = None,  # noqa: ARG001 - as everywhere; schemas are memplane's own, not a plane's
    as_json: Json = False,
) -> None:
    """Print the JSON Schema of a format: it needs no other file. Without a name, list them.

    Policies and scenarios, events as the log holds and takes them, blocks, reports and the hotset.
    `memplane init` puts all of them into schemas/ of the plane, for editors.
    """
    if name is None:
        print_answer(list(SCHEMAS), "\n".join(SCHEMAS), as_json=as_json)
        return
    data = schema_of(name.removesuffix(".schema.json"))
    print_answer(json.loads(data), data.decode().rstrip("\n"), as_json=as_json)
