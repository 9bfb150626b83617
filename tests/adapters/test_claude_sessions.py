"""What a plane adds to a session store: deletions that are taken back, recall, purges."""

import json

from builders_transcripts import KEY, OTHER, Store, entry, said, uuid

from memplane.importers.run import import_paths

# --- once for each uuid ---


def test_a_repeated_uuid_is_stored_once_and_an_entry_without_one_each_time(store):
    store.append(KEY, [said(1, "Hello"), entry(tag="a")])
    store.append(KEY, [said(1, "Hello"), entry(tag="a"), said(2, "Again")])
    assert store.load(KEY) == [
        said(1, "Hello"), entry(tag="a"), entry(tag="a"), said(2, "Again")
    ]  # fmt: skip


def test_what_is_appended_after_a_deletion_begins_anew_also_with_uuids_that_were_there(store):
    turns = [said(number, f"turn {number}") for number in range(4)]
    for _ in range(3):
        store.append(KEY, [*turns[:3], entry(mode="plan")])
        store.append(KEY, turns[2:])
        assert store.load(KEY) == [*turns[:3], entry(mode="plan"), turns[3]]
        store.delete(KEY)
        assert store.load(KEY) is None


def test_what_another_store_deleted_meanwhile_begins_anew_too(store, plane):
    store.append(KEY, [entry(uuid="a"), entry(uuid="b")])
    with Store(plane) as another:
        another.delete(KEY)
    store.append(KEY, [entry(uuid="b"), entry(uuid="c"), entry(tag="t")])
    loaded = store.load(KEY)
    assert len(loaded) == 3
    assert all(one in loaded for one in (entry(uuid="b"), entry(uuid="c"), entry(tag="t")))


def test_a_deletion_is_taken_back_like_any_forgetting(store, plane):
    store.append(KEY, [entry(uuid="a")])
    store.delete(KEY)
    (first, *_) = [event for event in plane.events() if event.kind == "forget"]
    plane.unforget(source=first.data["forget"]["source"])
    assert store.load(KEY) == [entry(uuid="a")]


# --- recall ---


def test_what_was_said_is_recalled_and_its_stored_entry_never_is(store, plane):
    store.append(KEY, [said(1, "We keep PostgreSQL for the orders"), said(2, "Noted", "assistant")])
    (hit, *_) = plane.search("PostgreSQL orders")
    assert (hit.event.kind, hit.event.id) == ("message", f"claude-code:{uuid(1)}:0")
    block = plane.pack("which database for the orders?", session=KEY["session_id"])
    assert block.text.count("We keep PostgreSQL for the orders") == 1
    assert '"parentUuid"' not in block.text


def test_an_import_of_the_same_transcript_finds_its_turns_there(store, plane, tmp_path):
    turns = [said(1, "We keep PostgreSQL"), said(2, "Noted", "assistant"), said(3, "Thanks")]
    store.append(KEY, turns)
    head = plane.head()
    path = tmp_path / f"{KEY['session_id']}.jsonl"
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    messages = [event for event in plane.events() if event.kind == "message"]
    import_paths(plane, "claude-code", [path])
    after = [event for event in plane.events(after=head.seq) if event.kind == "message"]
    assert len(messages) == 3
    assert after == []


def test_a_deleted_conversation_is_not_recalled_unless_another_project_keeps_it(store, plane):
    turns = [said(1, "We keep PostgreSQL for the orders")]
    store.append(KEY, turns)
    store.append(OTHER, turns)
    store.delete(KEY)
    assert [hit.event.text for hit in plane.search("PostgreSQL")] == [
        turns[0]["message"]["content"]
    ]
    store.delete(OTHER)
    assert plane.search("PostgreSQL") == []


def test_forgetting_the_session_takes_its_transcript_too(store, plane):
    store.append(KEY, [said(1, "We keep PostgreSQL")])
    plane.forget(session=KEY["session_id"])
    assert store.load(KEY) is None
    plane.unforget(session=KEY["session_id"])
    assert store.load(KEY) == [said(1, "We keep PostgreSQL")]


def test_a_purge_of_the_session_erases_its_transcript_from_the_disk(store, plane):
    store.append(KEY, [said(1, "The vault is behind the painting"), entry(customTitle="vault")])
    store.append({**KEY, "session_id": "other"}, [said(2, "Hello", session="other")])
    store.list_session_summaries("proj")
    plane.upkeep.purge(session=KEY["session_id"])
    assert store.load(KEY) is None
    assert [one["session_id"] for one in store.list_session_summaries("proj")] == ["other"]
    for path in plane.home.rglob("*"):
        assert not path.is_file() or b"behind the painting" not in path.read_bytes()
    store.append(KEY, [said(1, "The vault is behind the painting")])
    assert store.load(KEY) is None


def test_a_purge_of_one_turn_names_the_transcript_that_has_it_and_takes_it_with_a_cascade(
    store, plane
):
    store.append(KEY, [said(1, "The vault is behind the painting"), said(2, "Hello there")])
    (raw, *_) = [event for event in plane.events() if event.data.get("status") == "entry"]
    turn = f"claude-code:{uuid(1)}:0"
    assert [quote.seq for quote in plane.upkeep.purge(turn, dry_run=True).quotes] == [raw.seq]
    plane.upkeep.purge(turn, cascade=True)
    assert store.load(KEY) == [said(2, "Hello there")]
