"""Rows of tasks, sessions and artifacts, for the laws of more than one projector."""

from builders_journal import SESSIONS
from hypothesis import strategies as st

NOW = "2026-01-05T12:00:00.000000Z"
LATER = "2026-02-05T12:00:00.000000Z"
A, B = "a" * 64, "b" * 64


def task(id_, text="", **fields):
    return {"kind": "task", "task": id_, "ns": f"/task/{id_}", "text": text, **fields}


def artifact(digest=A, **fields):
    data = {
        "sha256": digest,
        "bytes": 12,
        "name": "x.md",
        "mime": "text/markdown",
        "stored": "copy",
    }
    return {"kind": "artifact", "data": {**data, **fields.pop("data", {})}, **fields}


def approval(*refs, digest=A, undo=False, **fields):
    data = {"sha256": digest, **({"undo": True} if undo else {})}
    return {"kind": "approval", "refs": refs, "data": data, **fields}


NAMES = st.sampled_from([f"t{n}" for n in range(4)])
TEXT = st.one_of(st.text(max_size=20), st.integers(1, 900).map(lambda n: "word " * n))
STATUS = st.sampled_from(
    ["open", "open", "active", "in_progress", "blocked", "done", "cancelled", "unheard of", 7]
)
PLAN = st.lists(
    st.one_of(
        st.text(max_size=9),
        st.fixed_dictionaries({"step": st.text(max_size=9)}, optional={"state": STATUS}),
        st.just({"no": "step"}),
    ),
    max_size=5,
)
STEPS = st.fixed_dictionaries(
    {}, optional={"done": st.lists(st.integers(0, 6), max_size=3), "failed": st.just("nonsense")}
)
TASK_ROW = st.builds(
    lambda id_, text, data, more: task(id_, text, data=data, **more),
    NAMES,
    TEXT,
    st.fixed_dictionaries(
        {},
        optional={
            "status": STATUS, "plan": st.one_of(PLAN, st.just("x")), "steps": STEPS,
            "specs": st.lists(st.sampled_from(["a", "/spec/b", 3, ""]), max_size=3),
            "reason": st.one_of(st.text(max_size=9), st.just(1)),
        },
    ),
    st.fixed_dictionaries(
        {}, optional={
            "session": SESSIONS, "key": st.sampled_from(["db", "#3"]),
            "sensitivity": st.sampled_from(["high", "secret"]),
        },
    ),
)  # fmt: skip
MARKS = st.fixed_dictionaries(
    {
        "kind": st.just("session"),
        "session": st.sampled_from(["s1", "s2", "s3", "s4"]),
        "data": st.fixed_dictionaries(
            {"status": st.sampled_from(["start", "checkpoint", "end", 7])},
            optional={"branch": st.text(max_size=9), "reason": st.sampled_from(["gap", 3])},
        ),
    },
    optional={"actor": st.sampled_from(["a", "b"])},
)
WORK = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["tool_call", "tool_result", "message", "new-kind"]),
        "session": SESSIONS,
        "data": st.fixed_dictionaries(
            {},
            optional={
                "path": st.one_of(st.text(max_size=20), st.just(7)),
                "status": st.sampled_from(["error", "ok"]),
            },
        ),
    },
    optional={
        "task": st.sampled_from(["t1", "t2"]),
        "sensitivity": st.sampled_from(["high", "secret"]),
        "ns": st.sampled_from(["/agent/x", "/task/t1"]),
        "tokens": st.integers(0, 99),
    },
)
ARTIFACT_ROWS = st.builds(
    lambda digest, more: artifact(digest, **more),
    st.sampled_from([A, B]),
    st.fixed_dictionaries(
        {},
        optional={
            "ns": st.sampled_from(["/global", "/task/a"]),
            "key": st.sampled_from(["db", "#3"]),
            "data": st.sampled_from([{"sha256": "short"}, {"stored": "elsewhere"}, {"bytes": -1}]),
        },
    ),
)
APPROVAL_ROWS = st.builds(
    lambda refs, digest, undo, more: approval(*refs, digest=digest, undo=undo, **more),
    st.lists(st.integers(1, 24).map(lambda n: f"e{n}"), max_size=3),
    st.sampled_from([A, A, B, "", 7]),
    st.booleans(),
    st.fixed_dictionaries(
        {},
        optional={
            "session": st.sampled_from(["s1", "s2"]),
            "key": st.sampled_from(["db", "#3"]),
            "valid_until": st.sampled_from([NOW, LATER]),
        },
    ),
)
