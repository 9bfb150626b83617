"""OpenTelemetry: what a plane does as spans and metrics, by the official API (extra `otel`).

Spans are called `memplane.pack` and so on, with the fields as attributes `memplane.tokens`, ...;
those of a model follow the semantic conventions of generative AI (`gen_ai.operation.name`,
`gen_ai.request.model`). Metrics: `memplane.calls` (count) and `memplane.duration` (ms) by call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from memplane.errors import MissingExtraError

_MODEL_CALLS: Final = {"embed": "embeddings", "reflect": "chat"}  # of the conventions


class OtelObserver:
    """An `Observer` over the tracer and meter providers of the program, or those that are given.

    Raises MissingExtraError without the extra.
    """

    def __init__(self, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        try:
            from opentelemetry import metrics, trace  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError("OpenTelemetry", "otel") from error
        self._trace = trace
        self._tracer = trace.get_tracer("memplane", tracer_provider=tracer_provider)
        meter = metrics.get_meter("memplane", meter_provider=meter_provider)
        self._calls = meter.create_counter("memplane.calls", "1", "Calls, by their name")
        self._duration = meter.create_histogram("memplane.duration", "ms", "How long calls take")

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """An event of the span that is under way."""
        self._calls.add(1, {"memplane.call": name})
        self._trace.get_current_span().add_event(f"memplane.{name}", _attributes(fields))

    @contextmanager
    def span(self, name: str, fields: Mapping[str, Any]) -> Iterator[None]:
        """A span below the one that is under way, wherever it was begun."""
        with self._tracer.start_as_current_span(f"memplane.{name}") as span:
            try:
                yield
            finally:
                span.set_attributes(_attributes(fields))
                if name in _MODEL_CALLS:
                    span.set_attribute("gen_ai.operation.name", _MODEL_CALLS[name])
                    span.set_attribute("gen_ai.request.model", str(fields.get("provider", "")))
                labels = {"memplane.call": name}
                if "error" in fields:
                    labels["error.type"] = str(fields["error"])
                    span.set_attribute("error.type", labels["error.type"])
                    span.set_status(self._trace.StatusCode.ERROR)
                self._calls.add(1, labels)
                self._duration.record(float(fields.get("duration_ms", 0)), labels)


def _attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {f"memplane.{name}": value for name, value in fields.items()}
