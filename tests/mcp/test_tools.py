"""What each tool does, through the SDK's client in this process."""

import json

import pytest
from jsonschema import validate

from memplane.mcp import tool_named

MODES = ("auto", "legacy")
TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def store(content, **more):
    return "memory_store", {"content": content, "type": "fact", **more}


def test_content_and_type_suffice_and_what_is_stored_is_the_clients(done, opened):
    (stored,) = done(store("Herons sleep standing"))
    event = opened.event(stored["seq"])
    assert (event.text, event.kind, event.ns) == ("Herons sleep standing", "fact", "/global")
    assert (event.actor, event.session, event.id) == ("heron", "s1", stored["id"])
    assert stored["duplicate"] is False


@pytest.mark.parametrize("mode", MODES)
def test_every_answer_validates_against_the_schema_of_its_tool(call, talk, mode):
    calls = (
        store("Herons sleep standing", key="bird", tags=["a"], importance=900),
        store(f"the token is {TOKEN}"),
        store("Herons sleep standing", key="bird", tags=["a"], importance=900),
        ("memory_get", {"key": "bird"}),
        ("memory_get", {"handle": "#2", "max_tokens": 300}),
        ("memory_search", {"query": "heron"}),
        ("memory_search", {"query": "walrus"}),
        ("memory_curate", {"query": "how do herons sleep?"}),
        ("memory_curate", {"mode": "orient"}),
        ("memory_list_keys", {}),
        ("memory_list_keys", {"prefix": "none"}),
        ("memory_task", {"action": "open", "content": "count herons", "plan": ["look"]}),
        ("memory_task", {"action": "plan", "done": [1]}),
        ("memory_task", {"action": "list"}),
        ("memory_forget", {"key": "bird"}),
        ("memory_forget", {"key": "bird"}),
    )
    for (name, _), result in zip(calls, call(*calls, mode=mode), strict=True):
        assert not result.is_error, result.content
        validate(result.structured_content, tool_named(name).gives)
        assert result.content[0].type == "text"


def test_a_secret_is_masked_before_anything_is_written_and_the_answer_says_so(done, home):
    (stored,) = done(store(f"the token is {TOKEN}"))
    assert stored["redacted"] == {"github-token": 1}
    assert "masked" in stored["note"]
    for file in home.rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


def test_a_repeat_is_acknowledged_and_adds_nothing_whoever_says_it(done, opened):
    (first,) = done(store("Herons eat fish"))
    head = opened.head().seq
    again, masked = done(store("Herons eat fish"), store(f"a {TOKEN}"), session="s2", client="crow")
    assert (again["duplicate"], again["id"], again["seq"]) == (True, first["id"], first["seq"])
    assert "nothing was added" in again["note"]
    assert masked["duplicate"] is False
    assert opened.head().seq == head + 1


def test_the_same_words_with_another_key_type_or_place_are_no_repeat(done):
    stored = done(
        store("Herons eat fish"), store("Herons eat fish", key="food"),
        store("Herons eat fish", type="observation"), store("Herons eat fish", ns="/task/t1"),
    )  # fmt: skip
    assert [one["duplicate"] for one in stored] == [False] * 4
    assert len({one["id"] for one in stored}) == 4


def test_a_value_that_comes_back_replaces_the_one_that_replaced_it(done):
    turns = ["SQLite", "PostgreSQL", "SQLite", "SQLite", "PostgreSQL", "SQLite"]
    stored = done(*(store(one, key="db") for one in turns))
    assert [one["duplicate"] for one in stored] == [False, False, False, True, False, False]
    (value,) = done(("memory_get", {"key": "db"}))
    assert value["text"] == "SQLite"


def test_what_was_forgotten_can_be_said_again(done):
    said = store("Herons are grey", key="colour")
    first, _, again, same = done(said, ("memory_forget", {"key": "colour"}), said, said)
    assert (again["duplicate"], same["duplicate"]) == (False, True)
    assert again["id"] == same["id"] != first["id"]
    (value,) = done(("memory_get", {"key": "colour"}))
    assert (value["text"], value["state"]) == ("Herons are grey", "in force")


def test_what_was_purged_can_be_said_again(done, opened):
    said = store("Herons are grey", key="colour")
    (first,) = done(said)
    opened.upkeep.purge(first["id"])
    (again,) = done(said)
    assert again["duplicate"] is False
    assert again["id"] != first["id"]


def test_a_memory_of_a_task_stands_in_the_task(done, opened):
    (stored,) = done(store("Parse first", ns="/task/parser", key="order"))
    event = opened.event(stored["seq"])
    assert (event.ns, event.task) == ("/task/parser", "parser")
    value, listed = done(
        ("memory_get", {"key": "order", "ns": "/task/parser"}),
        ("memory_list_keys", {"ns": "/task/parser"}),
    )
    assert value["text"] == "Parse first"
    assert listed["keys"] == ["order"]


