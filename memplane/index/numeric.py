"""numpy, imported so that the threads of its BLAS sleep while they have nothing to do.

OpenBLAS starts a thread for each processor when it is loaded. Until they are given work they spin,
each for 2**26 cycles or more: on two processors 90 ms of CPU time in a process that searches once.
`OPENBLAS_THREAD_TIMEOUT`, the exponent, of which 4 is the least, is read at that moment alone. Here
it is set for that moment unless the environment has a value: the number of threads stays, and so
does the environment of other processes. Where numpy was imported before, nothing is changed.

Source: `driver/others/blas_server.c` of OpenBLAS, and its issue 5171.
"""

from __future__ import annotations

import os
from typing import Final

_SPIN: Final = "OPENBLAS_THREAD_TIMEOUT"
_timeout_before = os.environ.get(_SPIN)
os.environ[_SPIN] = _timeout_before or "4"
try:
    import numpy  # noqa: ICN001 - under another name it would not be passed on
    from numpy.typing import NDArray as NDArray  # noqa: PLC0414 - passed on
finally:
    if _timeout_before is None:
        del os.environ[_SPIN]
    else:
        os.environ[_SPIN] = _timeout_before

np = numpy
