"""What a pack was asked for is kept in its report: without the secrets that it held."""

import json

import pytest
from hypothesis import example, given, strategies as st

import memplane
from memplane.errors import InputError
from memplane.explain.replay import replay_pack
from memplane.intake import Redactor
from memplane.upkeep import reports

TOKEN = "ghp_" + "a1B2c3D4e5F6" + "g7H8i9J0k1L2m3N4o5P6q7R8"
BADGE = "AC-99871"
PATTERN = 'version: 1\nstore: {redact_patterns: ["AC-[0-9]{5}"]}\n'


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "home") as plane:
        plane.record("the gate opens at six", role="user", session="s", task="t")
        plane.record("the gate is of oak", kind="fact", key="gate")
        yield plane


def asked_with(secret):
    return [
        {"query": f"gate {secret}"},
        {"session": secret},
        {"task": secret},
        {"agent": secret},
        {"query_event": secret},
        {"ns": ["/global", f"/task/{secret}"]},
        {"exclude": [secret, "x"]},
        {"session": "s", "task": f"t-{secret}", "ns": f"/agent/{secret}", "exclude": [secret]},
    ]


def kept(plane):
    return b"".join(path.read_bytes() for path in plane.home.rglob("*") if path.is_file()).decode(
        errors="replace"
    )


@pytest.mark.parametrize("number", range(len(asked_with(""))))
@pytest.mark.parametrize("secret", [TOKEN, BADGE])
def test_no_argument_of_a_pack_brings_a_secret_into_its_report(plane, number, secret):
    if secret is BADGE:
        (plane.home / "policies" / "privacy.yaml").write_text(PATTERN)
    block = plane.pack(save_report=True, **asked_with(secret)[number])
    assert secret not in json.dumps(block.report)
    assert "[redacted:" in block.report_path.read_text()
    assert secret not in kept(plane)


@pytest.mark.parametrize("asked", asked_with(TOKEN))
def test_a_pack_that_was_asked_with_a_secret_is_made_again_from_its_report(plane, asked):
    block = plane.pack(save_report=True, **asked)
    plane.record("the gate is of iron", kind="fact", key="gate", session="s")
    again = replay_pack(plane, reports.read_report(block.report_path))
    assert again.same
    assert again.block.report["request"] == block.report["request"]


def test_what_cannot_be_found_is_refused_without_its_secret(plane):
    for asked in (
        {"expand": [f"expand://event/{TOKEN}"]},
        {"channel": TOKEN},
        {"intent": TOKEN},
        {"sections": [TOKEN]},
        {"ns": [TOKEN]},
    ):
        with pytest.raises((InputError, memplane.NotFoundError)) as error:
            plane.pack("gate", **asked)
        assert TOKEN not in str(error.value)
    assert TOKEN not in kept(plane)


@given(
    st.text("ab=:/-_. 1", max_size=30),
    st.sampled_from(["", TOKEN, BADGE, "password=hunter2x9", "token:abcdefgh"]),
    st.text("ab=:/-_. 1", max_size=30),
)
@example("/task/", TOKEN, "")
def test_a_name_that_can_be_recorded_is_always_asked_for_as_it_is_and_no_other(before, mid, after):
    redactor = Redactor(("AC-[0-9]{5}",))
    name = before + mid + after
    asked = redactor.name(name)
    assert (asked == name) == (not redactor.in_name(name))
    assert not redactor.in_name(asked)
    assert redactor.name(asked) == asked


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_the_file_of_a_report_is_the_json_that_python_indents(report):
    usual = json.dumps(report, ensure_ascii=False, indent=1) + "\n"
    try:
        expected = usual.encode()
    except UnicodeEncodeError:
        return
    assert reports._dumped(report) == expected


def test_policies_that_a_report_names_are_looked_through_once(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(reports, "masked", lambda text: looked.append(text) or text)
    for _ in range(3):
        with memplane.init(tmp_path / "home") as plane:
            assert plane.pack("", budget=500, save_report=True).report_path is not None
    assert len(looked) == len(set(looked)) > 0
