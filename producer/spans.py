"""Traces: one begins with each message that is published, if an address for them is set.

OpenTelemetry's own variables say how many are kept (`OTEL_TRACES_SAMPLER=traceidratio`,
`OTEL_TRACES_SAMPLER_ARG=0.01`); a message whose trace is not kept gets no header and costs the worker nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from producer.errors import WrongJobError
from producer.sink import Headers
from schemas.settings import TracingSettings
from schemas.tracing import LONGEST_ID, TRACEPARENT, traceparent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer


@contextmanager
def tracing(settings: TracingSettings, topic: str) -> Iterator[Headers | None]:
    """Give what makes the span and the header of each message of one task, or None without an address.

    Spans go out in batches on a thread of its own, the last when the task ends; a receiver that is away costs spans,
    never messages. Raises `WrongJobError` when the library is not there.
    """
    if settings.endpoint is None:
        yield None
        return
    provider = _provider(settings.address)
    try:
        yield _headers(provider.get_tracer("headrace"), topic)
    finally:
        provider.shutdown()


def _provider(address: str) -> TracerProvider:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise WrongJobError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the executors have no library for it: install headrace[otel]"
        ) from None
    provider = TracerProvider(resource=Resource.create({"service.name": "headrace-producer"}), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=address, timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _headers(tracer: Tracer, topic: str) -> Headers:
    from opentelemetry.trace import SpanKind

    about = {
        "messaging.system": "kafka",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
    }

    def of(key: bytes) -> list[tuple[str, str | bytes | None]] | None:
        span = tracer.start_span(f"publish {topic}", kind=SpanKind.PRODUCER)
        found = span.get_span_context()
        if not found.trace_flags.sampled:
            return None
        span.set_attributes({**about, "headrace.id": key.decode("utf8", "replace")[:LONGEST_ID]})
        span.end()
        return [(TRACEPARENT, traceparent(found.trace_id, found.span_id).encode())]

    return of
