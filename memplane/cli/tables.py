"""Lists of commands: a table on a terminal, by rich; in a pipe the plain lines of each command.

A table is as wide as its terminal at most, and its texts wrap. NO_COLOR and TERM=dumb are respected
by rich, which is imported only where a table is printed. Cells are text and never markup: what was
recorded cannot draw.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memplane.cli.output import driven, print_answer
from memplane.lazy import NamedTuple, late

if TYPE_CHECKING:
    from rich import box, console, table, text
else:
    box, console = late("rich.box"), late("rich.console")
    table, text = late("rich.table"), late("rich.text")


class TableColumn(NamedTuple):
    """A column of a list on a terminal; one that `wraps` takes the width that is left."""

    head: str
    right: bool = False
    wraps: bool = False
    dim: bool = False


def print_list(
    value: Any,
    words: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """Print a list: a table on a terminal, else `words`, its plain lines, or the JSON value."""
    if rows and not as_json and sys.stdout.isatty():
        _print_table(columns, rows)
    else:
        print_answer(value, words, as_json=as_json)


def _print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> None:
    made = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for one in columns:
        made.add_column(
            one.head,
            justify="right" if one.right else "left",
            no_wrap=not one.wraps,
            overflow="fold" if one.wraps else "ellipsis",
            ratio=1 if one.wraps else None,
            min_width=len(one.head),
            style="dim" if one.dim else "",
        )
    for row in rows:
        made.add_row(*(text.Text(driven(cell)) for cell in row))
    console.Console(file=sys.stdout, highlight=False).print(made)
