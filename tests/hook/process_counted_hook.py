"""Run a hook and write down what it did: lines of the log decoded, segments of the index summed.

`python process_counted_hook.py FILE <words of the hook>`; with FOLDED_MAX, that many lines at most.
"""

import json
import os
import sys
from pathlib import Path

from memplane.hook import run
from memplane.index import storage
from memplane.log import reader

counts = {"lines": 0, "sums": 0}
lines, whole, leave = reader.LogReader._lines, storage.is_whole, os._exit


def counted(*given):
    for line in lines(*given):
        counts["lines"] += 1
        yield line


def summed(data, header):
    counts["sums"] += header.documents == storage.CAPACITIES[header.level]  # a sealed one
    return whole(data, header)


def left(code):
    Path(sys.argv[1]).write_text(json.dumps(counts))
    leave(code)


reader.LogReader._lines, storage.is_whole, os._exit = counted, summed, left

run._FOLDED_MAX = int(os.environ.get("FOLDED_MAX", run._FOLDED_MAX))

if __name__ == "__main__":
    from memplane.__main__ import main

    main(sys.argv[2:])
