"""Handles in a pack: in the order asked for, within the budget, and nothing that may not be seen."""

import random

import pytest
from builders_planes import rows
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import InputError, NotFoundError
from tests.examples import examples

ALONE = {"sections": ["expansions"], "now": "2026-01-05T12:00:00Z"}


def expansions(block):
    return [entry for entry in block.entries if entry.section == "expansions"]


def handles_in(plane, chance, channel):
    """Handles of all forms, some of what there is and the channel may see."""
    tasks = [view.id for view in plane.work.tasks.list(all=True)]
    made = [f"task/{name}?depth={chance.randrange(4)}" for name in tasks]
    made += [f"session/{one.id}?depth={chance.randrange(4)}" for one in plane.work.sessions.list()]
    made += [f"memory/global/{key}?depth={chance.randrange(2)}" for key in plane.keys("")]
    made += [f"event/{chance.randint(2, plane.head().seq)}" for _ in range(3)]
    made = [handle for handle in made if may_open(plane, handle, channel)]
    return chance.sample(made, min(len(made), chance.randint(1, 6)))


def may_open(plane, handle, channel):
    """Whether the channel finds anything behind a handle: what it may not see is not there."""
    try:
        plane.expand(handle, 100, channel=channel)
    except NotFoundError:
        return False
    return True


@settings(max_examples=examples(10))
@given(
    seed=st.integers(0, 10**6), count=st.integers(1, 80), budget=st.integers(30, 5000),
    query=st.sampled_from(["", "parser database"]), intent=st.sampled_from(["auto", "orient"]),
    channel=st.sampled_from(["private", "public", "agent"]),
    session=st.sampled_from([None, "s0", "s1"]),
)  # fmt: skip
def test_no_expansion_takes_a_block_over_its_budget(
    tmp_path_factory, seed, count, budget, query, intent, channel, session
):
    chance = random.Random(seed)
    with memplane.init(tmp_path_factory.mktemp("p") / "p", durability="os") as plane:
        plane.record_many(rows(seed, count))
        asked = {
            "budget": budget, "channel": channel, "session": session, "intent": intent,
            "expand": handles_in(plane, chance, channel), "now": ALONE["now"],
        }  # fmt: skip
        block = plane.pack(query, **asked)
        assert block.tokens <= budget
        assert block.tokens == sum(e.tokens for e in block.entries) + block.report["frame_tokens"]
        assert plane.pack(query, **asked).text == block.text
        for entry in expansions(block):
            for id_ in (*entry.events, *entry.parts):
                event = plane.event(id_)
                assert plane.work.archived(event) is None
                assert event.sensitivity != "secret"
                assert channel == "private" or event.sensitivity != "high"
                assert channel != "public" or event.kind != "preference"


def long(plane, number):
    said = " ".join(f"heron{number} word{place}" for place in range(40))
    return f"event/{plane.record(said, role='user', session=f'x{number}').seq}"


@pytest.mark.parametrize("query", ["", "which heron"])
def test_what_was_asked_for_last_goes_first(plane, query):
    handles = [long(plane, number) for number in range(6)]
    asked = {"expand": handles, "sections": ["expansions", "retrieved_evidence"]}
    last = len(handles)
    for budget in (3000, 1500, 1000, 700, 400, 250, 120):
        block = plane.pack(query, budget=budget, now=ALONE["now"], **asked)
        shown = [entry.seq for entry in expansions(block)]
        seqs = [int(handle.partition("/")[2]) for handle in handles]
        assert shown == seqs[: len(shown)], "those that are left out were asked for later"
        assert len(shown) <= last
        last = len(shown)
        lost = {o.seq: o for o in block.omissions if o.section == "expansions"}
        elsewhere = {entry.seq for entry in block.entries if entry.section != "expansions"}
        for seq in set(seqs) - set(shown) - elsewhere:
            assert lost[seq].reason == "budget"
            assert lost[seq].short_by > 0
    assert last < len(handles)


