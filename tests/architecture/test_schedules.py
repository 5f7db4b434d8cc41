"""The examples of schedules: they name files that exist, options that the jobs take, and run one at a time."""

from __future__ import annotations

import ast
import re
import sys
import types
from typing import Any

import pytest

from backfill import arguments as backfill
from producer import arguments as producer
from tests.architecture.compose_file import ROOT

FOLDER = ROOT / "examples" / "schedules"


class Recorded:
    """Stands for a class of Airflow, which is not installed here: keeps what it is made with."""

    made: list[tuple[str, dict[str, Any]]]

    def __init__(self, *words: str, **options: Any) -> None:
        self.made.append((words[0] if words else options["task_id"], options))

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What the example makes, in order: each DAG, then its task."""
    found: list[tuple[str, dict[str, Any]]] = []
    recorded = type("Recorded", (Recorded,), {"made": found})
    names = {"airflow.sdk": "DAG", "airflow.providers.apache.spark.operators.spark_submit": "SparkSubmitOperator"}
    for name, member in names.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            if path not in sys.modules:
                monkeypatch.setitem(sys.modules, path, types.ModuleType(path))
        setattr(sys.modules[name], member, recorded)
    source = (FOLDER / "airflow_dag.py").read_text(encoding="utf8")
    exec(compile(ast.parse(source), "airflow_dag.py", "exec"), {})
    return found


def test_airflow_runs_one_at_a_time_and_none_for_the_past(made: list[tuple[str, dict[str, Any]]]) -> None:
    dags = [options for name, options in made if name.startswith("headrace_")]
    assert len(dags) == 2
    assert all((options["catchup"], options["max_active_runs"]) == (False, 1) for options in dags)
    assert all(options["schedule"] for options in dags)


def test_airflow_starts_the_jobs_with_options_that_they_take(made: list[tuple[str, dict[str, Any]]]) -> None:
    tasks = {name: options for name, options in made if not name.startswith("headrace_")}
    assert tasks.keys() == {"publish", "backfill"}
    assert producer.parse(tasks["publish"]["application_args"]).job
    assert backfill.parse(tasks["backfill"]["application_args"]).job
    for options in tasks.values():
        assert (ROOT / options["application"].removeprefix("/opt/headrace/")).is_file()
    assert tasks["publish"]["retries"] == 0


def test_cron_locks_and_starts_the_job_with_options_that_it_takes() -> None:
    lines = (FOLDER / "crontab").read_text(encoding="utf8").splitlines()
    (entry,) = [line for line in lines if re.match(r"[\d*]", line)]
    minute, hour, day, month, weekday, command = entry.split(maxsplit=5)
    assert (minute, hour, day, month, weekday) == ("*/15", "*", "*", "*", "*")
    words = command.split(" >> ")[0].split()
    assert words[:2] == ["flock", "-n"]
    script = words.index("/opt/headrace/backfill/job.py")
    assert backfill.parse(words[script + 1 :]).job
    assert "%" not in entry, "cron reads a percent sign as a line break"
