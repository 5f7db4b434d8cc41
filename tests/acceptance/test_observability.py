"""A real Prometheus looks on at two workers under a mixed load: every expression that is shipped finds its series."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from tests import leaving
from tests.boards import selectors, targets
from tests.exporting import exporter
from tests.fleet import Fleet, fleet, prompts, wait_for
from tests.marks import EMAIL, KEY, MARKER, WIDE, Search
from tests.prometheus import Server, program, prometheus
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, simulated

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]
ALERTS = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/prometheus/rules/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
RUN = "run-1"
GOOD, REJECTED, RETRIED, LIMITED = 200, 12, 20, 6
# One bad prompt in ten, one answer in ten at the second try, some refusals, then answers.
SCRIPT = {
    "rules": [
        {"match": {"prompt_contains": "refuse me"}, "status": 400, "error": {"message": f"no {MARKER} here"}},
        {"match": {"prompt_contains": "fail me once", "attempts": [1]}, "status": 500},
        {"name": "limited", "match": {"times": LIMITED}, "status": 429, "headers": {"Retry-After": "1"}},
        {"latency_ms": 50},
    ]
}
PRICE = {"input_per_million": 5, "output_per_million": 10}
# What finds no series here, each with its reason.
NO_MODEL_SERVER = "no model server of one's own runs here"
SILENT = {"vllm:": NO_MODEL_SERVER, "headrace_job_backfill_age_seconds": "nothing is joined here",
          "headrace_job_unjoined": "nothing is joined here",
          "topic:headrace_paused:max": "no job is paused"}  # fmt: skip


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Simulated]:
    with simulated(SCRIPT) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("observed")


@pytest.fixture(scope="module")
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, folder: Path) -> Iterator[Fleet]:
    models = folder / "models.yaml"
    served = {"base_url": endpoint.base_url, "model": "simulated", "api_key_env": "MARKED_KEY"}
    models.write_text(yaml.safe_dump({"models": {"simulated": {"endpoints": [served], "price": PRICE}}}))
    settings = {"MODELS_FILE": str(models), "LLM_BASE_URL": "", "MARKED_KEY": KEY, "LOG_LEVEL": "DEBUG"}
    with fleet(kafka.bootstrap_servers, postgres.new_database(), folder, endpoint.base_url, **settings) as made:
        with psycopg.connect(made.database, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO headrace.jobs (job, run, state, topic, budget_usd) VALUES (%s, %s, 'running', %s, 5)",
                (made.job, RUN, made.topic),
            )
        yield made


@pytest.fixture(scope="module")
def watched(world: Fleet, folder: Path) -> Iterator[Server]:
    """Prometheus, with the workers scraped once before anything happened; then all of the load has ended."""
    program("prometheus")
    world.start(2)
    ports = [worker.metrics_port for worker in world.workers]
    with (
        exporter(folder, world.database) as exporting,
        prometheus(folder, {"worker": ports, "exporter": [exporting.port]}) as found,
    ):
        wait_for(lambda: found.value("headrace_job_done_total") == 0, 30)
        wait_for(lambda: found.value("count(headrace_consumer_lag)") == 6, 60)
        wait_for(lambda: found.value('count(headrace_messages_total{outcome="failed"})') == 2, 30)
        publish_all_kinds(world)
        world.wait_until_ended(GOOD + REJECTED + RETRIED)
        yield found


def publish_all_kinds(world: Fleet) -> None:
    """Rows that succeed, fail, succeed at the second try, come twice, and cannot be read."""
    rejected = [{"id": f"bad-{n}", "prompt": "refuse me"} for n in range(REJECTED)]
    retried = [{"id": f"again-{n}", "prompt": f"fail me once, {n}"} for n in range(RETRIED)]
    good = prompts(GOOD)
    marks = f" {MARKER} {EMAIL} {WIDE}"
    budgeted = [
        {**one, "prompt": one["prompt"] + marks, "run": RUN, "params": {"max_tokens": 64}}
        for one in (*good, *rejected, *retried)
    ]
    world.publish([*budgeted, *budgeted[:30]])
    world.publish_raw(b"r-x", f"not json{marks}".encode())


def is_excused(name: str) -> bool:
    return any(name.startswith(beginning) for beginning in SILENT)


def test_every_expression_that_is_shipped_finds_its_series(watched: Server) -> None:
    ended = 'sum(increase(headrace_messages_total{outcome=~"succeeded|failed|duplicate|dead_letter"}[5m]))'
    wait_for(lambda: watched.value(ended) > GOOD + REJECTED + RETRIED + 30, 30, lambda: str(watched.value(ended)))
    wait_for(lambda: ("HeadraceDeadLetters", "firing") in watched.alerts(), 15, lambda: str(watched.alerts()))

    unexcused = [target for target in targets() if not any(is_excused(s.name) for s in selectors(target.filled()))]
    assert len(unexcused) > 50

    def silent() -> list[str]:
        empty = []
        for target in unexcused:
            values = [float(sample["value"][1]) for sample in watched.query(target.filled())]
            if not values or all(map(math.isnan, values)):
                empty.append(str(target))
        return empty

    wait_for(lambda: not silent(), 20, lambda: "\n".join(silent()))
    asked = {
        (rule["alert"], series.name, series.matchers)
        for rule in ALERTS
        for series in selectors(rule["expr"])
        if not is_excused(series.name)
    }
    for alert, name, matchers in asked:
        chosen = ", ".join(f'{label}=~"{value}"' for label, value in matchers)
        assert watched.query(f"{name}{{{chosen}}}"), f"{alert}: {name}{{{chosen}}}"
    for rule in ALERTS:
        watched.query(rule["expr"])


def test_the_load_shows_as_what_it_was(watched: Server) -> None:
    def grown(series: str) -> float:
        return watched.value(f"sum({series})")

    def seen() -> dict[str, float]:
        return {
            "succeeded": grown('headrace_messages_total{outcome="succeeded"}'),
            "failed": grown('headrace_messages_total{outcome="failed"}'),
            "duplicate": grown("headrace_deduplicated_total"),
            "dead letters": grown('headrace_dead_letters_total{reason="not_json"}'),
            "limited": grown('headrace_calls_total{outcome="rate_limited"}'),
        }

    expected = {
        "succeeded": GOOD + RETRIED,
        "failed": REJECTED,
        "duplicate": 30,
        "dead letters": 1,
        "limited": LIMITED,
    }
    wait_for(lambda: seen() == expected, 30, lambda: str(seen()))
    assert grown("headrace_rate_limited_seconds_total") > 0
    assert grown("headrace_cost_usd_total") > 0


def test_the_exporter_tells_what_the_tables_say(watched: Server, world: Fleet) -> None:
    rows = world.statuses()
    of_job = f'{{job="{world.job}"}}'
    wait_for(lambda: watched.value(f"headrace_job_done_total{of_job}") == rows["succeeded", None], 20)
    assert watched.value(f"sum(headrace_job_failed_total{of_job})") == REJECTED
    assert watched.value("headrace_workers_alive") == 2
    assert 0 < watched.value(f"headrace_job_budget_spent_usd{of_job}") < 5


def test_every_call_has_its_time(watched: Server) -> None:
    def grown(series: str) -> float:
        return watched.value(f"sum({series})")

    assert grown("gen_ai_client_operation_duration_seconds_count") == grown("headrace_calls_total")


def test_none_of_what_leaves_the_fleet_shows_a_mark(watched: Server, world: Fleet, folder: Path) -> None:
    assert MARKER in world.rows("results", "status = 'succeeded'")[0]["result"]
    assert MARKER in world.rows("attempts", "http_status = 400")[0]["detail"]
    search = Search()
    leaving.logs(search, folder)
    for worker in world.workers:
        search.text("pages of workers", worker.get("/metrics")[1])
        assert leaving.no_json(worker.log) == []
    leaving.columns(search, world.database)
    leaving.commands(search, world, folder)
    leaving.settings(search, world.env)
    (folder / "exporting").mkdir()
    leaving.exporters_page(search, world, folder / "exporting")
    search.headers("dead letter headers", [dict(letter.headers() or []) for letter in world.dead_letters()])
    assert not search.hits, "\n".join(search.hits)
    assert {place: size for place, size in search.looked.items() if size < 20} == {}
    assert len(search.looked) > 20, search.told()
