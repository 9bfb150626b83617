"""channels.yaml: for whom blocks are made, and the views that each channel loads by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.policy.document import Fault, Json, found_value, mapping, texts_of_list

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Channels", "build_channels", "channel_faults", "channel_names"]

_SHARED: Final = ("views/identity.md", "views/rules.project.md")


class Channels(NamedTuple):
    """The channels and their views, both in the order of the file."""

    views: dict[str, tuple[str, ...]] = {  # noqa: RUF012 - read only
        "private": (*_SHARED, "views/preferences.md"),
        "public": _SHARED,
        "team": _SHARED,
        "agent": _SHARED,
    }

    def known(self, channel: str) -> bool:
        """Say whether the policy has this channel."""
        return channel in self.views

    def default_views(self, channel: str) -> tuple[str, ...]:
        """Return the views that the channel loads; none for an unknown one."""
        return self.views.get(channel, ())


def build_channels(document: Json) -> Channels:
    """Build the record from a document without mistakes."""
    rows = document.get("channels")
    if rows is None:
        return Channels()
    if not isinstance(rows, list):
        raise TypeError(f"expected a list, found {type(rows).__name__}")
    views: dict[str, tuple[str, ...]] = {}
    for row in rows:
        name = mapping(row)["name"]
        if not isinstance(name, str):
            raise TypeError(f"expected the name of a channel, found {name!r}")
        views[name] = texts_of_list(row.get("default_load_views", []))
    return Channels(views)


def channel_faults(document: Json) -> Iterator[Fault]:
    """Name the channels that stand there twice."""
    rows = document.get("channels")
    first: dict[str, int] = {}
    for position, row in enumerate(rows if isinstance(rows, list) else ()):
        name = row.get("name") if isinstance(row, dict) else None
        if isinstance(name, str) and first.setdefault(name, position) != position:
            what = f"expected a name of its own, found {found_value(name)}"
            message = f"{what}, which `channels[{first[name]}]` has"
            yield Fault(("channels", position, "name"), message)


def channel_names(document: object) -> tuple[str, ...] | None:
    """Return the names of a document that may have mistakes, None where one cannot be read."""
    if not isinstance(document, dict):
        return None
    rows = document.get("channels", [{"name": name} for name in Channels().views])
    found = [
        row.get("name") if isinstance(row, dict) else None
        for row in (rows if isinstance(rows, list) else [None])
    ]
    texts_only = tuple(name for name in found if isinstance(name, str))
    return texts_only if len(texts_only) == len(found) else None
