"""A project that uses memplane.acms runs, and `mypy --strict` reads it by the installed package."""

import inspect
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import memplane
from memplane.acms import ACMS
from memplane.acms.runner import AsyncPlane, AsyncUpkeep
from memplane.artifacts import PlaneArtifacts
from memplane.plane.work import PlaneWork
from memplane.work.tasks import PlaneTasks

ROOT = Path(__file__).parents[2]
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
        plane.OLD("x")
        plane.work.tasks.open("parser", "Parse lists", sensitivty="high")
        plane.work.artifacts.add("a.txt", tgs=["x"])
        await ACMS("s", plane).ingest("user", "hello", actor=3)
    async with memplane.aopen("x") as other:
        await other.record("y", knd="decision")
        await other.upkeep.verify(dep=True)
        block = await other.pack("which?", budget=200)
        reveal_type(block.budget_remaining)
""".replace("OLD", "purge")  # a name that moved to `plane.upkeep`


def strict(*words, cwd):
    options = ("--strict", "--no-error-summary", "--config-file=", "--cache-dir=cache")
    return ran("-m", "mypy", *options, *words, cwd=cwd)


def refused(done):
    """What was refused is each misspelt name, and nothing else."""
    said = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line.partition(": error: ")[0] for line in said] == [
        f"wrong.py:{line}" for line in (7, 8, 9, 10, 11, 12, 13, 15, 16)
    ], done.stdout + done.stderr
    names = ("knd", "buget", "sesion", "purge", "sensitivty", "tgs", "actor", "knd", "dep")
    for line, name in zip(said, names, strict=True):
        assert f'"{name}"' in line
    assert 'Revealed type is "int"' in done.stdout or "builtins.int" in done.stdout


CALLS = (
    memplane.Plane.record, memplane.Plane.pack, PlaneWork.spool, PlaneTasks.open, PlaneArtifacts.add,
    ACMS.ingest, AsyncPlane.record, AsyncPlane.pack, AsyncUpkeep.verify,
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_every_argument_has_a_name_and_a_type(call):
    """What editors and checks of types read; the long form below asks `mypy --strict`."""
    assert (Path(memplane.__file__).parent / "py.typed").exists()
    _, *asked = inspect.signature(call).parameters.values()
    for one in asked:
        assert one.annotation not in (one.empty, "Any", "object"), one
        # Further fields have names, too: those of a typed dictionary.
        if one.kind is one.VAR_KEYWORD:
            assert re.fullmatch(r"Unpack\[\w+Fields\]", one.annotation), one
        assert one.kind is not one.VAR_POSITIONAL


@pytest.mark.long
def test_strict_types_accept_the_project_and_refuse_misspelt_names(tmp_path):
    """G1: `mypy --strict` refuses `knd=`; editors complete from the same signatures."""
    (tmp_path / "good.py").write_text(PROGRAM.read_text())
    (tmp_path / "wrong.py").write_text(WRONG)
    refused(strict("good.py", "wrong.py", cwd=tmp_path))


@pytest.mark.long
def test_so_it_is_by_a_wheel_in_an_environment_of_its_own(tmp_path):
    """Nothing of the checkout is seen there; only memplane's own dependencies are shared."""
    (tmp_path / "good.py").write_text(PROGRAM.read_text())
    (tmp_path / "wrong.py").write_text(WRONG)
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    built = ran(*pip, "wheel", "--no-deps", "-w", "wheels", ROOT, cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    placed = ran(
        *pip, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path
    )
    assert placed.returncode == 0, placed.stderr
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "shared.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    asked = [python, "-c", "import memplane; print(memplane.__file__)"]
    found = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert Path(found.stdout.strip()).is_relative_to(site)
    worked = subprocess.run(
        [python, "-W", "error", "good.py", "notes"],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert (worked.returncode, worked.stderr) == (0, "")
    assert worked.stdout.splitlines()[-1] == "True 4 turns, 2 episodes"
    refused(strict("--python-executable", python, "good.py", "wrong.py", cwd=tmp_path))
    command = home / "bin" / "memplane"
    shown = subprocess.run(
        [command, "session", "show", "athens", "--episodes", "--home", "notes"],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
