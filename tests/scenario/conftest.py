"""Scenarios from text: run here, in a folder that a test can look into."""

import tempfile
import textwrap
from pathlib import Path

import pytest

from memplane.cli.trials import builders
from memplane.home import asset
from memplane.scenario import Runner, ScenarioError, Settings, read_scenario


def scenario_of(text, folder=Path(), name="a.yaml"):
    text = textwrap.dedent(text)
    if "scenario:" not in text:
        text = f"version: 1\nscenario: a\n{text}"
    return read_scenario(
        name, text.encode(), schema=asset("schemas/scenario.schema.json"),
        open_file=lambda file: (folder / file).read_bytes(),
    )  # fmt: skip


@pytest.fixture(scope="session")
def run_once(tmp_path_factory):
    """Run a scenario from its text, for a test file to share."""

    def run_once(text, **settings):
        with Runner(builders(), Settings(**settings)) as runner:
            return runner.run(scenario_of(text))

    return run_once


@pytest.fixture
def read(tmp_path):
    """A scenario from its text; `version` and `scenario` are added where they are left out."""
    return lambda text: scenario_of(text, tmp_path)


@pytest.fixture
def mistakes(read):
    """The mistakes in a text, as people read them."""

    def mistakes(text):
        try:
            read(text)
        except ScenarioError as error:
            return [str(problem) for problem in error.problems]
        return []

    return mistakes


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where runners put their folders: a place that holds nothing else."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def run(read, temporary):
    """Run a scenario from its text; its outcome."""

    def run(text, **settings):
        with Runner(builders(), Settings(**settings)) as runner:
            return runner.run(read(text))

    return run


@pytest.fixture(scope="session")
def suite():
    """The files of the suite."""
    return sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
