"""Whoever writes: secrets made at each run go in by every door, and no byte of them stays."""

import contextlib
import json
import os
import random
import subprocess
import sys

import pytest
from builders_fresh_secrets import Fresh
from builders_secrets import tokens

import memplane
from memplane.__main__ import main
from memplane.errors import MemplaneError
from memplane.importers import import_paths


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
        said(words, plane.work.tasks.open, form)
        said(words, plane.work.sessions.start, form)
        said(words, plane.work.sessions.start, "s2", agent=form)
        said(words, plane.pack, form, session=form, task=form, agent=form, save_report=True)
        said(words, plane.pack, "a", exclude=[form], save_report=True)
        said(words, plane.search, form)
        said(words, import_paths, plane, None, [rows])
    for argv in (["record", "a", "--session", form], ["record", "a", "--key", form], ["get", form],
                 ["pack", form, "--session", form], ["search", form], ["show", form], [form]):  # fmt: skip
        with contextlib.suppress(SystemExit):
            main([*argv, "--home", str(home)])


def commanded(home, *argv):
    with contextlib.suppress(SystemExit):
        main([*argv, "--home", str(home)])


def command_doors(home, files, form, number):
    """Tasks, sessions, packs with their reports, exports, scenarios, what is forgotten."""
    for argv in (
        ["session", "start", form], ["session", "start", "s3", "--agent", form, "--branch", form],
        ["session", "checkpoint", "s3", form], ["session", "checkpoint", form],
        ["session", "show", form], ["session", "end", form],
        ["task", "open", form, form], ["task", "open", f"t{number}", form, "--plan", form, "--spec", form],
        ["task", "update", f"t{number}", form, "--plan", form], ["task", "update", form, "--done", form],
        ["task", "block", f"t{number}", form], ["task", "switch", form], ["task", "done", f"t{number}", form],
        ["task", "show", form], ["task", "list"], ["session", "list"],
        ["pack", form, "--session", form, "--task", form, "--agent", form, "--exclude", form],
        ["pack", "a", "--exclude", form], ["pack", "a", "--expand", form, "--section", form],
        ["pack", "a", "--ns", f"/agent/{form}", "--channel", form, "--since", form, "--json"],
        ["why", "1", form], ["why", form, "1"], ["replay"], ["replay", form], ["expand", f"task/{form}"],
        ["forget", form, "--reason", form], ["forget", "--id", "1", "--reason", form],
        ["purge", form, "--dry-run", "--reason", form], ["pin", form], ["touch", form], ["history", form],
        ["keys", form], ["files", form, "--branch", form], ["decisions", "--ns", f"/spec/{form}"],
        ["audit"], ["log"], ["export", str(files / f"{number}.export"), "--redact"],
        ["export", str(files / f"{number}.part"), "--session", form], ["export", "-", "--ns", form],
    ):  # fmt: skip
        commanded(home, *argv)
    scenario = files / f"{number}.yaml"
    scenario.write_text(
        "version: 1\n"
        + json.dumps({"scenario": "SCN-901", "title": form, "given": {"events": [{"id": "a", "text": form}]},
                      "when": [{"pack": {"query": form}}, {"run": {"command": f"show {form}"}}],
                      "assertions": [{"contains": {"text": f"no {form}"}}]})[1:-1]
    )  # fmt: skip
    scenario.write_text("{version: 1, " + scenario.read_text().removeprefix("version: 1\n") + "}")
    commanded(
        home, "scenario", "run", str(scenario), "--report-dir", str(files / f"{number}.reports")
    )
    scenario.unlink()


def artifact_doors(home, files, words, form, number):
    """What is said of a file, and its name; a text that holds a secret is refused or masked."""
    plain, secret = files / f"{number}.md", files / f"{number}.txt"
    plain.write_text(f"plain {number}\n")
    secret.write_text(f"use {form} here\n")
    named = files / (f"named-{number}.md" if "/" in form else f"{form[:200]}.md")  # of one folder
    named.write_text(f"named {number}\n")
    with memplane.open(home) as plane:
        said(words, plane.work.artifacts.add, plain, form, tags=["a"])
        for field in ("name", "mime", "key", "task", "session", "actor"):
            said(words, plane.work.artifacts.add, plain, **{field: form})
        said(words, plane.work.artifacts.add, plain, tags=[form])
        said(words, plane.work.artifacts.add, named)
        said(words, plane.work.artifacts.add, named, reference=True)
        said(words, plane.work.artifacts.add, secret)
        said(words, plane.work.artifacts.add, secret, redact=True)
        said(words, plane.work.artifacts.add, plain, sidecar=secret, type="research_report")
        said(words, plane.work.artifacts.add, secret, type="research_bundle", redact=True)
        said(words, plane.work.artifacts.show, form)
        said(words, plane.work.artifacts.approve, f"{number}.md", form)
        said(words, plane.work.artifacts.revoke, f"{number}.md", form)
        said(words, plane.work.artifacts.list, all=True)
    for argv in (["add", str(named)], ["add", str(plain), form, "--name", form], ["add", str(secret)],
                 ["add", str(secret), "--redact", "--name", f"masked-{number}"], ["show", form],
                 ["show", f"masked-{number}", "--review"], ["list", "--all"], ["approve", form, "--reason", form],
                 ["export", form, "--to", str(files)], ["export", f"masked-{number}", "--to", str(files)]):  # fmt: skip
        commanded(home, "artifact", *argv)
    for one in (plain, secret, named):
        one.unlink()


