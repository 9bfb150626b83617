"""privacy.yaml: what is never stored, what is masked, and what each channel may not see."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from memplane.event import SENSITIVITIES
from memplane.policy.document import Fault, Json, found_value, mapping, meant, texts_of_list
from memplane.policy.regex_safety import pattern_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ChannelRule", "Privacy", "build_privacy", "privacy_faults", "unknown_channels"]


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
