"""Install and uninstall: every file is read and its change worked out before any is written."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from memplane.clients import entries, settings_files
from memplane.clients.entries import Agent, Guided, Program, Scope, places
from memplane.clients.settings_files import SettingsRecord, SettingsStore, Traces
from memplane.errors import InputError, MemplaneError, WriteError
from memplane.intake.redact import masked
from memplane.lazy import NamedTuple

Part = Literal["hooks", "mcp", "skill", "memory"]  # the last: the client's own, switched off
PARTS: Final[tuple[Part, ...]] = ("hooks", "mcp", "skill", "memory")  # as they are installed
_TRIES: Final = 5
_SECTIONS: Final = "AGENTS.md"


class Where(NamedTuple):
    """Whose settings: an agent's, of the user or of a project, in an environment."""

    agent: Agent
    scope: Scope
    environment: Mapping[str, str]
    project: Path

    def file(self, part: Part) -> Path:
        """The file that a part goes into; two parts may have the same."""
        of_hooks, of_servers = places(self.agent.name, self.scope, self.environment, self.project)
        if part == "skill":
            if not self.agent.by_shell:
                return of_hooks.parent / "skills" / entries.SKILL / "SKILL.md"
            return (of_servers.parent if self.scope == "user" else self.project) / _SECTIONS
        if part == "memory":
            return of_servers if self.agent.by_shell else of_hooks
        return of_hooks if part == "hooks" else of_servers


class FileChange(NamedTuple):
    """What was done to one file, or would be: `did` is a word for people and for programs.

    `absent` is a file that is not there, and was not; `edited` one whose part of ours somebody
    changed, so that it stays. Secrets in the diff are masked: it shows what
    stands around our entries, too.
    """

    part: Part
    path: str
    did: Literal[
        "created", "changed", "unchanged", "edited", "absent", "restored", "deleted", "removed"
    ]
    backup: str | None
    diff: str

    @property
    def is_one(self) -> bool:
        """Whether anything was done."""
        return self.did not in ("unchanged", "edited", "absent")


class _Plan(NamedTuple):
    """One part of a file: the file's bytes, what they are to be (None: no file), the record."""

    part: Part
    path: Path
    was: bytes | None
    new: bytes | None
    record: SettingsRecord | None
    edited: bool = False

    @property
    def changes(self) -> bool:
        return self.was != self.new


# What is planned for files that earlier parts of the same run change.
_Ahead = Mapping[Path, bytes | None]


def install(
    where: Where, parts: Sequence[Part], program: Program, *, dry_run: bool = False
) -> list[FileChange]:
    """Put memplane into an agent's settings; a second time changes nothing.

    All or none of the files: what was written goes back where a later one cannot be. Raises
    InputError for a file that is not what its agent reads, WriteError where the disk refuses.
    """
    store = SettingsStore(where.environment)

    def plan(part: Part, ahead: _Ahead) -> _Plan:
        return _to_install(where, part, program, store, ahead)

    in_turn = [part for part in PARTS if part in parts]
    return _carried_out(in_turn, plan, _Install(where, store), dry_run=dry_run)


def uninstall(where: Where, parts: Sequence[Part], *, dry_run: bool = False) -> list[FileChange]:
    """Take memplane out of an agent's settings: nothing else is touched.

    A file that nobody edited since the install is again what it was, byte for byte, and gone where
    there was none: the part that came last goes first. The copies that installs made go; of a file
    that was edited since, one stays: as it was just before. Raises as `install` does.
    """
    store = SettingsStore(where.environment)

    def plan(part: Part, ahead: _Ahead) -> _Plan:
        return _to_uninstall(where, part, store, ahead)

    in_turn = [part for part in reversed(PARTS) if part in parts]
    if store.get(where.file("memory"), "memory") is None:
        in_turn = [part for part in in_turn if part != "memory"]  # it was never switched off here
    changes = _carried_out(in_turn, plan, _Uninstall(where, store), dry_run=dry_run)
    for change in changes:
        # A file that somebody else deleted may be wanted back; of one that was edited ours is left.
        if not dry_run and change.did not in ("absent", "edited"):
            _forget(where, change, store)
    return changes


