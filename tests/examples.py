"""How much `make test` tries where each try is dear: a plane, a process, a long log."""

import pytest
from hypothesis import settings


def examples(few):
    """Half of `few` in `make test`, ten times as many in `make test-long`."""
    return few * 10 if settings.default.max_examples >= 500 else max(2, few // 2)


def sampled(cases, each):
    """The cases of a test, one in `each` for `make test`, the first among them; the others are `long`.

    Cases are values, or what `pytest.param` made of them.
    """
    return [
        case if at % each == 0 else marked(case, pytest.mark.long) for at, case in enumerate(cases)
    ]


def marked(case, mark):
    """A case that has this mark, too."""
    known = hasattr(case, "values") and hasattr(case, "marks")
    values, marks, name = (case.values, case.marks, case.id) if known else ((case,), (), None)
    return pytest.param(*values, marks=[*marks, mark], id=name)
