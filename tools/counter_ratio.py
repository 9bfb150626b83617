"""How far `bound/1` lies above the larger of the two exact counts.

    python tools/counter_ratio.py

English, code and JSON come from the standard library of the running Python: its
documentation topics, its modules, and their lines wrapped as records. 400 windows of 600
characters each; needs rs-bpe.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from pydoc_data.topics import topics
from time import perf_counter
from typing import TYPE_CHECKING

from rs_bpe.bpe import openai

import memplane.tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

WINDOWS, LENGTH = 400, 600


def main() -> None:
    """Print one row a kind of text."""
    packed = Path(memplane.tokens.__file__).with_name("bound1.xz").read_bytes()
    counter = memplane.tokens.make("bound/1", table=lambda: packed)
    encodings = (openai.o200k_base(), openai.cl100k_base())
    counter.count("The table is read here.")
    print(f"{'text':8} {'mean':>7} {'p99':>7} {'lowest':>7} {'us, new':>8} {'us, known':>9}")
    for kind, text in sources():
        # What the first half taught helps with the second, as it would in a running plane.
        half = len(text) // 2
        counter.count(text[:half])
        cuts = random.Random(1)
        starts = [half + cuts.randrange(half - LENGTH) for _ in range(WINDOWS)]
        windows = [text[start : start + LENGTH] for start in starts]
        times = []
        for _ in range(2):
            begin = perf_counter()
            counts = [counter.count(window) for window in windows]
            times.append((perf_counter() - begin) / WINDOWS * 1e6)
        exact = [max(encoding.count(window) for encoding in encodings) for window in windows]
        ratios = sorted(count / most for count, most in zip(counts, exact, strict=True))
        mean, p99 = sum(ratios) / WINDOWS, ratios[WINDOWS * 99 // 100]
        print(f"{kind:8} {mean:7.4f} {p99:7.3f} {ratios[0]:7.3f} {times[0]:8.0f} {times[1]:9.0f}")


def sources() -> Iterator[tuple[str, str]]:
    """Name each kind of text and give some hundred thousand characters of it."""
    yield "English", "\n".join(topics.values())
    modules = sorted(Path(json.__file__).parent.parent.glob("*.py"))[:80]
    code = "".join(module.read_text("utf-8") for module in modules)
    yield "code", code
    rows = (
        {"id": f"e{number:08x}", "kind": "tool_result", "text": line, "data": {"line": number}}
        for number, line in enumerate(code.splitlines()[:20_000])
        if line.strip()
    )
    yield "JSON", "\n".join(json.dumps(row) for row in rows)


if __name__ == "__main__":
    main()
