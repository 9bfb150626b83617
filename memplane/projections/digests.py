"""What a digest of a session is made of: bounded quotes of its events, and nothing written.

A fold of the log, so that a better rule improves sessions that were recorded long ago. Of each
session it keeps, apart for each group of events that are open to the same readers:

    titles      the client's own titles, and headings of plans that a person accepted
    asked       the first prompts with something to do; first and last: the words of these
    reports     the last reports of the agent: what they came to, and what they leave open
    answers     its last short answer that tells something
    deferred    what a person put off
    plans       the last state of each to-do list
    decisions   the last decisions
    failures    checks that failed and did not pass since (`memplane.projections.checks`)
    done        commits and pull requests
    issues      the issue that its branch is named after, by the title that the agent gave to it
    files       files that were changed, each with the branch and the number of edits
    branches    the branch that was worked on last
    standing    what its people want from now on, by their own words; wishes: what else they said,
                which stands where it is said again
    missed      calls that went to a file that is not there, or were wrong: they wait for their mend
    traps       the same, once a later call did it right; `mends` has that one
    bites       rules that a linter complained of, each till it was green again
    mends       what did it right, or what the agent said of such a rule

The last six outlive the session: `memplane.recall.session_digest` reads them over all sessions.

Who reads composes a digest of the quotes that he may see: `memplane.recall.session_digest`. What
an event that was forgotten or replaced said is left out there, too.

Sessions beyond the newest `KEPT_MAX` are let go of; their digest is folded from their events alone.
Events wait until somebody asks for the quotes (`DigestsState.settle`): of a session that is let go
of before that, only what outlives it is read. A whole log is folded in the time that its last
sessions take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from memplane.event import Event
from memplane.ports import Line
from memplane.projections.checks import (
    ShellCheck,
    blamed,
    checks_in,
    closes,
    command_in,
    is_missing,
    is_variant,
    paths_in,
    rules_in,
    says_green,
    shows_red,
)
from memplane.projections.groups import GROUPS_MAX, HOME, VisibilityGroup, visibility_group
from memplane.projections.projector import canonical
from memplane.projections.reports import (
    clipped_words,
    commits_in,
    ends_in_narration,
    has_outcome,
    heading_of,
    is_deferred,
    is_lasting_wish,
    is_narration,
    is_report,
    issue_of_branch,
    issue_title,
    left_in,
    outcome_of,
    pull_request_in,
    sentences_in,
    title_of,
    wishes_in,
)
from memplane.projections.tasks import CLOSED, STATES, TEXT_CHARS_MAX, EventQuote, status_of

KEPT_MAX: Final = 32  # sessions of most events' group
_OTHERS_PART: Final = 4  # any other group keeps so much less
_CALLS_MAX: Final = 24  # that wait for a result
_COMMAND_MAX: Final = 1_200
_PATH_MAX: Final = 200
_LATE_MAX: Final = 4_000  # characters of a report that waits for its reader
_WAITING_MAX: Final = 1 << 23  # bytes of lines that wait: what 80 sessions of agents have
_TITLE: Final = "title"  # the status of an event that gives a session its name
# How many quotes of each sort are kept; of prompts as many of the first.
PARTS: Final = {
    "titles": 2,
    "asked": 2,
    "first": 1,
    "last": 2,
    "reports": 2,
    "answers": 1,
    "deferred": 3,
    "plans": 2,
    "decisions": 8,
    "failures": 6,
    "done": 12,
    "issues": 1,
    "files": 24,
    "branches": 1,
    "standing": 6,
    "wishes": 8,
    "missed": 6,
    "traps": 8,
    "bites": 8,
    "mends": 16,
}
# What is kept when its session is let go of, and how much of it.
STANDING: Final = {"standing": 48, "wishes": 48, "traps": 24, "bites": 24, "mends": 48}
_TAGS_MAX: Final = 4
_TRAP_CHARS: Final = 160
# What became of the last prompt: nothing yet, a report, or a short word.
OPEN, REPORTED, ANSWERED = range(3)
_FIRST_KEPT: Final = frozenset(("asked", "first"))
_SIDE: Final = frozenset(("sidechain", "reasoning"))
_NOT_ASKED: Final = frozenset(("reason", "meta", "interrupted", "compact"))
_NOT_SAID: Final = frozenset(("command", "meta", "interrupted", "compact"))
_NO_BRANCH: Final = frozenset(("", "HEAD"))  # where none is checked out
_EDITS: Final = frozenset(
    ("edit", "multiedit", "write", "notebookedit", "apply_patch", "str_replace_editor", "create")
)
_PLANNED: Final = "Implement the following plan"
_RESOLVED: Final = frozenset(("resolved", "fixed", "ok"))
_GREEN: Final = "green"
_WRONG: Final = "command not found"  # what a call that waits for its mend gave
_RULES_TOLD: Final = 4
_GREEN_SORTS: Final = frozenset(("test", "lint", "format"))


class _LateReport(EventQuote):
    """A report that is read when somebody asks what it came to: of most only two are kept."""

    __slots__ = ("said",)
    said: str

    @classmethod
    def late(cls, event: Event) -> EventQuote:
        """The same as a quote of the report's outcome, with what it leaves open."""
        quote = cls.of(event, "")
        assert isinstance(quote, _LateReport)
        quote.said = event.text
        del quote.text, quote.whole, quote.more
        return quote

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet."""
        if name not in ("text", "whole", "more"):
            raise AttributeError(name)
        # Two threads may read it at once: each finds the same.
        outcome = outcome_of(self.said)
        self.more = left_in(self.said)
        self.whole = len(outcome) <= TEXT_CHARS_MAX and outcome.strip() == self.said.strip()
        self.text = outcome[:TEXT_CHARS_MAX]
        return getattr(self, name)


class DigestParts:
    """What one group of a session's events gives: quotes by sort, in the order of time.

    `calls`: name of a call -> a quote of it with its command, the file that it names, whether it
    edits that one, and the title that it gives to an issue, until its result comes. `turn`: what
    became of the last prompt, one of `OPEN`, `REPORTED` and `ANSWERED`.
    `waiting`: events behind those that the others are of, and how many bytes their lines have.
    """

    __slots__ = ("calls", "quotes", "turn", "turned", "waiting", "waiting_bytes")

    def __init__(self) -> None:
        self.quotes: dict[str, list[EventQuote]] = {sort: [] for sort in PARTS}
        self.calls: dict[str, EventQuote] = {}
        self.turn, self.turned = REPORTED, ""
        self.waiting: list[Event] = []
        self.waiting_bytes = 0

    def settle(self) -> None:
        """Take in what waits."""
        waiting, self.waiting, self.waiting_bytes = self.waiting, [], 0
        for event in waiting:
            self.add(event)

    def settle_lasting(self, *, wishes: bool) -> None:
        """Take in what waits as far as quotes of `STANDING` depend on it; the others are void.

        Without `wishes` those that users say are void, too.
        """
        waiting, self.waiting, self.waiting_bytes = self.waiting, [], 0
        # Where nothing goes wrong, no call and no answer leaves anything.
        smooth = not (self.quotes["missed"] or self.quotes["bites"]) and not any(
            event.kind == "tool_result" and event.data.get("status") == "error" for event in waiting
        )
        for event in waiting:
            kind = event.kind
            if kind == "message":
                if wishes if event.role == "user" else not smooth:
                    self._said(event, lasting=True)
            elif smooth:
                continue
            elif kind == "tool_call":
                self._called(event, lasting=True)
            elif kind == "tool_result":
                self._answered(event, lasting=True)

    def add(self, event: Event) -> None:
        """Take in an event of the session."""
        kind = event.kind
        self._on_branch(event)
        if kind == "tool_call":
            self._called(event)
        elif kind == "tool_result":
            self._answered(event)
        elif kind == "message":
            self._said(event)
        elif kind == "decision" and event.role != "tool":
            self._put("decisions", EventQuote.of(event, more=list(event.tags[:_TAGS_MAX])))
        elif kind == "task" and isinstance(event.data.get("plan"), list):
            self._planned(event)
        elif kind == "task":
            self._stepped(event)
        elif kind == "session":
            self._named(event)
        if event.refs and event.data.get("status") in _RESOLVED:
            self._drop("failures", lambda one: one.id in event.refs or one.call in event.refs)
        if (
            event.markers
            and "failure" in event.markers
            and event.role != "tool"
            and kind not in ("summary", "session")
        ):
            self._put("failures", EventQuote.of(event))

    def _on_branch(self, event: Event) -> None:
        branch, known = event.data.get("branch"), self.quotes["branches"]
        if (
            isinstance(branch, str)
            and branch not in _NO_BRANCH
            and (not known or known[0].more != [branch])
        ):
            self._put("branches", EventQuote.of(event, "", more=[branch]))

    def _named(self, event: Event) -> None:
        pull_request = event.data.get("pull_request")
        if event.data.get("status") == _TITLE:
            self._put("titles", EventQuote.of(event))
        elif isinstance(pull_request, str) and pull_request:
            url = event.data.get("url")
            named = f"{pull_request} {url[:120]}" if isinstance(url, str) else pull_request
            if all(one.text != named for one in self.quotes["done"]):
                self._put("done", EventQuote.of(event, named))

    def row(self) -> list[Any]:
        quotes = [[one.row() for one in self.quotes[sort]] for sort in PARTS]
        return [
            quotes,
            [[name, call.row()] for name, call in self.calls.items()],
            self.turn,
            self.turned,
        ]

    @classmethod
    def from_row(cls, row: list[Any]) -> DigestParts:
        parts = cls()
        quotes, calls, parts.turn, parts.turned = row
        for sort, rows in zip(PARTS, quotes, strict=True):
            parts.quotes[sort] = [EventQuote(one) for one in rows]
        parts.calls = {name: EventQuote(call) for name, call in calls}
        return parts

    def _put(self, sort: str, quote: EventQuote) -> None:
        kept = self.quotes[sort]
        kept.append(quote)
        if len(kept) > 1 and kept[-2].ts > quote.ts:  # an import adds of the time before
            kept.sort(key=_moment)
        if len(kept) > PARTS[sort]:
            del kept[-1 if sort in _FIRST_KEPT else 0]

    def _takes(self, sort: str, event: Event) -> bool:
        """Whether a quote of an event would be kept where the first ones are."""
        kept = self.quotes[sort]
        return len(kept) < PARTS[sort] or event.ts < kept[-1].ts

    def _turned(self, event: Event, turn: int) -> None:
        """Note what became of the last prompt, where the event is no older than that."""
        if event.ts >= self.turned:
            self.turn, self.turned = turn, event.ts

    def _drop(self, sort: str, goes: Callable[[EventQuote], bool]) -> None:
        kept = self.quotes[sort]
        if kept:
            self.quotes[sort] = [one for one in kept if not goes(one)]

    def _said(self, event: Event, *, lasting: bool = False) -> None:
        tags = frozenset(event.tags)
        if not event.text.strip() or not _SIDE.isdisjoint(tags):
            return
        if event.role == "user":
            if _NOT_SAID.isdisjoint(tags):
                for wish in wishes_in(event.text):
                    self._put(
                        "standing" if is_lasting_wish(wish) else "wishes",
                        EventQuote.of(event, wish),
                    )
            if not lasting and "command" not in tags and _NOT_ASKED.isdisjoint(tags):
                self._asked(event)
        elif event.role == "assistant" and lasting:
            self._explained(event)
        elif event.role == "assistant":
            self._told(event)

    def _asked(self, event: Event) -> None:
        text = event.text
        if text.lstrip().startswith(_PLANNED):
            heading = heading_of(text)
            if heading:
                self._put("titles", EventQuote.of(event, heading))
        elif self._takes("asked", event):
            title = title_of(text)
            if title:
                self._put("asked", EventQuote.of(event, title))
        words = EventQuote.of(event, clipped_words(text, 40))
        self._put("first", words)
        self._put("last", words)
        self._turned(event, OPEN)
        for one in sentences_in(text[:2_000], typed=True):
            if is_deferred(one.text):
                self._put("deferred", EventQuote.of(event, clipped_words(one.text, 30)))
                break

    def _told(self, event: Event) -> None:
        text = event.text
        if self.quotes["failures"] and says_green(text):
            self._drop("failures", lambda one: _check_of(one).sort in _GREEN_SORTS)
        self._explained(event)
        if not is_report(text):
            if not is_narration(text):
                self._turned(event, ANSWERED if self.turn == OPEN else self.turn)
                short = outcome_of(text, telling=True)
                if short:
                    self._put("answers", EventQuote.of(event, short))
            return
        if len(text) <= _LATE_MAX and "body" not in event.data and has_outcome(text):
            self._put("reports", _LateReport.late(event))
        elif outcome := outcome_of(text):
            self._put("reports", EventQuote.of(event, outcome, more=left_in(text)))
        else:
            return
        # One who says what comes next is not at the end.
        narrates = self.turn != REPORTED and ends_in_narration(text)
        self._turned(event, self.turn if narrates else REPORTED)

    def _explained(self, event: Event) -> None:
        """Keep what an agent says of a rule that bit last."""
        last = [one for one in self.quotes["bites"] if not one.call][-_RULES_TOLD:]
        said = [each.text for each in sentences_in(event.text)] if last else []
        for one in last:
            rule = one.more[0].split()
            told = next((each for each in said if any(word in each.split() for word in rule)), "")
            if told:
                quote = EventQuote.of(event, clipped_words(told, 30), call=one.more[0])
                self._put("mends", quote)

    def _planned(self, event: Event) -> None:
        steps = [
            [str(step["step"])[:200], str(step.get("state", "todo"))]
            for step in event.data["plan"]
            if isinstance(step, dict) and step.get("step")
        ]
        self._drop("plans", lambda one: one.call == (event.task or ""))
        quote = EventQuote.of(event, event.text[:200], call=event.task or "", more=steps[:32])
        self._put("plans", quote)

    def _stepped(self, event: Event) -> None:
        """Give steps of a task's plan, by their numbers from 1, the states that an event names.

        A task that is closed leaves no step. The quote stays that of the plan's event, so that
        forgetting that one takes the steps along.
        """
        plans = self.quotes["plans"]
        at = next((at for at, one in enumerate(plans) if one.call == (event.task or "")), None)
        if at is None:
            return
        if status_of(event) in CLOSED:
            del plans[at]
            return
        given = event.data.get("steps")
        if not isinstance(given, dict):
            return
        steps = [list(step) for step in plans[at].more]
        for state in STATES:
            numbers = given.get(state)
            for number in numbers if isinstance(numbers, list) else ():
                if type(number) is int and 1 <= number <= len(steps):
                    steps[number - 1][1] = state
        plans[at] = EventQuote({**plans[at].row(), "more": steps})

    def _called(self, event: Event, *, lasting: bool = False) -> None:
        data = event.data
        call, tool, path = data.get("call"), data.get("tool"), data.get("path")
        if not isinstance(tool, str):
            return
        named = path if isinstance(path, str) and 0 < len(path) <= _PATH_MAX else ""
        edits = bool(named) and tool.lower() in _EDITS
        command = command_in(tool, event.text)[:_COMMAND_MAX]
        if edits and not lasting:
            self._changed(event, named)
        # What lasts has no title, but a call with nothing else waits for its result with one.
        titled = "" if lasting and (command or named) else issue_title(tool, event.text)
        if isinstance(call, str) and call and (command or named or titled):
            more = [command, named, "edits" if edits else "", titled]
            self.calls[call] = EventQuote.of(event, "", more=more)
            if len(self.calls) > _CALLS_MAX:
                del self.calls[next(iter(self.calls))]

    def _changed(self, event: Event, path: str) -> None:
        branch = event.data.get("branch")
        kept = self.quotes["files"]
        before = next((one for one in kept if one.path == path), None)
        edits = 1 if before is None else 1 + int(before.more[1])
        self._drop("files", lambda one: one.path == path)
        named = isinstance(branch, str) and branch not in _NO_BRANCH
        more = [str(branch) if named else "", str(edits)]
        self._put("files", EventQuote.of(event, "", more=more))

    def _answered(self, event: Event, *, lasting: bool = False) -> None:
        call = event.data.get("call")
        known = self.calls.pop(call, None) if isinstance(call, str) else None
        if known is None:
            return
        command, path, edits, titled = known.more
        failed = event.data.get("status") == "error"
        if edits and failed:
            self._drop("files", lambda one: one.seq == known.seq)
        if event.data.get("rejected") or event.text.startswith("[Request interrupted"):
            return
        if failed:
            self._missed(known, command, path, event.text)
        else:
            self._mended(known, command, path)
        if command:
            self._ran(event, known, command, failed=failed, lasting=lasting)
        branch = event.data.get("branch")
        if titled and not failed and not lasting and isinstance(branch, str):
            key = issue_of_branch(branch, event.text)
            if key:
                # The agent's words: a title that a tracker gave may be a stranger's.
                self._put("issues", EventQuote({**known.row(), "text": titled, "more": [key]}))

    def _ran(
        self, event: Event, call: EventQuote, command: str, *, failed: bool, lasting: bool
    ) -> None:
        text = event.text
        asked = bool(self.quotes["bites"] or (self.quotes["failures"] and not lasting))
        if failed:
            check = blamed(command, text)
            if check is not None:
                if asked:
                    self._passed([one for one in checks_in(command) if one != check])
                if not lasting:
                    self._failed(event, check, call)
                if check.sort == "lint":
                    self._bitten(event, check)
            return
        if asked and not shows_red(text):
            self._passed(checks_in(command))
        if not lasting:
            self._finished(event, command)

    def _finished(self, event: Event, command: str) -> None:
        """Keep the commits and pull requests that a command made."""
        text = event.text
        if "git " in command and "commit" in command:
            for one in commits_in(text):
                self._put("done", EventQuote.of(event, one))
                self._turned(event, ANSWERED if self.turn == OPEN else self.turn)
        elif "pr create" in command:
            named = pull_request_in(text)
            if named and all(one.text != f"PR {named}" for one in self.quotes["done"]):
                self._put("done", EventQuote.of(event, f"PR {named}"))

    def _passed(self, checks: list[ShellCheck]) -> None:
        self._drop("failures", lambda one: any(closes(check, _check_of(one)) for check in checks))
        for at, one in enumerate(self.quotes["bites"]):
            if not one.call and any(closes(check, ShellCheck(one.more[1])) for check in checks):
                self.quotes["bites"][at] = EventQuote({**one.row(), "call": _GREEN})

    def _bitten(self, event: Event, check: ShellCheck) -> None:
        """Note the rules that a linter names; one that was not green since bites but once."""
        open_ = [one.more[0] for one in self.quotes["bites"] if not one.call]
        for rule in rules_in(event.text):
            if rule not in open_:
                more = [rule, check.program]
                self._put("bites", EventQuote.of(event, "", more=more))

    def _missed(self, call: EventQuote, command: str, path: str, output: str) -> None:
        """Note a call that went wrong by what it names: a file, or how a program is called."""
        if path or command:
            missing = [path] if path and not command else []
            if command and is_missing(output):
                missing = [one for one in paths_in(command) if one in output][:1]
            if missing and is_missing(output):
                more = ["path", missing[0][:_PATH_MAX], ""]
            elif command and is_variant(f"{command} .", command, output):
                more = ["command", command[:_TRAP_CHARS], ""]
            else:
                return
            self._drop("missed", lambda one: one.more == more)
            self._put("missed", EventQuote({**call.row(), "more": more}))

    def _mended(self, call: EventQuote, command: str, path: str) -> None:
        """Make traps of what was missed, where this call does it right."""
        if not self.quotes["missed"]:
            return
        paths = paths_in(command) if command else [path]
        for one in [*self.quotes["missed"]]:
            sort, wrong, _ = one.more
            if sort == "path":
                right = next((each for each in paths if _is_named_alike(each, wrong)), "")
            else:
                right = command if is_variant(command, wrong, _WRONG) else ""
            if right and len(right) <= _PATH_MAX:
                self.quotes["missed"].remove(one)
                traps = self.quotes["traps"]
                self.quotes["traps"] = [each for each in traps if each.more[:2] != [sort, wrong]]
                more = [sort, wrong, right[:_TRAP_CHARS]]
                self._put("traps", EventQuote({**one.row(), "more": more, "call": call.id}))
                self._put("mends", EventQuote({**call.row(), "more": []}))

    def _failed(self, event: Event, check: ShellCheck, call: EventQuote) -> None:
        """Note what failed as a quote of the call: of the result no word is quoted."""
        self._drop("failures", lambda one: _check_of(one)[:3] == check[:3])
        shown = " ".join((check.program, *check.targets))
        more = [check.program, check.filter, *check.targets[:8]]
        said = {"text": clipped_words(shown, 12)[:200], "more": more, "call": event.id}
        self._put("failures", EventQuote({**call.row(), **said}))


def _check_of(quote: EventQuote) -> ShellCheck:
    """The check of a failure; of one that was only told, one that nothing closes."""
    if not quote.more:
        return ShellCheck("")
    program, filter_, *targets = quote.more
    return ShellCheck(program, tuple(targets), filter_)


def _is_named_alike(path: str, wrong: str) -> bool:
    """Whether a path has the name of one that is not there, but for its folder or its ending.

    The whole path of the same file is none: that one was looked for from another folder.
    """
    name, other = path.rpartition("/")[2], wrong.rpartition("/")[2]
    stem, _, end = name.rpartition(".")
    its_stem, _, its_end = other.rpartition(".")
    # `a.yml` and `a.yaml` are one file; `a.py` and `a.md` are two.
    kin = bool(stem) and stem == its_stem and end[:1] == its_end[:1] and end[-1:] == its_end[-1:]
    whole = path.startswith(("/", "~")) or path.endswith(f"/{wrong}")
    return path != wrong and bool(name) and not whole and (name == other or kin)


def _moment(quote: EventQuote) -> tuple[str, int]:
    return quote.ts, quote.seq


def _words(parts: DigestParts) -> Iterator[EventQuote]:
    return (one for sort in ("last", "reports", "answers") for one in parts.quotes[sort])


class SessionParts:
    """What is kept of one session, by group. Secrets, and what says that it ended, are no part."""

    __slots__ = ("groups", "id")

    def __init__(self, id: str) -> None:  # noqa: A002 - the field's name
        self.id = id
        self.groups: dict[VisibilityGroup, DigestParts] = {}

    def of_group(self, group: VisibilityGroup) -> DigestParts:
        """The parts of a group's events, which there are from now on."""
        parts = self.groups.get(group)
        if parts is None:
            parts = self.groups[group] = DigestParts()
        return parts

    def quotes(self, sort: str) -> Iterator[EventQuote]:
        """The quotes of a sort, in the order of time."""
        found = [one for parts in self.groups.values() for one in parts.quotes[sort]]
        return iter(sorted(found, key=_moment))

    def every(self) -> Iterator[EventQuote]:
        """All quotes, in no order that means anything."""
        for parts in self.groups.values():
            for kept in parts.quotes.values():
                yield from kept

    def turn(self, sees: Callable[[EventQuote], bool]) -> int:
        """What became of the last prompt that a reader sees: `OPEN`, `REPORTED` or `ANSWERED`."""
        found = [
            (parts.turned, parts.turn)
            for parts in self.groups.values()
            if any(sees(one) for one in _words(parts))
        ]
        return max(found)[1] if found else REPORTED

    def row(self) -> list[Any]:
        groups = [[int(high), space, parts.row()] for (high, space), parts in self.groups.items()]
        return [self.id, groups]

    @classmethod
    def from_row(cls, row: list[Any]) -> SessionParts:
        session = cls(row[0])
        for high, space, parts in row[1]:
            session.groups[VisibilityGroup(bool(high), space)] = DigestParts.from_row(parts)
        return session


