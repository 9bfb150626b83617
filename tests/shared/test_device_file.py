"""A device's file is read whole or refused whole, and what is refused is named."""

import json

import pytest
from builders_folders import files_in, made, written
from builders_hostile_files import HOSTILE, PLACES, hostile_line
from hypothesis import given, strategies as st

from memplane.errors import InputError
from memplane.shared.device_file import (
    ENTRY_BYTES_MAX,
    DeviceLines,
    FilePlace,
    RefusedFileError,
    check_device_name,
    device_of,
    erase_lines,
    ids_in,
    read_device,
)

DEVICE = "0123456789abcdef"
ENTRIES = ({"text": "one"}, {"text": "two", "key": "k"}, {"text": "three"})


def read(folder, seen=None):
    found = []
    answer = read_device(
        f"{folder}/{DEVICE}.jsonl", seen, check=lambda entry, _: found.append(entry)
    )
    return answer, found


def changed(folder, change):
    path = folder / f"{DEVICE}.jsonl"
    path.write_bytes(change(path.read_bytes()))


def test_what_is_written_is_read(tmp_path):
    written(tmp_path, entries=ENTRIES)
    answer, found = read(tmp_path)
    assert [one.row["text"] for one in found] == ["one", "two", "three"]
    assert answer.header == (DEVICE, "01PLANE", "theirs")
    assert (answer.events, answer.first, answer.last) == (3, "2026-01-01", "2026-01-03")
    assert read(tmp_path, answer.end)[1] == []


@given(st.text(max_size=60), st.integers(0, 3))
def test_every_text_comes_back_whatever_its_length(tmp_path_factory, text, longer):
    folder = tmp_path_factory.mktemp("texts")
    whole = "x" + text.encode("utf-8", "replace").decode().replace("\0", "") * (1 + longer * 9000)
    written(folder, entries=[{"text": whole}])
    _, found = read(folder)
    assert found[0].row["text"] == whole


def test_a_long_text_stands_in_parts_that_no_line_is_longer_for(tmp_path):
    whole = "aé\x01" * 400_000
    written(tmp_path, entries=[{"text": whole}])
    _, found = read(tmp_path)
    assert found[0].row["text"] == whole
    lines = (tmp_path / f"{DEVICE}.jsonl").read_bytes().split(b"\n")
    assert max(map(len, lines)) < ENTRY_BYTES_MAX
    assert len(lines) > 5


def test_bytes_behind_the_last_newline_are_on_their_way(tmp_path):
    written(tmp_path, entries=ENTRIES)
    whole = read(tmp_path)[0]
    changed(tmp_path, lambda data: data + b'{"seq":5,"id":"e9"')
    assert read(tmp_path)[0] == whole


def test_a_text_whose_event_is_not_there_yet_waits(tmp_path):
    written(tmp_path, entries=[{"text": "one"}, {"text": "y" * 600_000}])
    path = tmp_path / f"{DEVICE}.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b'{"seq":')])
    half, found = read(tmp_path)
    assert [one.row["text"] for one in found] == ["one"]
    assert half.end.lines == 2
    path.write_bytes(data)
    assert [one.row["text"] for one in read(tmp_path, half.end)[1]] == ["y" * 600_000]


