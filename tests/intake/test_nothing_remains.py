"""Secrets go in by every door; then every byte of the plane and every word it said is searched."""

import contextlib
import json

import pytest
from builders_secrets import TOKENS

import memplane
from memplane import intake
from memplane.__main__ import main
from memplane.errors import MemplaneError
from memplane.importers import import_paths

NAMES = list(TOKENS)
EACH = [tokens[0] for tokens in TOKENS.values()]
PLAIN = "correct-Horse_7battery"


def parts_of(secret):
    """The secret and, of a long one, any 16 characters that no other text could hold by chance."""
    return [secret, *(secret[at : at + 16] for at in range(8, len(secret) - 24, 16))]


def said(error):
    """Every word of an error, of what caused it, and of its facts."""
    words = []
    while error is not None:
        words += [str(error), repr(vars(error)), repr(error.args)]
        error = error.__cause__ or error.__context__
    return "\n".join(words)


def tried(words, door, *args, **fields):
    try:
        words.append(repr(door(*args, **fields)))
    except MemplaneError as error:
        words.append(said(error))


def remains(home, words, secrets):
    """Where a secret still stands: names of files below the home, or the words that were said."""
    files = {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file()
    }
    files["(said)"] = "\n".join(words).encode()
    return [
        (name, secret[:12])
        for secret in secrets
        for name, data in files.items()
        if any(part.encode() in data for part in parts_of(secret))
    ]


FIELDS = ("id", "key", "session", "task", "actor", "ns", "kind", "role", "ts", "refs", "markers")


def doors(plane, token):
    """Every way in for a token: what is called, and with what."""
    record = plane.record
    yield record, (f"use {token} today",), {"role": "user", "session": "s1"}
    deep = {"deep": [{"note": f"see {token}"}], token: "v", "password": token}
    yield record, ("a",), {"data": deep}
    if len(token) <= 62:
        yield record, ("a",), {"tags": ["ok", f"t {token}"]}
    yield record, ("a",), {"data": {token: {"b": object()}}}
    yield record, ("a",), {"data": {"a": {token: {1: 2}}}}
    for field in FIELDS if len(token) <= 128 else ():
        value = [token] if field in ("refs", "markers") else token
        yield record, ("a",), {field: f"/task/{token}" if field == "ns" else value}
    yield record, ("a",), {token: 1}
    rows = [{"text": f"key {token}"}, {"text": "b", "id": token}, {"text": "b", token: 1}]
    yield plane.record_many, (rows,), {}
    yield plane.record_many, (iter(rows),), {"strict": False}
    more = {"session": "s1", "save_report": True, "budget": 900}
    yield plane.pack, (f"what is {token}?",), more


@pytest.mark.parametrize("each", [24, pytest.param(1, marks=pytest.mark.long)])
def test_of_a_token_of_any_provider_nothing_remains_in_the_plane_or_in_an_error(
    tmp_path, monkeypatch, each
):
    """Every token through every door, or through one door in 24, each token through others."""
    words = []
    if each > 1:  # a line is full sooner
        monkeypatch.setattr(intake, "LINE_MAX", 128 * 1024)
    home = tmp_path / "home"
    with memplane.init(home, durability="os") as plane:
        for number, token in enumerate(EACH):
            for door, given, named in [*doors(plane, token)][number % each :: each]:
                tried(words, door, *given, **named)
        filling = "so long that it becomes a body " * (intake.LINE_MAX // 30)
        tried(words, plane.record, filling + " ".join(EACH))
        assert [*(home / "bodies").glob("sha256/*/*")]
        plane.upkeep.rebuild()
    assert remains(home, words, EACH) == []


def test_what_only_its_surroundings_give_away_does_not_remain_either(tmp_path):
    words = []
    home = tmp_path / "home"
    with memplane.init(home) as plane:
        for text in (
            f"DB_PASSWORD={PLAIN}", f'{{"password": "{PLAIN}"}}', f"postgres://u:{PLAIN}@h/db",
            f"<password>{PLAIN}</password>", f"login --password {PLAIN}", f"Authorization: Basic {PLAIN}",
        ):  # fmt: skip
            tried(words, plane.record, text, data={"env": text, "headers": {"x-auth-token": PLAIN}})
        tried(words, plane.record, "a", data={"credentials": [[PLAIN]]})
        tried(words, plane.pack, f"password: {PLAIN}", save_report=True)
    assert remains(home, words, [PLAIN]) == []


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.long)])
def test_no_task_and_no_session_repeats_a_token_that_it_is_named_by(tmp_path, each):
    """Every token behind every text, or each of them behind one."""
    words = []
    home = tmp_path / "home"
    with memplane.init(home) as plane:
        plane.record("a", session="s1")
        for number, token in enumerate(EACH):
            for before in ("", "a" * 50 + ":", "a" * 140 + ":")[number % each :: each]:
                name = before + token
                for door in (plane.work.tasks.open, plane.work.tasks.update, plane.work.tasks.get, plane.work.tasks.done,
                             plane.work.tasks.switch, plane.work.sessions.start, plane.work.sessions.checkpoint,
                             plane.work.sessions.end, plane.work.sessions.get):  # fmt: skip
                    tried(words, door, name)
                tried(words, plane.work.tasks.open, f"mend {token} today", specs=[name])
                tried(words, plane.work.tasks.open, "t", "goal", plan=[name, 1])
                tried(words, plane.work.tasks.open, f"{name} b", "a goal beside a name with blanks")
    assert remains(home, words, EACH) == []


