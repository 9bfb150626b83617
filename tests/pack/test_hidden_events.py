"""What a channel may not see does not shape what it sees: the same bytes with it and without.

Hidden are events of high sensitivity and those of another agent's own namespace. They are put
anywhere between the visible ones. What a later value replaces and which tasks are closed is decided
on all events, so hidden ones have keys and task events of their own here. The handle of a text that
is cut names its event by its number, and numbers of events count hidden ones: texts are short, and
what handles are left is compared without its number.
"""

import random
import re

import pytest

import memplane
from tests.examples import sampled

HANDLE = re.compile(r"expand://event/\d+")
NOW = "2026-01-05T12:00:00.000000Z"
WORDS = (
    "parser cache retry budget ledger window anchor segment token branch deploy schema replay "
    "worker queue policy prompt index merge digest"
).split()
# Words of no language, so that none is related to one that is visible; of the same length.
HIDDEN_WORDS = (
    "zoqixumn vubrekal jyftonda quxolemi wazbridu kepsilot fydrunak goxvelim hujpaton dibzoker"
).split()
OTHER_WORDS = (
    "xemquvol bradzify konwupes lofgytar vizhemod tujbaxel mypdorik cezvulan hosgjine rawkliqu"
).split()
READERS = (
    {"channel": "public"},
    {"channel": "agent", "agent": "me"},
    {"channel": "private"},
)


def said(chance: random.Random, words: list[str]) -> str:
    return " ".join(chance.choice(words) for _ in range(chance.randint(2, 7)))


def row(chance: random.Random, words: list[str], name: str) -> dict:
    """One event of any kind; its names begin with `name`."""
    made = {"kind": "message", "text": said(chance, words)}
    sessions = [f"{name}s{n}" for n in range(12)]
    made["session"] = chance.choice(["s1", "s1", "s1", "s2", chance.choice(sessions)])
    roll = chance.random()
    if roll < 0.35:
        made["role"] = chance.choice(["user", "assistant"])
    elif roll < 0.5:
        made |= {"kind": "tool_call", "role": "tool", "text": chance.choice(words)}
        made["data"] = {"tool": f"{name}t{chance.randint(0, 20)}"}
        if chance.random() < 0.7:
            made["data"]["path"] = f"src/{name}{chance.randint(0, 30)}.py"
    elif roll < 0.6:
        status = chance.choice(["ok", "error"])
        made |= {"kind": "tool_result", "role": "tool", "text": chance.choice(words)}
        made["data"] = {"tool": f"{name}t{chance.randint(0, 20)}", "status": status}
    elif roll < 0.65:
        made |= {"kind": "session", "text": "", "data": {"status": "checkpoint"}}
        made["session"] = chance.choice(["s2", *sessions])
    elif roll < 0.72:
        made |= {"kind": "task", "task": f"{name}task{chance.randint(0, 60)}"}
        made["data"] = task_data(chance, words, name)
        if name == "h" and chance.random() < 0.6:  # about a visible task, whose state it leaves
            made["task"] = f"vtask{chance.randint(0, 60)}"
            made["data"].pop("status", None)
    else:
        kinds = ["decision", "decision", "fact", "rule", "insight", "plan", "observation"]
        made["kind"] = chance.choice(kinds)
        if chance.random() < 0.6:
            made["key"] = f"{name}{chance.choice(words)}.{chance.randint(0, 60)}"
        if chance.random() < 0.5:
            del made["session"]
    return labelled(chance, words, name, made)


def task_data(chance: random.Random, words: list[str], name: str) -> dict:
    data = {}
    if chance.random() < 0.8:
        data["status"] = chance.choice(["open", "open", "active", "blocked", "done"])
    if chance.random() < 0.4:
        data["plan"] = [said(chance, words) for _ in range(chance.randint(0, 4))]
    if chance.random() < 0.4:
        data["steps"] = {chance.choice(["done", "doing", "failed"]): [chance.randint(1, 4)]}
    if chance.random() < 0.3:
        data["specs"] = [f"{name}{chance.choice(words)}" for _ in range(chance.randint(0, 2))]
    return data


def placed(chance: random.Random, made: dict) -> dict:
    """The event, one of ten in a namespace that every reader sees."""
    spaces = ("/spec/x", "/spec/y", "/task/vtask1", "/task/vtask40")
    return {"ns": chance.choice(spaces), **made} if chance.random() < 0.1 else made


def labelled(chance: random.Random, words: list[str], name: str, made: dict) -> dict:
    """The event with a task, tags, a marker and an importance, each or none of them."""
    if made["kind"] != "task" and chance.random() < 0.3:
        made["task"] = f"vtask{chance.choice([1, 1, 2, 3])}"  # hidden ones are of visible ones, too
    if chance.random() < 0.3:
        made["tags"] = [f"{name}{chance.choice(words)}"]
    if made["kind"] == "message" and chance.random() < 0.2:
        made["markers"] = [chance.choice(["constraint", "goal"])]
    if chance.random() < 0.2:
        made["importance"] = chance.choice([0.2, 0.9])
    return made


