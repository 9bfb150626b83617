"""Whatever lies where caches belong: answers are those of a plane without any, and it is replaced.

The files are those that a real plane has, whatever they are called: what is kept tomorrow is
damaged here too.
"""

import json
import shutil
from pathlib import Path

import pytest
from fakes_embedder import Anagrams
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane import wiring
from memplane.context.context import PlaneContext
from memplane.home import create_home, open_home
from memplane.log import FileLog
from memplane.plane import Plane
from tests.examples import examples, sampled

NOW = "2026-03-01T12:00:00.000000Z"
WORDS = "ledger parser budget segment replay window anchor queue cranes storks printer ink".split()
FOLDERS = ("projections", "index", "reports")
FOREIGN = "zebra"


def opened(home, **options):
    """The plane, with segments so small that there are sealed ones."""
    found = open_home(home)
    log = FileLog(
        found.path, found.plane_id, clock=lambda: NOW, durability="os", segment_bytes_max=30_000,
        read_only=options.pop("read_only", False),
    )  # fmt: skip
    context = PlaneContext(
        found, clock=lambda: NOW, make_counter=wiring.make_counter, log=log, durability="os",
        embedder=Anagrams(), **options,
    )  # fmt: skip
    return Plane(context)


def recorded(plane, word, start, count):
    for number in range(start, start + count):
        said = (WORDS[(number * step + step) % len(WORDS)] for step in range(1, 9 + number % 5))
        fields = {"session": f"s{number % 3}", "role": "user", "id": f"e{number}"}
        if number % 10 == 1:
            fields = {"kind": "decision", "key": f"choice.{number % 4}", "id": f"e{number}"}
        plane.record(f"{word} {' '.join(said)} {number}", **fields)
    plane.record(
        "read", kind="tool_call", session="s1", data={"tool": "Read", "path": f"/{word}.py"}
    )
    plane.work.tasks.open(f"{word}-{start}", f"write about {word}")
    plane.pin(key="choice.1")
    plane.forget(id=f"e{start + 2}")


def kept(plane):
    """Make all that can be kept of it."""
    plane.upkeep.index()
    plane.upkeep.embed()
    plane.search("herons", similar=True)
    plane.pack("herons", session="s1", save_report=True)
    plane.pack("printer ink", session="s2", save_report=True)
    plane.work.sessions.list()
    with plane.context.lock:
        plane.context.caught_up().save()


def answers(plane):
    """What a plane says, as text: packs, searches, values, tables."""
    found = []
    for query, asked in (
        ("which printer?", {"session": "s1"}), ("storks and ink", {"intent": "deep"}),
        ("", {"session": "s2", "intent": "fast"}), ("window", {"intent": "deep", "dense_seq": 0}),
        ("anchor", {"as_of": 120, "intent": "deep"}),
    ):  # fmt: skip
        block = plane.pack(query, budget=1500, now=NOW, **asked)
        report = {k: v for k, v in block.report.items() if k not in ("timings_ns", "io")}
        found.append(block.text + json.dumps(report, default=str))
    for query in ("printer", "heron", "e7"):
        found += map(str, plane.search(query, now=NOW))
    for number in range(4):
        found += map(str, plane.history(f"choice.{number}", now=NOW))
    found += map(str, [*plane.work.decisions(), *plane.work.tasks.list(), plane.keys("")])
    found += map(str, plane.work.sessions.list())
    found += [str(plane.event(f"e{number}")) for number in (0, 90, 199)]
    return found


class Made:
    """A plane with caches; the caches of another, of its own past, and of what it never became."""

    def __init__(self, folder):
        self.home = folder / "ours"
        create_home(self.home, "OURS", NOW, wiring.Assets("policies", ()))
        with opened(self.home) as plane:
            recorded(plane, "heron", 0, 100)
            kept(plane)
        self.stale = shutil.copytree(self.home, folder / "stale")
        with opened(self.home) as plane:
            recorded(plane, "heron", 100, 200)
            kept(plane)
        self.ahead = shutil.copytree(self.home, folder / "ahead")
        with opened(self.ahead) as plane:
            recorded(plane, FOREIGN, 300, 100)
            kept(plane)
        self.foreign = folder / "foreign"
        create_home(self.foreign, "THEIRS", NOW, wiring.Assets("policies", ()))
        with opened(self.foreign) as plane:
            recorded(plane, FOREIGN, 0, 300)
            kept(plane)
        bare = shutil.copytree(self.home, folder / "bare")
        for name in FOLDERS:
            shutil.rmtree(bare / name)
        with opened(bare) as plane:
            plane.upkeep.embed()
            self.answers = answers(plane)
        self.files = sorted(
            path.relative_to(self.home).as_posix()
            for name in FOLDERS
            for path in (self.home / name).rglob("*")
            if path.is_file() and path.name != ".lock"
        )

    def other(self, which, name):
        """The file by that name, or one like it, of another plane or time."""
        home = getattr(self, which)
        path = home / name
        if path.is_file():
            return path
        like = sorted((home / name).parent.glob(f"{Path(name).name[:4]}*{Path(name).suffix}"))
        return like[0] if like else None


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Made(tmp_path_factory.mktemp("caches"))


