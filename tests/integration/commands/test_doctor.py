"""`headrace doctor` on real services: all well, a wrong key, a user without rights, and everything away."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from sqlalchemy.engine import make_url
from typer.testing import CliRunner, Result

from control.cli import app
from tests.fleet import Fleet, fleet, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, simulated

pytestmark = pytest.mark.integration
KEY, WRONG_KEY, PASSWORD = "sk-canary-0123456789", "sk-canary-wrong-99", "hunter2-canary"
NOBODY = "127.0.0.1:1"


@pytest.fixture
def endpoint() -> Iterator[Simulated]:
    with simulated({"api_keys": [KEY], "models": ["simulated"]}) as running:
        yield running


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, tmp_path: Path) -> Iterator[Fleet]:
    database = postgres.new_database()
    with fleet(kafka.bootstrap_servers, database, tmp_path, endpoint.base_url, LLM_API_KEY=KEY) as made:
        yield made


def doctor(world: Fleet, *words: str, **settings: str) -> Result:
    mine = {name: None for name in os.environ if name.startswith(("KAFKA_", "LLM_"))}
    ended = CliRunner().invoke(app, ["doctor", *words], env={**mine, **world.env, **settings}, catch_exceptions=False)
    for secret in (KEY, WRONG_KEY, PASSWORD):
        assert secret not in ended.output
    return ended


def troubles(ended: Result) -> dict[str, Any]:
    """What is not well, by where."""
    found = json.loads(ended.stdout)["findings"]
    return {finding["about"]: finding for finding in found if finding["level"] != "ok"}


def test_where_all_is_well_every_line_says_so(world: Fleet, endpoint: Simulated, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        f"job: {world.job}\nsource: {{format: csv, path: in.csv}}\nid: id\n"
        'prompt: {template: "{text}"}\ntarget: {format: delta, path: out}\n'
    )
    (worker,) = world.start()
    words = ("--ask", "--job", str(job))
    wait_for(lambda: not troubles(doctor(world, "--json")), 40, lambda: doctor(world).output)
    ended = doctor(world, *words)
    assert ended.exit_code == 0, ended.output
    *lines, total = ended.stdout.splitlines()
    assert all(line.startswith("ok  ") for line in lines), ended.output
    assert total == f"0 wrong, 0 to look at, {len(lines)} well"
    for said in ("members: 1", "topics: 1, partitions each: 6", "lag 0", "seen in the last minute: 1"):
        assert said in ended.stdout
    assert f"endpoint simulated {endpoint.base_url}: lists model simulated" in ended.stdout
    assert "tokens, model simulated" in ended.stdout
    assert f"topic {world.topic}: is there, and workers read it" in ended.stdout
    worker.process.terminate()
    assert worker.end() == 0


def test_what_is_wrong_is_told_at_once_with_its_place(world: Fleet, postgres: PostgresService) -> None:
    """A wrong key, a compacted topic, no dead-letter topic, an open circuit, a user who may only read."""
    compacted = f"{world.topic}.compacted"
    client = AdminClient({"bootstrap.servers": world.kafka})
    (made,) = client.create_topics([NewTopic(compacted, 1, 1, config={"cleanup.policy": "compact"})]).values()
    made.result(30)
    user = f"u_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(world.database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'")
        connection.execute(f"GRANT USAGE ON SCHEMA headrace TO {user}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA headrace TO {user}")
        connection.execute(
            "INSERT INTO headrace.circuits (endpoint, opened_at, reason) VALUES ('llm.example', now(), 'quota')"
        )
    reader = make_url(world.database).set(username=user, password=PASSWORD).render_as_string(hide_password=False)
    ended = doctor(
        world,
        "--ask",
        "--json",
        DATABASE_URL=reader,
        LLM_API_KEY=WRONG_KEY,
        DEAD_LETTER_TOPIC=f"{world.job}.not-made",
    )
    assert ended.exit_code == 1, ended.output
    found = troubles(ended)
    assert "compacted" in found[f"topic {compacted}"]["said"]
    assert "is not there" in found[f"topic {world.job}.not-made"]["said"]
    assert f"user {user} may not INSERT, UPDATE" in found["postgres"]["said"]
    assert "quota" in found["circuit llm.example"]["said"]
    assert "refuses its key (401)" in found[f"endpoint simulated {world.base_url}"]["said"]
    assert "LLM_API_KEY" in found[f"endpoint simulated {world.base_url}"]["next_step"]
    assert "none was seen" in found["workers"]["said"]


def test_where_everything_is_away_each_is_told_of_in_time(tmp_path: Path) -> None:
    away = Fleet(NOBODY, f"postgresql://u:{PASSWORD}@{NOBODY}/d", tmp_path, f"http://{NOBODY}/v1")
    began = time.monotonic()
    ended = doctor(away, "--ask", "--json", LLM_API_KEY=KEY)
    assert time.monotonic() - began < 30
    assert ended.exit_code == 4, ended.output
    assert set(troubles(ended)) == {"kafka", "postgres", f"endpoint simulated http://{NOBODY}/v1"}
    assert all(trouble["next_step"] for trouble in troubles(ended).values())


def test_a_database_without_tables_and_wrong_settings_end_with_2(
    kafka: KafkaService, postgres: PostgresService, tmp_path: Path
) -> None:
    bare = Fleet(kafka.bootstrap_servers, postgres.new_database(), tmp_path, f"http://me:{KEY}@{NOBODY}/v1")
    ended = doctor(bare, "--json")
    assert ended.exit_code == 2, ended.output
    found = troubles(ended)
    assert found["postgres"]["next_step"] == "run `headrace migrate`"
    assert "LLM_BASE_URL" in found["settings"]["said"]
    assert "is not there" in found[f"topic {bare.dead_letter_topic}"]["said"]
