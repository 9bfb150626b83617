"""What changed in policies and views is told key by key, in words that hold."""

import pytest
from builders_committed import Committed, swap
from hypothesis import given, strategies as st

import memplane
from memplane.explain.history import (
    NOW,
    PolicyRepository,
    PolicyVersion,
    changes,
    policy_history,
    policy_version,
)
from memplane.home import asset
from memplane.policy import NAMES

DEFAULTS = {f"policies/{name}": asset(f"policies/{name}") for name in NAMES}


def told(old, new) -> list[str]:
    """What is said of two versions, each given by what stands otherwise than by default."""
    versions = [
        PolicyVersion(name, {**DEFAULTS, **{path: text.encode() for path, text in files.items()}})
        for name, files in (("then", old), ("now", new))
    ]
    return [str(one) for one in changes(*versions)]


def default(stem: str, *swaps: tuple[str, str]) -> dict[str, str]:
    """A policy of memplane's with some words otherwise."""
    path = f"policies/{stem}.yaml"
    text = DEFAULTS[path].decode()
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    return {path: text}


def test_a_changed_value_is_told_with_the_old_and_the_new_one():
    now = default(
        "budgets", ("share: 0.32", "share: 0.2"), ("reserve_tokens: 5000", "reserve_tokens: 900")
    )
    assert told({}, now) == [
        "budgets.yaml: reserve_tokens 5000 -> 900",
        "budgets.yaml: sections.retrieved_evidence.share 0.32 -> 0.2",
    ]


def test_a_section_that_came_or_went_is_told_as_a_whole():
    line = "  runbooks: {max_tokens: 1500, priority: 7, share: 0.05, kinds: [fact]}\n"
    now = default("budgets", ("  expansions:", f"{line}  expansions:"))
    said = "{max_tokens: 1500, priority: 7, share: 0.05, kinds: [fact]}"
    assert told({}, now) == [f"budgets.yaml: sections.runbooks added: {said}"]
    assert told(now, {}) == [f"budgets.yaml: sections.runbooks removed, it was {said}"]


def test_patterns_that_came_and_went_are_told_one_by_one():
    shipped = "version: 1\nstore: {redact_patterns: ['(?i)pwd=\\d+', 'kept-\\d']}\n"
    before = {"policies/privacy.yaml": shipped}
    now = {"policies/privacy.yaml": shipped.replace("(?i)pwd=", "(?i)pin=")}
    assert told(before, now) == [
        'privacy.yaml: store.redact_patterns - "(?i)pwd=\\\\d+", + "(?i)pin=\\\\d+"'
    ]


def test_a_channel_goes_by_its_name_wherever_it_stands():
    ops = "channels:\n  - {name: ops, default_load_views: [views/ops.md]}\n"
    now = default("channels", ("channels:\n", ops)) | default(
        "privacy", ("channel_rules:\n", "channel_rules:\n    ops: {suppress_sensitivity: []}\n")
    )
    assert told({}, now) == [
        "privacy.yaml: load.channel_rules.ops added: {suppress_sensitivity: []}",
        "channels.yaml: channels[ops] added: {name: ops, default_load_views: [views/ops.md]}",
    ]


def test_a_rule_that_changed_is_told_by_what_it_gained_and_lost():
    now = default(
        "privacy",
        (
            "team:    {suppress_sensitivity: [high, secret]}",
            "team: {suppress_sensitivity: [normal, secret]}",
        ),
    )
    assert told({}, now) == [
        "privacy.yaml: load.channel_rules.team.suppress_sensitivity - high, + normal"
    ]


def test_where_a_key_was_removed_the_default_that_holds_is_told():
    then = default("budgets", ("reserve_tokens: 5000", "reserve_tokens: 900"))
    now = default("budgets", ("reserve_tokens: 5000", "# none"))
    assert told(then, now) == [
        "budgets.yaml: reserve_tokens 900 -> 5000 (the default: no longer written)"
    ]
    assert told({}, now) == [
        "budgets.yaml: reserve_tokens no longer written, which keeps the value of the default"
    ]
    assert told(now, then) == ["budgets.yaml: reserve_tokens 5000 -> 900 (was the default)"]