@pytest.mark.parametrize(
    "handle", ["#{seq}", "{seq}", "{id}", "event/{seq}", "expand://event/{id}"]
)
def test_get_takes_every_name_of_an_event(done, handle):
    (stored,) = done(store("Herons sleep standing"))
    (value,) = done(("memory_get", {"handle": handle.format(**stored)}))
    assert value["text"] == "Herons sleep standing"
    assert value["type"] == "fact"


def test_get_of_a_long_text_goes_on_until_all_of_it_was_said(done):
    text = "\n".join(f'Heron {number} said: "fish", then left.' for number in range(400))
    (stored,) = done(store(text))
    handle, parts = f"#{stored['seq']}", []
    while handle is not None:
        (part,) = done(("memory_get", {"handle": handle, "max_tokens": 1000}))
        parts.append(part["text"])
        handle = part.get("next")
        assert ("note" in part) == (handle is not None)
    assert len(parts) > 3
    assert "".join(parts) == text


def test_what_became_of_a_memory_is_said(done):
    done(store("SQLite", key="db"), store("PostgreSQL", key="db"))
    (old,) = done(("memory_get", {"handle": "#2"}))
    assert old["state"] == "superseded by #3"


def test_search_finds_by_words_type_namespace_and_time(done):
    done(
        store("Herons eat fish"), store("Herons stay", type="decision"),
        store("Herons of the task", ns="/task/t"),
    )  # fmt: skip
    every, decided, of_task, later = done(
        ("memory_search", {"query": "herons"}),
        ("memory_search", {"query": "herons", "type": ["decision"]}),
        ("memory_search", {"query": "herons", "ns": "/task/t"}),
        ("memory_search", {"query": "herons", "since": "2999-01-01T00:00:00Z"}),
    )
    assert len(every["hits"]) == 3
    assert [hit["text"] for hit in decided["hits"]] == ["Herons stay"]
    assert [hit["text"] for hit in of_task["hits"]] == ["Herons of the task"]
    assert later == {"hits": [], "note": "nothing found; try other words, or leave out since"}
    (opened,) = done(("memory_get", {"handle": every["hits"][0]["handle"]}))
    assert opened["text"] == every["hits"][0]["text"]


def searched(done, **more):
    (found,) = done(("memory_search", {"query": "herons", **more}))
    return {hit["text"] for hit in found["hits"]}


def test_search_keeps_to_a_session_a_file_and_a_span_of_time(done, opened):
    for day, session, path in ((1, "s7", "src/nest.py"), (2, "s7", "lib/nest.py"), (3, "s8", "")):
        data = {"tool": "Edit", **({"path": path} if path else {})}
        opened.record(
            f"herons {day}", kind="tool_call", session=session, data=data,
            ts=f"2026-03-0{day}T00:00:00Z",
        )  # fmt: skip
    assert searched(done, session="s7") == {"herons 1", "herons 2"}
    assert searched(done, file="nest.py") == {"herons 1", "herons 2"}
    assert searched(done, file="src/nest.py") == {"herons 1"}
    assert searched(done, file="est.py") == set()
    assert searched(done, until="2026-03-02T00:00:00Z") == {"herons 1", "herons 2"}
    assert searched(done, since="2026-03-02T00:00:00Z", session="s7") == {"herons 2"}


def test_search_in_a_project_that_is_named_finds_what_is_there_alone(done, projects):
    here, there = projects("app"), projects("web")
    done(store("Herons of the web"), open_here=there)
    done(store("Herons of the app"), open_here=here)
    asked = ("memory_search", {"query": "herons"})
    own, named, missed = done(
        asked, (asked[0], {**asked[1], "project": "web"}), (asked[0], {**asked[1], "project": "we"}),
        open_here=here,
    )  # fmt: skip
    assert [hit["text"] for hit in own["hits"]] == ["Herons of the app"]
    assert [hit["text"] for hit in named["hits"]] == ["Herons of the web"]
    assert missed == {"hits": [], "note": "no project 'we'; leave project out"}


def test_a_session_of_another_project_is_answered_as_one_that_is_not_there(done, projects):
    here, there = projects("app"), projects("web")
    done(store("Herons of the web"), open_here=there, session="s9")
    done(store("Herons of the app"), open_here=here)
    theirs, none = done(
        ("memory_search", {"query": "herons", "session": "s9"}),
        ("memory_search", {"query": "herons", "session": "s0"}),
        open_here=here,
    )
    assert theirs == {"hits": [], "note": "no session 's9'; leave session out"}
    assert none == {"hits": [], "note": "no session 's0'; leave session out"}


