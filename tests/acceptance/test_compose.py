"""`docker compose up worker --scale worker=8` for real, from a clean tree: scaled, watched, stopped, resumed, joined.

Skipped with the reason where no container engine answers; with `HEADRACE_TEST_DOCKER=1` that is a failure.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.acceptance.compose_stack import SECRETS, Stack, engine_or_skip, stack
from tests.architecture.compose_file import seconds, services
from tests.fleet import Fleet, prompts, wait_for
from tests.prometheus import Server
from tests.telling import tell

WORKERS = 8
ROWS = 2000
pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    engine_or_skip()


@pytest.fixture(scope="module")
def fleet_stack(_engine: None) -> Iterator[Stack]:
    """Eight workers on a model that takes its time."""
    tag = "headrace-worker:test"
    with stack(WORKER_IMAGE=tag, SIMULATOR_LATENCY_MS="1000", MAX_IN_FLIGHT="8") as made:
        made.build("worker", tag)
        made.up(WORKERS)
        yield made


@pytest.fixture(scope="module")
def world(fleet_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A job in the stack, reached from this machine."""
    made = Fleet(fleet_stack.kafka, fleet_stack.database, tmp_path_factory.mktemp("compose"), "unused")
    made.prepare(partitions=24)
    return made


def test_the_file_is_clean(fleet_stack: Stack) -> None:
    """Compose reads it without a warning."""
    assert fleet_stack.compose("config", "--quiet") == ""


def test_no_secret_stands_in_an_environment(fleet_stack: Stack) -> None:
    """Where `docker inspect` would show it, whatever the container."""
    secrets = [path.read_text().strip() for path in SECRETS.iterdir()]
    passwords = [secret for secret in (*secrets, make_url(fleet_stack.database).password) if secret]
    running = fleet_stack.everything()
    assert len(running) == WORKERS + len(("kafka", "postgres", "migrate", "simulator"))
    for container in running:
        shown = json.dumps([container.said["Config"]["Env"], container.said["Config"]["Cmd"]])
        assert not [password for password in passwords if password in shown]


def test_every_container_is_confined(fleet_stack: Stack) -> None:
    """As the engine has it, not as the file says: no capability beyond a server's few, no way to gain one, bounds."""
    for container in fleet_stack.everything():
        host = container.said["HostConfig"]
        assert host["CapDrop"] == ["ALL"]
        added = {name.removeprefix("CAP_") for name in host["CapAdd"] or ()}
        assert added <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
        assert [word.partition(":")[0].partition("=")[0] for word in host["SecurityOpt"]] == ["no-new-privileges"]
        assert not host["Privileged"]
        assert host["Memory"] > 0
        assert host["PidsLimit"] > 0
        for bound in (host["PortBindings"] or {}).values():
            assert {each["HostIp"] for each in bound} == {"127.0.0.1"}


def test_eight_workers_run_confined(fleet_stack: Stack) -> None:
    """What the file asks for is what the engine gives; a worker's root cannot be written, its /tmp can."""
    workers = fleet_stack.containers("worker")
    assert [worker.running for worker in workers] == [True] * WORKERS
    for worker in workers:
        host = worker.said["HostConfig"]
        assert (host["ReadonlyRootfs"], host["CapDrop"], host["Init"]) == (True, ["ALL"], True)
        assert host["Memory"] == 512 * 2**20
        assert not host["PortBindings"]
        assert not any("headrace-local-only" in value for value in worker.said["Config"]["Env"])
    program = (
        "import os; open('/tmp/x', 'w'); print(os.getuid(), os.access('/', os.W_OK), os.access('/opt', os.W_OK))"
    )
    assert fleet_stack.python("worker", program).split() == ["10001", "False", "False"]
    assert fleet_stack.python("worker", "import shutil; print(shutil.which('java'))").strip() == "None"


def test_prometheus_finds_all_eight_and_their_counters_are_the_rows(
    fleet_stack: Stack, world: Fleet, request: pytest.FixtureRequest
) -> None:
    """With the shipped configuration: workers by the service's name, whatever their number, and the exporter."""
    if reason := fleet_stack.lacks("prometheus"):
        pytest.skip(f"no image of Prometheus: {reason}")
    fleet_stack.observe()
    watched = Server(fleet_stack.prometheus)
    began = time.monotonic()
    assert world.publish(prompts(ROWS)) == ROWS
    world.wait_until_ended(ROWS, 240)
    took = time.monotonic() - began
    up, counted = 'count(up{job="worker"} == 1)', 'sum(headrace_messages_total{job="worker",outcome="succeeded"})'
    wait_for(lambda: watched.value(up) == WORKERS, 90, lambda: str(watched.query("up")))
    wait_for(lambda: watched.value(counted) >= ROWS, 60, lambda: str(watched.query(counted)))
    assert world.statuses() == {("succeeded", None): ROWS}
    assert watched.value(counted) == ROWS
    assert watched.value(f"count({counted.removeprefix('sum(')[:-1]} > 0)") == WORKERS
    told = f'sum(headrace_job_done_total{{job="{world.job}"}})'
    wait_for(lambda: watched.value(told) == ROWS, 60, lambda: str(watched.query('{job!="worker"}')[:5]))
    assert watched.value('up{job="exporter"}') == 1
    assert not [alert for alert in watched.alerts() if alert[1] == "firing"]
    say = f"{WORKERS} targets up; counters of the replicas {watched.value(counted):.0f}, rows {ROWS}, {took:.0f} s"
    tell(request.config, "compose", say)


