"""Every machine derives the same log from one shared log, whatever happens on the way."""

import hashlib
import shutil
import warnings
from contextlib import closing, suppress

import pytest
from builders_machines import PLANE, Ticking, begun, derived, draft, follower, written
from hypothesis import given, settings, strategies as st

from memplane.errors import ConflictError, DivergedError, InputError, SharedLogError
from memplane.home import SharedLogWarning
from memplane.log import verify_log
from memplane.log.reader import KnownIds, LinePlaces, id_hash
from memplane.log.segments import read_segment_file
from memplane.shared.apply import MemorySharedLog, beginning, parsed, published


def ids(log):
    return [line.event.id for line in log.read() if line.event.kind != "segment"]


def test_what_one_machine_records_has_the_same_seq_and_bytes_on_another(tmp_path):
    engine = begun()
    with (
        closing(follower(tmp_path / "a", engine)) as a,
        closing(follower(tmp_path / "b", engine)) as b,
    ):
        [one, two] = a.append([draft("m1", "we keep PostgreSQL"), draft("m2")])
        assert (one.seq, two.seq, one.duplicate) == (2, 3, False)
        [three] = b.append([draft("m3")])
        assert three.seq == 4
        a.exchange()
        assert ids(a) == ids(b) == ["m1", "m2", "m3"]
    assert written(tmp_path / "a") == written(tmp_path / "b")
    assert b'"dur"' not in written(tmp_path / "a")[0]
    report = verify_log(tmp_path / "a", PLANE)
    assert not report.problems


def test_a_repeat_is_recognised_here_and_elsewhere_and_other_content_is_a_conflict(tmp_path):
    engine = begun()
    with (
        closing(follower(tmp_path / "a", engine)) as a,
        closing(follower(tmp_path / "b", engine)) as b,
    ):
        a.append([draft("m1", "one")])
        [again] = b.append([draft("m1", "one")])
        assert (again.seq, again.duplicate) == (2, True)
        with pytest.raises(ConflictError):
            b.append([draft("m1", "two")])
        assert ids(b) == ["m1"]


def test_an_expected_seq_holds_over_all_machines(tmp_path):
    engine = begun()
    with (
        closing(follower(tmp_path / "a", engine)) as a,
        closing(follower(tmp_path / "b", engine)) as b,
    ):
        a.append([draft("m1")])
        head = a.head().seq
        b.append([draft("m2")])
        with pytest.raises(ConflictError):
            a.append([draft("m3")], expected_seq=head)
        a.exchange()
        [done] = a.append([draft("m3")], expected_seq=a.head().seq)
        assert done.seq == 4


class Unreached:
    """An engine that is reached while `up` holds."""

    def __init__(self, engine):
        self.engine, self.up = engine, True

    def __getattr__(self, name):
        if not self.up:
            raise SharedLogError("the engine is not reached")
        return getattr(self.engine, name)


def test_what_is_recorded_while_the_engine_is_away_is_in_the_log_once(tmp_path):
    engine = begun()
    line = Unreached(engine)
    with (
        closing(follower(tmp_path / "a", line)) as a,
        closing(follower(tmp_path / "b", engine)) as b,
    ):
        a.append([draft("m1")])
        line.up = False
        with pytest.warns(SharedLogWarning):
            [kept] = a.append([draft("m2", "said on the train")])
        assert (kept.seq, kept.id) == (0, "m2")
        with pytest.raises(SharedLogError):
            a.append([draft("m3")], expected_seq=a.head().seq)
        assert ids(a) == ["m1"]
        assert a.status().waiting == 1
        b.append([draft("m4")])
        line.up = True
        a.exchange()
        b.exchange()
        assert ids(a) == ids(b) == ["m1", "m4", "m2"]
        assert a.status().waiting == 0
    assert written(tmp_path / "a") == written(tmp_path / "b")