def test_curate_without_arguments_says_where_the_work_stands(done, opened):
    opened.work.tasks.open("parser", "Parse lists")
    opened.record("We keep PostgreSQL", kind="decision", session="s0")
    bare, blank, orient, fast = done(
        ("memory_curate", {}),
        ("memory_curate", {"query": " "}),
        ("memory_curate", {"mode": "orient"}),
        ("memory_curate", {"mode": "fast"}),
    )
    assert bare == blank == orient
    assert "Parse lists" in bare["text"]
    assert fast != orient


def test_hits_that_do_not_fit_are_counted(done):
    done(*(store(f"Heron {number} stands in the pond near the old mill") for number in range(30)))
    (found,) = done(("memory_search", {"query": "heron", "limit": 30, "max_tokens": 400}))
    left = 30 - len(found["hits"])
    assert 0 < left < 30
    assert found["note"] == f"{left} more hits did not fit; raise max_tokens"


def test_a_curated_block_names_its_tokens_entries_handles_and_what_was_left_out(done, opened):
    text = "Herons stand still for a long time. " * 60
    done(store(text, type="decision", key="herons"), store("old", key="k"), store("new", key="k"))
    (block,) = done(("memory_curate", {"query": "", "max_tokens": 900}))
    assert block["text"].startswith("memplane:begin\n")
    assert 0 < block["tokens"] <= 900
    ids = {one for entry in block["entries"] for one in entry["ids"]}
    assert {opened.event(2).id, opened.event(4).id} <= ids
    assert "expand://event/2" in block["handles"]
    assert block["omissions"]["superseded"] >= 1
    (whole,) = done(("memory_get", {"handle": "expand://event/2"}))
    assert whole["text"] == text


def test_a_curated_block_is_the_same_for_the_same_session_and_plane(home, talk):
    from memplane.wiring import open_plane

    def at_noon():
        return open_plane(home, clock=lambda: "2030-01-01T12:00:00.000000Z")

    async def script(client):
        await client.call_tool("memory_store", {"content": "Herons stay", "type": "decision"})
        asked = {"query": "herons", "mode": "deep"}
        return [(await client.call_tool("memory_curate", asked)).structured_content] * 2

    one, two = talk(script, open_here=at_noon)
    (three, _) = talk(script, open_here=at_noon)
    assert json.dumps(one) == json.dumps(two) == json.dumps(three)


def test_a_curated_block_leaves_its_report_with_the_servers_session(done, opened):
    from memplane.upkeep import reports

    done(store("Herons stay"), ("memory_curate", {"query": "herons"}), session="s7")
    report = next(reports.saved(opened.home)).report
    assert report["request"]["session"] == "s7"
    assert report["channel"] == "agent"


def test_an_orientation_shows_where_the_work_stands(done, opened):
    opened.work.tasks.open("parser", "Parse nested lists", plan=["write the lexer"])
    (block,) = done(("memory_curate", {"mode": "orient"}))
    assert "Parse nested lists" in block["text"]


def test_forgetting_archives_and_says_which_command_erases(done, opened):
    (stored,) = done(store("Herons are blue", key="colour"))
    by_key, again = done(("memory_forget", {"key": "colour", "reason": "wrong"}),
                         ("memory_forget", {"id": f"#{stored['seq']}"}))  # fmt: skip
    assert "memplane purge" in by_key["note"]
    assert again["seq"] == by_key["seq"]
    assert opened.event(stored["seq"]).text == "Herons are blue"
    assert opened.work.archived(opened.event(stored["seq"])) == ("forgotten", by_key["seq"])
    assert opened.event(by_key["seq"]).text == "wrong (by heron)"
    (found,) = done(("memory_search", {"query": "blue herons"}))
    assert found["hits"] == []


def test_an_agent_forgets_nothing_that_its_channel_may_not_see(opened, done):
    seq = opened.record("between us", sensitivity="high", key="secret.plan").seq
    by_id, by_key = done(
        ("memory_forget", {"id": f"#{seq}"}), ("memory_forget", {"key": "secret.plan"})
    )
    assert by_id == {"note": f"no event {seq}; memory_search finds handles"}
    assert by_key["note"].startswith("no value under secret.plan")
    assert opened.work.archived(opened.event(seq)) is None


def test_keys_are_listed_page_by_page_until_all_were_told(done):
    names = sorted(f"bird.{number:03}" for number in range(150))
    done(*(store(f"value {name}", key=name) for name in names))
    found, after = [], {}
    while True:
        (page,) = done(("memory_list_keys", {"limit": 70, "max_tokens": 400, **after}))
        found += page["keys"]
        if "next" not in page:
            break
        after = {"after": page["next"]}
    assert found == names
    (some,) = done(("memory_list_keys", {"prefix": "bird.00"}))
    assert some["keys"] == names[:10]


