"""Our hooks in the settings of others: put in, taken out, whatever stands around them."""

import copy
import json

import builders_settings as settings
import pytest
from hypothesis import given, strategies as st

from memplane import clients
from memplane.clients import AGENTS, settings_files
from memplane.clients.settings_files import Traces
from memplane.errors import InputError

CLAUDE = AGENTS["claude-code"]
WANTED = CLAUDE.wanted(settings.PROGRAM)


def merged(value, wanted):
    """What an install means, in plain data."""
    value = copy.deepcopy(value)
    for event in dict.fromkeys(one.hook.event for one in wanted):
        those = [one for one in wanted if one.hook.event == event]
        group = {"hooks": [one.handler for one in those]}
        if those[0].hook.matcher is not None:
            group["matcher"] = those[0].hook.matcher
        value.setdefault("hooks", {}).setdefault(event, []).append(group)
    return value


@given(settings.agents, settings.texts())
def test_it_adds_exactly_our_hooks_and_takes_them_out_to_the_byte(agent, text):
    wanted = agent.wanted(settings.PROGRAM)
    added, traces = clients.add_hooks(text, agent, wanted)
    assert settings_files.parse_json(added) == merged(settings_files.parse_json(text), wanted)
    assert clients.remove_hooks(added, agent, traces) == text


@given(settings.agents, settings.texts())
def test_every_key_keeps_its_place_and_its_text(agent, text):
    added, _ = clients.add_hooks(text, agent, agent.wanted(settings.PROGRAM))
    rest = iter(added)
    assert all(letter in rest for letter in text if letter not in " \t\r\n")  # among what is new


@given(settings.agents, settings.texts())
def test_a_second_time_changes_nothing(agent, text):
    added, _ = clients.add_hooks(text, agent, agent.wanted(settings.PROGRAM))
    assert clients.add_hooks(added, agent, agent.wanted(settings.PROGRAM)) == (added, Traces())


@given(settings.agents, settings.texts())
def test_another_copy_of_memplane_takes_the_place_of_the_first(agent, text):
    added, traces = clients.add_hooks(text, agent, agent.wanted(settings.PROGRAM))
    moved, more = clients.add_hooks(added, agent, agent.wanted(settings.OTHER))
    assert more == Traces()
    fresh, _ = clients.add_hooks(text, agent, agent.wanted(settings.OTHER))
    assert settings_files.parse_json(moved) == settings_files.parse_json(fresh)
    assert clients.remove_hooks(moved, agent, traces) == text


@given(settings.agents, settings.texts(), settings.objects(), st.randoms(use_true_random=False))
def test_from_a_file_that_was_edited_since_only_ours_go(agent, text, theirs, chance):
    """Edited: other keys, hooks of others between and among ours, our time limits, any order."""
    added, traces = clients.add_hooks(text, agent, agent.wanted(settings.PROGRAM))
    edited = {**settings_files.parse_json(added), "theirs": theirs}
    for groups in edited["hooks"].values():
        for group in groups:
            if isinstance(group, dict) and chance.random() < 0.5:
                for handler in group["hooks"]:
                    if isinstance(handler, dict):
                        handler["timeout"] = 99
                group["hooks"].insert(chance.randrange(len(group["hooks"]) + 1), {"command": "x"})
        chance.shuffle(groups)
    keys = list(edited.items())
    chance.shuffle(keys)
    text = json.dumps(dict(keys), indent=chance.choice([None, 1, 4]))
    left = clients.remove_hooks(text, agent, traces)
    assert settings_files.parse_json(left) == without(
        settings_files.parse_json(text), agent, traces
    )
    assert list(settings_files.parse_json(left)) == [
        key for key in dict(keys) if key in settings_files.parse_json(left)
    ]


def without(value, agent, traces):
    """What an uninstall means, in plain data."""
    value = copy.deepcopy(value)
    for event in [*value["hooks"]]:
        groups, left = value["hooks"][event], []
        for group in groups:
            handlers = group["hooks"] if isinstance(group, dict) else []
            if not any(agent.behind(one) is not None for one in handlers):
                left.append(group)
                continue
            group["hooks"] = [one for one in group["hooks"] if agent.behind(one) is None]
            if group["hooks"]:
                left.append(group)
        value["hooks"][event] = left
        if not left and groups and ("hooks", event) in traces.made:
            del value["hooks"][event]
    if not value["hooks"] and ("hooks",) in traces.made:
        del value["hooks"]
    return value


