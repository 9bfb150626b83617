"""`memplane hook` for the help, and for who writes options before it.

As agents call it, it never comes here: `memplane.__main__` runs it without the command line.
"""

import os
from typing import Annotated

import typer

from memplane.cli.app import command
from memplane.cli.options import Json
from memplane.wiring import open_light, open_plane

__all__ = ["hook"]


@command("hook", example="hook claude-code < event.json")
def hook(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="claude-code or codex.")],
    *,
    catch_up: Annotated[
        bool,
        typer.Option(
            "--catch-up",
            help="Index what was recorded, so that answers find it; for the end of a turn.",
        ),
    ] = False,
    home: Annotated[
        str | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="The plane's folder; else MEMPLANE_HOME, else .memplane where the agent works or "
            "above, if you trust it, else ~/.memplane.",
        ),
    ] = None,
    as_json: Json = False,  # noqa: ARG001 - every command takes it; a hook's answer is JSON anyway
) -> int:
    """Record what a coding agent tells at an event, and answer with what it may not know.

    `memplane install` puts it into an agent's settings; people need not run it. The event is JSON
    on stdin. Recorded are prompts, tool calls and their results, answers, summaries of compactions,
    and where sessions begin and end. Where a session begins or was compacted, and at a prompt,
    JSON on stdout gives the agent a small block, and nothing twice in a session: see `hooks` in
    policies/plane.yaml.

    It ends with 0 whatever happens and says nothing on stderr; faults stand in hooks.log in the
    plane's folder. If another process holds the log, the event waits in the spool.
    """
    from memplane.hook.run import Openers, run  # noqa: PLC0415 - other commands do without

    more = ["--catch-up"] if catch_up else []
    named = ["--home", home] if home is not None else []
    openers = Openers(open_light, lambda found: open_plane(found.path))
    return run([agent, *more, *named], os.environ, openers)
