"""The memory tool's six commands over a plane, and what a plane makes of the files."""

import hashlib
import threading

import pytest
from builders_memory_commands import operations
from hypothesis import given, settings, strategies as st

import memplane
from memplane.adapters import memory_tool
from memplane.adapters.memory_tool import COMMANDS, MemoryFiles
from memplane.errors import InputError, MissingExtraError

# Of the answers to 200 commands; tests/agents holds them against the SDK's own implementation.
ANSWERS = {0: "742bf0ea21cc3faf", 1: "79717cab05a3480c", 2: "36cc7764d56fdf77"}


LISTED = "Here're the files and directories up to 2 levels deep in"


@pytest.fixture
def files(plane):
    return MemoryFiles(plane)


def asked(files, **command):
    """The answer or the refusal."""
    try:
        return files.run(command)
    except InputError as error:
        return f"! {error}"


def tree(files):
    return files.view("/memories").split("\n")[1:]


# --- the answers ---


def test_a_file_is_made_once_and_shown_with_numbered_lines(files):
    assert asked(files, command="create", path="/memories/a.md", file_text="one\ntwo\n") == (
        "File created successfully at: /memories/a.md"
    )
    assert asked(files, command="create", path="/memories/a.md", file_text="x") == (
        "! File /memories/a.md already exists"
    )
    assert asked(files, command="view", path="/memories/a.md") == (
        "Here's the content of /memories/a.md with line numbers:\n"
        "     1\tone\n     2\ttwo\n     3\t"
    )
    assert asked(files, command="view", path="/memories/a.md", view_range=[2, -1]).endswith(
        "with line numbers:\n     2\ttwo\n     3\t"
    )


def test_a_folder_is_listed_two_levels_deep_without_what_is_hidden(files):
    for path in ("b/c/d/deep.md", "b/c/two.md", "a.md", ".hidden", "b/.git/x"):
        files.create(f"/memories/{path}", "x" * 1536)
    assert asked(files, command="view", path="/memories").split("\n") == [
        f"{LISTED} /memories, excluding hidden items:",
        "4K\t/memories",
        "1.5K\t/memories/a.md",
        "4K\t/memories/b/",
        "4K\t/memories/b/c/",
    ]


def test_a_text_is_replaced_where_it_stands_once(files):
    files.create("/memories/a.md", "one\ntwo\nthree\nfour\nfive\nsix\none\n")
    command = {"command": "str_replace", "path": "/memories/a.md"}
    assert asked(files, **command, old_str="four", new_str="4") == (
        "The memory file has been edited. Here is the snippet showing the change "
        "(with line numbers):\n"
        "     2\ttwo\n     3\tthree\n     4\t4\n     5\tfive\n     6\tsix"
    )
    assert asked(files, **command, old_str="one", new_str="1") == (
        "! No replacement was performed. Multiple occurrences of old_str `one` in lines: 1, 7. "
        "Please ensure it is unique"
    )
    assert asked(files, **command, old_str="none", new_str="1") == (
        "! No replacement was performed, old_str `none` did not appear verbatim in /memories/a.md."
    )
    assert asked(files, **{**command, "path": "/memories/b"}, old_str="a", new_str="b") == (
        "! The path /memories/b does not exist. Please provide a valid path."
    )
    assert asked(files, **{**command, "path": "/memories"}, old_str="a", new_str="b") == (
        "! The path /memories is not a file."
    )


def test_lines_are_inserted_behind_a_line(files):
    files.create("/memories/a.md", "one\ntwo")
    command = {"command": "insert", "path": "/memories/a.md"}
    assert asked(files, **command, insert_line=1, insert_text="new\n") == (
        "The file /memories/a.md has been edited."
    )
    assert files.view("/memories/a.md").endswith("     1\tone\n     2\tnew\n     3\ttwo\n     4\t")
    assert asked(files, **command, insert_line=9, insert_text="new") == (
        "! Invalid `insert_line` parameter: 9. It should be within the range [0, 3]."
    )


