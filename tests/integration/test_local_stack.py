"""The local Kafka and Postgres: start, answer, die, come back with their data, leave nothing."""

from __future__ import annotations

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from tests.services import KafkaService, PostgresService

pytestmark = pytest.mark.integration


def test_fixture_kafka_answers(kafka: KafkaService) -> None:
    assert AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=10).brokers


def test_fixture_postgres_gives_fresh_databases(postgres: PostgresService) -> None:
    first, second = postgres.new_database(), postgres.new_database()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE t (i int)")
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT to_regclass('t')").fetchone() == (None,)