def mcp_doors(home, files, words, cases):
    """What a client sends, and all that it reads and that the server's stderr gets."""
    anyio = pytest.importorskip("anyio")
    pytest.importorskip("mcp")
    from mcp import Client, StdioServerParameters, stdio_client, types

    async def asked(client, form):
        def store(**given):
            return ("memory_store", {"content": "a", "type": "fact", **given})

        for name, given in (
            store(content=f"use {form} now"), store(key=form), store(key="db.password", content=form),
            store(tags=[form]), store(type=form), store(ns=f"/task/{form}"), store(importance=form),
            store(**{form: "a"}), store(content={"a": form}), ("memory_get", {"key": form}),
            ("memory_get", {"handle": form}), ("memory_get", {"handle": f"expand://task/{form}"}),
            ("memory_search", {"query": form}), ("memory_search", {"query": "a", "since": form, "ns": form}),
            ("memory_curate", {"query": form, "task": form}), ("memory_curate", {"query": "a", "mode": form}),
            ("memory_forget", {"key": "db.password", "reason": form}), ("memory_forget", {"key": form}),
            ("memory_forget", {"id": form, "reason": form}), ("memory_list_keys", {"prefix": form, "after": form}),
            (form, {}),
        ):  # fmt: skip
            try:
                words.append((await client.call_tool(name, given)).model_dump_json())
            except Exception as error:  # noqa: BLE001 - what a client is told
                words.extend((str(error), repr(error)))
        uris = (
            "memplane://report", "memplane://tasks", "memplane://decisions", f"expand://task/{form}",
            f"expand://memory/global/{form}?depth=1", f"memplane://{form}", form,
        )  # fmt: skip
        for uri in uris:
            try:
                read = await client.read_resource(uri)
                words.extend(one.text for one in read.contents)
            except Exception as error:  # noqa: BLE001 - as above
                words.extend((str(error), repr(error)))

    async def talked():
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "memplane", "mcp", "--home", str(home)],
            env=dict(os.environ),
        )  # fmt: skip
        with (files / "stderr").open("w") as stderr:
            info = types.Implementation(name=max((form for form, _ in cases), key=len), version="1")
            connection = stdio_client(server, errlog=stderr)
            async with Client(connection, client_info=info) as client:
                for form, _ in cases:
                    await asked(client, form)

    anyio.run(talked)
    words.append((files / "stderr").read_text())
    assert any("stored as #" in each for each in words), "nothing was stored"


DOORS = ("library", "commands", "artifacts", "mcp")


def swept(tmp_path, capsys, cases, known, doors=DOORS):
    home, files = tmp_path / "home", tmp_path / "files"
    files.mkdir()
    memplane.init(home).close()
    words = []
    for number, (form, _) in enumerate(cases):
        if "library" in doors:
            all_doors(home, files, words, form, number)
        if "artifacts" in doors:
            artifact_doors(home, files, words, form, number)
        if "commands" in doors:
            command_doors(home, files, form, number)
    if "mcp" in doors:
        mcp_doors(home, files, words, cases)
    for rows in files.glob("*.jsonl"):
        rows.unlink()
    printed = capsys.readouterr()
    words += [printed.out, printed.err]
    return [
        (form, found)
        for form, secret in cases
        if (found := left([home, files], words, secret, known))
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
    sample = cases[:2] + random.Random(seed).sample(cases[2:], 2)
    assert swept(tmp_path, capsys, sample, fixed(seed), ("library", "mcp")) == [], seed


def test_of_fresh_secrets_in_files_and_commands_nothing_stays(tmp_path, capsys):
    seed = random.randrange(1 << 32)
    cases = secrets(seed)
    sample = cases[:1] + random.Random(seed).sample(cases[1:], 1)
    assert swept(tmp_path, capsys, sample, fixed(seed), ("artifacts", "commands")) == [], seed


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
