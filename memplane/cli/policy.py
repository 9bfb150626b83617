"""`memplane policy`, `schema`, `trust`: mistakes, values, changes; planes from elsewhere.

`memplane trust` and `policy accept` show a plane from elsewhere, then use it. Text of such a plane
is untrusted: secrets in it are masked, and characters that could control a terminal are escaped.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson

from memplane import home as homes, nofollow
from memplane.cli.commands import FINE, NO, Argument, Home, Html, Json, Option, command
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
from memplane.clock import clock
from memplane.errors import (
    HomeError,
    InputError,
    MemplaneError,
    PolicyError,
    UntrustedError,
    WriteError,
)
from memplane.home import SCHEMAS, open_home, schema, schema as schema_of
from memplane.intake.redact import masked
from memplane.lazy import late
from memplane.policy import NAMES, PolicyValue, as_yaml, variables
from memplane.policy.document import meant
from memplane.trust import (
    TrustStore,
    is_own_plane,
    location_of,
    named_plane,
    printable,
    shell_word,
    upward,
)
from memplane.wiring import find_home, open_plane, user_folder

if TYPE_CHECKING:
    from memplane import wiring
    from memplane.cli import figures
    from memplane.explain import history, replay
    from memplane.explain.history import PolicyChange, PolicyCommit, TrustSurvey
    from memplane.explain.replay import Moved, Trial, Tried
else:
    history = late("memplane.explain.history")
    replay = late("memplane.explain.replay")
    figures = late("memplane.cli.figures")
    wiring = late("memplane.wiring")


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


_TRUSTED_LINES_SHOWN: Final = 200  # of a view
_COLUMNS: Final = 2_000  # of a line
_Yes = Annotated[bool, Option("--yes", help="Take it without asking.")]


@command("trust", example="trust --list")
def trust(
    paths: Annotated[
        list[str] | None,
        Argument(metavar="[PATH]...", help="Planes; else the nearest one here or above."),
    ] = None,
    *,
    found: Annotated[
        bool, Option("--found", help="The planes that were met so far and not trusted.")
    ] = False,
    listed: Annotated[bool, Option("--list", help="List the planes you trust.")] = False,
    revoke: Annotated[bool, Option("--revoke", help="Trust them no longer.")] = False,
    yes: _Yes = False,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Show who made a plane and what its policies and views say; then, if you agree, trust it.

    A plane that hooks, servers and commands find by looking upward is used only if you trust it;
    `init` and `restore` trust what they make. Trusting drops projections/ and index/, which are
    made again, and closes the files to others. Later changes of views, privacy.yaml, channels.yaml
    and the hooks part of plane.yaml count when you have taken them here, or with `memplane policy
    accept`. A plane that is named with --home or MEMPLANE_HOME needs no trust.
    """
    if found + listed + revoke > 1:
        raise InputError("expected one of --found, --list and --revoke")
    if listed:
        return _list(as_json=as_json)
    chosen = [named_plane(path) for path in paths or []] + (
        [] if home is None else [named_plane(home)]
    )
    if revoke:
        return _revoke(chosen or [_nearest()], as_json=as_json)
    if not chosen:
        chosen = _met() if found else [_nearest()]
    surveys = [_survey(path) for path in chosen]
    if found and not surveys:
        say("no plane was met that you do not trust")
    taken = [_shown_and_taken(one, yes=yes, as_json=as_json) for one in surveys]
    if as_json:
        print_answer(
            [{**_facts(one), "trusted": now} for one, now in zip(surveys, taken, strict=True)],
            "",
            as_json=True,
        )
    return FINE if all(taken) else NO