def _forget(where: Where, change: FileChange, store: SettingsStore) -> None:
    """Drop what is remembered of a file, copies of it that nobody changed, folders made for it."""
    path, part = Path(change.path), change.part
    record = store.get(path, part)
    for copy, digest in () if record is None else record.backups:
        with contextlib.suppress(OSError, MemplaneError):
            if _digest_or_none(settings_files.read_settings(Path(copy))) == digest:
                Path(copy).unlink()
    if record is not None and not path.exists():
        settings_files.take_folders(record.folders)
    elif record is not None:
        _hand_on(where, record, change, store)
    store.drop(path, part)


def _hand_on(
    where: Where, record: SettingsRecord, change: FileChange, store: SettingsStore
) -> None:
    """Tell the records of other parts in the same file what it was before the first of them.

    And the copy that was just made of it: with another part in it a file is not as it was, though
    nobody edited it. The copy goes with the last part, which leaves one itself where it was edited.
    """
    path = Path(change.path)
    now = _digest_or_none(settings_files.read_settings(path))
    copy = None if change.backup is None else settings_files.read_settings(Path(change.backup))
    copied = () if copy is None else ((str(change.backup), _digest(copy)),)
    for part in PARTS:
        other = None if part == record.part else store.get(path, part)
        if other is None or where.file(part) != path:
            continue
        traces = Traces(inner=record.traces.inner, blank=record.traces.blank)
        if other.before is not None and now != record.before:  # it came after this one
            other = replace(other, before=record.before)
        folders = tuple(dict.fromkeys((*record.folders, *other.folders)))
        backups = (*other.backups, *copied)
        store.put(replace(other.with_more(traces), folders=folders, backups=backups))


def switched_off(where: Where) -> str:
    """The setting of this scope that keeps every hook from running, "" where none does."""
    path = where.file("mcp" if where.agent.by_shell else "hooks")
    try:
        text = settings_files.decode_settings(settings_files.read_settings(path) or b"")
        if where.agent.by_shell:
            features = settings_files.parse_toml(text).get("features")
            flags = features if isinstance(features, dict) else {}
            names = ("hooks", "codex_hooks")  # the second is its older name
            found = [f"features.{name} = false" for name in names if flags.get(name) is False]
        else:
            there = {} if settings_files.is_blank(text) else settings_files.parse_json(text)
            off = isinstance(there, dict) and there.get("disableAllHooks") is True
            found = ["disableAllHooks"] if off else []
    except MemplaneError:
        return ""
    return f"{found[0]} in {path}" if found else ""


def _to_install(
    where: Where, part: Part, program: Program, store: SettingsStore, ahead: _Ahead
) -> _Plan:
    path = where.file(part)
    was = ahead[path] if path in ahead else settings_files.read_settings(path)
    record = store.get(path, part)
    with _named(path):
        text = settings_files.decode_settings(was or b"")
        ours_before = _has_ours(text, where.agent, path, part)
        new, traces, edited = _put_in(text, where.agent, path, part, program)
    if new == text:
        return _Plan(part, path, was, was, record, edited)
    if record is None or not ours_before:
        before = None if was is None else _digest(was)
        backups = () if record is None else record.backups
        record = SettingsRecord(file=str(path), part=part, before=before, backups=backups)
    return _Plan(part, path, was, new.encode(), record.with_more(traces))


def _to_uninstall(where: Where, part: Part, store: SettingsStore, ahead: _Ahead) -> _Plan:
    path = where.file(part)
    was = ahead[path] if path in ahead else settings_files.read_settings(path)
    record = store.get(path, part)
    if was is None:
        return _Plan(part, path, None, None, record)
    traces = Traces() if record is None else record.traces
    with _named(path):
        text = settings_files.decode_settings(was)
        left, _, edited = _taken_out(text, where.agent, path, part, traces)
    new: bytes | None = was if left == text else left.encode()
    # A skill is a file of its own: it is gone without a record, too.
    made = record.before is None if record is not None else path.name == "SKILL.md"
    if left != text and made and _is_empty(left, path):
        new = None
    return _Plan(part, path, was, new, record, edited)


