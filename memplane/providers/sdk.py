"""Embedders and reflectors over a client of OpenAI's or Anthropic's SDK that the user has made.

Keys, addresses, time-outs and retries are the client's. The SDKs are not imported here: their
errors are told by what they say of themselves (an HTTP status, a broken connection).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memplane.errors import MemplaneError, ProviderError
from memplane.intake.redact import masked
from memplane.providers.bridge import whole_vectors
from memplane.providers.http import (
    BATCH,
    check_dimension,
    check_model,
    is_retryable,
    retry_after,
    vectors_by_index,
)
from memplane.providers.prompt import build_prompt, read_facts
from memplane.work.episodes import Episode, Fact, Turn

_ANSWER_TOKENS: Final = 2_000
_CONNECTION_ERRORS: Final = frozenset({"APIConnectionError", "APITimeoutError"})


class OpenAIEmbedder:
    """Vectors by an `openai.AsyncOpenAI`; `dimension` as of HTTPEmbedder."""

    def __init__(
        self, client: Any, model: str = "text-embedding-3-small", *, dimension: int | None = None
    ) -> None:
        self._client = client
        self.model = check_model(model)
        self.dimension = check_dimension(dimension, model)

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.model!r})"

    @property
    def name(self) -> str:
        """Which vectors they are: provider, model and dimension."""
        return f"openai:{self.model}:{self.dimension}"

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text, in order; 96 texts a request. Raises ProviderError."""
        found: list[list[float]] = []
        for begin in range(0, len(texts), BATCH):
            batch = texts[begin : begin + BATCH]
            try:
                answer = await self._client.embeddings.create(
                    model=self.model, input=batch, encoding_format="float"
                )
                data = [{"index": one.index, "embedding": one.embedding} for one in answer.data]
            except Exception as error:
                raise _provider_error(error, self.name) from error
            found += whole_vectors(vectors_by_index(data), len(batch), self.dimension, self.name)
            self.dimension = len(found[0])
        return found


class OpenAIReflector:
    """Facts by an `openai.AsyncOpenAI`."""

    def __init__(self, client: Any, model: str) -> None:
        self._client = client
        self.model = check_model(model)
        self.name = f"openai:{model}"

    def __repr__(self) -> str:
        return f"OpenAIReflector({self.model!r})"

    async def reflect(self, episode: Episode, turns: Sequence[Turn]) -> list[Fact]:
        """Facts that the turns of an episode say, at most 10. Raises ProviderError."""
        asked = build_prompt(turns)
        try:
            answer = await self._client.chat.completions.create(
                model=self.model,
                messages=[
                    {"role": "system", "content": asked.task},
                    {"role": "user", "content": asked.turns_json},
                ],
            )
            said = answer.choices[0].message.content if answer.choices else None
        except Exception as error:
            raise _provider_error(error, self.name) from error
        return read_facts(said, episode, asked, self.name)


class AnthropicReflector:
    """Facts by an `anthropic.AsyncAnthropic`."""

    def __init__(self, client: Any, model: str) -> None:
        self._client = client
        self.model = check_model(model)
        self.name = f"anthropic:{model}"

    def __repr__(self) -> str:
        return f"AnthropicReflector({self.model!r})"

    async def reflect(self, episode: Episode, turns: Sequence[Turn]) -> list[Fact]:
        """Facts that the turns of an episode say, at most 10. Raises ProviderError."""
        asked = build_prompt(turns)
        try:
            answer = await self._client.messages.create(
                model=self.model,
                max_tokens=_ANSWER_TOKENS,
                system=asked.task,
                messages=[{"role": "user", "content": asked.turns_json}],
            )
            said = "".join(one.text for one in answer.content if one.type == "text")
        except Exception as error:
            raise _provider_error(error, self.name) from error
        return read_facts(said, episode, asked, self.name)


def _provider_error(error: Exception, provider: str) -> Exception:
    """What an SDK's error is; memplane's own stay as they are."""
    if isinstance(error, MemplaneError):
        return error
    kind = type(error).__name__
    status = getattr(error, "status_code", None)
    headers = getattr(getattr(error, "response", None), "headers", None)
    broken = kind in _CONNECTION_ERRORS or isinstance(error, ConnectionError | TimeoutError)
    return ProviderError(
        f"{provider}: {kind}: {masked(str(error))[:300]}",
        provider=provider,
        retryable=is_retryable(status) if isinstance(status, int) else broken,
        cause=error,
        retry_after=retry_after(headers) if isinstance(headers, Mapping) else 0.0,
    )
