"""A log whose only segment lost its lines is not begun anew without a word."""

import pytest

import memplane


@pytest.fixture
def lost(tmp_path):
    """A plane whose projections know of more than its log has: the segment's bytes are gone."""
    home = tmp_path / "home"
    with memplane.init(home) as plane:
        for n in range(5):
            plane.record(f"the heron stands on leg {n}")
        plane.upkeep.rebuild()
    return home


@pytest.mark.parametrize("left", [b"", b"\0" * 4096, b"not a line\n", b'{"seq":1,"id":"cut sho'])
def test_an_append_refuses_until_a_repair_has_recorded_the_loss(lost, run, left):
    segment = lost / "log" / "00000001.jsonl"
    segment.write_bytes(left)
    refused = run("--home", lost, "record", "new")
    assert refused.code == 3
    assert "holds no line" in refused.err
    assert "memplane repair" in refused.err
    assert segment.read_bytes() == left
    told = run("--home", lost, "repair")
    assert (told.code, "recorded as lost" in told.out) == (0, True)
    assert run("--home", lost, "record", "new").code == 0
    assert run("--home", lost, "verify").code == 0
    aside = (lost / "log" / "quarantine").rglob("*")
    kept = b"".join(path.read_bytes() for path in aside if path.is_file())
    assert left in kept or not left


def test_without_anything_that_knows_more_it_begins(lost, run):
    (lost / "log" / "00000001.jsonl").unlink(missing_ok=True)
    for path in (lost / "projections").glob("*.*"):
        path.unlink()
    assert run("--home", lost, "record", "new").code == 0


def test_an_emptied_segment_is_not_begun_again_without_a_repair(lost, run):
    (lost / "log" / "00000001.jsonl").write_bytes(b"")
    for path in (lost / "projections").glob("*.*"):
        path.unlink()
    refused = run("--home", lost, "record", "new")
    assert (refused.code, "`memplane repair`" in refused.err) == (3, True)
    assert run("--home", lost, "repair").code == 0
    assert run("--home", lost, "record", "new").code == 0
