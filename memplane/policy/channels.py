"""channels.yaml and privacy.yaml: what is stored and masked, what each channel loads and sees."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.event import SENSITIVITIES
from memplane.policy.document import Fault, Json, found_value, mapping, meant, texts_of_list
from memplane.policy.regex_safety import pattern_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ChannelRule",
    "Channels",
    "Privacy",
    "build_channels",
    "build_privacy",
    "channel_faults",
    "channel_names",
    "privacy_faults",
    "unknown_channels",
]

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


class ChannelRule(NamedTuple):
    """What a channel does not see, whatever the request says."""

    suppress_sensitivity: tuple[str, ...] = ()
    suppress_views: tuple[str, ...] = ()
    suppress_kinds: tuple[str, ...] = ()


# Applies to a channel without a rule where `agent` has none either.
_CAREFUL: Final = ChannelRule(("high", "secret"))
_RULES: Final = {
    "public": ChannelRule(("high", "secret"), ("views/preferences.md",)),
    "private": ChannelRule(("secret",)),
    "team": _CAREFUL,
    "agent": _CAREFUL,
}


class Privacy(NamedTuple):
    """What may be stored and shown. `rules` holds them as written, `rule` says what applies."""

    never_store_kinds: tuple[str, ...] = ("secret",)
    redact_patterns: tuple[str, ...] = (
        r"""(?i)\bapi_key\s*[:=]\s*["']?(?=[\w./+-]*\d)[\w./+-]{8,}""",
        r"""(?i)password\s*[:=]\s*["']?(?!\*{3})(?!0x[0-9a-f]{1,16}\b)(?=[^\s"'`,;(){}\[\]<>$]*\d)[^\s"'`,;(){}\[\]<>$]{6,}""",
    )
    rules: dict[str, ChannelRule] = _RULES

    def rule(self, channel: str) -> ChannelRule:
        """Return the channel's rule, else `agent`'s; `secret` is suppressed whatever it says."""
        return _applied(self.rules.get(channel, self.rules.get("agent", _CAREFUL)))


@lru_cache(maxsize=64)
def _applied(rule: ChannelRule) -> ChannelRule:
    hidden = {*rule.suppress_sensitivity, "secret"}
    return rule._replace(suppress_sensitivity=tuple(s for s in SENSITIVITIES if s in hidden))


_DEFAULT: Final = Privacy()


def build_privacy(document: Json) -> Privacy:
    """Build the record from a document without mistakes."""
    store = mapping(document.get("store", {}))
    load = mapping(document.get("load", {}))
    never = store.get("never_store_kinds")
    patterns = store.get("redact_patterns")
    rules = load.get("channel_rules")
    return Privacy(
        _DEFAULT.never_store_kinds if never is None else texts_of_list(never),
        _DEFAULT.redact_patterns if patterns is None else texts_of_list(patterns),
        dict(_RULES)
        if rules is None
        else {n: _rule(mapping(r)) for n, r in mapping(rules).items()},
    )


def _rule(row: Json) -> ChannelRule:
    return ChannelRule(**{name: texts_of_list(hidden) for name, hidden in row.items()})


def privacy_faults(document: Json) -> Iterator[Fault]:
    """Name what the schema cannot see: patterns that do not compile, or that can blow up."""
    store = document.get("store")
    if isinstance(store, dict):
        yield from pattern_faults(("store", "redact_patterns"), store.get("redact_patterns"))


def unknown_channels(document: Json, channels: tuple[str, ...]) -> Iterator[Fault]:
    """Name the rules of channels that channels.yaml does not have.

    Standard channels may have rules before, or after, the policy has them.
    """
    load = document.get("load")
    rules = load.get("channel_rules") if isinstance(load, dict) else None
    for name in rules if isinstance(rules, dict) else ():
        if name not in channels and name not in _RULES:
            listed = ", ".join(f"`{channel}`" for channel in channels)
            hint = meant(name, channels)
            message = (
                f"expected a channel of channels.yaml ({listed}), found {found_value(name)}{hint}"
            )
            yield Fault(("load", "channel_rules", name), message)
