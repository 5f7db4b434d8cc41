"""The two metrics that OpenTelemetry's conventions name: their buckets, their labels, and 0 from the start."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schemas.statuses import Billed, Reason
from tests.fakes.endpoint import FakeEndpoint, answer
from tests.fakes.fleet import upstream, upstreams
from worker.core.outcome import Answer, Kind, Outcome
from worker.metrics import Metrics

SERVED = FakeEndpoint(lambda _request: answer())
GOOD = Outcome(Kind.ANSWERED, None, Billed.YES, 200, Answer("yes", prompt_tokens=300, completion_tokens=50))
DURATION, TOKENS = "gen_ai_client_operation_duration_seconds", "gen_ai_client_token_usage"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(upstreams(upstream(SERVED), upstream(SERVED, "large", name="api.example")), 120.0)


def found(metrics: Metrics, name: str, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The values of a series whose labels hold these."""
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return sum(found(metrics, name, **labels).values())


def test_both_exist_before_the_first_call(metrics: Metrics) -> None:
    errors = {dict(labels)["error_type"] for labels in found(metrics, f"{DURATION}_count", server_address="vllm-a")}
    kinds = {dict(labels)["gen_ai_token_type"] for labels in found(metrics, f"{TOKENS}_count")}
    assert errors == {"", "timeout", "connection", "_OTHER"}
    assert kinds == {"input", "output"}
    assert value(metrics, f"{DURATION}_count") == value(metrics, f"{TOKENS}_count") == 0


def test_the_buckets_are_those_of_the_conventions_and_three_longer_ones(metrics: Metrics) -> None:
    def bounds(name: str) -> list[float]:
        return sorted({float(dict(labels)["le"]) for labels in found(metrics, f"{name}_bucket")})

    assert bounds(DURATION)[:3] == [0.01, 0.02, 0.04]
    assert bounds(DURATION)[-5:] == [81.92, 163.84, 327.68, 655.36, float("inf")]
    assert bounds(TOKENS)[:3] == [1, 4, 16]
    assert bounds(TOKENS)[-2:] == [67108864, float("inf")]


def test_a_call_is_named_as_its_server_knows_it(metrics: Metrics) -> None:
    metrics.call("small", "vllm-a:8000", GOOD, 2.0)
    where = {
        "gen_ai_operation_name": "chat",
        "gen_ai_provider_name": "openai",
        "gen_ai_request_model": "small-7b",
        "server_address": "vllm-a",
        "server_port": "8000",
    }
    assert value(metrics, f"{DURATION}_sum", error_type="", **where) == 2.0
    assert value(metrics, f"{TOKENS}_sum", gen_ai_token_type="input", **where) == 300
    assert value(metrics, f"{TOKENS}_sum", gen_ai_token_type="output", **where) == 50


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (Kind.TIMEOUT, "timeout"),
        (Kind.CONNECTION, "connection"),
        (Kind.RUN_FAULT, "_OTHER"),
        (Kind.RATE_LIMITED, "_OTHER"),
        (Kind.UNFIT, ""),
    ],
)
def test_an_error_is_one_of_few(metrics: Metrics, kind: Kind, error: str) -> None:
    metrics.call("large", "api.example", Outcome(kind, Reason.TIMEOUT), 3.0)
    assert value(metrics, f"{DURATION}_count", error_type=error, server_address="api.example", server_port="") == 1


def test_tokens_that_nobody_tells_are_not_counted(metrics: Metrics) -> None:
    metrics.call("small", "vllm-a:8000", Outcome(Kind.ANSWERED, None, Billed.YES, 200, Answer("yes")), 1.0)
    assert value(metrics, f"{TOKENS}_count") == 0


def test_a_call_at_an_endpoint_that_has_left_is_not_counted_here(metrics: Metrics) -> None:
    """It was in the models file when the call began."""
    metrics.call("small", "gone:8000", GOOD, 2.0)
    assert value(metrics, f"{DURATION}_count") == 0
