"""A real Kafka in one Java process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from pathlib import Path

from deploy.local import jars, java, kafka_config, ports, steps
from deploy.local.kafka_config import KafkaOptions
from deploy.local.processes import Identity
from deploy.local.server import Server
from deploy.local.steps import Watch

GRACE_S = 30.0
# One folder is one cluster, so the id needs not be unique; it has to be 16 bytes in base 64.
CLUSTER_ID = "aGVhZHJhY2UtbG9jYWw0MA"
LOGGING = Path(__file__).with_name("kafka-log4j2.properties")


class Kafka:
    """A broker whose data, log and ports live in `folder`; any process may stop what another started."""

    def __init__(self, folder: Path, options: KafkaOptions | None = None) -> None:
        self.folder = folder.absolute()
        self.options = options or KafkaOptions()
        self.server = Server("Kafka", self.folder)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients."""
        return f"{ports.HOST}:{self._ports()['client']}"

    @property
    def proxied_port(self) -> int:
        """The port to which a proxy in front of the second listener forwards."""
        return self._ports()["proxied"]

    @property
    def pid(self) -> int | None:
        """The process's id; None when it does not run."""
        identity = self.server.running()
        return identity.pid if identity else None

    @property
    def log(self) -> Path:
        """The broker's log."""
        return self.server.log

    def start(self, watch: Watch | None = None) -> Kafka:
        """Start the broker and wait until it answers; do nothing when it runs already.

        Raises MissingError without Java or a way to fetch Kafka, UnreachableError when a registry or the broker
        does not answer in time, StartError when the broker ends by itself.
        """
        watch = watch or Watch()
        identity = self.server.running() or self._launch(watch)
        self.server.wait_until(self.answers, identity, watch)
        return self

    def answers(self) -> bool:
        """Whether the broker serves clients: it gives its metadata and counts itself among the living."""
        host, port = self.bootstrap_servers.split(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return has_broker(self.bootstrap_servers)

    def stop(self) -> None:
        """Let the broker close its files and end."""
        self.server.stop(signal.SIGTERM, GRACE_S)

    def kill(self) -> None:
        """End the broker at once, as a crash does; what it has acknowledged stays."""
        self.server.stop(signal.SIGKILL, GRACE_S)

    def restart(self, watch: Watch | None = None) -> Kafka:
        """Stop the broker if it runs and start it on the same data and ports."""
        self.stop()
        return self.start(watch)

    def _ports(self) -> dict[str, int]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return ports.remembered(self.folder / "ports.json", kafka_config.PORTS)

    def _launch(self, watch: Watch) -> Identity:
        program = java.find()
        libraries = jars.ensure(program, watch)
        mine = self._ports()
        ports.require_free("Kafka", mine.values(), self.folder / "ports.json")
        settings = self.folder / "server.properties"
        values = kafka_config.properties(self.folder / "data", mine, self.options)
        settings.write_text(kafka_config.render(values))
        self._format(program, libraries, settings, watch)
        return self.server.launch(
            [
                *(program, "-Xms256m", f"-Xmx{self.options.heap_mb}m"),
                *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"),
                *(f"-Dlog4j2.configurationFile={LOGGING}", "-cp", f"{libraries}{os.sep}*"),
                *("kafka.Kafka", settings),
            ],
            cwd=self.folder,
        )

    def _format(self, program: Path, libraries: Path, settings: Path, watch: Watch) -> None:
        data, done = self.folder / "data", self.folder / "formatted"
        if done.exists():
            return
        shutil.rmtree(data, ignore_errors=True)
        command: list[str | Path] = [
            *(program, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}{os.sep}*"),
            *("kafka.tools.StorageTool", "format", "--standalone"),
            *("--cluster-id", CLUSTER_ID, "--config", settings),
        ]
        steps.run(command, "Formatting Kafka's data folder", self.log, watch, cwd=self.folder)
        done.touch()


def has_broker(bootstrap_servers: str) -> bool:
    """Whether a Kafka at this address gives its metadata, within 5 s, and counts a broker among the living."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=5).brokers)
    except KafkaException:
        return False
