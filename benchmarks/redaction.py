"""What redaction finds and costs: `python benchmarks/redaction.py`, in about a minute.

Prints the masks by rule in 20 MB of the source code that this Python has (nearly all of them
false), and the cost by KB beside that of one pattern over the same text. `--spans FILE` adds recall
and precision on labelled lines ({"text", "spans": [{"start", "end", "rule"}]} a line, gzipped),
`--texts FILE` the masks in texts ({"text"} a line, gzipped). `--show` prints each mask with its
line. `--json` prints figures alone, so that two commits can be compared in pairs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sysconfig
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from memplane.intake import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
CODE_BYTES: Final = 20_000_000
# The patterns of the first specification's privacy.yaml, which planes made by it still hold.
FIRST: Final = (r"(?i)api_key\s*[:=]\s*\S+", r"(?i)password\s*[:=]\s*\S+")
_FLOOR: Final = re.compile(r"AKIA[0-9A-Z]{16}")
_COST_FILES: Final = 400
_FILE_BYTES: Final = 40_000
_MARK: Final = re.compile(r"\[redacted:([a-z0-9-]{1,40})\]")


def main() -> int:
    asked = _arguments()
    shipped = tuple(
        yaml.safe_load((ROOT / "policies/privacy.yaml").read_text())["store"]["redact_patterns"]
    )
    policies = {"built in": (), "shipped": shipped, "first": FIRST}
    out: dict[str, Any] = {}
    files = list(code_sample(asked.code_bytes))
    out["code"] = {"files": len(files), "bytes": sum(len(text.encode()) for _, text in files)}
    for name, patterns in policies.items():
        show = asked.show and name == "shipped"
        out["code"][name] = _count(files, Redactor(patterns), show=show)
    out["cost"] = _cost([text for _, text in files], shipped)
    if asked.spans is not None:
        lines = _rows_of(asked.spans)
        out["spans"] = {name: _spans(lines, Redactor(p)) for name, p in policies.items()}
    if asked.texts is not None:
        for path in asked.texts:
            rows = [row["text"] for row in _rows_of(path)]
            texts = [(f"{path.parent.name}:{number}", text) for number, text in enumerate(rows)]
            out[f"texts {path.parent.name}"] = {
                name: _count(texts, Redactor(patterns), show=asked.show and name == "shipped")
                for name, patterns in policies.items()
            }
    print(json.dumps(out) if asked.json else _words(out))
    return 0


def _rows_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def code_sample(most: int = CODE_BYTES) -> Iterator[tuple[str, str]]:
    """Python files of the installed packages and the standard library, sorted, up to `most` bytes.

    Longer files are left out: they are tables, and few of them would make up the sample.
    """
    paths = sysconfig.get_paths()
    size = 0
    for root in (Path(paths["purelib"]), Path(paths["stdlib"])):
        for path in sorted(root.rglob("*.py")):
            inner = path.relative_to(root).parts
            if path.stat().st_size > _FILE_BYTES or "site-packages" in inner:
                continue
            try:
                text = path.read_text("utf-8")
            except UnicodeDecodeError:
                continue
            size += len(text.encode())
            if size > most:
                return
            yield "/".join(inner), text


def _count(
    texts: Iterable[tuple[str, str]], redactor: Redactor, *, show: bool = False
) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for name, text in texts:
        masked, found = redactor.redact(text)
        counts.update(found)
        if show and found:
            for number, line in enumerate(masked.splitlines()):
                if _MARK.search(line):
                    print(f"{name}:{number}: {line.strip()[:220]}")
    return {"masks": sum(counts.values()), "rules": dict(counts.most_common())}


def _cost(texts: list[str], patterns: tuple[str, ...]) -> dict[str, float]:
    """Microseconds of the processor a KB, the least of five rounds, and the ratio to one search."""
    pieces = [
        text[at : at + 1024] for text in texts[:_COST_FILES] for at in range(0, len(text), 1024)
    ]
    kilobytes = sum(map(len, pieces)) / 1024
    redactors = {"built in": Redactor(()), "shipped": Redactor(patterns)}
    least: dict[str, float] = {}
    for _ in range(5):
        for name, redactor in redactors.items():
            begun = time.process_time()
            for piece in pieces:
                redactor.redact(piece)
            took = (time.process_time() - begun) * 1e6 / kilobytes
            least[name] = min(least.get(name, took), took)
        begun = time.process_time()
        for piece in pieces:
            _FLOOR.search(piece)
        took = (time.process_time() - begun) * 1e6 / kilobytes
        least["one search"] = min(least.get("one search", took), took)
    floor = least["one search"]
    return {**least, "ratio": least["shipped"] / floor, "ratio built in": least["built in"] / floor}


def _spans(lines: list[dict[str, Any]], redactor: Redactor) -> dict[str, Any]:
    """How many labelled spans lose half of their characters or more, and masks beside any span."""
    labelled = found = masks = wrong = 0
    missed: Counter[str] = Counter()
    for line in lines:
        text = line["text"]
        hidden = _hidden(text, redactor)
        for span in line["spans"]:
            labelled += 1
            inside = sum(hidden[span["start"] : span["end"]])
            if 2 * inside >= span["end"] - span["start"]:
                found += 1
            else:
                missed[span["rule"]] += 1
        for start, end in _rows(hidden):
            masks += 1
            wrong += not any(s["start"] < end and start < s["end"] for s in line["spans"])
    return {
        "labelled": labelled, "found": found, "recall": round(found / labelled, 4), "masks": masks,
        "beside": wrong, "precision": round(1 - wrong / masks, 4),
        "missed": dict(missed.most_common(12)),
    }  # fmt: skip


def _hidden(text: str, redactor: Redactor) -> list[bool]:
    """Which characters of the text a mark replaced: what lies between the pieces that stayed."""
    masked, _ = redactor.redact(text)
    kept = _MARK.split(masked)[::2]
    hidden = [False] * len(text)
    at = 0
    for number, piece in enumerate(kept):
        last = number == len(kept) - 1
        start = len(text) - len(piece) if last else text.find(piece, at + (number > 0))
        if number:
            hidden[at:start] = [True] * (start - at)
        at = start + len(piece)
    return hidden


def _rows(hidden: list[bool]) -> Iterator[tuple[int, int]]:
    start = None
    for at, is_hidden in enumerate([*hidden, False]):
        if is_hidden and start is None:
            start = at
        elif not is_hidden and start is not None:
            yield start, at
            start = None


def _words(out: dict[str, Any]) -> str:
    code, cost = out["code"], out["cost"]
    rows = [f"code: {code['files']:,} files, {code['bytes']:,} bytes"]
    rows += [
        f"  {name}: {code[name]['masks']} masks {code[name]['rules']}"
        for name in code
        if name not in ("files", "bytes")
    ]
    rows.append(
        "cost: "
        + ", ".join(f"{name} {value:.2f}" for name, value in cost.items())
        + " (us a KB; ratios to one search)"
    )
    for name, figures in out.items():
        if name not in ("code", "cost"):
            rows += [f"{name}, {policy}: {said}" for policy, said in figures.items()]
    return "\n".join(rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spans", type=Path, help="labelled lines, gzipped")
    parser.add_argument("--texts", type=Path, action="append", help="texts, gzipped")
    parser.add_argument("--code-bytes", type=int, default=CODE_BYTES, help="how much source code")
    parser.add_argument("--show", action="store_true", help="print each mask with its line")
    parser.add_argument("--json", action="store_true", help="figures alone")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
