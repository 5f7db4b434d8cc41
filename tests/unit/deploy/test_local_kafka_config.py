"""The configuration that the local Kafka is started with."""

from __future__ import annotations

from pathlib import Path

from deploy.local import kafka_config
from deploy.local.kafka_config import KafkaOptions

PORTS = {"client": 20_001, "controller": 20_002, "proxied": 20_003}


def test_clients_and_controller_have_a_listener_each_on_loopback() -> None:
    values = kafka_config.properties(Path("/d"), PORTS, KafkaOptions())
    assert values["listeners"] == "PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:20002"
    assert values["advertised.listeners"] == values["listeners"]
    assert values["log.dirs"] == "/d"


def test_topics_are_never_made_by_asking_for_them() -> None:
    values = kafka_config.properties(Path("/d"), PORTS, KafkaOptions())
    assert values["auto.create.topics.enable"] == "false"


def test_the_proxied_listener_sends_its_clients_to_the_proxy() -> None:
    values = kafka_config.properties(Path("/d"), PORTS, KafkaOptions(proxy_port=9))
    assert values["listeners"].endswith(",PROXIED://127.0.0.1:20003")
    assert values["advertised.listeners"].endswith(",PROXIED://127.0.0.1:9")
    assert "PROXIED:PLAINTEXT" in values["listener.security.protocol.map"]


def test_the_callers_properties_win() -> None:
    options = KafkaOptions(overrides={"broker.session.timeout.ms": "9000", "message.max.bytes": "5"})
    values = kafka_config.properties(Path("/d"), PORTS, options)
    assert (values["broker.session.timeout.ms"], values["message.max.bytes"]) == ("9000", "5")


def test_a_backslash_is_escaped_in_the_file() -> None:
    assert kafka_config.render({"a": "b\\c", "d": "e=f"}) == "a=b\\\\c\nd=e=f\n"
