"""Metrics: the promised names, known label sets at 0 from the start, and a constant number of series."""

from __future__ import annotations

import subprocess
from importlib.metadata import version

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schemas.models import Price
from schemas.statuses import Billed, DeadLetter, Reason
from tests.fakes.endpoint import FakeEndpoint, answer
from tests.fakes.fleet import upstream, upstreams
from tests.prometheus import program
from worker.core.outcome import Answer, Kind, Outcome
from worker.metrics import Metrics

PRICE = Price.model_validate({"input_per_million": "0.1", "output_per_million": "0.4"})
SERVED = FakeEndpoint(lambda _request: answer())
GOOD = Outcome(Kind.ANSWERED, None, Billed.YES, 200, Answer("yes", prompt_tokens=1000, completion_tokens=500))
UNKNOWN = Outcome(Kind.ANSWERED, None, Billed.YES, 200, Answer("yes"))
PROMISED = """
    messages_total calls_total call_seconds_bucket tokens_total cost_usd_total in_flight concurrency_limit
    rate_limited_seconds_total circuit_open retries_total maybe_billed_total deduplicated_total dead_letters_total
    oldest_uncommitted_seconds last_poll_age_seconds store_write_seconds_bucket store_rows_total
    rebalances_total""".split()


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics(upstreams(upstream(SERVED, price=PRICE), upstream(SERVED, "large", name="b")), 120.0)
    metrics.observe(last_poll_age=lambda: 0.5, oldest=lambda: 7.0, held=lambda: 3, parked=lambda: 2, unpaid=lambda: 4)
    return metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[f"headrace_{name}", tuple(sorted(labels.items()))]


@pytest.mark.parametrize("name", PROMISED)
def test_each_promised_metric_exists_before_anything_happens(metrics: Metrics, name: str) -> None:
    assert any(found == f"headrace_{name}" for found, _ in samples(metrics))


def test_what_waits_for_money_is_shown(metrics: Metrics) -> None:
    assert value(metrics, "budget_waiting") == 4


def test_known_label_sets_begin_at_nothing(metrics: Metrics) -> None:
    for reason in Reason:
        assert value(metrics, "retries_total", reason=reason) == 0
    for letter in DeadLetter:
        assert value(metrics, "dead_letters_total", reason=letter) == 0
    for kind in Kind:
        assert value(metrics, "calls_total", model="small", endpoint="vllm-a:8000", outcome=kind) == 0
    for outcome in ("succeeded", "failed", "cancelled", "duplicate", "superseded", "dead_letter", "tombstone"):
        assert value(metrics, "messages_total", outcome=outcome) == 0


def test_the_buckets_of_a_call_reach_the_longest_read_time_out() -> None:
    for read in (5.0, 120.0, 900.0, 5000.0):
        found = samples(Metrics(upstreams(upstream(SERVED)), read))
        bounds = {dict(labels).get("le") for name, labels in found if name == "headrace_call_seconds_bucket"}
        assert max(float(bound) for bound in bounds if bound and bound != "+Inf") >= read


def test_a_call_counts_with_its_time_tokens_and_cost(metrics: Metrics) -> None:
    metrics.call("small", "vllm-a:8000", GOOD, 2.0)
    assert value(metrics, "calls_total", model="small", endpoint="vllm-a:8000", outcome="answered") == 1
    assert value(metrics, "call_seconds_sum", model="small", endpoint="vllm-a:8000") == 2.0
    assert value(metrics, "tokens_total", model="small", kind="prompt") == 1000
    assert value(metrics, "tokens_total", model="small", kind="completion") == 500
    assert value(metrics, "cost_usd_total", model="small") == pytest.approx(0.0003)


def test_unknown_tokens_count_as_nothing(metrics: Metrics) -> None:
    metrics.call("small", "vllm-a:8000", UNKNOWN, 2.0)
    assert value(metrics, "tokens_total", model="small", kind="prompt") == 0
    assert value(metrics, "cost_usd_total", model="small") == 0


