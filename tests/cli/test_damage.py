"""Damaged logs and caches: found, named with the command that helps, and mended by it."""

import json
import shutil

from checks_refusals import refused

import memplane
from memplane.projections.memories import put_sum


def test_verify_names_what_is_damaged_and_the_command_that_helps(run, filled):
    with memplane.open(filled) as plane:  # one writer, whose later lines say what it had synced
        for number in range(3):
            plane.record(f"note {number}")
    assert run("verify", "--home", filled).code == 0
    segment = filled / "log" / "00000001.jsonl"
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"note 0", b"note 9"))
    done = run("verify", "--home", filled)
    assert done.code == 1
    assert done.out.startswith("log/00000001.jsonl: byte ")
    assert "`memplane repair --salvage`" in done.out
    found = json.loads(run("verify", "--home", filled, "--json").out)
    assert (found["ok"], len(found["problems"])) == (False, 1)
    refused(run("record", "x", "--home", filled), 3, "`memplane repair --salvage`")
    refused(run("repair", "--home", filled), 3, "`memplane repair --salvage`")
    alone = run("--home", filled)
    assert (alone.code, "memplane verify" in alone.out) == (3, True)
    packed = run("pack", "x", "--home", filled)
    assert (packed.code, "do not verify" in packed.err) == (0, True)
    saved = run("repair", "--salvage", "--home", filled)
    assert (saved.code, saved.out.startswith("salvaged: segment 1")) == (0, True)
    assert run("verify", "--home", filled).code == 0
    assert run("record", "x", "--home", filled).code == 0
    assert run("repair", "--home", filled) == (0, "nothing to repair\n", "")


def test_a_torn_end_is_set_aside_by_repair(run, filled):
    with (filled / "log" / "00000001.jsonl").open("ab") as file:
        file.write(b'{"seq":5,"id":"half')
    assert run("verify", "--home", filled).code == 1
    done = run("repair", "--home", filled)
    assert (done.code, "19 bytes set aside" in done.out) == (0, True)
    assert run("verify", "--home", filled).code == 0


def test_a_deep_verify_finds_a_projection_that_the_log_does_not_fold_to(run, filled):
    run("rebuild", "--home", filled)
    assert run("verify", "--deep", "--home", filled).code == 0
    import sqlite3

    with sqlite3.connect(filled / "projections" / "cache.sqlite") as cache:
        cache.execute("UPDATE memories SET key='db.motor' WHERE seq=4")
    cache.close()
    put_sum(filled / "projections" / "cache.sqlite")  # else it is not believed
    done = run("verify", "--deep", "--home", filled)
    assert (done.code, "cache.sqlite" in done.out) == (1, True)
    assert "`memplane rebuild`" in done.out
    assert run("rebuild", "--home", filled).out == "4 lines of the log folded\n"
    assert run("verify", "--deep", "--home", filled).code == 0


def test_the_repair_of_an_empty_plane_leaves_it_empty(run, home, stored):
    assert run("repair", "--home", home) == (0, "nothing to repair\n", "")
    assert stored(home) == {}


def test_deleted_and_damaged_caches_change_no_answer(run, filled):
    run("rebuild", "--home", filled)
    before = run("get", "db.engine", "--home", filled), run("decisions", "--home", filled)
    for file in (filled / "projections").iterdir():
        file.write_bytes(b"junk")
    assert (run("get", "db.engine", "--home", filled), run("decisions", "--home", filled)) == before
    shutil.rmtree(filled / "projections")
    assert (run("get", "db.engine", "--home", filled), run("decisions", "--home", filled)) == before
