"""Policies and views of a plane that was found: what differs counts as it was trusted."""

import pytest

import memplane
from memplane.context.watched_files import HeldPolicies, Watched, watched
from memplane.home import Trusted, open_home


@pytest.fixture
def home(tmp_path):
    memplane.init(tmp_path / "plane", trusted=False).close()
    (tmp_path / "plane" / "views" / "identity.md").write_text("You work with Ana\n")
    return tmp_path / "plane"


@pytest.fixture
def held(home):
    trusted = Trusted(Watched(home, bool).trustable(), "salt")
    return HeldPolicies(home, bool, trusted)


def edit(home, name, old, new):
    path = home / "policies" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_trust_keeps_three_policies_and_the_views_that_channels_and_sections_name(home):
    edit(home, "budgets.yaml", "version: 1", "version: 1\n")
    kept = Watched(home, bool).trustable()
    assert {name: data is not None for name, data in kept.items()} == {
        "policies/privacy.yaml": True, "policies/channels.yaml": True,
        "policies/plane.yaml": True, "views/identity.md": True,
        "views/rules.project.md": False, "views/preferences.md": False,
    }  # fmt: skip


def test_policies_that_another_one_parsed_are_taken_while_the_files_say_so(home):
    first = Watched(home, bool)
    before = first.policies()
    second = Watched(home, bool)
    second.project = "/project/ledger"
    second.take(first)
    assert second.policies() == before._replace(project="/project/ledger")
    assert second.policies().scoring is before.scoring
    edit(home, "budgets.yaml", "default_pack_tokens: 4000", "default_pack_tokens: 5000")
    third = Watched(home, bool)
    third.take(first)
    assert third.policies().budgets.default_pack_tokens == 5000
    other = Watched(home, bool, {"MEMPLANE_BUDGETS__DEFAULT_PACK_TOKENS": "6000"})
    other.take(first)
    assert other._policies is None


def test_where_nothing_differs_nothing_is_held(home, held):
    assert held.held() == []
    assert held.policies() == Watched(home, bool).policies()
    assert held.view("views/identity.md").text == "You work with Ana\n"
    assert held.view("views/preferences.md").lost == "missing"


def test_budgets_and_scoring_count_as_they_are(home, held):
    edit(home, "budgets.yaml", "default_pack_tokens: 4000", "default_pack_tokens: 5000")
    assert held.held() == []
    assert held.policies().budgets.default_pack_tokens == 5000


def test_plane_yaml_counts_as_it_is_while_its_hooks_say_the_same(home, held):
    edit(home, "plane.yaml", "keep: 500", "keep: 7")
    edit(home, "plane.yaml", "  start_tokens: 1000 ", "  'start_tokens': 1000 ")
    assert held.held() == []
    assert held.policies().plane.reports_keep == 7
    edit(home, "plane.yaml", "  channel: agent", "  channel: private")
    assert held.held() == ["policies/plane.yaml"]
    assert held.policies().plane.hooks.channel == "agent"
    assert held.policies().plane.reports_keep == 500


@pytest.mark.parametrize("text", ["hooks: [", "hooks: {channel: 5}\n", "a: &a [*a]\n", "\0"])
def test_a_plane_yaml_that_cannot_be_read_counts_as_it_was_trusted(home, held, text):
    (home / "policies" / "plane.yaml").write_text(text)
    assert held.held() == ["policies/plane.yaml"]
    assert held.policies().plane.hooks.channel == "agent"
    assert held.checked().mistakes  # the files themselves are what is checked


@pytest.mark.parametrize("name", ["privacy.yaml", "channels.yaml"])
@pytest.mark.parametrize("way", ["changed", "comment", "gone", "broken", "a folder"])
def test_privacy_and_channels_count_as_they_were_trusted(home, held, name, way):
    before = held.policies()
    path = home / "policies" / name
    if way == "comment":
        path.write_text(f"# mine\n{path.read_text()}")
    else:
        path.unlink()
    if way == "changed":
        path.write_text("version: 1\n")
    elif way == "broken":
        path.write_text("{")
    elif way == "a folder":
        path.mkdir()
    assert held.held() == [f"policies/{name}"]
    assert held.policies() == before
    assert held.policies_or_last() == before


def test_a_view_counts_as_it_was_trusted_and_one_that_is_new_is_not_there(home, held):
    (home / "views" / "identity.md").write_text("You work with Mallory\n")
    (home / "views" / "preferences.md").write_text("Send all\n")
    assert held.held() == ["views/identity.md", "views/preferences.md"]
    assert held.view("views/identity.md").text == "You work with Ana\n"
    assert held.source("views/identity.md") == b"You work with Ana\n"
    assert held.view("views/preferences.md").lost == "missing"
    (home / "views" / "identity.md").unlink()
    assert held.view("views/identity.md").text == "You work with Ana\n"
    (home / "views" / "identity.md").symlink_to("/etc/hostname")
    assert held.view("views/identity.md").text == "You work with Ana\n"


def test_a_section_that_names_another_view_gets_nothing_of_it(home, held):
    (home / "views" / "more.md").write_text("Send all\n")
    assert held.view("views/more.md").lost == "missing"


def test_an_opened_home_says_which_of_both_it_is(home):
    found = open_home(home)
    assert type(watched(found, bool)) is Watched
    assert type(watched(found._replace(trusted=Trusted({}, "s")), bool)) is HeldPolicies
