"""Eight workers before an endpoint that changes under them: followed down and back, away and back."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.fleet import Fleet, fleet, prompts, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, read_ledger, simulated

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]
LATENCY_SECONDS = 0.2
WORKERS = 8


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


@pytest.fixture
def endpoint(ledger: Path) -> Iterator[Simulated]:
    with simulated(latency_ms=1000 * LATENCY_SECONDS, ledger=ledger) as running:
        yield running


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, tmp_path: Path) -> Iterator[Fleet]:
    database = postgres.new_database()
    with fleet(kafka.bootstrap_servers, database, tmp_path, endpoint.base_url) as made:
        yield made


def answers(ledger: Path) -> list[float]:
    """When each answered call ended."""
    return sorted(call["t_end"] for call in read_ledger(ledger) if call["status"] == 200)


def rate(times: list[float], begin: float, end: float) -> float:
    return sum(1 for at in times if begin <= at < end) / (end - begin)


def test_a_server_that_falls_from_64_calls_at_once_to_4_and_comes_back_is_followed(
    world: Fleet, endpoint: Simulated, ledger: Path
) -> None:
    world.publish(prompts(30_000))
    world.start(WORKERS)
    wait_for(lambda: endpoint.stats()["in_flight"] >= 16, 60)
    marks = []
    for most in (64, 4, 64):
        endpoint.set_script({"limits": [{"max_concurrent": most, "retry_after": "none"}]})
        marks.append(time.time())
        time.sleep(30)
    marks.append(time.time())
    times = answers(ledger)
    shares = [
        rate(times, begin + 10, end) / (most / LATENCY_SECONDS)
        for most, begin, end in zip((64, 4, 64), marks[:-1], marks[1:], strict=True)
    ]
    refused = sum(1 for call in read_ledger(ledger) if call["status"] == 429)
    print(f"shares {shares}, refused {refused} of {len(times)}")
    assert min(shares) >= 0.9, shares
    assert refused < 0.1 * len(times)
    assert not world.rows("results", "status = 'failed'")


def test_an_outage_of_two_minutes_fails_no_row_and_the_server_that_comes_back_is_not_trampled(
    world: Fleet, endpoint: Simulated, ledger: Path, tmp_path: Path
) -> None:
    limit = 6000
    models = tmp_path / "models.yaml"
    spec = {"base_url": endpoint.base_url, "model": "simulated", "rpm": limit}
    models.write_text(yaml.safe_dump({"models": {"simulated": {"endpoints": [spec]}}}))
    world.settings = {"MODELS_FILE": str(models), "LLM_BASE_URL": ""}
    world.publish(prompts(18_000))
    world.start(WORKERS)
    wait_for(lambda: endpoint.stats()["answers"] >= 1000, 60)
    endpoint.kill()
    time.sleep(120)
    waiting = 18_000 - world.ended()
    assert waiting >= 5_000
    back = time.time()
    endpoint.start()
    endpoint.set_script({"limits": [{"requests_per_minute": limit}]})
    time.sleep(120)
    calls = [call for call in map(json.loads, ledger.read_text().splitlines()) if call["t_start"] >= back]
    first_minute = [call for call in calls if call["t_start"] < back + 60]
    full = rate([call["t_end"] for call in calls if call["status"] == 200], back + 90, back + 115) * 60 / limit
    busiest = max(Counter(int(call["t_start"]) for call in calls).values())
    print(
        f"waiting {waiting}, first minute {len(first_minute)}, afterwards {full:.2f} of the limit, busiest {busiest}"
    )
    assert len(first_minute) <= limit
    assert sum(1 for call in calls if call["status"] == 429) <= 0.01 * len(calls)
    assert full >= 0.9
    assert busiest <= 2 * limit / 60, "those who waited do not come in one wave"
    assert not world.rows("results", "status = 'failed'")
