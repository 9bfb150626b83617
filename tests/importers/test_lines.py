import gzip

from hypothesis import given, strategies as st

from memplane.importers.records import files_below, parse_records, read_lines


def lines(path, content, **options):
    path.write_bytes(content)
    return list(read_lines(path, **options))


def test_a_line_says_where_it_ends_and_whether_its_newline_was_there(tmp_path):
    found = lines(tmp_path / "a", b"one\ntwo")
    assert [(line.number, line.body, line.end, line.whole) for line in found] == [
        (1, b"one", 4, True),
        (2, b"two", 7, False),
    ]


def test_reading_goes_on_behind_an_offset(tmp_path):
    assert [line.body for line in lines(tmp_path / "a", b"one\ntwo\n", offset=4)] == [b"two"]


def test_an_overlong_line_is_passed_over_and_the_next_one_read(tmp_path):
    found = lines(tmp_path / "a", b"x" * 5000 + b"\nshort\n", limit=100)
    assert [(line.fault, line.body, line.end) for line in found] == [
        ("overlong", b"", 5001),
        ("", b"short", 5007),
    ]


def test_gzip_is_told_by_its_bytes_and_not_by_its_name(tmp_path):
    assert [line.body for line in lines(tmp_path / "a.jsonl", gzip.compress(b"one\ntwo\n"))] == [
        b"one",
        b"two",
    ]
    assert [line.body for line in lines(tmp_path / "b.gz", b"one\n")] == [b"one"]


def test_a_gzip_file_that_was_cut_gives_what_it_holds_and_ends_damaged(tmp_path):
    text = b"".join(b"line %d of a long enough text\n" % number for number in range(20000))
    found = lines(tmp_path / "a.gz", gzip.compress(text, 0)[: len(text) // 2])
    assert found[-1].fault == "damaged"
    assert len(found) > 5000
    assert b"".join(line.body + b"\n" for line in found[:-1]) == text[: found[-1].end]


def test_a_folder_is_read_by_path(tmp_path):
    for made in ("b.jsonl", "a/z.jsonl.gz", "a/x.json", "note.txt"):
        (tmp_path / made).parent.mkdir(exist_ok=True)
        (tmp_path / made).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path)]
    assert found == ["a/x.json", "a/z.jsonl.gz", "b.jsonl"]


def test_records_whose_newline_was_lost_are_all_found():
    assert parse_records(b'{"a":1}{"b":2} {"c":3}') == (({"a": 1}, {"b": 2}, {"c": 3}), False)
    assert parse_records(b'{"a":1}{"b":') == (({"a": 1},), True)


def test_what_is_no_object_is_broken():
    for body in (b"[1]", b"7", b"{", b"", b"null", b"[" * 100_000, b'{"a":' * 100_000):
        assert parse_records(body) == ((), True)


def test_bad_characters_do_not_cost_the_line():
    assert parse_records(b'\xef\xbb\xbf{"a":"x\xff"}') == (({"a": "x\ufffd"},), False)
    assert parse_records(b'{"a":"\\ud800"}') == (({"a": "\ud800"},), False)


@given(st.binary(max_size=300))
def test_any_bytes_can_be_parsed(body):
    records, broken = parse_records(body)
    assert records or broken
    assert all(isinstance(record, dict) for record in records)
