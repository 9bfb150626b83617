"""Record the golden corpus: `python tests/golden/record.py [PLANE ...]`.

Only where blocks, answers or formats are meant to change: the commit says which and why.
"""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from answers import all_of, formats
from planes import PLANES, same_ids

KEPT = Path(__file__).parent / "kept"


def build(name: str, home: Path) -> Path:
    with same_ids():
        PLANES[name](home)
    return home


def lines(name: str, home: Path, each: int = 1) -> dict[str, dict[str, str]]:
    """All answers of a plane, or one in `each`, and the bytes of its files before it was asked."""
    with same_ids():
        return dict([*formats(home), *all_of(name, home, each)])


def main() -> None:
    for name in sys.argv[1:] or PLANES:
        with tempfile.TemporaryDirectory() as folder:
            found = lines(name, build(name, Path(folder) / name / ".memplane"))
        rows = (f"{json.dumps(at)}: {json.dumps(parts)}" for at, parts in found.items())
        (KEPT / f"{name}.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
        sys.stdout.write(f"{name}: {len(found)}\n")


if __name__ == "__main__":
    KEPT.mkdir(exist_ok=True)
    main()
