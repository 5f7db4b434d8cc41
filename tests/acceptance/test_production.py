"""The production overlay for real: containers against a Kafka and a Postgres that want TLS and a user a program.

The servers run on this machine and the containers in its network; all else is as the two files say. Skipped with the
reason where no container engine answers, or no Docker Compose that can merge them.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet
from sqlalchemy.engine import make_url

from deploy.local import ports
from tests.acceptance.compose_stack import EVERYTHING, Stack, engine_or_skip, stack
from tests.composed import BASE, PRODUCTION, no_compose
from tests.encrypted import PASSWORD, Encrypted, encrypted
from tests.fleet import Fleet, prompts, wait_for
from tests.roles import GROUPS, Roles, made
from tests.simulated import Simulated, simulated

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(1500)]
ROWS = 60
JOB, TABLE = "reviews", "table"
KEY = "sk-canary-production"


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    engine_or_skip(no_compose())


@pytest.fixture(scope="module")
def servers(_engine: None) -> Iterator[Encrypted]:
    with encrypted() as running:
        yield running


@pytest.fixture(scope="module")
def roles(servers: Encrypted) -> Roles:
    """Made by the administrator; there are no tables yet."""
    return made(servers.postgres.url)


@pytest.fixture(scope="module")
def endpoint(_engine: None) -> Iterator[Simulated]:
    with simulated() as running:
        yield running


@pytest.fixture(scope="module")
def production(servers: Encrypted, roles: Roles, endpoint: Simulated) -> Iterator[Stack]:
    """The stack with its secrets and models, not up yet."""
    tags = {name: f"headrace-{name}:test" for name in ("worker", "spark")}
    secrets, models, jobs = (servers.folder / name for name in ("secrets", "models", "jobs"))
    for folder in (secrets, models, jobs):
        folder.mkdir()
    for group in GROUPS:
        # Without a word of TLS: that the server is checked is the overlay's doing.
        (secrets / f"{group}-database-url").write_text(roles.urls[f"headrace_{group}"])
        (secrets / f"{group}-kafka-password").write_text(PASSWORD)
    (secrets / "llm-api-key").write_text(KEY)
    endpoint.set_script({"api_keys": [KEY]})
    for name in ("postgres", "kafka"):
        (secrets / f"{name}-ca.pem").write_bytes(Path(servers.ca).read_bytes())
    one = {"base_url": endpoint.base_url, "model": "simulated", "api_key_env": "LLM_API_KEY"}
    (models / "models.yaml").write_text(yaml.safe_dump({"models": {"simulated": {"endpoints": [one]}}}))
    exporter = ports.choose(("exporter",), {})["exporter"]
    local = servers.folder / "local.yml"
    here = {"network_mode": "host"}
    alone = {**here, "healthcheck": {"disable": True}}
    services = {
        "migrate": here,
        "producer": here,
        "backfill": here,
        "worker": {**alone, "environment": {"METRICS_HOST": "127.0.0.1", "METRICS_PORT": "0"}},
        "exporter": {**alone, "environment": {"EXPORTER_HOST": "127.0.0.1", "EXPORTER_PORT": str(exporter)}},
    }
    local.write_text(yaml.safe_dump({"services": services}))
    settings = {
        "COMPOSE_FILE": f"{BASE.name}:{PRODUCTION.relative_to(BASE.parent)}:{local}",
        "KAFKA_BOOTSTRAP_SERVERS": servers.brokers,
        "WORKER_IMAGE": tags["worker"],
        "SPARK_IMAGE": tags["spark"],
        "HEADRACE_JOBS": str(jobs),
        "HEADRACE_MODELS": str(models),
        "HEADRACE_SECRETS": str(secrets),
        "EXPORTER": str(exporter),
    }
    with stack(**settings) as found:
        for name, tag in tags.items():
            found.build(name, tag)
        yield found


def test_two_workers_answer_as_users_of_their_own(
    production: Stack, servers: Encrypted, roles: Roles, tmp_path: Path
) -> None:
    """Tables and topics are made by their owners, rows answered and told of, and a stop drains."""
    production.up(2)
    fleet = Fleet(servers.kafka.bootstrap_servers, roles.urls["headrace_owner"], tmp_path, "", job=JOB)
    fleet.make_topics()
    assert fleet.publish(prompts(ROWS)) == ROWS
    fleet.wait_until_ended(ROWS, 120)
    assert fleet.statuses() == {("succeeded", None): ROWS}

    production.compose("--profile", "observability", "up", "-d", "--no-deps", "exporter")
    page = f"http://127.0.0.1:{production.settings['EXPORTER']}/metrics"
    told = f'headrace_job_done_total{{job="{JOB}"}} {ROWS}.0'
    wait_for(lambda: told in _page(page), 30, lambda: _page(page))

    users = "SELECT DISTINCT usename FROM pg_stat_activity WHERE usename LIKE 'headrace\\_%'"
    with psycopg.connect(servers.postgres.url) as connection:
        assert {row[0] for row in connection.execute(users)} >= {"headrace_worker", "headrace_reader"}
        query = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = %s"
        assert connection.execute(query, ("headrace_worker",)).fetchone() == (True,)


def test_a_table_goes_through_by_users_of_their_own(
    production: Stack, servers: Encrypted, roles: Roles, tmp_path: Path
) -> None:
    """Producer and backfill in containers: they read their secrets from files, and may do what they need."""
    ids = [f"t-{n}" for n in range(ROWS)]
    folder = Path(production.settings["HEADRACE_JOBS"])
    parquet.write_table(pa.table({"id": ids, "text": ids}), folder / "rows.parquet")
    job = {"job": TABLE, "id": "id", "prompt": {"template": "Label: {text}"}}
    job |= {"source": {"format": "parquet", "path": "rows.parquet"}}
    job |= {"target": {"format": "delta", "path": "/warehouse/labelled"}}
    (folder / "table.yaml").write_text(yaml.safe_dump(job))
    produced = production.job("producer", "--job", "table.yaml")
    assert (produced["published"], produced["exit"]) == (ROWS, 0)
    fleet = Fleet(servers.kafka.bootstrap_servers, roles.urls["headrace_owner"], tmp_path, "", job=TABLE)
    fleet.wait_until_ended(ROWS, 120)
    joined = production.job("backfill", "--job", "table.yaml")
    assert (joined["rows"], joined["joined"], joined["written"], joined["exit"]) == (ROWS, ROWS, ROWS, 0)


def test_no_secret_is_shown_and_a_stop_drains(production: Stack, roles: Roles) -> None:
    """Not by the engine, of any container, nor in the merged file, nor in a log."""
    everything = production.everything()
    assert len(everything) == len(("migrate", "worker", "worker", "exporter", "producer", "backfill"))
    given = {str(make_url(url).password) for url in roles.urls.values()} | {PASSWORD, KEY}
    shown = [json.dumps(container.said) for container in everything]
    shown += [production.compose(*EVERYTHING, *words) for words in (("config",), ("logs", "--no-color"))]
    assert not [secret for secret in given for text in shown if secret in text]
    production.compose("stop", "worker")
    assert [worker.exit_code for worker in production.containers("worker")] == [0, 0]


def test_a_wrong_authority_stops_everything_before_it_begins(production: Stack, servers: Encrypted) -> None:
    """With the reason in the log, and the exit code of what cannot be reached."""
    authority = servers.folder / "secrets" / "postgres-ca.pem"
    right = authority.read_bytes()
    authority.write_bytes(Path(servers.other_ca).read_bytes())
    try:
        with pytest.raises(AssertionError, match="didn't complete successfully: exit 4"):
            production.up(1)
        assert "certificate verify failed" in production.compose("logs", "--no-log-prefix", "--tail", "1", "migrate")
    finally:
        authority.write_bytes(right)


def _page(url: str) -> str:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError as error:
        return str(error)
