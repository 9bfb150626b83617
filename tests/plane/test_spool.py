"""`plane.work.spool`: recorded or left to the next writer, and never lost, doubled or unredacted."""

import threading

import pytest

import memplane
from memplane.clock import clock
from memplane.errors import ConflictError, HomeError, InputError
from memplane.log import FileLog, verify_log


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "p") as plane:
        yield plane


@pytest.fixture
def held(plane):
    """The log's lock in another's hands, while the block runs."""
    with FileLog(plane.home, plane.id, clock=clock) as log:
        yield log.exclusive


def waiting(plane):
    return sorted((plane.home / "log" / "spool").glob("*"))


def texts(plane):
    return [event.text for event in plane.events() if event.kind != "segment"]


def test_the_answer_says_whether_it_was_recorded_or_waits(plane, held):
    done = plane.work.spool("a", id="m1")
    assert (done.seq, done.id, done.durability, done.duplicate) == (2, "m1", "sync", False)
    with held():
        left = plane.work.spool("b", session="s", role="user")
        assert (left.seq, left.durability, plane.upkeep.waiting) == (None, "spool", 1)
        assert left.as_json() == {
            "id": left.id, "durability": "spool", "seq": None, "duplicate": False
        }  # fmt: skip
    assert texts(plane) == ["a"]
    assert plane.record("c").seq == 4
    assert (texts(plane), plane.upkeep.waiting) == (["a", "b", "c"], 0)
    found = plane.event(left.id)
    assert (found.seq, found.session, found.role) == (3, "s", "user")
    assert found.tokens == plane.event("m1").tokens
    assert plane.work.spool("a", id="m1").duplicate


def test_a_pack_sees_what_waited_once_the_plane_is_opened_for_writing(plane, held):
    with held():
        plane.work.spool("We keep PostgreSQL", kind="decision", key="db.engine")
        with memplane.open(plane.home, read_only=True) as reader:
            assert "PostgreSQL" not in reader.pack("which database?").text
        with memplane.open(plane.home) as writer:  # nobody waits for the lock to open a plane
            assert "PostgreSQL" not in writer.pack("which database?").text
    with memplane.open(plane.home, read_only=True) as reader:
        assert reader.upkeep.waiting == 1
    with memplane.open(plane.home) as writer:
        assert "PostgreSQL" in writer.pack("which database?").text
        assert writer.upkeep.waiting == 0


def test_flush_and_close_take_in_what_waits(plane, held):
    with held():
        plane.work.spool("a")
    plane.flush()
    assert texts(plane) == ["a"]
    with held():
        plane.work.spool("b")
    plane.close()
    with memplane.open(plane.home, read_only=True) as reader:
        assert texts(reader) == ["a", "b"]


def test_what_would_not_be_recorded_is_not_spooled_either(plane, held):
    plane.record("taken", id="m1")
    with held():
        with pytest.raises(InputError):
            plane.work.spool("x", kind="no such kind")
        with pytest.raises(InputError):
            plane.work.spool("x", kind="secret")
        with pytest.raises(HomeError):
            plane.at(2).work.spool("x")
        with memplane.open(plane.home, read_only=True) as reader, pytest.raises(HomeError):
            reader.work.spool("x")
        assert waiting(plane) == []
    with pytest.raises(ConflictError):
        plane.work.spool("other", id="m1")
    plane.close()
    with pytest.raises(HomeError, match="closed"):
        plane.work.spool("x")


def test_no_secret_lies_in_the_spool(plane, held):
    secret = "ghp_" + "a1B2" * 9
    with held():
        plane.work.spool(f"token {secret}", data={"note": secret}, tags=[secret])
        (file,) = waiting(plane)
        assert secret.encode() not in file.read_bytes()
    plane.flush()
    assert list(plane.events())[-1].data["redactions"]


def test_a_long_text_comes_through_the_spool_whole(plane, held):
    long = "a heron stands in the reeds. " * 50_000
    with held():
        left = plane.work.spool(long, kind="observation")
    with memplane.open(plane.home) as other:
        assert other.text(other.event(left.id)) == long
    assert verify_log(plane.home, plane.id).ok


def test_an_id_that_was_taken_meanwhile_lies_in_quarantine_and_the_plane_says_so(plane, held):
    plane.record("taken", id="m1")
    with held():
        plane.work.spool("other", id="m1")
    plane.record("next")
    (note,) = plane.upkeep.set_aside
    assert b'"other"' in (plane.home / "log" / "quarantine" / note.kept).read_bytes()
    assert "taken by another event, seq 2" in note.what
    (told,) = plane.events(kind="repair")
    assert told.data["quarantine"] == note.kept


def test_threads_that_spool_and_record_at_once_lose_and_double_nothing(plane, held):
    failed = []

    def work(name):
        try:
            for n in range(40):
                (plane.work.spool if n % 2 else plane.record)(f"{name} {n}", id=f"{name}.{n}")
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(f"t{each}",)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plane.flush()
    assert (failed, waiting(plane), plane.upkeep.waiting) == ([], [], 0)
    ids = [event.id for event in plane.events() if event.kind == "message"]
    assert sorted(ids) == sorted(f"t{each}.{n}" for each in range(4) for n in range(40))
    assert plane.upkeep.differing() == []


def test_the_caches_are_what_the_log_folds_to_after_taking_in(plane, held):
    plane.pack("anything")
    with held():
        for n in range(90):
            plane.work.spool(f"fact {n}", kind="fact", key=f"k{n % 7}", session="s")
    plane.record("last")
    plane.pack("fact")
    assert plane.upkeep.differing() == []
    plane.close()
    with memplane.open(plane.home) as again:
        assert again.upkeep.differing() == []
        assert again.get("k6") is not None


def test_a_repeat_of_a_purged_event_that_waited_is_dropped_and_its_text_is_nowhere(plane, held):
    gone = plane.record("the heron that never was", id="m1")
    with held():
        plane.work.spool("the heron that never was", id="m1")
        plane.work.spool("another one", id="m2")
    (repeat,) = [path for path in waiting(plane) if b"never was" in path.read_bytes()]
    raw = repeat.read_bytes()
    plane.upkeep.purge(gone.id)
    for late in (False, True):
        if late:  # it comes back: from a copy, say
            repeat.write_bytes(raw)
            plane.record("next")
        assert not repeat.exists()
        holding = [path for path in plane.home.rglob("*") if path.is_file()]
        assert [path for path in holding if b"never was" in path.read_bytes()] == []
    assert plane.event("m2").text == "another one"
    assert plane.upkeep.set_aside == ()
