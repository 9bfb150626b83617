"""The skill, the section of AGENTS.md and the client's own memory: put in, and taken out whole."""

import json
import os
import stat
import tomllib
from itertools import permutations

import pytest
from builders_people import fill, paths, tree, without_state
from checks_refusals import refused

from memplane import clients
from tests.examples import paired

AGENTS = ("claude-code", "codex")
SCOPES = ("--user", "--project")


def guided(person, agent, scope="--user"):
    """The file with the text for the agent."""
    above = person if scope == "--user" else person / "project"
    if agent == "claude-code":
        return above / ".claude" / "skills" / "memplane" / "SKILL.md"
    return (above / ".codex" if scope == "--user" else above) / "AGENTS.md"


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o640)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("scope", SCOPES)
def test_the_skill_alone_comes_and_goes_and_a_second_run_changes_nothing(run, person, agent, scope):
    before, path = tree(person), guided(person, agent, scope)
    assert f"{path}: created\n" in run("install", agent, scope, "--skill").out
    text = path.read_text()
    assert "memory_store" in text
    assert not any(one.exists() for one in paths(person, agent, scope))
    after = tree(person)
    assert f"{path}: as it was\n" in run("install", agent, scope, "--skill").out
    assert tree(person) == after
    assert f"{path}: deleted\n" in run("uninstall", agent, "--skill").out
    assert without_state(tree(person)) == before


def test_the_skill_has_the_frontmatter_that_claude_code_reads(run, person):
    run("install", "claude-code", "--skill")
    _, head, body = guided(person, "claude-code").read_text().split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields["name"] == "memplane"
    assert "Use before work" in fields["description"]
    assert len(fields["description"]) <= 1024
    assert body.startswith("\n# ")


@pytest.mark.parametrize(
    "text",
    ["Use tabs.", "# Ours\n\nUse tabs.\n", "a\r\nb\r\n", "\n\n", "", "\ufeffUse tabs\n", "x\n\n\n"],
)
@pytest.mark.parametrize("scope", SCOPES)
def test_what_others_wrote_in_agents_md_stays_and_comes_back_byte_for_byte(
    run, person, text, scope
):
    path = guided(person, "codex", scope)
    put(path, text)
    before = tree(person)
    run("install", "codex", scope, "--skill")
    now = path.read_bytes().decode()
    assert now.startswith(text.rstrip("\n") if text.strip() else "")
    assert now.count("memplane install") == 2
    assert ("\r\n" in now) == ("\r\n" in text)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    again = tree(person)
    run("install", "codex", scope, "--skill")
    assert tree(person) == again
    run("uninstall", "codex", "--skill")
    assert without_state(tree(person)) == before


def test_what_is_written_behind_and_before_the_section_stays(run, person):
    path = guided(person, "codex")
    put(path, "Use tabs.")
    run("install", "codex", "--skill")
    path.write_text(f"New first.\n{path.read_text()}New last.\n")
    run("uninstall", "codex", "--skill")
    assert path.read_text() == "New first.\nUse tabs.\nNew last.\n"


@pytest.mark.parametrize("agent", AGENTS)
def test_an_edited_text_is_left_alone_and_that_is_said(run, person, agent):
    path = guided(person, agent)
    run("install", agent, "--skill")
    path.write_text(path.read_text().replace("Ask it", "Always ask it"))
    before = path.read_bytes()
    for word in ("install", "uninstall"):
        done = run(word, agent, "--skill")
        assert (done.code, f"{path}: was edited, so it stays as it is\n" in done.out) == (0, True)
        assert path.read_bytes() == before
    path.write_text(path.read_text().replace("Always ask it", "Ask it"))
    run("uninstall", agent, "--skill")
    assert not path.exists()


@pytest.mark.parametrize("agent", AGENTS)
def test_what_an_older_memplane_wrote_is_renewed(run, person, agent, monkeypatch):
    path = guided(person, agent)
    before = tree(person)
    with monkeypatch.context() as older:
        older.setattr(clients, "GUIDANCE", "Ask memplane.\n")
        run("install", agent, "--skill")
    assert f"{path}: changed" in run("install", agent, "--skill").out
    assert clients.GUIDANCE in path.read_text()
    run("uninstall", agent, "--skill")
    assert without_state(tree(person)) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_without_the_record_of_the_install_it_goes_too(run, person, agent):
    path = guided(person, agent)
    if agent == "codex":
        put(path, "Use tabs.\n")
    run("install", agent, "--skill")
    for file in (person / ".local" / "state" / "memplane" / "clients").glob("*.json"):
        file.unlink()
    run("uninstall", agent, "--skill")
    assert path.read_text().strip() == "Use tabs." if agent == "codex" else not path.exists()


