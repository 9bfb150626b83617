"""Read a log without memplane: JSON lines and sha256, nothing else.

Prints who said what, and checks that every line chains from the one before. The format is the
docstring of `memplane/log/__init__.py`; this program is what it takes to do without memplane.

    python examples/read_log.py .memplane
"""

import json
import sys
from hashlib import sha256
from pathlib import Path

SUFFIX = 24  # bytes: ,"h":"<16 hex digits>"}


def lines(home: Path) -> list[bytes]:
    """The lines of all segments, in order; a torn last line has no line feed and is left out."""
    found = []
    for segment in sorted((home / "log").glob("[0-9]*.jsonl")):
        found += segment.read_bytes().split(b"\n")[:-1]
    return found


def chains(home: Path, raw: list[bytes]) -> bool:
    """Whether each line's hash is that of the hash before and its own body.

    Lines that a purge has overwritten say so and have a check of their own; they are passed over.
    """
    plane = json.loads((home / "plane.json").read_text())["plane"]
    before = sha256(plane.encode()).hexdigest()[:16].encode()
    for line in raw:
        stated = line[-18:-2]
        real = sha256(before + line[:-SUFFIX]).hexdigest()[:16].encode()
        if real != stated and not json.loads(line).get("purged"):
            return False
        before = stated
    return True


def main(folder: str) -> int:
    """Print the log and whether it is whole; 1 where it is not."""
    home = Path(folder)
    raw = lines(home)
    for event in map(json.loads, raw):
        if event.get("kind") != "segment" and not event.get("purged"):
            who = event.get("role") or event.get("kind")
            print(f"{event['seq']:>5}  {who:<10} {event.get('text', '')[:80]}")
    whole = chains(home, raw)
    print("every line chains" if whole else "the chain is broken")
    return 0 if whole else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1] if len(sys.argv) > 1 else ".memplane"))
