"""`memplane embed`: vectors beside the words, made when somebody asks for them."""

from typing import Annotated

import typer

from memplane.cli.app import command
from memplane.cli.options import Home, Json
from memplane.cli.output import counted, put, say
from memplane.cli.progress import Bar
from memplane.wiring import open_plane

__all__ = ["embed"]


@command("embed", example="embed --limit 1000")
def embed(
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="At most so many texts.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make the vectors that search and pack use beside the words; they are kept in the plane.

    The embedder is the one that plane.yaml names (index: embedder). May be stopped at any time:
    what is done is kept, and the next run goes on from there.
    """
    with open_plane(home) as plane:
        with Bar("indexing") as bar:
            plane.index(bar)
        try:
            with Bar("embed") as bar:
                done = plane.embed(limit, bar)
        except KeyboardInterrupt:
            say("stopped; what was embedded is kept, and the next run goes on from there")
            raise
    more = "; there may be more" if done == limit else ""
    put({"embedded": done}, f"{counted(done, 'text')} embedded{more}", as_json=as_json)
