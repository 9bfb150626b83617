"""Repositories and work trees as git writes them, made by hand."""


def repository(folder, origin=""):
    """A root with a `.git`; `origin` as its config says it."""
    git = folder / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    remote = f'[remote "origin"]\n\turl = {origin}\n\tfetch = +refs/heads/*\n' if origin else ""
    (git / "config").write_text(f"[core]\n\tbare = false\n{remote}")
    return folder


def work_tree(main, folder, *, listed=None):
    """A work tree of a root; `listed`: the place that the root's own list names instead."""
    place = main / ".git" / "worktrees" / folder.name
    place.mkdir(parents=True)
    folder.mkdir(parents=True)
    (folder / ".git").write_text(f"gitdir: {place}\n")
    (place / "commondir").write_text("../..\n")
    (place / "gitdir").write_text(f"{listed or folder}/.git\n")
    return folder


def submodule(main, folder, origin):
    """A submodule of a root, whose config says which folder is its work tree."""
    place = main / ".git" / "modules" / folder.name
    place.mkdir(parents=True)
    folder.mkdir(parents=True)
    (folder / ".git").write_text(f"gitdir: {place}\n")
    words = f'[core]\n\tworktree = {folder}\n[remote "origin"]\n\turl = {origin}\n'
    (place / "config").write_text(words)
    return folder
