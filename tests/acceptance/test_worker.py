"""Real workers on a real Kafka and Postgres, killed, drained, lied to: compared by ledgers, not by logs."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from simulator.answers import answer
from tests.fleet import Fleet, Worker, fleet, prompts, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, read_ledger, simulated

pytestmark = pytest.mark.integration


@pytest.fixture
def endpoint() -> Iterator[Simulated]:
    with simulated(latency_ms=100) as running:
        yield running


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, tmp_path: Path) -> Iterator[Fleet]:
    database = postgres.new_database()
    with fleet(kafka.bootstrap_servers, database, tmp_path, endpoint.base_url) as made:
        yield made


def test_every_row_gets_its_own_answer_and_every_call_a_ledger_line(world: Fleet, endpoint: Simulated) -> None:
    messages = prompts(300)
    world.start(2)
    world.publish(messages)
    world.wait_until_ended(300)
    rows = {row["id"]: row for row in world.rows("results")}
    for message in messages:
        expected = answer([{"role": "user", "content": message["prompt"]}], "simulated")
        assert rows[message["id"]]["result"] == expected
    assert len(world.rows("attempts", "outcome = 'answered' AND billed = 'yes'")) == 300
    assert endpoint.stats()["duplicate_bills"] == 0
    wait_for(lambda: world.lag() == 0, 15, lambda: f"lag {world.lag()}")


def test_a_killed_worker_costs_at_most_its_calls_in_flight_and_each_is_on_record(
    world: Fleet, endpoint: Simulated
) -> None:
    endpoint.set_script({"rules": [{"latency_ms": 400}]})
    world.start(2, MAX_IN_FLIGHT="16")
    world.publish(prompts(400))
    wait_for(lambda: world.ended() >= 60, 60)
    _busiest(world).process.kill()
    world.wait_until_ended(400, 200)
    stats = endpoint.stats(ids=True)
    extra = stats["billed"] - 400
    lost = world.rows("attempts", "outcome = 'lost'")
    assert world.statuses() == {("succeeded", None): 400}
    # Answers that were not durable yet are as lost as the calls in flight.
    assert 0 <= extra <= 16 + 16
    assert max(extra, 1) <= len(lost) <= 16 + 16 + 16
    assert {row["billed"] for row in lost} == {"maybe"}


def _busiest(world: Fleet) -> Worker:
    """The worker with the most claims: one of two may have come too late for any."""
    claims = Counter(row["worker"].split("-")[-2] for row in world.rows("results", "status = 'claimed'"))
    pid = int(claims.most_common(1)[0][0])
    return next(worker for worker in world.workers if worker.process.pid == pid)


def test_a_stop_in_the_middle_drains_with_exit_0_and_the_next_worker_goes_on(
    world: Fleet, endpoint: Simulated
) -> None:
    endpoint.set_script({"rules": [{"latency_ms": 1500}]})
    (first,) = world.start(1, MAX_IN_FLIGHT="32")
    world.publish(prompts(200))
    wait_for(lambda: endpoint.stats()["in_flight"] > 4, 40)
    first.signal(signal.SIGTERM)
    assert first.end() == 0
    assert endpoint.stats()["in_flight"] == 0
    done = world.ended()
    assert 0 < done < 200
    assert not world.rows("attempts", "billed = 'maybe'")
    endpoint.set_script({"rules": []})
    world.start(1)
    world.wait_until_ended(200)
    assert endpoint.stats()["duplicate_bills"] == 0


def test_a_second_signal_leaves_at_once(world: Fleet, endpoint: Simulated) -> None:
    endpoint.set_script({"rules": [{"latency_ms": 20_000}]})
    (worker,) = world.start(1)
    world.publish(prompts(4))
    wait_for(lambda: endpoint.stats()["in_flight"] == 4, 40)
    worker.signal(signal.SIGTERM)
    time.sleep(0.5)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.end(5) != 0
    assert time.monotonic() - began < 2


def test_calls_that_outlast_the_drain_are_recorded_and_given_back(world: Fleet, endpoint: Simulated) -> None:
    endpoint.set_script({"rules": [{"match": {"attempts": [1]}, "latency_ms": 60_000}]})
    (worker,) = world.start(1, DRAIN_SECONDS="4")
    world.publish(prompts(4))
    wait_for(lambda: endpoint.stats()["in_flight"] == 4, 40)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    worker.end()
    assert time.monotonic() - began < 6
    assert {(row["outcome"], row["billed"]) for row in world.rows("attempts")} == {("abandoned", "maybe")}
    world.start(1)
    began = time.monotonic()
    world.wait_until_ended(4)
    assert time.monotonic() - began < 30, "claims that were given back need not be waited for"


def test_unreadable_messages_reach_the_dead_letters_once_and_hold_nobody_up(world: Fleet) -> None:
    world.publish(prompts(5))
    world.publish_raw(b"x", b"not json")
    world.publish_raw(None, b"\x00\x00\x00\x00\x01{}")
    world.publish_raw(b"other", b'{"id": "r-1", "prompt": "p"}')
    world.publish_raw(b"gone", None)
    world.publish(prompts(5, start=5))
    world.start(1)
    world.wait_until_ended(10)
    wait_for(lambda: world.lag() == 0, 20, lambda: f"lag {world.lag()}")
    letters = world.dead_letters()
    reasons = [dict(letter.headers() or [])["__connect.errors.class.name"] for letter in letters]
    assert sorted(map(str, reasons)) == ["b'key_mismatch'", "b'not_json'", "b'schema_registry_framing'"]
    assert b'{"id": "r-1", "prompt": "p"}' in {letter.value() for letter in letters}


def test_a_new_topic_of_the_expression_is_noticed_within_ten_seconds(world: Fleet) -> None:
    world.start(1)
    world.publish(prompts(3))
    world.wait_until_ended(3)
    later = Fleet(world.kafka, world.database, world.folder, world.base_url, job=f"{world.job}.later")
    later.prepare()
    later.publish(prompts(3))
    later.wait_until_ended(3, 10)


def test_what_was_answered_before_a_restart_is_not_asked_again(world: Fleet, endpoint: Simulated) -> None:
    endpoint.set_script({"rules": [{"match": {"ids": ["r-0"]}, "latency_ms": 120_000}]})
    (worker,) = world.start(1, KAFKA_CONSUMER_CONF="session.timeout.ms=6000,heartbeat.interval.ms=1500")
    world.publish(prompts(60))
    world.wait_until_ended(59)
    worker.process.kill()
    worker.end()
    assert world.lag() > 0, "the slow head of a partition holds its commit back"
    endpoint.set_script({"rules": []})
    with psycopg.connect(world.database, autocommit=True) as connection:
        # As a minute would: another test waits for real leases.
        connection.execute("UPDATE headrace.results SET claimed_until = now() WHERE status = 'claimed'")
    world.start(1)
    world.wait_until_ended(60, 120)
    calls = endpoint.stats(ids=True)["ids"]
    assert {id_: entry["calls"] for id_, entry in calls.items() if entry["calls"] > 1} == {"r-0": 2}


def test_a_wrong_key_writes_nothing_off_and_a_new_key_file_needs_no_restart(
    world: Fleet, endpoint: Simulated, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("sk-old\n")
    endpoint.set_script({"api_keys": ["sk-new"], "rules": []})
    (worker,) = world.start(1, LLM_API_KEY_FILE=str(key), MAX_IN_FLIGHT="4")
    world.publish(prompts(50))
    wait_for(lambda: "run_fault" in worker.get("/readyz")[1], 40)
    calls = endpoint.stats()["calls"]
    assert calls < 50
    key.write_text("sk-new\n")
    world.wait_until_ended(50)
    assert world.statuses() == {("succeeded", None): 50}
    assert worker.get("/readyz")[0] == 200
    assert "sk-" not in worker.log.read_text()


@pytest.mark.slow
def test_a_key_revoked_under_a_fleet_costs_few_calls_and_no_row(
    world: Fleet, endpoint: Simulated, tmp_path: Path
) -> None:
    key, ledger = tmp_path / "key", tmp_path / "calls.jsonl"
    key.write_text("sk-old")
    endpoint.stop()
    endpoint.environ = {**endpoint.environ, "SIMULATOR_LEDGER": str(ledger)}
    endpoint.start()
    endpoint.set_script({"api_keys": ["sk-old"], "rules": []})
    workers = world.start(4, LLM_API_KEY_FILE=str(key), MAX_IN_FLIGHT="8")
    world.publish(prompts(600))
    wait_for(lambda: endpoint.stats()["answers"] >= 100, 60)
    endpoint.set_script({"api_keys": ["sk-new"], "rules": []})
    wait_for(lambda: all("run_fault" in worker.get("/readyz")[1] for worker in workers), 10)
    first = min(call["t_end"] for call in read_ledger(ledger) if call["status"] == 401)
    time.sleep(20)
    # Those that were under way when the first fault came back cannot be called off.
    further = [call for call in read_ledger(ledger) if call["status"] == 401 and call["t_start"] > first + 0.2]
    assert len(further) <= 5 + 1
    assert not world.rows("results", "status = 'failed'")
    key.write_text("sk-new")
    world.wait_until_ended(600)
    assert world.statuses() == {("succeeded", None): 600}


def test_an_endpoint_that_answers_nobody_costs_no_row_its_attempts(world: Fleet, endpoint: Simulated) -> None:
    endpoint.set_script({"rules": [{"status": 500}]})
    world.start(1, MAX_IN_FLIGHT="8")
    world.publish(prompts(30))
    wait_for(lambda: endpoint.stats()["calls"] > 60, 60)
    time.sleep(8)
    assert world.ended() == 0
    endpoint.set_script({"rules": []})
    world.wait_until_ended(30, 60)
    assert world.statuses() == {("succeeded", None): 30}
