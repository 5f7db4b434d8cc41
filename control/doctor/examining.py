"""Asks all services at the same time and judges what they say; one that is away stops no other check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from control.database import DatabaseRefusedError, DatabaseUnreachableError
from control.doctor import database, database_verdicts, endpoint_verdicts, endpoints, job, kafka, kafka_verdicts
from control.doctor.database import DatabaseFacts
from control.doctor.endpoints import Answer, Broken
from control.doctor.finding import Finding, away, missettled, wrong
from control.doctor.kafka import KafkaFacts
from control.doctor.settings import Server, Told, read
from control.status.reading import GONE_AFTER_SECONDS
from control.topics import KafkaUnreachableError
from schemas.settings import SettingsError

Replies: TypeAlias = tuple[Answer | Broken, Answer | Broken | None]
_AT_ONCE = 64


def examine(
    environ: Mapping[str, str], now: Callable[[], datetime], *, ask: bool = False, job_file: Path | None = None
) -> list[Finding]:
    """Check the settings, Kafka, Postgres, each endpoint and the job file; nothing is changed anywhere."""
    told = read(environ)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        in_kafka = pool.submit(_kafka, told)
        in_database = pool.submit(_database, told, now)
        replies = [(server, pool.submit(_endpoint, server, ask=ask)) for server in told.servers]
    stored, brokers = in_database.result(), in_kafka.result()
    findings = list(told.findings)
    findings += _of_kafka(told, brokers, stored)
    findings += database_verdicts.judge(stored) if isinstance(stored, DatabaseFacts) else stored
    findings += _of_endpoints(replies)
    if job_file is not None:
        topics = brokers.partitions if isinstance(brokers, KafkaFacts) else None
        findings += job.check(job_file, told, topics, now())
    return findings


def _kafka(told: Told) -> KafkaFacts | list[Finding]:
    if told.kafka is None or told.topics is None or told.group is None:
        return []
    try:
        return kafka.look(told.kafka, told.topics, told.group.group)
    except SettingsError as error:
        return [missettled("settings", said, "correct it") for said in error.problems]
    except KafkaUnreachableError as error:
        signs_in = told.kafka.security_protocol is not None
        step = "check KAFKA_BOOTSTRAP_SERVERS, that the broker is up, and "
        step += "KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_*, KAFKA_SSL_*" if signs_in else "KAFKA_SECURITY_PROTOCOL"
        return [away("kafka", f"cannot be reached: {error}", step)]


def _database(told: Told, now: Callable[[], datetime]) -> DatabaseFacts | list[Finding]:
    if told.database is None:
        return []
    try:
        return database.look(told.database, now)
    except SettingsError as error:
        return [missettled("settings", said, "percent-encode user and password") for said in error.problems]
    except DatabaseUnreachableError as error:
        return [away("postgres", f"cannot be reached: {error}", "check DATABASE_URL and that the server is up")]
    except DatabaseRefusedError as error:
        return [wrong("postgres", f"refuses: {error}", "check the rights of the user in DATABASE_URL")]


def _endpoint(server: Server, *, ask: bool) -> Replies:
    listing = endpoints.list_models(server)
    return listing, endpoints.ask(server) if ask and isinstance(listing, Answer) else None


def _of_kafka(
    told: Told, brokers: KafkaFacts | list[Finding], stored: DatabaseFacts | list[Finding]
) -> list[Finding]:
    if not isinstance(brokers, KafkaFacts):
        return brokers
    assert told.topics is not None
    assert told.group is not None
    alive = stored.workers if isinstance(stored, DatabaseFacts) else None
    workers = None if alive is None else sum(worker["seen_seconds_ago"] <= GONE_AFTER_SECONDS for worker in alive)
    return kafka_verdicts.judge(brokers, told.topics.prompts, told.topics.dead_letters, told.group.group, workers)


def _of_endpoints(replies: list[tuple[Server, Future[Replies]]]) -> Iterator[Finding]:
    for server, future in replies:
        listing, answer = future.result()
        yield endpoint_verdicts.listed(server, listing)
        if answer is not None:
            yield endpoint_verdicts.asked(server, answer, listing)
