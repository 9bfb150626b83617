"""Settings files of other people, as hypothesis makes them: any layout, with hooks of theirs."""

import json

from hypothesis import strategies as st

from memplane.clients import AGENTS, Program

PROGRAM = Program(("/opt/x/bin/memplane",))
OTHER = Program(("/usr/bin/python3", "-m", "memplane"), ("--home", "/srv/a plane"))
EVENTS = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "Notification", "SessionEnd"]
agents = st.sampled_from([*AGENTS.values()])

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    st.floats(allow_nan=False, allow_infinity=False),
)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
commands = st.sampled_from(
    ["lint", "memplane", "memplane hooked", "echo memplane hook", "~/bin/guard 'it", "x hook codex"]
)
handlers = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("command"), "command": commands},
        optional={
            "timeout": st.integers(1, 600),
            "args": st.lists(st.text(max_size=5), max_size=2),
        },
    ),
    st.fixed_dictionaries({"type": st.just("http"), "url": st.text(max_size=9)}),
    leaves,
)
groups = st.one_of(
    st.fixed_dictionaries(
        {"hooks": st.lists(handlers, max_size=3)}, optional={"matcher": st.text(max_size=6)}
    ),
    leaves,
)
hooks = st.dictionaries(st.sampled_from(EVENTS), st.lists(groups, max_size=3), max_size=5)
servers = st.dictionaries(
    st.text(max_size=6).filter(lambda name: name != "memplane"),
    st.fixed_dictionaries({"command": st.text(max_size=6)}, optional={"args": st.just(["mcp"])}),
    max_size=3,
)


@st.composite
def objects(draw):
    """A settings object: what is ours to extend among anything else, in any order."""
    rest = draw(st.dictionaries(st.text(max_size=8), anything, max_size=4))
    rest.pop("hooks", None), rest.pop("mcpServers", None)
    for key, made in (("hooks", hooks), ("mcpServers", servers)):
        if draw(st.booleans()):
            rest[key] = draw(made)
    return dict(draw(st.permutations(list(rest.items()))))


@st.composite
def texts(draw):
    """The same as a text: on one line or many, any indentation, line ends and white space."""
    value = draw(objects())
    layout = draw(st.sampled_from(["lines", "one", "tight", "wild"]))
    ascii_only = draw(st.booleans())
    if layout == "lines":
        indent = draw(st.sampled_from([0, 1, 2, 3, 4, 8, "\t", " \t"]))
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    elif layout == "wild":
        spaces = st.text(" \t\n\r", max_size=3)
        text = wild(draw, spaces, value)
    else:
        marks = (",", ":") if layout == "tight" else (", ", ": ")
        text = json.dumps(value, separators=marks, ensure_ascii=ascii_only)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return (
        draw(st.sampled_from(["", "\ufeff"]))
        + text
        + draw(st.sampled_from(["", "\n", "\r\n", " \n\n"]))
    )


def wild(draw, spaces, value):
    """JSON with white space wherever it may stand."""
    if isinstance(value, dict):
        parts = [
            f"{draw(spaces)}{json.dumps(key)}{draw(spaces)}:{draw(spaces)}{wild(draw, spaces, one)}{draw(spaces)}"
            for key, one in value.items()
        ]
        return "{" + (",".join(parts) or draw(spaces)) + "}"
    if isinstance(value, list):
        parts = [f"{draw(spaces)}{wild(draw, spaces, one)}{draw(spaces)}" for one in value]
        return "[" + (",".join(parts) or draw(spaces)) + "]"
    return json.dumps(value)
