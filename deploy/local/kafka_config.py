"""The configuration of the local Kafka: one process that is both broker and controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.ports import HOST

PORTS = ("client", "controller", "proxied")
_FIXED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    # One node cannot hold copies.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A quick start and a small heap.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # After a crash the broker waits until its own former session is over.
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "2000",
    # Tests of dead workers need short sessions, which clients have to ask for.
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "250",
}


@dataclass(frozen=True)
class KafkaOptions:
    """What a caller may change.

    `overrides` are broker properties. With `proxy_port`, a second listener tells its clients to come
    back through that loopback port, where the caller runs a proxy to `Kafka.proxied_port`.
    """

    overrides: Mapping[str, str] = field(default_factory=dict)
    proxy_port: int | None = None
    heap_mb: int = 512


def properties(data: Path, ports: Mapping[str, int], options: KafkaOptions) -> dict[str, str]:
    """Return the broker's properties, the caller's overrides last."""
    listeners = {"PLAINTEXT": ports["client"], "CONTROLLER": ports["controller"]}
    if options.proxy_port is not None:
        listeners["PROXIED"] = ports["proxied"]
    advertised = listeners | ({"PROXIED": options.proxy_port} if options.proxy_port is not None else {})
    return {
        **_FIXED,
        "controller.quorum.bootstrap.servers": f"{HOST}:{ports['controller']}",
        "listeners": _addresses(listeners),
        "advertised.listeners": _addresses(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "log.dirs": str(data),
        **options.overrides,
    }


def _addresses(listeners: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())


def render(values: Mapping[str, str]) -> str:
    """Write a Java properties file; a backslash is that format's escape, so it is doubled."""
    return "".join("{}={}\n".format(name, value.replace("\\", "\\\\")) for name, value in values.items())
