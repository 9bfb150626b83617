"""Files to import that were made to break who reads them.

Who attacks: whoever wrote a transcript, a chat export or a JSON file that the user imports. What
they control: every byte of it, its size, its name, and what it is: a pipe, a loop of links.

What is promised: every import ends, in words; the log verifies; nothing beside the plane changes;
what a file says of seqs, purges and repairs makes none. (JSON lines in memplane's own form may
state anything that `record` may, a forget too: it archives, and is taken back by `unforget`.)
"""

import gzip
import json
import os

import pytest
from builders_hostile_repositories import changed, entries

import memplane

TURN = {"role": "user", "text": "herons nest"}
CLAUDE = {
    "type": "user", "uuid": "u1", "sessionId": "s1", "timestamp": "2026-01-05T12:00:00Z",
    "message": {"role": "user", "content": "herons nest"},
}  # fmt: skip


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def deep(many):
    return b'{"role":"user","text":"x","data":' + b"[" * many + b"]" * many + b"}\n"


# Source and bytes, or what makes them. A source of "" leaves it to memplane to find it out.
BYTES = {
    "deep": ("jsonl", deep(100_000)),
    "deep and cut": ("jsonl", b"[" * 1_000_000),
    "deep in Claude Code": ("claude-code", lines(CLAUDE)[:-2] + b',"x":' + b"[" * 50_000 + b"\n"),
    "utf-16": ("jsonl", json.dumps(TURN).encode("utf-16")),
    "utf-32 found out": ("", json.dumps(TURN).encode("utf-32")),
    "zeros": ("jsonl", bytes(5_000_000)),
    "surrogates": ("jsonl", b'{"role":"user","text":"\\ud800 \\udfff \\u0000","id":"\\ud83d"}\n'),
    "not utf-8": ("jsonl", b'{"role":"user","text":"\xff\xfe\x80"}\n' * 9),
    "numbers": ("jsonl", b'{"role":"user","text":"x","importance":1e999,"data":{"n":NaN,"m":-Infinity}}\n'),
    "long numbers": ("jsonl", b'{"role":"user","text":"x","data":{"n":' + b"9" * 100_000 + b"}}\n"),
    "ids that lead away": ("jsonl", lines({**TURN, "id": "../../../x", "session": "../../y"})),
    "ids in Claude Code": ("claude-code", lines({**CLAUDE, "uuid": "../../x", "sessionId": "../\n\x1b[2J"})),
    "seqs of ours": ("jsonl", lines({**TURN, "seq": 1, "h": "0" * 16, "dur": 10**18, "rec": "x"})),
    "a purge": ("jsonl", lines({"kind": "purge", "data": {"seqs": [2, 3], "ids": ["kept"]}}, TURN)),
    "a segment": ("jsonl", lines({"kind": "segment", "data": {"format": 99}}, {"kind": "repair"}, TURN)),
    "a forget": ("jsonl", lines({"kind": "forget", "data": {"forget": {"key": "kept"}}}, TURN)),
    "an artifact outside": ("jsonl", lines({"kind": "artifact", "data": {"path": "/etc/hostname", "reference": True}}, {"kind": "approval", "refs": ["kept"]})),
    "the year 1": ("jsonl", lines({**TURN, "ts": "0001-01-01T00:00:00Z"}, {**TURN, "ts": "9999-12-31T23:59:59Z"}, {**TURN, "ts": -1e18})),
    "a long line": ("jsonl", lambda: lines({**TURN, "text": "x" * 80_000_000})),
    "many keys": ("jsonl", lines({**TURN, **{f"k{n}": n for n in range(50_000)}})),
    "wrong types": ("claude-code", lines(*({**CLAUDE, name: value} for name in CLAUDE for value in (None, 5, [], {"a": []}, "")))),
    "a gzip bomb": ("jsonl", lambda: gzip.compress(lines(TURN) + bytes(300_000_000), 1)),
    "a cut gzip": ("jsonl", gzip.compress(lines(TURN) * 900)[:-20]),
    "codex": ("codex", lines({"type": "session_meta", "payload": []}, {"type": "response_item", "payload": {"type": "message", "content": [[]]}}, {"payload": {"payload": {}}})),
    "chat": ("chat", b'[{"mapping":{"a":{"parent":"b","message":null},"b":{"parent":"a","children":["a","b"]}},"current_node":"a"}]'),
    "memory of MCP": ("mcp-memory", lines({"type": "entity", "name": ["x"], "observations": {}}, {"type": "relation"}, 5)),
    "forged ids": ("jsonl", lines({**TURN, "id": "kept", "text": "another text under an id that is there"})),
}  # fmt: skip


def loop(folder):
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "up").symlink_to("..")
    (folder / "self.jsonl").symlink_to("self.jsonl")
    (folder / "letter.jsonl").symlink_to("../precious/letter.txt")
    (folder / "a.jsonl").write_bytes(lines(TURN))


def pipes(folder):
    folder.mkdir()
    os.mkfifo(folder / "a.jsonl")
    (folder / "zero.jsonl").symlink_to("/dev/zero")
    (folder / "b.jsonl").write_bytes(lines(TURN))


def odd_names(folder):
    folder.mkdir()
    for name in (
        b"\xff.jsonl",
        b"a\nb.jsonl",
        b"-x.jsonl",
        b"\x1b[2J.jsonl",
        b"x" * 240 + b".jsonl",
    ):
        (folder / os.fsdecode(name)).write_bytes(lines(TURN))


def sparse(folder):
    folder.mkdir()
    with (folder / "large.jsonl").open("wb") as file:
        file.write(lines(TURN))
        file.truncate(600 << 20)


FOLDERS = {"a loop": loop, "pipes": pipes, "odd names": odd_names, "sparse": sparse}


@pytest.fixture
def world(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "letter.txt").write_text("a letter\n")
    (tmp_path / "files").mkdir()
    with memplane.init(tmp_path / "work" / ".memplane") as plane:
        plane.record("herons stay", id="kept", kind="fact", key="kept")
    return tmp_path


def imported(world, forks, name):
    """Import a file or folder, twice; what was wrong."""
    if name in FOLDERS:
        source, path = "jsonl", world / "files" / name
        FOLDERS[name](path)
    else:
        source, data = BYTES[name]
        path = world / "files" / f"{name}.jsonl"
        path.write_bytes(data() if callable(data) else data)
    broken = []
    env = {"HOME": str(world), "XDG_STATE_HOME": str(world / "state"), "PATH": os.environ["PATH"]}
    before = entries(world / "precious", world / "files")
    for _ in range(2):
        ran = forks(
            "import", *([source] if source else []), path, "--home", world / "work" / ".memplane",
            cwd=world, env=env, seconds=120,
        )  # fmt: skip
        if ran.code not in (0, 1, 2, 3) or "Traceback" in ran.said:
            broken.append(f"{name}: exit code {ran.code}: {ran.said[-900:]}")
    broken += changed(before, entries(world / "precious", world / "files"))
    with memplane.open(world / "work" / ".memplane") as plane:
        broken += [f"{name}: {one}" for one in plane.upkeep.verify(deep=True).problems]
        if plane.event("kept").text != "herons stay":
            broken.append(f"{name}: what was there is no longer what it was")
        kinds = [event.kind for event in plane.events() if event.kind in ("purge", "repair")]
        broken += [f"{name}: the log has {kinds}"] if kinds else []
    return broken


FEW = ("deep", "a purge", "pipes")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in FEW else [pytest.mark.long])
        for name in (*BYTES, *FOLDERS)
    ],
)
def test_no_file_harms_who_imports_it(world, forks, name):
    assert imported(world, forks, name) == []
