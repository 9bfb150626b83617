"""Other search engines in a plane: what they may show, what they leave on the disk, who asks them."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest
from builders_searches import seqs
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.clock import clock
from memplane.errors import InputError, MissingExtraError
from memplane.explain.history import PolicyVersion
from memplane.explain.replay import replay_pack, replay_packs, trial_blocks
from memplane.index.engine import HEADER, read_header
from memplane.index.storage import alone
from memplane.policy import ChannelRule, variables
from memplane.search import engines
from memplane.upkeep import reports
from memplane.upkeep.doctor import examine_plane
from memplane.wiring import make_counter
from tests.examples import examples, paired

NAMES = [
    pytest.param(
        name, marks=pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is missing")
    )
    for name in ("tantivy", "usearch")
]
NOW = "2026-03-01T12:00:00.000000Z"
EVERY = "heron"
WORDS = "nest pond reed egg lake mist boat net rope tide".split()


def env(name):
    return {"MEMPLANE_PLANE__INDEX__ENGINE": name}


def opened(home, name, **given):
    return memplane.open(home, environment=env(name), **given)


def row(number):
    said = " ".join(WORDS[(number * step) % 10] for step in (1, 3, 7))
    made = {
        "text": f"A heron, {said}, {number}",
        "role": "user",
        "session": f"s{number % 3}",
        "id": f"e{number}",
    }
    match number % 8:
        case 1:
            made |= {"sensitivity": "high"}
        case 2:
            made |= {"ns": "/agent/planner"}
        case 3:
            made |= {"ns": "/task/t1"}
        case 4:
            made |= {"kind": "decision", "key": f"k{number % 16}"}
            del made["role"]
        case 5:
            made |= {"valid_until": "2026-02-01T00:00:00Z"}
    return made


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A home whose events differ in who may see them; each has the word heron."""
    home = tmp_path_factory.mktemp("kept") / "plane"
    with memplane.init(home, trusted=False, durability="os") as plane:
        plane.record_many([row(number) for number in range(90)])
        plane.forget(id="e8")
        plane.forget(session="s2")
        plane.unforget(session="s2")
    return home


@pytest.fixture
def home(kept, tmp_path):
    return shutil.copytree(kept, tmp_path / "plane")


def files(home, name):
    return {
        path.name: path.read_bytes()
        for path in sorted((home / "index" / name).iterdir())
        if "lock" not in path.name
    }


def texts(plane, query="heron nest", **asked):
    return [hit.text for hit in plane.search(query, k=20, now=NOW, **asked)]


# --- what may be seen ---

SCOPES = st.fixed_dictionaries(
    {
        "upto": st.integers(0, 93),
        "rule": st.sampled_from((ChannelRule(), ChannelRule(("high",)))),
        "never": st.frozensets(st.integers(1, 93), max_size=5),
        "only": st.sampled_from(((), (("session:s1",),), (("kind:decision",),))),
        "task": st.sampled_from((None, "t1", "t2")),
        "agent": st.sampled_from((None, "planner", "other")),
        "exclude": st.frozensets(
            st.sampled_from([f"e{number}" for number in range(90)]), max_size=5
        ),
        "now": st.sampled_from((NOW, "2026-01-01T00:00:00.000000Z")),
    }
)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_hidden_is_never_found(home, name):
    with opened(home, name) as plane, opened(home, "own", read_only=True) as own:

        @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
        @given(SCOPES, st.sampled_from((EVERY, "heron nest mist", *WORDS)))
        def law(asked, query):
            may = set(seqs(own, EVERY, most=1_000, **asked))
            there = set(seqs(plane, query, most=1_000, **asked))
            assert there <= may
            if name == "tantivy" and EVERY in query:
                assert there == may

        law()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_forgotten_or_replaced_is_gone_at_once_and_there_as_of_then(home, name):
    with opened(home, name) as plane:
        before = plane.head().seq
        plane.record("The heron is blue", kind="decision", key="colour", id="blue")
        assert "The heron is blue" in texts(plane, "blue heron")
        then = plane.head().seq
        plane.record("The heron is grey", kind="decision", key="colour")
        assert "The heron is blue" not in texts(plane, "blue heron")
        plane.forget(id="e0")
        assert not any(one.endswith(", 0") for one in texts(plane, "heron nest"))
        assert any(one.endswith(", 0") for one in texts(plane, "heron nest", as_of=then))
        assert "The heron is blue" in texts(plane, "blue heron", as_of=then)
        assert "The heron is blue" not in texts(plane, "blue heron", as_of=before)