class Narrow(Unreached):
    """An engine that takes few entries at once, and none that is large."""

    def publish(self, entries, *, expected=None):
        if not self.up:
            raise SharedLogError("the engine is not reached")
        if len(entries) > 1_000 or any(len(payload) > 50_000 for _, payload in entries):
            raise InputError("too many, or too large")
        return self.engine.publish(entries, expected=expected)


@pytest.mark.filterwarnings("ignore::memplane.shared.follower.SharedLogWarning")
def test_an_outbox_of_any_size_is_published_but_for_what_the_engine_never_takes(tmp_path):
    line = Narrow(begun())
    line.up = False
    with closing(follower(tmp_path / "a", line)) as a:
        for n in range(6):
            a.append([draft(f"m{n}-{k}") for k in range(300)])
            if n == 2:
                a.append([draft("large", "x" * 60_000)])
        line.up = True
        a.exchange()
        assert ids(a) == [f"m{n}-{k}" for n in range(6) for k in range(300)]
        [done] = a.append([draft("m9")])
        assert done.seq == 1_802
        with pytest.raises(InputError):
            a.append([draft("also large", "x" * 60_000)])
    [left] = (tmp_path / "a" / "log" / "spool").glob("*.spool")
    assert b'"large"' in left.read_bytes()


def test_bodies_travel_in_pieces_and_lie_beside_every_log(tmp_path):
    engine = begun()
    text = "".join(f"line {n} of a long report\n" for n in range(30_000))
    body = text.encode()
    said = {"body": {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}}
    with (
        closing(follower(tmp_path / "a", engine)) as a,
        closing(follower(tmp_path / "b", engine)) as b,
    ):
        a.append([draft("m1", text, data=said, body=body)])
        b.exchange()
        [line] = [line for line in b.read() if line.event.id == "m1"]
        assert b.text(line.event) == text
    sizes = [len(entry.payload) for entry in engine.read(0, 100)]
    assert len(sizes) == 6
    assert max(sizes) < 400 * 1024


def purge(ids_, seqs):
    said = {"purge": {"seqs": seqs, "ids": ids_, "documents": [1] * len(ids_)}}
    return draft("p-" + "-".join(ids_), "", kind="purge", data=said)


def test_a_purge_erases_on_every_machine_and_in_the_engine_and_who_joins_later_has_the_same(
    tmp_path,
):
    engine = begun()
    body = b"the secret of the mountain" * 20_000
    said = {"body": {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}}
    with (
        closing(follower(tmp_path / "a", engine)) as a,
        closing(follower(tmp_path / "b", engine)) as b,
    ):
        a.append([draft("m1", "keep this"), draft("m2", body.decode(), data=said, body=body)])
        b.append([draft("m3", "and this")])
        done = a.erase([purge(["m2"], [3])], {3: "m2"}, [])
        assert done[0].seq == 5
        b.exchange()
        with closing(follower(tmp_path / "c", engine)) as c:
            c.exchange()
            assert ids(c) == ["m1", "m3", "p-m2"]
            [again] = [one for one in [c.purged(3)] if one]
            assert again.by == 5
        # It is said again on a machine that did not know: it gives no line, and its text goes.
        engine.publish(list(published(draft("m2", "the secret of the mountain"), lambda _: None)))
        b.append([draft("m4")])
    assert written(tmp_path / "a")[0] == written(tmp_path / "c")[0]
    assert written(tmp_path / "b")[0].startswith(written(tmp_path / "c")[0])
    for home in "abc":
        for path in (tmp_path / home).rglob("*"):
            assert path.is_dir() or b"mountain" not in path.read_bytes(), path
        assert not verify_log(tmp_path / home, PLANE).problems
    assert not any(b"mountain" in entry.payload for entry in engine.read(0, 1_000))