def _put_in(text: str, agent: Agent, path: Path, part: Part, program: Program) -> Guided:
    if part == "hooks":
        return Guided(*entries.add_hooks(text, agent, agent.wanted(program)))
    if part == "mcp":
        add = entries.add_server_table if path.suffix == ".toml" else entries.add_server
        return Guided(*add(text, agent, agent.server(program)))
    if part == "skill":
        put = entries.add_section if path.name == _SECTIONS else entries.add_skill
        return put(text)
    return entries.switch_off(text, toml=path.suffix == ".toml")


def _taken_out(text: str, agent: Agent, path: Path, part: Part, traces: Traces) -> Guided:
    if part == "hooks":
        return Guided(entries.remove_hooks(text, agent, traces))
    if part == "mcp":
        remove = entries.remove_server_table if path.suffix == ".toml" else entries.remove_server
        return Guided(remove(text, agent, traces))
    if part == "skill":
        take = entries.remove_section if path.name == _SECTIONS else entries.remove_skill
        return take(text, traces)
    return entries.switch_back(text, traces, toml=path.suffix == ".toml")


def _has_ours(text: str, agent: Agent, path: Path, part: Part) -> bool:
    try:
        return _taken_out(text, agent, path, part, Traces()).text != text
    except InputError:  # written in a way that can only be left as it is
        return True


def _is_empty(text: str, path: Path) -> bool:
    return settings_files.is_blank(text) or (
        path.suffix == ".json" and settings_files.parse_json(text) == {}
    )


def _backed_up(where: Where, plan: _Plan, store: SettingsStore) -> Path | None:
    """A copy of a file that is there: beside it; that of a project's not, which is often in git."""
    if plan.was is None:
        return None
    project = where.scope == "project"
    folder = store.copies(plan.path, plan.part) if project else plan.path.parent
    return settings_files.back_up(plan.path, plan.was, folder)


class _Install:
    """Writes a planned file, behind a backup and a record of what it was."""

    def __init__(self, where: Where, store: SettingsStore) -> None:
        self._where, self._store = where, store

    def __call__(self, plan: _Plan) -> FileChange:
        assert plan.record is not None
        assert plan.new is not None
        record = plan.record
        copy = _backed_up(self._where, plan, self._store)
        now = self._store.get(plan.path, plan.part)  # another install may be at work, too
        if now is not None:
            copies = tuple(dict.fromkeys((*record.backups, *now.backups)))
            made_before = tuple(dict.fromkeys((*record.folders, *now.folders)))
            record = replace(record, backups=copies, folders=made_before)
        if copy is not None and plan.was is not None:
            record = replace(record, backups=(*record.backups, (str(copy), _digest(plan.was))))
        try:
            # Before the file: a record without an install is forgotten, one that lacks is missed.
            self._store.put(record)
            mode = 0o600 if self._where.scope == "user" else 0o666
            made = settings_files.put_settings(plan.path, plan.new, plan.was, mode)
        except BaseException:
            if copy is not None:
                copy.unlink(missing_ok=True)
            raise
        folders = dict.fromkeys((*record.folders, *self._made_for_others(plan), *made))
        if folders:
            self._store.put(replace(record, folders=tuple(folders)))
        did: Literal["created", "changed"] = "created" if plan.was is None else "changed"
        return FileChange(plan.part, str(plan.path), did, None if copy is None else str(copy), "")

    def _made_for_others(self, plan: _Plan) -> list[str]:
        """Folders that the agent's other files brought along and that this one lies in too."""
        above = {str(one) for one in Path(os.path.realpath(plan.path)).parents}
        others = (self._store.get(self._where.file(part), part) for part in PARTS)
        return [
            one
            for record in others
            if record is not None and record.part != plan.part
            for one in record.folders
            if one in above
        ]

    def undo(self, plan: _Plan, change: FileChange) -> None:
        """Give a file back that was written, as far as nobody wrote it since."""
        assert plan.new is not None
        record = self._store.get(plan.path, plan.part)
        if plan.was is None:
            settings_files.take_away(plan.path, plan.new, () if record is None else record.folders)
        else:
            settings_files.put_settings(plan.path, plan.was, plan.new, 0o600)
        if change.backup is not None:
            Path(change.backup).unlink(missing_ok=True)


