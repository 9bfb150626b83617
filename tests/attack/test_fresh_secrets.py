"""Whoever writes: secrets made at each run go in by every door, and no byte of them stays."""

import contextlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import memplane
from memplane.__main__ import main
from memplane.errors import MemplaneError
from memplane.importers import import_paths

sys.path.insert(0, str(Path(__file__).parents[1] / "intake"))

from fresh_forms import Fresh
from made_up import tokens


def secrets(seed):
    """(text that gives the secret away, secret): a few forms and tokens of every kind."""
    fresh = Fresh(seed)
    pw = [fresh.pw() for _ in range(5)]
    table = tokens(str(seed))
    made = [
        (f"postgres://app:{pw[0]}@db/x", pw[0]),
        (f"Bearer {pw[1]}{pw[1]}", pw[1]),
        (f"password={pw[2]}", pw[2]),
        (f"https://{fresh.hexa(32)}{pw[3]}@o1.ingest.sentry.io/2", pw[3]),
    ]
    return made + [(token[0], token[0]) for token in table.values()]


def pieces(secret):
    """Every twelve characters of it, or all of a shorter one."""
    n = min(12, len(secret))
    return {secret[at : at + n] for at in range(len(secret) - n + 1)}


def left(folders, words, secret, known):
    """Files and words in which a piece of the secret stands that no fixed text holds."""
    wanted = [piece.encode() for piece in pieces(secret) if piece not in known]
    found = [
        str(path)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(piece in path.read_bytes() for piece in wanted)
    ]
    return found + ["(said)"] * any(piece in "\n".join(words).encode() for piece in wanted)


def said(words, door, *args, **fields):
    try:
        words.append(repr(door(*args, **fields)))
    except MemplaneError as error:
        while error is not None:
            words.extend((str(error), repr(vars(error))))
            error = error.__cause__ or error.__context__