def transcript(token, number):
    """A transcript with a token wherever its client could write one, and where nobody would."""
    common = {
        "sessionId": "s",
        "cwd": "/p",
        "timestamp": "2026-03-01T10:00:00.000Z",
        "isSidechain": False,
    }
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Bash",
        "input": {"command": f"curl -H 'X: {token}'"},
    }
    records = [
        {"type": "user", "uuid": "u1", **common, "message": {"role": "user", "content": f"my key is {token}"}},
        {"type": "assistant", "uuid": "u2", **common, "message": {"role": "assistant", "id": "m", "content": [call]}},
        {"type": "user", "uuid": "u3", **common, "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": f"export TOKEN={token}"}]}},
        {"type": "user", "uuid": token, **common, "message": {"role": "user", "content": "an id that is a token"}},
        {"type": token, "uuid": "u4", **common, "message": {"role": "user", "content": "x"}},
        {"type": "user", "uuid": "u5", **common, "sessionId": token, "message": {"role": "user", "content": "x"}},
        {"type": "assistant", "uuid": "u6", **common, "message": {"role": "assistant", "id": "m2", "content": [
            {"type": "tool_use", "id": token, "name": token, "input": {token: {"file_path": token}}}]}},
        {"type": "summary", "summary": f"about {token}", "leafUuid": token},
    ]  # fmt: skip
    lines = [json.dumps(record).replace('"uuid": "u', f'"uuid": "{number}-u') for record in records]
    lines += [f'{{"type": "user", "broken {token}', f"not json {token}", "[]"]
    return "".join(line + "\n" for line in lines)


def test_of_tokens_in_imported_files_nothing_remains_nor_in_what_the_import_says(tmp_path):
    words = []
    home = tmp_path / "home"
    files = tmp_path / "files"
    files.mkdir()
    wanted = []
    with (files / "all.jsonl").open("w") as transcripts, (files / "rows.jsonl").open("w") as rows:
        for number, token in enumerate(EACH):
            transcripts.write(transcript(token, number))
            for row in (
                {"text": f"a {token}"},
                {"text": "b", "id": token},
                {"text": "c", token: 1},
                {"kind": token},
            ):
                rows.write(json.dumps(row) + "\n")
            wanted.append(f"my key is [redacted:{NAMES[number]}]")
    with memplane.init(home) as plane:
        report = import_paths(plane, None, [files])
        words.append(repr(report))
        plane.upkeep.rebuild()
        texts = {event.text for event in plane.events()}
        assert [text for text in wanted if text not in texts] == []
    assert remains(home, words, EACH) == []


@pytest.mark.parametrize(
    "token", [TOKENS["github-token"][0], TOKENS["jwt"][0], TOKENS["twilio-key"][0]]
)
def test_no_command_repeats_a_token_that_it_refuses(tmp_path, capsys, monkeypatch, token):
    monkeypatch.delenv("MEMPLANE_HOME", raising=False)
    home = str(tmp_path / "home")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"text": "a", "id": token}) + "\n")
    broken = tmp_path / "broken.jsonl"
    broken.write_text(f'{{"text": "{token}\n')
    assert main(["init", home]) == 0
    for argv in (
        ["record", f"use {token}"], ["record", "a", "--key", token], ["record", "a", "--kind", token],
        ["record", "--jsonl", str(rows)], ["record", "--jsonl", str(broken)], ["get", token], ["show", token],
        ["pack", token], ["pack", "a", "--channel", token], ["log", "--kind", token], ["log"], ["import", str(rows)],
        ["audit"], ["audit", "--detector", token], ["expand", token], ["forget", token], [token],
    ):  # fmt: skip
        for as_json in ([], ["--json"]):
            with contextlib.suppress(SystemExit):
                main([*argv, "--home", home, *as_json])
    printed = capsys.readouterr()
    assert remains(tmp_path / "home", [printed.out, printed.err], [token]) == []
