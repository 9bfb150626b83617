"""`memplane policy`: what it says, as JSON too, and its exit codes."""

import json
import re

import pytest


@pytest.fixture
def policies(home):
    """Write files of the plane: policies by stem, views by path."""

    def write(**files):
        for stem, text in files.items():
            (home / "policies" / f"{stem}.yaml").write_text(f"version: 1\n{text}\n")
        return home

    return write


def test_check_of_a_new_plane_finds_nothing_and_says_what_is_still_to_be_written(run, home):
    done = run("policy", "check", "--home", home)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "5 policies, no mistakes; views not written yet: views/identity.md, views/preferences.md, "
        "views/rules.project.md\n"
    )
    found = json.loads(run("policy", "check", "--home", home, "--json").out)
    assert (found["ok"], found["packs"], found["problems"]) == (True, True, [])
    assert len(found["hashes"]) == 5


def test_check_names_a_view_that_is_not_there_and_packs_go_on(run, policies):
    home = policies(
        budgets="counter: len4\nsections:\n  notes: {max_tokens: 90, priority: 1, views: [views/notse.md]}"
    )
    (home / "views" / "notes.md").write_text("Herons.\n")
    (home / "views" / "elsewhere.md").symlink_to("/etc/hostname")
    said = "expected a view that exists, found `views/notse.md`: no such file; did you mean `views/notes.md`?"
    done = run("policy", "check", "--home", home)
    assert done.code == 1
    assert done.out == f"policies/budgets.yaml:4: sections.notes.views[0]: {said}\n"
    assert "packs go on" in done.err
    found = json.loads(run("policy", "check", "--home", home, "--json").out)
    assert (found["ok"], found["packs"]) == (False, True)
    assert found["problems"] == [
        {
            "file": "policies/budgets.yaml",
            "line": 4,
            "key": "sections.notes.views[0]",
            "message": said,
        }
    ]
    assert run("pack", "x", "--home", home).code == 0


def test_check_lists_the_mistakes_of_all_files_and_of_the_environment(run, policies, monkeypatch):
    home = policies(plane="reports: {kep: 1}", scoring="intents: {deep: ['(a+)+$']}")
    monkeypatch.setenv("MEMPLANE_BUDGETS__SCALE", "much")
    monkeypatch.setenv("MEMPLANE_BUDGETS__SKALE", "2")
    done = run("policy", "check", "--home", home)
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines() == [
        "policies/scoring.yaml:2: intents.deep[0]: expected a regular expression, found `(a+)+$`: it can take exponential time: a repeated part can go on or begin again with `a`; write one repeat, or a character between that neither can take",
        "policies/plane.yaml:2: reports.kep: unknown; did you mean `keep`?",
        "environment: MEMPLANE_BUDGETS__SKALE: unknown; did you mean `MEMPLANE_BUDGETS__SCALE`?",
        "environment: MEMPLANE_BUDGETS__SCALE: expected a factor from 0.1 to 10, found `much`",
    ]
    assert json.loads(run("policy", "check", "--home", home, "--json").out)["packs"] is False


def test_check_says_where_editors_check_by_another_schema(run, home):
    (home / "schemas" / "plane.schema.json").write_text("{}\n")
    done = run("policy", "check", "--home", home)
    assert done.code == 0
    assert done.err == (
        "memplane: editors check by other schemas: delete schemas/plane.schema.json and run "
        "`memplane init`\n"
    )


