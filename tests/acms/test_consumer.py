"""A project that uses memplane.acms runs, and `mypy --strict` reads it by the installed package."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent / "consumer"
PROGRAM = HERE / "itinerary.py"


def ran(*words, cwd):
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, check=False, capture_output=True, text=True
    )


def test_a_small_project_runs_and_goes_on_where_it_was(tmp_path):
    """A2-01, A2-10, A2-13, A2-14, A2-50, A2-92: the example of the plan, and once more."""
    assert len(PROGRAM.read_text().splitlines()) <= 80
    first = ran(PROGRAM, "notes", cwd=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert "[marked] user: Budget: 900 euros" in first.stdout
    assert "[marked] assistant: Decision: we take the night ferry" in first.stdout
    assert "[current_episode] user: The hotel must have a lift" in first.stdout
    assert first.stdout.splitlines()[-1] == "True 4 turns, 2 episodes"
    again = ran(PROGRAM, "notes", cwd=tmp_path)
    assert again.stdout.splitlines()[-1] == "True 8 turns, 4 episodes"


WRONG = """
import memplane
from memplane.acms import ACMS

async def main() -> None:
    with memplane.init("x") as plane:
        plane.record("We keep PostgreSQL", knd="decision")
        plane.pack("which?", buget=200)
        plane.work.spool("x", sesion="s")
        await ACMS("s", plane).ingest("user", "hello", actor=3)
    async with memplane.aopen("x") as other:
        await other.record("y", knd="decision")
        block = await other.pack("which?", budget=200)
        reveal_type(block.budget_remaining)
"""


def test_strict_types_accept_the_project_and_refuse_misspelt_names(tmp_path):
    """G1: `mypy --strict` refuses `knd=`; editors complete from the same signatures."""
    (tmp_path / "good.py").write_text(PROGRAM.read_text())
    (tmp_path / "wrong.py").write_text(WRONG)
    words = ("-m", "mypy", "--strict", "--no-error-summary", "--config-file=", "--cache-dir=cache")
    done = ran(*words, "good.py", "wrong.py", cwd=tmp_path)
    said = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line.partition(": error: ")[0] for line in said] == [
        f"wrong.py:{line}" for line in (7, 8, 9, 10, 12)
    ], done.stdout + done.stderr
    for line, name in zip(said, ("knd", "buget", "sesion", "actor", "knd"), strict=True):
        assert f'"{name}"' in line
    assert 'Revealed type is "int"' in done.stdout or "builtins.int" in done.stdout
