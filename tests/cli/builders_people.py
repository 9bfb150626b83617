"""Somebody with settings of agents of their own, and what lies in their home."""

import stat

THEIRS = '{\n    "model": "opus",\n    "hooks": {"Stop": [{"hooks": [{"command": "lint"}]}]}\n}'
TABLES = "model = 'x' # mine\n\n[mcp_servers.other]\ncommand = 'y'"


def tree(folder):
    """Every file and folder below one, but for planes: what it holds, its mode, where it points."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if ".memplane" in path.parts:
            continue
        state = path.lstat()
        holds = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
        found[str(path.relative_to(folder))] = (
            holds, stat.S_IMODE(state.st_mode), path.is_symlink() and path.readlink(),
        )  # fmt: skip
    return found


def paths(person, agent, scope):
    """The two settings files: of the hooks, of the servers."""
    above = person if scope == "--user" else person / "project"
    if agent == "codex":
        return above / ".codex" / "hooks.json", above / ".codex" / "config.toml"
    servers = ".claude.json" if scope == "--user" else ".mcp.json"
    return above / ".claude" / "settings.json", above / servers


def fill(person, agent, scope):
    """Settings as a person has them."""
    hooks, servers = paths(person, agent, scope)
    for path, text in ((hooks, THEIRS), (servers, TABLES if agent == "codex" else THEIRS)):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.replace("\n", "\r\n").encode())
        path.chmod(0o640)
    return hooks, servers


def names(folder):
    return {path.name for path in folder.iterdir()}


def without_state(found):
    """Less the folder of state, which keeps the trust in a plane that was made."""
    state = (".local", ".local/state", ".local/state/memplane", ".local/state/memplane/trust")
    return {
        name: one
        for name, one in found.items()
        if name not in state and not name.startswith(f"{state[-1]}/")
    }
