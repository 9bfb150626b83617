"""Whatever is written from an event is as limited as the event, whoever writes it, in any order.

The writers that make events from events: the memory tool, the MCP tools, sessions with their
summaries, tasks, artifacts with their approvals, importers that compare a file with the plane,
pins, touches, forgets, evictions, and a restore into another plane.
"""

import contextlib
import io

import pytest
from hypothesis import Phase, given, settings, strategies as st

import memplane
from memplane import mcp
from memplane.adapters.memory_tool import MemoryFiles
from memplane.errors import MemplaneError
from memplane.event import SENSITIVITIES, UPKEEP_KINDS
from memplane.importers.statements import (
    FileStatement,
    StatedFile,
    forget_all,
    gone,
    statement_rows,
)
from memplane.mcp import Desk, checked, tool_named
from memplane.wiring import make_counter
from tests.examples import examples

CHANNELS = ("private", "team", "agent", "public")
PAST, FUTURE = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
KEYS = ("/memories/a.md", "/memories/d/b.md", "src/file#a", "db.engine")
AGENT = "al"
NS = ("/global", f"/agent/{AGENT}")

SOURCES = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["fact", "preference", "decision", "message"]),
            "sensitivity": st.sampled_from(SENSITIVITIES),
            "ns": st.sampled_from(["/global", "/global", f"/agent/{AGENT}"]),
            "key": st.sampled_from([None, *KEYS]),
            "valid_until": st.sampled_from([None, None, PAST, FUTURE]),
            "role": st.sampled_from(["user", "assistant", "tool"]),
        }
    ),
    min_size=2,
    max_size=5,
)
PATHS = st.sampled_from(["/memories/a.md", "/memories/d/b.md", "/memories/d", "/memories/e"])


def files_of(plane, channel, ns):
    return MemoryFiles(plane, channel=channel, ns=ns, session="s1", actor="bot")


def desk_of(plane, channel):
    return Desk(plane, make_counter, channel, "s1", AGENT, None, lambda *_: None)


def tool(act, name, **arguments):
    return lambda plane, channel: act(desk_of(plane, channel), checked(tool_named(name), arguments))


def command(**given):
    return lambda ns: lambda plane, channel: files_of(plane, channel, ns).run(given)


def stated(text):
    """A file that states one memory, or another; what it states no more is forgotten."""

    def run(plane, _):
        told = StatedFile(
            "file", "src/", [FileStatement("src/file#a", "fact", text)], [], whole=True
        )
        rows = [row for row in statement_rows(plane, "src", told, PAST) if isinstance(row, dict)]
        plane.record_many(rows, strict=False)
        forget_all(plane, "src", gone(plane, "src", told))

    return run


def artifact(plane, _):
    file = plane.home / "paper.txt"
    file.write_text("a paper")
    added = plane.work.artifacts.add(file, "about it", sensitivity="high")
    plane.work.artifacts.approve(added.receipt.seq, "read it", sensitivity="low")


def work(plane, _):
    with contextlib.suppress(MemplaneError):
        plane.work.tasks.open("job", "a goal", sensitivity="high", session="s1")
    plane.work.tasks.update("job", "a note")
    plane.work.tasks.done("job")


def session(plane, _):
    for text in ("one", "two", "three"):
        plane.record(text, session="s1", role="user")
    plane.work.sessions.end("s1")


NAMES = st.sampled_from(NS)
WRITERS = st.one_of(
    st.builds(lambda ns, p: command(command="view", path=p)(ns), NAMES, PATHS),
    st.builds(lambda ns, p: command(command="create", path=p, file_text="x\n")(ns), NAMES, PATHS),
    st.builds(
        lambda ns, p: command(command="insert", path=p, insert_line=0, insert_text="y")(ns),
        NAMES, PATHS,
    ),
    st.builds(
        lambda ns, p: command(command="str_replace", path=p, old_str="says", new_str="said")(ns),
        NAMES, PATHS,
    ),
    st.builds(lambda ns, p: command(command="delete", path=p)(ns), NAMES, PATHS),
    st.builds(
        lambda ns, p, q: command(command="rename", old_path=p, new_path=q)(ns), NAMES, PATHS, PATHS
    ),
    st.builds(
        lambda key, ns: tool(
            mcp.store, "memory_store", content="told", type="fact", key=key, ns=ns
        ),
        st.sampled_from(KEYS), NAMES,
    ),
    st.builds(
        lambda key, ns: tool(mcp.forget_tool, "memory_forget", key=key, ns=ns),
        st.sampled_from(KEYS), NAMES,
    ),
    st.just(tool(mcp.curate, "memory_curate", query="says")),
    st.builds(lambda key: lambda plane, _: plane.pin(key=key), st.sampled_from(KEYS)),
    st.builds(lambda key: lambda plane, _: plane.touch(key=key), st.sampled_from(KEYS)),
    st.builds(lambda key: lambda plane, _: plane.forget(key=key), st.sampled_from(KEYS)),
    st.just(lambda plane, _: plane.work.evict(0.9)),
    st.sampled_from([stated("one"), stated("two"), artifact, work, session]),
)  # fmt: skip
# An example takes a tenth of a second: to shrink one would take minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
STEPS = st.lists(st.tuples(WRITERS, st.sampled_from(CHANNELS)), max_size=10)


