"""A long text takes at most four times its bytes and 64 MB beside it, on its whole way.

Measured in a process of its own, from where the text is there: recorded, found, packed, imported,
read back; with redaction, and without it, which is quicker. Its bytes are those that came in:
masks may be longer than secrets. One wide letter makes Python hold four bytes a letter of all of a
text: it is recorded within the bound, and read back in 20 MB more than that.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json
import sys
import memplane
from memplane.importers import import_paths
from memplane.intake import redact
from pathlib import Path

unit, tail, megabytes, home, masks = *sys.argv[1:3], int(sys.argv[3]), *sys.argv[4:]
unit = unit.replace("NUL", "\\0")
if not int(masks):
    redact.Redactor.redact = lambda self, text, taken=None: (text, redact.Counts(taken))

def stated(name):
    found = [line for line in Path("/proc/self/status").read_text().split("\\n") if name in line]
    return int(found[0].split()[1]) * 1024

with memplane.init(home, durability="os") as plane:
    plane.record("a short text of a few words, 中文 😀", role="user")
    plane.search("words")
    plane.pack("words")
    text = unit * (megabytes * 1_000_000 // len(unit.encode())) + tail
    said = {"type": "user", "uuid": "u1", "sessionId": "s", "message": {"content": text}}
    transcript = Path(f"{home}.transcript.jsonl")
    transcript.write_text(json.dumps(said, ensure_ascii=False) + "\\n")
    del said
    steps = {
        "record": lambda: plane.record(text, kind="tool_result", role="tool", id="t"),
        "again": lambda: plane.record(text, kind="tool_result", role="tool", id="t"),
        "search": lambda: plane.search("INFO words"),
        "pack": lambda: plane.pack("INFO words", budget=4000),
        "expand": lambda: plane.expand("event/3", 2000),
        "text": lambda: plane.text(plane.event("t")),
        "audit": plane.upkeep.audit,
        "import": lambda: import_paths(plane, "claude-code", [transcript]),
        "export": lambda: plane.upkeep.export(f"{home}.jsonl"),
    }
    took = {}
    for name, step in steps.items():
        Path("/proc/self/clear_refs").write_text("5")
        before = stated("VmRSS")
        step()
        took[name] = stated("VmHWM") - before
    sizes = {"import": transcript.stat().st_size}
    for name, most in took.items():
        print(name, most, 4 * sizes.get(name, len(text.encode())) + 64_000_000)
"""
UNITS = {
    "a": "a", "short words": "z y x ", "base64": "QmFzZTY0IGlz",
    "prose": "It was agreed in spring that the herons nest where the old pier stood. ",
    "log lines": "2026-11-23T12:00:00Z INFO worker-3 request id=00ff path=/api/v1/items took=7ms\n",
    "CJK": "今日は鷺が巣に戻りました。", "emoji": "👩‍👩‍👧🇩🇪❤️x ", "NUL": "\0",
}  # fmt: skip
# Masks are longer than these secrets, so what is stored is longer than what came.
SECRETS = {
    "passwords": "password=ab3Kd9Lq ", "URLs": "http://u:ab3Kd9Lq@h/ ", "options": "x -p y ",
    "elements": "<password>ab3Kd9Lq</password>\n", "pairs": "token: ab3Kd9Lq7x\n",
}  # fmt: skip
# 50 elsewhere. As JSON, which is imported, a NUL takes six bytes; many secrets take minutes.
MEGABYTES = {"NUL": 10, **dict.fromkeys(SECRETS, 20)}


def grown(unit, megabytes, home, *, tail="", masks=False):
    """What each step took beside the text, in bytes, and how much it may."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs the peak of a process's memory, as Linux keeps it")
    named = [
        sys.executable,
        "-c",
        SCRIPT,
        unit.replace("\0", "NUL"),
        tail,
        str(megabytes),
        str(home),
    ]
    named.append(str(int(masks)))
    done = subprocess.run(named, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return {
        name: (int(took), int(most))
        for name, took, most in map(str.split, done.stdout.strip().split("\n"))
    }


def check(found, steps=9):
    over = {name: (took >> 20, most >> 20) for name, (took, most) in found.items() if took > most}
    assert (over, len(found)) == ({}, steps)


def test_a_long_text_is_recorded_and_read_in_pieces(tmp_path):
    check(grown(UNITS["short words"], 6, tmp_path / "p"))


@pytest.mark.long
@pytest.mark.parametrize("unit", UNITS | SECRETS)
def test_a_text_near_the_limit_is_redacted_in_pieces_too(unit, tmp_path):
    megabytes = MEGABYTES.get(unit, 50)
    check(grown((UNITS | SECRETS)[unit], megabytes, tmp_path / "p", masks=True))


@pytest.mark.long
@pytest.mark.parametrize("unit", UNITS)
def test_a_text_near_the_limit_is_recorded_and_read_in_pieces(unit, tmp_path):
    check(grown(UNITS[unit], MEGABYTES.get(unit, 50), tmp_path / "p"))


@pytest.mark.long
def test_a_text_with_one_wide_letter_is_recorded_in_pieces(tmp_path):
    found = grown(UNITS["log lines"], 50, tmp_path / "p", tail="😀", masks=True)
    check({step: found[step] for step in ("record", "again", "pack")}, steps=3)