@pytest.mark.parametrize(
    ("name", "channel"), paired(NAMES, ["private", "public", "team", "agent"], 2)
)
def test_no_channel_shows_what_it_may_not_list(home, name, channel):
    with opened(home, name) as plane:
        may = {event.seq for event in plane.events(channel=channel, agent="planner")}
        for asked in ({}, {"agent": "planner"}, {"task": "t1"}, {"session": "s1"}):
            found = plane.search(EVERY, k=200, channel=channel, now=NOW, **asked)
            assert found
            assert {hit.event.seq for hit in found} <= may
            shown = deep(plane, EVERY, channel=channel, **asked).report["entries"]
            assert {plane.event(one).seq for entry in shown for one in entry["events"]} <= may


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_that_answers_with_hidden_documents_shows_none(home, name, monkeypatch):
    """The mask is applied to whatever an engine says."""
    with opened(home, name) as plane, opened(home, "own", read_only=True) as own:
        may = set(seqs(own, EVERY, rule=ChannelRule(("high",)), most=1_000))
        monkeypatch.setattr(engines, "_masked", lambda _: frozenset())
        there = set(seqs(plane, EVERY, rule=ChannelRule(("high",)), most=1_000))
        assert there <= may
        assert there


@pytest.mark.parametrize("name", NAMES)
def test_a_purge_leaves_nothing_of_an_event_in_any_engine_whichever_is_in_use(home, name):
    with opened(home, name) as plane:
        plane.record("The password of the boathouse is zebrafinch", id="gone", role="user")
        texts(plane)
        assert read_header(home / "index" / name) is None or files(home, name)
    with opened(home, "own") as plane:
        plane.upkeep.purge("gone")
        assert not any(b"zebrafinch" in data for data in every_file(home).values())
    assert [path.name for path in (home / "index" / name).iterdir()] in ([], [".lock"])
    with opened(home, name) as plane:
        assert not any("zebrafinch" in text for text in texts(plane, "zebrafinch boathouse"))
        plane.upkeep.purge("e9")
        assert not any(text.endswith(", 9") for text in texts(plane, "heron"))


def every_file(home):
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


# --- an input of a pack ---


def policy(home, name):
    path = home / "policies" / "plane.yaml"
    text = path.read_text()
    path.write_text(text.replace("engine: own ", f"engine: {name} "))
    assert text != path.read_text()


def deep(plane, query="where do herons nest?", **asked):
    return plane.pack(query, intent="deep", budget=600, now=NOW, save_report=True, **asked)


@pytest.mark.parametrize("name", NAMES)
def test_the_report_names_the_engine_and_a_replay_makes_the_same_pack(home, name):
    policy(home, name)
    with memplane.open(home) as plane:
        block = deep(plane)
        assert block.report["request"]["engine"] == name
        assert block.report["candidates"]["index"] > 0
        plane.record_many([row(number) for number in range(100, 130)])
        deep(plane, "mist")
        again = replay_pack(plane, reports.read_report(block.report_path))
        assert (again.same, again.note, again.lost) == (True, "", ())
        assert again.block.report["request"]["engine"] == name
        fast = plane.pack("herons", intent="fast", budget=600)
        assert "engine" not in fast.report["request"]


@pytest.mark.parametrize("name", NAMES)
def test_packs_of_several_moments_are_made_again_whatever_order(home, name):
    policy(home, name)
    with memplane.open(home) as plane:
        packs = []
        for at in range(4):
            packs.append(reports.read_report(deep(plane, WORDS[at]).report_path))
            plane.record_many([row(number) for number in range(100 + 10 * at, 110 + 10 * at)])
        for some in (packs, packs[::-1], packs[::2]):
            assert [one.same for one in replay_packs(plane, some)] == [True] * len(some)


@pytest.mark.parametrize("name", NAMES)
def test_a_pack_asked_for_with_one_engine_is_refused_by_another(home, name):
    with opened(home, "own") as plane:
        with pytest.raises(InputError, match=rf"engine: expected .own.*found .{name}"):
            deep(plane, engine=name)
        assert "engine" not in deep(plane, engine="own").report["request"]
    with (
        opened(home, name) as plane,
        pytest.raises(InputError, match=rf"expected .{name}.*found .own"),
    ):
        deep(plane, engine="own")


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_with_another_engine_than_the_report_names_is_an_error_that_names_it(home, name):
    policy(home, name)
    with memplane.open(home) as plane:
        saved = reports.read_report(deep(plane).report_path)
        for other in ("own", "elsewhere"):
            request = saved.report["request"] | {"engine": other}
            again = replay_pack(plane, saved._replace(report=saved.report | {"request": request}))
            assert (again.block, again.same) == (None, False)
            assert name in again.note
            assert other in again.note


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_of_the_environment_is_replayed_with_the_policies_that_were_in_force(home, name):
    with opened(home, name) as plane:
        saved = reports.read_report(deep(plane).report_path)
        assert saved.report["request"]["engine"] == name
    with memplane.open(home) as plane:
        assert replay_pack(plane, saved).same


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_with_another_engine_can_be_tried(home, name):
    with memplane.open(home) as plane:
        saved = reports.read_report(deep(plane).report_path)
        old = {path.name: path.read_bytes() for path in (home / "policies").glob("*.yaml")}
        policy(home, name)
        new = {path.name: path.read_bytes() for path in (home / "policies").glob("*.yaml")}
        versions = [
            PolicyVersion(said, {f"policies/{one}": data for one, data in files.items()})
            for said, files in (("old", old), ("new", new))
        ]
        ((_, blocks, why),) = trial_blocks(plane, [saved], *versions)
        assert why == ""
        assert [block.report["request"].get("engine") for block in blocks] == [None, name]


