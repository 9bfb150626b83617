"""Who reads which namespace, whatever is asked and however: nothing leaks between agents.

An agent reads its own `/agent/<id>` and those that plane.yaml shares; the owner (channel private,
no agent) reads any that it names; nobody else reads one that is not shared. All read the others.
"""

import shutil

import pytest

import memplane
from memplane.errors import NotFoundError, ScopeError
from tests.examples import paired

OPEN = ("/global", "/task/t", "/spec/s")
AGENTS = ("/agent/ann", "/agent/bob")
SPACES = (*OPEN, *AGENTS)
WORDS = {ns: f"heron{number}" for number, ns in enumerate(SPACES)}
CHANNELS = ("private", "agent", "team", "public")
READERS = [(channel, agent) for channel in CHANNELS for agent in (None, "ann", "zed")]
FEWER = paired(CHANNELS, (None, "ann", "zed"), 3)
SHARES = {"none": "[]", "one": "[/agent/bob]", "all": '["/agent/*"]'}


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """Planes that say the same in every namespace, and share more and more of it."""
    folder = tmp_path_factory.mktemp("planes")
    with memplane.init(folder / "none", durability="os") as plane:
        for ns in SPACES:
            word, near = WORDS[ns], {"ns": ns, "session": f"s-{WORDS[ns]}"}
            plane.record(f"The {word} stays", kind="decision", key=word, id=f"d:{word}", **near)
            plane.record(f"The {word} nests", role="user", id=f"m:{word}", **near)
            plane.record(f"Read {word}.py", kind="tool_call", role="assistant", id=f"c:{word}",
                         data={"tool": "Read", "path": f"{word}.py"}, **near)  # fmt: skip
            plane.record(f"The {word} is grey", kind="fact", key=f"f.{word}", **near)
    for name in ("one", "all"):
        shutil.copytree(folder / "none", folder / name)
        file = folder / name / "policies" / "plane.yaml"
        text = file.read_text()
        assert "shared: []" in text
        file.write_text(text.replace("shared: []", f"shared: {SHARES[name]}"))
    return folder


@pytest.fixture(scope="module", params=SHARES)
def shared(request, homes):
    with memplane.open(homes / request.param, read_only=True) as plane:
        yield request.param, plane


def listed(share, agent):
    """What who asks finds where no namespace is named."""
    own = [f"/agent/{agent}"] if f"/agent/{agent}" in AGENTS else []
    more = {"none": (), "one": ("/agent/bob",), "all": AGENTS}[share]
    return {*OPEN, *own, *more}


def named(share, channel, agent):
    """What may be read where it is named."""
    owner = channel == "private" and agent is None
    return {*listed(share, agent), *(AGENTS if owner else ())}


def spaces_in(text):
    return {ns for ns, word in WORDS.items() if word in text}


LISTS = {
    "events": lambda plane, **who: plane.events(**who),
    "keys": lambda plane, **who: plane.keys(ns=None, **who),
    "decisions": lambda plane, **who: plane.work.decisions(**who),
    "files": lambda plane, **who: plane.work.files("heron", **who),
    "search": lambda plane, **who: plane.search("The stays nests grey", 50, **who),
    "similar": lambda plane, **who: plane.search("The stays nests", 50, similar=True, **who),
    **{
        f"{intent} pack": lambda plane, intent=intent, **who: plane.pack(
            "The stays nests grey", intent=intent, budget=3000, **who
        ).as_json()
        for intent in ("fast", "deep", "orient")
    },
}  # fmt: skip

# A block has a budget, and nearness a floor: the others hold all that they may.
EXHAUSTIVE = ("events", "keys", "decisions", "files", "search")


@pytest.mark.parametrize(("channel", "agent"), READERS)
def test_a_list_holds_what_who_asks_may_see_and_says_nothing_of_the_rest(shared, channel, agent):
    share, plane = shared
    expected = listed(share, agent)
    for name, call in LISTS.items():
        found = call(plane, channel=channel, agent=agent)
        seen = spaces_in(str(found if isinstance(found, dict) else list(found)))
        assert seen <= expected, name
        if name in EXHAUSTIVE:
            assert seen == expected, name


@pytest.mark.parametrize(("channel", "agent"), READERS)
def test_what_is_named_is_read_or_is_an_error_never_nothing(shared, channel, agent):
    share, plane = shared
    who = {"channel": channel, "agent": agent}
    for ns, word in WORDS.items():
        seq = plane.event(f"d:{word}").seq
        spaces = (
            lambda ns=ns, word=word: plane.get(word, ns, **who),
            lambda ns=ns, word=word: plane.history(word, ns, **who),
            lambda ns=ns: plane.keys(ns=ns, **who),
            lambda ns=ns: list(plane.events(ns=ns, **who)),
            lambda ns=ns: plane.work.decisions(ns=ns, **who),
        )
        events = (
            lambda word=word: plane.event(f"m:{word}", **who),
            lambda seq=seq: plane.event(seq, **who),
            lambda seq=seq: plane.expand(f"#{seq}", **who),
            lambda seq=seq: plane.expand(f"expand://event/{seq}", **who),
        )
        for call in (*spaces, *events):
            if ns in named(share, channel, agent):
                assert spaces_in(str(call())) == {ns}
            else:
                # A namespace is closed whatever lies in it; a hidden event is as one that is not.
                with pytest.raises(ScopeError if call in spaces else NotFoundError):
                    call()


