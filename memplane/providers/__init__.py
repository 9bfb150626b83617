"""Models as plug-ins: embedders and reflectors at the other end of a network, by one interface.

    from memplane.providers import HTTPEmbedder

    embedder = HTTPEmbedder("http://127.0.0.1:11434/v1", "nomic-embed-text", dimension=768)
    plane = memplane.open("notes", embedder=embedder)

Without any of them a plane works whole. What fails costs no turn and no block: see `ProviderError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from memplane.providers.bridge import AsyncEmbedder, blocking
from memplane.providers.http import (
    AnthropicReflector,
    HTTPEmbedder,
    HTTPReflector,
    OpenAIEmbedder,
    OpenAIReflector,
    RetryConfig,
    with_retry,
)
from memplane.work.episodes import Episode, Fact, Turn


@runtime_checkable
class AsyncReflector(Protocol):
    """Derives facts from the turns of an episode, usually with a model."""

    async def reflect(self, episode: Episode, turns: Sequence[Turn]) -> list[Fact]:
        """Facts, each with the ids of turns that say it; ProviderError where that fails."""
        ...


__all__ = [
    "AnthropicReflector",
    "AsyncEmbedder",
    "AsyncReflector",
    "HTTPEmbedder",
    "HTTPReflector",
    "OpenAIEmbedder",
    "OpenAIReflector",
    "RetryConfig",
    "blocking",
    "with_retry",
]