@command("accept", example="policy accept --yes", group="policy")
def accept(*, yes: _Yes = False, home: Home = None, as_json: Json = False) -> int:
    """Show what differs from the policies and views that you trusted, and take it.

    For a plane that is found by looking upward: its views, privacy.yaml, channels.yaml and the
    hooks part of plane.yaml count as you trusted them until then.
    """
    found = _survey(wiring.find_plane(home).folder)
    taken = True
    if found.own:
        say(f"{found.location}: is your own plane; its policies and views count as they are")
    elif found.kept is None:
        say(
            f"{printable(found.location)}: is used as it is where it is named; where it is found "
            f"it is not trusted: `memplane trust {shell_word(found.location)}`"
        )
    elif found.mistakes:
        raise PolicyError(found.mistakes)  # nothing would be packed under them
    else:
        taken = _shown_and_taken(found, yes=yes, as_json=as_json)
    if as_json:
        changed = [one._asdict() for one in found.changes]
        print_answer(
            {"home": found.location, "changes": changed, "accepted": taken}, "", as_json=True
        )
    return FINE if taken else NO


def ask_once(error: UntrustedError) -> bool:
    """Show a plane that was met, on a terminal, and ask: once. True where it is trusted now.

    Elsewhere nothing is asked. The plane is noted, for `memplane trust --found`.
    """
    store = TrustStore(os.environ)
    asks = _asks() and not error.fault and not store.was_asked(error.path)
    try:
        store.meet(error.path, asked=asks)
    except WriteError:
        return False  # to ask each time would be worse than not to ask
    if not asks:
        return False
    say(
        f"{printable(error.path)} is a plane that you have not trusted: made by an earlier "
        "memplane, or from elsewhere. This is asked once"
    )
    try:
        return _shown_and_taken(_survey(error.path), yes=False, as_json=False, out=sys.stderr)
    except MemplaneError as fault:
        say(masked(str(fault)))
        return False


def say_if_untrusted(path: str) -> None:
    """Say of a plane that was made around files that were there that it is not trusted."""
    found = upward(os.environ, path, user_folder())
    if found.passed is not None and not found.fault:
        apart = Path(path) / ".memplane"
        beside = (
            ""
            if Path(path).name == apart.name
            else f". Apart from a folder's other files: `memplane init {shell_word(str(apart))}`"
        )
        say(
            f"{printable(path)}: files were there before the plane, so it is not used where it is "
            f"found by looking upward until you trust it: `memplane trust {shell_word(path)}` "
            f"shows what its files say{beside}"
        )


def _asks() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _nearest() -> str:
    if given := os.environ.get("MEMPLANE_HOME"):
        return named_plane(given)
    here = os.getcwd()  # noqa: PTH109 - a text is asked for
    found = homes.nearest_home(here)
    if found is None:
        raise HomeError(f"{here}: no plane here or above; name one: `memplane trust PATH`")
    return found


def _met() -> list[str]:
    store = TrustStore(os.environ)
    paths = [one.location for one in store.met()]
    with suppress(HomeError):
        nearest = location_of(_nearest())
        if nearest not in paths:
            paths.append(nearest)
    return [path for path in paths if not _is_trusted(path, store)]


def _is_trusted(path: str, store: TrustStore) -> bool:
    return is_own_plane(path, user_folder()) or store.get(path)[0] is not None


def _survey(path: str) -> TrustSurvey:

    return history.survey_plane(
        path, os.environ, clock=clock, user=user_folder(), loads=orjson.loads
    )


