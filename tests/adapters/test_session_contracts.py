"""The fourteen contracts that the Claude Agent SDK has with any session store, without the SDK."""

from builders_transcripts import KEY, OTHER, SUB, entry


def test_01_what_was_appended_is_loaded_in_the_same_order(store):
    store.append(KEY, [entry(uuid="b", n=1), entry(uuid="a", n=2)])
    assert store.load(KEY) == [entry(uuid="b", n=1), entry(uuid="a", n=2)]


def test_02_an_unknown_key_is_none(store):
    assert store.load(KEY) is None
    store.append(KEY, [entry(uuid="x")])
    assert store.load({**KEY, "subpath": "nope"}) is None


def test_03_several_appends_keep_the_order_of_the_calls(store):
    calls = [[entry(uuid="z")], [entry(uuid="a"), entry(uuid="m")], [entry(uuid="b")]]
    for entries in calls:
        store.append(KEY, entries)
    assert [one["uuid"] for one in store.load(KEY)] == ["z", "a", "m", "b"]


def test_04_appending_nothing_changes_nothing(store, plane):
    store.append(KEY, [entry(uuid="a")])
    head = plane.head()
    store.append(KEY, [])
    assert store.load(KEY) == [entry(uuid="a")]
    assert plane.head() == head


def test_05_a_sub_agent_has_a_transcript_of_its_own(store):
    store.append(KEY, [entry(uuid="m")])
    store.append(SUB, [entry(uuid="s")])
    assert store.load(KEY) == [entry(uuid="m")]
    assert store.load(SUB) == [entry(uuid="s")]


def test_06_projects_do_not_see_each_other(store):
    store.append(KEY, [entry(of="A", uuid="u")])
    store.append(OTHER, [entry(of="B", uuid="u")])
    assert store.load(KEY) == [entry(of="A", uuid="u")]
    assert store.load(OTHER) == [entry(of="B", uuid="u")]
    assert len(store.list_sessions("proj")) == len(store.list_sessions("other")) == 1


def test_07_the_sessions_of_a_project_are_listed_with_their_time_in_milliseconds(store):
    for session in ("a", "b"):
        store.append({"project_key": "proj", "session_id": session}, [entry()])
    store.append({"project_key": "other", "session_id": "c"}, [entry()])
    listed = store.list_sessions("proj")
    assert sorted(one["session_id"] for one in listed) == ["a", "b"]
    assert all(one["mtime"] > 1e12 for one in listed)
    assert store.list_sessions("never") == []


def test_08_sub_agents_are_no_sessions(store):
    store.append(KEY, [entry()])
    store.append(SUB, [entry()])
    assert [one["session_id"] for one in store.list_sessions("proj")] == [KEY["session_id"]]


def test_09_what_was_deleted_is_none_and_deleting_the_unknown_does_nothing(store, plane):
    store.delete(KEY)
    assert not any(event.kind == "forget" for event in plane.events())
    store.append(KEY, [entry()])
    store.delete(KEY)
    assert store.load(KEY) is None
    assert store.list_sessions("proj") == []


def test_10_a_conversation_is_deleted_with_its_sub_agents_and_nothing_else(store):
    second, neighbour = {**KEY, "subpath": "subagents/agent-2"}, {**KEY, "session_id": "sess2"}
    for key in (KEY, SUB, second, neighbour, OTHER):
        store.append(key, [entry()])
    store.delete(KEY)
    assert [store.load(key) for key in (KEY, SUB, second)] == [None, None, None]
    assert [len(store.load(key)) for key in (neighbour, OTHER)] == [1, 1]
    assert store.list_subkeys(KEY) == []


def test_11_a_sub_agent_is_deleted_alone(store):
    second = {**KEY, "subpath": "subagents/agent-2"}
    for key in (KEY, SUB, second):
        store.append(key, [entry()])
    store.delete(SUB)
    assert store.load(SUB) is None
    assert [len(store.load(key)) for key in (KEY, second)] == [1, 1]
    assert store.list_subkeys(KEY) == ["subagents/agent-2"]


def test_12_the_paths_of_sub_agents_are_listed(store):
    second = {**KEY, "subpath": "subagents/agent-2"}
    for key in (KEY, SUB, second, {**SUB, "session_id": "another"}):
        store.append(key, [entry()])
    assert sorted(store.list_subkeys(KEY)) == ["subagents/agent-1", "subagents/agent-2"]


def test_13_the_main_transcript_is_no_sub_agent(store):
    store.append(KEY, [entry()])
    assert store.list_subkeys(KEY) == []
    assert store.list_subkeys({**KEY, "session_id": "never"}) == []


def test_14_summaries_are_folds_of_what_was_appended_and_no_older_than_their_sessions(store):
    store.append(KEY, [entry(customTitle="first"), entry()])
    store.append(KEY, [entry(customTitle="second")])
    store.append(OTHER, [entry()])
    (summary,) = store.list_session_summaries("proj")
    assert summary["data"] == {"count": 3, "title": "second"}
    assert summary["mtime"] >= store.list_sessions("proj")[0]["mtime"]
    store.append(SUB, [entry(customTitle="a sub-agent's")])
    assert store.list_session_summaries("proj") == [summary]
    store.append(KEY, [entry()])
    assert store.list_session_summaries("proj")[0]["data"]["count"] == 4
    assert store.list_session_summaries("never") == []
    store.delete(KEY)
    assert store.list_session_summaries("proj") == []
