"""Draw the picture of the README: a question of `memplane demo` and its block, as SVG.

Plain text in a frame: no font is fetched, and the same demo gives the same bytes. Without a path
the picture of the repository is written.
"""

from __future__ import annotations

import argparse
import tempfile
import textwrap
from html import escape
from pathlib import Path
from typing import Final

import memplane
from memplane.cli.maintenance import QUESTIONS, fill
from memplane.wiring import init

PICTURE: Final = Path(__file__).resolve().parent.parent / "docs" / "images" / "demo.svg"
ASKED: Final = 1  # the place of the question in QUESTIONS
COLUMNS: Final = 92
LINE: Final = 17  # pixels
LETTER: Final = 7.8
COLOURS: Final = {
    "back": "#12161c", "frame": "#2b323c", "text": "#d7dde5", "prompt": "#7fd1a4",
    "heading": "#8ab4f8", "dim": "#8b95a3",
}  # fmt: skip


def main() -> int:
    """Write the picture; 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path, nargs="?", default=PICTURE)
    path = parser.parse_args().path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(drawn(lines()), encoding="utf-8")
    return 0


def lines() -> list[tuple[str, str]]:
    """The lines of the picture, each with the name of its colour."""
    one = QUESTIONS[ASKED]
    with (
        tempfile.TemporaryDirectory(prefix="memplane-") as scratch,
        init(Path(scratch) / "plane", trusted=False) as plane,
    ):
        fill(plane)
        block = plane.pack(one.query, budget=one.budget, channel=one.channel)
    asked = f'$ memplane pack "{one.query}" --channel {one.channel} --budget {one.budget}'
    found = [(asked, "prompt")]
    for line in block.text.splitlines():
        found += [(piece, colour_of(line)) for piece in wrapped(line)]
    return [*found, (cost_of(block), "dim")]


def cost_of(block: memplane.Block) -> str:
    """The line on stderr without what differs from run to run."""
    left = sum(block.report["omissions"]["counts"].values())
    return (
        f"memplane: {block.tokens} of {block.report['budget']} tokens, "
        f"{len(block.entries)} entries, {left} left out"
    )


def wrapped(line: str) -> list[str]:
    """A line of a block in pieces that fit."""
    return textwrap.wrap(line, COLUMNS, subsequent_indent="  ", break_on_hyphens=False) or [""]


def colour_of(line: str) -> str:
    """The name of the colour of a line."""
    if line.startswith("## "):
        return "heading"
    return "dim" if line.startswith(("memplane:", "~~~", "20")) else "text"


def drawn(rows: list[tuple[str, str]]) -> str:
    """The SVG of lines of text."""
    width, height = round(COLUMNS * LETTER) + 40, len(rows) * LINE + 48
    frame = f'fill="{COLOURS["back"]}" stroke="{COLOURS["frame"]}"'
    font = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
    size = f'width="{width}" height="{height}"'
    said = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>A question to the demo plane, and the block that memplane packs for it</title>",
        f'<rect {size} rx="8" {frame}/>',
        f'<g font-family="{font}" font-size="13" style="white-space:pre">',
    ]
    said += [
        f'<text x="20" y="{34 + at * LINE}" fill="{COLOURS[colour]}">{escape(row)}</text>'
        for at, (row, colour) in enumerate(rows)
        if row
    ]
    return "\n".join([*said, "</g>", "</svg>", ""])


if __name__ == "__main__":
    raise SystemExit(main())
