"""Bounded projections, one for each group of events with the same visibility.

Every bound of a projection is a place that a later event takes from an earlier one. Were bounds
counted over the whole log, events that a channel may not see would drive out events that it may
see. So each bounded fold is kept once for each visibility group: events of high sensitivity and the
others (low and normal), each in every agent's own namespace, in every project's and in all the
rest. (Only these are closed to anybody; another closed class would have to be a space of its own in
`group_space`.) A group has its own places and its own share of the bytes, whatever the other groups
hold. What a request may see is joined from the groups open to it; in a plane with one group that is
the fold itself.

At most `GROUPS_MAX` groups are kept. The one longest without an event is dropped first, but never
those outside of agents' and projects' namespaces. From then on `lost` names it, even after it has
come back, and a request that needs it folds it from the log (`only`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from memplane.event import PROJECTS, UPKEEP_KINDS, Event
from memplane.lazy import NamedTuple, Protocol
from memplane.ports import Line
from memplane.projections.projector import canonical

GROUPS_MAX: Final = 12
PROJECT_SHARES: Final = 3  # of a project, where an agent has one
LOST_MAX: Final = 256  # names of groups that are not whole here
_AGENTS: Final = "/agent/"
_CLOSED: Final = (_AGENTS, PROJECTS)  # namespaces that are not open to everybody
_HIGH: Final = frozenset(("high", "secret"))
_UPKEEP: Final = frozenset(UPKEEP_KINDS)

State = TypeVar("State")
Sees = Callable[[bool, str], bool]  # (high, space) -> whether a reader may see the group


class VisibilityGroup(NamedTuple):
    """Events that are open to the same readers. `space`: an agent's or project's, else ""."""

    high: bool
    space: str


HOME: Final = VisibilityGroup(False, "")  # what most may see, and most events are of


class PartProjector(Protocol[State]):
    """A projector of one group. An event of another group comes as one of sensitivity `secret`."""

    name: str
    version: int

    def initial(self) -> State: ...
    def apply(self, state: State, line: Line) -> None: ...

    def fields(self, state: State) -> Any:
        """Return the state as JSON values, of which `of` makes the same state again."""

    def of(self, fields: Any) -> State: ...


class _Judged(Protocol):
    @property
    def ns(self) -> str: ...
    @property
    def sensitivity(self) -> str: ...


def visibility_group(event: _Judged) -> VisibilityGroup:
    """Return the group of an event or a record of one; a secret counts as high sensitivity."""
    high, space = event.sensitivity in _HIGH, group_space(event.ns)
    return VisibilityGroup(high, space) if high or space else HOME  # as a rule


def group_space(ns: str) -> str:
    """Return the space of a namespace's group: an agent's or project's namespace, else ""."""
    return ns if ns.startswith(_CLOSED) else ""


def project_space(ns: str) -> str:
    """Return the project's namespace that a namespace is, else ""."""
    return ns if ns.startswith(PROJECTS) else ""


def _apart(space: str, other: str) -> bool:
    """Whether two different spaces have nothing to say to each other: one of them is a project."""
    return space.startswith(PROJECTS) or other.startswith(PROJECTS)


def share_of(group: VisibilityGroup, bytes_max: int) -> int:
    """Return the bound of a group in bytes: all of `bytes_max`, half, a quarter, or a twelfth.

    Whole for what is neither of an agent's or project's own nor of high sensitivity. A project has
    a quarter, or where it is of high sensitivity a twelfth, an agent a twelfth: all groups
    together take less than four and a half times what one fold may.
    """
    if group[1]:
        shares = PROJECT_SHARES if group[1].startswith(PROJECTS) and not group[0] else 1
        return bytes_max * shares // GROUPS_MAX
    return bytes_max // 2 if group[0] else bytes_max


class Groups(Generic[State]):
    """The states of the groups, the one with the latest event last. Read only outside `Grouped`."""

    __slots__ = ("groups", "lost", "newest", "shed")

    def __init__(self) -> None:
        self.groups: dict[VisibilityGroup, State] = {}
        self.newest: VisibilityGroup | None = None  # `HOME` itself, where it is that one
        self.lost: dict[
            VisibilityGroup, None
        ] = {}  # groups that are not whole here, or not here at all
        self.shed = False  # there are more of these than are named

    def among(self, sees: Sees | None) -> list[State]:
        """Return the states of the groups visible to a reader, ordered by group; None: all."""
        if len(self.groups) == 1:  # as a rule
            ((group, one),) = self.groups.items()
            return [one] if sees is None or sees(*group) else []
        return [self.groups[group] for group in sorted(self.groups) if sees is None or sees(*group)]

    def missing(self, sees: Sees, named: Iterable[str]) -> set[VisibilityGroup]:
        """Return the visible groups whose state here is incomplete: only the log has all of them.

        `named`: the agents' namespaces that the reader asks for by name.
        """
        gone = {group for group in self.lost if sees(*group)}
        if self.shed:
            unknown = (VisibilityGroup(high, space) for space in named for high in (False, True))
            gone.update(one for one in unknown if one not in self.groups and sees(*one))
        return gone

    def filled(self, other: Self) -> Self:
        """Return these groups, with those of another fold in their place. Changes neither."""
        both = type(self)()
        both.groups = {**self.groups, **other.groups}
        return both