def hidden_row(chance: random.Random, words: list[str], hide: dict) -> dict:
    return {**placed(chance, row(chance, words, "h")), **hide}


def planes(seed: int) -> tuple[list[dict], list[dict], list[dict], dict]:
    """Rows without hidden events, with them, with others in their place; and who reads."""
    chance = random.Random(seed)
    reader = chance.choice(READERS)
    hides = [{"ns": "/agent/other"}, {"ns": "/agent/another"}]
    if reader["channel"] != "private":
        hides += [{"sensitivity": "high"}, {"sensitivity": "high", "ns": "/agent/other"}]
    visible = [
        placed(chance, row(chance, WORDS, "v")) for _ in range(chance.choice([3, 30, 90, 150]))
    ]
    if reader.get("agent"):
        for one in visible:
            if chance.random() < 0.2:
                one["ns"] = "/agent/me"
    for n, one in enumerate(visible):
        one["ts"] = f"2026-01-0{1 + n * 4 // len(visible)}T10:00:{n % 60:02}.000000Z"
    with_hidden, with_others = list[dict](), list[dict]()
    bursts = {chance.randint(0, len(visible)): chance.choice([1, 20, 130, 260]) for _ in range(4)}
    for at in range(len(visible) + 1):
        for _ in range(bursts.get(at, 0) or chance.choice([0, 0, 1])):
            hide, state = chance.choice(hides), chance.getstate()
            with_hidden.append({**hidden_row(chance, HIDDEN_WORDS, hide), "ts": NOW})
            chance.setstate(state)
            with_others.append({**hidden_row(chance, OTHER_WORDS, hide), "ts": NOW})
        with_hidden += visible[at : at + 1]
        with_others += visible[at : at + 1]
    return visible, with_hidden, with_others, reader


def asked(seed: int) -> list[dict]:
    chance = random.Random(f"asked {seed}")
    query = chance.choice(["", said(chance, WORDS), f"{chance.choice(WORDS)} src/v3.py"])
    return [
        {"query": "" if intent == "orient" and chance.random() < 0.5 else query, "intent": intent,
         "budget": chance.choice([200, 700, 1500, 4000, 12_000]),
         "session": chance.choice([None, "s1", "s2", "vs3"])}
        for intent in ("fast", "fast", "orient", "deep")
    ]  # fmt: skip


def shown(task) -> tuple:
    """What a reader is given of a task, but for numbers and ids of events."""
    return task._replace(opened_seq=0, changed_seq=0, events=())


def blocks(home, rows: list[dict], reader: dict, requests: list[dict]) -> list[str]:
    with memplane.init(home, durability="os", clock=lambda: NOW) as plane:
        plane.record_many(rows)
        texts = [plane.pack(**reader, **request).text for request in requests]
        texts += ["\n".join(map(repr, map(shown, plane.work.tasks.list(all=True, **reader))))]
    return [HANDLE.sub("expand://event/N", text.rpartition("memplane:end")[0]) for text in texts]


def holds(tmp_path, seed: int) -> None:
    visible, hidden, others, reader = planes(seed)
    requests = asked(seed)
    bare = blocks(tmp_path / f"{seed}-bare", visible, reader, requests)
    full = blocks(tmp_path / f"{seed}-full", hidden, reader, requests)
    deep = [n for n, request in enumerate(requests) if request["intent"] == "deep"]
    swapped = blocks(tmp_path / f"{seed}-other", others, reader, [requests[n] for n in deep])
    for n, request in enumerate(requests):
        without = swapped[deep.index(n)] if n in deep else bare[n]
        assert full[n] == without, (seed, reader, request)
    assert full[-1] == bare[-1], (seed, reader, "tasks")


