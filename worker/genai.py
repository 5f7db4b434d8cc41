"""The two client metrics of OpenTelemetry's conventions for generative AI, under the names Prometheus gives them.

The conventions are in development, and the packages that hold their names mark them as deprecated: so they are
literals here. What dashboards of ours ask for are the series in `worker.metrics`.
"""

from __future__ import annotations

from functools import cache

from prometheus_client import CollectorRegistry, Histogram

from worker.core.outcome import Kind, Outcome
from worker.upstreams import Upstream

# The conventions' buckets, and three more: a batch has longer calls than a chat.
_SECONDS = tuple(round(0.01 * 2**n, 2) for n in range(17))
_TOKENS = tuple(4**n for n in range(14))
_MODEL = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "server_address", "server_port"]
# The interface that is spoken, whoever answers.
_CHAT = ("chat", "openai")
# An attribute with nothing in it is one that is not there: no error.
_ERRORS = {Kind.ANSWERED: "", Kind.UNFIT: "", **{k: k.value for k in (Kind.TIMEOUT, Kind.CONNECTION)}}
_OTHER_ERROR = "_OTHER"

# The model's name at the server, the server's address and port.
_Where = tuple[str, str, str]


class ClientHistograms:
    """Durations and tokens of calls, by the server's own name of the model."""

    def __init__(self, registry: CollectorRegistry) -> None:
        duration = Histogram(
            "gen_ai_client_operation_duration_seconds",
            "Duration of one call",
            [*_MODEL, "error_type"],
            buckets=_SECONDS,
            registry=registry,
        )
        tokens = Histogram(
            "gen_ai_client_token_usage",
            "Tokens of one call",
            [*_MODEL, "gen_ai_token_type"],
            buckets=_TOKENS,
            registry=registry,
        )
        self._duration = cache(lambda where, error: duration.labels(*_CHAT, *where, error))
        self._tokens = cache(lambda where, kind: tokens.labels(*_CHAT, *where, kind))
        self._where: dict[tuple[str, str], _Where] = {}

    def start_at_zero(self, upstream: Upstream) -> None:
        """Make every series of an endpoint before its first call."""
        address, _, port = upstream.name.rpartition(":")
        where = (
            (upstream.model, address, port) if address and port.isdecimal() else (upstream.model, upstream.name, "")
        )
        self._where[upstream.alias, upstream.name] = where
        for error in {*_ERRORS.values(), _OTHER_ERROR}:
            self._duration(where, error)
        for kind in ("input", "output"):
            self._tokens(where, kind)

    def call(self, alias: str, endpoint: str, outcome: Outcome, seconds: float) -> None:
        """Count an ended call; tokens that the server does not tell are not counted."""
        where = self._where.get((alias, endpoint))
        if where is None:
            return
        self._duration(where, _ERRORS.get(outcome.kind, _OTHER_ERROR)).observe(seconds)
        answer = outcome.answer
        if answer is None:
            return
        if answer.prompt_tokens is not None:
            self._tokens(where, "input").observe(answer.prompt_tokens)
        if answer.completion_tokens is not None:
            self._tokens(where, "output").observe(answer.completion_tokens)
