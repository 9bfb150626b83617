"""`memplane artifact`: a file's way from adding it to a block that quotes it, through commands alone."""

import json

import pytest

TEXT = "# Herons\n\nThe herons nest near the quokka in tall trees.\n"


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "report.md"
    path.write_text(TEXT)
    return path


@pytest.fixture
def artifact(run, home):
    """Run `memplane artifact ...`, or another command, on one plane."""

    def artifact(*argv, group="artifact"):
        return run(*([group] if group else []), *argv, "--home", home)

    return artifact


def test_a_file_is_added_read_approved_quoted_and_revoked(artifact, report, tmp_path):
    added = artifact("add", report, "What we found")
    assert (added.code, added.err) == (0, "")
    seq, uri = added.out.split()
    digest = uri.removeprefix("artifact://sha256/")
    assert artifact("list").out == (
        f"     {seq}  {digest[:16]}  unapproved  report.md (57 bytes, text/markdown)\n"
    )
    query = ["pack", "where do herons nest?", "--no-report"]
    block = artifact(*query, group=None).out
    assert "quokka" not in block
    opened = artifact("expand", f"expand://artifact/{digest}", group=None)
    assert (opened.code, opened.out) == (1, "")
    assert opened.err == (
        f"memplane: artifact {seq} is not approved: its text is shown once somebody has read it "
        f"and says `memplane artifact approve {seq}`\n"
    )
    assert (
        artifact("export", "report.md", "--to", tmp_path / "read.md").out == f"{tmp_path}/read.md\n"
    )
    assert (tmp_path / "read.md").read_text() == TEXT
    approved = artifact("approve", seq, "--actor", "ann", "--reason", "read it")
    assert approved.out.startswith(f"approved {digest[:16]} by event ")
    assert "quokka" in artifact(*query, group=None).out
    assert "quokka" in artifact("expand", f"expand://artifact/{digest}", group=None).out
    shown = artifact("show", "report.md").out
    assert "status      approved\nfile        as it was added\n" in shown
    assert " by ann in event " in shown
    assert shown.endswith("\n\nWhat we found\n")
    assert artifact("revoke", "report.md").code == 0
    assert "quokka" not in artifact(*query, group=None).out
    assert "What we found" not in artifact("show", "report.md").out
    assert "What we found" in artifact("show", "report.md", "--review").out


def test_adding_it_again_says_so_and_writes_nothing(artifact, report, stored, home):
    first = artifact("add", report)
    before = stored(home)
    again = artifact("add", report)
    assert (again.code, again.out) == (0, first.out)
    assert again.err == f"memplane: it was there already, as event {first.out.split()[0]}\n"
    assert stored(home) == before


def test_a_secret_is_refused_by_its_line_or_masked_and_counted(artifact, report):
    report.write_text("one\npassword: hunter2swordfish\n")
    refused = artifact("add", report)
    assert refused.code == 2
    assert "line 2: holds what looks like a secret" in refused.err
    assert "hunter2swordfish" not in refused.err
    masked = artifact("add", report, "--redact")
    assert masked.code == 0
    assert masked.err.startswith("memplane: 1 secret masked in what is stored: policy-2 1")
    artifact("approve", "report.md")
    assert (
        "[redacted:"
        in artifact("show", "2", group=None).out + artifact("expand", "#2", group=None).out
    )


def test_a_reference_that_changed_is_named_with_both_hashes(artifact, report):
    added = json.loads(artifact("add", report, "--reference", "--json").out)
    artifact("approve", "report.md")
    report.write_text("The geese nest.\n")
    opened = artifact("expand", added["handle"], group=None)
    assert (opened.code, opened.out) == (1, "")
    assert (
        f"{report}: is not what was added: expected sha256 {added['sha256']}, found " in opened.err
    )
    assert "is not what was added" in artifact("show", "report.md").out
    assert artifact("export", "report.md", "--to", report.with_name("x")).code == 1
    error = json.loads(artifact("expand", added["handle"], "--json", group=None).out)["error"]
    assert (error["type"], error["expected"]) == ("ChangedError", added["sha256"])


def test_pages_follow_each_other(artifact, report):
    report.write_text("a line of words\n" * 200)
    added = json.loads(artifact("add", report, "--json").out)
    artifact("approve", "report.md")
    said, handle = "", added["handle"]
    while handle is not None:
        page = json.loads(artifact("expand", handle, "--budget", "100", "--json", group=None).out)
        assert page["tokens"] <= 100
        said, handle = said + page["text"], page["next"]
    assert said == report.read_text()


def test_a_research_report_is_checked_and_comes_back_with_its_sidecar(artifact, tmp_path):
    source = {"id": "s1", "url": "https://example.org", "title": "Herons", "accessed": "2026-01-05"}
    sidecar = {
        "title": "Herons", "question": "Where?", "created": "2026-01-05", "sources": [source],
        "claims": [{"text": "In trees.", "sources": ["s1"]}],
    }  # fmt: skip
    report, beside = tmp_path / "herons.md", tmp_path / "facts.json"
    report.write_text("# Herons\n\nIn trees [@s1], not on roofs [@s2].\n")
    beside.write_text(json.dumps(sidecar))
    add = ["add", report, "--type", "research_report", "--sidecar", beside]
    refused = artifact(*add)
    assert refused.code == 2
    assert refused.err == "memplane: herons.md:3: cites 's2', which is no source; there are s1\n"
    report.write_text("# Herons\n\nIn trees [@s1].\n")
    assert artifact(*add).code == 0
    out = tmp_path / "out"
    out.mkdir()
    done = artifact("export", "herons.md", "--to", out)
    assert done.out == f"{out}/herons.md\n{out}/facts.json\n"
    assert (out / "facts.json").read_bytes() == beside.read_bytes()


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["show", "nobody.md"], 1, "no artifact 'nobody.md'"),
        (["approve", "99"], 1, "no artifact '99'"),
        (["revoke", "report.md"], 1, "artifact 2 was never approved"),
        (["show", "report.md", "--channel", "nobody"], 2, "channel: unknown channel 'nobody'"),
        (["list", "--limit", "0"], 2, "Invalid value for '--limit'"),
    ],
)
def test_what_cannot_be_done_says_why_and_stores_nothing(
    artifact, report, stored, home, argv, code, said
):
    artifact("add", report)
    before = stored(home)
    done = artifact(*argv)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert stored(home) == before


def test_json_of_each_command_is_one_value(artifact, report, tmp_path):
    added = json.loads(artifact("add", report, "--json").out)
    assert added["stored"] == "copy"
    assert added["handle"] == f"expand://artifact/{added['sha256'][:16]}"
    (row,) = json.loads(artifact("list", "--json").out)
    assert (row["seq"], row["approved"], row["approvals"]) == (added["seq"], False, [])
    assert json.loads(artifact("approve", "report.md", "--json").out)["duplicate"] is False
    shown = json.loads(artifact("show", "report.md", "--json").out)
    assert [one["holds"] for one in shown["approvals"]] == [True]
    assert json.loads(artifact("export", "report.md", "--to", tmp_path / "x", "--json").out) == [
        f"{tmp_path}/x"
    ]
    assert json.loads(artifact("revoke", "report.md", "--json").out)["duplicate"] is False


def test_an_empty_list_says_so(artifact):
    done = artifact("list")
    assert (done.code, done.out, done.err) == (0, "", "memplane: no artifact\n")
    assert json.loads(artifact("list", "--json").out) == []