@pytest.mark.parametrize("seed", sampled(range(7), 3))
def test_hidden_events_anywhere_leave_the_block_as_it_is(tmp_path, seed):
    holds(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_hidden_events_anywhere_leave_the_blocks_of_a_thousand_planes_as_they_are(tmp_path, part):
    for seed in range(1000 + 100 * part, 1100 + 100 * part):
        holds(tmp_path, seed)


def orienting(home, hide: dict, *, quoted: bool = False) -> str:
    """What a public block says of two sessions that ended before hidden ones did.

    `quoted`: a hidden event belongs to the first, so its summary may quote it.
    """
    with memplane.init(home, durability="os", clock=lambda: NOW) as plane:
        for session in ("first", "second"):
            for n in range(6):
                plane.record(f"{session} wants {n}", role="user", session=session)
                plane.record(f"{session} has {n}", role="assistant", session=session)
            if quoted and session == "first":
                wish = "Please keep the hidden falcon nest from all the others"
                plane.record(wish, role="user", session=session, **hide)
            plane.work.sessions.end(session)
        for n in range(12 if hide else 0):
            for text in ("hidden", "more", "still more", "the last"):
                plane.record(f"{text} {n}", role="user", session=f"h{n}", **hide)
            plane.work.sessions.end(f"h{n}")
            plane.record("hidden", role="user", session="first", **hide)
        return plane.pack("", intent="orient", channel="public", budget=4000).text


HIDES = ({"sensitivity": "high"}, {"ns": "/agent/other"})


@pytest.mark.parametrize("hide", HIDES, ids=["sensitivity", "namespace"])
def test_sessions_that_a_reader_does_not_see_take_no_place_of_the_last_ones(tmp_path, hide):
    bare = orienting(tmp_path / "bare", {})
    assert orienting(tmp_path / "hidden", hide) == bare
    quoted = orienting(tmp_path / "quoted", hide, quoted=True)
    # What the reader sees of the first session stands for it, once: its summary is not for him.
    told = 'session 01-05 "first wants 0": Came to: first has 5'
    assert (bare.count(told), quoted.count(told)) == (1, 1)
    assert "assistant: first has 5" in quoted
    assert "hidden" not in quoted


@pytest.mark.parametrize("hide", HIDES, ids=["sensitivity", "namespace"])
def test_what_is_stated_out_of_sight_takes_no_place_of_what_was_stated_in_sight(tmp_path, hide):
    begin = [{"kind": "session", "session": "s", "data": {"status": "start"}}]
    said = [
        {"text": f"Constraint: module {n} stands alone", "role": "user", "session": "s"}
        for n in range(10)
    ]
    hidden = [
        {
            "text": f"Constraint: hidden {n}",
            "role": "user",
            "session": "s",
            "tags": [f"h{n}"],
            **hide,
        }
        for n in range(250)
    ]
    turns = [
        {"text": f"turn {n} along the reeds and the water", "role": "assistant", "session": "s"}
        for n in range(240)
    ]
    request = [{"query": "continue", "session": "s", "budget": budget} for budget in (1000, 4000)]
    before = blocks(tmp_path / "before", begin + said + turns, {"channel": "public"}, request)
    rows = [*begin, *said, *hidden, *turns, *hidden]
    assert blocks(tmp_path / "after", rows, {"channel": "public"}, request) == before
    assert [text.count("stands alone") for text in before[:2]] == [10, 10]


@pytest.mark.parametrize("hide", [{"sensitivity": "high"}, {"kind": "preference"}])
def test_what_is_said_out_of_sight_between_two_turns_does_not_part_them(tmp_path, hide):
    scores = []
    for between in ("s", "t"):  # the same words, so that the statistics are the same
        with memplane.init(tmp_path / between, durability="os", clock=lambda: NOW) as plane:
            plane.record("where does the parser keep its cache?", role="user", session="s")
            for n in range(20):
                plane.record(f"hidden {n} " * 40, session=between, **hide)
            plane.record("below the folder of the worker", role="assistant", session="s")
            block = plane.pack("parser cache", intent="deep", channel="public", budget=4000)
            found = plane.search("parser cache", channel="public")
            scores.append([(hit.event.text, hit.score) for hit in found])
            assert "hidden" not in block.text
    assert scores[0] == scores[1]
    assert len(scores[0]) == 2  # the answer is found by what stands before it


@pytest.mark.parametrize("hide", HIDES, ids=["sensitivity", "namespace"])
@pytest.mark.parametrize("session", [None, "s"])
def test_after_250_hidden_events_a_public_block_has_all_the_entries_it_had(tmp_path, hide, session):
    turns = [
        {"text": f"turn {n}", "role": "user" if n % 2 else "assistant", "session": "s"}
        for n in range(60)
    ]
    hidden = [{"text": f"hidden {n}", "role": "user", "session": "s", **hide} for n in range(250)]
    request = [{"query": "", "session": session}]
    before = blocks(tmp_path / "before", turns, {"channel": "public"}, request)
    after = blocks(tmp_path / "after", turns + hidden, {"channel": "public"}, request)
    assert after == before
    assert before[0].count("turn ") == 60


@pytest.mark.parametrize("hide", HIDES, ids=["sensitivity", "namespace"])
def test_any_number_of_hidden_sessions_pushes_no_visible_one_out_of_the_last_ones(tmp_path, hide):
    texts = []
    for name, count in (("bare", 0), ("hidden", 230)):
        with memplane.init(tmp_path / name, durability="os", clock=lambda: NOW) as plane:
            for n in range(12):
                for turn in range(6):
                    plane.record(f"{n} wants {turn}", role="user", session=f"v{n}")
                    plane.record(f"{n} has {turn}", role="assistant", session=f"v{n}")
                plane.work.sessions.end(f"v{n}")
            rows = [
                {"text": f"hidden {n}", "role": "user", "session": f"h{n}", **hide}
                for n in range(count)
            ]
            plane.record_many(rows)
            for n in range(40 if count else 0):
                plane.work.sessions.end(f"h{190 + n}")
            request = {"intent": "orient", "channel": "public", "budget": 4000}
            texts.append(plane.pack("", **request).text.rpartition("memplane:end")[0])
    assert texts[1] == texts[0]
    last = texts[0].partition("## Last sessions")[2].partition("\n## ")[0]
    assert last.count("\nsession 01-05") == 8
