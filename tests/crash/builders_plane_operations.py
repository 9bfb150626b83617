"""What is done to a plane while something fails: a table like that of `builders_log_operations`."""

import re
from contextlib import suppress
from functools import cache

from builders_log_operations import Operation, newest, table
from checks_layers import quick_folder
from checks_promises import Erased, Found, Promised, Waiting, Written, clock

import memplane
from memplane.errors import PlaneError
from memplane.log import FileLog

ERASED = {"erased": "zebra-4711", "erased-long": "quagga-0815"}


def once(prepare):
    """Prepare a home once, and give each who asks the same files, with those beside it."""

    @cache
    def made():
        with quick_folder() as folder:
            prepare(folder / "home", None)
            return {
                path.relative_to(folder): None if path.is_dir() else path.read_bytes()
                for path in sorted(folder.rglob("*"))
            }

    def copied(home, _rng):
        for path, data in made().items():
            first, *rest = path.parts
            to = (home if first == "home" else home.parent / first).joinpath(*rest)
            if data is None:
                to.mkdir(0o700, parents=True)
            else:
                to.write_bytes(data)

    return copied


def count_by_length(home):
    """Tokens are the least of what is tried here, and finding out how many takes the longest."""
    budgets = home / "policies" / "budgets.yaml"
    text, found = re.subn(r"(?m)^counter:.*$", "counter: len4", budgets.read_text())
    assert found == 1
    budgets.write_text(text)


@once
def planned(home, _rng):
    """A plane with a little of everything, its checkpoints and index saved."""
    memplane.init(home, durability="os", clock=clock, environment={}).close()
    count_by_length(home)
    with opened_plane(home, durability="os") as plane:
        plane.record_many(rows("old", 12))
        plane.forget("k3")
        plane.context.caught_up().save()
        plane.upkeep.index()


def rows(prefix, count):
    return [
        {"id": f"{prefix}{n}", "text": f"we decided {n} of the database, {prefix}", "key": f"k{n}",
         "kind": "decision", "session": "s1"}
        for n in range(count)
    ]  # fmt: skip


def opened_plane(home, **options):
    plane = memplane.open(home, clock=clock, environment={}, **options)
    plane._log._settings = (*plane._log._settings[:3], 1500, False)
    plane._log._begin_process()
    return plane


def promised_by(plane, ack, seqs):
    """Tell of the events with these seqs, as they read now."""
    found = []
    for seq in seqs:
        line = plane._log.line(seq)
        assert line is not None, f"acknowledged and not there: seq {seq}"
        text = plane._log.text(line.event) if "body" in line.event.data else ""
        found.append(Promised(line.event, text))
    ack(found)


def step(plane, ack, do):
    """Do one thing; a refusal is one, and the next thing is done all the same."""
    with suppress(PlaneError):
        done = do()
        seqs = getattr(done, "seq", None)
        if seqs is not None:
            promised_by(plane, ack, [seqs])
        elif getattr(done, "first_seq", None) is not None:
            fresh = range(done.first_seq, done.last_seq + 1)
            lines = (plane._log.line(seq) for seq in fresh)
            own = [line.event.seq for line in lines if line.event.kind != "segment"]
            promised_by(plane, ack, own)


def within(home, ack, do, **options):
    """Open the plane, do it, close; each may be refused."""
    with suppress(PlaneError):
        plane = opened_plane(home, **options)
        try:
            do(plane, lambda what: step(plane, ack, what))
        finally:
            with suppress(PlaneError):
                plane.close()


def record(home, ack, rng):
    def do(plane, step):
        step(lambda: plane.record("we keep SQLite", kind="decision", key="k1"))
        step(lambda: plane.record("and a turn", session="s2", role="user"))
        step(lambda: plane.record("x" * 2_000_000, id="long"))

    within(home, ack, do)


def record_many(home, ack, rng):
    def do(plane, step):
        step(lambda: plane.record_many(rows("new", 40), batch=7))

    within(home, ack, do)


