"""The two Spark jobs as one-shot containers: a Parquet table goes through whole, with secrets of its own.

Kafka is the image of `kafka.Dockerfile`. Skipped with the reason where no container engine answers; with
`HEADRACE_TEST_DOCKER=1` that is a failure.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from tests.acceptance.compose_stack import EVERYTHING, Container, Stack, engine_or_skip, stack
from tests.fleet import Fleet
from tests.telling import tell

ROWS = 300
pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(2400)]


@dataclass(frozen=True)
class World:
    """A stack of one worker, the folder with its jobs, and every secret that it was given."""

    stack: Stack
    jobs: Path
    secrets: tuple[str, ...]

    def fleet(self, job: str) -> Fleet:
        """The results of a job."""
        return Fleet(self.stack.kafka, self.stack.database, self.jobs, "unused", job=job)

    def published(self, job: str, file: str, rows: int) -> dict[str, Any]:
        """Run the producer on one more file of a job, and wait for its answers; gives its last line."""
        names = [f"{file}-{n}" for n in range(rows)]
        folder = self.jobs / job
        folder.mkdir(exist_ok=True)
        table = pa.table({"review_id": names, "text": [f"The kettle of {name} leaks." for name in names]})
        parquet.write_table(table, folder / f"{file}.parquet")
        target = {"format": "delta", "path": f"/warehouse/{job}_labelled"}
        said: dict[str, Any] = {
            "job": job,
            "source": {"format": "parquet", "path": job},
            "id": "review_id",
            "target": target,
        }
        said |= {"prompt": {"template": "Review: {text}\nLabel:"}, "incremental": True}
        (self.jobs / f"{job}.yaml").write_text(yaml.safe_dump(said))
        fleet = self.fleet(job)
        before = fleet.ended()
        last = self.stack.job("producer", "--job", f"{job}.yaml")
        fleet.wait_until_ended(before + rows, 180)
        return last


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Started with passwords and a key that nobody knows, each in a file."""
    engine_or_skip()
    folder = tmp_path_factory.mktemp("compose-jobs")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    password, key = f"pw-{uuid.uuid4().hex}", f"sk-{uuid.uuid4().hex}"
    held = {
        "POSTGRES_PASSWORD": password,
        "DATABASE_URL": f"postgresql://headrace:{password}@postgres:5432/headrace",
        "LLM_API_KEY": key,
    }
    files = {f"HEADRACE_{name}_FILE": folder / name.lower() for name in held}
    for path, secret in zip(files.values(), held.values(), strict=True):
        path.write_text(f"{secret}\n")
    jobs = folder / "jobs"
    jobs.mkdir()
    tags = {f"{name.upper()}_IMAGE": f"headrace-{name}:test" for name in ("worker", "spark", "kafka")}
    with stack(HEADRACE_JOBS=str(jobs), **tags, **{name: str(path) for name, path in files.items()}) as made:
        for name in ("worker", "spark", "kafka"):
            made.build(name, tags[f"{name.upper()}_IMAGE"])
        made.up(1)
        _ask_for_the_key(made, key)
        yield World(made, jobs, (password, key))


def _ask_for_the_key(made: Stack, key: str) -> None:
    """From now on the simulated model answers nobody without it."""
    script = json.dumps({"api_keys": [key]})
    request = f'u.Request("http://127.0.0.1:8090/_sim/script", data={script.encode()!r}, method="PUT")'
    made.python("simulator", f"import urllib.request as u; u.urlopen({request})")


def test_a_parquet_table_is_published_answered_and_joined_once(
    world: World, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """By two one-shot services: as many rows at each step, and as many calls; a second backfill writes nothing."""
    produced = world.published("once", "first", ROWS)
    assert (produced["read"], produced["published"], produced["exit"]) == (ROWS, ROWS, 0)
    assert world.fleet("once").statuses() == {("succeeded", None): ROWS}
    first = world.stack.job("backfill", "--job", "once.yaml")
    assert (first["rows"], first["joined"], first["written"], first["exit"]) == (ROWS, ROWS, ROWS, 0)
    second = world.stack.job("backfill", "--job", "once.yaml")
    assert (second["joined"], second["written"], second["exit"]) == (ROWS, 0, 0)
    found = _table(world.stack.containers("backfill")[0], "once_labelled", tmp_path)
    assert (len(found), len({row["review_id"] for row in found})) == (ROWS, ROWS)
    answers = {row["id"]: row["result"] for row in world.fleet("once").rows("results")}
    assert {row["review_id"]: row["llm_result"] for row in found} == answers
    assert world.stack.stats()["billed"] == ROWS
    took = f"{produced['seconds']:.0f} and {first['seconds']:.0f} s"
    say = f"Parquet: published, answered, joined {ROWS}, in {took}; written again 0"
    tell(request.config, "compose", say)


def test_a_spark_job_is_confined(world: World) -> None:
    """As the engine has it and as the program finds it: a number, no capability, a root that cannot be written."""
    ended = [*world.stack.containers("producer"), *world.stack.containers("backfill")]
    assert ended
    for container in ended:
        host = container.said["HostConfig"]
        assert container.said["Config"]["User"] == "10001:10001"
        assert (host["ReadonlyRootfs"], host["CapDrop"], host["CapAdd"]) == (True, ["ALL"], None)
        assert [option.partition(":")[0] for option in host["SecurityOpt"]] == ["no-new-privileges"]
        assert (host["Privileged"], host["Init"], container.exit_code) == (False, True, 0)
    program = """
import os, re
status = open("/proc/self/status").read()
open("/tmp/x", "w"), open("/warehouse/x", "w"), os.remove("/warehouse/x")
print(os.getuid(), os.getgid(), *re.findall(r"(?:CapEff|CapBnd|NoNewPrivs):\\t(\\w+)", status),
      *(os.access(path, os.W_OK) for path in ("/", "/app", "/opt", "/jobs", "/run/secrets")))
"""
    inside = world.stack.compose("run", "--rm", "-T", "--entrypoint", "python3", "backfill", "-c", program).split()
    assert inside == ["10001", "10001", "0" * 16, "0" * 16, "1", *["False"] * 5]


def test_nothing_that_can_be_looked_at_shows_a_secret(world: World) -> None:
    """Not the engine's word of any container, not the merged file, not a log; and all of them were used above."""
    everything = world.stack.everything()
    services = {container.said["Config"]["Labels"]["com.docker.compose.service"] for container in everything}
    assert services == {"kafka", "postgres", "simulator", "migrate", "worker", "producer", "backfill"}
    shown = [json.dumps(container.said) for container in everything]
    shown += [world.stack.compose(*EVERYTHING, *words) for words in (("config",), ("logs", "--no-color"))]
    assert not [secret for secret in world.secrets for text in shown if secret in text]


def _table(container: Container, name: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table in the warehouse, by its log: files that were added and not removed."""
    container.copy(f"/warehouse/{name}", folder)
    added: set[str] = set()
    for commit in sorted((folder / name / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        added -= {action["remove"]["path"] for action in actions if "remove" in action}
        added |= {action["add"]["path"] for action in actions if "add" in action}
    return [row for path in added for row in parquet.read_table(folder / name / path).to_pylist()]
