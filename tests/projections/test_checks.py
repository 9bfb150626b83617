"""Which calls are the same check: a later success closes the failures of what it covers."""

import pytest

from memplane.projections.checks import blamed_name, check_names, covers, shows_red


def of(command):
    return check_names("Bash", f"Bash {command}")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('Bash command="pytest -x" description="Run it again"', "pytest"),
        ("Bash command=pytest", "pytest"),
        ('exec_command cmd="cd /tmp && pytest"', "pytest"),
        (f"Bash description=x\ncommand:\npytest {'tests/a.py ' * 30}\nother:\nx", ""),
        ("Bash description=x\ncommand:\npytest -q\nother:\nx", "pytest"),
        ("pytest -x", "pytest"),
    ],
)
def test_a_command_is_read_from_the_text_of_a_call(text, command):
    tool = text.split()[0] if "=" in text.split("\n")[0] else "Bash"
    assert check_names(tool, text).split("\t")[0] == command


@pytest.mark.parametrize(
    ("failed", "passed"),
    [
        ("pytest", "pytest -x"),
        ("pytest -x tests/a.py", "pytest"),
        ("pytest tests/a.py::test_b", "pytest tests/a.py"),
        ("pytest tests/a.py::test_b -k one", "pytest tests"),
        ("pytest tests/a.py tests/b.py", "pytest ./tests/ -q"),
        ("python -m pytest tests/a.py", ".venv/bin/pytest 2>&1 | tail -5"),
        ("cd repo && uv run pytest -x", "FOO=1 timeout 60 pytest -n 2 --maxfail 1"),
        ("go test ./cmd/a", "go test ./..."),
        ("npm run build", "npm run build && echo done"),
        ("make lint", "time make lint > out.txt"),
        ("mypy memplane/a.py", "mypy memplane"),
        ("cargo test", "cargo test --release"),
    ],
)
def test_the_same_check_or_a_wider_one_covers(failed, passed):
    assert of(failed)
    assert covers(of(passed), blamed_name(of(failed), ""))


@pytest.mark.parametrize(
    ("failed", "passed"),
    [
        ("pytest", "pytest tests/a.py"),
        ("pytest", "pytest -k one"),
        ("pytest tests/ab.py", "pytest tests/a"),
        ("pytest", "ruff check ."),
        ("pytest", "ls tests"),
        ("npm run build", "npm run test"),
        ("npm run build", "go test ./..."),
        ("cargo test", "cargo build"),
        ("docker build .", "docker push"),
        ("make lint && make test", "make lint"),
        ("pytest", 'grep -r "pytest" .'),
    ],
)
def test_another_check_or_a_narrower_one_does_not(failed, passed):
    assert not covers(of(passed), blamed_name(of(failed), ""))


@pytest.mark.parametrize(
    "command", ["", "cat <<EOF\npytest\nEOF", "echo 'open", "ls", "cd x && ls | grep y"]
)
def test_what_checks_nothing_has_no_name(command):
    assert of(command) == ""


def test_tools_that_are_no_shells_have_none():
    assert check_names("Edit", "Edit file_path=a.py old_string=pytest") == ""
    assert check_names("Read", "Read pytest") == ""


@pytest.mark.parametrize(
    ("text", "red"),
    [
        ("12 passed in 0.3s", False), ("1 failed, 11 passed", True), ("0 errors", False),
        ("FAILED tests/a.py::b", True), ("Traceback (most recent call last):", True),
        ("All good", False), ("x.c:3: error: expected ;", True),
    ],
)  # fmt: skip
def test_output_that_says_so_is_a_failure_whatever_the_exit_code(text, red):
    assert shows_red(text) is red


def test_all_parts_of_a_line_that_passed_count_and_of_a_red_one_the_blamed():
    both = of("make lint && make test")
    assert covers(both, of("make lint"))
    assert blamed_name(both, "make: *** [lint] Error 1") == of("make lint")
    assert blamed_name(both, "") == of("make test")


def test_what_is_no_name_is_covered_by_its_equal_alone():
    assert covers("0a1b", "0a1b")
    assert not covers("0a1b", "0a1c")
    assert not covers(of("pytest"), "0a1b")