def record_then_flush(home, ack, rng):
    """At level `os` nothing is promised before the flush."""

    def do(plane, step):
        with suppress(PlaneError):
            done = plane.record_many(rows("new", 6))
            plane.record("another")
            plane.flush()
            step(lambda: done)

    within(home, ack, do, durability="os")


def save_at_os(home, ack, rng):
    """Checkpoints and index of events that a power cut may take, until they are flushed."""

    def do(plane, step):
        with suppress(PlaneError):
            done = [saved(plane, n) for n in range(3)]
            plane.flush()
            for one in done:
                step(lambda one=one: one)

    within(home, ack, do, durability="os")


def saved(plane, n):
    done = plane.record_many(rows(f"new{n}-", 4))
    plane.context.caught_up().save()
    plane.upkeep.index()
    return done


def forget(home, ack, rng):
    def do(plane, step):
        step(lambda: plane.forget("k1"))
        step(lambda: plane.pin(key="k2"))
        step(lambda: plane.unforget("k3"))

    within(home, ack, do)


def save(home, ack, rng):
    """Checkpoints and index, with something to save."""

    def do(plane, step):
        step(lambda: plane.record_many(rows("new", 5)))
        step(lambda: plane.context.caught_up().save())
        step(plane.upkeep.index)
        step(lambda: plane.record_many(rows("newer", 5)))
        step(lambda: plane.context.caught_up().save())
        step(plane.upkeep.index)

    within(home, ack, do)


def rebuild(home, ack, rng):
    def do(plane, step):
        step(lambda: plane.record("one of them", key="k1"))
        step(plane.upkeep.rebuild)

    within(home, ack, do)


def close(home, ack, rng):
    """Enough events that close writes checkpoints and index."""

    def do(plane, step):
        step(lambda: plane.pack("database", budget=500, intent="deep"))
        step(lambda: plane.record_many(rows("new", 70)))

    within(home, ack, do)


def pack(home, ack, rng):
    def do(plane, step):
        step(lambda: plane.pack("what of the database", budget=800, save_report=True, session="s1"))
        step(lambda: plane.record("after the pack"))

    within(home, ack, do)


def artifact(home, ack, rng):
    given = home.parent / "given.txt"
    given.write_text("an artifact of three lines\n" * 3)

    def do(plane, step):
        step(lambda: plane.work.artifacts.add(given, "what it is"))
        step(lambda: plane.work.tasks.open("migrate", "move it", plan=["one", "two"]))
        step(lambda: plane.work.sessions.start("s9"))
        step(lambda: plane.work.sessions.end("s1"))

    within(home, ack, do)


def import_file(home, ack, rng):
    from memplane.importers import import_paths

    given = home.parent / "given.jsonl"
    given.write_text("".join(f'{{"text": "imported {n}", "id": "i{n}"}}\n' for n in range(20)))

    def do(plane, step):
        before = plane.head().seq

        def run():
            report = import_paths(plane, "jsonl", [given])
            assert report.events == 20
            found = [line.event.seq for line in plane._log.read(before)]
            own = [s for s in found if plane._log.line(s).event.kind == "message"]
            promised_by(plane, ack, own)

        step(run)

    within(home, ack, do)


