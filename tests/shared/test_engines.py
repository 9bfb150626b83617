"""One suite over every engine of a shared log: what a follower relies on."""

import threading
import time

import pytest
from builders_engines import ENGINES

from memplane.errors import ConflictError


@pytest.fixture(params=ENGINES)
def engine(request):
    """A shared log of one engine, empty; `opened` gives another connection to it."""
    made = request.param(request)
    yield made
    made.close()


def test_entries_come_back_in_order_as_they_were_given(engine):
    log = engine.opened()
    assert log.head() == 0
    assert log.read(0, 10) == []
    first = log.publish([("a", b"one"), ("b", b"\x00two\xff")])
    second = log.publish([("c", "drei — ü".encode())])
    assert first + second == sorted({*first, *second})
    found = engine.opened().read(0, 10)
    assert [(one.position, one.payload) for one in found] == [
        (first[0], b"one"),
        (first[1], b"\x00two\xff"),
        (second[0], "drei — ü".encode()),
    ]
    assert log.head() == second[0]
    assert all(len(one.at) == 27 and one.at.endswith("Z") for one in found)
    assert log.read(first[0], 1) == found[1:2]
    assert log.read(first[1], 10) == found[2:]
    assert log.read(second[0], 10) == []


def test_an_expected_position_is_met_or_nothing_is_stored(engine):
    log = engine.opened()
    [place] = log.publish([("a", b"one")], expected=0)
    with pytest.raises(ConflictError):
        log.publish([("b", b"two"), ("c", b"three")], expected=0)
    assert len(log.read(0, 10)) == 1
    log.publish([("b", b"two"), ("c", b"three")], expected=place)
    assert [one.payload for one in log.read(0, 10)] == [b"one", b"two", b"three"]


def test_an_id_that_was_published_before_changes_nothing_that_stands_there(engine):
    log = engine.opened()
    log.publish([("a", b"one")])
    places = log.publish([("a", b"one"), ("b", b"two")])
    found = log.read(0, 10)
    assert [one.payload for one in found if one.payload != b"one"] == [b"two"]
    assert found[0].payload == b"one"
    assert max(places) == found[-1].position


def test_what_was_erased_is_gone_and_the_stone_stands_in_its_place(engine):
    log = engine.opened()
    places = log.publish([(str(n), b"text %d" % n) for n in range(4)])
    stone = b'{"format":1,"stone":{"id":"1"}}'
    log.erase({places[1]: stone, places[2]: b'{"format":1,"stone":{}}'})
    log.erase({places[1]: b'{"format":1,"stone":{"id":"other"}}'})
    found = engine.opened().read(0, 10)
    assert [one.position for one in found] == places
    assert found[1].payload == stone
    assert b"text" not in found[2].payload
    assert found[3].payload == b"text 3"
    assert log.read(places[0], 1)[0].payload == stone
    log.erase({})


def test_many_entries_are_read_in_parts(engine):
    log = engine.opened()
    for begin in range(0, 600, 200):
        log.publish([(str(n), b"%d" % n) for n in range(begin, begin + 200)])
    found, after = [], 0
    while some := log.read(after, 77):
        assert len(some) <= 77
        found += [int(one.payload) for one in some]
        after = some[-1].position
    assert found == list(range(600))


def test_a_large_entry_comes_back_whole(engine):
    log = engine.opened()
    payload = b"x" * 400_000
    log.publish([("piece", payload)])
    assert log.read(0, 10)[0].payload == payload


def test_who_waits_is_woken_by_an_entry_and_else_by_time(engine):
    log, other = engine.opened(), engine.opened()
    begin = time.monotonic()
    assert not log.wait(0, 0.2)
    assert time.monotonic() - begin >= 0.15
    writer = threading.Thread(target=lambda: (time.sleep(0.1), other.publish([("a", b"one")])))
    writer.start()
    assert log.wait(0, 20)
    writer.join()


def test_writers_at_once_lose_and_double_nothing(engine):
    each = 60

    def write(name):
        log = engine.opened()
        for n in range(each):
            log.publish([(f"{name}-{n}-0", f"{name} {n} 0".encode()), (f"{name}-{n}-1", b"x")])

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = engine.opened().read(0, 1_000)
    assert len(found) == 2 * 4 * each
    assert len({one.position for one in found}) == len(found)
    texts = [one.payload.decode() for one in found]
    for name in "abcd":
        own = [text for text in texts if text.startswith(name)]
        assert own == [f"{name} {n} 0" for n in range(each)]
    # What was published together stands together.
    assert all(texts[at + 1] == "x" for at, text in enumerate(texts) if text != "x")


def test_each_device_has_its_last_note(engine):
    log = engine.opened()
    assert log.notes() == {}
    log.put_note("laptop", b'{"seq":3}')
    log.put_note("desk", b"{}")
    log.put_note("laptop", b'{"seq":4}')
    assert engine.opened().notes() == {"laptop": b'{"seq":4}', "desk": b"{}"}


def test_what_may_be_lost_is_said_in_words(engine):
    assert all(isinstance(one, str) and one for one in engine.opened().faults())


def test_a_log_that_was_closed_opens_itself_again(engine):
    log = engine.opened()
    log.publish([("a", b"one")])
    log.close()
    assert [one.payload for one in log.read(0, 10)] == [b"one"]