@pytest.mark.parametrize("blank", ["", "\n", " \r\n\t", "\ufeff", "\ufeff\n"])
def test_a_blank_file_is_blank_again(blank):
    added, traces = clients.add_hooks(blank, CLAUDE, WANTED)
    assert added.startswith("\ufeff") == blank.startswith("\ufeff")
    assert clients.remove_hooks(added, CLAUDE, traces) == blank


def test_hooks_stand_in_the_indentation_of_the_file():
    text = '{\r\n\t"model": "opus",\r\n\t"hooks": {\r\n\t\t"Stop": [\r\n\t\t]\r\n\t}\r\n}\r\n'
    added, _ = clients.add_hooks(
        text, CLAUDE, [one for one in WANTED if one.hook.event == "Stop"][:1]
    )
    assert added == (
        '{\r\n\t"model": "opus",\r\n\t"hooks": {\r\n\t\t"Stop": [\r\n'
        '\t\t\t{\r\n\t\t\t\t"hooks": [\r\n\t\t\t\t\t{\r\n\t\t\t\t\t\t"type": "command",\r\n'
        '\t\t\t\t\t\t"command": "/opt/x/bin/memplane",\r\n'
        '\t\t\t\t\t\t"args": [\r\n\t\t\t\t\t\t\t"hook",\r\n\t\t\t\t\t\t\t"claude-code"\r\n'
        '\t\t\t\t\t\t],\r\n\t\t\t\t\t\t"timeout": 5\r\n\t\t\t\t\t}\r\n\t\t\t\t]\r\n\t\t\t}\r\n'
        "\t\t]\r\n\t}\r\n}\r\n"
    )


def test_what_a_person_changed_in_our_hook_stays_when_it_is_installed_again():
    text, _ = clients.add_hooks("{}", CLAUDE, WANTED)
    mine = text.replace('"timeout": 1\n', '"timeout": 7,\n "note": "mine"\n')
    assert mine != text
    assert clients.add_hooks(mine, CLAUDE, WANTED)[0] == mine
    moved, _ = clients.add_hooks(mine, CLAUDE, CLAUDE.wanted(settings.OTHER))
    last = settings_files.parse_json(moved)["hooks"]["SessionEnd"][0]["hooks"][0]
    assert (last["timeout"], last["note"], last["command"]) == (7, "mine", "/usr/bin/python3")


@pytest.mark.parametrize(
    "command",
    [
        "memplane hook claude-code",
        "MEMPLANE_HOME=~/x '/a b/memplane' hook claude-code --catch-up",
        "uvx --from memplane memplane hook claude-code",
        r'"C:\\tools\\memplane.exe" hook claude-code',
    ],
)
def test_ours_are_known_by_what_they_run_however_it_is_written(command):
    assert CLAUDE.behind({"type": "command", "command": command}) is not None
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": command}, {"command": "x"}]}]}})
    assert settings_files.parse_json(clients.remove_hooks(text, CLAUDE, Traces())) == {
        "hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}
    }


@pytest.mark.parametrize(
    "command", ["memplane", "memplane hook codex", "memplane-x hook claude-code", "memplane 'hook"]
)
def test_what_runs_something_else_is_not_ours(command):
    assert CLAUDE.behind({"command": command}) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "expected a JSON object"),
        ('{"hooks": []}', "hooks: expected an object of events"),
        ('{"hooks": null}', "hooks: expected an object of events"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop: expected a list"),
        ("{\n  // mine\n}", "line 2, column 3: expected JSON, found a comment"),
        ('{"a": 1,\n/* x */ "b": 2}', "line 2, column 1: expected JSON, found a comment"),
        ('{"a": 1,\r\n "b": NaN}', "line 2, column 7: expected JSON, found NaN"),
        ('{"a": ["NaN", -Infinity]}', "line 1, column 15: expected JSON, found -Infinity"),
        ("{'a': 1}", "line 1, column 2: expected JSON, found"),
        ('{"a": 1', "line 1, column 8: expected JSON, found the end"),
        ("{} {}", "line 1, column 4: expected JSON, found '{'"),
        ("[" * 100_000, "nested"),
    ],
)  # fmt: skip
def test_what_is_no_settings_file_is_refused_with_its_place(text, said):
    with pytest.raises(InputError) as refused:
        clients.add_hooks(text, CLAUDE, WANTED)
    assert said in str(refused.value)


def test_of_two_members_with_one_key_the_last_is_changed():
    text = '{"hooks": {"Stop": 1}, "hooks": {}}'
    added, traces = clients.add_hooks(text, CLAUDE, WANTED)
    assert added.startswith('{"hooks": {"Stop": 1}, "hooks": {"SessionStart": [')
    assert clients.remove_hooks(added, CLAUDE, traces) == text