@once
def quotable(home, rng):
    """Two events to be erased, in the index, the projections, a report and a body."""
    planned(home, rng)
    with opened_plane(home, durability="os") as plane:
        for (id_, text), size in zip(ERASED.items(), (10, 1_100_000), strict=True):
            plane.record(
                f"{text} is to go " + "b " * (size // 2), id=id_, kind="fact", session="s1"
            )
        plane.context.caught_up().save()
        plane.upkeep.index()
        plane.pack("what is to go", budget=800, save_report=True, intent="deep")


def purge(home, ack, rng):
    def do(plane, step):
        def run(id_):
            plane.upkeep.purge(id_, reason="asked for")
            erased = Erased(id_, ERASED[id_].encode())
            broken = erased.broken(Found(home, {}, {}))
            assert not broken, broken
            ack([erased])

        step(lambda: run("erased"))
        step(lambda: plane.record("after the first"))
        step(lambda: run("erased-long"))
        step(lambda: plane.record("after the second"))

    within(home, ack, do)


def spool(home, ack, rng):
    """While another holds the log; then somebody takes in what waits."""

    def do(plane, step):
        texts = {}
        holder = FileLog(home, plane.id, clock=clock)
        with suppress(PlaneError), holder.exclusive():
            for n in range(3):
                texts[f"w{n}"] = f"spooled {n}"

                def once(id_=f"w{n}"):
                    done = plane.work.spool(texts[id_], id=id_)
                    if done.seq is None:
                        ack([Waiting(id_, texts[id_])])

                step(once)
        with suppress(PlaneError):
            holder.close()
        step(lambda: plane.record("the next writer"))

    within(home, ack, do)


@once
def exported(home, rng):
    """A plane to export, and its export."""
    planned(home, rng)
    given = home.parent / "given.txt"
    given.write_text("an artifact\n" * 20)
    with opened_plane(home) as plane:
        plane.work.artifacts.add(given, "what it is")
        plane.record("x" * 1_100_000, id="long")
        plane.upkeep.export(home.parent / "export.jsonl")


def export(home, ack, rng):
    def do(plane, step):
        def run(name, **options):
            plane.upkeep.export(home.parent / name, **options)
            ack([Written(name, (home.parent / name).read_bytes())])

        step(lambda: plane.record("to be exported"))
        step(lambda: run("whole.jsonl"))
        step(lambda: run("part.jsonl", session="s1"))

    within(home, ack, do)


def apart(home, rng):
    """An export, and no plane."""
    source = home.parent / "source"
    exported(source, rng)


def restore(home, ack, rng):
    def do(plane, step):
        promised_by(plane, ack, [line.event.seq for line in plane._log.read()])
        step(lambda: plane.record("after it"))

    with suppress(PlaneError):
        memplane.restore(home.parent / "export.jsonl", home, clock=clock, environment={})
        within(home, ack, do)


def merge(home, ack, rng):
    """An export into a plane that holds events."""

    def do(plane, step):
        promised_by(plane, ack, [line.event.seq for line in plane._log.read()])

    with suppress(PlaneError):
        memplane.restore(home.parent / "export.jsonl", home, clock=clock, environment={})
        within(home, ack, do)


def apart_and_another(home, rng):
    apart(home, rng)
    with memplane.init(home, durability="os", clock=clock, environment={}) as plane:
        plane.record("here already", id="mine")


def torn_plane(home, rng):
    planned(home, rng)
    torn_tail = b'{"seq":99,"id":"half'
    with newest(home).open("ab") as file:
        file.write(torn_tail)


def unmade(home, rng):
    home.parent.mkdir(parents=True, exist_ok=True)


def init(home, ack, rng):
    with suppress(PlaneError):
        memplane.init(home, clock=clock, environment={}).close()
    record(home, ack, rng)


PLANES = table(
    Operation("init and record", unmade, init),
    Operation("record", planned, record),
    Operation("record many", planned, record_many),
    Operation("record at level os and flush", planned, record_then_flush),
    Operation("record behind a torn tail", torn_plane, record),
    Operation("forget, pin, unforget", planned, forget),
    Operation("save checkpoints and index", planned, save),
    Operation("save at level os", planned, save_at_os),
    Operation("rebuild", planned, rebuild),
    Operation("close with much to save", planned, close),
    Operation("pack with a report", planned, pack),
    Operation("artifact, task, session", planned, artifact),
    Operation("import", planned, import_file),
    Operation("purge", quotable, purge),
    Operation("spool and take in", planned, spool),
    Operation("export", planned, export),
    Operation("restore", apart, restore),
    Operation("restore into a plane", apart_and_another, merge),
)
