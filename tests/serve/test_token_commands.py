"""`memplane token`: a secret is shown once, and kept nowhere."""

import json
import stat

import pytest

from memplane.cli.run import run_command_line
from memplane.errors import HomeError, InputError
from memplane.serve import TokenFile, made

CREATED = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def run(tmp_path, capsys):
    def run(*words):
        code = run_command_line([*words, "--tokens", str(tmp_path / "t" / "tokens.json")])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_token_is_printed_once_and_its_file_is_the_owners_alone(run, tmp_path):
    code, out, _ = run("token", "add", "ci", "--agent", "builder", "--plane", "team")
    secret = out.strip()
    assert code == 0
    file = tmp_path / "t" / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in file.read_text()
    found = TokenFile(file).holder(secret)
    assert (found.name, found.agent, found.channel, found.planes, found.ns) == (
        "ci", "builder", "agent", ("team",), (),
    )  # fmt: skip
    for more in ((), ("--json",)):
        _, listed, _ = run("token", "list", *more)
        assert "builder" in listed
        assert secret not in listed
        assert found.sha256 not in listed


def test_a_name_is_taken_once_and_removed_once(run, tmp_path):
    assert run("token", "add", "ci", "--agent", "a")[0] == 0
    assert run("token", "add", "ci", "--agent", "a")[0] == 2
    code, out, _ = run("token", "remove", "ci", "--json")
    assert (code, json.loads(out)["name"]) == (0, "ci")
    assert run("token", "remove", "ci")[0] == 1
    assert TokenFile(tmp_path / "t" / "tokens.json").all() == []


@pytest.mark.parametrize(
    ("name", "agent", "ns", "planes"),
    [
        ("", "a", (), ("p",)), ("n", "../a", (), ("p",)), ("n", "a", (), ("..",)),
        ("n", "a", (), ()), ("n", "a", ("nowhere",), ("p",)), ("n", "a", ("/agent/b",), ("p",)),
        ("n", "a b", (), ("p",)), ("n\n", "a", (), ("p",)),
    ],
)  # fmt: skip
def test_what_cannot_be_a_token_is_refused(name, agent, ns, planes):
    with pytest.raises(InputError):
        made(name, agent, "agent", ns, planes, CREATED)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 2, "tokens": []}', '{"format": 1, "tokens": [{}]}',
             '{"format": 1, "tokens": 7}'],
)  # fmt: skip
def test_a_file_that_is_none_of_tokens_lets_nobody_in(tmp_path, text):
    path = tmp_path / "tokens.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(HomeError):
        TokenFile(path).holder("mpt_any")


def test_a_link_in_the_place_of_the_file_lets_nobody_in(tmp_path):
    token, secret = made("n", "a", "agent", (), ("p",), CREATED)
    TokenFile(tmp_path / "real.json").add(token)
    (tmp_path / "tokens.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(HomeError):
        TokenFile(tmp_path / "tokens.json").holder(secret)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_off_loopback_nothing_listens_unless_its_names_are_given(run, tmp_path, host):
    code, _, err = run("serve", "--planes", str(tmp_path), "--host", host, "--port", "0")
    assert code == 2
    assert "--allow-host" in err


def test_a_folder_of_planes_and_one_plane_are_not_both_served(run, tmp_path):
    code, _, err = run("serve", "--planes", str(tmp_path), "--home", str(tmp_path))
    assert code == 2
    assert "--planes" in err
