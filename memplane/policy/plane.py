"""plane.yaml: reports, lock, sessions, index, retention, shared namespaces, hooks, cache prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.policy.document import PERMILLE, Json, mapping, parts_per, texts_of_list, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.policy.document import Fault

__all__ = [
    "ALL_AGENTS",
    "NO_EMBEDDER",
    "AnswerRule",
    "CachePrices",
    "Hooks",
    "PlanePolicy",
    "ToolRule",
    "build_plane_policy",
    "plane_faults",
]

NO_EMBEDDER: Final = "none"
ALL_AGENTS: Final = "/agent/*"


class CachePrices(NamedTuple):
    """What a provider's prompt cache asks, for the costs in reports; a fresh token costs 1,000.

    `marks`: how many the caller may set; 0 where the provider finds the prefix by itself, in steps
    of `step_tokens`. Nothing shorter than `minimum_tokens` is kept.
    """

    write: int = 1_250  # thousandths of a fresh token
    read: int = 100
    minimum_tokens: int = 1_024
    marks: int = 4
    step_tokens: int = 1


class AnswerRule(NamedTuple):
    """When a prompt is answered: see `recall.gate`.

    `when`: relevant, always or never. Relevant: the prompt shares at least `matched` content words
    with the best passage, and `new_percent` of its rare words that the memory holds are new to the
    session; or it holds a question word and both figures reach `asked_matched` and
    `asked_new_percent`, or it names an identifier that the memory holds. `passages`: the most that
    are said.
    """

    when: str = "relevant"
    matched: int = 4
    new_percent: int = 40
    asked_matched: int = 3
    asked_new_percent: int = 75
    passages: int = 3


class ToolRule(NamedTuple):
    """Whether a hook speaks where a tool failed or worked on a file: see `recall.gate`.

    `when`: relevant or never. `tokens`: the most of one answer; `answers`: the most in a session.
    """

    when: str = "never"
    tokens: int = 80
    answers: int = 10


class Hooks(NamedTuple):
    """What `memplane hook` gives to a coding agent, and how long it may take.

    `start_tokens`: the most where a session begins or was compacted; `prompt_tokens`: at a prompt,
    0 for nothing; `answer`: when a prompt is answered; `tool`: whether something is said at a tool.
    `characters_max`: the most of any; clients cut at 10,000. `wait_ms`: how long it waits for the
    log before it leaves an event to the spool. `milliseconds_max`: then it ends, whatever it is at.
    `exclude`: globs of folders of which nothing is recorded or answered.
    """

    channel: str = "agent"
    start_tokens: int = 1_000
    prompt_tokens: int = 300
    characters_max: int = 9_500
    wait_ms: int = 300
    milliseconds_max: int = 4_000
    exclude: tuple[str, ...] = ()
    answer: AnswerRule = AnswerRule()  # a tuple, whose fields nobody changes
    tool: ToolRule = ToolRule()  # likewise


class PlanePolicy(NamedTuple):
    """How many reports are kept, how long a writer waits for the lock, where a session ends.

    `tool_result_tokens`: the first and the last so many of a tool result are indexed. `embedder`
    is the name of what makes vectors of texts, NO_EMBEDDER for nothing. `shared`: namespaces of
    agents that all agents read; ALL_AGENTS among them means every one. `keep_days` and `keep_mb`:
    for how long, and how much of, tool results of old sessions stay; 0 for all of them.
    """

    reports_keep: int = 500
    lock_wait_ms_max: int = 5_000
    session_gap_minutes: int = 30
    session_summary_tokens_max: int = 200
    tool_result_tokens: int = 200
    embedder: str = NO_EMBEDDER
    shared: tuple[str, ...] = ()
    cache: CachePrices = CachePrices()  # a tuple, whose fields nobody changes
    hooks: Hooks = Hooks()  # likewise
    keep_days: int = 0
    keep_mb: int = 0


_DEFAULT: Final = PlanePolicy()


def build_plane_policy(document: Json) -> PlanePolicy:
    """Build the record from a document without mistakes."""
    reports = mapping(document.get("reports", {}))
    log = mapping(document.get("log", {}))
    sessions = mapping(document.get("sessions", {}))
    index = mapping(document.get("index", {}))
    namespaces = mapping(document.get("namespaces", {}))
    keep = mapping(document.get("keep", {}))
    return PlanePolicy(
        whole_number(reports.get("keep", _DEFAULT.reports_keep)),
        whole_number(log.get("lock_wait_ms_max", _DEFAULT.lock_wait_ms_max)),
        whole_number(sessions.get("gap_minutes", _DEFAULT.session_gap_minutes)),
        whole_number(sessions.get("summary_tokens_max", _DEFAULT.session_summary_tokens_max)),
        whole_number(index.get("tool_result_tokens", _DEFAULT.tool_result_tokens)),
        str(index.get("embedder", _DEFAULT.embedder)),
        texts_of_list(namespaces.get("shared", [])),
        _cache(mapping(document.get("prompt_cache", {}))),
        _hooks(mapping(document.get("hooks", {}))),
        whole_number(keep.get("tool_result_days", _DEFAULT.keep_days)),
        whole_number(keep.get("tool_result_mb", _DEFAULT.keep_mb)),
    )


def _cache(given: Json) -> CachePrices:
    usual = _DEFAULT.cache
    return CachePrices(
        parts_per(given.get("write", usual.write / PERMILLE), PERMILLE),
        parts_per(given.get("read", usual.read / PERMILLE), PERMILLE),
        whole_number(given.get("minimum_tokens", usual.minimum_tokens)),
        whole_number(given.get("marks", usual.marks)),
        whole_number(given.get("step_tokens", usual.step_tokens)),
    )


def _hooks(given: Json) -> Hooks:
    usual = _DEFAULT.hooks
    return Hooks(
        str(given.get("channel", usual.channel)),
        whole_number(given.get("start_tokens", usual.start_tokens)),
        whole_number(given.get("prompt_tokens", usual.prompt_tokens)),
        whole_number(given.get("characters_max", usual.characters_max)),
        whole_number(given.get("wait_ms", usual.wait_ms)),
        whole_number(given.get("milliseconds_max", usual.milliseconds_max)),
        texts_of_list(given.get("exclude", [])),
        _answer(mapping(given.get("answer", {}))),
        _tool(mapping(given.get("tool", {}))),
    )


def _answer(given: Json) -> AnswerRule:
    usual = _DEFAULT.hooks.answer
    numbers = {
        name: whole_number(given.get(name, getattr(usual, name)))
        for name in usual._fields
        if name != "when"
    }
    return AnswerRule(str(given.get("when", usual.when)), **numbers)


def _tool(given: Json) -> ToolRule:
    usual = _DEFAULT.hooks.tool
    return ToolRule(
        str(given.get("when", usual.when)),
        whole_number(given.get("tokens", usual.tokens)),
        whole_number(given.get("answers", usual.answers)),
    )


def plane_faults(_: Json) -> Iterator[Fault]:
    """Name nothing: the schema sees all there is to see."""
    return iter(())