class DigestsState:
    """The fold's state: sessions, and the places that each group has for them.

    `places`: of a group the sessions that it tells of, the one with its latest event last; the
    group with the latest event last. Each has its own bound, so that what a reader may not see
    takes no place of what he sees. `standing`: of a group what outlives its sessions, by sort.
    `given_up`: of a group its part of sessions of which `standing` does not have that yet.
    `waiting_bytes`: of the lines whose events wait; `settle` comes before any quote is read.
    """

    __slots__ = ("given_up", "latest", "places", "sessions", "standing", "waiting_bytes")

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self.given_up: dict[VisibilityGroup, list[DigestParts]] = {}
        self.latest: tuple[VisibilityGroup, str] | None = None  # of the latest event
        self.sessions: dict[str, SessionParts] = {}
        self.places: dict[VisibilityGroup, dict[str, None]] = {}
        self.standing: dict[VisibilityGroup, dict[str, list[EventQuote]]] = {}

    def settle(self) -> None:
        """Take in all events that wait."""
        self.settle_given_up()
        if self.waiting_bytes:
            for session in self.sessions.values():
                for parts in session.groups.values():
                    parts.settle()
            self.waiting_bytes = 0

    def settle_given_up(self) -> None:
        """Keep what outlives the sessions that were let go of.

        Of each sort the last ones: the sessions that went last are read first, and what users said
        in older ones is read only while there is room for it.
        """
        for group, every in self.given_up.items():
            kept = self.standing[group]
            found: dict[str, list[EventQuote]] = {sort: [] for sort in STANDING}
            for parts in reversed(every):
                self.waiting_bytes -= parts.waiting_bytes
                full = all(len(found[sort]) >= STANDING[sort] for sort in ("standing", "wishes"))
                parts.settle_lasting(wishes=not full)
                for sort, most in STANDING.items():
                    if len(found[sort]) < most:
                        found[sort] = [*parts.quotes[sort], *found[sort]]
            for sort, most in STANDING.items():
                kept[sort] = [*kept[sort], *found[sort]][-most:]
        self.given_up = {}

    def lasting(self, sort: str) -> list[EventQuote]:
        """The quotes of a sort of `STANDING` over all sessions, in the order of time."""
        found = [one for kept in self.standing.values() for one in kept[sort]]
        found += [one for session in self.sessions.values() for one in session.quotes(sort)]
        return sorted(found, key=_moment)

    def drop(self, group: VisibilityGroup) -> None:
        """Drop what outlives the sessions of a group that has none any more."""
        self.waiting_bytes -= sum(parts.waiting_bytes for parts in self.given_up.pop(group, ()))
        self.standing.pop(group, None)

    def give_up(self, group: VisibilityGroup, session: str) -> None:
        """Drop what a group tells of a session, but for what outlives it."""
        self.latest = None
        del self.places[group][session]
        parts = self.sessions[session].groups.pop(group)
        self.standing.setdefault(group, {sort: [] for sort in STANDING})
        self.given_up.setdefault(group, []).append(parts)
        if not self.sessions[session].groups:
            del self.sessions[session]