def word_of(number):
    return f"zq{'abcdefgh'[number]}quibble"


def recorded(plane, sources):
    """The sources, each with a word that nothing else has."""
    found = []
    for number, fields in enumerate(sources):
        given = {name: value for name, value in fields.items() if value is not None}
        receipt = plane.record(f"{word_of(number)} says so", session="s1", **given)
        found.append(receipt.event)
    return found


def hidden(source, channel, agent):
    """Whether a channel may not see a source, whatever the time is."""
    return (
        source.sensitivity == "secret"
        or (source.sensitivity == "high" and channel != "private")
        or (source.kind == "preference" and channel == "public")
        # The owner may name any agent's namespace.
        or (source.ns != "/global" and agent != AGENT and channel != "private")
    )


def current(plane, words, channel, agent):
    """What is given as holding now."""
    query = " ".join(words)
    yield plane.pack(query, budget=3000, channel=channel, agent=agent, session="s1").text
    hits = plane.search(query, 100, channel=channel, agent=agent)
    yield from (f"{hit.text} {hit.event.text}" for hit in hits)
    yield from (view.paragraph for view in plane.work.tasks.list(channel=channel, agent=agent))
    for ns in NS:
        for key in (*KEYS, "/memories/e", "/memories/e/b.md"):
            with contextlib.suppress(MemplaneError):
                event = plane.get(key, ns, channel=channel, agent=agent)
                yield "" if event is None else event.text
                name = f"memory{ns}/{key}"
                yield plane.expand(name, channel=channel, agent=agent).text


def ever(plane, channel, agent):
    """What is given of all that was recorded."""
    yield from (event.text for event in plane.events(channel=channel, agent=agent))
    for ns in NS:
        for key in (*KEYS, "/memories/e", "/memories/e/b.md"):
            with contextlib.suppress(MemplaneError):
                versions = plane.history(key, ns, channel=channel, agent=agent)
                yield from (version.event.text for version in versions)
                name = f"memory{ns}/{key}?depth=1"
                yield plane.expand(name, channel=channel, agent=agent).text
    for one in plane.work.sessions.list(channel=channel):
        with contextlib.suppress(MemplaneError):
            yield str(plane.work.sessions.get(one.id, channel=channel, agent=agent).as_json())
            yield plane.expand(f"session/{one.id}?depth=3", channel=channel, agent=agent).text


READERS = tuple((channel, None) for channel in CHANNELS)


def check(plane, sources, readers=(*READERS, ("agent", AGENT))):
    """The two laws, for each source of which a word is there."""
    events = [line.event for line in plane._log.read()]
    named = {event.id: set(event.refs) for event in events}
    for event in events:  # in log order: what is named is before
        for ref in tuple(named[event.id]):
            named[event.id] |= named.get(ref, set())
    for number, source in enumerate(sources):
        for event in events:
            if word_of(number) not in event.text or event.id == source.id:
                continue
            assert event.kind not in UPKEEP_KINDS
            assert SENSITIVITIES.index(event.sensitivity) >= SENSITIVITIES.index(source.sensitivity)
            assert (event.valid_until or FUTURE) <= (source.valid_until or FUTURE)
            assert source.id in named[event.id]
            assert event.ns in (source.ns, f"/agent/{AGENT}")
    words = [word_of(number) for number in range(len(sources))]
    for channel, agent in readers:
        now = "\n".join(current(plane, words, channel, agent))
        once = "\n".join(ever(plane, channel, agent))
        for word, source in zip(words, sources, strict=True):
            if hidden(source, channel, agent):
                assert word not in now + once, (channel, agent)
            elif source.valid_until is not None and source.valid_until < plane.context.clock():
                assert word not in now, (channel, agent)


