"""What each command says, and with which exit code it ends, when something outside it is wrong."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fleet import Fleet, Worker, fleet, prompts, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import simulated
from worker.app import App
from worker.errors import WrongSettingsError
from worker.settings import WorkerSettings

ROOT = Path(__file__).resolve().parents[3]
# Nothing listens on the lowest port of loopback.
NOBODY = "127.0.0.1:1"
ELSEWHERE = {"KAFKA_BOOTSTRAP_SERVERS": NOBODY, "DATABASE_URL": f"postgresql://x@{NOBODY}/x"}
SECRET = "sk-canary-0123456789"
pytestmark = pytest.mark.integration


def run(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "KAFKA_", "DATABASE"))}
    return subprocess.run(  # noqa: PLW1510
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**clean, **settings},
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_a_worker_without_settings_names_what_it_needs() -> None:
    ended = run("worker")
    assert ended.returncode == 2
    assert "LLM_BASE_URL" in ended.stderr
    assert "MODELS_FILE" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_worker_names_every_wrong_setting_at_once_and_shows_no_secret() -> None:
    began = time.monotonic()
    ended = run(
        "worker",
        LLM_BASE_URL="ftp://model",
        LLM_API_KEY=f"{SECRET}\nand more",
        MAX_IN_FLIGHT="many",
        KAFKA_SECURITY_PROTOCOL="TLS",
        KAFKA_CONSUMER_CONF="enable.auto.commit=true",
        DATABASE_URL="mysql://root:hunter2@db/x",
        DEAD_LETTER_TOPIC="headrace.prompts.dead",
    )
    assert time.monotonic() - began < 10
    assert ended.returncode == 2
    for name in (
        "LLM_BASE_URL",
        "LLM_API_KEY",
        "MAX_IN_FLIGHT",
        "KAFKA_SECURITY_PROTOCOL",
        "KAFKA_CONSUMER_CONF",
        "DATABASE_URL",
        "DEAD_LETTER_TOPIC",
    ):
        assert sum(name in line for line in ended.stderr.splitlines()) == 1, ended.stderr
    assert SECRET not in ended.stderr
    assert "hunter2" not in ended.stderr


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (("worker",), {"KAFKA_CONSUMER_CONF": "no.such.property=1", "LLM_BASE_URL": "http://localhost:1/v1"}),
        (("worker",), {"KAFKA_PRODUCER_CONF": "no.such.property=1", "LLM_BASE_URL": "http://localhost:1/v1"}),
        (("control", "topics"), {"KAFKA_SSL_CA_LOCATION": "/no/such/ca", "KAFKA_SECURITY_PROTOCOL": "SSL"}),
    ],
)
def test_properties_that_the_kafka_client_does_not_take_are_one_line(
    words: tuple[str, ...], settings: Mapping[str, str]
) -> None:
    ended = run(*words, **settings)
    assert ended.returncode == 2, ended.stderr
    assert "kafka: " in ended.stderr.strip().splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_a_malformed_models_file_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("models:\n  small:\n    endpoints: [{base_url: nowhere, rpm: -1}]\n    prise: 1\n")
    ended = run("worker", MODELS_FILE=str(path))
    assert ended.returncode == 2
    said = ended.stderr
    assert f"{path}: models.small.endpoints.0.base_url: must look like http://host:8000/v1" in said
    assert "models.small.endpoints.0.rpm" in said
    assert "models.small.prise: unknown name" in said
    path.write_text("models: [\n")
    assert "line 2" in run("worker", MODELS_FILE=str(path)).stderr


def test_a_taken_metrics_port_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = run("worker", LLM_BASE_URL="http://localhost:1/v1", METRICS_PORT=port)
    assert ended.returncode == 2
    assert ended.stderr.strip().splitlines()[-1].startswith(f"METRICS_PORT {port}")


def test_after_the_last_line_of_a_worker_that_cannot_start_no_client_speaks() -> None:
    async def start(port: int) -> None:
        await App(
            WorkerSettings({"LLM_BASE_URL": "http://localhost:1/v1", "METRICS_PORT": str(port)} | ELSEWHERE)
        ).run()

    before = set(threading.enumerate())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(WrongSettingsError, match="METRICS_PORT"):
            asyncio.run(start(taken.getsockname()[1]))
    assert "dead-letters" not in {thread.name for thread in set(threading.enumerate()) - before}


@pytest.mark.parametrize(
    ("words", "settings", "names"),
    [
        (("control", "migrate"), {"DATABASE_URL": f"postgresql://x@{NOBODY}/x"}, "DATABASE_URL"),
        (("control", "topics"), {"KAFKA_BOOTSTRAP_SERVERS": NOBODY}, "KAFKA_BOOTSTRAP_SERVERS"),
    ],
)
def test_an_operator_command_that_reaches_nobody_ends_with_4(
    words: tuple[str, ...], settings: Mapping[str, str], names: str
) -> None:
    ended = run(*words, **settings)
    assert ended.returncode == 4
    assert names in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_an_operator_command_with_a_wrong_setting_ends_with_2() -> None:
    ended = run("control", "migrate", DATABASE_URL="nonsense")
    assert ended.returncode == 2
    assert ended.stderr.startswith("settings: DATABASE_URL must look like postgresql://")


def test_a_worker_waits_for_its_services_says_so_and_stops_when_told(tmp_path: Path) -> None:
    waiting = Fleet(NOBODY, f"postgresql://headrace:{SECRET}@{NOBODY}/headrace", tmp_path, "http://127.0.0.1:1/v1")
    (worker,) = waiting.start()
    try:
        event = wait_for(lambda: _event(worker, "database.waiting"), 20)
        assert "headrace migrate" in event["next"]
        assert worker.get("/readyz") == (503, "database: has not answered yet\n") or worker.get("/readyz")[0] == 503
        assert worker.get("/healthz")[0] == 200
        worker.process.terminate()
        assert worker.end(10) == 0
        assert SECRET not in worker.log.read_text()
    finally:
        waiting.close()


def test_a_schema_from_the_future_is_refused(postgres: PostgresService, tmp_path: Path) -> None:
    import psycopg

    database = postgres.new_database()
    with simulated() as endpoint:
        later = Fleet("127.0.0.1:1", database, tmp_path, endpoint.base_url)
        from control.migrate import migrate
        from schemas.settings import DatabaseSettings

        migrate(DatabaseSettings(url=database))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE headrace.alembic_version SET version_num = '9999'")
        (worker,) = later.start()
        assert worker.end(20) == 2
        assert "deploy a newer worker" in worker.log.read_text()


def test_a_base_url_that_leads_nowhere_is_refused(
    kafka: KafkaService, postgres: PostgresService, tmp_path: Path
) -> None:
    with simulated() as endpoint:
        wrong = endpoint.base_url.removesuffix("/v1") + "/openai"
        with fleet(kafka.bootstrap_servers, postgres.new_database(), tmp_path, wrong) as made:
            made.publish(prompts(3))
            (worker,) = made.start()
            assert worker.end(60) == 2
            assert "check LLM_BASE_URL" in worker.log.read_text()
            assert made.ended() == 0


def _event(worker: Worker, name: str) -> dict[str, str] | None:
    return next((event for event in worker.events if event["event"] == name), None)