def test_show_says_of_every_value_where_it_comes_from(run, policies, monkeypatch):
    home = policies(plane="reports: {keep: 7}")
    monkeypatch.setenv("MEMPLANE_PLANE__SESSIONS__GAP_MINUTES", "45")
    done = run("policy", "show", "plane", "--home", home)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "plane.version: 1                                          # policies/plane.yaml:1",
        "plane.reports.keep: 7                                     # policies/plane.yaml:2",
        "plane.sessions.gap_minutes: 45                            # environment MEMPLANE_PLANE__SESSIONS__GAP_MINUTES",
        "plane.sessions.summary_tokens_max: 200                    # default",
        "plane.log.lock_wait_ms_max: 5000                          # default",
        "plane.episodes.profile: agent                             # default",
        "plane.index.tool_result_tokens: 200                       # default",
        "plane.index.embedder: none                                # default",
        "plane.index.engine: own                                   # default",
        "plane.statements.head: any                                # default",
        "plane.statements.contradictions: flag                     # default",
        "plane.keep.tool_result_days: 0                            # default",
        "plane.keep.tool_result_mb: 0                              # default",
        "plane.namespaces.shared: []                               # default",
        "plane.hooks.channel: agent                                # default",
        "plane.hooks.start_tokens: 1000                            # default",
        "plane.hooks.prompt_tokens: 300                            # default",
        "plane.hooks.answer.when: relevant                         # default",
        "plane.hooks.answer.matched: 4                             # default",
        "plane.hooks.answer.new_percent: 40                        # default",
        "plane.hooks.answer.asked_matched: 3                       # default",
        "plane.hooks.answer.asked_new_percent: 75                  # default",
        "plane.hooks.answer.cosine_percent: 0                      # default",
        "plane.hooks.answer.passages: 3                            # default",
        "plane.hooks.tool.when: never                              # default",
        "plane.hooks.tool.tokens: 80                               # default",
        "plane.hooks.tool.answers: 10                              # default",
        "plane.hooks.characters_max: 9500                          # default",
        "plane.hooks.wait_ms: 300                                  # default",
        "plane.hooks.milliseconds_max: 4000                        # default",
        "plane.hooks.exclude: []                                   # default",
        "plane.shared.catch_up_ms: 500                             # default",
        "plane.shared.publish_ms: 5000                             # default",
        "plane.prompt_cache.write: 1.25                            # default",
        "plane.prompt_cache.read: 0.1                              # default",
        "plane.prompt_cache.minimum_tokens: 1024                   # default",
        "plane.prompt_cache.marks: 4                               # default",
        "plane.prompt_cache.step_tokens: 1                         # default",
    ]
    rows = json.loads(run("policy", "show", "plane.yaml", "--home", home, "--json").out)
    assert rows[1:4] == [
        {"file": "policies/plane.yaml", "key": "reports.keep", "value": 7, "origin": "file", "line": 2, "variable": None},
        {"file": "policies/plane.yaml", "key": "sessions.gap_minutes", "value": 45, "origin": "environment", "line": None, "variable": "MEMPLANE_PLANE__SESSIONS__GAP_MINUTES"},
        {"file": "policies/plane.yaml", "key": "sessions.summary_tokens_max", "value": 200, "origin": "default", "line": None, "variable": None},
    ]  # fmt: skip
    every = json.loads(run("policy", "show", "--home", home, "--json").out)
    assert [row for row in every if row["file"] == "policies/plane.yaml"] == rows
    assert {row["file"] for row in every} == {
        f"policies/{stem}.yaml" for stem in ("budgets", "privacy", "channels", "scoring", "plane")
    }


def test_show_of_what_is_no_policy_is_wrong_use_and_of_a_broken_one_no_answer(run, policies):
    home = policies()
    done = run("policy", "show", "budget", "--home", home)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "memplane: expected one of budgets, privacy, channels, scoring, plane, found 'budget'; "
        "did you mean `budgets`?\n"
    )
    policies(plane="reports: 5")
    done = run("policy", "show", "--home", home)
    assert (done.code, done.out) == (3, "")
    assert "plane.yaml:2: reports: expected a mapping of keep, found `5`" in done.err


def test_options_may_stand_before_a_group_behind_it_and_at_the_end(run, home):
    last = run("policy", "show", "plane", "--home", home, "--json")
    assert last.code == 0
    for argv in (
        ["--home", home, "--json", "policy", "show", "plane"],
        ["policy", f"--home={home}", "--json", "show", "plane"],
        ["--json", "policy", "--home", home, "show", "plane"],
    ):
        done = run(*argv)
        assert (done.code, done.out) == (0, last.out)
    for group in ("task", "session"):
        assert run(group, "--home", home, "list").code == 0


@pytest.mark.parametrize("name", ["budgets.yaml", "privacy.yaml"])
def test_a_policy_that_cannot_be_read_is_a_mistake_and_not_a_missing_one(run, home, name):
    """What it forbids is not for anybody to guess: packs wait until it can be read."""
    path = home / "policies" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    assert run("record", "goes on", "--home", home)[0] == 0
    for words, expected in ((("policy", "check"), 1), (("pack", "herons"), 3)):
        code, out, err = run(*words, "--home", home)
        assert code == expected
        assert f"policies/{name}: cannot be read: is a directory" in out + err
    path.rmdir()
    assert run("pack", "herons", "--home", home)[0] == 0


def test_check_says_which_defaults_act_for_the_keys_that_a_file_leaves_out(run, home):
    budgets = home / "policies" / "budgets.yaml"
    kept = [
        line
        for line in budgets.read_text().splitlines()
        if not line.startswith(("acb_total_max_tokens", "reserve_tokens"))
    ]
    budgets.write_text("\n".join(kept) + "\n")
    done = run("policy", "check", "--home", home)
    assert done.code == 0
    assert done.err == (
        "memplane: not in the files, so defaults act (`memplane policy show`): budgets.acb_total_max_tokens: 65000, "
        "budgets.reserve_tokens: 5000\n"
    )
    found = json.loads(run("policy", "check", "--home", home, "--json").out)
    assert [(row["key"], row["value"]) for row in found["defaults"]] == [
        ("acb_total_max_tokens", 65000),
        ("reserve_tokens", 5000),
    ]
    budgets.write_text("version: 1\n")
    said = run("policy", "check", "--home", home).err
    assert re.search(
        r"budgets.scale: 1.0, budgets.sections \(\d+ values\), budgets.limits \(11 values\)", said
    )
    (home / "policies" / "privacy.yaml").write_text("version: 1\n")
    assert len(run("policy", "check", "--home", home).err) < 1_000
