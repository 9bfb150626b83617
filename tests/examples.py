"""How much `make test` tries where each try is dear: a plane, a process, a long log."""

import pytest
from hypothesis import settings


def examples(few):
    """A third of `few` in `make test`, ten times as many in `make test-long`."""
    return few * 10 if settings.default.max_examples >= 500 else max(2, few // 3)


def sampled(cases, each, several=False, first=0):
    """The cases of a test, one in `each` from `first` on for `make test`; the others are `long`.

    `several`: a case is a tuple of several arguments. A case may be what `pytest.param` made.
    """
    found = []
    for at, case in enumerate(cases):
        values, marks, name = parts(case, several)
        found.append(pytest.param(*values, marks=[*marks, *left((at - first) % each)], id=name))
    return found


def paired(firsts, seconds, each):
    """All pairs of two arguments; of those for `make test`, one in `each`, none of either is missed.

    Where there are `each` or more of both: what is left out of one row is in the next.
    """
    found = []
    for row, first in enumerate(firsts):
        for column, second in enumerate(seconds):
            (one, marks, _), (other, more, _) = parts(first), parts(second)
            marks = [*marks, *more, *left((row + column) % each)]
            found.append(pytest.param(*one, *other, marks=marks))
    return found


def parts(case, several=False):
    """The values, the marks and the name of a case."""
    if hasattr(case, "marks"):
        return case.values, case.marks, case.id
    return (case if several else (case,)), (), None


def left(rest):
    """The mark of what is left to `make test-long`."""
    return [pytest.mark.long] if rest else []
