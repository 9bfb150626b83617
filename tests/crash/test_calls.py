"""Whichever call fails, and however: nothing acknowledged is lost, and who is refused is told so."""

import random
import shutil
import traceback

import pytest
from builders_log_operations import LOG
from builders_plane_operations import PLANES
from checks_layers import both, split
from checks_promises import broken_by_log, broken_by_plane
from fakes_failing_calls import DIED, Failing, cases
from process_children import forked

from tests.examples import sampled


def fail_once(operation, base, top, k, fault, lasts, check):
    """One run of the operation with one fault; what is broken, and whether the fault was met."""
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(base, top)
    home = top / "home"
    promised = []
    rng = random.Random(f"{operation.name}")

    def run(ack):
        failing = Failing(home, k, fault, lasts=lasts)
        with failing:
            operation.act(home, ack, rng)
        return failing.hit is not None

    if fault == "die":
        answers, code = forked(run)
        raised = [text for kind, text in answers if kind == "raised"]
        promised = [one for kind, part in answers if kind == "ack" for one in part]
        met = code == DIED
    else:
        raised = []
        met = True
        try:
            met = run(promised.extend)
        except Exception:  # noqa: BLE001 - a finding, whatever it is
            raised = [traceback.format_exc(limit=-6)]
    where = f"{operation.name}, call {k} {fault} x{lasts}: "
    broken = [*(f"raised {text}" for text in raised), *check(operation, home, promised)]
    return [where + one for one in broken], met


def check_log(operation, home, promised):
    return broken_by_log(home, promised, damaged=operation.damaged)


def check_plane(operation, home, promised):
    return broken_by_plane(home, promised)


def fail_each(operation, place, count, share, check):
    """Every k and every fault where the share allows, else a sample of them in a fixed order."""
    rng = random.Random(operation.name)
    base = place / "base"
    base.mkdir()
    operation.prepare(base / "home", rng)
    names = names_of_calls(operation, base, place / "top")
    found = cases(names, lasting=("ENOSPC", "EIO"))
    rng.shuffle(found)
    for k, fault, lasts in found:
        broken, _ = fail_once(operation, base, place / "top", k, fault, lasts, check)
        count.add(broken)
        if not count.goes_on(share):
            return
    assert len(names) > 3


def names_of_calls(operation, base, top):
    shutil.copytree(base, top)
    failing = Failing(top / "home", 0, "")
    with failing:
        operation.act(top / "home", lambda _: None, random.Random(f"{operation.name}"))
    return failing.names


@pytest.mark.parametrize("name", LOG)
@both
def test_a_log_keeps_what_it_acknowledged_whichever_call_fails(place, counted, name, shares):
    count = counted("calls of the log", name)
    fail_each(LOG[name], place, count, split(shares["calls of the log"], len(LOG)), check_log)
    assert count.violations == []


@pytest.mark.parametrize("name", sampled(PLANES, 2))
@both
def test_a_plane_is_whole_whichever_call_fails(place, counted, name, shares):
    count = counted("calls of a plane", name)
    fail_each(PLANES[name], place, count, shares["calls of a plane"], check_plane)
    assert count.violations == []
