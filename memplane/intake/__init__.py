"""What happens to an event before the log: checked, redacted, marked, counted, serialised.

Pure: nothing here reads a clock, a file or the environment. The result is a `Draft`
that the log only has to number and chain. The order is
fixed: check every field, clean the text, redact, mark, count, serialise. So a secret
that a rule knows never reaches a byte that is written.
"""

from memplane.intake.check import (
    Intake,
    PreparedText,
    check_whole,
    cleaned,
    namespace,
    normalise,
    prepare,
    same,
    time_bound,
    timestamp,
)
from memplane.intake.markers import Marker, marker_of
from memplane.intake.redact import Redactor

__all__ = [
    "Intake",
    "Marker",
    "PreparedText",
    "Redactor",
    "check_whole",
    "cleaned",
    "marker_of",
    "namespace",
    "normalise",
    "prepare",
    "same",
    "time_bound",
    "timestamp",
]
