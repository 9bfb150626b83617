"""Writers killed at any moment, beside one that saves and one that packs, lose nothing."""

import pytest
from checks_layers import both, split
from process_kills import kill_often

WAYS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("tearing", "readers"), WAYS)
@both
def test_writers_killed_at_any_moment_lose_nothing(tmp_path, counted, tearing, readers, shares):
    count = counted("kills", f"tearing {tearing}, readers {readers}")
    kill_often(tmp_path, count, split(shares["kills"], len(WAYS)), tearing=tearing, readers=readers)
    assert count.violations == []
