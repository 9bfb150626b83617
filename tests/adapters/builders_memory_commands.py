"""Commands for a memory tool, drawn by chance from a few paths so that they meet each other."""

from random import Random

_FOLDERS = ["", "/a", "/a/b", "/.h", "/a/b/c", "/d"]
_FILES = ["x.md", "y.md", "z z.txt", ".hid", "a"]
_TEXTS = [
    "", "one", "one\n", "one\ntwo\nthree\n", "tabs\there\r\nand there\r\n", "é\n" * 3,
    "k" * 1500, "one one\none", "\n\n", "line\n" * 40,
]  # fmt: skip
_ODD = [
    "/memories", "/memories/", "/memories/../x", "/memories/a/../../../etc/passwd", "/etc/passwd",
    "memories/x", "/memories/./a//x.md", "/memories/a/../x.md", "/memoriesx.md", "/memories/a/",
]  # fmt: skip


def operations(count, seed):
    """The commands, the same for the same seed."""
    draw = Random(seed)

    def path():
        if draw.random() < 0.08:
            return draw.choice(_ODD)
        if draw.random() < 0.2:
            return f"/memories{draw.choice(_FOLDERS)}"
        return f"/memories{draw.choice(_FOLDERS)}/{draw.choice(_FILES)}"

    for _ in range(count):
        name = draw.choice(
            ["view", "view", "view", "create", "create", "create", "str_replace", "insert",
             "delete", "rename"]
        )  # fmt: skip
        if name == "rename":
            yield {"command": name, "old_path": path(), "new_path": path()}
            continue
        command = {"command": name, "path": path()}
        if name == "view" and draw.random() < 0.3:
            command["view_range"] = draw.choice([[1, 2], [2, -1], [0, 3], [3, 2], [50, 60], [1]])
        elif name == "create":
            command["file_text"] = draw.choice(_TEXTS)
        elif name == "str_replace":
            command["old_str"] = draw.choice(["one", "two", "line", "k", "é", "none", "\n"])
            command["new_str"] = draw.choice(["", "1", "two\nlines", "one"])
        elif name == "insert":
            command["insert_line"] = draw.choice([0, 0, 1, 2, 5, 99, -1])
            command["insert_text"] = draw.choice(["new", "new\n", "", "two\nlines\n\n"])
        yield command
