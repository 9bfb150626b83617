"""A writer of a machine: record so many events, whatever becomes of the engine; write their ids.

    python process_writer.py HOME LABEL COUNT

An id is written to stdout once it is acknowledged. At the end the outbox is empty.
"""

import sys
import time
import warnings

import memplane
from memplane.errors import LockError, SharedLogError

WORDS = "mast spruce harbour ledger valley lamp copper orchard window river".split()


def main(home, label, count):
    warnings.simplefilter("ignore")
    with memplane.open(home, durability="os") as plane:
        for begin in range(0, count, 10):
            rows = [
                {
                    "text": f"{label} {n}: {WORDS[n % 10]} {WORDS[n // 10 % 10]}",
                    "kind": "fact" if n % 7 == 0 else "message",
                    "key": f"k{n % 50}" if n % 7 == 0 else None,
                    "id": f"{label}-{n}",
                    "session": f"s-{label}",
                }
                for n in range(begin, min(begin + 10, count))
            ]
            while True:
                try:
                    plane.record_many(rows)
                    break
                except LockError:
                    time.sleep(0.05)
            sys.stdout.write("".join(f"{row['id']}\n" for row in rows))
            sys.stdout.flush()
        log = plane.context.log
        for _ in range(600):
            try:
                log.exchange()
                if not log.status().waiting:
                    return
            except SharedLogError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"{log.status()}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