def test_files_and_folders_are_deleted_and_moved(files):
    for path in ("a/one.md", "a/b/two.md", "c.md"):
        files.create(f"/memories/{path}", "x")
    assert asked(files, command="rename", old_path="/memories/a", new_path="/memories/d/e") == (
        "Successfully renamed /memories/a to /memories/d/e"
    )
    assert tree(files)[1:] == ["1B\t/memories/c.md", "4K\t/memories/d/", "4K\t/memories/d/e/"]
    assert asked(files, command="rename", old_path="/memories/c.md", new_path="/memories/d") == (
        "! The destination /memories/d already exists"
    )
    assert asked(files, command="delete", path="/memories/d/e") == (
        "Successfully deleted /memories/d/e"
    )
    assert tree(files)[1:] == ["1B\t/memories/c.md", "4K\t/memories/d/"]
    assert asked(files, command="delete", path="/memories/d/e") == (
        "! The path /memories/d/e does not exist"
    )
    assert asked(files, command="delete", path="/memories") == (
        "! Cannot delete the /memories directory itself"
    )
    assert asked(files, command="rename", old_path="/memories", new_path="/memories/x") == (
        "! Cannot rename the /memories directory itself"
    )
    assert files.clear() == "All memory cleared"
    assert tree(files) == ["4K\t/memories"]


@pytest.mark.parametrize("seed", ANSWERS)
def test_two_hundred_commands_have_the_answers_that_they_had(files, seed):
    said = [asked(files, **command) for command in operations(200, seed)]
    assert hashlib.sha256("\0".join(said).encode()).hexdigest()[:16] == ANSWERS[seed]


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../etc/passwd", "/memories/a/../../x", "/memories/../memories/a", "/etc/passwd",
        "memories/a", "", "/memories/a\0b", "/memories/a\nb", "/memories/" + "x" * 300,
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_memories(files, plane, path):
    files.create("/memories/a.md", "x")
    head = plane.head()
    given = {
        "path": path, "file_text": "x", "old_str": "x", "new_str": "y", "insert_line": 0,
        "insert_text": "x", "old_path": "/memories/a.md", "new_path": path,
    }  # fmt: skip
    for command in COMMANDS:
        assert asked(files, command=command, **given).startswith("! ")
    assert plane.head() == head


@pytest.mark.parametrize(
    "command",
    [
        {}, {"command": "wipe"}, {"command": "view"}, {"command": "create", "path": "/memories/a"},
        {"command": "view", "path": 7}, {"command": "create", "path": "/memories/a", "file_text": 1},
        {"command": "insert", "path": "/memories/a.md", "insert_line": "1", "insert_text": "x"},
        {"command": "view", "path": "/memories/a.md", "view_range": ["1", 2]},
        {"command": "_do", "name": "x", "decide": None}, {"command": ["view"]},
    ],
)  # fmt: skip
def test_a_command_in_no_good_form_is_refused_in_words(files, command):
    files.create("/memories/a.md", "x")
    assert asked(files, **command).startswith("! ")


def test_a_file_has_bounds(files, plane, monkeypatch):
    files.create("/memories/a.md", "x" * 30)
    monkeypatch.setattr(memory_tool, "FILE_BYTES_MAX", 40)
    assert "should take at most 40" in asked(
        files, command="create", path="/memories/b", file_text="é" * 21
    )
    assert "should take at most 40" in asked(
        files, command="insert", path="/memories/a.md", insert_line=0, insert_text="y" * 20
    )
    for number in range(4):
        files.create(f"/memories/d/{number}", "x")
    monkeypatch.setattr(memory_tool, "FOLDER_FILES_MAX", 3)
    head = plane.head()
    assert asked(files, command="delete", path="/memories/d") == (
        "! The folder /memories/d holds more than 3 files."
    )
    assert plane.head() == head


def test_a_large_file_comes_back_whole(files):
    text = "a line of some length, with é\n" * 60_000
    files.create("/memories/large.md", text)
    shown = files.view("/memories/large.md").split("\n")[1:]
    assert "\n".join(line.partition("\t")[2] for line in shown) == text


# --- what the plane makes of them ---


def test_each_version_is_in_the_history_and_only_the_last_is_in_force(files, plane):
    files.create("/memories/tea.md", "Likes green tea\n")
    files.str_replace("/memories/tea.md", "green", "black")
    files.insert("/memories/tea.md", 1, "No sugar")
    versions = plane.history("/memories/tea.md")
    assert [version.event.text for version in versions] == [
        "Likes green tea\n", "Likes black tea\n", "Likes black tea\nNo sugar\n"
    ]  # fmt: skip
    assert [version.reason for version in versions] == ["superseded", "superseded", None]
    assert [hit.event.seq for hit in plane.search("tea")] == [versions[-1].event.seq]
    block = plane.pack("what tea?", budget=1000)
    assert "black tea" in block.text
    assert "green tea" not in block.text


