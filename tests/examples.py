"""How many examples hypothesis tries where each of them is dear: a plane, a process, a long log."""

from hypothesis import settings


def examples(few):
    """`few` in `make test`, ten times as many in `make test-long`, as for any other law."""
    return few * 10 if settings.default.max_examples >= 500 else few
