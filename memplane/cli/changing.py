"""`memplane update` and `memplane undo`: a statement changed, and the last word taken back."""

from typing import Annotated, Any

import typer

from memplane.cli import fields
from memplane.cli.app import command
from memplane.cli.options import Home, Json
from memplane.cli.output import fields_of, put, rows
from memplane.wiring import open_plane

__all__ = ["undo", "update"]


@command("update", example='update 4 "We moved to SQLite" --importance 0.9')
def update(
    event: Annotated[str, typer.Argument(metavar="ID|SEQ", help="The statement that changes.")],
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What it says now; else as before.")
    ] = None,
    *,
    tag: fields.Tags = None,
    marker: fields.Markers = None,
    importance: fields.Importance = None,
    sensitivity: fields.Sensitivity = None,
    valid_from: fields.Time = None,
    valid_until: fields.Time = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Change a statement, with or without a key, and print the seq and id of the new event.

    Fields that you do not give keep their values. The changed statement is a new event that names
    the old one; the old one is superseded, or forgotten if it has no key. `undo` takes that back.
    """
    given: dict[str, Any] = {
        "text": text, "tags": tag or None, "markers": marker or None,
        "importance": fields.number(importance), "sensitivity": sensitivity,
        "valid_from": valid_from, "valid_until": valid_until,
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    with open_plane(home) as plane:
        receipt = plane.update(fields.ref(event), **changes)
    put(receipt.as_json(), f"{receipt.seq} {receipt.id}", as_json=as_json)


@command("undo", example="undo --dry-run")
def undo(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take back; write nothing.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take back the last statement that was recorded, or the last forget, unforget or evict.

    A statement is forgotten, and what it had replaced holds again. Once more, it goes further back.
    The log keeps all of it; exit 1 where there is nothing to take back.
    """
    with open_plane(home) as plane:
        done = plane.undo(dry_run=dry_run)
    answer = {
        "dry_run": dry_run, "events": [fields_of(event) for event in done.events],
        "restored": None if done.restored is None else fields_of(done.restored),
        "receipts": [receipt.as_json() for receipt in done.receipts],
    }  # fmt: skip
    words = [("would be taken back:" if dry_run else "taken back:"), rows(list(done.events))]
    if done.restored is not None:
        words += ["holds again:", rows([done.restored])]
    put(answer, "\n".join(words), as_json=as_json)
