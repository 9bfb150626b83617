"""`memplane artifact`: files beside the log, and the approvals that let prompts show their text."""

from typing import Annotated, TypeAlias

import typer

from memplane.artifacts.service import Approval, Artifact
from memplane.cli.app import artifact_app, command
from memplane.cli.options import (
    Actor,
    Agent,
    Channel,
    EventNs,
    EventSession,
    Home,
    Json,
    Key,
    OneNs,
    Reason,
    Sensitivity,
    Tags,
    Task,
    Time,
)
from memplane.cli.options import Session as OneSession
from memplane.cli.output import Bar, clipped_line, counted, print_answer, say
from memplane.wiring import open_plane

__all__ = ["approve", "artifact_add", "export_artifact", "list_all", "print_artifact", "revoke"]

_Named: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="ID|SEQ|HASH", help="Its event, the beginning of its hash, its URI or its name."
    ),
]
_Reference: TypeAlias = Annotated[
    bool,
    typer.Option("--reference", help="Leave it where it is and keep path and hash: up to 1 GiB."),
]
_Type: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="research_report (Markdown and a JSON sidecar) or research_bundle (JSON).",
    ),
]


@command("add", example='artifact add report.md "What we found on herons"', group=artifact_app)
def artifact_add(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A file of at most 64 MiB.")],
    text: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="What it is; shown once it is approved.")
    ] = "",
    *,
    reference: _Reference = False,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Instead of the file's own.")
    ] = None,
    mime: Annotated[
        str | None, typer.Option("--mime", metavar="TYPE", help="Instead of what its name says.")
    ] = None,
    type_: _Type = None,
    sidecar: Annotated[
        str | None,
        typer.Option("--sidecar", metavar="FILE", help="Of a report; else its name with .json."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Store a text with its secrets masked.")
    ] = False,
    ns: EventNs = None,
    task: Task = None,
    session: EventSession = None,
    tag: Tags = None,
    sensitivity: Sensitivity = None,
    key: Key = None,
    actor: Actor = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Add a file: a copy of its bytes, or with --reference its path and hash.

    No block, hit or expansion shows its text until somebody approves it; until then its name, size
    and handle are told. A text that holds a secret is refused without --redact.
    """
    fields = {
        "ns": ns, "task": task, "session": session, "tags": tag, "sensitivity": sensitivity,
        "key": key, "actor": actor,
    }  # fmt: skip
    with open_plane(home) as plane, Bar("reading") as bar:
        added = plane.artifacts.add(
            path, text, reference=reference, name=name, mime=mime, type=type_, sidecar=sidecar,
            redact=redact, progress=bar, **fields,
        )  # fmt: skip
    facts, receipt = added.facts, added.receipt
    print_answer(added.as_json(), f"{receipt.seq} {facts.uri}", as_json=as_json)
    masked = sum(added.redactions.values())
    if masked:
        rules = ", ".join(f"{rule} {number}" for rule, number in added.redactions.items())
        say(f"{counted(masked, 'secret')} masked in what is stored: {rules}")
    if receipt.duplicate:
        say(f"it was there already, as event {receipt.seq}")


@command("list", example="artifact list", group=artifact_app)
def list_all(
    *,
    ns: OneNs = None,
    session: OneSession = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="Only this task.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Replaced and forgotten ones, too.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 100,
    channel: Channel = "private",
    agent: Agent = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the artifacts, newest first: seq, hash, whether approved, name, size and type."""
    with open_plane(home) as plane:
        found = plane.artifacts.list(
            ns=ns,
            session=session,
            task=task,
            all=everything,
            limit=limit,
            channel=channel,
            agent=agent,
        )
    print_answer([one.as_json() for one in found], "\n".join(map(_row, found)), as_json=as_json)
    if not found:
        say("no artifact")


@command("show", example="artifact show report.md", group=artifact_app)
def print_artifact(
    named: _Named,
    *,
    review: Annotated[
        bool,
        typer.Option("--review", help="What was said of it, too, for who decides whether to."),
    ] = False,
    channel: Channel = "private",
    agent: Agent = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print what is known of an artifact, who approved it, and whether its file is unchanged."""
    with open_plane(home) as plane:
        found = plane.artifacts.show(named, review=review, channel=channel, agent=agent)
    print_answer(found.as_json(), _whole(found), as_json=as_json)


@command("export", example="artifact export report.md --to copy.md", group=artifact_app)
def export_artifact(
    named: _Named,
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="PATH", help="A file, or a folder to put it in.")
    ] = ".",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace what is there by that name.")
    ] = False,
    channel: Channel = "private",
    agent: Agent = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write the bytes that were added to a file, compared with their hash; a sidecar beside it."""
    with open_plane(home) as plane:
        paths = [
            str(path)
            for path in plane.artifacts.export(
                named, to, replace=replace, channel=channel, agent=agent
            )
        ]
    print_answer(paths, "\n".join(paths), as_json=as_json)


@command("approve", example="artifact approve report.md --actor ann", group=artifact_app)
def approve(
    named: _Named,
    *,
    actor: Actor = None,
    reason: Reason = "",
    valid_until: Time = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Let prompts show its text as it is now. Read it first: `memplane artifact export`."""
    with open_plane(home) as plane:
        receipt = plane.artifacts.approve(named, reason, valid_until=valid_until, actor=actor)
        words = f"approved {receipt.event.data['sha256'][:16]} by event {receipt.seq}"
    print_answer(receipt.as_json(), words, as_json=as_json)


@command("revoke", example="artifact revoke report.md", group=artifact_app)
def revoke(
    named: _Named,
    *,
    actor: Actor = None,
    reason: Reason = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take every approval of an artifact back."""
    with open_plane(home) as plane:
        receipt = plane.artifacts.revoke(named, reason, actor=actor)
        words = f"revoked {receipt.event.data['sha256'][:16]} by event {receipt.seq}"
    print_answer(receipt.as_json(), words, as_json=as_json)


def _row(one: Artifact) -> str:
    standing = one.archived or ("approved" if one.approved else "unapproved")
    where = f"  {clipped_line(one.path)}" if one.path else ""
    return f"{one.seq:>6}  {one.sha256[:16]}  {standing:<10}  {clipped_line(one.card)}{where}"


def _whole(one: Artifact) -> str:
    standing = one.archived or ("approved" if one.approved else "not approved")
    lines = [
        ("artifact", one.name),
        ("event", f"{one.seq} {one.id}"),
        ("uri", one.uri),
        ("handle", one.handle),
        ("mime", one.mime),
        ("bytes", str(one.bytes)),
        ("stored", f"{one.stored} {one.path}".strip()),
        ("type", one.type),
        ("sidecar", one.sidecar),
        ("added", f"{one.added[:19]}Z{'' if one.actor is None else f' by {one.actor}'}"),
        ("ns", one.ns),
        ("session", one.session),
        ("task", one.task),
        ("key", one.key),
        ("tags", ", ".join(one.tags)),
        ("sensitivity", one.sensitivity),
        ("status", standing),
        ("file", one.changed or "as it was added"),
    ]
    shown = [f"{name:<12}{clipped_line(value, 1000)}" for name, value in lines if value]
    shown += [f"{'':<12}{_said(each)}" for each in one.approvals]
    return "\n".join([*shown, "", one.text] if one.text else shown)


def _said(one: Approval) -> str:
    word = "revoked" if one.revokes else "approved"
    by = "" if one.by is None else f" by {clipped_line(one.by, 60)}"
    until = "" if one.valid_until is None else f", until {one.valid_until[:19]}Z"
    holds = "" if one.holds or one.revokes else " (no longer)"
    reason = f": {clipped_line(one.reason)}" if one.reason else ""
    return f"{word} {one.at[:19]}Z{by} in event {one.seq}{until}{holds}{reason}"
