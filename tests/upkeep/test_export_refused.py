"""An export that is not as it was written is refused, whatever was done to it."""

import json
import random
from hashlib import sha256

import pytest
from builders_exports import SEED, clock, exported, refused, small, tree

import memplane
from memplane.errors import InputError


def test_an_export_that_is_cut_at_any_byte_is_refused(tmp_path):
    _, data = small(tmp_path)
    for end in range(len(data)):
        refused(data[:end])
    refused(data + b"\n")
    refused(data + data)


def test_an_export_in_which_any_byte_is_another_is_refused(tmp_path):
    _, data = small(tmp_path)
    rng = random.Random(SEED)
    for at in range(len(data)):
        other = bytearray(data)
        other[at] ^= 1 << rng.randrange(8)
        refused(bytes(other))


@pytest.mark.long
def test_an_export_in_which_any_bit_is_another_is_refused(tmp_path):
    _, data = small(tmp_path)
    for at in range(len(data)):
        for bit in range(8):
            other = bytearray(data)
            other[at] ^= 1 << bit
            refused(bytes(other))


def test_an_export_with_lines_gone_swapped_or_doubled_is_refused(tmp_path):
    _, data = small(tmp_path)
    lines = data.splitlines(keepends=True)
    for at in range(len(lines)):
        refused(b"".join(lines[:at] + lines[at + 1 :]))
        refused(b"".join([*lines[: at + 1], *lines[at:]]))
        if at:
            refused(b"".join([*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]]))


def resealed(lines):
    """The lines with a last line that fits them: what somebody would write who edits an export."""
    said = b"".join(lines)
    end = json.loads(lines[-1]) if b'"end"' in lines[-1] else None
    assert end is None
    counts = {
        "lines": len(lines),
        "events": sum(line.startswith(b'{"seq":') for line in lines),
        "bodies": sum(b'"at":0,' in line for line in lines),
        "damaged": sum(line.startswith(b'{"damaged"') for line in lines),
        "lost": sum(line.startswith(b'{"lost"') for line in lines),
        "bytes": len(said),
        "sha256": sha256(said).hexdigest(),
    }
    return said + json.dumps({"end": counts}, separators=(",", ":")).encode() + b"\n"


def test_an_edited_line_is_found_by_its_number_even_if_the_last_line_was_written_anew(tmp_path):
    _, data = small(tmp_path)
    *lines, _ = data.splitlines(keepends=True)
    assert resealed(lines) == data
    for at, line in enumerate(lines):
        if line.startswith(b'{"seq":'):
            edited = [*lines[:at], line.replace(b'":"', b'":" ', 1), *lines[at + 1 :]]
            assert refused(resealed(edited)).startswith(f"e.jsonl:{at + 1}:")
            assert refused(resealed([*lines[:at], *lines[at + 1 :]]))
        if b'"utf8":"' in line:
            edited = [*lines[:at], line.replace(b"file", b"fibe"), *lines[at + 1 :]]
            assert refused(resealed(edited)).startswith(f"e.jsonl:{at + 1}:")


def test_the_segment_of_another_plane_is_refused(tmp_path):
    _, ours = small(tmp_path)
    _, theirs = small(tmp_path, "other")
    first, *_ = ours.splitlines(keepends=True)
    _, *rest, _ = theirs.splitlines(keepends=True)
    assert refused(resealed([first, *rest])).startswith("e.jsonl:3:")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "found no export of memplane"),
        (b'{"text":"hello"}\n', "found no export of memplane"),
        (b"\x00" * 200_000, "found no export of memplane"),
        (b"[" * 60_000, "found no export of memplane"),
        (b'{"export":"memplane","format":1}\n', "found a first line that was changed"),
        (b'{"export":"memplane","format":2}\n', "format 2; this memplane reads up to format 1"),
    ],
)
def test_what_is_no_export_is_refused_in_words(data, said):
    assert said in refused(data)


def test_an_export_that_is_refused_changes_nothing_anywhere(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    data = (tmp_path / "e.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(data[: len(data) // 2])
    before = tree(filled, caches=True)
    for into in (tmp_path / "missing", filled):
        with pytest.raises(InputError, match=r"cut.jsonl:\d+: found"):
            memplane.restore(tmp_path / "cut.jsonl", into, clock=clock)
    assert not (tmp_path / "missing").exists()
    assert tree(filled, caches=True) == before
