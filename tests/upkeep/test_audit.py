"""What older rules let by is found, named and counted, and never shown."""

import json

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.errors import PolicyError
from memplane.event import Draft, encode
from tests.examples import examples

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
PASSWORD = "tr0ub4dor-x9"


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "home") as plane:
        yield plane


def stored(plane, **fields):
    """Put an event into the log as an older memplane, without these rules, would have."""
    count = plane.head().seq
    body = fields.pop("body", None)
    if body is not None:
        import hashlib

        sha256 = hashlib.sha256(body).hexdigest()
        fields["data"] = {**fields.get("data", {}), "body": {"sha256": sha256, "bytes": len(body)}}
    id_ = fields.pop("id", f"old-{count}")
    row = {"kind": "message", **fields}
    rest = encode(row)[1:-1].encode()
    draft = Draft(
        id_, True, None, row["kind"], row.get("ns", "/global"), None, None, row.get("key"),
        row.get("text", ""), rest, body,
    )  # fmt: skip
    (appended,) = plane._log.append([draft])
    return appended.seq


def found(report):
    return [
        (finding.seq, finding.field, finding.rule, finding.times) for finding in report.findings
    ]


def test_an_empty_plane_and_one_whose_secrets_were_masked_are_clean(plane):
    assert plane.upkeep.audit().clean
    plane.record(f"use {TOKEN}", data={"password": PASSWORD}, tags=[f"t {TOKEN}"])
    report = plane.upkeep.audit()
    assert report.clean
    assert (report.secrets, report.total, report.unread) == (0, 0, ())
    assert (report.purge.events, report.purge.exact) == (0, True)


def test_a_secret_is_found_in_every_field_by_its_place(plane):
    seqs = [
        stored(plane, text=f"{TOKEN} and {TOKEN}"),
        stored(plane, text="a", key=TOKEN),
        stored(plane, text="a", tags=["fine", f"t {TOKEN}"]),
        stored(plane, text="a", data={"env": {"DB_PASSWORD": PASSWORD}, "ok": 1}),
        stored(plane, text="a", refs=["fine", TOKEN]),
        stored(plane, text="the head only", body=f"a long text with {TOKEN}".encode()),
        stored(plane, text="a", id=TOKEN),
    ]
    report = plane.upkeep.audit()
    assert found(report) == [
        (seqs[0], "text", "github-token", 2),
        (seqs[1], "key", "github-token", 1),
        (seqs[2], "tags[1]", "github-token", 1),
        (seqs[3], "data.env", "secret-value", 1),
        (seqs[4], "refs[1]", "github-token", 1),
        (seqs[5], "text", "github-token", 1),
        (seqs[6], "id", "github-token", 1),
    ]
    assert report.by_rule == {"github-token": 7, "secret-value": 1}
    assert (report.purge.events, report.purge.bodies) == (7, 1)
    words = json.dumps(report.as_json()) + repr(report)
    assert TOKEN not in words
    assert PASSWORD not in words


def test_a_purge_would_take_quotes_references_and_reports_too(plane):
    first = stored(plane, text=f"password={PASSWORD}", id="first")
    plane.record(f"they tried {PASSWORD} again")
    plane.record("a note", data={"said": f"it was {PASSWORD}"})
    plane.record("an insight", kind="insight", refs=["first"])
    plane.record("nothing to do with it")
    assert plane.pack("they tried", save_report=True).report_path is not None
    report = plane.upkeep.audit()
    assert found(report) == [(first, "text", "policy-2", 1)]
    assert report.purge.refs == 1
    assert report.purge.reports == 1
    # The policy's pattern masks key and value as one; what quotes the value alone is not that text.
    assert report.purge.quotes == 0
    stored(plane, text=f"DB_SECRET={PASSWORD}")
    assert plane.upkeep.audit().purge.quotes == 2


def test_a_pattern_of_today_finds_what_was_recorded_before_it(plane):
    receipt = plane.record("badge AC-99871 opened the door")
    assert plane.upkeep.audit().clean
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text('version: 1\nstore: {redact_patterns: ["AC-[0-9]{5}"]}\n')
    with memplane.open(plane.home) as again:
        assert again.upkeep.policies.privacy.redact_patterns[0] == "AC-[0-9]{5}"
        assert found(again.upkeep.audit()) == [(receipt.seq, "text", "policy-1", 1)]


def test_views_policies_scenarios_and_snapshots_of_them_are_looked_at(plane):
    (plane.home / "views" / "identity.md").write_text(f"You may use {TOKEN}\n")
    snapshot = plane.home / "bodies" / "sha256" / "ab" / ("c" * 62)
    snapshot.parent.mkdir(parents=True)
    snapshot.write_text(f"once {TOKEN}")
    (plane.home / "scenarios" / "x.yaml").write_text("api: fine\n")
    report = plane.upkeep.audit()
    assert [(one.path, one.rule) for one in report.file_findings] == [
        ("views/identity.md", "github-token"),
        ("bodies/sha256/ab/" + "c" * 62, "github-token"),
    ]
    assert not report.clean
    assert report.files >= 8


def test_what_a_repair_set_aside_and_what_is_spooled_is_looked_at(plane):
    for folder in ("quarantine", "spool"):
        (plane.home / "log" / folder).mkdir()
        row = json.dumps({"text": f"use {TOKEN}", "data": {"password": PASSWORD}}).encode()
        (plane.home / "log" / folder / "1.part").write_bytes(b"\xff\x00half" + row + b"\n")
    report = plane.upkeep.audit()
    assert {one.path for one in report.file_findings} == {
        "log/quarantine/1.part", "log/spool/1.part",
    }  # fmt: skip
    assert {one.rule for one in report.file_findings} >= {"github-token"}
    assert not report.clean


def test_findings_are_listed_up_to_a_limit_and_counted_beyond(plane):
    for number in range(7):
        stored(plane, text=f"{number} {TOKEN}")
    report = plane.upkeep.audit(limit=3)
    assert (len(report.findings), report.total, report.secrets, report.purge.events) == (3, 7, 7, 7)


def test_what_could_not_be_read_is_named(plane):
    seq = stored(plane, text="head", body=b"x" * 100)
    for file in (plane.home / "bodies").rglob("*"):
        if file.is_file():
            file.unlink()
    assert plane.upkeep.audit().unread == (f"the body of event {seq}: missing or damaged",)


def test_a_broken_policy_is_an_error_and_no_clean_answer(plane):
    (plane.home / "policies" / "privacy.yaml").write_text("store: [")
    with pytest.raises(PolicyError):
        plane.upkeep.audit()


def test_progress_runs_to_the_end_of_the_log(plane):
    plane.record("a")
    plane.record("b")
    calls = []
    plane.upkeep.audit(progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (plane.head().seq, plane.head().seq)


@settings(max_examples=examples(10), deadline=None)
@given(
    st.lists(
        st.sampled_from(["fine", TOKEN, f"pw: {PASSWORD}", "DB_TOKEN=a1b2c3d4e5", "x y"]),
        max_size=6,
    )
)
def test_what_is_recorded_today_is_always_clean_for_the_audit_of_today(tmp_path_factory, words):
    with memplane.init(tmp_path_factory.mktemp("p") / "home") as plane:
        plane.record(" ".join(words), data={"token": words, "words": words}, tags=words[:2])
        assert plane.upkeep.audit().clean