class Digests:
    """The projector."""

    name = "digests"
    version = 7

    def __init__(self, *, kept_max: int = KEPT_MAX) -> None:
        self.kept_max = kept_max

    def initial(self) -> DigestsState:
        return DigestsState()

    def apply(self, state: DigestsState, line: Line) -> None:
        event = line.event
        id_ = event.session
        if id_ is None or not _tells(event):
            return
        session = state.sessions.get(id_)
        if session is None:
            session = state.sessions[id_] = SessionParts(id_)
        group = visibility_group(event)
        parts, size = session.of_group(group), 1 + line.end - line.offset
        parts.waiting.append(event)
        parts.waiting_bytes += size
        state.waiting_bytes += size
        if state.waiting_bytes > _WAITING_MAX:
            state.settle_given_up()
            if state.waiting_bytes > _WAITING_MAX // 2:
                state.settle()
        if state.latest == (group, id_):  # whose place is the last already
            return
        state.latest = group, id_
        places = state.places.pop(group, None) or {}
        state.places[group] = places
        places.pop(id_, None)
        places[id_] = None
        if len(places) > (self.kept_max if group == HOME else self.kept_max // _OTHERS_PART):
            state.give_up(group, next(iter(places)))
        if len(state.places) > GROUPS_MAX:
            oldest = next(one for one in state.places if one not in (HOME, group))
            for one in [*state.places[oldest]]:
                state.give_up(oldest, one)
            del state.places[oldest]
            state.drop(oldest)

    def dump(self, state: DigestsState) -> bytes:
        state.settle()
        places = [[int(high), space, list(ids)] for (high, space), ids in state.places.items()]
        sessions = [state.sessions[id_].row() for id_ in sorted(state.sessions)]
        standing = [
            [int(high), space, [[one.row() for one in kept[sort]] for sort in STANDING]]
            for (high, space), kept in state.standing.items()
        ]
        return canonical({"places": places, "sessions": sessions, "standing": standing})

    def load(self, data: bytes) -> DigestsState:
        state, fields = self.initial(), json.loads(data)
        for row in fields["sessions"]:
            session = SessionParts.from_row(row)
            state.sessions[session.id] = session
        for high, space, ids in fields["places"]:
            state.places[VisibilityGroup(bool(high), space)] = dict.fromkeys(ids)
        for high, space, sorts in fields["standing"]:
            kept = zip(STANDING, ([EventQuote(one) for one in rows] for rows in sorts), strict=True)
            state.standing[VisibilityGroup(bool(high), space)] = dict(kept)
        return state


def _tells(event: Event) -> bool:
    """Whether the event belongs to what happened: no secret, end of a session or digest of one."""
    if event.sensitivity == "secret":
        return False
    if event.kind == "session":
        return event.data.get("status") != "end"
    return not (event.kind == "summary" and event.data.get("extract") is True)


def parts_of(events: Iterable[Event]) -> SessionParts | None:
    """The parts of one session by its events in log order; None where there are none."""
    session: SessionParts | None = None
    for event in events:
        if _tells(event):
            if session is None:
                session = SessionParts(event.session or "")
            session.of_group(visibility_group(event)).add(event)
    return session
