"""Where the integration tests get their Kafka and Postgres: the first rung of a ladder that works.

1. `HEADRACE_TEST_KAFKA` (bootstrap servers), `HEADRACE_TEST_DATABASE_URL` (a superuser's URL)
2. containers, when `docker info` answers and `HEADRACE_TEST_CONTAINERS` is not 0
3. the local stack without Docker

What is given is used or the tests fail; a container that does not start is named in the summary and
the next rung serves. When none does, the tests fail with the reason: nothing is skipped silently.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from control.migrate import migrate
from deploy.local.stack import throwaway_kafka, throwaway_postgres
from schemas.settings import DatabaseSettings

DOCKER_S = 20.0


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

    @contextmanager
    def migrated_database(self) -> Iterator[str]:
        """Create a database with our tables, and drop it at the end."""
        url = self.new_database()
        migrate(DatabaseSettings.read({"DATABASE_URL": url}))
        yield url
        self.drop_database(url)

    def drop_database(self, url: str) -> None:
        """Drop a database that `new_database` made, cutting its connections."""
        name = make_url(url).database or ""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


Service = TypeVar("Service", KafkaService, PostgresService)
Rung = Callable[[], AbstractContextManager[Service]]


@functools.cache
def containers_work() -> bool:
    """Whether a container engine answers; the client program alone does not count."""
    if os.environ.get("HEADRACE_TEST_CONTAINERS") == "0" or not shutil.which("docker"):
        return False
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=DOCKER_S)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


@contextmanager
def kafka() -> Iterator[KafkaService]:
    """Yield a Kafka from the first rung that works."""
    given = os.environ.get("HEADRACE_TEST_KAFKA")
    if given:
        yield KafkaService(given, "given by HEADRACE_TEST_KAFKA")
        return
    with climb(_container_kafka, _local_kafka, engine=containers_work()) as service:
        yield service


@contextmanager
def postgres() -> Iterator[PostgresService]:
    """Yield a Postgres from the first rung that works."""
    given = os.environ.get("HEADRACE_TEST_DATABASE_URL")
    if given:
        yield PostgresService(given, "given by HEADRACE_TEST_DATABASE_URL")
        return
    with climb(_container_postgres, _local_postgres, engine=containers_work()) as service:
        yield service


@contextmanager
def climb(container: Rung[Service], local: Rung[Service], *, engine: bool) -> Iterator[Service]:
    """Enter the container's rung if an engine answers, else or when it fails the local one."""
    with ExitStack() as entered:
        reason = ""
        if engine:
            try:
                service = entered.enter_context(container())
            except Exception as error:
                reason = f" (its container did not start: {type(error).__name__}: {str(error)[:200]})"
            else:
                yield service
                return
        service = entered.enter_context(local())
        yield replace(service, rung=service.rung + reason)


@contextmanager
def _container_kafka() -> Iterator[KafkaService]:
    from tests.containers import kafka_container

    with kafka_container() as (bootstrap_servers, image):
        yield KafkaService(bootstrap_servers, f"container of {image}")


@contextmanager
def _container_postgres() -> Iterator[PostgresService]:
    from tests.containers import postgres_container

    with postgres_container() as (url, image):
        yield PostgresService(url, f"container of {image}")


@contextmanager
def _local_kafka() -> Iterator[KafkaService]:
    with throwaway_kafka() as server:
        yield KafkaService(server.bootstrap_servers, f"local process {server.pid}")


@contextmanager
def _local_postgres() -> Iterator[PostgresService]:
    with throwaway_postgres() as server:
        yield PostgresService(server.url, f"local process {server.pid}")
