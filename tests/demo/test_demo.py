"""What `make demo` promises to whoever sees memplane for the first time."""

import pytest

import memplane


@pytest.fixture
def plane(demo):
    with memplane.open(demo.home, read_only=True) as plane:
        yield plane


def shown(report):
    """The ids of the events that stand in the block, whole or in part."""
    return {id_ for entry in report["entries"] for id_ in (*entry["events"], *entry["parts"])}


def test_the_demo_ends_well_and_complains_of_nothing(demo):
    assert (demo.code, demo.err) == (0, "")


def test_nothing_that_it_prints_is_wider_than_100_columns(demo):
    assert [line for line in demo.out.splitlines() if len(line) > 100] == []


def test_three_questions_on_two_channels_leave_three_reports(demo):
    assert list(demo.reports) == [f"demo-{number}.report.json" for number in (1, 2, 3)]
    channels = [report["channel"] for report in demo.reports.values()]
    assert channels == ["agent", "agent", "public"]


def test_every_block_stays_within_its_budget_and_its_table_adds_up(demo):
    for report in demo.reports.values():
        assert 0 < report["tokens"] <= report["budget"]
        entries = sum(entry["tokens"] for entry in report["entries"])
        assert entries + report["frame_tokens"] == report["tokens"]
        # In the table, headings belong to their sections.
        used = sum(section["used"] for section in report["sections"].values())
        assert 0 <= report["tokens"] - used <= 40


def test_every_block_is_printed_whole_with_its_sections(demo):
    assert demo.out.count("| memplane:begin") == demo.out.count("| memplane:end") == 3
    for report in demo.reports.values():
        assert f"{report['tokens']:>7,} {report['budget']:>7,}" in demo.out


def test_every_event_that_an_entry_names_is_in_the_plane(demo, plane):
    for report in demo.reports.values():
        ids = shown(report)
        assert ids
        assert {plane.event(id_).id for id_ in ids} == ids


def test_what_was_replaced_is_in_no_block(demo):
    # base62 codes and the 301: later rows of the same keys stand in their place.
    for report in demo.reports.values():
        assert not {"hop:decision:2", "hop:decision:4"} & shown(report)
    assert "hop:decision:5" in shown(demo.reports["demo-2.report.json"])


def test_preferences_are_for_the_agent_and_sensitive_events_for_neither(demo, plane):
    _, agent, public = demo.reports.values()
    kinds = [{plane.event(id_).kind for id_ in shown(report)} for report in (agent, public)]
    assert "preference" in kinds[0]
    assert "preference" not in kinds[1]
    assert all("hop:fact:2" not in shown(report) for report in demo.reports.values())


def test_it_says_what_to_try_on_ones_own_sessions(demo):
    for command in ("memplane init", "memplane import claude-code ", "memplane pack "):
        assert f"  {command}" in demo.out


def test_a_second_run_on_the_same_home_records_nothing_and_finds_the_same(
    demo, run_again, tmp_path
):
    again = run_again(tmp_path / "reports", demo.home)
    assert (again.code, again.err) == (0, "")
    assert "sample-session.jsonl: nothing new since an earlier import" in again.out
    assert "sample-decisions.jsonl: 0 events, 17 known before" in again.out
    for name, report in demo.reports.items():
        assert shown(again.reports[name]) == shown(report)


def test_it_goes_on_without_git_and_says_so(run_again, tmp_path):
    ran = run_again(tmp_path / "reports", tmp_path / "home", PATH=str(tmp_path))
    assert (ran.code, len(ran.reports)) == (0, 3)
    told = " ".join(ran.out.split())
    assert "this repository's commits: none" in told
    assert "install git, or put it on PATH" in told