def follow(folder, sources, steps):
    with memplane.init(folder / "plane", durability="os") as plane:
        told = recorded(plane, sources)
        for act, channel in steps:
            with contextlib.suppress(MemplaneError):
                act(plane, channel)
        check(plane, told)
        copy = io.BytesIO()
        plane.upkeep.export(copy)
        with memplane.init(folder / "other", durability="os") as other:
            other.record("an event of its own")
            copy.seek(0)
            other.upkeep.merge(copy, "export")
            check(other, told, readers=[("agent", None)])


@settings(max_examples=5, phases=PHASES)
@given(SOURCES, STEPS)
def test_what_is_written_from_an_event_is_as_limited_as_the_event(tmp_path_factory, sources, steps):
    follow(tmp_path_factory.mktemp("derived"), sources, steps)


@pytest.mark.long
@settings(max_examples=examples(200), phases=PHASES)
@given(SOURCES, STEPS)
def test_in_any_order_of_many_writers(tmp_path_factory, sources, steps):
    follow(tmp_path_factory.mktemp("derived"), sources, steps)


def test_an_approval_is_as_sensitive_as_its_artifact(plane, tmp_path):
    (tmp_path / "paper.txt").write_text("a paper")
    added = plane.work.artifacts.add(tmp_path / "paper.txt", "about it", sensitivity="high")
    plane.work.artifacts.approve(added.receipt.seq, "salaries", sensitivity="low")
    plane.work.artifacts.revoke(added.receipt.seq, "salaries")
    said = list(plane.events(kind="approval"))
    assert [event.sensitivity for event in said] == ["high", "high"]
    assert not list(plane.events(kind="approval", channel="agent"))


def test_the_end_of_a_session_names_it_to_nobody_else(plane):
    for number in range(4):
        plane.record(f"turn {number}", session="layoffs", sensitivity="high", role="user")
    plane.work.sessions.checkpoint("layoffs")
    plane.work.sessions.end("layoffs")
    for channel in ("agent", "team", "public"):
        assert not plane.work.sessions.list(channel=channel)
        assert not [one for one in plane.events(channel=channel) if one.session]
    assert [one.id for one in plane.work.sessions.list()] == ["layoffs"]


def test_the_end_of_a_session_of_an_agent_and_of_high_turns_is_for_neither_of_others(plane):
    plane.record("turn", session="layoffs", ns="/agent/al")
    plane.record("turn", session="layoffs", sensitivity="high")
    plane.work.sessions.end("layoffs")
    assert not [one for one in plane.events(channel="agent", agent="bo") if one.session]


def test_a_change_of_a_task_names_it_to_nobody_else(plane):
    plane.work.tasks.open("layoffs", "let Ana go", sensitivity="high")
    for change in (
        lambda: plane.work.tasks.update("layoffs", "a note"),
        lambda: plane.work.tasks.block("layoffs", "a reason"),
        lambda: plane.work.tasks.switch("layoffs"),
        lambda: plane.work.tasks.done("layoffs"),
        lambda: plane.work.tasks.open("layoffs", "again"),
    ):
        change()
        assert not plane.work.tasks.list(all=True, channel="agent")
    plane.work.tasks.update("layoffs", "it is known now", sensitivity="normal")
    assert [view.id for view in plane.work.tasks.list(channel="agent")] == ["layoffs"]


def test_a_file_that_is_imported_again_does_not_say_less_sensitively_what_the_owner_marked(plane):
    stated("one")(plane, "")
    plane.record("one, and the salary", kind="fact", key="src/file#a", sensitivity="high")
    stated("two")(plane, "")
    assert plane.get("src/file#a").text == "two"
    assert plane.get("src/file#a").sensitivity == "high"


def test_what_memplane_writes_of_its_log_is_for_the_owner_alone(plane):
    first = plane.record("x", kind="fact", key="salary.ana", sensitivity="high", ns="/agent/bo")
    plane.pin(first.seq)
    plane.touch(first.seq)
    plane.forget(key="salary.ana", ns="/agent/bo", reason="salary.ana")
    for how in ({"channel": "agent"}, {"channel": "private", "agent": "al"}):
        for event in plane.events(**how):
            assert "salary" not in str(event)
            assert first.id not in str(event)
    assert {"forget", "pin", "touch"} < {event.kind for event in plane.events()}


def test_a_summary_that_is_made_again_is_as_sensitive_as_what_the_owner_put_in_its_place(plane):
    session(plane, "")
    key = "session/s1/summary"
    plane.record("shorter", kind="summary", key=key, sensitivity="high")
    session(plane, "")
    assert plane.get(key).data["extract"]
    assert plane.get(key).sensitivity == "high"
