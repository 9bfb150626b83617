"""Policies made to stop who reads them: bombs of YAML and of regular expressions.

Who attacks: whoever can put a file into `policies/` of a plane that the user trusts later. What
they control: its bytes.

What is promised: `policy check` names line and key and ends; packing refuses; recording goes on,
with redaction.
"""

import os
import shutil

import pytest

import memplane

SECRET = "ghp_" + "q7Zk29Xm4Qp7LwVbN3rT8yHs6DfGj1Kc5AeU"
ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML = {
    "aliases": ALIASES,
    "a recursive alias": "version: 1\nstore: &a [*a]\n",
    "merges": "a: &a {x: 1}\nb: &b {<<: [*a,*a,*a,*a,*a,*a,*a,*a]}\nversion: {<<: [*b,*b,*b,*b]}\n",
    "a tag of Python": "version: !!python/object/apply:os.system ['touch owned']\n",
    "a tag of YAML": "version: !!binary aGVsbG8=\nstore: !!set {a, b}\n",
    "depth": "version: 1\nstore: " + "[" * 20_000 + "\n",
}
PATTERNS = (
    r"(a+)+$", r"(a|a)*b", r"(a|aa)*b", r"(\w+\s?)*:", r"(.*,)*x", r"(?:a{0,900}){0,900}b",
    r"(.*)(.*)(.*)(.*)(.*)=", r"\s*\s*\s*\s*x", r"(?=(a+)+$)b", r"(x+x+)+y", r"(a+)\1\1\1b",
    r"(?:(?:(?:a*)*)*)*b", r"([a-z]+)*\d",
)  # fmt: skip
BOMBS = {
    **YAML,
    **{
        f"pattern {one}": f"version: 1\nstore:\n  redact_patterns:\n    - '{one}'\n"
        for one in PATTERNS
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("policies") / ".memplane"
    with memplane.init(home) as plane:
        plane.record("herons nest")
    return home


def held(made, folder, forks, text):
    """Use a plane with this privacy.yaml; what was wrong."""
    home = shutil.copytree(made, folder / ".memplane")
    (home / "policies" / "privacy.yaml").write_text(text)
    env = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "PATH": os.environ["PATH"]}

    def run(*argv, stdin=b""):
        return forks(*argv, "--home", home, cwd=folder, env=env, stdin=stdin)

    broken = []
    said = "a" * 40 + f" herons and {SECRET} " + "a,x " * 2000
    for argv, codes in (
        (("policy", "check"), (1,)), (("pack", "herons"), (3,)), (("record", "--stdin"), (0,)),
        (("doctor",), (1, 3)),
    ):  # fmt: skip
        ran = run(*argv, stdin=said.encode())
        if ran.code not in codes or "Traceback" in ran.said:
            broken.append(f"{argv}: exit code {ran.code}: {ran.said[-500:]}")
        if argv[0] == "policy" and "privacy.yaml:" not in ran.said:
            broken.append(f"no place is named: {ran.said}")
    if (folder / "owned").exists():
        broken.append("a command was run")
    data = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    broken += ["the secret is stored"] if SECRET.encode() in data else []
    return broken


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if at % 9 == 0 else [pytest.mark.long])
        for at, name in enumerate(BOMBS)
    ],
)
def test_a_policy_that_is_a_bomb_is_named_and_recording_goes_on(made, tmp_path, forks, name):
    assert held(made, tmp_path, forks, BOMBS[name]) == []
