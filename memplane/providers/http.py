"""Embedders and reflectors over HTTP, as OpenAI's API has them and many servers offer it.

Endpoints: `POST {base_url}/embeddings` and `POST {base_url}/chat/completions` (OpenAI API
reference, Embeddings and Chat). Needs the extra `http`. One client with its pooled connections
serves all calls of an instance on an event loop. Answers are not trusted: they are read up to a
limit, and checked.

Try a call of a provider again, after waits that double (exponential backoff with jitter).

Embedders and reflectors over a client of OpenAI's or Anthropic's SDK that the user has made.

Keys, addresses, time-outs and retries are the client's. The SDKs are not imported here: their
errors are told by what they say of themselves (an HTTP status, a broken connection).
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from memplane.errors import (
    ConfigurationError,
    MemplaneError,
    MissingExtraError,
    ProviderError,
    SecurityError,
)
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import late
from memplane.observe import note
from memplane.providers.bridge import whole_vectors
from memplane.providers.prompt import build_prompt, read_facts
from memplane.work.episodes import Episode, Fact, Turn

if TYPE_CHECKING:
    import httpx
else:
    httpx = late("httpx")


Answer = TypeVar("Answer")

_ATTEMPTS_MAX: Final = 100
_WAIT_SECONDS_MAX: Final = 86_400.0


def _is_number(value: object, least: float, most: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and least <= value <= most  # type: ignore[arg-type, operator]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConfig:
    """How often a call is tried, and how long is waited between.

    The n-th wait is `base_delay * exponential_base ** (n - 1)` seconds, at most `max_delay`; with
    `jitter` a part of it from one half to all, so that many clients do not come back at once.
    Errors of `retryable_exceptions` are tried again, and each ProviderError that says that it is
    retryable. Raises ConfigurationError that names every mistake, a line each.
    """

    max_attempts: int = 3
    base_delay: float = 0.5
    max_delay: float = 30.0
    exponential_base: float = 2.0
    jitter: bool = True
    retryable_exceptions: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)

    def __post_init__(self) -> None:
        faults = []
        if not _is_number(self.max_attempts, 1, _ATTEMPTS_MAX) or self.max_attempts % 1:
            faults.append(f"max_attempts: expected a whole number from 1 to {_ATTEMPTS_MAX}")
        for name, least in (("base_delay", 0.0), ("max_delay", 0.0), ("exponential_base", 1.0)):
            if not _is_number(getattr(self, name), least, _WAIT_SECONDS_MAX):
                faults.append(f"{name}: expected a number from {least:g} to {_WAIT_SECONDS_MAX:g}")
        if not all(isinstance(one, type) for one in self.retryable_exceptions):
            faults.append("retryable_exceptions: expected classes of exceptions")
        if faults:
            raise ConfigurationError("\n".join(faults))

    def again(self, error: Exception) -> bool:
        """Whether the call that raised this may be tried again."""
        if isinstance(error, ProviderError):
            return error.retryable
        return isinstance(error, self.retryable_exceptions)

    def seconds(self, attempt: int, error: Exception, chance: Callable[[], float]) -> float:
        """How long to wait after so many attempts; `chance` gives a number from 0 to 1.

        What the provider asked for is the least, as far as `max_delay` allows.
        """
        try:
            grown = min(self.max_delay, self.base_delay * self.exponential_base ** (attempt - 1))
        except OverflowError:
            grown = self.max_delay
        waited = grown * (0.5 + chance() / 2) if self.jitter else grown
        asked = error.retry_after if isinstance(error, ProviderError) else 0.0
        return min(self.max_delay, max(waited, asked))


DEFAULT: Final = RetryConfig()


async def with_retry(
    fn: Callable[[], Awaitable[Answer]],
    config: RetryConfig = DEFAULT,
    *,
    on_retry: Callable[[int, Exception], None] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> Answer:
    """Await `fn()` until it answers, at most `config.max_attempts` times.

    `on_retry(attempt, error)` is called before each wait. Raises the last error, and at once what
    is not to be tried again; a cancelled call is never repeated.
    """
    for attempt in range(1, config.max_attempts):
        try:
            return await fn()
        except Exception as error:
            if not config.again(error):
                raise
            if on_retry is not None:
                on_retry(attempt, error)
            wait = config.seconds(attempt, error, chance)
        await sleep(wait)
    return await fn()


BATCH: Final = 96  # texts of one request
DIMENSIONS: Final[Mapping[str, int]] = {  # OpenAI's guide to embeddings
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
_RETRYABLE: Final = frozenset({408, 409, 425, 429})
_ANSWER_MAX: Final = 64 << 20  # bytes
_DEFAULT_KEY: Final = "OPENAI_API_KEY"
_ENVIRONMENT: Final = "env:"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECONDS_MAX: Final = 3_600.0


def is_retryable(status: int) -> bool:
    """Whether a request that was answered with this HTTP status may work later."""
    return status in _RETRYABLE or status >= 500


def resolved_key(given: str | None, *, secure: bool) -> str:
    """The key that a parameter `api_key` stands for; "" for none.

    None is what OPENAI_API_KEY holds, if it is set and the connection is `secure`; `env:NAME` what
    NAME holds. Raises SecurityError for a key that is written out, which the message does not
    repeat, and for one that would travel in the clear; ConfigurationError where NAME is not set.
    """
    if given is None:
        return os.environ.get(_DEFAULT_KEY, "") if secure else ""
    name = given.removeprefix(_ENVIRONMENT) if isinstance(given, str) else ""
    if name == given or not _VARIABLE.fullmatch(name):
        raise SecurityError(
            "expected env:NAME, the name of an environment variable that holds the key, found "
            "something else; a key is never written out in a program or a setting",
            where="api_key",
        )
    if not secure:
        raise SecurityError(
            "expected https, or a server on this machine, for a request with a key: it would "
            "travel in the clear",
            where="base_url",
        )
    if not os.environ.get(name):
        raise ConfigurationError(f"api_key: the environment variable {name} is not set")
    return os.environ[name]


class Endpoint:
    """The requests of one provider: pooled connections, time-outs, retries, checked answers."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        timeout: float,
        max_retries: int,
        retry: RetryConfig | None,
    ) -> None:
        """`retry` in place of `max_retries` tries with the usual waits."""
        self.base_url, secure = _checked_url(base_url)
        if not isinstance(timeout, int | float) or not 0 < timeout <= _SECONDS_MAX:
            raise ConfigurationError(
                f"timeout: expected seconds up to {_SECONDS_MAX:g}, found {quoted_value(timeout)}"
            )
        self.timeout = float(timeout)
        self.retry = RetryConfig(max_attempts=max_retries) if retry is None else retry
        self._key = resolved_key(api_key, secure=secure)
        self._clear = not secure and api_key is None and bool(os.environ.get(_DEFAULT_KEY))
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r})"

    @property
    def seconds(self) -> float:
        """The longest that one call takes, with all its tries and waits."""
        tries = self.retry.max_attempts
        return tries * self.timeout + (tries - 1) * self.retry.max_delay

    async def post(self, path: str, body: Mapping[str, Any], provider: str) -> Any:
        """The JSON value of an answer; raises ProviderError, MissingExtraError without httpx."""

        def again(attempt: int, error: Exception) -> None:
            note("retry", {"attempt": attempt, "error": type(error).__name__, "provider": provider})

        once = partial(self._once, path, body, provider)
        return await with_retry(once, self.retry, on_retry=again)

    async def _once(self, path: str, body: Mapping[str, Any], provider: str) -> Any:
        client = self._connected()
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            async with (
                asyncio.timeout(self.timeout),  # of the whole answer: a slow one ends too
                client.stream("POST", f"{self.base_url}{path}", json=body, headers=headers) as got,
            ):
                content = await _content(got, provider)
        except TimeoutError as error:
            raise self._failed(provider, f"no answer in {self.timeout:g} s", error) from error
        except httpx.TransportError as error:
            raise self._failed(provider, type(error).__name__, error) from error
        except httpx.HTTPError as error:
            raise self._failed(provider, type(error).__name__, error, retryable=False) from error
        if got.status_code != 200:
            raise self._refused(got, content, provider)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ProviderError(
                f"{provider} at {self.base_url}: expected JSON, found something else",
                provider=provider,
                cause=error,
            ) from error

    def _failed(
        self, provider: str, why: str, error: Exception, *, retryable: bool = True
    ) -> ProviderError:
        return ProviderError(
            f"{provider} at {self.base_url}: {why}",
            provider=provider,
            retryable=retryable,
            cause=error,
        )

    def _refused(self, got: httpx.Response, content: bytes, provider: str) -> ProviderError:
        said = masked(content[:300].decode("utf-8", "replace"))
        if self._key:
            said = said.replace(self._key, "***")
        hint = ""
        if got.status_code in (401, 403) and self._clear:
            hint = f"; {_DEFAULT_KEY} was not sent, because the address is not https"
        said = f"HTTP {got.status_code}: {' '.join(said.split())}{hint}"
        return ProviderError(
            f"{provider} at {self.base_url}: {said}",
            provider=provider,
            retryable=is_retryable(got.status_code),
            retry_after=retry_after(got.headers),
        )

    def _connected(self) -> httpx.AsyncClient:
        """The client of the running loop: a pool belongs to one."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            try:
                client = httpx.AsyncClient(timeout=self.timeout, follow_redirects=False)
            except ImportError as error:
                raise MissingExtraError("a provider over HTTP", "http") from error
            self._clients[loop] = client
        return client

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


async def _content(got: httpx.Response, provider: str) -> bytes:
    """The bytes of an answer; ProviderError beyond the limit."""
    parts: list[bytes] = []
    read = 0
    async for part in got.aiter_bytes():
        read += len(part)
        if read > _ANSWER_MAX:
            raise ProviderError(
                f"{provider}: expected an answer of at most {_ANSWER_MAX >> 20} MB, found more",
                provider=provider,
            )
        parts.append(part)
    return b"".join(parts)


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds of Retry-After (RFC 9110, 10.2.3); 0 where there is none that can be read.

    A date counts from the answer's own Date, so that no clock of this machine is asked.
    """
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdecimal() and len(said) < 9:
        return float(said)
    until, now = _date(said), _date(headers.get("date", ""))
    if until is None or now is None:
        return 0.0
    return max(0.0, (until - now).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return found if found.tzinfo is not None else None


def _checked_url(given: object) -> tuple[str, bool]:
    """A base URL without its last slash, and whether what is sent there stays unread by others."""
    url = given.rstrip("/") if isinstance(given, str) else ""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigurationError(
            f"base_url: expected http:// or https:// and a host, found {quoted_value(given)}"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SecurityError(
            "expected a URL without user, password, query and fragment; a key is given as "
            "api_key='env:NAME'",
            where="base_url",
        )
    return url, parts.scheme == "https" or _is_here(host)


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_model(model: object) -> str:
    """Return the name of a model; raise ConfigurationError for anything else."""
    if not isinstance(model, str) or not model.strip() or len(model) > 200:
        raise ConfigurationError(f"model: expected a name, found {quoted_value(model)}")
    return model


def check_dimension(dimension: int | None, model: str) -> int:
    """How many numbers a vector has, 0 where it is not known; ConfigurationError below 1."""
    if dimension is None:
        return DIMENSIONS.get(model, 0)
    if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 1:
        raise ConfigurationError(f"dimension: expected 1 or more, found {quoted_value(dimension)}")
    return dimension


class _OverHTTP:
    """What an embedder and a reflector over HTTP have in common."""

    _kind: str
    _endpoint: Endpoint
    model: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint.base_url!r}, {self.model!r})"

    @property
    def seconds(self) -> float:
        """The longest that one call takes, with all its tries and waits."""
        return self._endpoint.seconds

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        await self._endpoint.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class HTTPEmbedder(_OverHTTP):
    """Vectors by an OpenAI-compatible server: `base_url` is what stands before `/embeddings`.

    `api_key`: None for what OPENAI_API_KEY holds, `env:NAME` for another variable. `timeout`:
    seconds of one request. `max_retries`: how often a request is tried in all; `retry` says it in
    full. `dimension`: numbers of a vector, where the model is none of OpenAI's; else it is known
    after the first answer.

    Raises ConfigurationError; SecurityError for a key that is written out.
    """

    def __init__(
        self,
        base_url: str,
        model: str = "text-embedding-3-small",
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        max_retries: int = 3,
        dimension: int | None = None,
        retry: RetryConfig | None = None,
    ) -> None:
        self.model = check_model(model)
        self.dimension = check_dimension(dimension, model)
        self._endpoint = Endpoint(
            base_url, api_key=api_key, timeout=timeout, max_retries=max_retries, retry=retry
        )

    @property
    def name(self) -> str:
        """Which vectors they are: provider, model and dimension."""
        return f"http:{self.model}:{self.dimension}"

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text, in order; 96 texts a request. Raises ProviderError."""
        found: list[list[float]] = []
        for begin in range(0, len(texts), BATCH):
            batch = texts[begin : begin + BATCH]
            body = {"model": self.model, "input": batch, "encoding_format": "float"}
            answer = await self._endpoint.post("/embeddings", body, self.name)
            rows = vectors_by_index(answer.get("data") if isinstance(answer, dict) else None)
            found += whole_vectors(rows, len(batch), self.dimension, self.name)
            self.dimension = len(found[0])
        return found


def vectors_by_index(data: object) -> list[Any] | None:
    """The vectors of an answer by their `index`; None for what is no such list."""
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        return None
    places = [row.get("index", position) for position, row in enumerate(data)]
    if not all(isinstance(place, int) for place in places) or len(set(places)) != len(places):
        return None
    if sorted(places) != list(range(len(places))):
        return None
    return [row.get("embedding") for _, row in sorted(zip(places, data, strict=True), key=_place)]


def _place(pair: tuple[Any, Any]) -> int:
    place: int = pair[0]
    return place


class HTTPReflector(_OverHTTP):
    """Facts by an OpenAI-compatible server: `base_url` is what stands before `/chat/completions`.

    The other arguments as of HTTPEmbedder.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 3,
        retry: RetryConfig | None = None,
    ) -> None:
        self.model = check_model(model)
        self.name = f"http:{model}"
        self._endpoint = Endpoint(
            base_url, api_key=api_key, timeout=timeout, max_retries=max_retries, retry=retry
        )

    async def reflect(self, episode: Episode, turns: Sequence[Turn]) -> list[Fact]:
        """Facts that the turns of an episode say, at most 10. Raises ProviderError."""
        asked = build_prompt(turns)
        body = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": asked.task},
                {"role": "user", "content": asked.turns_json},
            ],
            "temperature": 0,
        }
        answer = await self._endpoint.post("/chat/completions", body, self.name)
        return read_facts(_message(answer), episode, asked, self.name)


def _message(answer: object) -> object:
    """The text of the first choice; None where there is none."""
    try:
        return answer["choices"][0]["message"]["content"]  # type: ignore[index]
    except (LookupError, TypeError):
        return None


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
