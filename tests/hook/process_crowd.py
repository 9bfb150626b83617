"""Starts many processes at once and tells how each of them ended, and what it took.

It is small and apart, for a process is charged with the memory of the one that started it. What
would be left behind comes to it as to init, so none can be missed.

On stdin JSON: `{"words": [[..], ..], "given": [PATH, ..], "outputs": [PATH, ..]}`, with paths for
stdin and, `.out` and `.err` added, for stdout and stderr; on stdout a list of exit code and the
most kilobytes it had, and how many processes were left.
"""

import ctypes
import json
import os
import subprocess
import sys

ASKED = json.load(sys.stdin)
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def start(words, given, output):
    files = [
        os.open(given, os.O_RDONLY),
        *(os.open(output + end, os.O_WRONLY | os.O_CREAT) for end in (".out", ".err")),
    ]
    try:
        return subprocess.Popen(words, stdin=files[0], stdout=files[1], stderr=files[2])
    finally:
        for file in files:
            os.close(file)


calls = zip(ASKED["words"], ASKED["given"], ASKED["outputs"], strict=True)
ended = []
children = [start(*call) for call in calls]  # kept: one that is dropped is waited for by others
for child in children:
    _, status, used = os.wait4(child.pid, 0)
    ended.append([os.waitstatus_to_exitcode(status), used.ru_maxrss])
left = 0
try:
    while os.wait():
        left += 1
except ChildProcessError:
    json.dump([ended, left], sys.stdout)
