"""The whole pipeline at DEBUG over marked rows, with failures on the way: nothing that leaves it shows a mark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from control.report.requests import RequestTables, read_job
from tests import leaving
from tests.chaos.servers import Servers
from tests.fleet import ROOT, Fleet, wait_for
from tests.marks import EMAIL, KEY, MARKER, WIDE, Search
from tests.otlp import Receiver, receiver
from tests.simulated import Script, simulated
from tests.telling import tell

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

SUBMIT = Path(sys.executable).with_name("spark-submit")
ROWS = 120
# What every row of a run asks with: a part of the plan that Spark makes of the job.
SYSTEM = "SYSTEM-MARKER-93ab"
SCRIPT: Script = {
    "rules": [
        {"match": {"prompt_contains": "refuse me"}, "status": 400, "error": {"message": f"no {MARKER} {EMAIL} here"}},
        {"match": {"prompt_contains": "fail me", "attempts": [1]}, "status": 500, "body": f"broken: {MARKER} {WIDE}"},
        {"latency_ms": 20},
    ]
}


class Pipeline:
    """A fleet, and Spark jobs that are run as their users run them."""

    def __init__(self, fleet: Fleet, folder: Path, spans: Receiver) -> None:
        self.fleet, self.folder, self.spans = fleet, folder, spans
        self.search = Search()
        # The texts that all rows share, in the event log of the last run.
        self.shared = Search([SYSTEM])

    def job(self, name: str = "job.yaml", **changes: Any) -> Path:
        usual = {
            "job": self.fleet.job,
            "source": {"format": "parquet", "path": "rows"},
            "id": "id",
            "clean": {"columns": ["text"], "max_chars": 400, "on_overlong": "reject"},
            "prompt": {"system": f"Be kind. {SYSTEM}", "template": "Label: {text}"},
            "canary": {"rows": 20, "timeout_s": 120, "max_failed": 0.9},
            "target": {"format": "parquet", "path": "labelled"},
        }
        path = self.folder / name
        path.write_text(yaml.safe_dump(usual | changes, allow_unicode=True), encoding="utf8")
        return path

    def submit(self, program: str, job: Path, *conf: str) -> int:
        """Run a job at DEBUG with Spark's event log beside it; all that it says goes into a log."""
        name = f"{program}-{time.monotonic_ns()}"
        events = self.folder / "events" / name
        events.mkdir(parents=True)
        settings = ["spark.ui.enabled=false", "spark.eventLog.enabled=true", f"spark.eventLog.dir={events.as_uri()}"]
        settings += ["spark.eventLog.compress=false", "spark.sql.shuffle.partitions=2", *conf]
        words = [word for setting in settings for word in ("--conf", setting)]
        environ = {**self.fleet.env, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with (self.folder / f"{program}.log").open("ab") as log:
            start = [str(SUBMIT), "--master", "local[2]", *words, str(ROOT / program / "job.py"), "--job", str(job)]
            code = subprocess.run(start, env=environ, stdout=log, stderr=log, check=False, timeout=400).returncode
        self.shared = Search([SYSTEM])
        for path in (path for path in events.rglob("*") if path.is_file()):
            self.search.file(f"event log of {program}", path)
            self.shared.file(f"event log of {program}", path)
        return code


@pytest.fixture
def pipeline(shared: Servers, tmp_path: Path) -> Iterator[Pipeline]:
    shared.heal()
    texts = [f"{n} {MARKER} {EMAIL} {WIDE}" for n in range(ROWS)]
    texts[3:9] = [f"refuse me {text}" for text in texts[3:9]]
    texts[9:15] = [f"fail me {text}" for text in texts[9:15]]
    texts[15:18] = [text * 20 for text in texts[15:18]]
    (tmp_path / "rows").mkdir()
    table = pa.table({"id": [f"r-{n}" for n in range(ROWS)], "text": texts})
    parquet.write_table(table, tmp_path / "rows" / "a.parquet")
    settings = {"LLM_API_KEY": KEY, "LOG_LEVEL": "DEBUG", "OTEL_BSP_SCHEDULE_DELAY": "200"}
    with receiver() as to, simulated(SCRIPT) as endpoint:
        settings["OTEL_EXPORTER_OTLP_ENDPOINT"] = to.url
        database = shared.new_database(f"secrets_{os.urandom(4).hex()}")
        fleet = Fleet(shared.kafka.bootstrap_servers, database, tmp_path, endpoint.base_url, settings=settings)
        fleet.prepare(2)
        try:
            yield Pipeline(fleet, tmp_path, to)
        finally:
            fleet.close()


def test_nothing_that_leaves_the_pipeline_shows_a_mark(pipeline: Pipeline, request: pytest.FixtureRequest) -> None:
    fleet, folder, search = pipeline.fleet, pipeline.folder, pipeline.search
    fleet.start(1)
    fleet.start(1, LOG_FORMAT="text")
    fleet.publish_raw(b"poison", f"not json {MARKER} {EMAIL} {WIDE}".encode())
    # Spark quotes the value that it cannot cast, in its event log too.
    wrong = {"format": "parquet", "path": "rows", "where": "CAST(text AS INT) > 0"}
    assert pipeline.submit("producer", pipeline.job("cast.yaml", source=wrong), "spark.eventLog.enabled=false") == 1
    assert "CAST_INVALID_INPUT" in (folder / "producer.log").read_text()
    assert pipeline.submit("producer", pipeline.job(), "spark.log.level=INFO") == 0
    # The README says so: it is no place for a secret.
    assert pipeline.shared.hits, "what all rows share is part of Spark's plan"
    fleet.wait_until_ended(ROWS - 3)
    other = pipeline.job(prompt={"system": f"Be brief. {SYSTEM}", "template": "Say: {text}"})
    assert pipeline.submit("producer", other) == 0
    wait_for(lambda: fleet.lag() == 0, 120)
    assert pipeline.submit("backfill", other) == 0
    assert pipeline.shared.hits == []
    for worker in fleet.workers:
        worker.process.terminate()
        assert worker.end() == 0

    leaving.logs(search, folder)
    leaving.columns(search, fleet.database)
    leaving.exporters_page(search, fleet, folder)
    leaving.commands(search, fleet, folder)
    leaving.settings(search, fleet.env)
    job = folder / "job.yaml"
    compared = ["--against", RequestTables(read_job(job, fleet.job)).runs[0], "--job-file", str(job)]
    for more in ((), ("--json",)):
        ended = leaving.command(fleet, "report", fleet.job, *compared, *more)
        assert ended.exit_code == 0, ended.stderr
        search.text("headrace report --against", ended.stdout)
    search.headers("dead letter headers", [dict(letter.headers() or []) for letter in fleet.dead_letters()])
    search.text("traces", bytes(pipeline.spans.received))
    tell(request.config, "chaos", f"secrets: looked through {search.told()}")
    assert not search.hits, "\n".join(search.hits)
    assert {place: size for place, size in search.looked.items() if size < 20} == {}
    assert {"event log of producer", "event log of backfill", "log of producer", "log of backfill", "traces"} <= {
        *search.looked
    }
    assert leaving.no_json(fleet.workers[0].log) == []
    rows = fleet.rows("results")
    assert {row["status"] for row in rows} == {"succeeded", "failed"}
    assert all(MARKER in row["result"] for row in rows if row["status"] == "succeeded")
    assert any(MARKER in (line["detail"] or "") for line in fleet.rows("attempts"))