def test_damage_at_the_end_of_a_log_is_derived_again(tmp_path):
    engine = begun()
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft(f"m{n}") for n in range(20)])
    whole = written(tmp_path / "a")
    path = tmp_path / "a" / "log" / "00000001.jsonl"
    for cut in (0, 7, 400, len(whole[0]) // 2):
        path.write_bytes(whole[0][: len(whole[0]) - cut] + b"\0" * (cut % 5))
        with closing(follower(tmp_path / "a", engine)) as a:
            a.exchange()
        assert written(tmp_path / "a") == whole


def test_an_engine_that_lost_entries_is_noticed_and_nothing_changes(tmp_path):
    engine = begun()
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft(f"m{n}") for n in range(5)])
        before = written(tmp_path / "a")
        del engine._entries[4:]
        with pytest.raises(DivergedError) as found:
            a.exchange()
        assert found.value.seq == 4
        with pytest.warns(SharedLogWarning):
            [kept] = a.append([draft("m9")])
        assert kept.seq == 0
        assert written(tmp_path / "a") == before
        assert engine.head() == 4


def test_rubbish_gives_no_line_on_any_machine(tmp_path):
    engine = begun()
    rubbish = [
        b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"format":1}', b'{"format":1,"plane":"other"}',
        b'{"format":0,"event":{"id":"x","kind":"message","text":"y"}}',
        b'{"format":1,"event":{"id":"x","kind":"segment","data":{}}}',
        b'{"format":1,"event":{"id":"x","kind":"repair","data":{}}}',
        b'{"format":1,"event":{"id":"x","kind":"message", "text":"y"}}',
        b'{"format":1,"event":{"id":"x","kind":"message","text":"y","seq":9}}',
        b'{"format":1,"event":{"id":"x","kind":"message","text":NaN}}',
        b'{"format":1,"event":{"id":"x","kind":"message","data":' + b"[" * 500 + b"]" * 500 + b"}}",
        b'{"format":1,"event":{"id":"x","kind":"message","text":"\\ud800"}}',
        b'{"format":1,"stone":{"id":"x","bytes":4,"h":"0123456789abcdef","rec":"2026-01-05T12:00:00.000000Z"}}',
        b'{"format":1,"piece":"zz","of":"x","at":0,"data":"!!"}',
        b'{"format":1,"bodies":["' + b"0" * 64 + b'"],"event":{"id":"x","kind":"message","text":"y"}}',
    ]  # fmt: skip
    engine.publish([(f"r{n}", one) for n, one in enumerate(rubbish)])
    with closing(follower(tmp_path / "a", engine)) as a:
        [done] = a.append([draft("m1")])
        assert done.seq == 2
        assert ids(a) == ["m1"]


IDS = st.integers(0, 9)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 2), st.lists(IDS, min_size=1, max_size=3)),
        st.tuples(st.just("read"), st.integers(0, 3), st.none()),
        st.tuples(st.just("away"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("purge"), st.integers(0, 2), IDS),
        st.tuples(st.just("restart"), st.integers(0, 3), st.none()),
        st.tuples(st.just("cut"), st.integers(0, 3), st.integers(0, 600)),
    ),
    max_size=25,
)