def test_a_stop_in_the_middle_loses_nothing_and_pays_for_nothing_twice(
    fleet_stack: Stack, world: Fleet, request: pytest.FixtureRequest
) -> None:
    """2,000 more prompts from this machine; all eight drain with exit 0; the same eight finish the rest."""
    before = world.ended()
    assert fleet_stack.stats()["billed"] == before
    assert world.publish(prompts(ROWS, start=ROWS)) == ROWS
    wait_for(lambda: world.ended() >= before + ROWS // 5, 120, lambda: str(fleet_stack.stats()))
    began = time.monotonic()
    fleet_stack.compose("stop", "worker")
    took = time.monotonic() - began
    ended = world.ended()
    assert [worker.exit_code for worker in fleet_stack.containers("worker")] == [0] * WORKERS
    assert took < seconds(services()["worker"]["stop_grace_period"])
    assert before + ROWS // 5 <= ended < before + ROWS, "the stop came too late to be in the middle"
    assert fleet_stack.stats()["billed"] == ended

    fleet_stack.up(WORKERS)
    total = before + ROWS
    world.wait_until_ended(total, 240)
    assert world.statuses() == {("succeeded", None): total}
    stats = fleet_stack.stats()
    assert (stats["distinct_ids"], stats["billed"], stats["duplicate_bills"]) == (total, total, 0)
    assert len({row["worker"] for row in world.rows("results")}) > WORKERS
    _metrics_add_up(fleet_stack, total - ended)
    say = f"stopped after {ended - before} of {ROWS} in {took:.1f} s, all {WORKERS} with exit 0; rows, calls: {total}"
    tell(request.config, "compose", say)


def _metrics_add_up(made: Stack, messages: int) -> None:
    """Every worker is found by the service's name, as Prometheus does it, and together they tell the whole."""
    program = """
import re, socket, urllib.request as u
hosts = {each[4][0] for each in socket.getaddrinfo("worker", 9400, socket.AF_INET)}
ask = lambda host, page: u.urlopen(f"http://{host}:9400/{page}", timeout=5).read().decode()
line = re.compile(r'^headrace_messages_total{outcome="succeeded"} (.+)$', re.M)
print(len(hosts), {ask(host, "readyz").strip() for host in hosts},
      int(sum(float(line.search(ask(host, "metrics"))[1]) for host in hosts)), sep=";")
"""
    assert made.python("simulator", program).strip() == f"{WORKERS};{{'ok'}};{messages}"


def test_servers_stop_cleanly_and_keep_their_data(fleet_stack: Stack, world: Fleet) -> None:
    """A stop reaches Postgres and Kafka themselves; the next start goes on where they were."""
    fleet_stack.compose("stop")
    assert [each.exit_code for each in fleet_stack.containers("postgres")] == [0]
    assert [each.exit_code for each in fleet_stack.containers("simulator")] == [0]
    assert [each.exit_code for each in fleet_stack.containers("kafka")] == [143]
    fleet_stack.up(2)
    ended = world.ended()
    assert world.publish(prompts(ROWS + 20, start=ROWS)) == ROWS + 20
    world.wait_until_ended(ended + 20, 60)
    assert fleet_stack.stats()["billed"] == 20, "the first rows are not asked again"


def test_a_table_goes_through_from_inside_the_network(fleet_stack: Stack, tmp_path: Path) -> None:
    """The example by the two one-shot services: published, answered, joined into a Delta table, once."""
    fleet_stack.build("spark", "headrace-spark:test")
    jobs = replace(fleet_stack, settings={**fleet_stack.settings, "SPARK_IMAGE": "headrace-spark:test"})
    produced = jobs.job("producer", "--job", "reviews.yaml")
    assert (produced["read"], produced["published"], produced["exit"]) == (20, 20, 0)
    world = Fleet(jobs.kafka, jobs.database, tmp_path, "unused", job="reviews")
    world.wait_until_ended(20, 60)
    first = jobs.job("backfill", "--job", "reviews.yaml")
    assert (first["rows"], first["joined"], first["written"], first["exit"]) == (20, 20, 20, 0)
    second = jobs.job("backfill", "--job", "reviews.yaml")
    assert (second["written"], second["exit"]) == (0, 0)
    inside = "import shutil; print(*map(shutil.which, ('java', 'javac')))"
    shown = jobs.compose("run", "--rm", "-T", "--entrypoint", "python3", "backfill", "-c", inside).split()
    assert shown[0] != "None"
    assert shown[1] == "None", "a runtime, not a development kit"
