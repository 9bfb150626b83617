"""What memplane writes is what its schemas say."""

import json
from pathlib import Path

from builders_planes import rows
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

ROOT = Path(__file__).parents[2]


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
    report = json.loads((ROOT / "schemas" / "report.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    registry = Registry().with_resource("memplane:report", Resource.from_contents(report))
    return Draft202012Validator(schema, registry=registry)


def test_blocks_and_reports_are_what_their_schemas_say(plane):
    (plane.home / "views" / "identity.md").write_text("You are the build agent.\n")
    plane.record_many(rows(31, 300))
    acb = validator("acb")
    for query in ("", "parser retry", "nothing matches this"):
        for session in (None, "s0", "unknown"):
            for budget in (150, 8000):
                block = plane.pack(
                    query,
                    session=session,
                    budget=budget,
                    expand=["expand://event/9", "session/s1?depth=3"],
                )
                acb.validate(json.loads(json.dumps(block.as_json())))


def test_the_saved_report_is_on_disk_with_the_policies_and_views_it_names(plane):
    (plane.home / "views" / "identity.md").write_text("You are the build agent.\n")
    plane.record_many(rows(32, 80))
    block = plane.pack("parser", save_report=True)
    (file,) = (plane.home / "reports").glob("*.report.json")
    report = json.loads(file.read_text())
    validator("report").validate(report)
    assert report == json.loads(json.dumps(block.report))
    for sha256 in (*report["policies"].values(), *report["views"].values()):
        assert (plane.home / "bodies" / "sha256" / sha256[:2] / sha256[2:]).exists()
    assert block.text[40:80] not in file.read_text()


def test_only_as_many_reports_are_kept_as_the_policy_says(plane, clock):
    plane.record("hello", role="user")
    (plane.home / "policies" / "plane.yaml").write_text("version: 1\nreports: {keep: 3}\n")
    for second in range(6):
        clock.now = f"2026-01-05T12:00:{second:02}.000000Z"
        plane.pack("hello", save_report=True)
    names = sorted(file.name for file in (plane.home / "reports").glob("*.report.json"))
    assert len(names) == 3
    assert names[-1].startswith("20260105T120005")


def test_the_hotset_on_disk_is_what_its_schema_says(plane):
    plane.record_many(rows(33, 700))
    plane.upkeep.rebuild()
    raw = json.loads((plane.home / "projections" / "hotset.json").read_text())
    validator("hotset").validate(raw)
