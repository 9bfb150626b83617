"""plane.yaml: how the plane keeps house."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.policy.values import Json, mapping, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.policy.document import Fault

__all__ = ["PlanePolicy", "build", "faults"]


class PlanePolicy(NamedTuple):
    """How many reports are kept, how long a writer waits for the lock, where a session ends."""

    reports_keep: int = 500
    lock_wait_ms_max: int = 5_000
    session_gap_minutes: int = 30
    session_summary_tokens_max: int = 200


_DEFAULT: Final = PlanePolicy()


def build(document: Json) -> PlanePolicy:
    """Build the record from a document without mistakes."""
    reports = mapping(document.get("reports", {}))
    log = mapping(document.get("log", {}))
    sessions = mapping(document.get("sessions", {}))
    return PlanePolicy(
        whole(reports.get("keep", _DEFAULT.reports_keep)),
        whole(log.get("lock_wait_ms_max", _DEFAULT.lock_wait_ms_max)),
        whole(sessions.get("gap_minutes", _DEFAULT.session_gap_minutes)),
        whole(sessions.get("summary_tokens_max", _DEFAULT.session_summary_tokens_max)),
    )


def faults(_: Json) -> Iterator[Fault]:
    """Name nothing: the schema sees all there is to see."""
    return iter(())
