"""`memplane audit`: search what is stored for secrets that older redaction rules did not know.

Nothing here shows a secret. A finding names event, field, rule and count; the secrets themselves
are held only while the audit runs, to find where they were quoted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memplane import nofollow
from memplane.errors import NotFoundError
from memplane.log.bodies import recalled_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memplane.context.context import PlaneContext
    from memplane.event import Event
    from memplane.intake import Redactor
    from memplane.intake.redact import Counts

__all__ = ["FINDINGS_MAX", "AuditReport", "FileFinding", "Purge", "SecretFinding", "audit"]


FINDINGS_MAX: Final = 1000
# Beyond these, what a purge would take is counted at least, not exactly: memory stays bounded.
_KNOWN_MAX: Final = 100_000
_SECRETS_MAX: Final = 2_000
_QUOTE_MIN: Final = 8  # a shorter secret stands in other texts by chance
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
_FOLDERS: Final = ("views", "policies", "scenarios", "log/quarantine", "log/spool")
_NAMES: Final = ("id", "ns", "session", "task", "actor", "key")
_OWN: Final = ("redactions", "replaced", "body", "recalled")  # keys of data that memplane writes


class SecretFinding(NamedTuple):
    """Secrets of one rule in one field of one event."""

    seq: int
    id: str
    field: str
    rule: str
    times: int


class FileFinding(NamedTuple):
    """Secrets of one rule in a file that is no part of the log; `path` is below the home."""

    path: str
    rule: str
    times: int


@dataclass(frozen=True, slots=True)
class Purge:
    """What would have to go, or be written again, so that nothing found stays on disk.

    `quotes` are events that no rule finds, but in which a secret of another event stands; `refs`
    are events that rest on one with a secret. `exact` is False where there were too many to tell.
    """

    events: int
    bodies: int
    quotes: int
    refs: int
    reports: int
    exact: bool


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What was looked at and what was found. `findings` are the first ones, `total` counts all."""

    events: int
    files: int
    secrets: int
    total: int
    by_rule: dict[str, int]
    findings: tuple[SecretFinding, ...]
    file_findings: tuple[FileFinding, ...]
    purge: Purge
    unread: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.total and not self.file_findings

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the command line and for files."""
        return {
            **asdict(self),
            "findings": [finding._asdict() for finding in self.findings],
            "file_findings": [finding._asdict() for finding in self.file_findings],
        }


def audit(
    context: PlaneContext,
    *,
    limit: int = FINDINGS_MAX,
    progress: Callable[[int, int], None] | None = None,
) -> AuditReport:
    """Scan log, bodies, reports, and the files beside them; see `Plane.audit`."""
    context.check_open()
    redactor = context.intake(context.watched.policies()).redactor
    return _Audit(context, redactor, limit, progress or _silent).run()


def _silent(_: int, __: int) -> None:
    pass


class _Audit:
    """One run: a pass over the log, one over the files, one more over the log for quotes."""

    def __init__(
        self,
        context: PlaneContext,
        redactor: Redactor,
        limit: int,
        progress: Callable[[int, int], None],
    ) -> None:
        self._context, self._redactor = context, redactor
        self._limit, self._progress = limit, progress
        self._home = context.home.path
        self._events = self._files = 0
        self._by_rule: Counter[str] = Counter()
        self._findings: list[SecretFinding] = []
        self._total = 0
        self._in_files: list[FileFinding] = []
        self._unread: list[str] = []
        self._seqs: set[int] = set()  # of events with a finding
        self._ids: set[str] = set()
        self._found_events = 0
        self._bodies: set[str] = set()  # named by events
        self._found_bodies: set[str] = set()
        self._secrets: dict[str, None] = {}
        self._exact = True

    def run(self) -> AuditReport:
        for event in self._log():
            self._events += 1
            self._event(event)
        reports = self._look_at_files()
        quotes, refs = self._derived() if self._found_events else (0, 0)
        for gap in self._context.log.gaps():
            self._unread.append(f"log segment {gap.segment}, byte {gap.offset}: damaged")
        return AuditReport(
            self._events,
            self._files,
            self._by_rule.total(),
            self._total,
            dict(sorted(self._by_rule.items())),
            tuple(self._findings),
            tuple(self._in_files),
            Purge(self._found_events, len(self._found_bodies), quotes, refs, reports, self._exact),
            tuple(self._unread),
        )

    def _log(self) -> Iterator[Event]:
        head = self._context.log.head().seq
        for line in self._context.log.read(0, self._context.as_of):
            self._progress(line.event.seq, head)
            yield line.event

    def _event(self, event: Event) -> None:
        before = self._total
        taken: list[str] = []
        for field, counts in self._fields(event, taken):
            for rule, times in counts.items():
                self._total += 1
                self._by_rule[rule] += times
                if len(self._findings) < self._limit:
                    finding = SecretFinding(event.seq, self._shown(event.id), field, rule, times)
                    self._findings.append(finding)
        if self._total > before:
            self._remember(event, taken)

    def _fields(self, event: Event, taken: list[str]) -> Iterator[tuple[str, Counts]]:
        """Every field that can hold a secret, and what stands in it."""
        body = event.data.get("body")
        whole = [str(body.get("sha256"))] if isinstance(body, dict) else []
        yield "text", self._counted(self._text(event), whole, taken)
        digests = recalled_hashes(event)
        for number, (digest, block) in enumerate(zip(digests, self._recalled(event), strict=True)):
            yield f"recalled[{number}]", self._counted(block, [digest], taken)
        for field in _NAMES:
            yield field, self._redactor.in_name(getattr(event, field) or "")
        for field in ("refs", "markers"):
            for number, value in enumerate(getattr(event, field)):
                yield f"{field}[{number}]", self._redactor.in_name(value)
        for number, tag in enumerate(event.tags):
            yield f"tags[{number}]", self._redactor.redact(tag, taken)[1]
        for key, value in event.data.items():
            if key not in _OWN:
                shown, counts = self._redactor.redact_data({key: value}, taken)
                yield f"data.{next(iter(shown))}"[:80], counts

    def _counted(self, text: str, bodies: list[str], taken: list[str]) -> Counts:
        """What stands in a text, which is that of these bodies, if any."""
        counts = self._redactor.redact(text, taken)[1]
        self._bodies.update(bodies)
        if counts:
            self._found_bodies.update(bodies)
        return counts

    def _text(self, event: Event) -> str:
        try:
            return self._context.log.text(event)
        except (NotFoundError, OSError):
            self._lost(f"the body of event {event.seq}")
            return event.text

    def _recalled(self, event: Event) -> list[str]:
        """The blocks that were moved out of the event's text; "" for a lost one."""
        blocks = self._context.log.recalled(event)
        if None in blocks:
            self._lost(f"what was moved out of the text of event {event.seq}")
        return [block or "" for block in blocks]

    def _lost(self, what: str) -> None:
        said = f"{what}: missing or damaged"
        if said not in self._unread:
            self._unread.append(said)

    def _shown(self, name: str) -> str:
        """An id is stored as it is: one that holds a secret is named by its event's seq alone."""
        return "" if self._redactor.in_name(name) else name

    def _remember(self, event: Event, taken: list[str]) -> None:
        self._found_events += 1
        if len(self._seqs) < _KNOWN_MAX:
            self._seqs.add(event.seq)
            self._ids.add(event.id)
        else:
            self._exact = False
        for secret in taken:
            if len(secret) >= _QUOTE_MIN and "[redacted:" not in secret:
                if len(self._secrets) < _SECRETS_MAX:
                    self._secrets[secret] = None
                else:
                    self._exact = self._exact and secret in self._secrets

    def _derived(self) -> tuple[int, int]:
        """Events without a finding that quote a secret, and those that rest on one with a finding.

        A quote is found where no rule finds it: `password: x1y2z3w4` in one event, and in another
        `try x1y2z3w4`.
        """
        secrets = sorted(self._secrets, key=lambda secret: (-len(secret), secret))
        quoted = re.compile("|".join(map(re.escape, secrets))) if secrets else None
        quotes = refs = 0
        for event in self._log():
            if event.seq in self._seqs:
                continue
            refs += any(ref in self._ids for ref in event.refs)
            if quoted is not None:
                data = json.dumps(event.data, ensure_ascii=False) if event.data else ""
                texts = (self._text(event), data, *self._recalled(event))
                quotes += any(quoted.search(text) for text in texts)
        return quotes, refs

    def _look_at_files(self) -> int:
        """Files that people write, what a repair set aside, snapshots and reports.

        Returns how many of the reports must go.
        """
        for folder in _FOLDERS:
            for path in map(Path, nofollow.walk_files(self._home / folder)):
                self._file(path)
        for path in map(Path, nofollow.walk_files(self._home / "bodies" / "sha256")):
            if path.parent.name + path.name not in self._bodies:
                self._file(path)
        reports = 0
        for path in map(Path, nofollow.walk_files(self._home / "reports")):
            if path.suffix != ".json":
                continue
            hit, text = self._file(path)
            reports += hit or self._names_event(text)
        return reports

    def _file(self, path: Path) -> tuple[bool, str]:
        name = path.relative_to(self._home).as_posix()
        try:
            small = path.lstat().st_size <= _FILE_BYTES_MAX
            data = nofollow.read_bytes(path, home=self._home) if small else None
        except OSError as error:
            self._unread.append(f"{name}: {error.strerror}")
            return False, ""
        if data is None:
            self._unread.append(f"{name}: more than {_FILE_BYTES_MAX} bytes")
            return False, ""
        self._files += 1
        text = data.decode(errors="replace")
        counts = self._redactor.redact(text)[1]
        for rule, times in counts.items():
            self._by_rule[rule] += times
            if len(self._in_files) < self._limit:
                self._in_files.append(FileFinding(name, rule, times))
        return bool(counts), text

    def _names_event(self, report: str) -> bool:
        if not self._ids:
            return False
        try:
            entries = json.loads(report).get("entries", ())
            named = {one for entry in entries for one in (*entry["events"], *entry["parts"])}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return False
        return not named.isdisjoint(self._ids)
