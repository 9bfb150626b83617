"""Nothing changes unannounced: blocks, reports, hits, answers and formats of a fixed corpus.

`kept/` has a digest for each part of each answer. Where a change is meant, `python
tests/golden/record.py` records the corpus again, and the commit says what changed and why.
"""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planes import PLANES
from record import KEPT, build, lines

SHOWN = 12
# What the large ones have beside the others is more segments and fuller bounds: of "medium" every
# file and one in five requests is held in `make test`, of "large" all in `make test-long` alone.
EACH = {"medium": 5}
ASKED = [
    *((name, EACH.get(name, 1)) for name in PLANES if name != "large"),
    *(pytest.param(name, 1, marks=pytest.mark.long) for name in (*EACH, "large")),
]


@pytest.mark.parametrize(("name", "each"), ASKED)
def test_a_plane_answers_as_recorded(name, each, tmp_path):
    kept = json.loads((KEPT / f"{name}.json").read_text())
    found = lines(name, build(name, tmp_path / name / ".memplane"), each)
    assert list(found) == [at for at in kept if is_asked(at, each)]
    differing = [
        f"{at}: {', '.join(changed(kept[at], found[at]))}" for at in found if kept[at] != found[at]
    ]
    assert not differing, f"{len(differing)} differ: " + "; ".join(differing[:SHOWN])


def is_asked(at: str, each: int) -> bool:
    """Whether this is among the answers to one request in `each`; of files and clients all are."""
    kind, *_, number = at.split()
    return kind in ("file", "hook", "mcp") or int(number) % each == 0


def changed(kept: dict[str, str], found: dict[str, str]) -> list[str]:
    """The parts of an answer that are not as they were."""
    return [part for part in kept | found if kept.get(part) != found.get(part)]


def test_the_corpus_has_at_least_four_hundred_requests_of_every_kind():
    asked = [
        at.split()[0] for name in PLANES for at in json.loads((KEPT / f"{name}.json").read_text())
    ]
    assert sum(one != "file" for one in asked) >= 400
    assert {"pack", "search", "hook", "mcp", "file", "get", "history", "expand"} <= {*asked}
