"""`memplane audit`: exit 0 nothing found, 1 something, 2 no such detector, 3 a broken plane."""

import json

import memplane
from memplane.event import Draft, encode

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3


def stored(home, text):
    with memplane.open(home) as plane:
        rest = encode({"kind": "message", "text": text})[1:-1].encode()
        plane._log.append(
            [Draft("old", True, None, "message", "/global", None, None, None, text, rest)]
        )


def test_a_clean_plane_says_so_with_exit_0(run, filled):
    ran = run("audit", "--home", filled)
    assert ran.code == 0
    assert ran.out.endswith("nothing found\n")
    assert json.loads(run("audit", "--home", filled, "--json").out)["total"] == 0


def test_a_finding_is_named_without_the_secret_with_exit_1(run, filled):
    stored(filled, f"use {TOKEN} and {TOKEN}")
    ran = run("audit", "--home", filled)
    assert ran.code == 1
    assert "old  text: github-token x 2" in ran.out
    assert "a purge would take 1 event, 0 bodies" in ran.out
    told = run("audit", "--home", filled, "--json", "--limit", "0")
    answer = json.loads(told.out)
    assert (told.code, answer["findings"], answer["total"]) == (1, [], 1)
    assert answer["by_rule"] == {"github-token": 2}
    assert TOKEN not in ran.out + ran.err + told.out + told.err


def test_an_audit_writes_nothing(run, filled, stored):
    before = {p: p.stat().st_mtime_ns for p in filled.rglob("*") if p.is_file()}
    assert run("audit", "--home", filled).code == 0
    assert {p: p.stat().st_mtime_ns for p in filled.rglob("*") if p.is_file()} == before


def test_a_detector_that_is_not_installed_is_named_with_the_group_to_offer_it_in(run, filled):
    ran = run("audit", "--home", filled, "--detector", "nosuch")
    assert ran.code == 2
    assert "no detector 'nosuch' is installed" in ran.err
    assert "memplane.detectors" in ran.err


def test_an_installed_detector_is_found_by_its_entry_point(run, filled, tmp_path, monkeypatch):
    package = tmp_path / "site"
    info = package / "zebra_finder-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zebra-finder\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[memplane.detectors]\nzebras = zebra_finder:Zebras\n")
    (package / "zebra_finder.py").write_text(
        "class Zebras:\n"
        "    name = 'zebras'\n"
        "    def find(self, text):\n"
        "        at = text.find('PostgreSQL')\n"
        "        return [(at, at + 10, 'animal')] if at >= 0 else []\n"
    )
    monkeypatch.syspath_prepend(str(package))
    ran = run("audit", "--home", filled, "--detector", "zebras")
    assert ran.code == 1
    assert "text: zebras:animal" in ran.out


def test_what_is_no_plane_is_broken_with_exit_3(run, tmp_path, filled):
    assert run("audit", "--home", tmp_path / "nothing").code == 3
    (filled / "policies" / "privacy.yaml").write_text("store: [")
    assert run("audit", "--home", filled).code == 3


def test_a_log_that_cannot_be_read_whole_is_no_clean_answer(run, filled):
    segment = min((filled / "log").glob("*.jsonl"))
    lines = segment.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"PostgreSQL", b"PostgreSQX")
    segment.write_bytes(b"\n".join(lines))
    ran = run("audit", "--home", filled)
    assert ran.code == 3
    assert "not looked at: log segment 1" in ran.err
