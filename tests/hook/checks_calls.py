"""Calls of `memplane hook` as a coding agent makes them, held to what each of them owes the agent."""

import json
import os
import resource
import subprocess
import sys

import memplane

WORDS = "the ledger keeps one cursor for each tenant"
CHARACTERS_MAX = 9_500


def said(event, home, **more):
    """What an agent says of an event in the folder that the plane lies in."""
    return {"hook_event_name": event, "session_id": "s1", "cwd": str(home.parent), **more}


def always(home):
    """Have every prompt answered, whatever it needs."""
    rules = home / "policies" / "plane.yaml"
    rules.write_text("version: 1\nhooks: {answer: {when: always}}\n")


def asked(home, prompt="which cursor does the ledger keep?", **more):
    """What an agent says of a prompt."""
    return said("UserPromptSubmit", home, prompt=prompt, **{"prompt_id": "p1", **more})


def command(agent, *more):
    """The words that run a hook."""
    return [sys.executable, "-m", "memplane", "hook", agent, *more]


# However slow the machine is: a hook's own timer ends it a minute after it begins, and not before.
UNHURRIED = """
import memplane.hook.run as run
usual = run._Watch.end_after
run._Watch.end_after = lambda watch, _: usual(watch, 60_000)
"""


def unhurried(folder):
    """The environment of hooks that are not ended in time; `folder` is for what makes them so."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(UNHURRIED)
    return {"PYTHONPATH": str(folder)}


def surroundings(home, **more):
    """The environment and the folder of a hook that finds this plane by its place."""
    folder = home.parent if home.parent.is_dir() else "/"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLAUDE")}
    environment = {**kept, "HOME": str(home.parent), "MEMPLANE_HOME": "", **more}
    return {"cwd": folder, "env": environment}


def hook(home, given, *more, agent="claude-code", limit=None, before=None, **environment):
    """Run a hook; give back what it printed, after seeing that it did no harm.

    `limit`: the bytes that a file of it may have. `before` runs in its process, first of all.
    """

    def prepared():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if before is not None:
            before()

    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    done = subprocess.run(
        command(agent, *more), input=data, capture_output=True, timeout=60, check=False,
        preexec_fn=None if limit is before is None else prepared,  # none: it may be a copy
        **surroundings(home, **environment),
    )  # fmt: skip
    return checked(done.returncode, done.stdout, done.stderr)


def checked(code, out, err):
    """What a hook printed, after seeing that it did no harm: code 0, no noise, an answer or none."""
    assert (code, err) == (0, b"")
    if out:
        context(out)
    return out.decode()


def context(out):
    """The text that an answer gives to the agent."""
    answer = json.loads(out)
    assert list(answer) == ["hookSpecificOutput"]
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert 0 < len(text) <= CHARACTERS_MAX
    return text


def told(home):
    """What the hooks of a plane told its own log."""
    path = home / "hooks.log"
    return path.read_text() if path.exists() else ""


def events_of(home, session="s1"):
    """The events of a session, what waited in the spool among them; the log is found whole."""
    with memplane.open(home, environment={}) as plane:
        plane.flush()
        assert plane.upkeep.verify(deep=True).ok
        return [line.event for line in plane._log.read() if line.event.session == session]
