"""Visibility: what a request may not see, decided before anything is scored.

`Scope` judges single events by sensitivity, namespace, kind, time and standing. A suppressed event
leaves one trace only: the count of its reason among the omissions. Where a plane is parted into
projects, who works in one sees it and `/global`; another one only where it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from memplane.errors import ScopeError
from memplane.event import GLOBAL, PROJECTS, TYPED_KINDS
from memplane.intake.redact import quoted_value
from memplane.lazy import NamedTuple, Protocol, late
from memplane.policy import ALL_AGENTS, ChannelRule, Policies
from memplane.projections.in_force import out_of_time

if TYPE_CHECKING:
    import copy
else:
    copy = late("copy")

OWNER: Final = "private"  # who asks on this channel and is no agent owns the plane
# Reasons for which an event may still be named: the card of an artifact that nobody approved or
# whose copy was changed, and an approval: its reason is about an artifact, and quoted nowhere.
NAMED: Final = (None, "unapproved", "changed", "approval")


# Reasons for which a reader is answered as if the event were not there, whatever became of it.
WITHHELD: Final = frozenset(("sensitivity", "kind", "ns"))


SPACES: Final = ("", "/task/", "/spec/", "/agent/")  # how a namespace of each class begins
_PATTERNS: Final = {f"{head}*": place for place, head in enumerate(SPACES) if head}


class VisibilityFields(Protocol):
    """The fields of an event that decide whether it may be shown."""

    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def ts(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def ns(self) -> str: ...
    @property
    def sensitivity(self) -> str: ...
    @property
    def valid_from(self) -> str | None: ...
    @property
    def valid_until(self) -> str | None: ...
    @property
    def superseded(self) -> bool: ...
    @property
    def forgotten(self) -> bool: ...


class ApprovalLookup(Protocol):
    """Which artifacts a prompt may show the text of."""

    def covers(self, seq: int, id: str, *, as_of: int, now: str) -> bool:  # noqa: A002
        """Whether the artifact of this seq and id is approved as of a seq, at a time."""

    def covered(self, *, as_of: int, now: str) -> Collection[int]:
        """Return the seqs of all artifacts that are."""

    def changed(self, id: str) -> bool:  # noqa: A002
        """Whether the copy of this artifact is not what was added."""


class Labels(NamedTuple):
    """The fields of an event that a `Filter` reads."""

    tags: tuple[str, ...]
    importance: int


class Filter(NamedTuple):
    """A filter by tag and importance; tags are lower case.

    An event must have one of `tags`, where there are any, none of `without`, and an importance, as
    it was recorded, of at least `least`.
    """

    tags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    least: int = 0

    def leaves_out(self, labels: Labels) -> str | None:
        """Return why an event does not match: `tag` or `importance`; None where it matches."""
        tags = [tag.lower() for tag in labels.tags]
        if (self.tags and not any(tag in self.tags for tag in tags)) or any(
            tag in self.without for tag in tags
        ):
            return "tag"
        return "importance" if labels.importance < self.least else None


_NO_FILTER: Final = Filter()
_UNQUOTED: Final = frozenset(("approval", "artifact"))  # kinds that may be named and not quoted


def namespace_class(ns: str) -> int:
    """Return the class of a namespace; a strange one counts as a task's, found by its name.

    A project's counts as `/global`: an index keeps apart beside that what is in a project.
    """
    if ns == GLOBAL or ns.startswith(PROJECTS):
        return 0
    return next((place for place in (2, 3) if ns.startswith(SPACES[place])), 1)


def is_pattern(ns: str) -> bool:
    """Whether it is a pattern for a class of namespaces: `/task/*`, `/spec/*`, `/agent/*`."""
    return ns in _PATTERNS


def within(ns: str, asked: Collection[str]) -> bool:
    """Whether a namespace is among those asked for, by its name or by a pattern."""
    return ns in asked or any(
        _PATTERNS[one] == namespace_class(ns) and not ns.startswith(PROJECTS)
        for one in asked
        if one in _PATTERNS
    )


def asked_within(asked: tuple[str, ...], bounds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the namespaces of a request whose caller is bound to some; without bounds, as asked.

    Raises ScopeError for one that is not among them, whether or not there is such a namespace.
    """
    if not bounds:
        return asked
    for ns in asked:
        if ns not in bounds:
            raise ScopeError(
                f"namespace {quoted_value(ns, 160)} is not among those that you may use: "
                f"{', '.join(bounds)}"
            )
    return asked or bounds


