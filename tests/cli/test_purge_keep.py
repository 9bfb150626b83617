"""`memplane purge --keep`, and where it is announced."""

import json

import memplane


def test_what_is_over_is_announced_and_erased_with_yes(run, home):
    for number in range(2):
        run("record", f"output {number}", "--kind", "tool_result", "--role", "tool", "--session", "s",
            "--home", home)  # fmt: skip
    assert "keep" not in run("--home", home).out
    assert run("purge", "--keep", "--home", home).out == "nothing is over by `keep` of plane.yaml\n"
    path = home / "policies" / "plane.yaml"
    path.write_text(path.read_text().replace("tool_result_days: 0", "tool_result_days: 1"))
    later = ("--now", "2099-01-01T00:00:00Z")
    dry = run("purge", "--keep", *later, "--home", home)
    assert dry.out.startswith("would be erased: 2 events")
    assert "nothing was erased: --yes does it" in dry.err
    assert json.loads(run("--home", home, "--json").out)["due"]["events"] == 0
    done = json.loads(run("purge", "--keep", "--yes", *later, "--json", "--home", home).out)
    assert [one["seq"] for one in done["events"]] == [2, 3]
    assert run("purge", "--keep", "2", "--home", home).code == 2


def test_status_and_doctor_say_what_is_over(run, tmp_path):
    home = tmp_path / "plane"
    with memplane.init(home, clock=lambda: "2020-01-01T00:00:00.000000Z") as plane:
        plane.record("output", kind="tool_result", role="tool", session="s")
    for argv in ((), ("doctor",)):
        assert "keep" not in run(*argv, "--home", home).out
    path = home / "policies" / "plane.yaml"
    path.write_text(path.read_text().replace("tool_result_days: 0", "tool_result_days: 30"))
    assert (
        "keep      over by plane.yaml: 1 tool result of 1 old session, " in run("--home", home).out
    )
    checks = json.loads(run("doctor", "--home", home, "--json").out)["checks"]
    (keep,) = [check for check in checks if check["name"] == "keep"]
    assert keep["status"] == "warn"
    assert keep["remedy"].startswith("`memplane purge --keep` shows them")
    run("purge", "--keep", "--yes", "--home", home)
    assert "keep" not in run("--home", home).out
