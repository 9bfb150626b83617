"""A model, or who reads its channel, that asks for what it may not see.

Who attacks: an agent that is answered on `agent` or `public`. What it controls: every command that
answers on a channel, with any query, key, id, tag, session, task, path or handle.

What is promised: not one word of what is `high`, `secret` or another agent's own is in an answer,
an error or a report, wherever in an event the word stands. That hidden things answer as absent ones
do is held in tests of its own.
"""

import json
import os

import pytest

import memplane

# Each word stands in one field of hidden events, and nowhere else.
WORDS = {
    "text": "quokkatext", "key": "quokkakey", "tag": "quokkatag", "actor": "quokkaactor",
    "session": "quokkasession", "id": "quokkaid", "marker": "quokkamarker", "data": "quokkadata",
    "tool": "quokkatool", "path": "quokkapath", "task": "quokkatask", "name": "quokkaname",
    "file": "quokkafile", "plan": "quokkaplan", "agent": "quokkaagent",
}  # fmt: skip
CHANNELS = ("agent", "public")


def hide(plane, level, number):
    """Events that no channel of models sees, with a word in each field that there is."""
    own = {"sensitivity": level} if level != "agent" else {"ns": f"/agent/{WORDS['agent']}"}
    at = f"{level}{number}"
    usual = {"session": f"{WORDS['session']}.{at}", **own}
    plane.record(f"{WORDS['text']} herons nest", kind="fact", key=f"{WORDS['key']}.{at}", **usual)
    plane.record(
        "herons nest", kind="decision", id=f"{WORDS['id']}.{at}", tags=[WORDS["tag"]], **usual
    )
    plane.record(
        "herons", actor=WORDS["actor"], role="user", markers=[f"custom:{WORDS['marker']}"], **usual
    )
    plane.record(
        "ran",
        kind="tool_call",
        role="assistant",
        data={
            "tool": WORDS["tool"],
            "path": f"src/{WORDS['path']}.py",
            "more": {"a": WORDS["data"]},
        },
        **usual,
    )
    plane.record(
        "failed",
        kind="tool_result",
        role="tool",
        data={"tool": WORDS["tool"], "status": "error", "path": f"src/{WORDS['path']}.py"},
        **usual,
    )
    task = {"kind": "task", "task": f"{WORDS['task']}.{at}", **own}
    plane.record(
        "count herons",
        data={"status": "active", "plan": [{"step": WORDS["plan"], "state": "doing"}]},
        **task,
    )
    plane.record(
        "a preference for herons", kind="preference", key=f"{WORDS['key']}.taste.{at}", **usual
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hidden")
    with memplane.init(folder / ".memplane") as plane:
        plane.record("herons nest at the lake", kind="fact", key="herons", session="s1")
        plane.record_many(
            {"text": f"turn {n} on herons", "session": "s1", "role": "user"} for n in range(60)
        )
        plane.work.tasks.open("birds", "count the herons")
        for number in range(2):
            for level in ("high", "secret", "agent"):
                hide(plane, level, number)
        (folder / f"{WORDS['name']}.md").write_text(f"{WORDS['file']} herons\n" * 9)
        plane.work.artifacts.add(folder / f"{WORDS['name']}.md", sensitivity="high")
        plane.upkeep.rebuild()
        plane.upkeep.index()
    return folder / ".memplane"


def commands(channel, seqs, *, word, field):
    """Everything that answers on a channel, asked for a word, or for what may hold it."""
    on = ("--channel", channel)
    at = f"{word}.high0"
    yield ("pack", f"herons {word}", "--budget", "6000", *on)
    yield ("pack", word, "--session", at, "--intent", "fast", "--no-report", *on)
    yield ("pack", "", "--task", at, "--intent", "orient", *on)
    yield ("pack", "herons", "--json", "--cited", "--agent", "other", *on)
    yield (
        "pack",
        "herons",
        "--expand",
        f"session/{at}?depth=2",
        "--expand",
        f"task/{at}?depth=3",
        *on,
    )
    yield ("search", word, *on)
    yield ("search", "herons", "--tag", word, "--json", *on)
    yield ("search", "herons", "--session", at, *on)
    yield ("get", at, *on)
    yield ("history", at, *on)
    yield ("show", at, *on)
    yield ("show", str(seqs[list(WORDS).index(field) % len(seqs)]), "--json", *on)
    yield ("expand", f"memory/global/{at}", *on)
    yield ("expand", f"task/{at}?depth=3", *on)
    yield ("expand", f"expand://event/{seqs[-1]}", *on)
    yield ("log", "--limit", "0", "--session", at, *on)
    yield ("keys", "--json", *on)
    yield ("files", word, *on)
    yield ("decisions", *on)
    yield ("log", "--limit", "0", "--json", *on)


def shown(forks, home, fields, step):
    """Run all; where a hidden word is in an answer to who did not name it, and how many ran."""
    env = {
        "HOME": str(home.parent),
        "XDG_STATE_HOME": str(home.parent / "state"),
        "PATH": os.environ["PATH"],
    }
    with memplane.open(home, read_only=True) as plane:
        seqs = [event.seq for event in plane.events() if event.sensitivity != "normal"]
    broken, ran_all = [], 0
    for field in fields:
        word = WORDS[field]
        for channel in CHANNELS:
            for argv in [*commands(channel, seqs, word=word, field=field)][::step]:
                ran = forks(*argv, "--home", home, cwd=home.parent, env=env)
                ran_all += 1
                if ran.code not in (0, 1) or "Traceback" in ran.said:
                    broken.append(f"{argv}: exit code {ran.code}: {ran.said[-300:]}")
                # What was asked for may come back in the words that refuse it, and in no others.
                asked = " ".join(argv)
                broken += [
                    f"{argv} shows {one}: {ran.said[max(0, ran.said.find(one) - 200) :][:400]}"
                    for one in WORDS.values()
                    if one in ran.said and one not in asked
                ]
                if word in asked and ran.out.count(word.encode()) > allowed(argv, word):
                    broken.append(f"{argv} repeats {word}: {ran.out[:600]}")
    return broken, ran_all


def allowed(argv, word):
    """How often an answer on stdout may repeat a word that it was asked with: a report holds the
    request, and an error as JSON the name of what is not there."""
    return 9 if "--json" in argv else 0


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        (["text"], 6),
        pytest.param(list(WORDS), 1, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
    ids=["few", "all"],
)
def test_no_hidden_word_is_in_any_answer(forks, home, fields, step):
    broken, count = shown(forks, home, fields, step)
    assert not broken, "\n".join(broken[:20])
    assert count == len(fields) * len(CHANNELS) * -(-20 // step)
    for path in (home / "reports").iterdir():
        report = json.loads(path.read_bytes())
        said = json.dumps({key: value for key, value in report.items() if key != "request"})
        assert not [word for word in WORDS.values() if word in said], path


def test_the_words_are_there_to_be_shown(home):
    with memplane.open(home, read_only=True) as plane:
        said = repr([line.event for line in plane._log.read()])
    assert [word for word in WORDS.values() if word not in said and word != WORDS["file"]] == []