def hook(home, payload, agent, environment):
    done = subprocess.run(
        [sys.executable, "-m", "memplane", "hook", agent],
        input=json.dumps(payload), text=True, capture_output=True, check=False, timeout=120,
        env={**os.environ, **environment, "MEMPLANE_HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0
    return done.stdout + done.stderr


def all_doors(home, files, words, form, number):
    """The library's doors; an identifier is refused or masked, a text is stored without it."""
    rows = files / f"{number}.jsonl"
    rows.write_text(
        "".join(
            json.dumps(row) + "\n"
            for row in (
                {"text": form},
                {"text": "a", "id": form},
                {"text": "a", "session": form},
                {form: 1},
            )
        )
    )
    with memplane.open(home) as plane:
        said(words, plane.record, f"use {form} now", session="s", data={"a": [form, {form: form}]})
        for field in ("session", "actor", "key", "id", "task"):
            said(words, plane.record, "a", **{field: form})
        for field in ("refs", "markers", "tags"):
            said(words, plane.record, "a", **{field: [form]})
        said(words, plane.record, "a", ns=f"/task/{form}")
        said(words, plane.record_many, [{"text": form}, {"text": "b", "key": form}])
        said(words, plane.tasks.open, form)
        said(words, plane.sessions.start, form)
        said(words, plane.sessions.start, "s2", agent=form)
        said(words, plane.pack, form, session=form, task=form, agent=form, save_report=True)
        said(words, plane.pack, "a", exclude=[form], save_report=True)
        said(words, plane.search, form)
        said(words, import_paths, plane, None, [rows])
    for argv in (["record", "a", "--session", form], ["record", "a", "--key", form], ["get", form],
                 ["pack", form, "--session", form], ["search", form], ["show", form], [form]):  # fmt: skip
        with contextlib.suppress(SystemExit):
            main([*argv, "--home", str(home)])


def swept(tmp_path, capsys, cases, known):
    home, files = tmp_path / "home", tmp_path / "files"
    files.mkdir()
    memplane.init(home).close()
    words = []
    for number, (form, _) in enumerate(cases):
        all_doors(home, files, words, form, number)
    printed = capsys.readouterr()
    words += [printed.out, printed.err]
    return [
        (form, found) for form, secret in cases if (found := left([home], words, secret, known))
    ]


def fixed(seed):
    """Pieces that tokens of two runs share are no secret: `maker.ifttt.com/trigger` is a name."""
    return {piece for _, secret in secrets(seed) for piece in pieces(secret)} & {
        piece for _, secret in secrets(seed + 1) for piece in pieces(secret)
    }


def test_of_fresh_secrets_in_every_door_of_the_library_and_the_commands_nothing_stays(
    tmp_path, capsys
):
    seed = random.randrange(1 << 32)
    cases = secrets(seed)
    sample = cases[:4] + random.Random(seed).sample(cases[4:], 4)
    assert swept(tmp_path, capsys, sample, fixed(seed)) == [], seed


@pytest.mark.long
@pytest.mark.parametrize("share", range(12))
def test_of_every_rule_nothing_stays_in_any_door(tmp_path, capsys, share):
    seed = random.randrange(1 << 32)
    assert swept(tmp_path, capsys, secrets(seed)[share::12], fixed(seed)) == [], seed


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_hook_whose_identifiers_hold_a_secret_still_records(tmp_path, agent):
    seed = random.randrange(1 << 32)
    form, secret = secrets(seed)[0]
    home = tmp_path / "home"
    memplane.init(home).close()
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    words = []
    used = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": "x"}
    for event in (
        {"hook_event_name": "UserPromptSubmit", "prompt": "hello there"},
        {"hook_event_name": "PostToolUse", **used},
    ):
        ids = dict.fromkeys(("session_id", "agent_id", "prompt_id", "turn_id", "tool_use_id"), form)
        words.append(hook(home, {**ids, **event, "cwd": str(tmp_path)}, agent, environment))
    with memplane.open(home) as plane:
        texts = [event.text for event in plane.events()]
    assert "hello there" in texts
    assert "Bash command=ls" in texts
    assert left([tmp_path], words, secret, ()) == [], seed


def test_views_policies_and_their_snapshots_hold_no_token(tmp_path):
    seed = random.randrange(1 << 32)
    token = tokens(str(seed))["github-token"][0]
    home = tmp_path / "home"
    with memplane.init(home) as plane:
        (home / "views" / "rules.project.md").write_text(f"Push with {token} only.\n")
        block = plane.pack("push", save_report=True)
        assert "[redacted:github-token]" in block.text
    with memplane.open(home) as plane:
        again = plane.pack("push", save_report=True)
        assert again.text == block.text
    for folder in ("bodies", "reports", "projections"):
        assert left([home / folder], [], token, ()) == []


def test_what_policy_check_says_of_a_pattern_with_a_token_does_not_repeat_it(tmp_path, capsys):
    seed = random.randrange(1 << 32)
    for name in ("github-token", "jwt", "anthropic-key"):
        token = tokens(str(seed))[name][0]
        home = tmp_path / name
        memplane.init(home).close()
        (home / "policies" / "privacy.yaml").write_text(
            f'version: 1\nstore:\n  redact_patterns: ["({token}"]\n  never_store_kinds: ["{token}"]\n'
        )
        for argv in (["policy", "check"], ["policy", "show"], ["pack", "a"]):
            with contextlib.suppress(SystemExit):
                main([*argv, "--home", str(home)])
        printed = capsys.readouterr()
        assert left([], [printed.out, printed.err], token, ()) == [], (seed, name, printed)


def test_a_value_under_a_key_that_names_a_secret_is_masked(plane):
    fresh = Fresh(random.randrange(1 << 32))
    for key in ("db.password", "auth.token", "stripe.secret_key", "service.api_key", "private_key"):
        value = fresh.marked()
        plane.record(value, kind="fact", key=key)
        assert value not in plane.pack(value, channel="public").text
        assert plane.get(key).text == "[redacted:secret-value]"
    plane.record("rotated every week", kind="fact", key="db.password")
    assert plane.get("db.password").text == "rotated every week"