@pytest.mark.parametrize("flags", [(), ("--skill",), ("--dry-run",)])
def test_a_skill_of_that_name_that_others_wrote_is_refused_and_nothing_is_written(
    run, person, flags
):
    path = guided(person, "claude-code")
    put(path, "---\nname: memplane\ndescription: mine\n---\n\nMine.\n")
    before = tree(person)
    refused(run("install", "claude-code", *flags), 2, "is not ours; rename it; nothing was changed")
    assert tree(person) == before
    run("uninstall", "claude-code")
    assert without_state(tree(person)) == before


def test_a_section_without_an_end_is_refused(run, person):
    path = guided(person, "codex")
    run("install", "codex", "--skill")
    path.write_text(path.read_text().replace("<!-- memplane install, end -->", ""))
    before = path.read_bytes()
    for word in ("install", "uninstall"):
        refused(run(word, "codex", "--skill"), 2, "expected one section of memplane install")
    assert path.read_bytes() == before


def test_links_stay_links(run, person):
    kept = person / "dotfiles" / "rules.md"
    put(kept, "Use tabs.\n")
    path = guided(person, "codex")
    path.parent.mkdir()
    path.symlink_to("../dotfiles/rules.md")
    skills = person / ".claude" / "skills"
    skills.parent.mkdir()
    (person / "dotfiles" / "skills").mkdir()
    skills.symlink_to("../dotfiles/skills")
    before = tree(person)
    for agent in AGENTS:
        run("install", agent, "--skill")
    assert path.is_symlink()
    assert skills.is_symlink()
    assert "memplane" in kept.read_text()
    for agent in AGENTS:
        run("uninstall", agent, "--skill")
    assert without_state(tree(person)) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_for_reading_only_is_named_and_nothing_is_written(run, person):
    skills = person / ".claude" / "skills"
    skills.mkdir(parents=True)
    skills.chmod(0o555)
    before = tree(person)
    refused(run("install", "claude-code"), 3, f"{skills}: is read-only; nothing was changed")
    assert tree(person) == before


def test_an_agents_md_for_reading_only_stays(run, person):
    path = guided(person, "codex")
    put(path, "Use tabs.\n")
    path.chmod(0o444)
    before = tree(person)
    refused(run("install", "codex"), 3, f"{path}: is read-only; nothing was changed")
    assert tree(person) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_a_dry_run_shows_the_text_and_writes_none(run, person, agent):
    before = tree(person)
    done = run("install", agent, "--dry-run")
    assert f"+++ {guided(person, agent)}\n" in done.out
    assert "+- before work in an area met before" in done.out
    assert tree(person) == before


def test_codex_is_said_to_read_another_file_where_there_is_one(run, person):
    put(guided(person, "codex").with_name("AGENTS.override.md"), "Use tabs.\n")
    assert "AGENTS.override.md in place of the AGENTS.md" in run("install", "codex").err


# The client's own memory.

OFF = ("--native-memory", "off")


SETTINGS = [
    None, "{}", "{ }\n", '{"model": "opus"}', '{\n\t"model": "opus"\n}\n', "",
    '{"autoMemoryEnabled": true}', '{\r\n  "autoMemoryEnabled":true,\r\n  "model": 1e3\r\n}',
]  # fmt: skip


@pytest.mark.parametrize(("text", "back"), paired(SETTINGS, ["uninstall", "on"], 2))
def test_claude_codes_own_memory_goes_off_and_back_to_the_byte(run, person, text, back):
    hooks, _ = paths(person, "claude-code", "--user")
    if text is not None:
        put(hooks, text)
    before = tree(person)
    run("install", "claude-code", *OFF)
    value = json.loads(hooks.read_bytes())
    assert value["autoMemoryEnabled"] is False
    assert "SessionStart" in value["hooks"]
    after = tree(person)
    run("install", "claude-code", *OFF)
    assert tree(person) == after
    if back == "on":
        run("install", "claude-code", "--native-memory", "on")
        assert json.loads(hooks.read_bytes()).get("autoMemoryEnabled", True) is True
    run("uninstall", "claude-code")
    assert without_state(tree(person)) == before


CODEX = [
    "[features]\nmemories = true\n",
    "features.memories = true # mine\nmodel = 'x'",
    "features = { memories = true, hooks = true }\n",
    '# memories = true\r\n[features]\r\nhooks = true\r\n"memories" =  true\r\n\r\n[a]\r\nmemories = true\r\n',
]


