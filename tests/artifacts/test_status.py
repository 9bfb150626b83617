"""What an artifact's approvals say, its forgetting and a changed copy come to in a block."""

from pathlib import Path

import pytest

from memplane.errors import NotFoundError
from memplane.log.segments import body_path


@pytest.fixture
def added(plane, file):
    """An artifact that is approved, with words of its own in all that is said of it."""
    added = plane.work.artifacts.add(file(), "The quokka report", task="t")
    plane.work.artifacts.approve(
        "report.md", "wombat is fine", session="s", tags=["wallaby"], task="t"
    )
    return added


@pytest.mark.parametrize("revoked", [False, True])
@pytest.mark.parametrize("intent", ["fast", "deep", "orient"])
def test_why_somebody_approved_or_revoked_is_in_no_block_and_no_hit(plane, added, intent, revoked):
    plane.work.tasks.open("t", "A task.")
    if revoked:
        plane.work.artifacts.revoke("report.md", "wombat is wrong", session="s", task="t")
    approval = plane.head().seq - 1 if not revoked else plane.head().seq
    for session in (None, "s"):
        for query in ("is the wombat wrong?", ""):
            for handles in ([], [f"event/{approval}", "task/t?depth=3"]):
                asked = {"session": session, "intent": intent, "budget": 3000, "expand": handles}
                text = plane.pack(query, **asked).text
                assert "wombat" not in text.replace(query or "\0", "")
                assert "wallaby" not in text
    assert plane.search("wombat") == []
    assert plane.search("wallaby") == []
    assert "wombat" not in plane.expand("task/t?depth=3").text
    said = [event.text for event in plane.events(kind="approval")]
    assert said[0] == "wombat is fine"
    assert [one.reason for one in plane.work.artifacts.show("report.md").approvals] == said


def test_a_policys_own_section_shows_no_approvals(plane, added):
    budgets = plane.home / "policies" / "budgets.yaml"
    row = "  marks: {max_tokens: 500, priority: 5, share: 0.1, kinds: [approval, artifact]}\n"
    budgets.write_text(budgets.read_text().replace("sections:\n", f"sections:\n{row}"))
    text = plane.pack("", budget=2000).text
    assert "quokka" in text
    assert "wombat" not in text


# --- forgotten ---


@pytest.mark.parametrize("how", ["forgotten", "superseded", "expired"])
def test_the_file_of_an_artifact_that_is_out_of_force_is_opened_by_no_handle(
    plane, file, how, clock
):
    more = {"valid_until": "2026-01-06T00:00:00Z"} if how == "expired" else {"key": "k"}
    added = plane.work.artifacts.add(file(), "said", **more)
    plane.work.artifacts.approve(added.receipt.seq)
    assert "Herons" in plane.expand(f"event/{added.receipt.seq}").text
    if how == "forgotten":
        plane.forget(id=added.receipt.id)
    elif how == "superseded":
        plane.record("no file", kind="fact", key="k")
    clock.now = "2026-01-07T00:00:00.000000Z"
    for name in (f"event/{added.receipt.seq}", f"event/{added.receipt.id}"):
        with pytest.raises(NotFoundError, match=f"artifact {added.receipt.seq} is {how}"):
            plane.expand(name)
        assert "Herons" not in plane.pack("herons", expand=[name]).text
    if how == "forgotten":
        plane.unforget(id=added.receipt.id)
        assert "Herons" in plane.expand(f"event/{added.receipt.seq}").text


# --- changed ---


def blocks(plane, intent):
    for session in (None, "s"):
        yield plane.pack("quokka report?", session=session, intent=intent, budget=3000)


@pytest.mark.parametrize("intent", ["fast", "deep", "orient"])
@pytest.mark.parametrize("change", ["written", "gone"])
def test_an_artifact_whose_copy_was_changed_is_reported_and_not_used(plane, added, intent, change):
    plane.work.tasks.open("t", "A task.")
    plane.record("quokka news", role="user", session="s")
    assert any("The quokka report" in block.text for block in blocks(plane, intent))
    path = Path(body_path(str(plane.home), added.facts.sha256))
    kept = path.read_bytes()
    path.unlink()
    if change == "written":
        path.write_bytes(b"x" * len(kept))
    for block in blocks(plane, intent):
        assert "The quokka report" not in block.text
        assert block.report["omissions"]["counts"]["changed"] == 1
        (lost,) = [one for one in block.omissions if one.reason == "changed"]
        assert (lost.id, lost.seq) == (added.receipt.id, added.receipt.seq)
    assert "The quokka report" not in plane.expand("task/t?depth=3").text
    path.write_bytes(kept)
    assert any("The quokka report" in block.text for block in blocks(plane, intent))


def test_a_pack_that_opens_its_handle_names_the_handle(plane, added):
    path = Path(body_path(str(plane.home), added.facts.sha256))
    path.unlink()
    block = plane.pack("quokka", expand=[added.facts.handle], budget=2000, intent="fast")
    (lost,) = [one for one in block.omissions if one.reason == "changed"]
    assert lost.id.partition("?")[0] == added.facts.handle
    assert block.report["omissions"]["counts"]["changed"] == 1
