"""A Kafka and a Postgres that tests may kill, each with a proxy in front."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from deploy.local import ports
from deploy.local.kafka import Kafka
from deploy.local.kafka_config import KafkaOptions
from deploy.local.postgres import Postgres, PostgresOptions
from deploy.local.stack import throwaway_kafka, throwaway_postgres
from tests.chaos.proxy import Proxy


@dataclass
class Servers:
    """A Kafka and a Postgres that tests may kill, each with a proxy in front for the workers."""

    kafka: Kafka
    postgres: Postgres
    kafka_proxy: Proxy
    postgres_proxy: Proxy

    def heal(self) -> None:
        """Let everything run and flow again."""
        self.kafka.start()
        self.postgres.start()
        for proxy in (self.kafka_proxy, self.postgres_proxy):
            proxy.up()
            proxy.heal()

    def new_database(self, name: str) -> str:
        """Create a database; gives its URL, past the proxy."""
        with psycopg.connect(self.postgres.url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.postgres.url_of(name)

    def proxied(self, url: str) -> str:
        """The same database through the proxy."""
        return make_url(url).set(port=self.postgres_proxy.port).render_as_string(hide_password=False)


@contextmanager
def servers() -> Iterator[Servers]:
    """Servers of their own for a test session."""
    front = ports.choose(("kafka", "postgres"), {})
    with ExitStack() as entered:
        options = KafkaOptions(proxy_port=front["kafka"], heap_mb=384)
        kafka = entered.enter_context(throwaway_kafka(options))
        settings = {"max_connections": "60", "log_min_messages": "error"}
        postgres = entered.enter_context(throwaway_postgres(PostgresOptions(settings=settings)))
        made = Servers(kafka, postgres, Proxy(front["kafka"]), Proxy(front["postgres"]))
        made.kafka_proxy.start(kafka.proxied_port)
        entered.callback(made.kafka_proxy.close)
        made.postgres_proxy.start(int(postgres.address.rsplit(":", 1)[1]))
        entered.callback(made.postgres_proxy.close)
        yield made
