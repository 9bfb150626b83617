"""Runs something in a child that may die of it; what it said until then is not lost."""

import os
import pickle
import traceback

REAL_WRITE = os.write


def forked(run):
    """Run in a child; what it returned, or None where it died of the fault, or its traceback."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            try:
                answer = ("done", run(lambda part: write_all(writing, ("ack", part))))
            except BaseException:  # noqa: BLE001 - whatever it was, the parent is told
                answer = ("raised", traceback.format_exc())
            write_all(writing, answer)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    return unpacked(data), os.waitstatus_to_exitcode(status)


def write_all(fd, answer):
    data = pickle.dumps(answer)
    view = memoryview(len(data).to_bytes(8, "little") + data)
    while view:
        view = view[REAL_WRITE(fd, view) :]


def unpacked(data):
    found = []
    while data:
        size = int.from_bytes(data[:8], "little")
        found.append(pickle.loads(data[8 : 8 + size]))
        data = data[8 + size :]
    return found