def _shown_and_taken(found: TrustSurvey, *, yes: bool, as_json: bool, out: Any = None) -> bool:
    """Print what the plane is, ask unless `yes`, and trust it; True where it is trusted then."""
    if not as_json:
        print(_words(found), file=out or sys.stdout, flush=True)
    if found.own or not found.differs:
        return True
    if not yes:
        if as_json or not _asks():
            say(f"{printable(found.location)}: nothing was changed; --yes takes it")
            return False
        sys.stderr.write("Trust this? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            say("not trusted; nothing was changed")
            return False
    history.trust_plane(found, os.environ, clock())
    if not as_json:
        say(f"{printable(found.location)}: trusted")
    return True


def _list(*, as_json: bool) -> int:
    store = TrustStore(os.environ)
    rows: list[dict[str, Any]] = [
        {
            "path": one.location,
            "plane": one.plane,
            "trusted": one.at,
            "there": os.path.isfile(os.path.join(one.location, "plane.json")),  # noqa: PTH113, PTH118
        }
        for one in store.records()
    ]
    lines = [
        f"{row['trusted'][:10]}  {printable(str(row['path']))}{'' if row['there'] else '  (gone)'}"
        for row in rows
    ]
    print_answer(rows, "\n".join(lines), as_json=as_json)
    for fault in store.faults():
        say(f"cannot be used: {fault}")
    return FINE


def _revoke(paths: list[str], *, as_json: bool) -> int:
    store = TrustStore(os.environ)
    gone = [path for path in map(location_of, paths) if store.drop(path)]
    kept = [path for path in map(location_of, paths) if path not in gone]
    words = "\n".join(f"{printable(path)}: trusted no longer" for path in gone)
    print_answer({"revoked": gone}, words, as_json=as_json)
    for path in kept:
        say(f"{printable(path)}: was not trusted")
    return NO if kept else FINE


def _facts(found: TrustSurvey) -> dict[str, Any]:
    """The same as plain JSON values, secrets masked."""
    changed = [{**one._asdict(), "words": masked(one.words)} for one in found.changes]
    for one in changed:
        del one["before"], one["after"]
    return {
        "path": found.location,
        "plane": found.home.plane_id,
        "created": found.created,
        "memplane": found.memplane,
        "owner": found.owner,
        "own": found.own,
        "tracked": found.tracked,
        "events": found.events,
        "first": found.first or None,
        "last": found.last or None,
        "was": None if found.kept is None else found.kept.at,
        "changes": changed,
        "views": {name: masked(text) for name, text in found.views.items()},
        "lost": list(found.lost),
    }


def _words(found: TrustSurvey) -> str:
    if found.own:
        return f"{printable(found.location)}: your own plane, which needs no trust"
    if found.kept is not None and not found.differs:
        return f"{printable(found.location)}: trusted since {found.kept.at[:10]}; nothing changed"
    git = {None: "in no repository", True: "its log is in git", False: "its log is not in git"}
    rows = {
        "plane": f"{printable(found.location)}",
        "id": printable(found.home.plane_id),
        "made": printable(f"{found.created[:19]} by memplane {found.memplane}"),
        "owner": f"user id {found.owner}, {git[found.tracked]}",
        "events": "not counted: the log has more than 1 GB"
        if found.events is None
        else f"{found.events}"
        + (f", {found.first[:10]} to {found.last[:10]}" if found.events else ""),
    }
    if found.kept is not None:
        rows["trusted"] = f"since {found.kept.at[:19]}; what follows is otherwise now"
    lines = [f"{name:<8}  {value}" for name, value in rows.items()]
    lines += ["", "policies" if found.kept is None else "changed"]
    lines += _changes(found) or ["  as memplane ships them"]
    for name, text in found.views.items():
        lines += ["", f"{printable(name)}, as it would be shown to agents", *_quoted(text)]
    lines += [f"{printable(name)}: cannot be read" for name in found.lost]
    return "\n".join(lines)


def _changes(found: TrustSurvey) -> list[str]:
    lines = []
    for one in found.changes:
        said = masked(str(one)).split("\n")
        lines += [f"  {printable(line[:_COLUMNS])}" for line in said]
        if one.file.startswith("views/"):
            for mark, some in (("-", one.before or []), ("+", one.after or [])):
                lines += _quoted("\n".join(some), mark)
    return lines


def _quoted(text: str, mark: str = "|") -> list[str]:
    """Lines of a stranger's text, each behind a mark."""
    lines = masked(text).split("\n")
    shown = [f"  {mark} {printable(line[:_COLUMNS])}" for line in lines[:_TRUSTED_LINES_SHOWN]]
    if len(lines) > _TRUSTED_LINES_SHOWN:
        shown.append(
            f"  {mark} AND {counted(len(lines) - _TRUSTED_LINES_SHOWN, 'MORE LINE')}: read them"
        )
    return shown
