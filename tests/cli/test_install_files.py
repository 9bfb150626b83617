"""Settings files that cannot be changed, or change meanwhile: nothing of theirs is lost."""

import hashlib
import json

import pytest
from builders_people import THEIRS, fill, paths, tree, without_state
from checks_refusals import refused

from memplane.clients import settings_files


def test_a_link_stays_one_and_its_target_is_changed(run, person):
    kept = person / "dotfiles" / "claude.json"
    kept.parent.mkdir()
    kept.write_text(THEIRS)
    hooks, _ = paths(person, "claude-code", "--user")
    hooks.parent.mkdir()
    hooks.symlink_to("../dotfiles/claude.json")
    before = tree(person)
    run("install", "claude-code", "--hooks")
    assert hooks.is_symlink()
    assert "memplane" in kept.read_text()
    run("uninstall", "claude-code", "--hooks")
    assert without_state(tree(person)) == before


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (b'{\n  "a": 1,\n  // b\n}', 2, "line 3, column 3: expected JSON, found a comment; nothing"),
        (b'{"a": "\xff"}', 2, "line 1, column 8: expected UTF-8, found the byte 0xff"),
        ("{}".encode("utf-16"), 2, "expected UTF-8"),
        (b'{"mcpServers": {"memplane": {"command": "x"}}}', 2, "mcpServers.memplane: a server of this"),
    ],
)  # fmt: skip
def test_one_file_that_cannot_be_changed_leaves_all_as_they_are(run, person, data, code, said):
    _, servers = paths(person, "claude-code", "--user")
    servers.write_bytes(data)
    before = tree(person)
    for flags in ((), ("--dry-run",)):
        done = run("install", "claude-code", *flags)
        refused(done, code, said)
        assert f"memplane: {servers}: " in done.err
        assert tree(person) == before
    assert not (person / ".memplane").exists()


def test_a_file_for_reading_only_stays(run, person):
    hooks, _ = fill(person, "claude-code", "--user")
    hooks.chmod(0o444)
    before = tree(person)
    refused(run("install", "claude-code"), 3, f"{hooks}: is read-only; nothing was changed")
    assert tree(person) == before


def test_a_folder_in_the_place_of_a_file_is_named(run, person):
    hooks, _ = paths(person, "codex", "--project")
    hooks.mkdir(parents=True)
    refused(run("install", "codex", "--project"), 2, f"{hooks}: expected a file, found a folder")
    hooks.rmdir()
    hooks.parent.rmdir()
    hooks.parent.write_text("")
    refused(run("install", "codex", "--project"), 3, f"{hooks}: cannot be read: Not a directory")


def test_what_another_program_writes_meanwhile_is_not_lost(run, person, monkeypatch):
    """Claude Code writes its file at any time: between our look and our rename too."""
    _, servers = fill(person, "claude-code", "--user")
    look, looks = settings_files.read_settings, []

    def busy(path):
        found = look(path)
        if path == servers:
            looks.append(path)
            if len(looks) in (2, 4):  # after a plan was made
                servers.write_text(json.dumps({"startups": len(looks)}))
        return found

    monkeypatch.setattr(settings_files, "read_settings", busy)
    assert run("install", "claude-code", "--mcp").code == 0
    value = json.loads(servers.read_bytes())
    assert value["startups"] == 4
    assert "memplane" in value["mcpServers"]


def test_a_file_that_never_rests_is_given_up_and_the_other_goes_back(run, person, monkeypatch):
    hooks, servers = fill(person, "claude-code", "--user")
    look, count = settings_files.read_settings, iter(range(1000))

    def busy(path):
        found = look(path)
        if path == servers:
            servers.write_text(json.dumps({"startups": next(count)}))
        return found

    monkeypatch.setattr(settings_files, "read_settings", busy)
    refused(run("install", "claude-code"), 3, f"{servers}: another program keeps writing it")
    assert (
        hashlib.sha256(hooks.read_bytes()).digest()
        == hashlib.sha256(THEIRS.replace("\n", "\r\n").encode()).digest()
    )
    assert [*json.loads(servers.read_bytes())] == ["startups"]
    assert not [*person.rglob("*memplane-backup*")]