@pytest.mark.parametrize("name", ["tantivy", "usearch"])
def test_a_search_without_the_package_names_the_extra_and_a_replay_too(home, name, monkeypatch):
    policy(home, name)
    saved = None
    if find_spec(name):
        with memplane.open(home) as plane:
            saved = reports.read_report(deep(plane).report_path)
    for each in [name, *(one for one in sys.modules if one.startswith(f"{name}."))]:
        monkeypatch.setitem(sys.modules, each, None)
    with memplane.open(home) as plane:
        with pytest.raises(MissingExtraError, match=rf"memplane\[{name}\]"):
            plane.search("heron")
        with pytest.raises(MissingExtraError, match=rf"memplane\[{name}\]"):
            deep(plane)
        assert plane.pack("heron", intent="fast", budget=600).text
        if saved is not None:
            assert f"memplane[{name}]" in replay_pack(plane, saved).note


def test_neither_a_fast_pack_nor_a_hook_imports_an_engine(home):
    policy(home, "tantivy")
    code = (
        "import json, sys, memplane\n"
        "with memplane.open(sys.argv[1]) as plane:\n"
        "    plane.record('a heron', role='user')\n"
        "    plane.pack('heron', intent='fast', budget=600)\n"
        "from memplane import wiring, home, clock\n"
        "found = home.open_home(sys.argv[1])\n"
        "packer = wiring.open_light(found, clock.clock, {})\n"
        "packer.pack('heron nest', remind='prompt', session='s1', budget=300)\n"
        "print(json.dumps([one for one in ('tantivy', 'usearch') if one in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(home)], capture_output=True, text=True, check=False
    )
    assert (done.stderr, json.loads(done.stdout)) == ("", [])


# --- what it leaves on the disk ---


def log_bytes(home):
    return {
        path: path.read_bytes()
        for path in sorted((home / "log").rglob("*"))
        if path.is_file() and "lock" not in path.name
    }


@pytest.mark.parametrize("name", NAMES)
def test_its_files_may_be_deleted_and_are_filled_again_from_the_log(home, name):
    with opened(home, name) as plane:
        said = texts(plane)
    assert said
    assert read_header(home / "index" / name).documents == 90
    before = log_bytes(home)
    shutil.rmtree(home / "index" / name)
    with opened(home, name) as plane:
        assert texts(plane) == said
    shutil.rmtree(home / "index")
    with opened(home, name) as plane:
        assert texts(plane) == said
    assert log_bytes(home) == before


HARMS = {
    "the header is gone": lambda folder: (folder / HEADER).unlink(),
    "the header is torn": lambda folder: (folder / HEADER).write_bytes(
        (folder / HEADER).read_bytes()[:-9]
    ),
    "a file is gone": lambda folder: largest(folder).unlink(),
    "a file is cut": lambda folder: largest(folder).write_bytes(largest(folder).read_bytes()[:-1]),
    "a byte is another": lambda folder: flip(largest(folder)),
    "files of nobody lie there": lambda folder: (folder / "stray.idx").write_bytes(b"x"),
    "a folder lies there": lambda folder: (folder / "stray").mkdir(),
}


def largest(folder):
    return max(
        (path for path in folder.iterdir() if path.name != HEADER),
        key=lambda path: path.stat().st_size,
    )


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(("name", "harm"), paired(NAMES, HARMS, 2))
def test_harmed_files_heal_and_answer_nothing_else(home, name, harm):
    with opened(home, name) as plane:
        said = texts(plane)
    HARMS[harm](home / "index" / name)
    with opened(home, name, read_only=True) as plane:
        assert texts(plane) == said
    with opened(home, name) as plane:
        assert texts(plane) == said
        plane.record("The heron saw a kingfisher", role="user")
        assert "The heron saw a kingfisher" in texts(plane, "kingfisher")
    with opened(home, name) as plane:
        assert "The heron saw a kingfisher" in texts(plane, "kingfisher")


def dies_while_it_writes(home, name, at):
    """Record and search, and be killed before the header is written."""
    calls = []

    def write(*given, real=engines.write_header):
        calls.append(1)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given)

    engines.write_header = write
    engines._SAVED_AFTER = 1
    with opened(home, name) as plane:
        for number in range(200, 210):
            plane.record_many([row(number)])
            texts(plane)


