"""Kafka and Postgres together, started side by side: kept between runs, or thrown away afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.local import scratch
from deploy.local.kafka import Kafka
from deploy.local.kafka_config import KafkaOptions
from deploy.local.postgres import Postgres, PostgresOptions
from deploy.local.steps import Watch


class LocalStack:
    """The two servers below one folder."""

    def __init__(self, folder: Path, kafka: Kafka | None = None, postgres: Postgres | None = None) -> None:
        self.folder = folder.absolute()
        self.kafka = kafka or Kafka(self.folder / "kafka")
        self.postgres = postgres or Postgres(self.folder / "postgres")

    @property
    def env(self) -> dict[str, str]:
        """The settings with which every Headrace program reaches this stack."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "DATABASE_URL": self.postgres.url,
        }

    def start(self, watch: Watch | None = None) -> LocalStack:
        """Start both and wait until both answer.

        When one fails, or on an interrupt, those that did not run before do not run afterwards.
        """
        watch = watch or Watch()
        servers = (self.kafka, self.postgres)
        new = [server for server in servers if not server.pid]
        with ThreadPoolExecutor(2, "start") as pool:
            starts: list[Future[Any]] = [pool.submit(server.start, watch) for server in servers]
            try:
                _join(starts)
            except BaseException:
                watch.interrupted.set()
                wait(starts)
                for server in new:
                    server.kill()
                raise
        return self

    def stop(self) -> None:
        """Let both end in order."""
        self.postgres.stop()
        self.kafka.stop()

    def kill(self) -> None:
        """End both at once."""
        self.kafka.kill()
        self.postgres.kill()


def _join(starts: list[Future[Any]]) -> None:
    """Raise the first failure as soon as there is one."""
    done, _ = wait(starts, return_when=FIRST_EXCEPTION)
    for each in done:
        each.result()


@contextmanager
def throwaway() -> Iterator[LocalStack]:
    """Yield a running stack of which nothing is left afterwards."""
    with scratch.folder() as folder:
        yield LocalStack(folder).start()


@contextmanager
def throwaway_kafka(options: KafkaOptions | None = None) -> Iterator[Kafka]:
    """Yield a running Kafka of which nothing is left afterwards."""
    with scratch.folder() as folder:
        yield Kafka(folder / "kafka", options).start()


@contextmanager
def throwaway_postgres(options: PostgresOptions | None = None) -> Iterator[Postgres]:
    """Yield a running Postgres of which nothing is left afterwards."""
    with scratch.folder() as folder:
        yield Postgres(folder / "postgres", options).start()