@pytest.mark.parametrize(("channel", "agent"), FEWER)
def test_a_search_of_a_closed_namespace_is_refused_as_get_does_and_a_pack_leaves_it_out(
    shared, channel, agent
):
    share, plane = shared
    for ns in SPACES:
        asked = {"channel": channel, "agent": agent, "ns": ns}
        expected = {ns} & named(share, channel, agent)
        for call in ("search", "similar", "files"):
            if expected:
                found = spaces_in(str(LISTS[call](plane, **asked)))
                assert found <= expected
                assert found or call not in EXHAUSTIVE
                continue
            with pytest.raises(ScopeError, match=f"^namespace '{ns}' is not for "):
                LISTS[call](plane, **asked)
        for intent in ("fast", "deep"):
            block = plane.pack("The stays nests grey", intent=intent, budget=3000, **asked)
            assert spaces_in(str(block.as_json())) == expected


@pytest.mark.parametrize(("channel", "agent"), FEWER)
@pytest.mark.parametrize("head", ["/task/", "/spec/", "/agent/"])
def test_a_pattern_asks_for_every_namespace_of_its_class_that_is_for_who_asks(
    shared, head, channel, agent
):
    share, plane = shared
    who = {"channel": channel, "agent": agent}
    expected = {ns for ns in named(share, channel, agent) if ns.startswith(head)}
    for name, call in LISTS.items():
        if name == "keys":
            found = plane.keys(ns=f"{head}*", **who)
        else:
            found = call(plane, ns=f"{head}*", **who)
            found = found if isinstance(found, dict) else list(found)
        assert spaces_in(str(found)) <= expected
        if name in (*EXHAUSTIVE, "fast pack", "deep pack"):
            assert spaces_in(str(found)) == expected
    # Beside a name it adds to what that asks for.
    both = plane.search("The stays nests grey", 50, ns=[f"{head}*", "/global"], **who)
    assert spaces_in(str(both)) == {*expected, "/global"}


@pytest.mark.parametrize(("channel", "agent"), READERS)
def test_a_list_of_keys_says_whether_there_are_more_of_those_that_are_shown(shared, channel, agent):
    share, plane = shared
    who = {"channel": channel, "agent": agent, "ns": None}
    every = plane.keys(**who)
    assert len(every) == 2 * len(listed(share, agent))
    assert not every.more
    for limit in range(1, len(every) + 2):
        found = plane.keys(limit=limit, **who)
        assert found == every[:limit]
        assert found.more == (limit < len(every))


@pytest.mark.parametrize(("channel", "agent"), READERS)
def test_sessions_of_an_agent_alone_are_told_to_it_and_to_the_owner(shared, channel, agent):
    share, plane = shared
    told = {one.id for one in plane.work.sessions.list(channel=channel)}
    assert told == {f"s-{WORDS[ns]}" for ns in named(share, channel, None)}
    for ns, word in WORDS.items():
        if ns in named(share, channel, agent):
            assert plane.work.sessions.get(f"s-{word}", channel=channel, agent=agent)
        else:
            with pytest.raises(NotFoundError):
                plane.work.sessions.get(f"s-{word}", channel=channel, agent=agent)


def test_a_key_that_nobody_has_is_no_error_where_the_namespace_may_be_read(shared):
    _, plane = shared
    assert plane.get("none", "/agent/ann", agent="ann") is None
    assert plane.history("none", "/agent/ann", agent="ann") == []
    assert plane.keys("none", "/agent/carl") == []


def test_an_event_that_is_not_there_is_not_found_whoever_asks(shared):
    _, plane = shared
    for channel, agent in READERS:
        with pytest.raises(NotFoundError):
            plane.event("none", channel=channel, agent=agent)


def test_the_owner_is_told_with_which_agent_a_task_is_opened(plane):
    plane.work.tasks.open("quiet", "A quiet goal.", ns="/agent/al")
    with pytest.raises(ScopeError, match=r"it is in /agent/al: ask with agent='al'"):
        plane.work.tasks.get("quiet")
    assert plane.work.tasks.get("quiet", agent="al").goal == "A quiet goal."
    for asked in ({"agent": "bo"}, {"channel": "agent"}):
        with pytest.raises(NotFoundError, match=r"^no task 'quiet'$"):
            plane.work.tasks.get("quiet", **asked)


def test_every_listing_takes_patterns(plane, tmp_path, file):
    for ns in SPACES:
        plane.record(f"The {WORDS[ns]} is grey", kind="fact", key="f", ns=ns)
        plane.work.artifacts.add(file(f"{WORDS[ns]}.md", f"The {WORDS[ns]} nests."), ns=ns)
    for head in ("/task/", "/spec/", "/agent/"):
        of_class = {ns for ns in SPACES if ns.startswith(head)}
        part = tmp_path / f"part{len(list(tmp_path.iterdir()))}.jsonl"
        plane.upkeep.export(part, ns=f"{head}*")
        later = "2036-01-05T12:00:00Z"
        evicted = plane.work.evict(1000, ns=f"{head}*", dry_run=True, now=later)
        assert {one.event.ns for one in evicted.taken} == of_class
        assert spaces_in(str(evicted.taken)) == of_class
        named = [one.name for one in plane.work.artifacts.list(ns=f"{head}*")]
        # The owner lists another agent's artifacts where they are shared; none is, here.
        assert spaces_in(str(named)) == of_class - set(AGENTS)
        assert spaces_in(part.read_text()) == of_class
