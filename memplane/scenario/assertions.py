"""The table of assertions: what each type of a scenario file is held by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from memplane.scenario.contents import CONTENTS
from memplane.scenario.finding import Finding
from memplane.scenario.likeness import LIKENESS
from memplane.scenario.limits import LIMITS
from memplane.scenario.scene import Scene
from memplane.scenario.stored import STORED

__all__ = ["ASSERTIONS", "TIMED"]

Check = Callable[[Scene, Mapping[str, Any]], Finding]

ASSERTIONS: Final[Mapping[str, Check]] = {**LIMITS, **CONTENTS, **LIKENESS, **STORED}
# Of these the machine decides: they are reported always and enforced only where that is asked for.
TIMED: Final = frozenset(("acb_build_latency_p95_ms",))
