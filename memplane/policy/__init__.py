"""What the owner of a plane decides: YAML bytes in, typed records out.

`load_policies` reads the five files of `NAMES` and returns `Policies`, or raises
`PolicyError` with every mistake of every file. Nothing here opens a file or
looks at the environment: bytes, schemas, variables and the cache come in as
arguments. A file that is missing is its default; a key that is missing is the
default of its record. yaml and jsonschema are imported only where the parsed
form is not in the cache. For people: `files.check_files` adds doubts to
the mistakes, and `files.policy_values` says where each value comes from.
"""

from __future__ import annotations

from memplane.policy.files import NAMES, Policies, load_policies, variables
from memplane.policy.records import (
    ALL_AGENTS,
    Budgets,
    ChannelRule,
    Channels,
    Limits,
    PlanePolicy,
    Privacy,
    Scoring,
    SectionBudget,
)

__all__ = [
    "ALL_AGENTS",
    "NAMES",
    "Budgets",
    "ChannelRule",
    "Channels",
    "Limits",
    "PlanePolicy",
    "Policies",
    "Privacy",
    "Scoring",
    "SectionBudget",
    "load_policies",
    "variables",
]