def test_what_may_have_been_billed_counts(metrics: Metrics) -> None:
    metrics.call("small", "vllm-a:8000", Outcome(Kind.TIMEOUT, Reason.TIMEOUT, Billed.MAYBE), 120.0)
    metrics.lost_call()
    assert value(metrics, "maybe_billed_total") == 2


def test_duplicates_count_twice_over(metrics: Metrics) -> None:
    metrics.message("duplicate", "reviews")
    assert value(metrics, "messages_total", outcome="duplicate") == 1
    assert value(metrics, "deduplicated_total") == 1


def test_lag_is_never_negative_and_leaves_with_its_partition(metrics: Metrics) -> None:
    metrics.lag(("t", 0), 5)
    metrics.lag(("t", 1), -3)
    assert value(metrics, "consumer_lag", topic="t", partition="0") == 5
    assert value(metrics, "consumer_lag", topic="t", partition="1") == 0
    metrics.rebalanced("revoked", [("t", 0), ("t", 9)])
    assert ("headrace_consumer_lag", (("partition", "0"), ("topic", "t"))) not in samples(metrics)
    assert value(metrics, "rebalances_total") == 1


def test_messages_that_expired_are_counted(metrics: Metrics) -> None:
    metrics.skipped(("t", 0), 100, 500)
    metrics.skipped(("t", 0), 500, 100)
    assert value(metrics, "expired_unread_total") == 400


def test_the_number_of_series_does_not_depend_on_what_happens(metrics: Metrics) -> None:
    for nth in range(200):
        metrics.message("succeeded", f"job-{nth}")
        metrics.retry(list(Reason)[nth % len(Reason)])
    before = len(samples(metrics))
    for nth in range(2000):
        metrics.message("failed", f"job-{nth}")
        metrics.call("small", "vllm-a:8000", Outcome(Kind.REJECTED, code=f"code-{nth}", detail=f"text {nth}"), 1.0)
        metrics.dead_letter(DeadLetter.NOT_JSON)
        metrics.wrote(5, 0.01)
    assert len(samples(metrics)) == before


def test_gauges_show_the_present(metrics: Metrics) -> None:
    assert value(metrics, "last_poll_age_seconds") == 0.5
    assert value(metrics, "oldest_uncommitted_seconds") == 7.0
    assert value(metrics, "in_flight") == 0
    assert value(metrics, "concurrency_limit", endpoint="b") == 32
    assert value(metrics, "circuit_open", endpoint="b") == 0


def test_the_release_is_told(metrics: Metrics) -> None:
    assert value(metrics, "build_info", version=version("headrace")) == 1


def test_an_endpoint_that_is_no_longer_served_leaves_its_gauges_and_keeps_its_counts() -> None:
    served = upstreams(upstream(SERVED), upstream(SERVED, "large", name="b"))
    metrics = Metrics(served, 120.0)
    served.become([upstream(SERVED)], "small")
    metrics.follow(served)
    endpoints = {dict(labels).get("endpoint") for name, labels in samples(metrics) if name == "headrace_circuit_open"}
    assert endpoints == {"vllm-a:8000"}
    assert value(metrics, "rate_limited_seconds_total", endpoint="b") == 0


def test_a_server_behind_two_aliases_shows_both() -> None:
    small, large = upstream(SERVED), upstream(SERVED, "large")
    metrics = Metrics(upstreams(small, large), 120.0)
    assert value(metrics, "concurrency_limit", endpoint="vllm-a:8000") == 64
    small.circuit.opened_for = Outcome(Kind.RUN_FAULT, Reason.AUTH)
    assert value(metrics, "circuit_open", endpoint="vllm-a:8000") == 1


def test_promtool_finds_nothing_to_object_to(metrics: Metrics) -> None:
    text = generate_latest(metrics.registry)
    ran = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