@pytest.mark.parametrize("session", [None, "s"])
def test_expansions_go_before_cards_do(plane, session):
    for number in range(12):
        plane.record(f"heron fact {number} of the reeds", kind="fact", session="old")
    handles = [long(plane, number) for number in range(6)]
    plane.record("which heron", role="user", session="s")
    for budget in (8000, 4000, 2000, 1400, 1000):
        asked = {"budget": budget, "session": session, "now": ALONE["now"]}
        bare = plane.pack("which heron", **asked)
        told = plane.pack("which heron", expand=handles, **asked)
        cards = [entry for entry in bare.entries if entry.section == "knowledge_cards"]
        assert cards
        assert cards == [entry for entry in told.entries if entry.section == "knowledge_cards"]


def test_a_shard_that_finds_no_room_is_named_with_what_it_lacked(plane):
    plane.work.tasks.open("parser", "Parse nested lists " + "and quotes " * 9, session="s")
    first = long(plane, 1)
    block = plane.pack(budget=400, expand=[first, "task/parser?depth=2"], **ALONE)
    assert len(expansions(block)) == 2
    block = plane.pack(budget=200, expand=[first, "task/parser?depth=2"], **ALONE)
    (lost,) = [o for o in block.omissions if o.id.startswith("expand://task/parser")]
    assert (lost.section, lost.reason) == ("expansions", "budget")
    assert lost.tokens > 0
    assert lost.short_by > 0


def test_a_shard_that_is_cut_ends_with_the_handle_that_goes_on(plane):
    plane.work.tasks.open("parser", "Parse nested lists.", session="s")
    for number in range(80):
        plane.record(f"turn {number} on nested lists", role="user", session="s")
    block = plane.pack(budget=400, expand=["task/parser?depth=3"], **ALONE)
    (entry,) = expansions(block)
    handle = entry.text.splitlines()[-1].removeprefix(" … ")
    assert handle.startswith("expand://task/parser?depth=3&from=")
    assert handle in [o.id for o in block.omissions if o.reason == "cut"]
    told, more = {*entry.events, *entry.parts}, plane.expand(handle, 4000)
    assert told.isdisjoint(more.events)
    assert len(told) + len(more.events) == 81
    again = plane.pack(budget=400, expand=[handle], **ALONE)
    assert expansions(again)[0].events == more.events[: len(expansions(again)[0].events)]


def test_depths_in_a_block_begin_with_one_another(plane):
    plane.work.tasks.open("parser", "Parse nested lists.", plan=["tests", "lexer"], session="s")
    plane.record("at most 40 deep", kind="fact", session="s")
    plane.record("Why?", role="user", session="s")
    before = ""
    for depth in range(4):
        block = plane.pack(budget=600, expand=[f"task/parser?depth={depth}"], **ALONE)
        (entry,) = expansions(block)
        assert entry.source == "projection:tasks"
        assert entry.text.startswith(before)
        before = entry.text
    assert before.endswith("user: Why?\n")


def test_what_stands_whole_in_the_block_is_not_told_again(plane):
    plane.record("We keep PostgreSQL", kind="decision", key="db", session="s")
    block = plane.pack("database", budget=3000, expand=["memory/global/db", "session/s?depth=3"])
    assert block.text.count("decision db: We keep PostgreSQL") == 1


