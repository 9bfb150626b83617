"""GitHub's ledgers: what their records come to, and what a plane writes there and reads again."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane.errors import InputError
from memplane.importers import detect, import_paths, memories
from memplane.upkeep.export import (
    FILES_MAX,
    canonical_json,
    read_ledger,
    record_of_line,
    shards_of,
)

CLAIM = """\
tides: They are read at the pier
because the gauge is there
see docs/tides.md:3-5
votes: 1 up, 0 down"""
WRITTEN = Path(__file__).parent / "programs" / "ledger-1.1"


@pytest.fixture
def checkout(tmp_path):
    """A copy of the ledger of a type, to be changed."""

    def copied(kind):
        return Path(shutil.copytree(WRITTEN / kind, tmp_path / kind))

    return copied


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "branch"
    folder.mkdir()
    return folder


def run(plane, path, **options):
    report = import_paths(plane, "ledger", [path], **options)
    assert report.items == (
        report.events + report.repeated + report.refusals + sum(report.skipped.values())
    )
    return report


def stated(plane):
    """The texts by the last part of their keys."""
    return {key.split("/", 2)[2]: plane.get(key).text for key in plane.keys("ledger/")}


def shard_of(folder):
    return next((folder / "ledger" / "shards").glob("*.jsonl"))


def state_of(folder):
    return read_ledger(shards_of(folder))


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("map", ["boathouse.opens: at eight"]),
        ("table", [
            'Gull: {"berth": "4", "boat": "Gull", "owner": "Mira"}',
            'Tern: {"berth": "5", "boat": "Tern", "owner": "Jon"}',
        ]),
        ("set", ["oak"]),
        ("counter", ["visits: 2"]),
        ("claims", [CLAIM]),
        ("log", ["Always answer in verse"]),
    ],
)  # fmt: skip
def test_the_operations_of_each_type_come_to_what_the_ledger_holds(plane, kind, texts):
    report = run(plane, WRITTEN / kind)
    assert report.refusals == 0
    found = list(stated(plane).values())
    assert [text for text in texts if text not in found] == []
    if kind == "map":
        assert any(text.startswith("bell: left of the door\n9: 2\n10: 1\n") for text in found)
    elif kind == "log":
        assert any('"severity": 2' in text for text in found)
    else:
        assert sorted(found) == sorted(texts)
    assert run(plane, WRITTEN / kind, full=True).events == 0


def test_records_that_github_wrote_are_whole_and_in_its_order():
    """The order is what its store gave for the same files."""
    orders = {
        "map": "940cfe 07b2e3 054984 e70f81 6048e4",
        "table": "4e1b44 785e40 9a2193",
        "log": "33c490 57eca6",
    }
    for kind, order in orders.items():
        state = state_of(WRITTEN / kind)
        assert state.faults == ()
        assert " ".join(record.sha[7:13] for record in state.records) == order


def test_a_ledger_is_told_by_its_records_whichever_of_its_shards_is_named(plane, checkout):
    folder = checkout("map")
    assert detect(shard_of(folder)) == "ledger"
    report = import_paths(plane, None, [folder])
    assert {file.source for file in report.per_file} == {"ledger"}
    assert report.events == 2
    assert import_paths(plane, None, [folder]).events == 0
    assert import_paths(plane, None, [folder]).unchanged == report.files


def test_what_a_ledger_holds_no_longer_is_archived_and_a_new_shard_is_news(
    plane, tmp_path, checkout
):
    folder = checkout("map")
    run(plane, folder)
    with memplane.init(tmp_path / "other", trusted=False) as other:
        other.record("blue since May", kind="fact", key="slipway")
        other.upkeep.export_ledger(folder)
    assert run(plane, folder).events == 1
    assert stated(plane)["slipway"] == "blue since May"
    with memplane.init(tmp_path / "other", trusted=False) as other:
        other.forget(key="slipway")
        other.upkeep.export_ledger(folder)
    assert run(plane, folder).archived == 1
    assert "slipway" not in stated(plane)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda line: line.replace(b"at seven", b"at eight"), "invalid-sha"),
        (lambda line: line.replace(b'"version":1', b'"version":2'), "unsupported-version"),
        (lambda line: line.replace(b",", b", ", 1), "invalid-envelope"),
        (lambda line: line[:-5], "invalid-json"),
        (lambda _: b"[" * 100_000, "invalid-json"),
        (lambda _: b'"text"', "invalid-envelope"),
        (lambda line: line.replace(b"ldg-", b"LDG-"), "invalid-envelope"),
        (lambda line: line.replace(b'"version":1', b'"version":NaN'), "invalid-json"),
        (lambda line: b"\xff" + line, "invalid-json"),
    ],
)
def test_a_line_that_is_not_exactly_a_record_is_named_and_passed_over(
    plane, checkout, change, code
):
    folder = checkout("map")
    path = min(
        (folder / "ledger" / "shards").iterdir(), key=lambda one: "seven" not in one.read_text()
    )
    lines = path.read_bytes().split(b"\n")
    at = next(number for number, line in enumerate(lines) if b"at seven" in line)
    lines[at] = change(lines[at])
    path.write_bytes(b"\n".join(lines))
    state = state_of(folder)
    assert [(fault.code, fault.line) for fault in state.faults] == [(code, at + 1)]
    assert len(state.records) == 4
    report = run(plane, folder)
    assert report.skipped == {f"record refused: {code}": 1}
    assert "boathouse.opens: at eight" in stated(plane).values()
    with pytest.raises(InputError, match=code):
        plane.upkeep.export_ledger(folder)


def test_nothing_is_archived_by_a_ledger_that_cannot_be_read_whole(plane, checkout):
    folder = checkout("map")
    run(plane, folder)
    shards = sorted((folder / "ledger" / "shards").iterdir())
    for path in shards:
        if b"seven" not in path.read_bytes():
            path.write_bytes(b"{broken\n")
    assert run(plane, folder).archived == 0


def test_links_large_files_and_many_are_passed_over(tmp_path, checkout):
    folder = checkout("set")
    shards = shards_of(folder)
    elsewhere = tmp_path / "elsewhere.jsonl"
    shutil.copyfile(shard_of(folder), elsewhere)
    link = shards / "00000000-0000-4000-8000-000000000000.jsonl"
    link.symlink_to(elsewhere)
    large = shards / "00000000-0000-4000-8000-000000000001.jsonl"
    with large.open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    (shards / "notes.jsonl").write_text("{}\n")
    state = state_of(folder)
    assert sorted((fault.code, fault.file[-8:]) for fault in state.faults) == [
        ("invalid-envelope", "00.jsonl"), ("invalid-envelope", "es.jsonl"),
        ("too-large", "01.jsonl"),
    ]  # fmt: skip
    assert len(state.records) == 3
    for number in range(FILES_MAX + 1):
        (shards / f"x{number}.jsonl").touch()
    assert state_of(folder).faults[0].code == "too-many-files"


def test_branches_that_were_merged_are_one_ledger_and_its_next_record_follows_both(tmp_path, empty):
    with memplane.init(tmp_path / "one", trusted=False) as plane:
        plane.record("at seven", kind="fact", key="opens")
        plane.upkeep.export_ledger(empty)
    branch = Path(shutil.copytree(empty, tmp_path / "branch2"))
    for number, folder in enumerate((empty, branch)):
        with memplane.init(tmp_path / f"p{number}", trusted=False) as plane:
            plane.record(f"of branch {number}", kind="fact", key=f"k{number}")
            plane.upkeep.export_ledger(folder)
    shutil.copytree(branch, empty, dirs_exist_ok=True)
    merged = state_of(empty)
    assert (len(merged.records), len(merged.heads), merged.faults) == (3, 2, ())
    with memplane.init(tmp_path / "p0", trusted=False) as plane:
        plane.record("and more", kind="fact", key="k2")
        plane.upkeep.export_ledger(empty)
    state = state_of(empty)
    assert state.records[-1].parents == merged.heads
    assert len(state.heads) == 1


# What a plane writes.


def test_memories_that_hold_are_put_once_and_what_changed_again(plane, empty):
    plane.record("at seven", kind="fact", key="opens", tags=["harbour"])
    plane.record("the bell hangs left", kind="observation")
    plane.record("only said", kind="message", role="user")
    first = plane.upkeep.export_ledger(empty)
    assert (first.put, first.deleted, first.unchanged, first.files) == (2, 0, 0, 1)
    again = plane.upkeep.export_ledger(empty)
    assert (again.put, again.unchanged, again.files) == (0, 2, 0)
    plane.record("at eight", kind="fact", key="opens")
    assert plane.upkeep.export_ledger(empty).put == 1
    plane.forget(key="opens")
    report = plane.upkeep.export_ledger(empty)
    assert (report.put, report.deleted, report.unchanged) == (0, 1, 1)
    operations = [record.payload["operation"] for record in state_of(empty).records]
    assert operations == ["put", "put", "put", "delete"]
    value = state_of(empty).records[0].payload["value"]
    assert value["text"] == "at seven"
    assert value["tags"] == ["harbour"]


def test_what_is_sensitive_private_or_of_others_does_not_leave(plane, empty):
    token = "ghp_" + "a1B2" * 9
    plane.record("tabs, always", kind="preference", key="style")
    plane.record("never on Fridays", kind="rule", key="deploy")
    plane.record("the code is quagga-4711", kind="fact", key="door", sensitivity="high")
    plane.record(f"the token is {token}", kind="fact", key="token")
    plane.record("Jon said so", kind="fact", key="jon", actor="person:Jon", role=None)
    run(plane, WRITTEN / "set")
    report = plane.upkeep.export_ledger(empty)
    assert report.withheld["preference of the user's"] == 1
    assert report.withheld["rule of the user's"] == 1
    assert report.withheld["from a ledger"] == 1
    whole = b"".join(path.read_bytes() for path in shards_of(empty).iterdir())
    for word in (b"tabs", b"Fridays", b"quagga-4711", token.encode(), b"oak"):
        assert word not in whole


def test_a_part_that_is_exported_deletes_nothing(plane, empty):
    plane.record("at seven", kind="fact", key="opens")
    plane.record("chosen", kind="decision", key="lock")
    plane.upkeep.export_ledger(empty)
    plane.forget(key="opens")
    assert plane.upkeep.export_ledger(empty, kind="decision").deleted == 0


def test_what_this_plane_exported_does_not_come_back_to_it_and_another_takes_it(
    plane, tmp_path, empty
):
    plane.record("at seven", kind="decision", key="opens", tags=["harbour"])
    plane.upkeep.export_ledger(empty)
    assert run(plane, empty).skipped == {"exported by this plane": 1}
    with memplane.init(tmp_path / "other", trusted=False) as other:
        assert run(other, empty).events == 1
        (event,) = (other.get(key) for key in other.keys("ledger/"))
        assert (event.kind, event.text, event.said_by) == ("fact", "at seven", "agent")
        assert event.tags == ("harbour",)


def test_a_text_that_is_too_long_for_a_record_stays_and_many_fill_several_files(plane, empty):
    plane.record("x" * 40_000, kind="fact", key="long")
    for number in range(30):
        plane.record(f"{number} " + "y" * 5_000, kind="fact", key=f"k{number}")
    report = plane.upkeep.export_ledger(empty)
    assert (report.put, report.withheld) == (30, {"too long": 1})
    sizes = [path.stat().st_size for path in shards_of(empty).iterdir()]
    assert len(sizes) == report.files == 2
    assert max(sizes) <= 100 * 1024
    assert len(state_of(empty).records) == 30


def test_a_folder_of_links_is_not_written_into(plane, tmp_path, empty):
    (tmp_path / "there").mkdir()
    (empty / "ledger").symlink_to(tmp_path / "there")
    plane.record("at seven", kind="fact", key="opens")
    with pytest.raises(InputError):
        plane.upkeep.export_ledger(empty)
    assert list((tmp_path / "there").iterdir()) == []
    with pytest.raises(InputError, match="expected a folder"):
        plane.upkeep.export_ledger(tmp_path / "nowhere")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(values)
def test_canonical_json_is_json_and_the_same_for_the_same_value(value):
    written = canonical_json(value)
    assert json.loads(written) == value
    assert canonical_json(json.loads(written)) == written


def test_canonical_json_has_names_in_the_order_of_javascript():
    value = {
        "b": 1,
        "10": 2,
        "9": 3,
        "\uffff": 4,
        "\U00010000": 5,
        "01": 6,
        "a\ud800": "\ud800\x7f",
    }
    assert canonical_json(value) == (
        '{"9":3,"10":2,"01":6,"a\\ud800":"\\ud800\x7f","b":1,"\U00010000":5,"\uffff":4}'
    )


@given(st.binary(max_size=200))
def test_any_line_is_a_record_or_has_a_fault(line):
    assert isinstance(record_of_line(line), str)


def test_a_ledger_is_the_same_wherever_it_lies(plane, tmp_path, checkout):
    run(plane, checkout("claims"))
    shutil.copytree(WRITTEN / "claims", tmp_path / "again" / "deep")
    assert run(plane, tmp_path / "again").events == 0
    assert len(memories.first_shards(tmp_path / "again")) == 1
    (tmp_path / "again").rename(tmp_path / "moved")
    assert run(plane, tmp_path / "moved").archived == 0