def test_a_change_of_comments_or_layout_says_no_more_than_that():
    now = {"policies/plane.yaml": DEFAULTS["policies/plane.yaml"].decode() + "\n# a word\n"}
    assert told({}, now) == ["plane.yaml: only comments or layout changed"]


def test_another_order_is_told_as_such():
    identity = "  identity:           {max_tokens: 1200,  priority: 10, share: 0.04}\n"
    rules = "  rules:              {max_tokens: 6000,  priority: 9,  share: 0.10}\n"
    now = default("budgets", (identity + rules, rules + identity))
    (said,) = told({}, now)
    assert said.startswith("budgets.yaml: sections: in another order: rules, identity, task_state")
    listed = default(
        "channels",
        (
            "public,  default_load_views: [views/identity.md, views/rules.project.md]",
            "public,  default_load_views: [views/rules.project.md, views/identity.md]",
        ),
    )
    assert told({}, listed) == [
        (
            "channels.yaml: channels[public].default_load_views: the same in another order "
            "[views/rules.project.md, views/identity.md]"
        )
    ]


def test_a_file_that_came_or_went_says_what_then_holds():
    without = PolicyVersion(
        "then", {k: v for k, v in DEFAULTS.items() if k != "policies/plane.yaml"}
    )
    whole = PolicyVersion("now", DEFAULTS)
    assert [str(one) for one in changes(whole, without)] == [
        "plane.yaml: removed; memplane's defaults stand for it; every value is as it was"
    ]
    other = default("plane", ("keep: 500", "keep: 7"))
    added = PolicyVersion("now", {**DEFAULTS, **{k: v.encode() for k, v in other.items()}})
    assert [str(one) for one in changes(without, added)] == [
        "plane.yaml: added; memplane's defaults stood for it before",
        "plane.yaml: reports.keep 500 -> 7 (was the default)",
    ]


def test_a_broken_version_is_named_with_its_mistakes_and_does_not_stop_the_rest():
    broken = default("budgets", ("reserve_tokens: 5000", "reserve_tokens: many")) | default(
        "plane", ("keep: 500", "keep: 7")
    )
    first, second = told({}, broken)
    assert first.split("\n") == [
        "budgets.yaml: has mistakes at now, so what it says there is not known:",
        (
            "  policies/budgets.yaml:9: reserve_tokens: expected a number of tokens from 0 to 65000, "
            "found `many`"
        ),
    ]
    assert second == "plane.yaml: reports.keep 500 -> 7"


def test_lines_of_a_view_that_came_and_went_are_told_and_moved_ones_are_not():
    old, new = {"views/a.md": "one\ntwo\nthree\n"}, {"views/a.md": "three\nfour\ntwo\n"}
    versions = [
        PolicyVersion(name, {path: text.encode() for path, text in files.items()})
        for name, files in (("then", old), ("now", new))
    ]
    (change,) = changes(*versions)
    assert str(change) == "views/a.md: 1 line added, 1 removed"
    assert (change.before, change.after) == (["one"], ["four"])
    moved = PolicyVersion("now", {"views/a.md": b"two\none\nthree\n"})
    assert str(changes(versions[0], moved)[0]) == (
        "views/a.md: the same lines in another order, or with other ends"
    )
    assert str(changes(PolicyVersion("then", {}), moved)[0]) == "views/a.md: added, 3 lines"
    assert str(changes(moved, PolicyVersion("now", {}))[0]) == "views/a.md: removed, 3 lines"


@given(st.lists(st.sampled_from("abcd"), max_size=8), st.lists(st.sampled_from("abcd"), max_size=8))
def test_what_a_view_lost_and_gained_always_makes_the_new_one_of_the_old_one(old, new):
    made = [
        PolicyVersion("", {"views/a.md": "".join(f"{x}\n" for x in one).encode()})
        for one in (old, new)
    ]
    for change in changes(*made):
        left = list(old)
        for line in change.before or []:
            left.remove(line)
        assert sorted([*left, *(change.after or [])]) == sorted(new)


@given(st.binary(max_size=60), st.sampled_from([f"policies/{name}" for name in NAMES]))
def test_whatever_bytes_a_policy_has_its_changes_can_be_told(data, path):
    there, back = PolicyVersion("then", DEFAULTS), PolicyVersion("now", {**DEFAULTS, path: data})
    assert all(str(one) for one in (*changes(there, back), *changes(back, there)))
    assert changes(back, back) == []


