"""The last line of a run, whatever became of it, and the sum that it must hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from producer.arguments import Arguments
from producer.counts import Counts
from producer.job import Outcome, last_line
from producer.run import Run
from producer.settings import read_job, read_settings
from schemas.statuses import ExitCode

ROOT = Path(__file__).parents[3]
JOB = """
job: reviews
source: {format: parquet, path: rows}
id: id
prompt: {template: "{text}"}
target: {format: parquet, path: labelled}
lane: batch
"""


def run(folder: Path) -> Run:
    path = folder / "job.yaml"
    path.write_text(JOB)
    return Run(read_job(path), read_settings({}), Arguments(path))


def test_counts_come_in_one_line(tmp_path: Path) -> None:
    found = run(tmp_path)
    found.counts = Counts(9, 4, 3, 1, 1, 2, {"null_id": 3})
    line = last_line(Outcome(found), 12.345)

    assert "\n" not in line
    assert json.loads(line) == {
        "job": "reviews",
        "run": found.id,
        "read": 9,
        "published": 4,
        "rejected": 3,
        "deduplicated": 1,
        "skipped": 1,
        "truncated": 2,
        "rejected_by_reason": {"null_id": 3},
        "held_back": 0,
        "rules": {},
        "tiers": {},
        "seconds": 12.3,
        "exit": 0,
    }


def test_a_failure_before_the_job_is_known_has_its_line_too() -> None:
    line = json.loads(last_line(Outcome(exit_code=ExitCode.WRONG_SETTINGS, error="no such file\nand more"), 0.1))

    assert line["job"] is None
    assert (line["read"], line["published"]) == (0, 0)
    assert (line["exit"], line["error"]) == (2, "no such file\nand more")


def test_run_ids_sort_by_time_and_do_not_meet(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first.id != second.id
    assert first.id[:17] == f"{first.started:%Y%m%dT%H%M%SZ}-"


@pytest.mark.parametrize(
    ("counts", "balanced"),
    [
        (Counts(), True),
        (Counts(10, 4, 3, 2, 1), True),
        (Counts(10, 4, 3, 2, 0), False),
        (Counts(9, 4, 3, 2, 1), False),
        (Counts(20, 4, 3, 2, 1, held_back=10), True),
        (Counts(10, 4, 3, 2, 1, held_back=10), False),
    ],
)
def test_every_row_read_is_accounted_for(counts: Counts, balanced: bool) -> None:
    assert (counts.imbalance() is None) is balanced


def test_wrong_starts_end_with_exit_2_before_spark(tmp_path: Path) -> None:
    run(tmp_path)
    script = str(ROOT / "producer/job.py")
    for argv, problem in (
        (["--job", "job.yaml"], "lane: batch"),
        (["--job", "none.yaml"], "no such file"),
        ([], "--job"),
    ):
        ended = subprocess.run(
            [sys.executable, script, *argv],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": "/nonexistent"},
            capture_output=True,
            text=True,
            check=False,
        )
        line = json.loads(ended.stdout.splitlines()[-1])
        assert (ended.returncode, line["exit"]) == (2, 2), ended.stderr
        assert problem in line["error"]
        assert ended.stderr == f"producer: {line['error']}\n"


def test_a_model_that_nobody_serves_ends_with_exit_2_before_spark(tmp_path: Path) -> None:
    models, job = tmp_path / "models.yaml", tmp_path / "job.yaml"
    models.write_text("models: {small: {endpoints: [{base_url: 'http://a/v1', api_key_env: NOT_SET}]}}")
    job.write_text(JOB.replace("lane: batch", "routes: [{model: smal, escalate: {model: large}}]"))
    ended = subprocess.run(
        [sys.executable, str(ROOT / "producer/job.py"), "--job", str(job), "--dry-run"],
        env={"PYTHONPATH": str(ROOT), "PATH": "/nonexistent", "MODELS_FILE": str(models)},
        capture_output=True,
        text=True,
        check=False,
    )
    line = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.returncode, line["exit"]) == (2, 2), ended.stderr
    assert line["error"].splitlines() == [
        f"{job}: routes.0.model: {models} knows no model smal; it knows small",
        f"{job}: routes.0.escalate.model: {models} knows no model large; it knows small",
    ]
