"""Kafka by SASL_SSL, Postgres by verify-full: all programs work; a wrong password or authority is told at once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from backfill.errors import UnreachableError as BackfillUnreachableError
from backfill.source import asking
from control.cli import app
from producer.errors import UnreachableError, WrongJobError
from producer.ledger import Ledger
from producer.sink import Delivery, check_topic, make_topic
from schemas.settings import KafkaSettings
from tests.encrypted import PASSWORD, Encrypted, encrypted
from tests.fleet import Fleet, wait_for
from tests.roles import granted
from tests.simulated import simulated

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(240)]
WRONG_PASSWORD, WRONG_CA, WRONG_HOST = "a wrong password", "another authority", "another name"
CASES = [WRONG_PASSWORD, WRONG_CA, WRONG_HOST]
SAID_BY_KAFKA = {
    WRONG_PASSWORD: "Authentication failed",
    WRONG_CA: "certificate verify failed",
    WRONG_HOST: "certificate verify failed",
}
SAID_BY_POSTGRES = {
    WRONG_PASSWORD: "password authentication failed",
    WRONG_CA: "certificate verify failed",
    WRONG_HOST: "does not match host name",
}


@pytest.fixture(scope="module")
def world() -> Iterator[Encrypted]:
    with encrypted() as made:
        yield made


def kafka_settings(world: Encrypted, case: str) -> Mapping[str, str]:
    wrong = {
        WRONG_PASSWORD: {"KAFKA_SASL_PASSWORD": "hunter2"},
        WRONG_CA: {"KAFKA_SSL_CA_LOCATION": world.other_ca},
        WRONG_HOST: {"KAFKA_BOOTSTRAP_SERVERS": world.brokers.replace("127.0.0.1", "localhost")},
    }
    return world.of_kafka("worker", **wrong[case])


def database(world: Encrypted, case: str) -> str:
    url = world.postgres.url
    wrong = {
        WRONG_PASSWORD: lambda: world.verified(url, password="hunter2"),
        WRONG_CA: lambda: world.verified(url, world.other_ca),
        WRONG_HOST: lambda: world.verified(url, host="localhost"),
    }
    return wrong[case]()


def command(*words: str, **settings: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, words, env=settings)
    assert PASSWORD not in ended.output
    assert "hunter2" not in ended.output
    return ended.exit_code, ended.output


def test_rows_go_through_with_a_password_a_right_and_a_checked_certificate_each(
    world: Encrypted, tmp_path: Path
) -> None:
    """Tables by the owner, topics by theirs, a message by the producer, the answer by a worker."""
    roles = granted(world.verified(world.postgres.url))
    with simulated() as endpoint:
        fleet = Fleet(world.kafka.bootstrap_servers, roles.urls["headrace_worker"], tmp_path, endpoint.base_url)
        fleet.settings = {
            **world.of_kafka("worker"),
            "CONSUMER_GROUP": "headrace-worker",
            "DEAD_LETTER_TOPIC": "headrace.dead-letters",
        }
        assert command("topics", **world.of_kafka("owner"))[0] == 0
        publisher = KafkaSettings.read(world.of_kafka("producer"))
        assert not check_topic(publisher, fleet.topic)
        make_topic(publisher, fleet.topic, 2)
        wait_for(lambda: check_topic(publisher, fleet.topic), 20)
        delivery = Delivery(publisher, fleet.topic)
        delivery.send([b"r-1"], [f'{{"id": "r-1", "prompt": "x", "job": "{fleet.job}"}}'.encode()])
        delivery.send([b"r-2"], [b"not json"])
        delivery.finish()
        (worker,) = fleet.start()
        try:
            fleet.wait_until_ended(1, 60)
            wait_for(lambda: "headrace_consumer_lag{" in worker.get("/metrics")[1], 20)
            wait_for(lambda: re.search(r"dead_letters_total\{[^}]*\} 1\.0", worker.get("/metrics")[1]), 20)
            settings = {**fleet.env, **world.of_kafka("operator"), "DATABASE_URL": roles.urls["headrace_operator"]}
            for words in (("status", fleet.job), ("dead-letters", "list"), ("reconcile", "--topic", fleet.topic)):
                code, said = command(*words, **settings)
                assert code == 0, (words, said)
            worker.process.terminate()
            assert worker.end() == 0
        finally:
            fleet.close()


@pytest.mark.parametrize("case", CASES)
def test_a_broker_that_refuses_us_is_told_within_seconds(world: Encrypted, case: str) -> None:
    settings = kafka_settings(world, case)
    began = time.monotonic()
    code, said = command("topics", **settings)
    assert (code, SAID_BY_KAFKA[case] in said) == (2, True), said
    assert "check KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_* and KAFKA_SSL_*" in said
    with pytest.raises(WrongJobError, match=SAID_BY_KAFKA[case]):
        check_topic(KafkaSettings.read(settings), "headrace.prompts.x")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("case", CASES)
def test_a_database_that_refuses_us_is_told_at_once(world: Encrypted, case: str) -> None:
    url = database(world, case)
    began = time.monotonic()
    code, said = command("migrate", DATABASE_URL=url)
    assert (code, SAID_BY_POSTGRES[case] in said) == (4, True), said
    with pytest.raises(UnreachableError, match=SAID_BY_POSTGRES[case]):
        Ledger(SecretStr(url), "reviews").has_finished()
    with pytest.raises(BackfillUnreachableError, match=SAID_BY_POSTGRES[case]), asking(SecretStr(url)):
        pass
    assert time.monotonic() - began < 10


def test_the_environment_can_ask_for_the_check_where_the_address_does_not(world: Encrypted) -> None:
    """As the production overlay does."""
    asked = {"DATABASE_URL": world.postgres.url, "PGSSLMODE": "verify-full"}
    assert command("migrate", **asked, PGSSLROOTCERT=world.ca)[0] == 0
    code, said = command("migrate", **asked, PGSSLROOTCERT=world.other_ca)
    assert (code, "certificate verify failed" in said) == (4, True), said


def test_a_worker_that_is_refused_ends_with_2_and_the_reason(world: Encrypted, tmp_path: Path) -> None:
    """At once, so that an orchestrator shows it, and all at the same time here."""
    fine = world.verified(world.postgres.url)
    command("migrate", DATABASE_URL=fine)
    refused = Fleet("unused", fine, tmp_path, "http://127.0.0.1:1/v1")
    wrong: list[tuple[dict[str, str], str]] = [
        *((dict(kafka_settings(world, case)), SAID_BY_KAFKA[case]) for case in CASES),
        *(({"DATABASE_URL": database(world, case)}, SAID_BY_POSTGRES[case]) for case in CASES),
    ]
    try:
        workers = [refused.start(1, **settings)[0] for settings, _ in wrong]
        for worker, (_, said) in zip(workers, wrong, strict=True):
            assert worker.end(60) == 2
            (told,) = [event for event in worker.events if event["event"] == "settings.wrong"]
            assert said in told["what"] or "check KAFKA_SECURITY_PROTOCOL" in told["what"], told
            assert "hunter2" not in worker.log.read_text()
    finally:
        refused.close()