def zeroed(path, *_):
    path.write_bytes(bytes(path.stat().st_size))


def emptied(path, *_):
    path.write_bytes(b"")


def halved(path, *_):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def words(path, *_):
    path.write_text("[1, {}, null]\n")


def directory(path, *_):
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("something")


def dangling(path, *_):
    path.unlink()
    path.symlink_to("nowhere")


def unreadable(path, *_):
    path.chmod(0)


def replaced(which):
    def replaced(path, made, name):
        other = made.other(which, name)
        if other is not None:
            path.write_bytes(other.read_bytes())

    replaced.__name__ = which
    return replaced


DAMAGE = [
    zeroed, emptied, halved, words, directory, dangling, unreadable, replaced("foreign"),
    replaced("stale"), replaced("ahead"),
]  # fmt: skip


def check(home, made):
    """The answers are right at once and again, nothing foreign is in them, and all is whole then."""
    with opened(home) as plane:
        plane.upkeep.embed()
        assert answers(plane) == made.answers
        kept(plane)
    with opened(home) as plane:
        assert answers(plane) == made.answers
        assert plane.upkeep.verify(deep=True).problems == ()
    for name in ("projections", "index"):
        for path in (home / name).rglob("*"):
            if path.is_file():
                assert FOREIGN.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("damage", sampled(DAMAGE, 5), ids=lambda damage: damage.__name__)
def test_with_every_cache_damaged_in_one_way_answers_are_those_without_caches(
    tmp_path, made, damage
):
    home = shutil.copytree(made.home, tmp_path / "home")
    for name in made.files:
        damage(home / name, made, name)
    check(home, made)


@settings(
    max_examples=examples(8),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
@given(data=st.data())
def test_whatever_bits_of_a_cache_were_flipped_the_answers_are_those_without_it(
    tmp_path, made, data
):
    home = tmp_path / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(made.home, home)
    names = data.draw(st.lists(st.sampled_from(made.files), min_size=1, max_size=4, unique=True))
    for name in names:
        path = home / name
        damaged = bytearray(path.read_bytes())
        for bit in data.draw(
            st.lists(st.integers(0, len(damaged) * 8 - 1), min_size=1, max_size=5)
        ):
            damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
    with opened(home) as plane:
        plane.upkeep.embed()
        assert answers(plane) == made.answers


@pytest.mark.parametrize("damage", DAMAGE[:-3], ids=lambda damage: damage.__name__)
def test_vectors_of_the_static_table_that_are_damaged_are_made_again(tmp_path, damage):
    with memplane.init(tmp_path / "plane", durability="os", clock=lambda: NOW) as plane:
        for number in range(40):
            plane.record(f"{WORDS[number % 12]} near the lake {number}", id=f"e{number}")
        there = list(map(str, plane.search("printer by a pond", similar=True)))
        home = plane.home
    assert there
    files = [path for path in (home / "index" / "static").iterdir() if path.name != ".lock"]
    before = {path.name: path.read_bytes() for path in files}
    for path in files:
        damage(path)
    with memplane.open(home, durability="os", clock=lambda: NOW) as plane:
        assert list(map(str, plane.search("printer by a pond", similar=True))) == there
    assert before == {name: (home / "index" / "static" / name).read_bytes() for name in before}


@pytest.mark.parametrize("ending", sampled(["-wal", "-shm", "-journal"], 3))
def test_what_lies_beside_the_database_as_if_it_were_its_own_changes_no_answer(
    tmp_path, made, ending
):
    home = shutil.copytree(made.home, tmp_path / "home")
    for other in ("foreign", "ahead"):
        data = (getattr(made, other) / "projections" / "cache.sqlite").read_bytes()
        (home / "projections" / f"cache.sqlite{ending}").write_bytes(data)
        with opened(home) as plane:
            assert answers(plane) == made.answers
            kept(plane)


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_with_any_one_cache_damaged_answers_are_those_without_it(tmp_path, made, damage):
    for name in made.files:
        shutil.rmtree(tmp_path / "home", ignore_errors=True)
        home = shutil.copytree(made.home, tmp_path / "home")
        damage(home / name, made, name)
        check(home, made)
