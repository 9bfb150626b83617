"""What is installed is whole: the package data, the policies and schemas, the typing marker."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from builders_wheels import wheel

from memplane.home import VERSION, asset
from memplane.policy import NAMES

ROOT = Path(__file__).parents[1]


def test_a_checkout_or_editable_install_finds_its_policies_and_schemas():
    for name in NAMES:
        assert asset(f"policies/{name}") == (ROOT / "policies" / name).read_bytes()
    for file in (ROOT / "schemas").iterdir():
        assert asset(f"schemas/{file.name}") == file.read_bytes()


@pytest.mark.timeout(180)
def test_a_wheel_holds_everything_and_works_without_the_checkout(tmp_path):
    file = wheel(tmp_path)
    assert VERSION in file.name
    site = tmp_path / "site"
    zipfile.ZipFile(file).extractall(site)
    assert (site / "memplane" / "py.typed").exists()
    assert {file.name for file in (site / "memplane" / "assets" / "policies").iterdir()} == {*NAMES}
    for name in ("page.css", "page.js"):
        assert (site / "memplane" / "inspect" / name).is_file()
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import memplane\n"
        "assert memplane.__file__.startswith(sys.argv[1])\n"
        "with memplane.init(sys.argv[2]) as plane:\n"
        "    plane.record('hello herons', role='user')\n"
        "    print(plane.pack('herons').text)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(site), str(tmp_path / "p")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "hello herons" in ran.stdout
    demo = (
        "import socket, sys; sys.path.insert(0, sys.argv[1])\n"
        "def no(*_, **__): raise AssertionError('the network')\n"
        "socket.socket.connect = no\n"
        "from memplane.__main__ import main\n"
        "sys.exit(main(['demo']))\n"
    )
    person = tmp_path / "person"
    person.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", demo, str(site)],
        capture_output=True, text=True, check=False, cwd=person,
        env={"PATH": "/usr/bin:/bin", "HOME": str(person)},
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Redirect with 302" in ran.stdout
    assert [one.name for one in person.iterdir()] == ["memplane-demo"]
