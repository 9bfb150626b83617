"""`memplane schema`: the JSON Schemas of what memplane reads and writes."""

import json
from typing import Annotated

import typer

from memplane.cli.app import command
from memplane.cli.options import Home, Json
from memplane.cli.output import put
from memplane.home import SCHEMAS
from memplane.home import schema as schema_of

__all__ = ["schema"]


@command("schema", example="schema event")
def schema(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which one; without it, their names.")
    ] = None,
    *,
    home: Home = None,  # noqa: ARG001 - as everywhere; schemas are memplane's own, not a plane's
    as_json: Json = False,
) -> None:
    """Print the JSON Schema of a format: it needs no other file. Without a name, list them.

    Policies and scenarios, events as the log holds and takes them, blocks, reports and the hotset.
    `memplane init` puts all of them into schemas/ of the plane, for editors.
    """
    if name is None:
        put(list(SCHEMAS), "\n".join(SCHEMAS), as_json=as_json)
        return
    data = schema_of(name.removesuffix(".schema.json"))
    put(json.loads(data), data.decode().rstrip("\n"), as_json=as_json)