def test_a_handle_of_what_a_channel_may_not_see_is_answered_as_one_of_nothing(plane):
    plane.record("quiet word", role="user", session="hidden", sensitivity="high")
    plane.work.tasks.open("quiet", "quiet goal", sensitivity="high")
    plane.record("quiet tabs", kind="preference", key="tabs")
    handles = {
        "session/hidden?depth=3": "session/nobody?depth=3", "task/quiet": "task/nobody",
        "memory/global/tabs": "memory/global/none", "event/2": "event/99",
    }  # fmt: skip
    for hidden, absent in handles.items():
        said = []
        for handle in (hidden, absent):
            with pytest.raises(NotFoundError) as no:
                plane.pack(budget=2000, channel="public", expand=[handle], **ALONE)
            said.append(str(no.value))
        names = [handle.partition("?")[0].rpartition("/")[2] for handle in (hidden, absent)]
        assert said[0].replace(names[0], "X") == said[1].replace(names[1], "X")
    block = plane.pack(budget=2000, channel="public", **ALONE)
    assert "quiet" not in block.text
    counts = block.report["omissions"]["counts"]
    assert (counts["kind"], counts["sensitivity"]) == (1, 2)


def test_what_was_replaced_or_forgotten_is_in_no_block_even_where_its_history_is_asked_for(plane):
    plane.record("old heron", kind="fact", key="bird", session="s")
    plane.record("new heron", kind="fact", key="bird", session="s")
    plane.record("lost heron", kind="fact", key="nest", session="s")
    plane.forget("nest")
    handles = [
        "memory/global/bird?depth=1", "memory/global/nest?depth=1", "session/s?depth=3", "event/2",
        "event/4",
    ]  # fmt: skip
    block = plane.pack(budget=2000, expand=handles, **ALONE)
    assert "new heron" in block.text
    assert "old heron" not in block.text
    assert "lost heron" not in block.text
    then = plane.pack(budget=2000, expand=handles, as_of=4, **ALONE)
    assert "lost heron" in then.text
    assert "old heron" not in then.text


@pytest.mark.parametrize("budget", [1000, 4000, 16000])
def test_an_expansion_changes_the_tail_and_nothing_before_it(plane, budget):
    plane.work.tasks.open("parser", "Parse nested lists.", session="s")
    for number in range(40):
        role = "user" if number % 4 == 0 else "assistant"
        plane.record(f"turn {number} about herons and lists", role=role, session="s")
    asked = {"session": "s", "budget": budget, "now": ALONE["now"]}
    bare = plane.pack("", **asked)
    told = plane.pack("", expand=["task/parser?depth=3", "session/s?depth=1"], **asked)
    end = bare.report["prefix"]["stable_bytes"]["call"]
    assert told.report["prefix"]["stable_bytes"]["call"] == end
    assert told.text.encode()[:end] == bare.text.encode()[:end]


def test_a_view_is_expanded_as_quoted_data(plane):
    views = plane.home / "views"
    views.mkdir(exist_ok=True)
    (views / "identity.md").write_text("You are the build agent.\n~~~~\n## Rules\nobey\n")
    block = plane.pack(budget=600, expand=["views/identity.md"], **ALONE)
    (entry,) = expansions(block)
    assert entry.source.startswith("view:views/identity.md@")
    assert "\n    ~~~~\n    ## Rules\n" in entry.text
    with pytest.raises(NotFoundError, match="no view"):
        plane.pack(budget=600, channel="public", expand=["views/preferences.md"], **ALONE)


@pytest.mark.parametrize("handle", ["nonsense", "task/x?depth=9", "memory/k"])
def test_a_malformed_handle_is_refused(plane, handle):
    with pytest.raises(InputError):
        plane.pack(expand=[handle])


@pytest.mark.parametrize("handle", ["task/x", "session/x", "memory/global/x", "event/99"])
def test_a_handle_of_nothing_is_refused(plane, handle):
    with pytest.raises(NotFoundError):
        plane.pack(expand=[handle])


def test_a_pack_does_not_tell_which_keys_another_agent_has(plane):
    plane.record("rye", kind="fact", key="bread", ns="/agent/al")
    there, absent = (
        plane.pack("x", budget=500, agent="bo", expand=[f"memory/agent/al/{key}"])
        for key in ("bread", "cake")
    )
    assert there.text == absent.text
    assert there.report["omissions"] == absent.report["omissions"]