class _Uninstall:
    """Writes or deletes a planned file; a backup is only needed where people edited it since."""

    def __init__(self, where: Where, store: SettingsStore) -> None:
        self._where, self._store = where, store

    def __call__(self, plan: _Plan) -> FileChange:
        assert plan.was is not None
        record, copy = plan.record, None
        same = record is not None and _digest_or_none(plan.new) == record.before
        if plan.new is None:
            settings_files.take_away(plan.path, plan.was, ())
        else:
            copy = None if same else _backed_up(self._where, plan, self._store)
            try:
                settings_files.put_settings(plan.path, plan.new, plan.was, 0o600)
            except BaseException:
                if copy is not None:
                    copy.unlink(missing_ok=True)
                raise
        did: Literal["deleted", "restored", "removed"] = "restored" if same else "removed"
        if plan.new is None:
            did = "deleted"
        return FileChange(plan.part, str(plan.path), did, None if copy is None else str(copy), "")

    def undo(self, plan: _Plan, change: FileChange) -> None:
        """Give a file back that was written."""
        assert plan.was is not None
        settings_files.put_settings(plan.path, plan.was, plan.new, 0o600)
        if change.backup is not None:
            Path(change.backup).unlink(missing_ok=True)


def _carried_out(
    parts: Sequence[Part],
    plan: Callable[[Part, _Ahead], _Plan],
    carry_out: _Install | _Uninstall,
    *,
    dry_run: bool,
) -> list[FileChange]:
    """Do what is planned; a file that another program wrote meanwhile is planned anew."""
    plans: list[_Plan] = []
    for part in parts:
        plans.append(plan(part, {one.path: one.new for one in plans if one.changes}))
    for one in plans:
        if one.changes:
            settings_files.refuse_unwritable(one.path)
    done: list[tuple[_Plan, FileChange]] = []
    try:
        for one in plans:
            done.append(_done(one, plan, carry_out, dry_run=dry_run))  # noqa: PERF401 - undone
    except BaseException:
        for one, change in reversed(done):
            if one.changes and not dry_run:
                with contextlib.suppress(
                    MemplaneError, OSError, settings_files.ChangedMeanwhileError
                ):
                    carry_out.undo(one, change)
        raise
    return [change for _, change in done]


def _done(
    one: _Plan,
    plan: Callable[[Part, _Ahead], _Plan],
    carry_out: _Install | _Uninstall,
    *,
    dry_run: bool,
) -> tuple[_Plan, FileChange]:
    for _ in range(_TRIES):
        if not one.changes:
            found: Literal["unchanged", "edited", "absent"] = "unchanged"
            if one.was is None or one.edited:
                found = "absent" if one.was is None else "edited"
            return one, FileChange(one.part, str(one.path), found, None, "")
        diff = _diff(one)
        if dry_run:
            did: Literal["created", "changed", "deleted"] = "changed"
            if one.was is None or one.new is None:
                did = "created" if one.was is None else "deleted"
            return one, FileChange(one.part, str(one.path), did, None, diff)
        try:
            return one, carry_out(one)._replace(diff=diff)
        except settings_files.ChangedMeanwhileError:
            one = plan(one.part, {})
    raise WriteError(f"{one.path}: another program keeps writing it; close it and try again")


def _diff(plan: _Plan) -> str:
    was = (plan.was or b"").decode().splitlines(keepends=True)
    new = (plan.new or b"").decode().splitlines(keepends=True)
    before = "/dev/null" if plan.was is None else str(plan.path)
    after = "/dev/null" if plan.new is None else str(plan.path)
    lines = difflib.unified_diff(was, new, before, after)
    whole = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return masked("".join(whole))


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Put a file before what is wrong with it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}; nothing was changed", where=str(path)) from None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_or_none(data: bytes | None) -> str | None:
    return None if data is None else _digest(data)
