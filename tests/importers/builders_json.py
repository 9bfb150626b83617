"""JSON that a transcript may hold anywhere, and what each reader of one owes to it."""

import json

from hypothesis import strategies as st

from memplane.intake import normalise

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image", "x"])},
    optional=dict.fromkeys(
        ("text", "thinking", "id", "name", "input", "tool_use_id", "content", "is_error"),
        json_values,
    ),
)


def comes_to_something(reader, records):
    """Whether a reader that has begun makes of each rows that the log takes, or says why none."""
    for record in records:
        outcome = reader.read(record, repr(record).encode())
        assert outcome.rows or outcome.skipped or outcome.repeated
        for row in outcome.rows:
            normalise(
                {**row, "ts": None}
            )  # a time is kept as it was given, and the plane judges it
    json.dumps(reader.state())
