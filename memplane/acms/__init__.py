"""The API of the ACMS plans: a session that ingests turns and recalls what is needed.

    from memplane.acms import ACMS, Role

    async with ACMS("trip", "notes") as session:
        await session.ingest(Role.USER, "Constraint: no flights before noon")
        for item in await session.recall("when may we fly?"):
            print(item.role, item.content)

The errors of the plans are memplane's own, under the names that they have there.
"""

from __future__ import annotations

from memplane.acms.session import (
    ACMS,
    ACMSConfig,
    EpisodeBoundaryConfig,
    ReflectionConfig,
    TiktokenCounter,
)
from memplane.errors import (
    BudgetError,
    ConfigurationError,
    EpisodeNotFoundError,
    InputError,
    MemplaneError,
    PlaneError,
    ProviderError,
    ScopeError,
    SecurityError,
    SessionNotFoundError,
)
from memplane.event import MarkerType
from memplane.providers import (
    AnthropicReflector,
    AsyncEmbedder,
    AsyncReflector,
    HTTPEmbedder,
    HTTPReflector,
    OpenAIEmbedder,
    OpenAIReflector,
    RetryConfig,
    with_retry,
)
from memplane.tokens import CountsTokens, HeuristicTokenCounter
from memplane.work.episodes import (
    ContextAssembly,
    ContextItem,
    Episode,
    EpisodeStatus,
    Fact,
    RecallOmission,
    Role,
    SessionStats,
    Turn,
)

ACMSError = TulvingError = MemplaneError
ConfigError = ConfigurationError
ValidationError = InputError
StorageError = PlaneError
TokenBudgetExceededError = BudgetError
TokenCounter = CountsTokens
Embedder = AsyncEmbedder
Reflector = AsyncReflector

__all__ = [
    "ACMS",
    "ACMSConfig",
    "ACMSError",
    "AnthropicReflector",
    "AsyncEmbedder",
    "AsyncReflector",
    "ConfigError",
    "ConfigurationError",
    "ContextAssembly",
    "ContextItem",
    "CountsTokens",
    "Embedder",
    "Episode",
    "EpisodeBoundaryConfig",
    "EpisodeNotFoundError",
    "EpisodeStatus",
    "Fact",
    "HTTPEmbedder",
    "HTTPReflector",
    "HeuristicTokenCounter",
    "MarkerType",
    "OpenAIEmbedder",
    "OpenAIReflector",
    "ProviderError",
    "RecallOmission",
    "ReflectionConfig",
    "Reflector",
    "RetryConfig",
    "Role",
    "ScopeError",
    "SecurityError",
    "SessionNotFoundError",
    "SessionStats",
    "StorageError",
    "TiktokenCounter",
    "TokenBudgetExceededError",
    "TokenCounter",
    "TulvingError",
    "Turn",
    "ValidationError",
    "with_retry",
]
