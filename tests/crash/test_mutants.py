"""Each of these mistakes, made on purpose, is caught by a layer of faults."""

import traceback

import fakes_mutants as mutants
import pytest
from builders_log_operations import LOG
from builders_plane_operations import PLANES
from checks_layers import Count
from process_kills import kill_often

from tests.crash.test_calls import check_log, fail_each
from tests.crash.test_cuts import cut_each
from tests.crash.test_states import crash_log, crash_plane


class Hunt(Count):
    """Ends with the first thing that it finds."""

    def goes_on(self, share):
        return not self.violations and super().goes_on(share)


def states(name):
    return lambda place, count, share: crash_log(LOG[name], place, count, share)


def plane_states(name):
    return lambda place, count, share: crash_plane(PLANES[name], place, count, share)


def calls(name):
    return lambda place, count, share: fail_each(LOG[name], place, count, share, check_log)


def kills(place, count, share):
    kill_often(place, count, share, tearing=True, readers=False)


MUTANTS = {
    mutants.no_sync: states("append at level sync"),
    mutants.no_directory_sync: states("append at level sync"),
    mutants.unchecked_short_write: calls("append at level sync"),
    mutants.no_tail_repair: cut_each,
    mutants.acknowledged_before_the_sync: states("append at level sync"),
    mutants.sync_retried: states("append at level sync"),
    mutants.covered_by_any_sync: states("append with shared syncs"),
    mutants.seq_before_the_write: calls("append at level sync"),
    mutants.repair_without_the_lock: kills,
    mutants.projection_ahead_of_the_log: plane_states("save at level os"),
    mutants.purge_without_the_index: plane_states("purge"),
    mutants.purge_by_rename: plane_states("purge"),
}
SHARE = 20_000  # by when each has long been caught


BY_CHANCE = (mutants.repair_without_the_lock,)  # half a minute, until a kill meets the moment


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(one, marks=[pytest.mark.long] if one in BY_CHANCE or at % 3 else [])
        for at, one in enumerate(MUTANTS)
    ],
    ids=lambda one: one.__name__,
)
def test_a_mistake_made_on_purpose_is_caught(place, monkeypatch, mutant):
    hunt = Hunt("mutants", mutant.__name__)
    mutant(monkeypatch)
    try:
        MUTANTS[mutant](place, hunt, SHARE)
    except Exception:  # noqa: BLE001 - a finding, whatever it is
        hunt.violations.append(traceback.format_exc())
    assert hunt.violations


def test_every_mutant_has_a_layer():
    named = {
        name for name, one in vars(mutants).items()
        if callable(one) and getattr(one, "__module__", "") == "fakes_mutants"
    }  # fmt: skip
    assert named == {one.__name__ for one in MUTANTS}
