"""A long-lived process with threads that record, spool, search and pack: a child of the tests.

Each line that it prints is an acknowledgement or an answer, printed behind it: `receipt seq id`,
`spooled id`, `pack` with its request and what came of it, `hit seq`.
"""

import hashlib
import json
import sys
import threading

import memplane

EACH = 12  # events that are written for a pack that is asked for, at most
NOW = "2030-01-01T00:00:00Z"
ROTATED_AT = 10_000  # bytes: a test cannot wait for megabytes
QUERIES = (
    ("which heron stands in pond 3?", "deep", None),
    ("what was decided about the boats", "fast", "a0"),
    ("", "orient", None),
    ("turn 7", "deep", "b1"),
)
_printing = threading.Lock()


def tell(*said):
    with _printing:
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def asked(number):
    query, intent, session = QUERIES[number % len(QUERIES)]
    budget = (300, 900, 2500)[number % 3]
    asked = {"query": query, "intent": intent, "budget": budget, "session": session, "now": NOW}
    return {name: value for name, value in asked.items() if value is not None}


def packed(block):
    return [block.tokens, hashlib.sha256(block.text.encode()).hexdigest()]


def row(name, number):
    """The event of that number: turns, facts under keys, decisions, results of tools."""
    where = {"session": f"{name}{number % 2}", "id": f"{name}.{number}"}
    forms = (
        {"text": f"turn {number} of {name}, about boats and herons", "role": "user"},
        {"text": f"heron {number} in pond {number % 5}", "kind": "fact", "key": f"pond.{number % 5}"},
        {"text": f"we take boat {number}", "kind": "decision", "key": f"boat.{number % 3}"},
        {"text": "line\n" * (number % 40 + 1), "kind": "tool_result", "role": "tool"},
    )  # fmt: skip
    return {**forms[number % len(forms)], **where}


class Turns:
    """Keeps writers from running away from who packs: a machine that is slow writes less, too."""

    def __init__(self, each):
        self._free = threading.Semaphore(each)
        self._each = each

    def take(self):
        self._free.acquire()

    def packed(self):
        self._free.release(self._each)


def record(plane, turns, name, events):
    for number in range(events):
        turns.take()
        receipt = plane.record(**row(name, number))
        tell("receipt", receipt.seq, receipt.id)


def spool(plane, turns, name, events):
    for number in range(events):
        turns.take()
        receipt = plane.work.spool(**row(name, number))
        if receipt.seq is None:
            tell("spooled", receipt.id)
        else:
            tell("receipt", receipt.seq, receipt.id)


def pack(plane, turns, done):
    number = 0
    while number < 6 or not done.is_set():
        turns.packed()
        request = asked(number)
        block = plane.pack(**request)
        tell("pack", {**request, "as_of": block.report["log"]["seq"]}, *packed(block))
        number += 1


def search(plane, done):
    number = 0
    while number < 6 or not done.is_set():
        for hit in plane.search(f"heron in pond {number % 5}", k=3):
            tell("hit", hit.event.seq, hit.event.id)
        number += 1


def main(home, name, events, durability):
    failed = []

    def run(work, *arguments):
        try:
            work(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    with memplane.open(home, durability=durability) as plane:
        plane._log._writer.segment_bytes_max = ROTATED_AT
        done, turns = threading.Event(), Turns(EACH)
        writers = [
            threading.Thread(target=run, args=(record, plane, turns, f"{name}a", events)),
            threading.Thread(target=run, args=(record, plane, turns, f"{name}b", events)),
            threading.Thread(target=run, args=(spool, plane, turns, f"{name}c", events)),
        ]
        readers = [
            threading.Thread(target=run, args=(pack, plane, turns, done)),
            threading.Thread(target=run, args=(pack, plane, turns, done)),
            threading.Thread(target=run, args=(search, plane, done)),
        ]
        for thread in (*writers, *readers):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        for thread in readers:
            thread.join()
    if failed:
        raise failed[0]


def project(home):
    """Open, pack, and follow the log or fold it anew, until killed."""
    while True:
        with memplane.open(home) as plane:
            plane.pack("which heron stands in pond 3?", intent="deep")
            plane.upkeep.rebuild() if plane.head().seq % 5 == 0 else plane.upkeep.index()
        tell("done")