def test_a_long_lived_client_sees_what_another_process_records(talk, opened):
    async def script(client):
        await client.call_tool("memory_search", {"query": "walrus"})
        opened.record("The walrus has tusks", kind="fact")
        return (await client.call_tool("memory_search", {"query": "walrus"})).structured_content

    assert [hit["text"] for hit in talk(script)["hits"]] == ["The walrus has tusks"]


@pytest.mark.parametrize(
    ("name", "actor"),
    [("", "mcp"), ("a\nb\x00c", "a b c"), ("h" * 300, "h" * 99 + "…"), ("\u202e", "mcp")],
)
def test_any_name_of_a_client_becomes_an_actor(done, opened, name, actor):
    (stored,) = done(store("Herons stay"), client=name)
    assert opened.event(stored["seq"]).actor == actor


def test_search_and_curate_take_tags_and_importance(done):
    found = done(
        store("Herons sleep standing", tags=["birds"], importance=900),
        store("Herons eat fish", tags=["birds", "draft"], importance=100),
        store("Herons fly south"),
        ("memory_search", {"query": "herons", "tags": ["Birds"]}),
        ("memory_search", {"query": "herons", "tags": ["birds"], "without_tags": ["draft"]}),
        ("memory_search", {"query": "herons", "importance_min": 500}),
        ("memory_curate", {"query": "what do herons do?", "tags": ["draft"]}),
        ("memory_curate", {"query": "what do herons do?", "without_tags": ["birds"]}),
    )[3:]
    texts = [{hit["text"] for hit in one["hits"]} for one in found[:3]]
    assert texts == [
        {"Herons sleep standing", "Herons eat fish"},
        {"Herons sleep standing"},
        {"Herons sleep standing", "Herons fly south"},
    ]
    words = ("sleep", "eat", "fly")
    assert [[word in one["text"] for word in words] for one in found[3:]] == [
        [False, True, False],
        [False, False, True],
    ]


def test_filters_that_are_out_of_bounds_are_refused(call):
    for given in ({"importance_min": 1001}, {"tags": [1]}, {"without_tags": "x"}):
        (result,) = call(("memory_search", {"query": "x", **given}))
        assert result.is_error, given


def test_an_agent_says_whether_the_user_said_it_and_relays_a_confirmation(done, call, opened):
    (inferred,) = done(store("Herons sleep standing"))
    found, shown = done(
        ("memory_search", {"query": "herons sleep"}), ("memory_get", {"handle": "#2"})
    )
    assert (found["hits"][0]["said_by"], shown["said_by"]) == ("agent", "agent")
    (confirmed,) = done(store(f"#{inferred['seq']}", said_by="user"))
    event = opened.event(confirmed["seq"])
    assert (event.said_by, event.actor, event.text) == ("user", "heron", "Herons sleep standing")
    assert event.data["confirms"] == inferred["id"]
    assert opened.work.standing(opened.event(inferred["seq"])).reason == "forgotten"
    again, found = done(
        store(f"#{event.seq}", said_by="user"), ("memory_search", {"query": "herons sleep"})
    )
    assert (again["duplicate"], again["seq"]) == (True, event.seq)
    assert [hit.get("said_by") for hit in found["hits"]] == [None]
    (refused,) = call(store("#999", said_by="user"))
    assert refused.is_error
    twice = call(store(f"#{inferred['seq']}", said_by="user"))[0]
    assert f"confirmed already, by event {event.seq}" in twice.content[0].text
    head = opened.head().seq
    (alone,) = call(store(f"#{inferred['seq']}"))  # no statement, and nobody confirmed it
    assert "said_by user" in alone.content[0].text
    assert opened.head().seq == head


@pytest.mark.parametrize("key", [{}, {"key": "herons"}])
@pytest.mark.parametrize("first", ["agent", "user"])
def test_what_the_owner_confirmed_is_known_when_the_agent_stores_it_again(done, opened, key, first):
    (stored,) = done(store("Herons sleep standing", said_by=first, **key))
    mine = opened.work.confirm(stored["seq"]).event
    again = done(
        store("Herons sleep standing", **key), store("Herons sleep standing", said_by="user", **key)
    )
    assert [(one["duplicate"], one["seq"]) for one in again] == [(True, mine.seq)] * 2
    assert opened.work.standing(mine).reason is None
    opened.forget(id=mine.id)
    (anew,) = done(store("Herons sleep standing", **key))
    assert not anew["duplicate"]
    assert opened.event(anew["seq"]).said_by == "agent"


def test_the_same_words_said_by_the_user_confirm_those_of_the_agent(done, opened):
    inferred, said, again = done(
        store("Herons eat fish"), store("Herons eat fish", said_by="user"), store("Herons eat fish")
    )
    assert opened.event(said["seq"]).data["confirms"] == inferred["id"]
    assert (again["duplicate"], said["duplicate"]) == (True, False)
    (fresh,) = done(store("Storks eat frogs", said_by="user"))
    assert opened.event(fresh["seq"]).said_by == "user"
