"""Whichever call fails under a command: it says so in one line, and the plane stays whole."""

import json
import random
import shutil

import pytest
import typer
from builders_commands import (
    COMMANDS,
    FINDING,
    FOLLOWING,
    PURGING,
    SERVERS,
    argv,
    prepare,
    ran,
    working_folder,
)
from checks_layers import both, quick_folder
from checks_promises import Promised, broken_by_plane
from fakes_failing_calls import DIED, Failing, cases
from process_children import forked

import memplane
from memplane.cli.app import app
from memplane.cli.commands import load_command
from tests.examples import sampled
from tests.process_copies import import_everything


@pytest.fixture(scope="module")
def base():
    import_everything()  # or each fork would
    typer.main.get_command(app)
    with quick_folder() as folder:
        top = folder / "base"
        top.mkdir()
        prepare(top)
        with memplane.open(top / "home", read_only=True, environment={}) as plane:
            promised = [Promised(line.event) for line in plane._log.read()]
        yield top, promised


def run_with(name, base, top, k, fault):
    """One command with one fault: exit code, stdout, stderr, and the call that was to fail."""
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(base, top)

    def run(tell):
        working_folder(top)
        failing = Failing(top, k, fault)
        with failing:
            code, out, err = ran(argv(name, top))
        return code, out, err, failing.hit, failing.names

    answers, code = forked(run)
    (*_, (kind, said)) = answers or [("died", None)]
    assert kind != "raised", said
    assert kind == "done" or code == DIED, (name, k, fault, code)
    return said


def broken(name, base, promised, top, k, fault, usual):
    """What one command with one fault breaks of the promises."""
    said = run_with(name, base, top, k, fault)
    found = []
    told = []
    if said is not None:
        code, out, err, hit, _ = said
        if code not in (0, usual) and not (name in FINDING and code == 1):
            found += badly_said(code, err, hit)
        if "Traceback" in err or "Traceback" in out:
            found.append(f"a traceback: {err}")
        if code == 0:
            told = receipts(out)
    kept = [one for one in promised if name not in PURGING or one.event.id != "old4"]
    found += broken_by_plane(top / "home", kept)
    if told:
        with memplane.open(top / "home", read_only=True, environment={}) as plane:
            there = {(line.event.seq, line.event.id) for line in plane._log.read()}
        found += [f"acknowledged and not there: {one}" for one in told if one not in there]
    return [f"{name}, call {k} {fault}: {one}" for one in found]


def badly_said(code, err, hit):
    """What is wrong with the words of a refusal."""
    words = [line for line in err.splitlines() if line.startswith("memplane: ")]
    if code not in (1, 2, 3):
        return [f"exit code {code}: {err}"]
    if not words:
        return [f"exit code {code} and no word of why: {err!r}"]
    if "/" not in words[-1]:
        return [f"the words name no file ({hit}): {words[-1]}"]
    return []


def receipts(out):
    """(seq, id) of everything that an answer in JSON acknowledges."""
    try:
        answer = json.loads(out)
    except ValueError:
        return []
    known = isinstance(answer, dict) and "durability" in answer
    return [(answer["seq"], answer["id"])] if known and answer.get("seq") else []


def fail_each(name, base, promised, place, count, share):
    top = place / "top"
    code, _, err, _, names = run_with(name, base, top, 0, "")
    assert code == 0, err
    found = cases(names)
    random.Random(name).shuffle(found)
    for k, fault, _ in found:
        count.add(broken(name, base, promised, top, k, fault, code))
        if not count.goes_on(share):
            return


@pytest.mark.parametrize("name", sampled(COMMANDS, 3))
@both
def test_a_command_says_what_failed_and_leaves_the_plane_whole(base, place, counted, name, shares):
    count = counted("calls of a command", name)
    fail_each(name, *base, place, count, shares["calls of a command"])
    assert count.violations == []


def test_every_command_is_in_the_table():
    def names(group, before=""):
        for name in group.list_commands(None):
            found = group.get_command(None, name)
            if hasattr(found, "list_commands"):
                yield from names(found, f"{before}{name} ")
            else:
                yield before + name

    load_command("")
    every = set(names(typer.main.get_command(app)))
    parted = {"projects join", "projects assign"}  # of the user's own plane: see tests/projects
    assert every - SERVERS - FOLLOWING - parted == {name for name in COMMANDS if name in every}
