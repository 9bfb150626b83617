"""budgets.yaml: how many tokens a block and each of its sections may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane.policy.document import (
    PPM,
    Fault,
    Json,
    Path,
    found_value,
    mapping,
    meant,
    parts_per,
    text_items,
    texts_of_list,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Budgets", "Limits", "SectionBudget", "budget_faults", "build_budgets"]


_LONE_PART: Final = 10
# Shares in a block for who has to find his way, in millionths, where the policy names none.
_ORIENT: Final = {
    "identity": 40_000,
    "rules": 80_000,
    "system_map": 90_000,
    "task_state": 170_000,
    "relevant_decisions": 210_000,
    "knowledge_cards": 110_000,
    "recent_window": 220_000,
    "tool_state": 40_000,
    "retrieved_evidence": 40_000,
    "expansions": 0,
}


class SectionBudget(NamedTuple):
    """One section of a block; `weight` is its share in millionths, relative to the others."""

    name: str
    max_tokens: int
    priority: int
    weight: int
    views: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    without_session: int | None = None  # the weight where the policy names another one for that
    orient: int | None = None  # likewise

    def weight_of(self, *, lone: bool, orient: bool = False) -> int:
        """The weight; `lone` in a block for a query without a session, `orient` to find one's way.

        Of the two, orient decides.
        """
        if orient:
            return _ORIENT.get(self.name, self.weight) if self.orient is None else self.orient
        if not lone:
            return self.weight
        if self.without_session is not None:
            return self.without_session
        if self.name == "system_map":  # no answer to a question
            return 0
        # Without a session the window shows the newest events of whoever wrote last.
        return self.weight // _LONE_PART if self.name == "recent_window" else self.weight


class Limits(NamedTuple):
    """What one pack may look at and take, beside tokens."""

    hotset_max_events: int = 200
    candidate_pool_max: int = 2_000
    retrieved_chunks_max: int = 200
    chunk_max_tokens: int = 400
    decisions_max: int = 100
    cards_max: int = 6
    file_reads_max: int = 20
    bytes_read_max: int = 8_000_000
    index_behind_max: int = 5_000


# Everything that memplane itself can put into a block; any other section is the owner's own.
STANDARD: Final = (
    SectionBudget("identity", 1_200, 10, 40_000),
    SectionBudget("rules", 6_000, 9, 100_000),
    SectionBudget("task_state", 3_000, 9, 60_000),
    SectionBudget("relevant_decisions", 8_000, 8, 90_000),
    SectionBudget("knowledge_cards", 2_000, 8, 50_000),
    SectionBudget("retrieved_evidence", 28_000, 7, 320_000),
    SectionBudget("recent_window", 12_000, 6, 280_000),
    SectionBudget("tool_state", 2_000, 6, 40_000),
    SectionBudget("system_map", 800, 5, 20_000),
    SectionBudget("expansions", 8_000, 4, 0),
)
_SHARES: Final = frozenset(("share", "share_without_session", "share_orient"))
_STANDARD_NAMES: Final = frozenset(section.name for section in STANDARD)


class Budgets(NamedTuple):
    """The budget of a block.

    Sections keep the order of the file; standard ones that it leaves out follow with their
    defaults. `by_priority`: the sections of a file that names no share: the priorities divide
    what the others, with their shares, leave.
    """

    acb_total_max_tokens: int = 65_000
    reserve_tokens: int = 5_000
    default_pack_tokens: int = 4_000
    counter: str = "bound/1"
    scale_ppm: int = PPM
    sections: tuple[SectionBudget, ...] = STANDARD
    limits: Limits = Limits()
    by_priority: tuple[str, ...] = ()

    def section(self, name: str) -> SectionBudget | None:
        """Return the section of that name, None where the policy has none."""
        for section in self.sections:
            if section.name == name:
                return section
        return None


_DEFAULT: Final = Budgets()


def build_budgets(document: Json) -> Budgets:
    """Build the record from a document without mistakes."""
    counter = document.get("counter", _DEFAULT.counter)
    if not isinstance(counter, str):
        raise TypeError(f"expected the name of a counter, found {counter!r}")
    limits = mapping(document.get("limits", {}))
    sections = mapping(document.get("sections", {}))
    return Budgets(
        whole_number(document.get("acb_total_max_tokens", _DEFAULT.acb_total_max_tokens)),
        whole_number(document.get("reserve_tokens", _DEFAULT.reserve_tokens)),
        whole_number(document.get("default_pack_tokens", _DEFAULT.default_pack_tokens)),
        counter,
        parts_per(document.get("scale", 1), PPM),
        _sections(sections),
        Limits(**{name: whole_number(most) for name, most in limits.items()}),
        () if any(_SHARES & mapping(row).keys() for row in sections.values()) else tuple(sections),
    )


def _sections(sections: Json) -> tuple[SectionBudget, ...]:
    caps = {name: whole_number(mapping(row)["max_tokens"]) for name, row in sections.items()}
    total = max(1, sum(caps.values()))
    named = tuple(
        SectionBudget(
            name,
            caps[name],
            whole_number(row["priority"]),
            parts_per(row["share"], PPM) if "share" in row else caps[name] * PPM // total,
            texts_of_list(row.get("views", [])),
            texts_of_list(row.get("kinds", [])),
            *(
                parts_per(row[share], PPM) if share in row else None
                for share in ("share_without_session", "share_orient")
            ),
        )
        for name, row in sections.items()
    )
    return named + tuple(section for section in STANDARD if section.name not in sections)


def budget_faults(document: Json) -> Iterator[Fault]:
    """Name what no single key can be blamed for (the schema names the rest)."""
    total = document.get("acb_total_max_tokens", _DEFAULT.acb_total_max_tokens)
    reserve = document.get("reserve_tokens", _DEFAULT.reserve_tokens)
    if _is_whole(total) and _is_whole(reserve) and 0 < total <= reserve:
        # Whichever of the two the file holds is the one to blame; the reserve, where it holds both.
        key = "reserve_tokens" if "reserve_tokens" in document else "acb_total_max_tokens"
        wanted = f"expected `reserve_tokens` to be less than `acb_total_max_tokens` ({total})"
        yield Fault((key,), f"{wanted}, found {found_value(reserve)}: no room is left")
    sections = document.get("sections")
    if isinstance(sections, dict):
        yield from _own_section_faults(sections)
        yield from _taken_twice(sections, "views")
        yield from _taken_twice(sections, "kinds")


def _own_section_faults(sections: dict[str, Any]) -> Iterator[Fault]:
    for name, row in sections.items():
        if not isinstance(row, dict):
            continue
        if name in _STANDARD_NAMES:
            if "kinds" in row:
                why = "expected only in a section of your own"
                yield Fault(("sections", name, "kinds"), f"{why}; `{name}` has its content already")
        elif "views" not in row and "kinds" not in row:
            why = "expected `views` or `kinds` in a section of your own, found neither"
            yield Fault(
                ("sections", name), f"{why}{meant(name, _STANDARD_NAMES - sections.keys())}"
            )


def _taken_twice(sections: dict[str, Any], key: str) -> Iterator[Fault]:
    """Name views and kinds of two sections: nothing says which gets them."""
    owner: dict[str, str] = {}
    for name, row in sections.items():
        named = row.get(key) if isinstance(row, dict) else None
        for position, item in text_items(named):
            first = owner.setdefault(item, name)
            if first != name:
                path: Path = ("sections", name, key, position)
                yield Fault(
                    path, f"expected in one section, found {found_value(item)} in `{first}` too"
                )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
