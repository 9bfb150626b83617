"""The law of every projector, to be asked of any history.

from checks_law import holds_the_law
holds_the_law(Decisions(), lines)
"""

from memplane.ports import Line
from memplane.projections.projector import Projector
from tests.examples import examples

SPLITS_MAX = examples(36)  # twelve in `make test`


def fold(projector: Projector, lines: list[Line], state=None):
    """Fold lines into a state, a new one unless one is given, and return it."""
    state = projector.initial() if state is None else state
    for line in lines:
        projector.apply(state, line)
    return state


def holds_the_law(projector: Projector, lines: list[Line]) -> None:
    """Assert that any split folds to the same bytes, and a checkpoint with its tail to a rebuild."""
    whole = projector.dump(fold(projector, lines))
    assert projector.dump(fold(projector, lines)) == whole, "two folds of one history differ"
    assert projector.dump(projector.load(whole)) == whole, "loading and dumping changes the bytes"
    step = max(1, len(lines) // SPLITS_MAX)
    head = projector.initial()
    for at in range(0, len(lines) + 1, step):
        fold(projector, lines[max(at - step, 0) : at], head)  # goes on after it was dumped
        again = fold(projector, lines[at:], projector.load(projector.dump(head)))
        assert projector.dump(again) == whole, f"checkpoint behind line {at} and its tail differ"
    state = projector.initial()
    for at in range(0, len(lines), step):
        state = projector.load(projector.dump(fold(projector, lines[at : at + step], state)))
    assert projector.dump(state) == whole, f"dumping after every {step} lines changes the fold"
