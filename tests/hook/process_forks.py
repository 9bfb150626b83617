"""Runs hooks one after another, each in a process that is a copy of this one.

What a hook would import stands here already, so one takes a tenth of the time, and is a process of
its own all the same: with its own stdin, its clock and its end. A request is a line of JSON on the
descriptor that the first argument names; the answer is a line on the one that the second names.
"""

import gc
import json
import os
import signal
import sys
import traceback
from pathlib import Path

from memplane.__main__ import main


def forked(request):
    """Run one; give back what the system says of its end."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 0
    try:
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        files = [os.open(request[name], os.O_RDWR) for name in ("stdin", "stdout", "stderr")]
        for number, file in enumerate(files):
            os.dup2(file, number)
        code = main(request["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - none must get into the loop of the one that asked
        traceback.print_exc()
        code = 99
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        os._exit(code)


def serve():
    """Take requests until there are no more."""
    with os.fdopen(int(sys.argv[1])) as asked, os.fdopen(int(sys.argv[2]), "w") as answers:
        for line in asked:
            code = forked(json.loads(line))
            answers.write(f"{code}\n")
            answers.flush()


if __name__ == "__main__":
    # What the child of a fork would otherwise import, again and again.
    import memplane.hook.run
    import memplane.wiring  # noqa: F401

    sys.path.append(str(Path(__file__).parents[2]))
    from tests.process_copies import read_once, warm, warm_hook

    read_once(setattr)
    warm()
    warm_hook()
    gc.collect()
    gc.freeze()  # no search for garbage touches what the copies share
    serve()
