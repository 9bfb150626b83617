"""Kinds of other logs: `custom:<name>` is recorded, shown, found and suppressed by its name."""

import pytest

import memplane
from memplane.errors import InputError

GOOD = ["custom:step", "custom:output", "custom:a.b-c_9", "custom:" + "x" * 64]
BAD = ["custom:", "custom", "step", "custom:-x", "custom:a b", "custom:a\n", "custom:é", "custom:" + "x" * 65, "Custom:x"]  # fmt: skip


@pytest.mark.parametrize("kind", GOOD)
def test_events_of_a_custom_kind_are_taken_shown_and_found_by_it(plane, kind):
    seq = plane.record("The heron was counted", kind=kind, session="s1", key="count").seq
    plane.record("The heron was seen", session="s1")
    assert [one.kind for one in plane.events(kind=kind)] == [kind]
    assert [hit.event.seq for hit in plane.search("heron counted", kind=kind)] == [seq]
    for asked in ({"session": "s1"}, {}):
        for intent in ("fast", "deep"):
            text = plane.pack("heron counted", intent=intent, budget=1500, **asked).text
            assert "The heron was counted" in text
            (entry,) = [one for one in memplane.parse_block(text).entries if kind in one.text]
            assert entry.text.startswith(f"{kind} count")
    assert plane.get("count").seq == seq
    assert plane.upkeep.export(plane.home.parent / "part.jsonl", kind=kind).events == 1


@pytest.mark.parametrize("kind", BAD)
def test_a_name_that_is_none_is_refused_with_the_kinds_there_are(plane, kind):
    with pytest.raises(InputError, match=r"expected one of: message, .*, custom:<name>"):
        plane.record("x", kind=kind)
    for reads in (lambda: list(plane.events(kind=kind)), lambda: plane.search("x", kind=kind)):
        with pytest.raises(InputError, match="unknown kind"):
            reads()


def test_policies_name_custom_kinds(plane):
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text(
        "version: 1\nstore:\n  never_store_kinds: [secret, custom:scratch]\n"
        "load:\n  channel_rules:\n    public: {suppress_kinds: [custom:step]}\n"
    )
    with pytest.raises(InputError, match="`custom:scratch` is never stored"):
        plane.record("x", kind="custom:scratch")
    plane.record("The heron was counted", kind="custom:step", session="s1")
    plane.record("The heron was heard", kind="custom:output", session="s1")
    for intent in ("fast", "deep"):
        text = plane.pack("heron", channel="public", intent=intent, budget=1500).text
        assert "heard" in text
        assert "counted" not in text
    assert [hit.event.kind for hit in plane.search("heron", channel="public")] == ["custom:output"]


def test_a_secret_is_no_kind(plane):
    with pytest.raises(InputError, match=r"^kind: holds what looks like a secret"):
        plane.record("x", kind="custom:ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
