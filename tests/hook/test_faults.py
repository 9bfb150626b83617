"""A hook under fault: whatever is wrong with the plane or the disk, the agent goes on.

Each call is held to `checks_calls.checked`: exit code 0, nothing on stderr, an answer that is JSON or none.
"""

import ctypes
import fcntl
import json
import os
import shutil
import subprocess

import pytest
from checks_calls import (
    WORDS,
    always,
    asked,
    checked,
    command,
    events_of,
    hook,
    said,
    surroundings,
    told,
)

import memplane
from tests.examples import sampled


def state(home):
    """All files of a plane with their bytes."""
    return {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


def policy(home, text):
    (home / "policies" / "plane.yaml").write_text(f"version: 1\n{text}\n")


# The plane


def test_without_a_plane_nothing_happens_and_an_unknown_agent_is_told_of(tmp_path, home):
    none = tmp_path / "none"
    none.mkdir()
    started = said("SessionStart", none / ".memplane", source="startup")
    assert hook(none / ".memplane", started) == ""
    assert list(none.iterdir()) == []
    before = state(home)
    assert hook(home, said("SessionStart", home, source="startup"), agent="other") == ""
    assert "unknown agent 'other': expected claude-code or codex" in told(home)
    (home / "hooks.log").unlink()
    assert state(home) == before


def test_a_folder_that_is_gone_costs_no_event(home):
    """Agents take away the worktree that they work in."""
    folder = home.parent / "worktree"
    folder.mkdir()
    script = 'cd "$1"; rmdir "$1"; shift; exec "$@"'
    words = ["sh", "-ec", script, "sh", str(folder), *command("codex")]
    done = subprocess.run(
        words, input=json.dumps({**asked(home), "cwd": str(folder)}).encode(), capture_output=True,
        check=False, **surroundings(home),
    )  # fmt: skip
    assert WORDS in checked(done.returncode, done.stdout, done.stderr)
    assert [one.text for one in events_of(home)] == [asked(home)["prompt"]]


def test_what_a_corrupt_log_cannot_take_waits_until_it_is_mended(home):
    log = home / "log" / "00000001.jsonl"
    data = log.read_bytes()
    log.unlink()
    log.mkdir()
    hook(home, asked(home))
    assert "is a directory" in told(home)
    log.rmdir()
    log.write_bytes(data)
    assert [one.text for one in events_of(home)] == [asked(home)["prompt"]]


def test_a_fault_is_told_without_the_secrets_that_it_quotes(home):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    hook(home, said("SessionStart", home, source="startup"), agent=secret)
    assert "unknown agent" in told(home)
    assert secret not in told(home)


def obey_modes():
    """As root: obey the modes of files like anybody else."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH; 24 is PR_CAPBSET_DROP
            assert libc.prctl(24, capability, 0, 0, 0) == 0


@pytest.fixture
def sealed(home):
    """A plane in which nobody may write."""
    paths = [home, *home.rglob("*")]
    for path in paths:
        path.chmod(0o500 if path.is_dir() else 0o400)
    yield home
    for path in paths:
        path.chmod(0o700 if path.is_dir() else 0o600)


def test_a_plane_that_may_only_be_read_answers_and_stays_as_it_is(sealed):
    before = state(sealed)
    for call in (said("SessionStart", sealed, source="startup"), asked(sealed)):
        assert "ledger" in hook(sealed, call, before=obey_modes)
    used = said("PostToolUse", sealed, tool_name="Bash", tool_response="ok")
    assert hook(sealed, used, before=obey_modes) == ""
    assert hook(sealed, said("Stop", sealed), "--catch-up", before=obey_modes) == ""
    assert state(sealed) == before


def test_a_plane_that_may_not_even_be_read_costs_the_agent_nothing(home):
    for path in (home / "log", home / "plane.json"):
        mode = path.stat().st_mode
        path.chmod(0)
        for call in (said("SessionStart", home, source="startup"), asked(home)):
            hook(home, call, before=obey_modes)
        path.chmod(mode)
    assert memplane.open(home).upkeep.verify(deep=True).ok


def namespace(script, *words):
    """Run a shell script in a mount namespace of its own, or skip where that is not allowed."""
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("no mount namespaces here")
    return [*own, "sh", "-ec", script, "sh", *map(str, words)]


def test_a_disk_that_may_only_be_read_is_answered_from(home):
    script = 'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"; shift; exec "$@"'
    before = state(home)
    for call in (said("SessionStart", home, source="startup"), asked(home)):
        run = namespace(script, home, *command("claude-code"))
        done = subprocess.run(
            run, input=json.dumps(call).encode(), capture_output=True, check=False,
            **surroundings(home),
        )  # fmt: skip
        assert "ledger" in checked(done.returncode, done.stdout, done.stderr)
    assert state(home) == before


def test_a_full_disk_harms_nobody_and_the_prompt_is_answered(home, tmp_path):
    script = """
        mkdir "$1/disk"; mount -t tmpfs -o size=4m tmpfs "$1/disk"; cp -a "$2" "$1/disk/.memplane"
        cat /dev/zero >"$1/disk/filler" 2>/dev/null || true
        cd "$1/disk"; export HOME="$1/disk"; out="$1/out"; code=0
        shift 2; "$@" >"$out" || code=$?
        rm filler; cp -a .memplane "$out.memplane"; exit $code
    """
    folder = tmp_path / "full"
    folder.mkdir()
    run = namespace(script, folder, home, *command("claude-code"))
    call = {**asked(home), "cwd": str(folder / "disk")}
    done = subprocess.run(
        run, input=json.dumps(call).encode(), capture_output=True, check=False,
        **surroundings(home),
    )  # fmt: skip
    answer = checked(done.returncode, (folder / "out").read_bytes(), done.stderr)
    assert WORDS in answer
    after = folder / "out.memplane"
    with memplane.open(after, environment={}) as plane:
        assert plane.upkeep.verify(deep=True).ok
        assert len([event for event in plane.events() if event.session != "s1"]) >= 101


@pytest.mark.parametrize("limit", sampled([1_000, 0, 30_000], 2))
def test_where_no_file_may_grow_nothing_is_acknowledged_that_is_not_there(home, limit):
    before = state(home)
    prompt = asked(home, "which cursor does the ledger keep? " + "the ledger " * 3_000)
    assert "ledger" in hook(home, prompt, limit=limit)
    assert hook(home, said("Stop", home), "--catch-up", limit=limit) == ""
    for path, data in before.items():
        if path.parent.name == "log" and path.suffix == ".jsonl":
            assert path.read_bytes().startswith(data)
    assert [one.text for one in events_of(home)] in ([], [prompt["prompt"].strip()])


# The lock


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_while_another_holds_the_log_events_wait_in_the_spool_and_prompts_are_answered(home, agent):
    with (home / "log" / ".lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prompt = asked(home, "where is the cursor of the ledger?")
        assert WORDS in hook(home, prompt, agent=agent)
        used = said("PostToolUse", home, tool_name="Bash", tool_response="ok")
        assert hook(home, used, agent=agent) == ""
        # Both have ended, and nobody has let go of the lock.
        assert len(list((home / "log" / "spool").iterdir())) == 2
    assert [one.text for one in events_of(home)] == [prompt["prompt"], "Bash", "ok"]
    assert list((home / "log" / "spool").iterdir()) == []
    assert told(home) == ""


def test_the_next_hook_that_gets_the_lock_takes_in_what_waits(home):
    with (home / "log" / ".lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        hook(home, asked(home, "first"))
    hook(home, said("Stop", home, last_assistant_message="second"))
    assert list((home / "log" / "spool").iterdir()) == []
    assert [one.text for one in events_of(home)] == ["first", "second"]


def test_a_catch_up_that_finds_all_locked_ends_and_leaves_nothing_behind(home):
    policy(home, "log: {lock_wait_ms_max: 100}")
    locks = [home / "log" / ".lock", home / "projections" / ".lock", home / "index" / ".lock"]
    files = [path.open("r+b") for path in locks]
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    assert hook(home, said("Stop", home), "--catch-up") == ""
    for file in files:
        file.close()
    assert memplane.open(home).upkeep.verify(deep=True).ok


def test_a_hook_ends_at_its_own_clock_where_it_would_wait_longer(home):
    policy(home, "hooks: {wait_ms: 10000, milliseconds_max: 200}")
    with (home / "log" / ".lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert hook(home, asked(home)) == ""
        assert not (home / "log" / "spool").exists()
    assert "ended after 200 ms" in told(home)
    assert events_of(home) == []


def test_a_spool_that_is_full_is_told_and_costs_the_agent_nothing(home):
    spool = home / "log" / "spool"
    spool.mkdir()
    (spool / f"{1:020d}-{64 << 20}-{'0' * 16}.spool").touch()
    with (home / "log" / ".lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert WORDS in hook(home, asked(home))
    assert "nothing was spooled" in told(home)


# Damage

DAMAGES = {
    "flipped": lambda data: bytes((data[len(data) // 2] ^ 0x55,)).join(
        (data[: len(data) // 2], data[len(data) // 2 + 1 :])
    ),
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "strange": lambda _: b"\x00\xff{[" * 40,
    "folder": None,
}
GIVEN = (
    lambda home: said("SessionStart", home, source="startup"),
    asked,
    lambda home: said("Stop", home, last_assistant_message="It keeps one"),
)


def readable(home):
    """The events that are to be had from a plane, damaged or not."""
    with memplane.open(home, read_only=True, environment={}) as plane:
        return {event.id for event in plane.events()}


def damaged(home, name, damage):
    path = home / name
    data = path.read_bytes()
    path.unlink()
    if DAMAGES[damage] is None:
        path.mkdir()
    else:
        path.write_bytes(DAMAGES[damage](data))


CACHES = (
    "index/manifest.json", "index/open.bin", "index/stamps.json", "index/.lock",
    "projections/hotset.json", "projections/decisions.json", "projections/cache.sqlite",
    "projections/plane_map.json", "projections/checkpoints.bin", "projections/.lock",
    "schemas/plane.schema.json",
)  # fmt: skip
POLICIES = tuple(f"policies/{stem}.yaml" for stem in ("plane", "privacy", "budgets", "channels"))


def every(*names):
    """Each file with each damage; those of one diagonal in the short run."""
    return [
        pytest.param(name, damage, marks=[pytest.mark.long] if (at - turn) % len(DAMAGES) else [])
        for at, name in enumerate(names)
        for turn, damage in enumerate(DAMAGES)
    ]


@pytest.mark.parametrize(("name", "damage"), every(*CACHES, *POLICIES, "policies/scoring.yaml"))
def test_a_damaged_cache_or_policy_costs_no_event(fork, home, name, damage):
    damaged(home, name, damage)
    for said_of in GIVEN:
        fork(home, said_of(home))
    fork(home, GIVEN[-1](home), "--catch-up")
    assert [one.text for one in events_of(home)] == [
        "Session started", asked(home)["prompt"], "It keeps one",
    ]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["plane.json", "log/00000001.jsonl", "log/.lock"])
def test_what_a_hook_finds_damaged_it_keeps_and_damages_no_further(fork, home, name, damage):
    damaged(home, name, damage)
    found = state(home / "log")
    can = readable(home) if name == "log/00000001.jsonl" else set()
    for said_of in GIVEN:
        fork(home, said_of(home))
    fork(home, GIVEN[-1](home), "--catch-up")
    for path, data in found.items():
        if path.suffix == ".jsonl":
            assert is_kept(path, data)
    assert can <= (readable(home) if can else can)


def is_kept(path, data):
    """Whether the bytes of a segment stand where they stood, or the last of them in quarantine."""
    now, aside = path.read_bytes(), path.with_name("quarantine")
    tails = [one.read_bytes() for one in aside.iterdir()] if aside.exists() else []
    return now.startswith(data) or any(
        data.endswith(tail) and now.startswith(data.removesuffix(tail)) for tail in tails
    )


def test_what_hooks_kept_of_a_session_may_be_anything(fork, home):
    always(home)
    fork(home, GIVEN[0](home))
    (kept,) = (home / "projections" / "hooks").iterdir()
    for data in (b"", b"[]", b'{"ids": 1, "held": []}', b"\xff", b"[" * 100_000):
        kept.write_bytes(data)
        assert WORDS in fork(home, asked(home, prompt_id=f"p{len(data)}"))
    kept.unlink()
    kept.mkdir()
    assert WORDS in fork(home, asked(home, prompt_id="last"))
    assert told(home) == ""