class Grouped(Generic[State]):
    """The projector of all groups.

    `part` returns the projector of a group, bounded by `share_of` bytes. `only` selects the groups
    to fold; then no group is dropped.
    """

    states: ClassVar[type[Groups[Any]]] = Groups

    def __init__(
        self,
        part: Callable[[VisibilityGroup], PartProjector[State]],
        *,
        only: Sees | None = None,
    ) -> None:
        # A projector for each share: of what is open to most, of high sensitivity, of agents, of
        # projects.
        self._parts = {
            (high, head): part(VisibilityGroup(high, head))
            for high in (False, True)
            for head in ("", *_CLOSED)
        }
        first = self._home = self._parts[False, ""]
        self.name, self.version = first.name, first.version
        # Whether an event may take a place, where not all do: what does not makes no group.
        self._keeps: Callable[[Event], bool] | None = getattr(first, "keeps", None)
        # The kinds for which it has to be asked; None: all. Every event of the log comes by here.
        self._asked: frozenset[str] | None = getattr(first, "kinds_asked", None)
        kinds: frozenset[str] | None = getattr(first, "kinds_read", None)
        self.kinds_read = kinds
        self._only = only

    def initial(self) -> Any:
        return self.states()

    def part(self, group: tuple[bool, str]) -> PartProjector[State]:
        """The projector of a group."""
        space = group[1]
        head = space and (_AGENTS if space.startswith(_AGENTS) else PROJECTS)
        return self._parts[group[0], head]

    def apply(self, state: Groups[State], line: Line) -> None:
        event = line.event
        kind, ns, sensitivity = event.kind, event.ns, event.sensitivity
        if kind in _UPKEEP:
            for group, one in state.groups.items():
                self.part(group).apply(one, line)
            return
        space = ns if ns.startswith(_CLOSED) else ""
        own: VisibilityGroup | None = None
        if sensitivity != "secret" and (
            self._keeps is None
            or (self._asked is not None and kind not in self._asked)
            or self._keeps(event)
        ):
            if state.newest is HOME and not space and sensitivity != "high" and self._only is None:
                own = HOME  # as a rule
                self._home.apply(state.groups[HOME], line)
            else:
                own = VisibilityGroup(sensitivity == "high", space)
                if self._only is None or self._only(*own):
                    self.part(own).apply(self._entered(state, own), line)
        closes = kind == "task"  # hidden or not, it closes its task for everyone
        if not (closes or event.key is not None) or kind == "session":
            return
        # A later value replaces the older one, whoever may see it.
        hidden = None
        for group, one in state.groups.items():
            if group != own and (group[1] == space or (closes and not _apart(space, group[1]))):
                if hidden is None:  # few planes have another group
                    hidden = line._replace(event=event._replace(sensitivity="secret"))
                self.part(group).apply(one, hidden)

    def _entered(self, state: Groups[State], group: VisibilityGroup) -> State:
        """The state of a group that has the latest event."""
        groups = state.groups
        if group == state.newest:
            return groups[group]
        state.newest = HOME if group == HOME else group
        one = groups.pop(group, None)
        if one is None:
            one = self.part(group).initial()
            if state.shed:
                self._lose(state, group)
        groups[group] = one
        if len(groups) > GROUPS_MAX and self._only is None:
            gone = next(each for each in groups if each.space)
            del groups[gone]
            self._lose(state, gone)
        return one

    def _lose(self, state: Groups[State], group: VisibilityGroup) -> None:
        state.lost[group] = None
        if len(state.lost) > LOST_MAX:
            absent = next((one for one in state.lost if one not in state.groups), None)
            if absent is not None:
                del state.lost[absent]
                state.shed = True

    def dump(self, state: Groups[State]) -> bytes:
        return canonical(self.fields(state))

    def fields(self, state: Groups[State]) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "lost": [[int(group.high), group.space] for group in state.lost],
            "shed": state.shed,
            "groups": [
                [int(group.high), group.space, self.part(group).fields(one)]
                for group, one in state.groups.items()
            ],
        }

    def load(self, data: bytes) -> Any:
        return self.of(json.loads(data))

    def of(self, fields: dict[str, Any]) -> Any:
        """The state that `fields` gave."""
        state = self.states()
        state.lost = dict.fromkeys(
            VisibilityGroup(bool(high), space) for high, space in fields["lost"]
        )
        state.shed = fields["shed"]
        for high, space, part in fields["groups"]:
            group = VisibilityGroup(bool(high), space)
            state.newest = HOME if group == HOME else group
            state.groups[group] = self.part(group).of(part)
        return state
