"""A plane that was copied is known by what its files hold: no hook of it folds or sums it again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checks_calls import asked, context, said, surroundings, told

import memplane

EVENTS = 700  # in two sealed segments of the index, and an open one
FEW = 12  # lines that hooks and packs record themselves


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    home = tmp_path_factory.mktemp("origin") / "work" / ".memplane"
    memplane.init(home).close()
    with memplane.open(home, durability="os") as plane:
        rows = [
            {"text": f"the ledger keeps cursor {n}", "role": "user", "session": f"s{n % 5}"}
            for n in range(EVENTS)
        ]
        plane.record_many(rows)
        for n in range(40):
            plane.record(f"The cursor {n} is kept", kind="fact", key=f"cursor.{n % 20}")
        plane.upkeep.index()
        plane.pack("cursor")
    return home


def copied(origin, place):
    return shutil.copytree(origin, place / ".memplane", copy_function=shutil.copy)


def synchronised(origin, place):
    """As rsync does: times are kept, every file is made under another name and renamed."""
    home = place / ".memplane"
    home.mkdir()
    for path in sorted(origin.rglob("*")):
        to = home / path.relative_to(origin)
        if path.is_dir():
            to.mkdir()
        else:
            draft = to.with_name(f".{to.name}.draft")
            shutil.copy2(path, draft)
            draft.rename(to)
    return home


def checked_out(origin, place):
    """From git, caches and all, as a person may have forced them in."""
    git = ["git", *"-c user.name=a -c user.email=a@example.com -c init.defaultBranch=m".split()]
    work = place / "from"
    shutil.copytree(origin, work / ".memplane")
    (work / ".memplane" / ".gitignore").unlink()
    for words in (["init", "-q"], ["add", "-Af", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], cwd=work, check=True)
    subprocess.run([*git, "clone", "-q", work, place / "work"], check=True)
    return place / "work" / ".memplane"


def bare(origin, place):
    """The log and the policies alone."""
    home = copied(origin, place)
    shutil.rmtree(home / "projections")
    return home


def restored(origin, place):
    with memplane.open(origin) as plane:
        plane.upkeep.export(place / "export.jsonl")
    memplane.restore(place / "export.jsonl", place / ".memplane")
    return place / ".memplane"


WAYS = [copied, synchronised, checked_out, bare, restored]


def prompted(home, file, prompt):
    """A prompt of a session of its own: what was folded and summed for it, and the answer."""
    given = asked(home, "which cursor does the ledger keep?", prompt_id=prompt, session_id=prompt)
    found = counted(home, file, given)
    assert not (home / "hooks.log").exists()
    return found


def counted(home, file, given, *more, **environment):
    """What was folded and summed for a hook, and its answer."""
    script = Path(__file__).with_name("process_counted_hook.py")
    done = subprocess.run(
        [sys.executable, script, file, "hook", "claude-code", *more],
        input=json.dumps(given).encode(), capture_output=True, timeout=60, check=False,
        **surroundings(home, **environment),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    answer = context(done.stdout.decode()) if done.stdout else ""
    return json.loads(file.read_text()), answer


@pytest.mark.parametrize("way", WAYS)
def test_the_second_hook_of_a_copy_folds_and_sums_nothing(origin, tmp_path, way):
    home = way(origin, tmp_path)
    first, answer = prompted(home, tmp_path / "counts", "p1")
    indexed = way is not restored  # an export has no index: a full process makes it
    assert ("the ledger keeps cursor" in answer) == indexed
    if way in (bare, restored):
        assert first["lines"] > EVENTS
    else:
        assert first["lines"] <= FEW
    second, again = prompted(home, tmp_path / "counts", "p2")
    assert second["lines"] <= FEW
    assert second["sums"] == 0
    assert ("the ledger keeps cursor" in again) == indexed


def of_another_version(home):
    """Leave no projection that this version would go on from."""
    for path in (home / "projections").glob("*.json"):
        path.write_bytes(path.read_bytes().replace(b'"version":', b'"version":9', 1))
    for name in ("cache.sqlite", "checkpoints.bin"):
        (home / "projections" / name).unlink(missing_ok=True)


@pytest.mark.parametrize("event", ["prompt", "start"])
def test_a_hook_leaves_a_long_fold_to_the_catch_up(origin, tmp_path, event):
    home, file = copied(origin, tmp_path), tmp_path / "counts"
    of_another_version(home)

    def call(number):
        if event == "start":
            return said("SessionStart", home, source="startup", session_id=f"s-{number}")
        question = "which cursor does the ledger keep?"
        return asked(home, question, prompt_id=f"p{number}", session_id=f"s-{number}")

    for number in range(2):
        found, answer = counted(home, file, call(number), FOLDED_MAX="500")
        assert answer == ""
        assert found["lines"] <= FEW
    assert "lines of the log are not folded" in told(home)
    found, _ = counted(home, file, said("Stop", home), "--catch-up", FOLDED_MAX="500")
    assert found["lines"] > EVENTS
    found, answer = counted(home, file, call(7), FOLDED_MAX="500")
    assert found["lines"] <= 4 * FEW
    assert answer != "" or event == "start"
