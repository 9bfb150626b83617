"""Records what crosses the border to the real clients, for the tests in `tests/recorded`.

    MEMPLANE_CLAUDE=... python tools/record_sessions.py claude-code
    MEMPLANE_CODEX=... python tools/record_sessions.py codex

Runs the sessions of `tests/agents/process_clients.py` against the scripted model on loopback. In
front of memplane stands a `memplane` that notes what each call of a hook is given, and each line
that a client sends to our MCP server, and passes it on. `tests/recorded/AGENT-VERSION/` then
holds::

    crossed.jsonl    the calls and the lines, in the order in which they came
                     {"argv": ["hook", "codex"], "env": {...}, "stdin": {...}}
                     {"argv": ["mcp"], "server": 1, "line": {...}}
    home/            what the client itself wrote of its sessions, where it wrote it

Only the client's structure is kept, what the scripted model and the person said, and what memplane
answered: paths of this machine become /home/ann, and whatever else has words is left out, but for
the beginnings of lines beside our own words, by which importers tell them from the client's. Of the
records that no importer reads one of each kind is kept, in outline.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Container
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "agents"))

import process_clients as sessions  # noqa: E402 - from the folder above
from fakes_model_server import Model  # noqa: E402 - likewise

RECORDED: Final = ROOT / "tests" / "recorded"
CLIENTS: Final = {
    "claude-code": (sessions.with_claude_code, sessions.CLAUDE),
    "codex": (sessions.with_codex, sessions.CODEX),
}
VARIABLES: Final = ("CLAUDE_PROJECT_DIR",)  # what clients tell hooks beside stdin
LEFT_OUT: Final = "(left out)"
WORDS_MAX: Final = 40  # what is shorter is a label
# Beside our own words a line of 120 characters may stand, of a longer one 64 do.
CUT: Final = re.compile(r"(?m)^(.{64}).{57,}$")
LINE_MAX: Final = 160  # of a path or an identifier
OURS: Final = re.compile(
    r"Memory \(recalled by memplane.*?memplane:end \w+"
    + "".join(f"|{re.escape(text)}" for text in sorted(sessions.TEXTS, key=len, reverse=True)),
    re.DOTALL,
)
TAGS: Final = re.compile(r"(<[^<>]*>)")
# What the importers read, and what holds our own words: kept, but for fields that nothing reads.
KEPT: Final = {
    "user", "assistant", "system",
    "response_item", "compacted", "session_meta", "turn_context",
}  # fmt: skip
KEPT_WITHIN: Final = {"hook_additional_context", "queued_command"}
UNREAD: Final = {
    "rendered", "metadata", "content_item_metadata", "hookInfos", "mcpMeta", "replacement_history",
    "usage", "permission_profile", "toolUseResult", "permissionDecision", "collaboration_mode",
}  # fmt: skip
SORTED_BY: Final = {"attachment", "payload"}  # their type is the record's second one
SPINE: Final = {"type", "timestamp", "ordinal", "operation"}
SEPARATORS: Final = (",", ":")  # as the clients write
STAND_IN: Final = """\
#!{python}
import sys
sys.path.insert(0, {tools!r})
from record_sessions import pass_on
sys.exit(pass_on(sys.argv[1:], {notes!r}))
"""


def pass_on(argv: list[str], notes: str) -> int:
    """Do what memplane does, and note what a hook or a server was given."""
    real = [sys.executable, "-m", "memplane", *argv]
    if argv[:1] == ["hook"]:
        data = sys.stdin.buffer.read()
        given = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        note(notes, {"argv": argv, "env": given, "stdin": json.loads(data)})
        return subprocess.run(real, input=data, check=False).returncode
    if argv[:1] == ["mcp"]:
        with subprocess.Popen(real, stdin=subprocess.PIPE) as server:
            assert server.stdin is not None
            for line in sys.stdin.buffer:
                note(notes, {"argv": argv, "server": os.getpid(), "line": json.loads(line)})
                server.stdin.write(line)
                server.stdin.flush()
            server.stdin.close()
        return server.returncode
    from memplane.__main__ import main  # noqa: PLC0415 - in this process: it names its program

    return main(argv)


def note(notes: str, said: dict[str, Any]) -> None:
    """Append in one write: hooks run side by side."""
    fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, json.dumps(said).encode() + b"\n")
    os.close(fd)


def cleaned(value: Any, places: dict[str, str], without: Container[str] = ()) -> Any:
    """The value without what is the machine's or the client vendor's, and without some fields."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in without}
        return {key: cleaned(each, places, without) for key, each in kept.items()}
    if isinstance(value, list):
        return [cleaned(each, places, without) for each in value]
    if not isinstance(value, str):
        return value
    for place, stands_for in places.items():
        value = value.replace(place, stands_for)
    return words(value)


