"""How many examples hypothesis tries where each of them is dear: a plane, a process, a long log."""

from hypothesis import settings


def examples(few):
    """Half of `few` in `make test`, ten times as many in `make test-long`."""
    return few * 10 if settings.default.max_examples >= 500 else max(2, few // 2)
