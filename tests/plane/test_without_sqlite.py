"""A Python that was built without the module sqlite3: slower to open, and the same answers."""

import json
import subprocess
import sys

import memplane

HIDDEN = """
import sys
sys.modules["sqlite3"] = sys.modules["_sqlite3"] = None
import json, memplane
home = sys.argv[1]
"""
USED = """
with memplane.open(home) as plane:
    plane.record("We keep SQLite", kind="decision", key="db")
    plane.record("wrong", kind="fact", key="limit")
    plane.forget("limit")
    plane.pin(key="db")
    plane.record("a turn", role="user", session="s1")
    plane.upkeep.index()
with memplane.open(home) as plane:
    plane.record("We keep PostgreSQL", kind="decision", key="db")
    before = plane.pack("which database?").text
    plane.upkeep.rebuild()
    plane.upkeep.export(sys.argv[2])
    print(json.dumps({
        "db": plane.get("db").text, "limit": plane.get("limit"), "keys": plane.keys(),
        "history": [[one.event.text, one.reason] for one in plane.history("db")],
        "found": [hit.event.text for hit in plane.search("database SQLite PostgreSQL")],
        "same": before == plane.pack("which database?").text, "differing": plane.upkeep.differing(),
    }))
"""


def alone(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + script, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_a_plane_answers_all_there_is_without_the_module(tmp_path):
    memplane.init(tmp_path / "p").close()
    said = json.loads(alone(USED, tmp_path / "p", tmp_path / "e.jsonl").stdout)
    assert said == {
        "db": "We keep PostgreSQL", "limit": None, "keys": ["db"],
        "history": [["We keep SQLite", "superseded"], ["We keep PostgreSQL", None]],
        "found": ["We keep PostgreSQL"], "same": True, "differing": [],
    }  # fmt: skip
    assert not (tmp_path / "p" / "projections" / "cache.sqlite").exists()
    with memplane.open(tmp_path / "p") as plane:  # and with it nothing is missing
        assert plane.get("db").text == "We keep PostgreSQL"
        assert plane.upkeep.differing() == []


def test_the_commands_work_and_doctor_says_that_it_is_missing(tmp_path):
    script = """
from memplane.__main__ import main
codes = []
for words in (["init", home], ["record", "x", "--home", home], ["pack", "x", "--home", home],
              ["get", "none", "--home", home], ["verify", "--home", home],
              ["doctor", "--home", home],
              ["rebuild", "--home", home], ["purge", "2", "--home", home]):
    sys.argv = ["memplane", *words]
    try:
        codes.append(main() or 0)
    except SystemExit as end:
        codes.append(end.code or 0)
print(codes)
"""
    done = alone(script, tmp_path / "p")
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 1, 0, 0, 0, 0]"
    assert "sqlite missing" in done.stdout
