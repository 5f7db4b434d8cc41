"""Traces: for a message that carries a sampled `traceparent`, spans of its prompt, its calls and its write.

They are made when the end is durable, from what the ledger lines say anyway: nothing on the way of a message waits
for them, and a message without the header costs one look. They hold ids, counts, codes and times, never a prompt or
an answer. Names follow OpenTelemetry's conventions for messaging, for generative AI and for databases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from schemas.settings import SettingsError, TracingSettings
from schemas.tracing import LONGEST_ID, TRACEPARENT, is_sampled
from worker.core.outcome import Kind
from worker.core.rows import AttemptRow, FinishedRow
from worker.ports import Recorder, Work

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

# Calls of prompts that have left our hands without an end here: others will tell of them.
_MOST_UNENDED = 10_000


@dataclass(frozen=True, slots=True, repr=False)
class Story:
    """One prompt from its claim to its durable row."""

    parent: str
    topic: str
    row: FinishedRow
    run: str | None
    calls: tuple[AttemptRow, ...]
    claimed_at: datetime
    ended_at: datetime
    durable_at: datetime


class Spans(Protocol):
    """Who turns stories into spans."""

    def tell(self, story: Story) -> None:
        """Export the spans of one prompt; never waits and never raises for what the receiver does."""

    def close(self) -> None:
        """Send what is left, for some seconds at most."""


class Traces:
    """A recorder that listens: it hands everything on, and tells of prompts whose messages are traced."""

    def __init__(self, to: Recorder, find: Callable[[tuple[str, str]], Work | None], spans: Spans) -> None:
        self._to = to
        self._find = find
        self._spans = spans
        self._calls: dict[tuple[str, str], list[AttemptRow]] = {}

    def note(self, attempt: AttemptRow) -> asyncio.Future[bool]:
        """Keep a call in mind and hand it on."""
        self._remember(attempt)
        return self._to.note(attempt)

    def write(self, row: FinishedRow, attempt: AttemptRow | None) -> asyncio.Future[bool]:
        """Hand an end on, and tell its story once it is durable."""
        if attempt is not None:
            self._remember(attempt)
        durable = self._to.write(row, attempt)
        calls = tuple(self._calls.pop((row.job, row.id), ()))
        work = self._find((row.job, row.id))
        if work is not None and (parent := traceparent(work)):
            ended = datetime.now(UTC)
            durable.add_done_callback(lambda done: self._tell(done, work, parent, row, calls, ended))
        return durable

    def _remember(self, attempt: AttemptRow) -> None:
        key = attempt.job, attempt.id
        work = self._find(key)
        if work is None or not traceparent(work):
            return
        if len(self._calls) >= _MOST_UNENDED:
            self._calls.pop(next(iter(self._calls)))
        self._calls.setdefault(key, []).append(attempt)

    def _tell(
        self,
        done: asyncio.Future[bool],
        work: Work,
        parent: str,
        row: FinishedRow,
        calls: tuple[AttemptRow, ...],
        ended: datetime,
    ) -> None:
        if done.cancelled() or done.exception() is not None or not done.result():
            return
        now = datetime.now(UTC)
        starts = [call.started_at for call in calls]
        if work.claim is not None and work.claim.claimed_at is not None:
            starts.append(work.claim.claimed_at)
        began = min([*starts, ended])
        self._spans.tell(Story(parent, work.record.topic, row, work.prompt.run, calls, began, ended, now))


def traceparent(work: Work) -> str | None:
    """Give the sampled trace that a message belongs to, or None."""
    for name, value in work.record.headers:
        if name == TRACEPARENT and value is not None:
            text = value.decode("ascii", "replace")
            return text if is_sampled(text) else None
    return None


def exporting(settings: TracingSettings, worker: str) -> Spans | None:
    """Make spans that go to the address of the settings, or None without one; raises `SettingsError`."""
    if settings.endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise SettingsError(
            "settings", ["OTEL_EXPORTER_OTLP_ENDPOINT is set, but the library is not there: install headrace[otel]"]
        ) from None
    provider = TracerProvider(
        resource=Resource.create({"service.name": "headrace-worker", "service.instance.id": worker}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.address, timeout=5)))
    return OpenTelemetrySpans(provider)


class OpenTelemetrySpans:
    """Spans of OpenTelemetry's SDK, sent in batches by a thread of its own from a bounded queue."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("headrace")

    def tell(self, story: Story) -> None:
        """Make the span of the prompt under the producer's, and below it those of its calls and its write."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        outer = TraceContextTextMapPropagator().extract({TRACEPARENT: story.parent})
        kinds = trace.SpanKind
        prompt = self._tracer.start_span(
            f"process {story.topic}", outer, kinds.CONSUMER, _of_prompt(story), start_time=_ns(story.claimed_at)
        )
        inner = trace.set_span_in_context(prompt, outer)
        for call in story.calls:
            span = self._tracer.start_span(
                f"chat {call.model}", inner, kinds.CLIENT, _of_call(call), start_time=_ns(call.started_at)
            )
            if call.outcome != Kind.ANSWERED:
                span.set_status(trace.StatusCode.ERROR)
            span.end(_ns(call.finished_at))
        stored = {"db.system.name": "postgresql", "db.collection.name": "headrace.results"}
        write = self._tracer.start_span("store", inner, kinds.CLIENT, stored, start_time=_ns(story.ended_at))
        write.end(_ns(story.durable_at))
        if story.row.reason is not None:
            prompt.set_status(trace.StatusCode.ERROR, str(story.row.reason))
        prompt.end(_ns(story.durable_at))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def _of_prompt(story: Story) -> dict[str, Any]:
    row = story.row
    return _known(
        [
            ("messaging.system", "kafka"),
            ("messaging.operation.type", "process"),
            ("messaging.destination.name", story.topic),
            ("headrace.job", row.job),
            ("headrace.run", story.run),
            ("headrace.id", row.id[:LONGEST_ID]),
            ("headrace.status", str(row.status)),
            ("headrace.reason", row.reason and str(row.reason)),
            ("headrace.retries", row.retry_count),
        ]
    )


def _of_call(call: AttemptRow) -> dict[str, Any]:
    return _known(
        [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", call.model),
            ("gen_ai.usage.input_tokens", call.prompt_tokens),
            ("gen_ai.usage.output_tokens", call.completion_tokens),
            ("server.address", call.endpoint),
            ("http.response.status_code", call.http_status),
            ("error.type", None if call.outcome == Kind.ANSWERED else str(call.outcome)),
            ("headrace.attempt", call.attempt),
            ("headrace.billed", str(call.billed)),
        ]
    )


def _known(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None}


def _ns(at: datetime) -> int:
    return int(at.timestamp() * 1e9)