class Machines:
    """Machines 0 to 2 record, 3 only reads; any may be away, start again or lose its log's end."""

    def __init__(self, root, segment_bytes):
        self.root, self.size, self.engine = root, segment_bytes, begun()
        self.ways = [Unreached(self.engine) for _ in range(4)]
        self.logs = [self.opened(n) for n in range(4)]
        self.recorded, self.purged, self.purges = set(), set(), 0

    def opened(self, n):
        return follower(self.root / str(n), self.ways[n], segment_bytes=self.size)

    def record(self, n, numbers):
        batch = [draft(f"m{one}", f"text {one}") for one in dict.fromkeys(numbers)]
        with suppress(ConflictError):  # purged before
            self.logs[n].append(batch)
            self.recorded |= {one.id for one in batch}

    def read(self, n, _):
        if self.ways[n].up:
            self.logs[n].exchange()

    def away(self, n, up):
        self.ways[n].up = up

    def purge(self, n, number):
        if not self.ways[n].up:
            return
        self.logs[n].exchange()
        line = self.logs[n].find(f"m{number}")
        if line is not None:
            self.purges += 1
            one = purge([line.event.id], [line.event.seq])._replace(id=f"p{self.purges}")
            self.logs[n].erase([one], {line.event.seq: line.event.id}, [])
            self.purged.add(line.event.id)

    def restart(self, n, _):
        self.logs[n].close()
        self.logs[n] = self.opened(n)

    def cut(self, n, count):
        self.logs[n].close()
        paths = sorted((self.root / str(n) / "log").glob("0*.jsonl"))
        if paths:
            data = paths[-1].read_bytes()
            paths[-1].write_bytes(data[: max(len(data) - count, data.find(b"\n") + 1)])
        self.logs[n] = self.opened(n)

    def meet(self):
        """All are reached; what waits in outboxes is published, then what came of it is read."""
        for way in self.ways:
            way.up = True
        for _ in range(2):
            for log in self.logs:
                log.exchange()


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([500, 1_500, 4_000_000]), st.sampled_from([3, 1_000]))
@pytest.mark.filterwarnings("ignore::memplane.home.SharedLogWarning")
def test_any_history_gives_every_machine_the_same_log(tmp_path_factory, steps, size, at_once):
    """With few entries at once each reading gathers the ids, and eight bits know nothing well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memplane.shared.follower.READ_AT_ONCE", at_once)
        patch.setattr(KnownIds.__init__, "__defaults__", (3,))
        live_and_meet(tmp_path_factory.mktemp("machines"), steps, size)


def live_and_meet(root, steps, size):
    machines = Machines(root, size)
    for what, n, detail in steps:
        getattr(machines, what)(n, detail)
    machines.meet()
    late = follower(root / "late", machines.engine, segment_bytes=size)
    late.exchange()
    found = [written(root / str(n)) for n in range(4)]
    entries = machines.engine.read(0, 10_000)
    assert found[0] == found[1] == found[2] == found[3] == written(root / "late")
    assert found[0] == derived(entries, size)
    there = {id_ for id_ in ids(late) if id_.startswith("m")}
    assert there == machines.recorded - machines.purged
    for log in (*machines.logs, late):
        log.close()
    payloads = b"".join(entry.payload for entry in entries)
    assert not any(f"text {id_[1:]}".encode() in payloads for id_ in machines.purged)


@given(st.binary(max_size=200))
def test_no_bytes_stop_a_machine(payload):
    try:
        parsed(payload)
    except Exception as error:  # noqa: BLE001
        assert type(error).__name__ == "FormatError"  # noqa: PT017


def test_the_first_entry_names_the_plane_and_no_later_one_changes_it(tmp_path):
    engine = begun()
    engine.publish([beginning("01KE68AHX0S9HNAPC8C6XVDB1W"), beginning(PLANE)])
    with closing(follower(tmp_path / "a", engine)) as a:
        [done] = a.append([draft("m1")])
        assert done.seq == 2


@pytest.fixture
def probes(monkeypatch):
    """How many times the ids of a segment were looked at, in a list of one number."""
    count, by_id = [0], LinePlaces.by_id

    def counted(self, *asked):
        count[0] += 1
        return by_id(self, *asked)

    monkeypatch.setattr(LinePlaces, "by_id", counted)
    return count


def test_no_segment_is_looked_through_for_any_of_many_new_events(tmp_path, probes):
    engine = begun()

    def publish(name, count):
        events = [draft(f"{name}{n}") for n in range(count)]
        engine.publish([one for each in events for one in published(each, lambda _: None)])

    publish("m", 2_500)
    with closing(follower(tmp_path / "a", engine, segment_bytes=4_000)) as a:
        a.exchange()
        assert len(written(tmp_path / "a")) > 50
        publish("n", 3_000)
        a.exchange()
    with closing(follower(tmp_path / "a", engine, segment_bytes=4_000)) as a:
        publish("k", 3_000)
        a.exchange()
        assert probes == [0]
        publish("k", 3_000)
        a.exchange()
        assert probes[0] > 3_000  # each of them is known
    assert written(tmp_path / "a") == derived(engine.read(0, 20_000), 4_000)


@given(st.sets(st.integers(0, 2**64 - 1)), st.sampled_from([1, 5, 12]))
def test_an_id_that_was_added_is_never_denied(hashes, bits):
    known = KnownIds(bits)
    for one in hashes:
        known.add(one)
    assert all(map(known.may_have, hashes))


def test_few_ids_that_were_not_added_have_to_be_looked_up():
    known = KnownIds(14)
    for n in range(1_000):
        known.add(id_hash(f"m{n}"))
    assert sum(known.may_have(id_hash(f"n{n}")) for n in range(1_000)) < 20


def test_what_was_kept_in_the_outbox_is_no_error_where_warnings_are(tmp_path):
    line = Unreached(begun())
    line.up = False
    with closing(follower(tmp_path / "a", line)) as a, warnings.catch_warnings():
        warnings.simplefilter("error")
        [kept] = a.append([draft("m1")])
        assert (kept.seq, a.status().waiting) == (0, 1)
        line.up = True
        a.exchange()
        assert ids(a) == ["m1"]


def test_a_log_of_another_plane_is_given_nothing(tmp_path):
    engine = MemorySharedLog(Ticking())
    engine.publish([beginning("01KE68AHX0S9HNAPC8C6XVDB1W")])
    with closing(follower(tmp_path / "a", engine)) as a:
        with pytest.warns(SharedLogWarning, match="another plane"):
            [kept] = a.append([draft("m1")])
        assert (kept.seq, engine.head(), a.status().waiting) == (0, 1, 1)


def test_a_copy_of_a_machines_folder_follows_from_where_that_stood(tmp_path):
    engine = begun()
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft(f"m{n}") for n in range(300)])
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        a.append([draft("after the copy")])
    asked = []
    watched = Unreached(engine)
    watched.read = lambda after, limit: asked.append(after) or engine.read(after, limit)
    with closing(follower(tmp_path / "b", watched)) as b:
        b.exchange()
    assert min(asked) >= 300
    assert written(tmp_path / "a") == written(tmp_path / "b")


def test_a_purge_parses_no_entry_of_other_events(tmp_path, monkeypatch):
    engine, seen = begun(), []
    with closing(follower(tmp_path / "a", engine)) as a:
        a.append([draft(f"m{n}", f"text {n}") for n in range(2_500)])
        monkeypatch.setattr(
            "memplane.shared.apply.parsed", lambda payload: seen.append(payload) or parsed(payload)
        )
        a.erase([purge(["m7", "m1700"], [9, 1_702])], {9: "m7", 1_702: "m1700"}, [])
        # The first entry and the two; what else is read are the purge itself and the last entry.
        assert len(seen) < 12
        assert written(tmp_path / "a") == derived(engine.read(0, 5_000), 4_000_000)


def test_a_new_machine_has_the_tables_of_its_segments_and_reads_none_again(tmp_path, monkeypatch):
    engine, read = begun(), []
    events = [draft(f"m{n}") for n in range(2_500)]
    engine.publish([one for each in events for one in published(each, lambda _: None)])
    engine.publish([one for each in events[:9] for one in published(each, lambda _: None)])
    with closing(follower(tmp_path / "a", engine, segment_bytes=4_000)) as a:
        a.exchange()
        monkeypatch.setattr(
            "memplane.log.reader.read_segment_file",
            lambda *place: read.append(place) or read_segment_file(*place),
        )
        a.append([draft("new")])
        assert len(written(tmp_path / "a")) > 50
        assert len(read) < 10
    tables = {path: path.read_bytes() for path in (tmp_path / "a" / "index" / "ids").iterdir()}
    assert len(tables) > 50
    for path in tables:
        path.unlink()
    with closing(follower(tmp_path / "a", engine, segment_bytes=4_000)) as a:
        assert a.find("nowhere") is None
    assert {path: path.read_bytes() for path in tables} == tables
