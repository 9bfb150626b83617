"""`memplane import`: a dry run, and where what is imported goes."""

import json


def rows(path):
    told = [{"id": f"r:{at}", "kind": "fact", "text": f"Heron {at} nests"} for at in range(12)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in told))
    return path


def files_of(folder):
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_dry_run_shows_the_first_events_and_writes_no_file(run, home, person):
    given = rows(person / "rows.jsonl")
    before = files_of(person), files_of(home)
    done = run("import", given, "--dry-run", "--home", home)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:4] == [
        "would record  12 events from 1 file",
        "kinds         fact 12",
        "namespaces    /global 12",
        "  fact /global: Heron 0 nests",
    ]
    assert lines[-1] == "  and 2 more"
    assert (files_of(person), files_of(home)) == before
    told = json.loads(run("import", given, "--dry-run", "--json", "--home", home).out)
    assert (told["events"], told["dry_run"]["kinds"]) == (12, {"fact": 12})
    assert run("import", given, "--home", home).out.splitlines()[0].startswith("recorded  12")
    again = run("import", given, "--dry-run", "--home", home)
    assert again.out.splitlines()[0] == "would record  0 events from 1 file (1 without news)"


def test_what_is_imported_goes_into_the_namespace_that_is_named(run, home, tmp_path):
    given = rows(tmp_path / "rows.jsonl")
    assert run("import", given, "--ns", "/spec/birds", "--home", home).code == 0
    found = run("search", "heron", "--ns", "/spec/birds", "--json", "--home", home)
    assert "Heron" in found.out
    refused = run("import", given, "--ns", "birds", "--home", home)
    assert refused.code == 2


def test_of_the_users_own_plane_it_goes_into_the_project_that_is_named(run, person):
    own = person / ".memplane"
    assert run("init", own).code == 0
    assert run("record", "Owls sleep by day").code == 0
    (project,) = json.loads(run("projects", "--json").out)
    given = rows(person / "rows.jsonl")
    (person / "elsewhere").mkdir()
    name = project["name"]
    done = run("import", given, "--project", name, "--dry-run", "--json")
    assert json.loads(done.out)["dry_run"]["namespaces"] == {project["ns"]: 12}
    assert run("import", given, "--project", name).code == 0
    assert "Heron" in run("search", "heron", "--project", name).out
    both = run("import", given, "--project", name, "--ns", "/global")
    assert both.code == 2
    assert "--ns or --project" in both.err
    assert run("import", given, "--project", "nobody's").code == 1