def test_a_command_that_only_looks_or_is_refused_writes_nothing(files, plane):
    files.create("/memories/a.md", "x")
    head = plane.head()
    for command in ("view", "create", "str_replace", "delete"):
        given = {"path": "/memories" if command != "create" else "/memories/a.md"}
        asked(files, command=command, **given, file_text="", old_str="q", new_str="")
    assert plane.head() == head


def test_what_was_deleted_is_neither_searched_nor_packed_and_comes_back_by_unforgetting(
    files, plane
):
    files.create("/memories/a/tea.md", "Likes green tea\n")
    before = plane.head().seq
    files.delete("/memories/a")
    assert plane.head().seq == before + 1
    assert plane.search("green tea") == []
    assert plane.get("/memories/a/tea.md") is None
    (event,) = plane.events(kind="forget")
    plane.unforget(id=event.data["forget"]["ids"][0])
    assert files.view("/memories/a/tea.md").endswith("Likes green tea\n     2\t")


def test_a_purged_file_is_gone_from_the_disk(files, plane):
    files.create("/memories/vault.md", "The vault is behind the painting\n")
    files.str_replace("/memories/vault.md", "painting", "painting of a ship")
    plane.upkeep.purge(key="/memories/vault.md")
    assert tree(files) == ["4K\t/memories"]
    for path in plane.home.rglob("*"):
        assert not path.is_file() or b"behind the painting" not in path.read_bytes()


def test_namespaces_have_files_of_their_own(plane):
    mine, theirs = MemoryFiles(plane, ns="/agent/a"), MemoryFiles(plane, ns="/agent/b")
    mine.create("/memories/a.md", "mine")
    assert tree(theirs) == ["4K\t/memories"]
    theirs.create("/memories/a.md", "theirs")
    assert mine.view("/memories/a.md").endswith("mine")
    with pytest.raises(InputError):
        MemoryFiles(plane, ns="elsewhere")


def test_a_secret_is_masked_and_the_model_is_told(files, plane):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    answer = files.create("/memories/keys.md", f"the token: {token}\n")
    assert answer == (
        "File created successfully at: /memories/keys.md\n"
        "What looks like a secret, or cannot be stored, was masked in it."
    )
    assert token not in files.view("/memories/keys.md")
    assert files.insert("/memories/keys.md", 1, "no secret") == (
        "The file /memories/keys.md has been edited."
    )
    assert plane.upkeep.audit().findings == ()


def test_writers_at_once_make_each_file_once_and_lose_no_edit(plane):
    made, barrier = [], threading.Barrier(4)

    def write(number):
        with memplane.open(plane.home, durability="os") as own:
            files = MemoryFiles(own)
            barrier.wait()
            made.append(asked(files, command="create", path="/memories/log.md", file_text=""))
            files.create(f"/memories/{number}.md", "x")

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(answer.startswith("! ") for answer in made) == [False, True, True, True]
    assert len(tree(MemoryFiles(plane))) == 6


_NAMES = st.sampled_from(["a", "b", "a/c", "b/a", "a/c/b", "."])
_PATHS = _NAMES.map(lambda name: f"/memories/{name}")
_STEPS = st.one_of(
    st.builds(lambda p: {"command": "create", "path": p, "file_text": p}, _PATHS),
    st.builds(lambda p: {"command": "delete", "path": p}, _PATHS),
    st.builds(lambda p, q: {"command": "rename", "old_path": p, "new_path": q}, _PATHS, _PATHS),
)


@settings(max_examples=12)
@given(st.lists(_STEPS, max_size=12))
def test_a_plane_that_folds_its_log_anew_has_the_same_files(tmp_path_factory, steps):
    home = tmp_path_factory.mktemp("memory") / "plane"
    with memplane.init(home, durability="os") as plane:
        files = MemoryFiles(plane)
        said = [asked(files, **step) for step in steps]
        seen = tree(files)
        plane.upkeep.rebuild()
        assert tree(files) == seen
        again = memplane.init(home.with_name("again"), durability="os")
        with again:
            assert [asked(MemoryFiles(again), **step) for step in steps] == said
            assert tree(MemoryFiles(again)) == seen


def test_without_the_sdk_the_tool_names_the_extra(plane, monkeypatch):
    from memplane.adapters import memory_tool

    monkeypatch.setitem(__import__("sys").modules, "anthropic.tools", None)
    with pytest.raises(MissingExtraError, match=r"memplane\[anthropic\]"):
        memory_tool.memory_tool(plane)
