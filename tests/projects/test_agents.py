"""What an agent stores and reads by MCP in the user's own plane is of its project."""

import pytest

from memplane.errors import ScopeError
from memplane.event import GLOBAL
from memplane.mcp import (
    TOOLS,
    Desk,
    checked,
    forget_tool,
    get_tool,
    list_keys,
    search_tool,
    store,
)
from memplane.wiring import make_counter

BY_NAME = {tool.name: tool for tool in TOOLS}


def call(plane, tool, act, **given):
    desk = Desk(plane, make_counter, "agent", "s1", "bot", None, lambda *_: None)
    return act(desk, checked(BY_NAME[tool], given)).data


@pytest.fixture
def two(own, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return lambda name: own.at(tmp_path / name)


def test_a_statement_is_of_the_project_and_a_preference_of_the_user(two):
    with two("a") as plane:
        said = {"content": "the ledger is in cents", "type": "fact", "key": "ledger"}
        stored = call(plane, "memory_store", store, **said)
        assert plane.event(stored["seq"]).ns == plane.context.home.project
        assert call(plane, "memory_store", store, **said, ns=GLOBAL)["duplicate"]
        liked = {"content": "short answers", "type": "preference", "key": "style"}
        assert plane.event(call(plane, "memory_store", store, **liked)["seq"]).ns == GLOBAL
        assert call(plane, "memory_list_keys", list_keys)["keys"] == ["ledger", "style"]
        other = plane.context.home.project
    with two("b") as plane:
        assert call(plane, "memory_list_keys", list_keys)["keys"] == ["style"]
        assert call(plane, "memory_search", search_tool, query="ledger cents")["hits"] == []
        assert call(plane, "memory_get", get_tool, key="style")["text"] == "short answers"
        assert "cents" in call(plane, "memory_get", get_tool, key="ledger", ns=other)["text"]
        with pytest.raises(ScopeError):
            call(plane, "memory_store", store, content="x", type="fact", ns=other)
    with two("a") as plane:
        call(plane, "memory_forget", forget_tool, key="ledger")
        assert call(plane, "memory_list_keys", list_keys)["keys"] == ["style"]
