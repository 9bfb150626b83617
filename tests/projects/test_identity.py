"""What a folder says of itself: origins without credentials, work trees that both sides name."""

import os

import pytest
from folders import repository, submodule, work_tree

from memplane.projects import (
    NO_ROOT,
    address_of,
    find_root,
    inner_path,
    is_excluded,
    project_name,
    work_trees,
)

ADDRESS = "git.example/team/app"


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example/team/app.git",
        "https://ann:s3cret@git.example/team/app",
        "https://token@GIT.example/team/app.git/",
        "git@git.example:team/app.git",
        "ssh://git@git.example/team/app.git",
        "https://git.example/team/app?access_token=s3cret#main",
    ],
)
def test_an_address_has_no_credentials_and_no_scheme(url):
    assert address_of(url, "/w/app") == ADDRESS


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("/srv/git/app.git", "/srv/git/app.git"),
        ("../app", "/w/app"),
        ("file:///srv/git/app/.git", "/srv/git/app"),
        ("https://git.example:8443/app.git", "git.example:8443/app"),
        ("", ""),
        ("https://", ""),
        ("git.example/\x07app", ""),
    ],
)
def test_addresses_of_this_machine_are_paths_and_what_is_none_is_empty(url, address):
    assert address_of(url, "/w/copy") == address


def test_a_name_is_the_last_part_in_plain_letters():
    assert project_name("git.example/team/my app!") == "my-app"
    assert project_name("/") == "project"
    assert len(project_name("x" * 300)) == 40


def test_a_root_is_the_nearest_folder_with_a_git(tmp_path):
    root = repository(tmp_path / "app", f"https://u:p@{ADDRESS}.git")
    (root / "src" / "deep").mkdir(parents=True)
    found = find_root(str(root / "src" / "deep"))
    assert found == (str(root), "", ADDRESS, True, True)


def test_a_folder_without_a_git_is_its_own_root(tmp_path):
    assert find_root(str(tmp_path)) == (str(tmp_path), "", "", False, True)


def test_of_a_folder_that_is_not_there_nothing_is_looked_for(tmp_path):
    repository(tmp_path / "app", ADDRESS)
    gone = str(tmp_path / "app" / "gone" / "deep")
    assert find_root(gone) == (gone, "", "", False, False)
    assert find_root("src") == NO_ROOT


def test_a_work_tree_that_its_root_lists_names_it(tmp_path):
    main = repository(tmp_path / "app", f"https://{ADDRESS}")
    tree = work_tree(main, tmp_path / "app-fix")
    assert find_root(str(tree)) == (str(tree), str(main), ADDRESS, True, True)
    assert work_trees(str(main)) == [str(tree)]


def test_a_work_tree_that_its_root_does_not_list_claims_nothing(tmp_path):
    main = repository(tmp_path / "app", f"https://{ADDRESS}")
    tree = work_tree(main, tmp_path / "evil", listed=tmp_path / "fix")
    assert find_root(str(tree)) == (str(tree), "", "", True, True)


def test_a_git_file_that_names_the_git_of_another_root_claims_nothing(tmp_path):
    main = repository(tmp_path / "app", f"https://{ADDRESS}")
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / ".git").write_text(f"gitdir: {main}/.git\n")
    assert find_root(str(evil)).origin == ""


def test_a_submodule_has_an_origin_of_its_own(tmp_path):
    main = repository(tmp_path / "app", f"https://{ADDRESS}")
    part = submodule(main, main / "part", "https://git.example/team/part")
    assert find_root(str(part))[:3] == (str(part), "", "git.example/team/part")


def test_no_link_is_followed_and_no_read_is_without_an_end(tmp_path):
    real = repository(tmp_path / "real", f"https://{ADDRESS}")
    linked, config = tmp_path / "linked", tmp_path / "config"
    linked.mkdir()
    (linked / ".git").symlink_to(real / ".git")
    assert find_root(str(linked)) == (str(linked), "", "", False, True)
    repository(config)
    (config / ".git" / "config").unlink()
    (config / ".git" / "config").symlink_to(real / ".git" / "config")
    assert find_root(str(config)).origin == ""
    (config / ".git" / "config").unlink()
    os.mkfifo(config / ".git" / "config")
    assert find_root(str(config)).origin == ""
    (config / ".git" / "config").unlink()
    long = "#" * 300_000 + f'\n[remote "origin"]\nurl = https://{ADDRESS}\n'
    (config / ".git" / "config").write_text(long)
    assert find_root(str(config)).origin == ""


def test_the_last_url_of_a_config_holds_and_other_sections_do_not(tmp_path):
    root = repository(tmp_path / "app", "https://git.example/old")
    with (root / ".git" / "config").open("a") as file:
        file.write('[remote "fork"]\n url = https://git.example/fork\n')
        file.write('[remote "origin"] url = "https://git.example/new"\n[include]\n path = x\n')
    assert find_root(str(root)).origin == "git.example/new"


def test_a_file_in_a_work_tree_is_the_same_file():
    assert inner_path(".worktrees/fix/src/a.py") == "src/a.py"
    assert inner_path(".claude/worktrees/fix/src/a.py") == "src/a.py"
    assert inner_path(".worktrees/fix") == ".worktrees/fix"
    assert inner_path("src/.worktrees/a.py") == "src/.worktrees/a.py"


def test_globs_exclude_a_folder_and_all_below_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    inside = str(tmp_path / "private" / "a" / "b")
    assert is_excluded([inside], ["~/private"])
    assert is_excluded([inside], [f"{tmp_path}/priv*"])
    assert is_excluded(["/elsewhere", inside], ["~/private/*"])
    assert not is_excluded([inside], ["~/private-too", "/private"])
    assert not is_excluded([inside], [])
    (tmp_path / "way").symlink_to(tmp_path / "private")
    (tmp_path / "private" / "a" / "b").mkdir(parents=True)
    assert is_excluded([str(tmp_path / "way" / "a")], ["~/private"])
