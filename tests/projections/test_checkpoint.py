"""The checkpoint file: written whole, believed only when everything fits."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from builders_journal import Journal
from hypothesis import given, settings, strategies as st

from memplane.ports import Position
from memplane.projections.ledger import Decisions
from memplane.projections.projector import (
    BUNDLE,
    FILE_BYTES_MAX,
    Bundle,
    Checkpoint,
    Folded,
    alone,
    encode_checkpoint,
    parse_checkpoint,
    read_checkpoint,
)
from tests.examples import examples


class Later(Decisions):
    version = Decisions.version + 1


ROWS = [{"kind": "decision", "text": f"decision {n}", "key": f"k{n % 7}"} for n in range(30)]
WHOLE = Checkpoint(
    "decisions", 1, "plane", 'a "variant", é', Position(7, "ab" * 8, 2, 400), b'{"items":[]}'
)


def folded(journal, folder, projector=None, **options):
    return Folded(projector or Decisions(), journal, folder, **{"plane": "plane", **options})


def saved(journal, folder, **options):
    one = folded(journal, folder, **options)
    one.catch_up()
    assert one.save()
    return one


def bytes_of(one):
    return one.projector.dump(one.state)


def test_a_saved_projection_opens_where_it_stood_and_reads_only_what_is_new(tmp_path):
    journal = Journal(ROWS)
    before = saved(journal, tmp_path)
    journal.extend(ROWS[:3])
    after = folded(journal, tmp_path)
    assert (after.position, bytes_of(after)) == (before.position, bytes_of(before))
    assert after.catch_up() == 3
    assert bytes_of(after) == bytes_of(saved(journal, None or tmp_path / "other"))


def test_the_file_holds_what_its_format_says_and_only_its_owner_reads_it(tmp_path):
    journal = Journal(ROWS)
    saved(journal, tmp_path, variant="bound/1")
    path = tmp_path / "decisions.json"
    fields = json.loads(path.read_bytes())
    head = journal.head()
    assert list(fields) == [
        "projector",
        "version",
        "plane",
        "variant",
        "segment",
        "offset",
        "seq",
        "h",
        "state",
        "checksum",
    ]
    assert [fields[k] for k in ("projector", "version", "plane", "variant")] == [
        "decisions",
        Decisions.version,
        "plane",
        "bound/1",
    ]
    assert Position(fields["seq"], fields["h"], fields["segment"], fields["offset"]) == head
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "decisions.json"]


def harm(change):
    return lambda path, _: path.write_bytes(change(path.read_bytes()))


def other(**options):
    def write(path, journal):
        path.unlink()
        saved(options.pop("journal", journal), path.parent, **options)

    return write


FAULTS = {
    "missing": lambda path, _: path.unlink(),
    "empty": harm(lambda _: b""),
    "torn": harm(lambda data: data[: len(data) // 2]),
    "last byte torn": harm(lambda data: data[:-1]),
    "grown": harm(lambda data: data + b"\n"),
    "zeroed": harm(lambda data: bytes(len(data))),
    "half zeroed": harm(lambda data: data[:500] + bytes(len(data) - 500)),
    "one bit": harm(lambda data: data[:600] + bytes([data[600] ^ 1]) + data[601:]),
    "no JSON": harm(lambda _: b"\xff\xfe not ours"),
    "too large": harm(lambda data: data + b" " * FILE_BYTES_MAX),
    "a folder": lambda path, _: (path.unlink(), path.mkdir()),
    "another plane": other(plane="elsewhere"),
    "another variant": other(variant="o200k"),
    "another version": other(projector=Later()),
    "another log": other(journal=Journal(ROWS[::-1])),
    "ahead of the log": lambda _, journal: journal.cut(20),
    "a state of another form": lambda path, journal: path.write_bytes(
        encode_checkpoint(
            Checkpoint("decisions", 1, "plane", "", journal.head(), b'{"items":[[1,2]]}')
        )
    ),
    "a state that is no JSON": lambda path, journal: path.write_bytes(
        encode_checkpoint(Checkpoint("decisions", 1, "plane", "", journal.head(), b"what"))
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_checkpoint_that_cannot_be_believed_is_dropped_and_rebuilt(tmp_path, fault):
    journal = Journal(ROWS)
    saved(journal, tmp_path)
    FAULTS[fault](tmp_path / "decisions.json", journal)
    one = folded(journal, tmp_path)
    assert one.position is None
    assert one.catch_up() == len(journal.lines)
    assert bytes_of(one) == bytes_of(saved(journal, tmp_path / "afresh"))
    assert one.save()
    assert folded(journal, tmp_path).position == journal.head()


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_parsed_to_what_was_written_or_to_nothing(junk, at):
    data = encode_checkpoint(WHOLE)
    assert parse_checkpoint(data) == WHOLE
    assert parse_checkpoint(junk) is None
    broken = data[:at] + junk + data[at + len(junk) :]
    assert parse_checkpoint(broken) in (None, WHOLE)
    assert (parse_checkpoint(broken) == WHOLE) == (broken == data)


@settings(max_examples=examples(16))
@given(st.text(), st.text(), st.text())
def test_no_name_can_be_mistaken_for_the_state(projector, plane, variant):
    for text in ('x,"state":{}', variant):
        one = WHOLE._replace(projector=projector, plane=plane, variant=text)
        assert parse_checkpoint(encode_checkpoint(one)) == one


def test_an_older_state_never_replaces_a_newer_one_but_the_log_that_was_cut_does(tmp_path):
    journal = Journal(ROWS)
    slow = folded(journal, tmp_path)
    slow.catch_up()
    journal.extend(ROWS)
    saved(journal, tmp_path)
    assert slow.save()
    assert read_checkpoint(tmp_path / "decisions.json").position == journal.head()
    journal.cut(10)
    journal.extend([{"text": "another turn"}])
    slow.catch_up()
    assert slow.save()
    assert read_checkpoint(tmp_path / "decisions.json").position == journal.head()


def test_nothing_is_written_while_another_holds_the_lock_or_where_nothing_was_folded(tmp_path):
    one = folded(Journal(), tmp_path)
    assert not one.save()
    one = folded(Journal(ROWS), tmp_path)
    one.catch_up()
    with alone(tmp_path) as held:
        assert held
        assert not one.save()
        with alone(tmp_path) as twice:
            assert not twice
    assert not (tmp_path / "decisions.json").exists()
    assert one.save()


def test_a_home_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "no" / "where", None):
        one = folded(Journal(ROWS), folder)
        assert one.catch_up() == len(ROWS)
        assert not one.save()
        assert one.unsaved == len(ROWS)


@pytest.mark.skipif(os.getuid() == 0, reason="root writes anywhere")
def test_a_folder_without_write_permission_is_no_error(tmp_path):
    folder = tmp_path / "projections"
    folder.mkdir(mode=0o500)
    one = folded(Journal(ROWS), folder)
    one.catch_up()
    assert not one.save()


def in_process(*arguments):
    script = Path(__file__).with_name("process_saver.py")
    return subprocess.Popen([sys.executable, str(script), *map(str, arguments)])


def test_a_full_disk_keeps_the_old_checkpoints_and_is_no_error(tmp_path):
    saved(Journal(ROWS[:3]), tmp_path)
    before = read_checkpoint(tmp_path / "decisions.json")
    assert in_process("full", tmp_path).wait() == 0
    assert read_checkpoint(tmp_path / "decisions.json") == before
    assert not list(tmp_path.glob("*.tmp"))


def test_processes_that_save_at_once_leave_whole_files_of_one_of_them(tmp_path):
    processes = [in_process("save", tmp_path) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert read_checkpoint(tmp_path / "decisions.json") is not None
    assert in_process("check", tmp_path).wait() == 0


def test_bytes_do_not_depend_on_the_hash_seed(tmp_path):
    for seed in "01":
        folder = tmp_path / seed
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{Path(__file__).parents[2]}",
        }
        subprocess.run(
            [sys.executable, str(Path(__file__).parent / "process_saver.py"), "once", str(folder)],
            env=env,
            check=True,
        )
    assert (tmp_path / "0/decisions.json").read_bytes() == (
        tmp_path / "1/decisions.json"
    ).read_bytes()
    assert (tmp_path / "0/memories.dump").read_bytes() == (
        tmp_path / "1/memories.dump"
    ).read_bytes()


@pytest.fixture
def bundled(tmp_path):
    """Two checkpoints and a bundle of them."""
    for name in ("decisions", "cards"):
        mine = Checkpoint(name, 1, "plane", "", Position(3, "ab" * 8, 1, 90), b'{"a":1}')
        (tmp_path / f"{name}.json").write_bytes(encode_checkpoint(mine))
    Bundle(tmp_path, "plane", NAMES).keep()
    return tmp_path


NAMES = ("decisions.json", "cards.json", "absent.json")


def of_bundle(folder, plane="plane"):
    bundle = Bundle(folder, plane, NAMES)
    return [bundle.read(folder / name) for name in NAMES], bundle.missed


def test_a_bundle_says_what_its_files_say(bundled):
    assert of_bundle(bundled) == ([read_checkpoint(bundled / name) for name in NAMES], False)


@pytest.mark.parametrize("change", ["other", "removed", "touched"])
def test_a_copy_stands_for_its_file_only_while_that_has_not_changed(bundled, change):
    path = bundled / "cards.json"
    other = read_checkpoint(path)._replace(state=b'{"a":22}')
    if change == "other":
        path.write_bytes(encode_checkpoint(other))
    elif change == "removed":
        path.unlink()
    else:
        os.utime(path, ns=(1, 1))
    found, missed = of_bundle(bundled)
    assert found[1] == read_checkpoint(path)
    assert missed == (change != "removed")
    Bundle(bundled, "plane", NAMES).keep()
    assert of_bundle(bundled) == (found, False)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"[]\n", b'{"plane":"plane","files":{"cards.json":[1]}}\n', b"\xff" * 99]
)
def test_a_harmed_bundle_costs_a_look_at_each_file(bundled, data):
    (bundled / BUNDLE).write_bytes(data)
    found, missed = of_bundle(bundled)
    assert found == [read_checkpoint(bundled / name) for name in NAMES]
    assert missed


def test_a_bundle_of_another_plane_and_a_harmed_copy_are_not_believed(bundled):
    assert of_bundle(bundled, "another")[1]
    data = (bundled / BUNDLE).read_bytes()
    (bundled / BUNDLE).write_bytes(data.replace(b'{"a":1}', b'{"a":2}'))
    assert of_bundle(bundled) == ([read_checkpoint(bundled / name) for name in NAMES], True)