@pytest.fixture(params=["of its own", "around it"])
def repository(request, tmp_path):
    """A plane with its first policies committed: in its own repository, or in a project's."""
    project = tmp_path / "project"
    home = project if request.param == "of its own" else project / ".memplane"
    memplane.init(home).close()
    (project / "notes.txt").write_text("none of memplane's\n")
    committed = Committed(project)
    committed.commit("Begin")
    return committed, home


def test_the_log_has_the_commits_that_touched_policies_or_views_and_no_others(repository):
    committed, home = repository
    swap(home / "policies" / "budgets.yaml", "share: 0.32", "share: 0.2")
    fewer = committed.commit("Less evidence")
    (committed.folder / "notes.txt").write_text("Still none.\n")
    (home / "views" / "notes.txt").write_text("No view.\n")
    committed.commit("Notes")
    (home / "views" / "team").mkdir()
    (home / "views" / "team" / "rules.md").write_text("Be short.\n")
    view = committed.commit("A view, with ü and ”quotes”")
    found = list(policy_history(PolicyRepository(home), 10))
    assert [commit.hash for commit, _ in found][:2] == [view, fewer]
    assert [commit.subject for commit, _ in found] == [
        "A view, with ü and ”quotes”", "Less evidence", "Begin",
    ]  # fmt: skip
    assert [[str(one) for one in said] for _, said in found[:2]] == [
        ["views/team/rules.md: added, 1 line"],
        ["budgets.yaml: sections.retrieved_evidence.share 0.32 -> 0.2"],
    ]
    assert all(one.what == "added" for one in found[2][1])
    assert {commit.author for commit, _ in found} == {"Ann Example"}
    assert [commit.subject for commit, _ in policy_history(PolicyRepository(home), 1)] == [
        found[0][0].subject
    ]


def test_a_revision_and_the_working_tree_are_compared_as_they_are(repository):
    committed, home = repository
    assert changes(policy_version(home, "HEAD"), policy_version(home, NOW)) == []
    swap(home / "policies" / "plane.yaml", "keep: 500", "keep: 9")
    (home / "views" / "identity.md").write_text("You are the build agent.\n")
    said = [str(one) for one in changes(policy_version(home, "main"), policy_version(home, NOW))]
    assert said == ["plane.yaml: reports.keep 500 -> 9", "views/identity.md: added, 1 line"]
    begin = committed.git("rev-parse", "HEAD")
    committed.commit("More")
    back = [
        str(one) for one in changes(policy_version(home, "HEAD"), policy_version(home, begin[:7]))
    ]
    assert back == ["plane.yaml: reports.keep 9 -> 500", "views/identity.md: removed, 1 line"]


def test_a_merge_is_told_by_what_it_brought_to_its_first_parent(repository):
    committed, home = repository
    committed.git("checkout", "-q", "-b", "side")
    swap(home / "policies" / "plane.yaml", "keep: 500", "keep: 9")
    committed.commit("Keep nine")
    committed.git("checkout", "-q", "main")
    swap(home / "policies" / "budgets.yaml", "share: 0.32", "share: 0.3")
    committed.commit("A third")
    committed.git("merge", "-q", "--no-ff", "-m", "Both", "side")
    found = {
        commit.subject: list(map(str, said))
        for commit, said in policy_history(PolicyRepository(home), 9)
    }
    assert found["Keep nine"] == ["plane.yaml: reports.keep 500 -> 9"]
    assert found["A third"] == ["budgets.yaml: sections.retrieved_evidence.share 0.32 -> 0.3"]
    assert found.get("Both", found["Keep nine"]) == found["Keep nine"]


def test_of_the_first_commit_of_a_shallow_clone_nothing_is_claimed(repository, tmp_path):
    committed, home = repository
    swap(home / "policies" / "plane.yaml", "keep: 500", "keep: 9")
    committed.commit("Keep nine")
    clone = tmp_path / "clone"
    committed.git("clone", "-q", "--depth", "1", f"file://{committed.folder}", str(clone))
    there = clone / home.relative_to(committed.folder)
    ((commit, said),) = policy_history(PolicyRepository(there), 9)
    assert (commit.subject, said) == ("Keep nine", None)