def test_a_change_of_any_byte_is_found(tmp_path):
    written(tmp_path, entries=ENTRIES)
    path = tmp_path / f"{DEVICE}.jsonl"
    data = path.read_bytes()
    for at in range(0, len(data) - 1, 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(RefusedFileError):
            read(tmp_path)


def test_a_file_that_was_rewritten_behind_what_was_read_is_refused(tmp_path):
    written(tmp_path, entries=ENTRIES)
    seen = read(tmp_path)[0].end
    written(tmp_path, entries=[*ENTRIES[:2], {"text": "thee!"}, {"text": "four"}])
    with pytest.raises(RefusedFileError, match="rewritten: line 4"):
        read(tmp_path, seen)


def test_a_shortened_file_is_refused(tmp_path):
    written(tmp_path, entries=ENTRIES)
    seen = read(tmp_path)[0].end
    written(tmp_path, entries=ENTRIES[:2])
    with pytest.raises(RefusedFileError, match="shortened: 3 lines, 4 were read before"):
        read(tmp_path, seen)


def test_tombstones_are_taken_where_a_purge_names_them_alone(tmp_path):
    lines = DeviceLines(DEVICE, FilePlace())
    written(tmp_path, entries=ENTRIES)
    seen = read(tmp_path)[0].end
    path = f"{tmp_path}/{DEVICE}.jsonl"
    assert erase_lines(path, f"{path}.new", DEVICE, {"e1"}) == 1
    with pytest.raises(RefusedFileError, match="line 3 was erased, and no purge"):
        read(tmp_path, seen)
    with pytest.raises(RefusedFileError, match="line 3 was erased, and no purge"):
        read(tmp_path)
    lines = DeviceLines(DEVICE, seen)
    changed(tmp_path, lambda data: data + lines.purge("p1", ["e1"]))
    answer, found = read(tmp_path, seen)
    assert [one.ids for one in found] == [("e1",)]
    assert answer.purged == {"e1"}
    assert read(tmp_path, answer.end)[1] == []
    assert b"two" not in (tmp_path / f"{DEVICE}.jsonl").read_bytes()
    assert ids_in(path) == {DEVICE, "e0", "e2", "p1"}


def test_erasing_again_changes_nothing(tmp_path):
    written(tmp_path, entries=ENTRIES)
    path = f"{tmp_path}/{DEVICE}.jsonl"
    erase_lines(path, f"{path}.new", DEVICE, {"e1"})
    before = files_in(tmp_path)
    assert erase_lines(path, f"{path}.new", DEVICE, {"e1"}) == 0
    assert files_in(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == [f"{DEVICE}.jsonl"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_with_one_hostile_line_is_refused_whole(tmp_path, name):
    said, why = HOSTILE[name]
    written(tmp_path, entries=[hostile_line(said)])
    with pytest.raises(RefusedFileError) as refused:
        read(tmp_path)
    assert why in str(refused.value)
    assert str(refused.value).startswith(f"{DEVICE}.jsonl: ")
    assert str(refused.value).isprintable()


def test_nothing_is_given_before_a_hostile_line_was_looked_for_by_who_looks_first(tmp_path):
    written(tmp_path, entries=[hostile_line(HOSTILE["a segment"][0])])
    with pytest.raises(RefusedFileError):
        read_device(f"{tmp_path}/{DEVICE}.jsonl")


FIRST = {
    "another device": ({"id": "f" * 16}, "is of device"),
    "a newer format": ({"device": {"format": 2, "plane": "p", "name": "x"}}, "upgrade memplane"),
    "no format": ({"device": {"plane": "p", "name": "x"}}, "not the header"),
    "a name with escapes": (
        {"device": {"format": 1, "plane": "p", "name": "\x1b[31mx"}}, "expected a name",
    ),
    "a name like a label": (
        {"device": {"format": 1, "plane": "p", "name": "rules: x"}}, "expected a name",
    ),
    "more than a header": (
        {"device": {"format": 1, "plane": "p", "name": "x", "hook": "sh"}}, "not the header",
    ),
    "an event in its place": ({"device": None}, "not the header"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_a_file_with_a_hostile_header_is_refused(tmp_path, name):
    change, why = FIRST[name]
    lines = DeviceLines(DEVICE, FilePlace())
    said = {"device": {"format": 1, "plane": "p", "name": "x"}, **change}
    id_ = said.pop("id", DEVICE)
    (tmp_path / f"{DEVICE}.jsonl").write_bytes(lines.line(id_, said))
    with pytest.raises(RefusedFileError) as refused:
        read(tmp_path)
    assert why in str(refused.value)
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_device_file_is_refused(tmp_path, name):
    PLACES[name](tmp_path / f"{DEVICE}.jsonl")
    with pytest.raises(RefusedFileError):
        read(tmp_path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / f"{DEVICE}.jsonl"
    with path.open("wb") as file:
        file.truncate(1024 * 1024 * 1024 + 1)
    with pytest.raises(RefusedFileError, match="expected at most"):
        read(tmp_path)


def test_deep_json_in_a_line_that_chains_is_refused(tmp_path):
    lines = DeviceLines(DEVICE, FilePlace())
    data = lines.header(DEVICE, "p", "x")
    from memplane.log.segments import chain_hash

    body = b'{"seq":2,"id":"e0","event":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    line = body + b',"h":"' + chain_hash(lines.place.h.encode(), body) + b'"}\n'
    (tmp_path / f"{DEVICE}.jsonl").write_bytes(data + line)
    with pytest.raises(RefusedFileError, match="line 2"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["", " x", "x ", "a:b", "a(b)", "x" * 65, "a\nb", "\u202ex", 3])
def test_a_name_that_could_pass_for_something_else_is_refused(name):
    with pytest.raises(InputError):
        check_device_name(name)


@pytest.mark.parametrize("name", ["Ann", "Jörg's laptop", "build-7", "anna@work"])
def test_usual_names_are_taken(name):
    assert check_device_name(name) == name


def test_only_files_of_devices_are_looked_at():
    assert device_of(f"{DEVICE}.jsonl") == DEVICE
    for name in ("README.md", ".git", f"{DEVICE}.sync-conflict-1.jsonl", "x.jsonl", DEVICE):
        assert device_of(name) is None


def test_what_a_plane_writes_is_what_a_reader_takes(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with made(tmp_path / "p") as plane:
        plane.record("hello", kind="fact", key="greeting", tags=["a"], data={"n": 1})
        report = plane.upkeep.sync(folder, name="me")
        found = read_device(f"{folder}/{report.device}.jsonl")
    assert (found.events, found.header.name) == (1, "me")
    row = json.loads((folder / f"{report.device}.jsonl").read_text().splitlines()[1])["event"]
    assert (row["text"], row["key"], row["tags"]) == ("hello", "greeting", ["a"])
