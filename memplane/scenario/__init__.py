"""Scenarios: what a plane must do, as YAML that is run in CI.

A file says what is given, what happens and what must hold in the end::

    version: 1
    scenario: db-choice
    title: A replaced decision leaves the block
    given:
      events:
        - {id: old, kind: decision, key: db.engine, text: We keep PostgreSQL}
    when:
      - record: {id: new, kind: decision, key: db.engine, text: We move to SQLite}
      - pack: {query: which database do we use?, budget: 2000}
    assertions:
      - contains: {event: new}
      - lacks: {event: old}
      - {type: acb_max_tokens, max: 2000}

Each runs in a plane of its own, in a temporary folder, under a clock that stands still until the
file moves it; ids that a file does not give are `event-1`, `event-2` and so on. So the blocks of a
scenario are the same on every machine; how long they took is reported, and enforced only on
request. Limits (`acb_*`) hold for every pack, other assertions for the last one, unless they name
one by its `as`. `schemas/scenario.schema.json` has every step and assertion.

`document` reads files and has the plane and clock of one scenario and its other processes; `run`
carries out the steps, checks what came of them, and reports.
"""

from __future__ import annotations

from memplane.scenario.document import (
    Scenario,
    ScenarioError,
    SceneFactory,
    is_scenario,
    read_scenario,
    work,
)
from memplane.scenario.run import (
    Runner,
    ScenarioOutcome,
    Settings,
    as_json,
    as_words,
    work_of,
    write_reports,
)

__all__ = [
    "Runner",
    "Scenario",
    "ScenarioError",
    "ScenarioOutcome",
    "SceneFactory",
    "Settings",
    "as_json",
    "as_words",
    "is_scenario",
    "read_scenario",
    "work",
    "work_of",
    "write_reports",
]
