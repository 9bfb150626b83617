"""`memplane policy check`: every mistake in the policies, with its file, line and key."""

from memplane.cli.app import command, policy_app
from memplane.cli.exits import FINE, NO
from memplane.cli.options import Home, Json
from memplane.cli.output import put
from memplane.errors import PolicyError
from memplane.policy import NAMES
from memplane.wiring import open_plane

__all__ = ["check"]


@command("check", example="policy check", group=policy_app)
def check(*, home: Home = None, as_json: Json = False) -> int:
    """List every mistake in the policies; exit 1 if there is one. A broken one stops packs."""
    with open_plane(home) as plane:
        try:
            hashes = dict(sorted(plane.policies.hashes.items()))
        except PolicyError as error:
            found = [{**p._asdict(), "file": f"policies/{p.file}"} for p in error.problems]
            words = "\n".join(f"policies/{problem}" for problem in error.problems)
            put({"ok": False, "problems": found}, words, as_json=as_json)
            return NO
        unwritten = [name for name in NAMES if not (plane.home / "policies" / name).exists()]
    words = f"{len(NAMES)} policies, no mistakes"
    if unwritten:
        words += f"; not there, so memplane's own defaults: {', '.join(unwritten)}"
    put({"ok": True, "problems": [], "hashes": hashes}, words, as_json=as_json)
    return FINE
