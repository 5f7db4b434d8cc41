"""The containers that serve integration tests where a container engine answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testcontainers.community.postgres import PostgresContainer
from testcontainers.core.container import DockerContainer

from deploy.local import jars, kafka_config, ports
from deploy.local.kafka import has_broker
from deploy.local.kafka_config import KafkaOptions

POSTGRES_IMAGE = "postgres:17-alpine"
KAFKA_S = 120.0


def kafka_environment(own: dict[str, int]) -> dict[str, str]:
    """Configure the image as the local Kafka is, listening on all of the container's addresses."""
    values = kafka_config.properties(Path("/var/lib/kafka/data"), own, KafkaOptions())
    del values["controller.quorum.bootstrap.servers"]
    values["controller.quorum.voters"] = f"1@{ports.HOST}:{own['controller']}"
    values["listeners"] = values["listeners"].replace(ports.HOST, "0.0.0.0")
    return {"KAFKA_" + name.upper().replace(".", "_"): value for name, value in values.items()}


@contextmanager
def kafka_container() -> Iterator[tuple[str, str]]:
    """Yield bootstrap servers and image of a Kafka of the locked version."""
    image = f"apache/kafka:{jars.kafka_version(jars.parse_lock(jars.LOCK.read_text()))}"
    own = ports.choose(kafka_config.PORTS, {})
    container = DockerContainer(image).with_bind_ports(own["client"], own["client"])
    address = f"{ports.HOST}:{own['client']}"
    with container.with_envs(**kafka_environment(own)):
        deadline = time.monotonic() + KAFKA_S
        while not has_broker(address):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{image} did not answer within {KAFKA_S:.0f} s")
        yield address, image


@contextmanager
def postgres_container() -> Iterator[tuple[str, str]]:
    """Yield URL and image of a Postgres."""
    with PostgresContainer(POSTGRES_IMAGE, username="headrace", dbname="headrace", driver=None) as container:
        yield container.get_connection_url(), POSTGRES_IMAGE