def words(text: str) -> str:
    """A text with our own words, and with none of others but labels and beginnings."""
    found = list(OURS.finditer(text))
    ends = [0, *(end for one in found for end in one.span()), len(text)]
    parts = [text[at:end] for at, end in itertools.pairwise(ends)]
    return "".join(
        part if number % 2 else "".join(label(each, bool(found)) for each in TAGS.split(part))
        for number, part in enumerate(parts)
    )


def label(text: str, beside: bool) -> str:
    """What stands between tags, whole if it is a label or an identifier."""
    if len(text.strip()) <= WORDS_MAX or (len(text) <= LINE_MAX and not re.search(r"\s", text)):
        return text
    if not beside:
        return LEFT_OUT
    return CUT.sub(rf"\1 {LEFT_OUT}", text)


def transcript(records: list[dict[str, Any]], places: dict[str, str]) -> list[Any]:
    """What a client wrote, cleaned. Of the records that nothing reads, one of each kind."""
    kept: list[Any] = []
    outlined: set[str] = set()
    for record in records:
        inner = [each for each in record.values() if isinstance(each, dict)]
        if record["type"] in KEPT or any(each.get("type") in KEPT_WITHIN for each in inner):
            kept.append(cleaned(record, places, UNREAD))
            continue
        kinds = {key: {"type": record[key].get("type")} for key in SORTED_BY & record.keys()}
        kind = json.dumps([record["type"], kinds])
        if kind not in outlined:
            outlined.add(kind)
            kept.append({key: record[key] for key in SPINE & record.keys()} | kinds)
    return kept


def numbered(crossed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The servers as 1, 2, ...; those that no tool was asked of say nothing that these do not."""
    asked = (one for one in crossed if "line" in one and one["line"]["method"] == "tools/call")
    names = {pid: at for at, pid in enumerate(dict.fromkeys(one["server"] for one in asked), 1)}
    return [
        one | ({"server": names[one["server"]]} if "server" in one else {})
        for one in crossed
        if "server" not in one or one["server"] in names
    ]


def write(file: Path, records: list[Any]) -> None:
    """One record a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(one, ensure_ascii=False, separators=SEPARATORS) for one in records)
    file.write_text("".join(f"{line}\n" for line in lines))


def rows_of(file: Path) -> list[Any]:
    """The records of such a file."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def record(agent: str) -> Path:
    """Run the sessions and keep them; give back the folder."""
    run, program = CLIENTS[agent]
    if program is None:
        sys.exit(f"{agent} is not here; MEMPLANE_CLAUDE or MEMPLANE_CODEX names it")
    asked = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"\d+(?:\.\d+)+", asked.stdout)
    assert version is not None, asked.stdout
    into = RECORDED / f"{agent}-{version[0]}"
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        top, notes = Path(folder).resolve(), Path(folder).resolve() / "notes.jsonl"
        stand_in = top / "ann" / ".local" / "bin" / "memplane"
        person = sessions.Person(top, script=stand_in)
        stand_in.parent.mkdir(parents=True)
        tools = str(Path(__file__).parent)
        said = STAND_IN.format(python=sys.executable, tools=tools, notes=str(notes))
        stand_in.write_text(said)
        stand_in.chmod(0o755)
        slug = re.sub(r"[^A-Za-z0-9]", "-", str(top))  # Claude Code names folders so
        places = {str(top): "/home", slug: "-home"}
        try:
            transcripts = run(person, model)
        finally:
            model.close()
        shutil.rmtree(into, ignore_errors=True)
        for one in transcripts:
            where = str(one.relative_to(person.home)).replace(slug, "-home")
            write(into / "home" / where, transcript(rows_of(one), places))
        write(into / "crossed.jsonl", cleaned(numbered(rows_of(notes)), places))
    return into


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Record the sessions of a real client.")
    parser.add_argument("agent", choices=sorted(CLIENTS))
    folder = record(parser.parse_args().agent)
    for file in sorted(folder.rglob("*.jsonl")):
        print(f"{file.stat().st_size:>8,} bytes  {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
