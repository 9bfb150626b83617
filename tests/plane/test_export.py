"""What is exported comes back: byte by byte into an empty plane, once into any other."""

import io
import json
import os
import random
import shutil
import stat
import threading
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memplane
from memplane.errors import FormatError, HomeError, InputError, PlaneError, WriteError
from memplane.event import Draft
from memplane.log import Disk, verify
from memplane.log.exported import read_export
from memplane.log.spool import Spool
from memplane.plane.choosing import Asked
from memplane.plane.exporting import export_plane
from memplane.plane.restoring import check_export

SEED = 20260105


def clock():
    return "2026-01-05T12:00:00.000000Z"


def opened(home, **options):
    return memplane.open(home, durability="os", clock=clock, environment={}, **options)


def made(home, **options):
    return memplane.init(home, durability="os", clock=clock, environment={}, **options)


def in_short_segments(plane, size=2500):
    plane._log._writer.segment_bytes_max = size
    return plane


TEXTS = (
    "We keep PostgreSQL", "which database do we use?", "the build fails on 3.12",
    "ünï çødé 語 ' \" \\ \n two lines", "herons nest in trees", "memplane:begin", "",
)  # fmt: skip


def fill(plane, rng, events=40):
    """A history of every sort of event, in segments of few lines."""
    in_short_segments(plane)
    for n in range(events):
        text = f"{rng.choice(TEXTS)} {n}"
        what = rng.randrange(12)
        session = rng.choice(("s1", "s2", None))
        if what == 0:
            plane.record(text, kind="decision", key=f"k{rng.randrange(4)}", session=session)
        elif what == 1:
            plane.record(text, kind="fact", sensitivity=rng.choice(("secret", "high", "low")))
        elif what == 2:
            plane.record(text, role="user", session=session, ns="/agent/a1")
        elif what == 3:
            plane.record_many([{"text": f"{text} {m}", "id": f"b{n}-{m}"} for m in range(3)])
        elif what == 4 and plane.get("k0") is not None:
            plane.forget("k0")
        elif what == 5 and plane.get("k1") is not None:
            plane.pin(key="k1")
        elif what == 6:
            plane.record(text, kind="tool_result", session=session, data={"tool": "ls"})
        else:
            plane.record(text, role=rng.choice(("user", "assistant")), session=session, task="t1")


def with_files(plane, folder):
    """A text too long for a line, and files that were added: text, and none."""
    plane.record("long " * 250_000, kind="fact", key="long")
    (folder / "report.md").write_text("# Herons\n\nThey nest in trees.\n")
    (folder / "picture.bin").write_bytes(bytes(range(256)) * 1100)
    (folder / "empty.txt").write_bytes(b"")
    for name in ("report.md", "picture.bin", "empty.txt"):
        plane.artifacts.add(folder / name, "what we found")
    plane.artifacts.approve("report.md")


@pytest.fixture
def filled(tmp_path):
    home = tmp_path / "filled"
    with made(home) as plane:
        fill(plane, random.Random(SEED))
        with_files(plane, tmp_path)
        fill(plane, random.Random(SEED + 1), 10)
    return home


def exported(home, to, **asked):
    with opened(home) as plane:
        return plane.export(to, **asked)


