"""What the fleet shows of itself; it observes the main path and is never asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from schemas.statuses import Billed, DeadLetter, Reason
from worker.core.offsets import Partition
from worker.core.outcome import Kind, Outcome
from worker.core.rows import cost
from worker.genai import ClientHistograms
from worker.upstreams import Upstream, Upstreams

_MESSAGE_OUTCOMES = ("succeeded", "failed", "cancelled", "duplicate", "superseded", "dead_letter", "tombstone")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200)
_STORE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Counters and gauges of one worker, in a registry of their own; labels come from closed lists only."""

    def __init__(self, upstreams: Upstreams, longest_read: float) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._client = ClientHistograms(self.registry)
        Info("headrace_build", "The release that runs", registry=self.registry).info({"version": _release()})
        self._make_message_metrics()
        self._make_call_metrics(upstreams, longest_read)
        self._make_log_metrics()
        self._watch(upstreams)

    def message(self, outcome: str, job: str) -> None:
        """Count an ended message."""
        self._messages_of(outcome).inc()
        if outcome == "duplicate":
            self._deduplicated.inc()

    def call(self, alias: str, endpoint: str, outcome: Outcome, seconds: float) -> None:
        """Count an ended call, its time, tokens and cost."""
        self._calls_of(alias, endpoint, outcome.kind).inc()
        self._seconds_of(alias, endpoint).observe(seconds)
        self._client.call(alias, endpoint, outcome, seconds)
        if outcome.billed is Billed.MAYBE:
            self._maybe.inc()
        answer = outcome.answer
        if answer is None:
            return
        self._tokens_of(alias, "prompt").inc(answer.prompt_tokens or 0)
        self._tokens_of(alias, "completion").inc(answer.completion_tokens or 0)
        self._cost_of(alias).inc(float(cost(answer, self._prices.get((alias, endpoint))) or 0))

    def lost_call(self) -> None:
        """Count a call that another owner may have made before it died."""
        self._maybe.inc()

    def paused(self, endpoint: str, seconds: float) -> None:
        """Count the time for which a server has asked to be left alone."""
        self._rate_limited.labels(endpoint).inc(seconds)

    def retry(self, reason: str) -> None:
        """Count a row that will be asked again."""
        self._retries.labels(reason).inc()

    def dead_letter(self, reason: str) -> None:
        """Count a message in the dead-letter topic."""
        self._dead.labels(reason).inc()

    def wrote(self, rows: int, seconds: float) -> None:
        """Count a durable batch."""
        self._store_rows.inc(rows)
        self._store_seconds.observe(seconds)

    def rebalanced(self, what: str, partitions: Iterable[Partition]) -> None:
        """Count a rebalance; partitions that have left lose their lag."""
        self._rebalances.inc()
        if what == "assigned":
            return
        for topic, partition in partitions:
            self._forget_lag(topic, partition)

    def skipped(self, partition: Partition, expected: int, found: int) -> None:
        """Count messages that had expired before anybody read them."""
        self._expired.inc(max(found - expected, 0))

    def commit_failed(self, code: str) -> None:
        """Count a commit that was refused."""
        self._commit_failures.inc()

    def lag(self, partition: Partition, messages: int) -> None:
        """Set how many messages of an owned partition are not committed yet."""
        self._lag.labels(partition[0], str(partition[1])).set(max(messages, 0))

    def observe(
        self,
        *,
        last_poll_age: Callable[[], float],
        oldest: Callable[[], float],
        held: Callable[[], int],
        parked: Callable[[], int],
        unpaid: Callable[[], int],
    ) -> None:
        """Name who knows what is only worth asking at a scrape."""
        self._last_poll.set_function(last_poll_age)
        self._oldest.set_function(oldest)
        self._open.set_function(held)
        self._parked.set_function(parked)
        self._unpaid.set_function(unpaid)

    def _make_message_metrics(self) -> None:
        registry = self.registry
        self._messages = Counter("headrace_messages", "Messages by how they ended", ["outcome"], registry=registry)
        self._deduplicated = Counter("headrace_deduplicated", "Messages that needed no call", registry=registry)
        self._dead = Counter("headrace_dead_letters", "Unreadable messages", ["reason"], registry=registry)
        self._retries = Counter("headrace_retries", "Calls repeated, by reason", ["reason"], registry=registry)
        self._store_rows = Counter("headrace_store_rows", "Rows made durable", registry=registry)
        self._store_seconds = Histogram(
            "headrace_store_write_seconds", "Time of one batch", buckets=_STORE_SECONDS, registry=registry
        )
        self._open = Gauge("headrace_open_prompts", "Prompts in hand", registry=registry)
        self._unpaid = Gauge("headrace_budget_waiting", "Calls that wait for their run's budget", registry=registry)
        self._messages_of = cache(self._messages.labels)
        for outcome in _MESSAGE_OUTCOMES:
            self._messages.labels(outcome)
        for letter in DeadLetter:
            self._dead.labels(letter)
        for reason in Reason:
            self._retries.labels(reason)

    def _make_call_metrics(self, upstreams: Upstreams, longest_read: float) -> None:
        registry, where = self.registry, ["model", "endpoint"]
        self._calls = Counter("headrace_calls", "Calls by outcome", [*where, "outcome"], registry=registry)
        self._call_seconds = Histogram(
            "headrace_call_seconds", "Time of one call", where, buckets=_reaching(longest_read), registry=registry
        )
        self._tokens = Counter("headrace_tokens", "Tokens as reported", ["model", "kind"], registry=registry)
        self._cost = Counter("headrace_cost_usd", "Cost of answers in USD", ["model"], registry=registry)
        self._maybe = Counter("headrace_maybe_billed", "Calls that may have been billed", registry=registry)
        self._rate_limited = Counter(
            "headrace_rate_limited_seconds", "Seconds that servers asked to wait", ["endpoint"], registry=registry
        )
        # A look-up by labels takes a lock and checks the names each time; the sets are closed and small.
        self._calls_of, self._seconds_of = cache(self._calls.labels), cache(self._call_seconds.labels)
        self._tokens_of, self._cost_of = cache(self._tokens.labels), cache(self._cost.labels)

    def _start_at_zero(self, upstream: Upstream) -> None:
        for kind in Kind:
            self._calls.labels(upstream.alias, upstream.name, kind)
        self._call_seconds.labels(upstream.alias, upstream.name)
        self._tokens.labels(upstream.alias, "prompt")
        self._tokens.labels(upstream.alias, "completion")
        self._cost.labels(upstream.alias)
        self._rate_limited.labels(upstream.name)
        self._client.start_at_zero(upstream)

    def _make_log_metrics(self) -> None:
        registry, where = self.registry, ["topic", "partition"]
        self._lag = Gauge("headrace_consumer_lag", "End less committed, owned partitions", where, registry=registry)
        self._oldest = Gauge(
            "headrace_oldest_uncommitted_seconds", "Age of the oldest open message", registry=registry
        )
        self._last_poll = Gauge("headrace_last_poll_age_seconds", "Time since the last poll", registry=registry)
        self._parked = Gauge("headrace_parked_partitions", "Owned, but of paused jobs", registry=registry)
        self._rebalances = Counter("headrace_rebalances", "Changes of owned partitions", registry=registry)
        self._expired = Counter(
            "headrace_expired_unread", "Messages expired before they were read", registry=registry
        )
        self._commit_failures = Counter("headrace_commit_failures", "Commits refused", registry=registry)

    def _watch(self, upstreams: Upstreams) -> None:
        in_flight = Gauge("headrace_in_flight", "Calls open now", registry=self.registry)
        in_flight.set_function(lambda: upstreams.inside)
        self._limit = Gauge(
            "headrace_concurrency_limit", "Calls allowed at once", ["endpoint"], registry=self.registry
        )
        self._circuit = Gauge(
            "headrace_circuit_open", "1 while an endpoint is not called", ["endpoint"], registry=self.registry
        )
        self.follow(upstreams)

    def follow(self, upstreams: Upstreams) -> None:
        """Show the endpoints as they are now; what is no longer served has no limit and no circuit."""
        self._prices = {(u.alias, u.name): u.price for u in upstreams.all}
        self._limit.clear()
        self._circuit.clear()
        servers: dict[str, list[Upstream]] = {}
        for upstream in upstreams.all:
            self._start_at_zero(upstream)
            servers.setdefault(upstream.name, []).append(upstream)
        for name, group in servers.items():
            # One server may stand behind several aliases, each with a circuit of its own.
            self._limit.labels(name).set_function(lambda group=group: sum(u.limit for u in group))  # type: ignore[misc]
            self._circuit.labels(name).set_function(lambda group=group: float(any(map(_is_open, group))))  # type: ignore[misc]

    def _forget_lag(self, topic: str, partition: int) -> None:
        try:
            self._lag.remove(topic, str(partition))
        except KeyError:
            return


def _is_open(upstream: Upstream) -> bool:
    return upstream.circuit.opened_for is not None


def _release() -> str:
    try:
        return version("headrace")
    except PackageNotFoundError:
        # Run from a folder that is not installed.
        return "unknown"


def _reaching(seconds: float) -> tuple[float, ...]:
    """Buckets up to the first that is no shorter than the longest read time-out, at least to 600 s."""
    enough = next((bucket for bucket in _SECONDS if bucket >= max(seconds, 600)), None)
    return tuple(b for b in _SECONDS if enough is None or b <= enough) + (() if enough else (seconds,))
