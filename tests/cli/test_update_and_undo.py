"""`memplane update` and `undo`, in words and as JSON."""

import json


def test_update_prints_the_new_event_and_undo_what_holds_again(run, filled):
    done = run("update", "4", "--importance", "0.9", "--tag", "db", "--home", filled)
    assert (done.code, done.out.split()[0]) == (0, "5")
    value = json.loads(run("get", "db.engine", "--json", "--home", filled).out)
    assert (value["text"], value["importance"], value["tags"]) == ("We move to SQLite", 900, ["db"])
    dry = json.loads(run("undo", "--dry-run", "--json", "--home", filled).out)
    assert (dry["dry_run"], [one["seq"] for one in dry["events"]], dry["receipts"]) == (
        True,
        [5],
        [],
    )
    assert dry["restored"]["seq"] == 4
    assert "taken back:\n     5" in run("undo", "--home", filled).out
    done = run("undo", "--home", filled)
    assert "holds again:\n     2" in done.out
    assert "PostgreSQL" in run("get", "db.engine", "--home", filled).out
    run("undo", "--home", filled)
    assert run("undo", "--home", filled).code == 1


def test_a_change_that_is_none_is_refused(run, filled):
    assert run("update", "4", "--home", filled).code == 2
    assert run("update", "3", "x", "--home", filled).code == 2
    assert run("update", "99", "x", "--home", filled).code == 1