@pytest.mark.parametrize("text", CODEX)
def test_codex_own_memory_goes_off_where_it_is_on_and_back_to_the_byte(run, person, text):
    _, settings = paths(person, "codex", "--user")
    put(settings, text)
    before = tree(person)
    run("install", "codex", *OFF)
    now, was = tomllib.loads(settings.read_bytes().decode()), tomllib.loads(text)
    assert now.pop("mcp_servers")
    was["features"]["memories"] = False
    assert now == was
    run("uninstall", "codex")
    assert without_state(tree(person)) == before


@pytest.mark.parametrize("text", [None, "model = 'x'\n", "[features]\nmemories = false\n"])
def test_codex_own_memory_that_is_off_already_is_said_to_be_and_stays_off(run, person, text):
    _, settings = paths(person, "codex", "--user")
    if text is not None:
        put(settings, text)
    before = tree(person)
    done = run("install", "codex", "--skill", *OFF)
    assert "Codex's own memory is off already; nothing was changed for it" in done.err
    run("uninstall", "codex")
    assert without_state(tree(person)) == before


def test_an_own_memory_that_somebody_switched_off_himself_stays_off(run, person):
    hooks, _ = paths(person, "claude-code", "--user")
    put(hooks, '{"autoMemoryEnabled": false}')
    before = tree(person)
    done = run("install", "claude-code", *OFF)
    assert "own memory is off already" in done.err
    assert "was not switched off here" in run("install", "claude-code", "--native-memory", "on").err
    run("uninstall", "claude-code")
    assert without_state(tree(person)) == before


def test_what_is_switched_on_again_by_hand_is_left_so(run, person):
    hooks, _ = paths(person, "claude-code", "--user")
    put(hooks, '{"model": "opus"}')
    run("install", "claude-code", *OFF)
    hooks.write_text(hooks.read_text().replace("false", "true"))
    run("uninstall", "claude-code")
    assert json.loads(hooks.read_bytes()) == {"model": "opus", "autoMemoryEnabled": True}


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("scope", SCOPES)
def test_it_is_never_switched_off_by_default(run, person, agent, scope):
    hooks, servers = fill(person, agent, scope)
    if agent == "codex":
        servers.write_text("[features]\nmemories = true\n")
    run("install", agent, scope)
    said = (hooks if agent == "claude-code" else servers).read_text()
    assert "autoMemoryEnabled" not in said
    assert "memories = false" not in said
    assert "own memory" not in run("uninstall", agent).out


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    ("order", "first"), paired(permutations(["--hooks", "--skill", "memory"]), [0, 1, 2], 3)
)
def test_parts_of_one_file_come_and_go_in_any_order(run, person, there, order, first):
    hooks, _ = paths(person, "claude-code", "--user")
    if there:
        put(hooks, '{ "model":  "opus" }')
    before = without_state(tree(person))
    for part in order:
        run("install", "claude-code", *(("--skill", *OFF) if part == "memory" else (part,)))
    for part in (*order[first:], *order[:first]):
        more = ("--skill", "--native-memory", "on") if part == "memory" else (part,)
        run("install" if part == "memory" else "uninstall", "claude-code", *more)
    run("uninstall", "claude-code")
    assert without_state(tree(person)) == before


def test_a_dry_run_shows_each_part_of_a_file_behind_the_one_before(run, person):
    before = tree(person)
    done = run("install", "claude-code", *OFF, "--dry-run", "--json")
    of = {one["part"]: one for one in json.loads(done.out)["files"]}
    assert [*of] == ["hooks", "mcp", "skill", "memory"]
    assert (of["hooks"]["did"], of["memory"]["did"]) == ("created", "changed")
    assert "autoMemoryEnabled" not in of["hooks"]["diff"]
    assert "SessionStart" not in of["memory"]["diff"]
    assert tree(person) == before


def test_what_goes_before_the_setting_is_named(run, person, monkeypatch):
    said = "CLAUDE_CODE_DISABLE_AUTO_MEMORY is set in this environment and goes before the setting"
    monkeypatch.delenv(clients.OVERRIDES, raising=False)
    assert said not in run("install", "claude-code", *OFF).err
    monkeypatch.setenv(clients.OVERRIDES, "0")
    assert said in run("install", "claude-code", *OFF).err


@pytest.mark.parametrize(
    ("agent", "text", "said"),
    [
        ("claude-code", '{"autoMemoryEnabled": "no"}', "autoMemoryEnabled: expected true or false"),
        ("codex", "[features]\nmemories =\n true\n", "expected TOML"),
    ],
)
def test_a_setting_that_cannot_be_changed_leaves_all_as_it_is(run, person, agent, text, said):
    hooks, servers = paths(person, agent, "--user")
    put(servers if agent == "codex" else hooks, text)
    before = tree(person)
    refused(run("install", agent, *OFF), 2, said)
    assert tree(person) == before
