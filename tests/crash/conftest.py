"""Faults against real planes; what each layer met is counted, and a long run leaves a summary."""

import pytest
from checks_layers import Count, keep_summary, quick_folder


@pytest.fixture
def place():
    """A folder in memory where there is one: nothing here depends on what a sync costs."""
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def counted(request):
    """Count what a layer does; `counted(layer, operation)` is a `Count` to add to."""
    made = []

    def count(layer, operation=""):
        made.append(Count(layer, operation))
        return made[-1]

    yield count
    if request.node.get_closest_marker("long") is not None:
        keep_summary(made)