@pytest.mark.parametrize(("name", "at"), paired(NAMES, [1, 2, 5], 2))
def test_a_process_killed_between_files_and_header_costs_no_answer(home, name, at):
    process = multiprocessing.get_context("fork").Process(
        target=dies_while_it_writes, args=(home, name, at)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    copy = shutil.copytree(home, home.with_name("whole"), ignore=shutil.ignore_patterns("index"))
    with opened(home, name) as plane, opened(copy, name) as whole:
        assert texts(plane) == texts(whole) != []
        plane.record("The heron saw a kingfisher", role="user")
        assert "The heron saw a kingfisher" in texts(plane, "kingfisher")


@pytest.mark.parametrize("name", NAMES)
def test_who_may_not_write_finds_the_same_and_leaves_nothing(home, name):
    with opened(home, name, read_only=True) as plane:
        said = texts(plane)
    assert not (home / "index" / name).exists()
    with opened(home, name) as plane:
        assert texts(plane) == said
        plane.record_many([row(number) for number in range(300, 320)])
    with opened(home, name) as plane:
        before = every_file(home / "index" / name)
        with opened(home, name, read_only=True) as reader:
            later = texts(reader)
        assert every_file(home / "index" / name) == before
        assert later == texts(plane)


@pytest.mark.parametrize("name", NAMES)
def test_while_another_process_holds_the_folder_the_same_is_found(home, name, monkeypatch):
    monkeypatch.setattr(engines, "_TRIES", 2)
    with opened(home, name) as plane:
        said = texts(plane)
    shutil.rmtree(home / "index" / name)
    with alone(home / "index" / name) as held:
        assert held
        with opened(home, name) as plane:
            assert texts(plane) == said
    assert read_header(home / "index" / name) is None


@pytest.mark.parametrize("name", NAMES)
def test_two_that_have_a_plane_open_find_what_either_records(home, name):
    with opened(home, name) as one, opened(home, name) as other:
        for number in range(6):
            writer, reader = (one, other) if number % 2 else (other, one)
            writer.record(f"The heron met kingfisher{number}", role="user")
            assert f"The heron met kingfisher{number}" in texts(reader, f"kingfisher{number}")[:3]
            assert texts(reader) == texts(writer)


@pytest.mark.parametrize("name", NAMES)
def test_the_own_index_leaves_no_folder_of_an_engine(home, name):
    with opened(home, "own") as plane:
        texts(plane)
    assert not (home / "index" / name).exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_another_rule_or_plane_do_not_count(home, name):
    with opened(home, name) as plane:
        said = texts(plane)
    other = home.with_name("other")
    with memplane.init(other, trusted=False, environment=env(name)) as plane:
        plane.record("A heron, elsewhere", role="user")
        plane.search("heron")
    shutil.copytree(home / "index" / name, other / "index" / name, dirs_exist_ok=True)
    with opened(other, name) as plane:
        assert texts(plane) == ["A heron, elsewhere"]
    with memplane.open(
        home, environment=env(name) | {"MEMPLANE_PLANE__INDEX__TOOL_RESULT_TOKENS": "50"}
    ) as plane:
        assert texts(plane) == said


@pytest.mark.parametrize("name", NAMES)
def test_rebuild_verify_and_doctor_know_it(home, name):
    with opened(home, name) as plane:
        assert check(home, name).found == f"{name}: none kept: the first search fills it"
        said = texts(plane)
    assert check(home, name).found.startswith(f"{name}: 0 of 90 indexed texts behind, ")
    flip(largest(home / "index" / name))
    with opened(home, name) as plane:
        (note,) = [note for note in plane.upkeep.verify().notes if note.startswith(f"index/{name}")]
        assert "does not have its sums" in note
        plane.upkeep.rebuild()
        assert [
            note for note in plane.upkeep.verify().notes if note.startswith(f"index/{name}")
        ] == []
        assert read_header(home / "index" / name).documents == 90
        assert texts(plane) == said
    with opened(home, "own") as plane:
        plane.upkeep.rebuild()
        assert read_header(home / "index" / name) is None


def check(home, name):
    checks = examine_plane(
        home,
        clock=clock,
        make_counter=make_counter,
        loads=json.loads,
        overrides=variables(env(name)),
    )
    (found,) = [one for one in checks if one.name == "engine"]
    return found


@pytest.mark.parametrize("name", ["tantivy", "usearch"])
def test_doctor_names_the_extra_that_is_missing(home, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    found = check(home, name)
    assert found.status == "fail"
    assert f"memplane[{name}]" in found.remedy
    assert check(home, "own") == ("engine", "ok", "memplane's own index", "")
