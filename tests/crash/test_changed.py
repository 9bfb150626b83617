"""No changed byte goes unnoticed: bits, bytes, lines, tombstones, headers, whole segments."""

import random
from typing import NamedTuple

from checks_layers import both
from checks_promises import PLANE

from memplane.errors import MemplaneError
from memplane.log import verify_log
from memplane.log.segments import (
    SUFFIX_BYTES,
    chain_hash,
    genesis,
    judge,
    runs,
    stated_hash,
    tombstone,
)
from tests.crash.test_cuts import put_log, segments, shaped


class Verdict(NamedTuple):
    """What the bytes of a log's only segment are, and how many lines of them are believed."""

    case: str
    lines: int


def scan(data):
    """Judge a segment by its bytes alone."""
    believed = runs(data, 0, 0, genesis(PLANE))
    return Verdict(judge(data, believed, 0).case, sum(len(run.starts) for run in believed))


def flipped(data, rng):
    at = rng.randrange(len(data) * 8)
    made = bytearray(data)
    made[at // 8] ^= 1 << at % 8
    return bytes(made)


def other_byte(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def zeroed(data, rng):
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.randrange(1, 600))
    return data[:start] + bytes(end - start) + data[end:]


def inserted(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + rng.choice((b" ", b"\n", b"\0", b"{}\n", data[:at])) + data[at:]


def left_out(data, rng):
    """Bytes from the middle: what ends earlier, at the end of a line, may be an earlier log."""
    start = rng.randrange(len(data) - 1)
    return data[:start] + data[rng.randrange(start + 1, len(data)) :]


def of_lines(change):
    """A change of a list of lines; never of the last one alone, for the reason above."""

    def changed(data, rng):
        lines = data.splitlines(keepends=True)
        at = rng.randrange(len(lines) - 1)
        return b"".join(change(lines, at, rng))

    changed.__name__ = change.__name__
    return changed


@of_lines
def deleted(lines, at, rng):
    return lines[:at] + lines[at + 1 :]


@of_lines
def swapped(lines, at, rng):
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


@of_lines
def doubled(lines, at, rng):
    return [*lines[: at + 1], lines[at], *lines[at + 1 :]]


@of_lines
def moved(lines, at, rng):
    rest = lines[:at] + lines[at + 1 :]
    to = rng.randrange(len(rest) + 1)
    return [*rest[:to], lines[at], *rest[to:]]


@of_lines
def edited(lines, at, rng):
    """Another text of the same length, and a hash that fits it."""
    raw = lines[at][:-1]
    body = raw[:-SUFFIX_BYTES]
    spot = rng.randrange(len(body))
    body = body[:spot] + bytes([rng.choice(b"abcxyz019")]) + body[spot + 1 :]
    h = (stated_hash(lines[at - 1][:-1]) if at else None) or genesis(PLANE)
    return [*lines[:at], b'%b,"h":"%b"}\n' % (body, chain_hash(h, body)), *lines[at + 1 :]]


CHANGES = (
    flipped, flipped, flipped, other_byte, zeroed, inserted, left_out, deleted, swapped, doubled,
    moved, edited,
)  # fmt: skip


def is_earlier(data, changed):
    """Whether the changed bytes are the same, or what the log was before its last lines."""
    return data.startswith(changed) and (changed.endswith(b"\n") or not changed)


def change_each(place, count, share):
    """Change the bytes of one segment after another, in all ways."""
    seed = 0
    while True:
        seed += 1
        data = only_segment(place / "made", seed)
        rng = random.Random(f"changes {seed}")
        assert scan(data).case == "whole"
        for _ in range(500):
            change = rng.choice(CHANGES)
            changed = change(data, rng)
            noticed = is_earlier(data, changed) or scan(changed).case != "whole"
            count.add([] if noticed else [f"log {seed}: {change.__name__} unnoticed"])
            if not count.goes_on(share):
                return


def only_segment(home, seed):
    """The first segment of a log, tombstones and all."""
    while True:
        shaped(home, seed)
        data = segments(home)["00000001.jsonl"]
        if data.count(b"\n") > 2:
            return data
        seed += 100_000


def forged(found, rng):
    """A line erased with all the right sums, by nobody who said so."""
    name = rng.choice(sorted(found))
    lines = found[name].splitlines(keepends=True)
    if len(lines) < 3:
        return None
    at = rng.randrange(1, len(lines))
    raw = lines[at][:-1]
    if b'"purged"' in raw or b'"kind":"purge"' in raw:
        return None
    import json

    lines[at] = tombstone(raw, json.loads(raw)["id"], stated_hash(lines[at - 1][:-1])) + b"\n"
    return {**found, name: b"".join(lines)}


def without(found, rng):
    """A segment is missing; of the newest nobody can know."""
    names = sorted(found)[:-1]
    return None if not names else {n: d for n, d in found.items() if n != rng.choice(names)}


def exchanged(found, rng):
    """Two segments under each other's names, or one under two."""
    one, other = rng.choice(sorted(found)), rng.choice(sorted(found))
    if one == other:
        return None
    return {**found, one: found[other], **({other: found[one]} if rng.random() < 0.5 else {})}


def in_one(found, rng):
    name = rng.choice(sorted(found))
    changed = rng.choice(CHANGES)(found[name], rng) if found[name].count(b"\n") > 1 else None
    newest = max(found)
    if (
        changed is None
        or changed == found[name]
        or (name == newest and is_earlier(found[name], changed))
    ):
        return None
    return {**found, name: changed}


def change_files(place, count, share):
    """Change the segments of whole logs; `verify` must say something."""
    seed = 0
    while True:
        seed += 1
        shaped(place / "made", seed)
        found = segments(place / "made")
        rng = random.Random(f"files {seed}")
        for _ in range(20):
            change = rng.choice((in_one, in_one, in_one, forged, without, exchanged))
            changed = change(found, rng)
            if changed is None or changed == found:
                continue
            put_log(place / "bad", changed)
            try:
                noticed = not verify_log(place / "bad", PLANE).ok
            except MemplaneError:
                noticed = True
            count.add([] if noticed else [f"log {seed}: {change.__name__} unnoticed"])
            if not count.goes_on(share):
                return


@both
def test_no_change_of_a_segments_bytes_goes_unnoticed(place, counted, shares):
    count = counted("flips")
    change_each(place, count, shares["flips"])
    assert count.violations == []


@both
def test_verify_notices_every_change_of_a_logs_files(place, counted, shares):
    count = counted("changed files")
    change_files(place, count, shares["changed files"])
    assert count.violations == []