def tree(home, *, caches=False):
    """Every file below a home, by its path; locks say who held them last."""
    ours = ("log", "bodies") if not caches else ("",)
    return {
        os.fspath(path.relative_to(home)): path.read_bytes()
        for folder in ours
        for path in sorted((home / folder).rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def is_well(home):
    with opened(home) as plane:
        assert plane.differing() == []
        report = verify(home, plane.id)
    assert report.problems == ()


def small(tmp_path, name="small"):
    """A plane of a few lines, and its export."""
    home = tmp_path / name
    with made(home) as plane:
        in_short_segments(plane, 600)
        for n in range(5):
            plane.record(f"line {n}", role="user", session="s")
        (tmp_path / "a.txt").write_text("a file\n")
        (tmp_path / "b.bin").write_bytes(b"\x00\xff")
        plane.artifacts.add(tmp_path / "a.txt")
        plane.artifacts.add(tmp_path / "b.bin")
        plane.export(tmp_path / f"{name}.jsonl", replace=True)
    return home, (tmp_path / f"{name}.jsonl").read_bytes()


# --- whole ---


def test_a_restored_plane_has_the_same_bytes_in_log_and_bodies_and_is_well(filled, tmp_path):
    report = exported(filled, tmp_path / "e.jsonl")
    assert (report.whole, report.damaged, report.lost) == (True, 0, 0)
    assert len(list((filled / "log").glob("*.jsonl"))) > 3
    assert report.bodies == 4
    back = memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    assert back.merged is None
    assert tree(tmp_path / "back") == tree(filled)
    assert json.loads((tmp_path / "back" / "plane.json").read_text())["plane"] == report.plane
    is_well(tmp_path / "back")


def test_what_was_restored_is_for_its_owner_alone(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    assert stat.S_IMODE((tmp_path / "e.jsonl").stat().st_mode) == 0o600
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    for path in [tmp_path / "back", *(tmp_path / "back").rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == wanted & 0o077, path


def test_every_pack_of_a_restored_plane_has_the_bytes_of_the_original(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    rng = random.Random(SEED)
    with opened(filled) as ours, opened(tmp_path / "back") as theirs:
        head = ours.head().seq
        for _ in range(40):
            asked = {
                "budget": rng.choice((150, 600, 1500, 4000, 20000)),
                "channel": rng.choice(("private", "team", "agent")),
                "intent": rng.choice(("auto", "fast", "deep", "orient")),
                "session": rng.choice(("s1", "s2", None)),
                "as_of": rng.choice((head, rng.randrange(1, head + 1))),
                "now": rng.choice(("2026-01-05T12:00:00Z", "2027-01-05T12:00:00Z")),
            }
            query = rng.choice(TEXTS)
            assert ours.pack(query, **asked).text == theirs.pack(query, **asked).text, asked


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), events=st.integers(0, 25))
def test_export_restore_export_gives_the_same_bytes(tmp_path_factory, seed, events):
    folder = tmp_path_factory.mktemp("again")
    with made(folder / "plane") as plane:
        fill(plane, random.Random(seed), events)
        first = plane.export(folder / "1.jsonl")
    memplane.restore(folder / "1.jsonl", folder / "back", clock=clock)
    with opened(folder / "back") as plane:
        second = plane.export(folder / "2.jsonl")
    assert second._replace(path=None) == first._replace(path=None)
    assert (folder / "1.jsonl").read_bytes() == (folder / "2.jsonl").read_bytes()
    shutil.rmtree(folder)


def test_a_stream_gets_the_bytes_of_the_file(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    stream = io.BytesIO()
    assert exported(filled, stream).path is None
    assert stream.getvalue() == (tmp_path / "e.jsonl").read_bytes()
    memplane.restore(stream, tmp_path / "back", clock=clock)
    assert tree(tmp_path / "back") == tree(filled)


def test_a_restored_plane_goes_on_where_the_original_stood(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    lines = []
    for home in (filled, tmp_path / "back"):
        with opened(home) as plane:
            plane.record("one more", id="more")
            lines.append(plane.event("more"))
    assert lines[0]._replace(h="", dur=0) == lines[1]._replace(h="", dur=0)
    is_well(tmp_path / "back")


def test_what_a_damaged_plane_has_lost_is_told_and_no_more_is_lost(filled, tmp_path):
    sealed = sorted((filled / "log").glob("*.jsonl"))[1]
    data = bytearray(sealed.read_bytes())
    data[len(data) // 2] ^= 1
    sealed.write_bytes(data)
    sorted((filled / "log").glob("*.jsonl"))[3].unlink()
    body = next(path for path in (filled / "bodies").rglob("*") if path.is_file())
    body.unlink()
    with opened(filled) as plane:
        report = plane.export(tmp_path / "e.jsonl")
    assert (report.damaged, report.lost) == (2, 1)
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    assert tree(tmp_path / "back") == tree(filled)
    theirs, ours = (verify(home, report.plane) for home in (filled, tmp_path / "back"))
    assert theirs.problems
    assert (ours.head, len(ours.problems)) == (theirs.head, len(theirs.problems))


def test_an_export_is_of_one_head_while_writers_go_on(filled, tmp_path):
    stop = threading.Event()

    def write(name):
        with opened(filled) as plane:
            in_short_segments(plane)
            n = 0
            while not stop.is_set():
                plane.record(f"{name} {n}", id=f"{name}-{n}")
                n += 1

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    try:
        for n in range(4):
            before = memplane.open(filled, read_only=True, environment={})
            with before:
                least = before.head().seq
            report = exported(filled, tmp_path / f"{n}.jsonl")
            assert report.seq >= least
            back = tmp_path / f"back{n}"
            memplane.restore(tmp_path / f"{n}.jsonl", back, clock=clock)
            with opened(back) as plane:
                assert (plane.head().seq, plane.head().h) == (report.seq, report.h)
            assert verify(back, report.plane).problems == ()
        is_well(back)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# --- where it goes ---


def test_the_clone_of_a_project_whose_log_git_ignored_gets_its_log_back(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    home = tmp_path / "clone"
    for name in ("policies", "views"):
        shutil.copytree(filled / name, home / name)
    shutil.copy(filled / "plane.json", home)
    (home / "views" / "rules.md").write_text("- be kind\n")
    memplane.restore(tmp_path / "e.jsonl", home, clock=clock)
    assert tree(home) == tree(filled)
    assert (home / "views" / "rules.md").read_text() == "- be kind\n"
    is_well(home)


def test_an_empty_plane_takes_on_the_id_and_keeps_what_people_wrote(filled, tmp_path):
    report = exported(filled, tmp_path / "e.jsonl")
    home = tmp_path / "empty"
    with made(home) as plane:
        assert plane.id != report.plane
        plane.pack("anything")
    (home / "views" / "rules.md").write_text("- be kind\n")
    memplane.restore(tmp_path / "e.jsonl", home, clock=clock)
    with opened(home) as plane:
        assert plane.id == report.plane
        assert plane.pack("anything").entries
    assert (home / "views" / "rules.md").read_text() == "- be kind\n"
    assert tree(home) == tree(filled)
    is_well(home)


def test_a_log_folder_that_holds_what_nobody_knows_is_not_replaced(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    made(tmp_path / "odd").close()
    (tmp_path / "odd" / "log" / "quarantine").mkdir(exist_ok=True)
    (tmp_path / "odd" / "log" / "quarantine" / "00000001-0-abc").write_bytes(b"mine")
    before = tree(tmp_path / "odd", caches=True)
    with pytest.raises(HomeError, match="move it away"):
        memplane.restore(tmp_path / "e.jsonl", tmp_path / "odd", clock=clock)
    assert tree(tmp_path / "odd", caches=True) == before


def test_what_waits_in_the_spool_is_exported_and_makes_a_plane_not_empty(tmp_path, filled):
    exported(filled, tmp_path / "e.jsonl")
    home = tmp_path / "spooled"
    with made(home) as plane:
        id_ = plane.id
    rest = b'"kind":"message","text":"spooled"'
    waiting = Draft("sp1", True, None, "message", "/global", None, None, None, "spooled", rest)
    (home / "log").mkdir(exist_ok=True)
    Spool(f"{home}", id_, Disk()).put([waiting], clock())
    back = memplane.restore(tmp_path / "e.jsonl", home, clock=clock)
    assert back.merged is not None
    with opened(home) as plane:
        assert plane.event("sp1").text == "spooled"
        assert plane.id == id_
    exported(home, tmp_path / "2.jsonl")
    assert b"spooled" in (tmp_path / "2.jsonl").read_bytes()


# --- what is refused ---


def refused(data, name="e.jsonl"):
    """The refusal of an export that is not as it was written; the test fails where there is none."""
    with pytest.raises((InputError, FormatError)) as error:
        check_export(io.BytesIO(data), name)
    assert str(error.value).startswith(f"{name}:")
    assert "nothing was changed" in str(error.value)
    return str(error.value)


def test_an_export_that_is_cut_at_any_byte_is_refused(tmp_path):
    _, data = small(tmp_path)
    for end in range(len(data)):
        refused(data[:end])
    refused(data + b"\n")
    refused(data + data)


def test_an_export_in_which_any_byte_is_another_is_refused(tmp_path):
    _, data = small(tmp_path)
    rng = random.Random(SEED)
    for at in range(len(data)):
        other = bytearray(data)
        other[at] ^= 1 << rng.randrange(8)
        refused(bytes(other))


@pytest.mark.long
def test_an_export_in_which_any_bit_is_another_is_refused(tmp_path):
    _, data = small(tmp_path)
    for at in range(len(data)):
        for bit in range(8):
            other = bytearray(data)
            other[at] ^= 1 << bit
            refused(bytes(other))


def test_an_export_with_lines_gone_swapped_or_doubled_is_refused(tmp_path):
    _, data = small(tmp_path)
    lines = data.splitlines(keepends=True)
    for at in range(len(lines)):
        refused(b"".join(lines[:at] + lines[at + 1 :]))
        refused(b"".join([*lines[: at + 1], *lines[at:]]))
        if at:
            refused(b"".join([*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]]))


def resealed(lines):
    """The lines with a last line that fits them: what somebody would write who edits an export."""
    said = b"".join(lines)
    end = json.loads(lines[-1]) if b'"end"' in lines[-1] else None
    assert end is None
    counts = {
        "lines": len(lines),
        "events": sum(line.startswith(b'{"seq":') for line in lines),
        "bodies": sum(b'"at":0,' in line for line in lines),
        "damaged": sum(line.startswith(b'{"damaged"') for line in lines),
        "lost": sum(line.startswith(b'{"lost"') for line in lines),
        "bytes": len(said),
        "sha256": sha256(said).hexdigest(),
    }
    return said + json.dumps({"end": counts}, separators=(",", ":")).encode() + b"\n"


def test_an_edited_line_is_found_by_its_number_even_if_the_last_line_was_written_anew(tmp_path):
    _, data = small(tmp_path)
    *lines, _ = data.splitlines(keepends=True)
    assert resealed(lines) == data
    for at, line in enumerate(lines):
        if line.startswith(b'{"seq":'):
            edited = [*lines[:at], line.replace(b'":"', b'":" ', 1), *lines[at + 1 :]]
            assert refused(resealed(edited)).startswith(f"e.jsonl:{at + 1}:")
            assert refused(resealed([*lines[:at], *lines[at + 1 :]]))
        if b'"utf8":"' in line:
            edited = [*lines[:at], line.replace(b"file", b"fibe"), *lines[at + 1 :]]
            assert refused(resealed(edited)).startswith(f"e.jsonl:{at + 1}:")


def test_the_segment_of_another_plane_is_refused(tmp_path):
    _, ours = small(tmp_path)
    _, theirs = small(tmp_path, "other")
    first, *_ = ours.splitlines(keepends=True)
    _, *rest, _ = theirs.splitlines(keepends=True)
    assert refused(resealed([first, *rest])).startswith("e.jsonl:3:")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "found no export of memplane"),
        (b'{"text":"hello"}\n', "found no export of memplane"),
        (b"\x00" * 200_000, "found no export of memplane"),
        (b"[" * 60_000, "found no export of memplane"),
        (b'{"export":"memplane","format":1}\n', "found a first line that was changed"),
        (b'{"export":"memplane","format":2}\n', "format 2; this memplane reads up to format 1"),
    ],
)
def test_what_is_no_export_is_refused_in_words(data, said):
    assert said in refused(data)


def test_an_export_that_is_refused_changes_nothing_anywhere(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    data = (tmp_path / "e.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(data[: len(data) // 2])
    before = tree(filled, caches=True)
    for into in (tmp_path / "missing", filled):
        with pytest.raises(InputError, match=r"cut.jsonl:\d+: found"):
            memplane.restore(tmp_path / "cut.jsonl", into, clock=clock)
    assert not (tmp_path / "missing").exists()
    assert tree(filled, caches=True) == before


# --- into a plane with events ---


def test_another_plane_takes_each_event_once_and_says_where_it_is_from(filled, tmp_path):
    report = exported(filled, tmp_path / "e.jsonl")
    home = tmp_path / "other"
    with made(home) as plane:
        plane.record("mine", id="mine")
    first = memplane.restore(tmp_path / "e.jsonl", home, clock=clock).merged
    assert (first.repeated, first.refusals) == (0, 0)
    assert first.recorded + first.skipped == report.events
    before = tree(home)
    again = memplane.restore(tmp_path / "e.jsonl", home, clock=clock).merged
    assert (again.recorded, again.repeated) == (0, first.recorded)
    assert tree(home) == before
    with opened(home) as ours, opened(filled) as theirs:
        for line in theirs._log.read():
            event = line.event
            if event.kind == "segment":
                continue
            taken = ours._log.find(event.id).event
            assert taken.data["origin"] == {"plane": report.plane, "seq": event.seq}
            assert ours._log.text(taken) == theirs._log.text(event)
            same = ("ts", "kind", "ns", "session", "key", "sensitivity", "refs", "tags")
            assert [getattr(taken, name) for name in same] == [
                getattr(event, name) for name in same
            ]
        for path in (home.parent / "report.md", home.parent / "picture.bin"):
            ours.artifacts.export(path.name, tmp_path / f"out-{path.name}")
            assert (tmp_path / f"out-{path.name}").read_bytes() == path.read_bytes()
    is_well(home)


def test_the_plane_that_was_exported_takes_nothing_from_its_own_export(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    before = tree(filled)
    merged = memplane.restore(tmp_path / "e.jsonl", filled, clock=clock).merged
    assert (merged.recorded, merged.refusals) == (0, 0)
    assert tree(filled) == before


def test_an_id_that_is_taken_by_another_event_is_listed_and_the_others_are_recorded(tmp_path):
    for name, text in (("a", "this"), ("b", "that")):
        with made(tmp_path / name) as plane:
            plane.record(text, id="x")
            plane.record("fine", id=f"fine-{name}")
    exported(tmp_path / "a", tmp_path / "e.jsonl")
    merged = memplane.restore(tmp_path / "e.jsonl", tmp_path / "b", clock=clock).merged
    assert (merged.recorded, merged.refusals) == (1, 1)
    assert [(one.seq, one.id, one.reason) for one in merged.refused] == [(2, "x", "conflict")]


# --- a part ---


def rows(path):
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[0]["whole"] is False
    assert "end" in lines[-1]
    return lines[1:-1]


def test_a_part_holds_what_was_asked_for_as_the_owner_sees_it(filled, tmp_path):
    with opened(filled) as plane:
        for number, asked in enumerate(
            (
                {"kind": "decision"},
                {"session": "s1"},
                {"session": ["s1", "s2"]},
                {"ns": "/task/t1"},
                {"ns": ["/global", "/agent/a1"], "kind": ["message", "fact"]},
                {"since": "2026-01-05T12:00:00Z"},
                {"until": "2026-01-05T11:59:59Z"},
            )
        ):
            plane.export(tmp_path / f"{number}.jsonl", **asked)
            several = {
                name: [value] if isinstance(value, str) else value for name, value in asked.items()
            }
            shown = [
                event
                for ns in several.get("ns", [None])
                for event in plane.events(ns=ns)
                if (ns is not None or not event.ns.startswith("/agent/"))
                and event.kind in several.get("kind", [event.kind])
                and event.session in several.get("session", [event.session])
                and event.kind not in ("segment", "forget", "pin")
                and "until" not in asked
                and (plane.archived(event) or ("",))[0] != "forgotten"
            ]
            found = rows(tmp_path / f"{number}.jsonl")
            assert [row["seq"] for row in found] == sorted(event.seq for event in shown), asked
            for row in found:
                event = plane.event(row["seq"])
                assert "h" not in row
                assert "dur" not in row
                assert row["id"] == event.id
                assert row.get("text", "") == plane.text(event)


def test_nothing_secret_and_nothing_forgotten_leaves_in_a_part_unless_secrets_are_asked_for(
    tmp_path,
):
    with made(tmp_path / "plane") as plane:
        plane.record("the hidden one", sensitivity="secret", id="hidden")
        plane.record("the gone one", kind="fact", key="gone", id="gone")
        plane.forget("gone")
        plane.record("for another", ns="/agent/a1")
        plane.record("the open one")
        report = plane.export(tmp_path / "part.jsonl", redact=True)
        asked = plane.export(tmp_path / "asked.jsonl", kind=["message", "fact"], secret=True)
        whole = plane.export(tmp_path / "whole.jsonl")
    part = (tmp_path / "part.jsonl").read_bytes()
    assert [text in part for text in (b"hidden one", b"gone one", b"another", b"open")] == [
        False, False, False, True,
    ]  # fmt: skip
    assert report.withheld == {"hidden": 2, "forgotten": 1}
    assert asked.withheld == {"hidden": 1, "forgotten": 1}
    assert b"hidden one" in (tmp_path / "asked.jsonl").read_bytes()
    assert b"gone one" in (tmp_path / "whole.jsonl").read_bytes()
    assert whole.withheld == {}


def test_a_part_is_redacted_under_the_policies_of_today(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record("the word is swordfish", data={"note": "swordfish"}, tags=["swordfish"])
        plane.record("named after it", session="swordfish")
        privacy = tmp_path / "plane" / "policies" / "privacy.yaml"
        text = privacy.read_text()
        assert "redact_patterns: [" in text
        privacy.write_text(text.replace("redact_patterns: [", 'redact_patterns: ["swordfish", '))
        report = plane.export(tmp_path / "part.jsonl", redact=True)
        assert plane.policies.privacy.redact_patterns[0] == "swordfish"
    assert b"swordfish" not in (tmp_path / "part.jsonl").read_bytes()
    assert report.withheld == {"identifier": 1}
    assert [row["text"] for row in rows(tmp_path / "part.jsonl")] == [
        "the word is [redacted:policy-1]"
    ]


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), kinds=st.sets(st.sampled_from(("message", "fact", "decision"))))
def test_a_part_comes_into_any_plane_once(tmp_path_factory, seed, kinds):
    folder = tmp_path_factory.mktemp("part")
    with made(folder / "plane") as plane:
        fill(plane, random.Random(seed), 15)
        report = plane.export(folder / "e.jsonl", kind=kinds or None, redact=True)
    with made(folder / "other") as plane:
        fill(plane, random.Random(seed + 1), 5)
    for home in (folder / "missing", folder / "other", folder / "plane"):
        first = memplane.restore(folder / "e.jsonl", home, clock=clock).merged
        again = memplane.restore(folder / "e.jsonl", home, clock=clock).merged
        assert first.recorded + first.repeated + first.refusals == report.events
        assert (again.recorded, again.refusals) == (0, first.refusals)
        if home == folder / "plane":
            assert first.recorded == 0
    shutil.rmtree(folder)


def test_a_long_text_stands_whole_in_a_part_and_comes_back_whole(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record("long " * 250_000, kind="fact", id="long")
        plane.export(tmp_path / "e.jsonl", kind="fact")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "other", clock=clock)
    with opened(tmp_path / "other") as plane:
        assert plane.text(plane.event("long")) == "long " * 250_000


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"kind": "desicion"}, "kind"),
        ({"since": "yesterday"}, "since"),
        ({"session": 7}, "session"),
        ({"secret": True}, "secret"),
    ],
)
def test_what_cannot_be_asked_for_is_named_and_no_file_is_made(filled, tmp_path, asked, where):
    with opened(filled) as plane, pytest.raises((InputError, TypeError)) as error:
        plane.export(tmp_path / "e.jsonl", **asked)
    assert str(error.value).startswith(where)
    assert not (tmp_path / "e.jsonl").exists()


# --- the file ---


def test_a_file_that_is_there_is_replaced_only_if_that_is_said(filled, tmp_path):
    (tmp_path / "e.jsonl").write_text("mine")
    with opened(filled) as plane:
        with pytest.raises(InputError, match="is there already"):
            plane.export(tmp_path / "e.jsonl")
        assert (tmp_path / "e.jsonl").read_text() == "mine"
        plane.export(tmp_path / "e.jsonl", replace=True)
    check_export(io.BytesIO((tmp_path / "e.jsonl").read_bytes()), "e.jsonl")


def test_no_export_is_written_among_the_files_of_the_plane_itself(filled, tmp_path):
    before = tree(filled, caches=True)
    (tmp_path / "link").symlink_to(filled / "log")
    with opened(filled) as plane:
        for folder in (filled / "log", filled / "bodies" / "sha256", tmp_path / "link"):
            with pytest.raises(InputError, match="own folder"):
                plane.export(folder / "00000009.jsonl")
    assert tree(filled, caches=True) == before


def test_a_plane_that_may_only_be_read_can_be_exported(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    before = tree(filled, caches=True)
    with memplane.open(filled, read_only=True, environment={}) as plane:
        plane.export(tmp_path / "2.jsonl")
        plane.export(tmp_path / "3.jsonl", kind="decision")
    assert (tmp_path / "2.jsonl").read_bytes() == (tmp_path / "e.jsonl").read_bytes()
    assert tree(filled, caches=True) == before


class RefusingDisk(Disk):
    """The k-th call that could be refused is."""

    def __init__(self, k):
        self.calls, self.k = 0, k

    def count(self):
        self.calls += 1
        if self.calls == self.k:
            raise OSError(28, "No space left on device")

    def write(self, fd, data):
        self.count()
        return super().write(fd, data[: len(data) // 2 + 1])  # and never all of it at once

    def fdatasync(self, _):
        self.count()

    def replace(self, source, target):
        self.count()
        super().replace(source, target)

    def sync_directory(self, _):
        self.count()


def test_an_export_that_the_disk_refuses_leaves_no_file_at_any_step(tmp_path):
    home, data = small(tmp_path)
    with opened(home) as plane:
        counting = RefusingDisk(0)
        export_plane(
            plane._engine, tmp_path / "e", Asked(), replace=False, progress=None, disk=counting
        )
        assert (tmp_path / "e").read_bytes() == data
        (tmp_path / "e").unlink()
        before = sorted(tmp_path.iterdir())
        for k in range(1, counting.calls):
            with pytest.raises(WriteError, match="nothing was exported"):
                export_plane(
                    plane._engine, tmp_path / "e", Asked(), replace=False, progress=None,
                    disk=RefusingDisk(k),
                )  # fmt: skip
            assert sorted(tmp_path.iterdir()) == before


def test_a_stream_that_was_overtaken_by_a_repair_has_no_last_line(filled, monkeypatch):
    stream = io.BytesIO()
    with opened(filled) as plane:
        monkeypatch.setattr(plane._log, "matches", lambda _: False)
        with pytest.raises(PlaneError, match="no last line"):
            plane.export(stream)
    refused(stream.getvalue())


def test_the_plane_as_it_was_is_exported_in_parts_only(filled, tmp_path):
    with opened(filled) as plane:
        past = plane.at(5)
        with pytest.raises(HomeError, match="as of seq 5"):
            past.export(tmp_path / "e.jsonl")
        report = past.export(tmp_path / "p.jsonl", redact=True)
    assert report.seq == 5
    assert max(row["seq"] for row in rows(tmp_path / "p.jsonl")) <= 5


def test_reading_an_export_holds_no_more_than_a_part_of_it_at_once(filled, tmp_path):
    exported(filled, tmp_path / "e.jsonl")
    with (tmp_path / "e.jsonl").open("rb") as file:
        sizes = [len(getattr(item, "data", b"")) for item in read_export(file, "e.jsonl")]
    assert sum(sizes) > 1_500_000
    assert max(sizes) <= 1024 * 1024


# --- what was purged ---


def with_secret(home):
    """A plane that holds a text which is to go, as a line, and one that takes a body."""
    with made(home) as plane:
        in_short_segments(plane, 800)
        for n in range(8):
            plane.record(f"line {n}", id=f"m{n}")
        plane.record("the swordfish word", id="gone")
        plane.record("swordfish " * 130_000, id="long")
        for n in range(8, 14):
            plane.record(f"line {n}", id=f"m{n}")
    return home


def test_what_was_purged_is_in_no_export_and_comes_back_by_none(tmp_path):
    home = with_secret(tmp_path / "plane")
    exported(home, tmp_path / "before.jsonl")
    with opened(home) as plane:
        for id_ in ("gone", "long"):
            plane.purge(id_)
        report = plane.export(tmp_path / "e.jsonl")
        plane.export(tmp_path / "part.jsonl", redact=True)
    for name in ("e.jsonl", "part.jsonl"):
        assert b"swordfish" not in (tmp_path / name).read_bytes()
    assert report.damaged == 0
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    assert tree(tmp_path / "back") == tree(home)
    is_well(tmp_path / "back")
    for into in (home, tmp_path / "back"):
        merged = memplane.restore(tmp_path / "before.jsonl", into, clock=clock).merged
        assert (merged.recorded, merged.refusals) == (0, 2)
        assert not any(b"swordfish" in data for data in tree(into, caches=True).values())


def test_a_plane_that_still_holds_what_was_purged_elsewhere_is_told_so(tmp_path):
    home = with_secret(tmp_path / "plane")
    shutil.copytree(home, tmp_path / "older")
    with opened(home) as plane:
        plane.purge("gone")
        plane.export(tmp_path / "e.jsonl")
    merged = memplane.restore(tmp_path / "e.jsonl", tmp_path / "older", clock=clock).merged
    assert (merged.recorded, merged.purged, merged.still_here) == (0, 1, ["gone"])
    with made(tmp_path / "new") as plane:
        plane.record("mine")
    merged = memplane.restore(tmp_path / "e.jsonl", tmp_path / "new", clock=clock).merged
    assert (merged.purged, merged.still_here, merged.refusals) == (1, [], 0)


def purging(home, ids):
    """A `progress` that purges one more event now and then, once lines have been read."""
    left = iter(ids)

    def progress(done, _):
        id_ = next(left, None) if done > 10 else None
        if id_ is not None:
            with opened(home) as other:
                other.purge(id_)

    return progress


def test_a_purge_while_it_is_exported_leaves_nothing_of_the_erased_text(tmp_path):
    home = with_secret(tmp_path / "plane")
    with opened(home) as plane:
        plane.export(tmp_path / "e.jsonl", progress=purging(home, ("gone", "long", "m3")))
    assert b"swordfish" not in (tmp_path / "e.jsonl").read_bytes()
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "back", clock=clock)
    is_well(tmp_path / "back")


def test_a_stream_that_a_purge_overtook_has_no_last_line(tmp_path):
    home = with_secret(tmp_path / "plane")
    stream = io.BytesIO()
    with opened(home) as plane, pytest.raises(PlaneError, match="no last line"):
        plane.export(stream, progress=purging(home, ("gone",)))
    refused(stream.getvalue())


def test_what_an_export_forgets_is_its_own_and_not_what_is_here(plane, tmp_path):
    plane.record("Perl", kind="fact", key="k9", id="theirs")
    plane.forget("k9")
    plane.record("gone with its session", session="s1", id="said")
    plane.forget(session="s1")
    plane.export(tmp_path / "e.jsonl")
    with memplane.init(tmp_path / "other", durability="os") as other:
        other.record("Oracle", kind="fact", key="k10", id="ours")
        other.record("heard here", session="s1", id="heard")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "other")
    memplane.restore(tmp_path / "e.jsonl", tmp_path / "other")
    with memplane.open(tmp_path / "other") as other:
        assert [other.archived(other.event(id_)) is None for id_ in ("ours", "heard")] == [True] * 2
        assert [other.archived(other.event(id_))[0] for id_ in ("theirs", "said")] == [
            "forgotten", "forgotten",
        ]  # fmt: skip
        assert sum(event.kind == "forget" for event in other.events()) == 2
