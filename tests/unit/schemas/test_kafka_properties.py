"""What every client is told, and what no pass-through may change."""

from __future__ import annotations

import pytest

from schemas import kafka
from schemas.settings import KafkaSettings, SettingsError
from schemas.topics import MAX_MESSAGE_BYTES

FIXED_FOR_CONSUMERS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
    "group.id": "g",
}
FIXED_FOR_PRODUCERS = {"acks": "all", "enable.idempotence": "true", "partitioner": "murmur2_random"}


def settings(**environ: str) -> KafkaSettings:
    return KafkaSettings.read(environ)


def test_the_defaults_that_lose_messages_are_all_replaced() -> None:
    assert FIXED_FOR_CONSUMERS.items() <= kafka.consumer(settings(), "g").items()
    assert FIXED_FOR_PRODUCERS.items() <= kafka.producer(settings()).items()


def test_prefetch_is_bounded() -> None:
    found = kafka.consumer(settings(), "g")
    # What is queued, and a fetch that comes on top of it: a tenth of what a worker may take in all.
    assert int(found["queued.max.messages.kbytes"]) * 1024 + int(found["fetch.max.bytes"]) <= 12 * 1024 * 1024
    assert int(found["fetch.max.bytes"]) > MAX_MESSAGE_BYTES
    assert int(found["fetch.message.max.bytes"]) > 1_000_000


def test_any_other_property_passes_through() -> None:
    given = settings(
        KAFKA_CONSUMER_CONF=" fetch.wait.max.ms = 7 ,client.rack=a=b,", KAFKA_PRODUCER_CONF="linger.ms=1"
    )
    assert kafka.consumer(given, "g")["fetch.wait.max.ms"] == "7"
    assert kafka.consumer(given, "g")["client.rack"] == "a=b"
    assert kafka.producer(given)["linger.ms"] == "1"


@pytest.mark.parametrize(
    "name",
    [
        *sorted(FIXED_FOR_CONSUMERS.keys() - {"allow.auto.create.topics"}),
        *FIXED_FOR_PRODUCERS,
        "bootstrap.servers",
        "sasl.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "metadata.broker.list",
        "request.required.acks",
        "auto.commit.enable",
        "transactional.id",
    ],
)
@pytest.mark.parametrize("variable", ["KAFKA_CONSUMER_CONF", "KAFKA_PRODUCER_CONF"])
def test_what_the_design_rests_on_may_not_be_set(name: str, variable: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable}.*{name}"):
        settings(**{variable: f"linger.ms=1,{name}=1"})


@pytest.mark.parametrize("text", ["linger.ms", "=1", "a=1,b", "a=1,=2"])
def test_a_pair_that_is_none_is_a_problem(text: str) -> None:
    with pytest.raises(SettingsError, match="name=value"):
        settings(KAFKA_CONSUMER_CONF=text)


def test_credentials_reach_the_client_and_nothing_is_set_that_was_not_given() -> None:
    bare = kafka.common(settings())
    assert not {"sasl.password", "sasl.username", "ssl.ca.location", "security.protocol"} & set(bare)
    given = settings(
        KAFKA_BOOTSTRAP_SERVERS="a:1,b:2",
        KAFKA_SECURITY_PROTOCOL="SASL_SSL",
        KAFKA_SASL_MECHANISM="SCRAM-SHA-512",
        KAFKA_SASL_USERNAME="u",
        KAFKA_SASL_PASSWORD="p",
        KAFKA_SSL_CA_LOCATION="/ca.pem",
    )
    found = kafka.common(given)
    assert found["bootstrap.servers"] == "a:1,b:2"
    assert (found["security.protocol"], found["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (found["sasl.username"], found["sasl.password"], found["ssl.ca.location"]) == ("u", "p", "/ca.pem")


def test_under_the_brokers_own_assignment_the_classic_properties_are_absent() -> None:
    classic = kafka.consumer(settings(), "g")
    assert classic["partition.assignment.strategy"] == "cooperative-sticky"
    new = kafka.consumer(settings(KAFKA_CONSUMER_CONF="group.protocol=consumer"), "g")
    assert not {"partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"} & set(new)


class Said:
    """What a client tells its `error_cb`."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return self._text


@pytest.mark.parametrize(
    ("name", "heals"),
    [
        ("_AUTHENTICATION", False),
        ("_SSL", False),
        ("_TRANSPORT", True),
        ("_ALL_BROKERS_DOWN", True),
        ("_RESOLVE", True),
    ],
)
def test_only_what_no_repetition_heals_is_a_refusal(name: str, heals: bool) -> None:
    refusals = kafka.Refusals()
    refusals(Said(name, "what happened"))
    refusals(Said("_ALL_BROKERS_DOWN", "1/1 brokers are down"))
    assert refusals.last == (None if heals else "what happened")
