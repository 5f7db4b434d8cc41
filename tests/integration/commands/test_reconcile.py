"""`headrace reconcile` on real Kafka, Postgres and workers: exactly what was lost is told, and comes back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from control.cli import app
from control.reconcile.log import Stretch
from tests.fleet import Fleet, fleet, prompts, wait_for
from tests.integration.commands.letters import wait_for_leaders
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, simulated

pytestmark = pytest.mark.integration


@pytest.fixture
def endpoint() -> Iterator[Simulated]:
    with simulated() as running:
        yield running


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(kafka.bootstrap_servers, postgres.new_database(), tmp_path, endpoint.base_url) as made:
        wait_for_leaders(made)
        yield made


def reconcile(world: Fleet, *words: str) -> tuple[int, dict[str, Any]]:
    mine = {name: None for name in os.environ if name.startswith(("KAFKA_", "LLM_"))}
    command = ["reconcile", world.job, "--json", *words]
    ended = CliRunner().invoke(app, command, env={**mine, **world.env}, catch_exceptions=False)
    assert ended.stdout, ended.stderr
    return ended.exit_code, json.loads(ended.stdout)


def sql(world: Fleet, statement: str) -> None:
    with psycopg.connect(world.database) as connection:
        connection.execute(statement.encode())


def settled(world: Fleet) -> None:
    wait_for(lambda: world.lag() == 0, 90, lambda: f"lag {world.lag()}")


def test_rows_lost_behind_the_committed_offsets_are_told_and_come_back(world: Fleet, endpoint: Simulated) -> None:
    world.start()
    world.publish(prompts(60))
    world.publish_raw(b"r-bad", b"not json")
    world.publish([{"id": "r-1", "prompt": "a newer version"}])
    settled(world)
    code, told = reconcile(world)
    assert (code, told["checked"], told["unreadable"], told["missing"]) == (0, 61, 1, 0)
    before = {row["id"]: (row["fingerprint"], row["result"]) for row in world.rows("results")}

    sql(world, "DELETE FROM headrace.results WHERE id IN ('r-1', 'r-7', 'r-33')")
    # Its last write was lost, its claim was not.
    sql(
        world,
        "UPDATE headrace.results SET status = 'claimed', claimed_until = now() - interval '1 h' WHERE id = 'r-8'",
    )
    code, told = reconcile(world)
    lost = ["r-1", "r-33", "r-7", "r-8"]
    assert (code, told["missing"], told["ids"]) == (1, 4, [[world.job, id_] for id_ in lost])

    code, told = reconcile(world, "--fix")
    assert (code, told["missing"], told["republished"]) == (0, 4, 4)
    settled(world)
    assert {row["id"]: (row["fingerprint"], row["result"]) for row in world.rows("results")} == before
    assert reconcile(world)[0] == 0


def test_a_version_that_waits_unread_is_not_overtaken_by_the_lost_one(world: Fleet) -> None:
    (worker,) = world.start()
    world.publish(prompts(2))
    settled(world)
    worker.process.terminate()
    worker.end()
    sql(world, "DELETE FROM headrace.results")
    world.publish([{"id": "r-1", "prompt": "a newer version"}])
    code, told = reconcile(world)
    assert (code, told["ids"], told["unread"]) == (1, [[world.job, "r-0"]], 1)


def test_what_expired_unread_is_counted(world: Fleet) -> None:
    world.publish(prompts(30))
    consumer = Consumer({"bootstrap.servers": world.kafka, "group.id": world.job})
    ends = {n: consumer.get_watermark_offsets(TopicPartition(world.topic, n), 10)[1] for n in range(6)}
    consumer.close()
    admin = AdminClient({"bootstrap.servers": world.kafka})
    cut = [TopicPartition(world.topic, n, end) for n, end in ends.items() if end]
    for future in admin.delete_records(cut).values():
        future.result(30)
    code, told = reconcile(world)
    assert (code, told["expired_unread"], told["unread"], told["missing"]) == (1, 30, 0, 0)


@pytest.mark.parametrize(
    ("low", "committed", "high", "read", "unread", "expired"),
    [(0, -1001, 5, (0, 0), (0, 5), 0), (3, 2, 9, (3, 3), (3, 9), 1), (0, 9, 9, (0, 9), (9, 9), 0),
     (0, 12, 9, (0, 9), (9, 9), 0)],
)  # fmt: skip
def test_a_partition_is_parted_where_the_group_stands(
    low: int, committed: int, high: int, read: tuple[int, int], unread: tuple[int, int], expired: int
) -> None:
    stretch = Stretch.of(low, committed, high)
    assert (stretch.read, stretch.unread, stretch.expired) == (read, unread, expired)
