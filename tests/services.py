"""Where the integration tests get their Kafka and Postgres: the first rung of a ladder that works.

1. `HEADRACE_TEST_KAFKA` (bootstrap servers), `HEADRACE_TEST_DATABASE_URL` (a superuser's URL)
2. containers, when `docker info` answers and `HEADRACE_TEST_CONTAINERS` is not 0
3. the local stack without Docker

A rung that is there and fails ends the test with its reason; nothing is skipped silently.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from deploy.local.stack import throwaway_kafka, throwaway_postgres

KAFKA_IMAGE = "apache/kafka:4.1.0"
POSTGRES_IMAGE = "postgres:17-alpine"


@dataclass(frozen=True)
class KafkaService:
    """A running Kafka for tests that share it: every test makes topics and groups of its own names."""

    bootstrap_servers: str
    rung: str


@dataclass(frozen=True)
class PostgresService:
    """A running Postgres for tests that share it; `url` is a superuser's."""

    url: str
    rung: str

    def new_database(self) -> str:
        """Create an empty database and return its URL; it goes away with the server."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def drop_database(self, url: str) -> None:
        """Drop a database that `new_database` made, cutting its connections."""
        name = make_url(url).database or ""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@functools.cache
def containers_work() -> bool:
    """Whether a container engine answers; the client program alone does not count."""
    if os.environ.get("HEADRACE_TEST_CONTAINERS") == "0" or not shutil.which("docker"):
        return False
    asked = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60)
    return asked.returncode == 0


@contextmanager
def kafka() -> Iterator[KafkaService]:
    """Yield a Kafka from the first rung that is there."""
    given = os.environ.get("HEADRACE_TEST_KAFKA")
    if given:
        yield KafkaService(given, "given by HEADRACE_TEST_KAFKA")
        return
    rung = _containers_kafka if containers_work() else _local_kafka
    with rung() as service:
        yield service


@contextmanager
def postgres() -> Iterator[PostgresService]:
    """Yield a Postgres from the first rung that is there."""
    given = os.environ.get("HEADRACE_TEST_DATABASE_URL")
    if given:
        yield PostgresService(given, "given by HEADRACE_TEST_DATABASE_URL")
        return
    rung: Callable[[], AbstractContextManager[PostgresService]]
    rung = _containers_postgres if containers_work() else _local_postgres
    with rung() as service:
        yield service


@contextmanager
def _local_kafka() -> Iterator[KafkaService]:
    with throwaway_kafka() as server:
        yield KafkaService(server.bootstrap_servers, f"local process {server.pid}")


@contextmanager
def _local_postgres() -> Iterator[PostgresService]:
    with throwaway_postgres() as server:
        yield PostgresService(server.url, f"local process {server.pid}")


@contextmanager
def _containers_kafka() -> Iterator[KafkaService]:
    from testcontainers.community.kafka import KafkaContainer

    with KafkaContainer().with_kraft() as container:
        yield KafkaService(container.get_bootstrap_server(), f"container {container.image}")


@contextmanager
def _containers_postgres() -> Iterator[PostgresService]:
    from testcontainers.community.postgres import PostgresContainer

    with PostgresContainer(POSTGRES_IMAGE, driver=None) as container:
        yield PostgresService(container.get_connection_url(), f"container {container.image}")
