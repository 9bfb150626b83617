"""Finding lines in bytes: what stands there is found, and nothing is made up."""

from builders_damaged_logs import draft, opened
from hypothesis import given, strategies as st

from memplane.log.reader import line_of_seq, may_hold_id
from memplane.log.segments import runs

IDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    min_size=1, max_size=20, unique=True,
)  # fmt: skip


def bytes_of(tmp_path_factory, ids):
    home = tmp_path_factory.mktemp("searched")
    with opened(home, "demo") as log:
        log.append([draft(id_, "word " * (n * n)) for n, id_ in enumerate(ids)])
    return (home / "log" / "00000001.jsonl").read_bytes()


@given(IDS)
def test_every_line_of_a_segment_is_found_by_its_seq_and_its_id(tmp_path_factory, ids):
    data = bytes_of(tmp_path_factory, ids)
    (run,) = runs(data, 0, 0, data[data.index(b'"prev_h":"') + 10 :][:16])
    ends = [*run.starts[1:], run.end]
    for seq, (start, end) in enumerate(zip(run.starts, ends, strict=True), run.first):
        assert line_of_seq(data, seq) == (seq, start, end - start)
    assert line_of_seq(data, 0) is None
    assert line_of_seq(data, run.last + 1) is None
    assert all(may_hold_id(data, id_) for id_ in ids)
    assert not may_hold_id(data, "an id that nobody gave")


@given(st.binary(max_size=300), st.integers(0, 99))
def test_of_any_bytes_a_line_that_is_found_begins_with_its_seq(data, seq):
    found = line_of_seq(data, seq)
    if found is not None:
        line = data[found.offset : found.offset + found.length]
        assert line.startswith(b'{"seq":')
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1


def test_a_few_look_ups_read_the_last_segment_once_and_make_no_table(tmp_path, monkeypatch):
    with opened(tmp_path, "demo") as log:
        log.append([draft(f"m{n}") for n in range(50)])
    with opened(tmp_path, "demo", read_only=True) as log:
        places = log._reader._places
        assert log.find("nobody") is None
        assert [log.line(seq).event.id for seq in range(2, 40)] == [f"m{n}" for n in range(38)]
        assert not places.has_table
        assert log.find("m7").event.text == "hello"  # one that is there is verified
        assert places.has_table
