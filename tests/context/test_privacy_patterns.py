"""A pattern of privacy.yaml acts on what comes in, and at once on what came in before it."""

import json

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import InputError
from tests.examples import examples

BADGE = "AC-99871"
POLICY = 'version: 1\nstore: {redact_patterns: ["AC-[0-9]{5}"]}\n'


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "home") as plane:
        yield plane


def add_pattern(plane):
    (plane.home / "policies" / "privacy.yaml").write_text(POLICY)


def test_on_write_it_masks_text_tags_and_data_and_refuses_identifiers(plane):
    add_pattern(plane)
    event = plane.record(
        f"badge {BADGE}", tags=[f"b {BADGE}"], data={"x": {"y": [BADGE]}, BADGE: 1}
    ).event
    mark = "[redacted:policy-1]"
    assert (event.text, event.tags) == (f"badge {mark}", (f"b {mark}",))
    assert event.data == {"x": {"y": [mark]}, mark: 1, "redactions": {"policy-1": 4}}
    for name in ("id", "key", "session", "task", "actor"):
        with pytest.raises(InputError, match=f"{name}: holds what looks like a secret") as error:
            plane.record("a", **{name: BADGE})
        assert BADGE not in str(error.value)
    with pytest.raises(InputError, match="ns: holds what looks like a secret"):
        plane.record("a", ns=f"/task/{BADGE}")


def said(plane):
    """Everything that a plane says about the events 2 to 5."""
    blocks = [plane.pack(query, session="s", budget=budget, channel=channel, save_report=True)
              for query in ("", f"who has {BADGE}?", "what about the door?")
              for budget in (300, 3000) for channel in ("private", "agent")]  # fmt: skip
    return [
        *(block.text for block in blocks), *(json.dumps(block.report) for block in blocks),
        plane.get("door").text, str(plane.history("door")), str(plane.work.decisions()), str(list(plane.events())),
        *(plane.expand(f"expand://event/{seq}").text for seq in (2, 3, 4, 5)), str(plane.event(2)),
        plane.text(plane.event(4)), str(plane.at(5).event(3)), plane.at(5).pack("door", session="s").text,
        *(path.read_text() for path in (plane.home / "reports").iterdir()),
    ]  # fmt: skip


def test_a_later_pattern_masks_in_packs_and_in_every_answer_what_was_recorded_before(plane):
    plane.record(
        f"the door takes {BADGE}", kind="decision", key="door", session="s", tags=[f"t {BADGE}"]
    )
    plane.record(f"say {BADGE}", role="user", session="s", data={"badge": BADGE})
    plane.record(
        f"ls {BADGE}\n" * 300, kind="tool_result", role="tool", session="s", data={"tool": BADGE}
    )
    plane.record(f"the door: {BADGE}?", role="user", session="s")
    assert any(BADGE in words for words in said(plane)[:1])
    add_pattern(plane)
    for report in (plane.home / "reports").iterdir():
        report.unlink()
    assert [words for words in said(plane) if BADGE in words] == []


@settings(max_examples=examples(16), deadline=None)
@given(st.integers(0, 2600), st.sampled_from(["message", "tool_result", "tool_call", "fact"]))
def test_no_part_of_a_word_that_a_later_pattern_masks_is_shown_wherever_the_text_is_cut(
    tmp_path_factory, before, kind
):
    with memplane.init(tmp_path_factory.mktemp("p") / "home") as plane:
        text = ("lorem " * 500)[:before] + f" {BADGE} " + "ipsum " * 500
        plane.record(text, kind=kind, session="s")
        add_pattern(plane)
        for budget in (250, 800, 4000):
            shown = plane.pack("lorem", session="s", budget=budget).text
            assert "AC-" not in shown