def kinds_of_views(paths: Collection[str]) -> tuple[str, ...]:
    """Kinds whose view is among the paths: `views/preferences.md` is the view of `preference`."""
    words = {path.rpartition("/")[2].partition(".")[0] for path in paths}
    return tuple(kind for kind in TYPED_KINDS if kind in words or f"{kind}s" in words)


@lru_cache(maxsize=64)
def _suppressed(rule: ChannelRule) -> tuple[frozenset[str], frozenset[str]]:
    """The sensitivities and kinds that a channel does not see."""
    kinds = (*rule.suppress_kinds, *kinds_of_views(rule.suppress_views), "secret")
    return frozenset((*rule.suppress_sensitivity, "secret")), frozenset(kinds)


class Scope:
    """One request's view of the log: channel rule, namespaces, span of time, clock.

    Without `task` and `ns` everything is in scope but other agents' namespaces; with `task` it is
    `/global`, that task, its specs (every `/spec/*` where it names none) and the asking agent; `ns`
    names the only ones, each by its name or as a pattern (`is_pattern`). Whatever is asked, an
    agent's own namespace opens to that agent, to all agents where the policy shares it, and to the
    plane's `owner` who names it: to nobody else. `project`: of the projects' namespaces this one is
    in scope, and those that `ns` names; None: all of them. Without `approvals` no artifact is
    approved. `held`: a session, and the seq behind which whoever asks has all that it said.
    `labels` says of a seq what `only` asks of an event, for what does not say so itself: quotes and
    touches.
    """

    def __init__(
        self,
        rule: ChannelRule,
        *,
        now: str,
        as_of: int,
        ns: tuple[str, ...] = (),
        task: str | None = None,
        specs: tuple[str, ...] = (),
        agent: str | None = None,
        since: str | None = None,
        until: str | None = None,
        exclude: frozenset[str] = frozenset(),
        shared: tuple[str, ...] = (),
        owner: bool = False,
        approvals: ApprovalLookup | None = None,
        held: tuple[str, int] | None = None,
        only: Filter = _NO_FILTER,
        labels: Callable[[int], Labels | None] | None = None,
        project: str | None = None,
    ) -> None:
        self.only = None if only == _NO_FILTER else only
        self._labels = labels
        self.levels, self.kinds = _suppressed(rule)
        self.now, self.as_of = now, as_of
        self.ns, self.task, self.agent = ns, task, agent
        self.shared, self.owner, self.project = shared, owner, project
        self.specs = tuple(f"/spec/{name}" for name in specs)
        self.since, self.until = since, until
        self.exclude, self.held = exclude, held
        self._approvals = approvals
        self.judged: dict[int, str | None] = {}  # by seq
        self._inside: set[str] = {GLOBAL} if not ns else set()  # namespaces known to be in scope

    @classmethod
    def of(
        cls, policies: Policies, channel: str, *, agent: str | None = None, **asked: Any
    ) -> Self:
        """Return the scope of a reader: the channel's rule, shared namespaces, ownership.

        And of which project. A caller with `policies.bounds` asks for these namespaces where it
        names none; raises ScopeError for another one.

        `asked` as for the class itself.
        """
        asked["ns"] = asked_within(asked.get("ns", ()), policies.bounds)
        return cls(
            policies.privacy.rule(channel),
            agent=agent,
            shared=policies.plane.shared,
            owner=channel == OWNER and agent is None,
            project=policies.project,
            **asked,
        )

    def hides(self, event: VisibilityFields) -> str | None:
        """Return why the event may not be shown, None where it may. Judged once for each seq."""
        reason = self.judged.get(event.seq, "")
        if reason == "":
            reason = self.judged[event.seq] = self._judge(event)
        return reason

    def names(self, event: VisibilityFields) -> bool:
        """Whether the event may be named, even if its text may not be shown."""
        return self.hides(event) in NAMED

    def approved(self) -> Collection[int]:
        """Return the seqs of the artifacts whose text may be shown, whatever else hides them."""
        if self._approvals is None:
            return ()
        return self._approvals.covered(as_of=self.as_of, now=self.now)

    def timeless(self) -> Scope:
        """The same view of the log without its span of time."""
        other = copy.copy(self)
        other.since = other.until = None
        other.judged = {}
        return other

    def within(self, since: str | None, until: str | None) -> Scope:
        """The same view of the log from one time to another; None: without such an end."""
        other = self.timeless()
        other.since, other.until = since, until
        return other

    def masks(self, events: Iterable[VisibilityFields]) -> list[bool]:
        """Whether each of the events may not be shown."""
        judged, hides = self.judged, self.hides
        return [
            judged.get(event.seq, "") is not None and hides(event) is not None for event in events
        ]

    def reasons(self, events: Iterable[VisibilityFields]) -> list[str | None]:
        """`hides` of many."""
        judged, hides = self.judged, self.hides
        return [judged[seq] if (seq := event.seq) in judged else hides(event) for event in events]

    def sees(self, high: bool, space: str) -> bool:
        """Whether events of high sensitivity, or of the others, may be shown at all.

        `space`: of this namespace, an agent's own or a project's; "" for all that is in neither.
        """
        hidden = "high" in self.levels if high else {"low", "normal"} <= self.levels
        return not hidden and (not space or self.reaches(space))

    def spaces(self) -> tuple[str, ...]:
        """Return the agents' and projects' namespaces that are asked for or shared by name."""
        own = [] if self.agent is None else [f"/agent/{self.agent}"]
        own += [] if self.project is None else [self.project]
        named = (ns for ns in (*self.shared, *self.ns) if ns.startswith(("/agent/", PROJECTS)))
        return tuple(dict.fromkeys((*own, *named)))

    def _judge(self, event: VisibilityFields) -> str | None:  # noqa: C901, PLR0911 - a reason, a return
        kind = event.kind
        if event.sensitivity in self.levels:
            return "sensitivity"
        if kind in self.kinds:
            return "kind"
        if event.ns not in self._inside and not self.reaches(event.ns):
            return "ns"
        if event.seq > self.as_of:
            return "as_of"
        if event.superseded:
            return "superseded"
        if event.forgotten:
            return "forgotten"
        bound = event.valid_until is not None or event.valid_from is not None
        if bound and out_of_time(event, self.now) is not None:
            return "expired"
        if (self.since is not None and event.ts < self.since) or (
            self.until is not None and event.ts > self.until
        ):
            return "time"
        if event.id in self.exclude or (self.held is not None and self._holds(event)):
            return "excluded"
        if self.only is not None and (left_out := self._filtered(self.only, event)):
            return left_out
        # Last, so that what may be named can be told from what is gone.
        return self._unquoted(event) if kind in _UNQUOTED else None

    def _filtered(self, only: Filter, event: VisibilityFields) -> str | None:
        tags, importance = getattr(event, "tags", None), getattr(event, "importance", None)
        if isinstance(tags, tuple) and isinstance(importance, int):
            return only.leaves_out(Labels(tags, importance))
        labels = self._labels(event.seq) if self._labels is not None else None
        return "tag" if labels is None else only.leaves_out(labels)

    def _holds(self, event: VisibilityFields) -> bool:
        if self.held is None:
            return False
        session, seq = self.held
        # What the map and the files view tell of is of no session.
        return event.seq > seq and getattr(event, "session", None) == session

    def _unquoted(self, event: VisibilityFields) -> str | None:
        """Why the event may be named and not quoted."""
        if event.kind == "approval":
            return "approval"
        if event.kind != "artifact":
            return None
        approvals, as_of, now = self._approvals, self.as_of, self.now
        if approvals is None or not approvals.covers(event.seq, event.id, as_of=as_of, now=now):
            return "unapproved"
        return "changed" if approvals.changed(event.id) else None

    def reaches(self, ns: str) -> bool:
        """Whether a namespace is in scope."""
        if ns.startswith("/agent/") and not self._opens(ns):
            return False
        if self.elsewhere(ns):
            return False
        if self.ns:
            return within(ns, self.ns)
        if self.task is None or ns == GLOBAL or ns.startswith(("/agent/", PROJECTS)):
            return True
        if ns.startswith("/spec/"):
            return not self.specs or ns in self.specs
        return ns == f"/task/{self.task}"

    def elsewhere(self, ns: str) -> bool:
        """Whether a namespace is of another project than whoever asks works in, and not named."""
        return (
            self.project is not None
            and ns.startswith(PROJECTS)
            and ns != self.project
            and ns not in self.ns
        )

    def _opens(self, ns: str) -> bool:
        """Whether an agent's namespace is open to who asks."""
        return (
            (self.agent is not None and ns == f"/agent/{self.agent}")
            or ALL_AGENTS in self.shared
            or ns in self.shared
            or (self.owner and within(ns, self.ns))
        )
