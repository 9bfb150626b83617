"""Which check a command line is, which success closes which failure, and what is no failure."""

import pytest
from hypothesis import given, strategies as st

from memplane.projections.checks import (
    blamed,
    checks_in,
    closes,
    command_in,
    says_green,
    shows_red,
)


def check(command):
    [one] = checks_in(command)
    return one


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("cd app && uv run pytest -x tests/boat.py 2>&1 | tail -20", "pytest"),
        ("MAST=1 timeout 60 python -m pytest -q", "pytest"),
        ("./node_modules/.bin/eslint src", "eslint"),
        ("npm run build --silent", "npm run build"),
        ("make -j 4 release", "make release"),
        ("docker build -t boat .", "docker build"),
        ("git -C /srv/boat push origin main", "git push"),
        ("git rebase main", "git integrate"),
        ("gh pr create --title Sails", "gh pr create"),
        ("python3 tools/rig.py --all", "python3"),
        ("(go test ./hull/...)", "go test"),
    ],
)
def test_a_check_is_named_by_its_program_without_who_runs_it(command, named):
    assert check(command).program == named


@pytest.mark.parametrize(
    "command",
    [
        "ls -la; cat a.txt | grep mast",
        "git status && git log -3 && git diff",
        "gh pr view 3 && gh run list",
        "python3 -c 'print(1)'",
        "node -e 'x'",
        "python3 - <<'EOF'\nimport boat\nEOF",
        "/tmp/probe --all",
        "go run ./cmd/x",
        "test -f mast && echo yes || true",
        "for f in *; do echo $f; done",
        "SAIL=red",
        "npm ls --depth 0",
        "kubectl get pods",
        "rm -rf build && mkdir build",
        "",
    ],
)
def test_what_only_looks_or_prepares_is_no_check(command):
    assert checks_in(command) == []


def test_the_last_part_is_blamed_but_where_the_output_names_another():
    line = "mise run fmt && mise run lint && mise run test"
    assert blamed(line, "Exit code 1").program == "mise run test"
    assert blamed(line, "Exit code 1\n[lint] ERROR unused name").program == "mise run lint"
    assert blamed("make all", "make: *** [Makefile:3: sails] Error 1").program == "make all"


@pytest.mark.parametrize(
    "output",
    [
        "Exit code 127\nbash: sailmaker: command not found",
        "error: unknown flag: --mast",
        "pytest: error: unrecognized arguments: --hull\nusage: pytest",
        "fatal: not a git repository",
        "ModuleNotFoundError: No module named boat",
        "Command timed out after 2m",
    ],
)
def test_a_call_that_was_wrong_in_itself_says_nothing_of_the_work(output):
    assert blamed("make sails", output) is None


@pytest.mark.parametrize(
    ("passed", "failed"),
    [
        ("pytest", "pytest tests/hull.py::test_keel -k oak"),
        ("pytest tests", "pytest tests/hull.py"),
        ("go test ./...", "go test ./hull/keel -run TestOak"),
        ("go test ./hull/...", "go test ./hull/keel"),
        ("mise run test", "go test ./hull"),
        ("make lint", "golangci-lint run"),
        ("task test", "go build ./..."),
        ("git push", "git merge main"),
        ("git commit -m done", "git rebase main"),
        ("npm run build", "npm run build -- --watch"),
    ],
)
def test_the_same_check_or_a_wider_one_closes_a_failure(passed, failed):
    assert closes(check(passed), check(failed))


@pytest.mark.parametrize(
    ("passed", "failed"),
    [
        ("pytest tests/hull.py", "pytest"),
        ("pytest -k oak", "pytest tests/hull.py"),
        ("pytest tests/hull.py", "pytest tests/sails.py"),
        ("go test ./...", "npm run build"),
        ("go test ./...", "docker build ."),
        ("mise run test", "docker build ."),
        ("mise run lint", "mise run test"),
        ("mise run test -- hull", "go test ./sails"),
        ("git commit -m done", "git push"),
        ("terraform plan", "terraform apply"),
    ],
)
def test_another_check_or_a_narrower_one_does_not(passed, failed):
    assert not closes(check(passed), check(failed))


def test_a_pipe_hides_an_exit_code_but_not_what_was_printed():
    assert shows_red("3 passed, 1 failed in 2s")
    assert shows_red("--- FAIL: TestKeel (0.01s)")
    assert shows_red("hull.go:12:3: undefined: oak")
    assert not shows_red("4 passed in 2s\n0 errors")


@pytest.mark.parametrize(
    ("answer", "green"),
    [
        ("All tests pass now.", True),
        ("The unit tests are green, and lint is clean.", True),
        ("Once all tests pass I will push.", False),
        ("Not all tests pass yet.", False),
        ("The mast is up.", False),
    ],
)
def test_an_agent_says_that_checks_are_green_or_that_they_should_be(answer, green):
    assert says_green(answer) is green


def test_the_command_is_read_from_the_call_of_a_shell_alone():
    assert command_in("Bash", 'Bash command="make sails" description="make them"') == "make sails"
    assert (
        command_in("Bash", "Bash description=x\ncommand:\nmake\nmake sails") == "make\nmake sails"
    )
    assert command_in("shell", "shell command=make") == "make"
    assert command_in("Grep", "Grep command=make") == ""


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_line_has_checks_that_close_themselves(command, output):
    for one in checks_in(command):
        assert closes(one, one)
    blamed(command, output)
    command_in("Bash", f"Bash {command}")
    says_green(output)
    shows_red(output)
