"""The demo's story: stack, model, fleet, producer, answers, backfill, check, numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from deploy.demo import local_model
from deploy.demo.check import check_labels, requests, warehouse_rows
from deploy.demo.errors import DemoError
from deploy.demo.place import JOB, ROOT, Place
from deploy.demo.programs import Program, spark_submit
from deploy.demo.progress import Calls, Progress
from deploy.demo.texts import write_texts
from deploy.demo.voice import Voice
from deploy.local.home import Home

WORKERS = 2
_START_SECONDS = 120.0


@dataclass
class Summary:
    """What a demo has done, stage by stage."""

    source_rows: int = 0
    produced: dict[str, Any] = field(default_factory=dict)
    ended: int = 0
    failed: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    calls: Calls = field(default_factory=Calls)
    backfilled: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    checked: int | None = None


class Demo:
    """One demo from start to end; `model` is `sim` or `local`, `most` the number of texts (None is all)."""

    def __init__(self, model: str, most: int | None, voice: Voice, place: Place | None = None) -> None:
        self._model = model
        self._most = most
        self._voice = voice
        self._place = place or Place.of(model)

    def run(self) -> Summary:
        """Carry texts through every stage; raises `DemoError`, or the local stack's own errors."""
        summary = Summary()
        self._place.prepare()
        with self._voice.stage("Texts"):
            summary.source_rows = write_texts(self._place.data, self._most)
        with ExitStack() as stack:
            env = stack.enter_context(self._servers())
            endpoint = stack.enter_context(self._endpoint())
            fleet = {**env, **endpoint}
            workers = stack.enter_context(self._workers(fleet))
            self._answer(summary, env, workers)
            with self._voice.stage("Backfill: answers into the table, by Spark"):
                summary.backfilled = self._spark("backfill", env)
            summary.rows = warehouse_rows(self._place.warehouse)
            self._check(summary, fleet)
        return summary

    @contextmanager
    def _servers(self) -> Iterator[Mapping[str, str]]:
        home = Home(self._place.folder)
        with home.alone():
            servers = home.stack()
            try:
                with self._voice.stage("Kafka and Postgres (the first time: 44 MB of downloads)"):
                    servers.start()
                yield servers.env
            finally:
                servers.stop()

    @contextmanager
    def _endpoint(self) -> Iterator[Mapping[str, str]]:
        simulated = self._model == "sim"
        words = ["-m", "simulator"] if simulated else ["-m", "deploy.demo.local_model"]
        latency = {"SIMULATOR_LATENCY_MS": os.environ.get("SIMULATOR_LATENCY_MS", "100")}
        folder = {"LOCAL_MODEL_FOLDER": str(ROOT / ".headrace" / "cache")}
        with self._voice.stage("Simulated model" if simulated else "llama.cpp with gemma-3-270m"):
            program = Program("model", words, {"SIMULATOR_PORT": "0", **latency, **folder}, self._place)
            try:
                base_url = program.first_line(_START_SECONDS)["base_url"]
            except DemoError:
                program.stop()
                raise
        try:
            yield {"LLM_BASE_URL": base_url, "LLM_MODEL": "simulated" if simulated else local_model.MODEL}
        finally:
            program.stop()

    @contextmanager
    def _workers(self, env: Mapping[str, str]) -> Iterator[list[Program]]:
        for words in (["-m", "control", "migrate"], ["-m", "control", "topics", JOB]):
            set_up = Program(words[2], words, env, self._place)
            if set_up.process.wait() != 0:
                raise DemoError(f"headrace {words[2]} failed: {set_up.log.read_text()}")
        own = {"METRICS_PORT": "0", "LOG_FORMAT": "json"}
        workers = [
            Program(f"worker-{n}", ["-m", "worker"], {**env, **own}, self._place) for n in range(1, WORKERS + 1)
        ]
        try:
            yield workers
        finally:
            for worker in workers:
                worker.process.terminate()
            for worker in workers:
                worker.stop()

    def _answer(self, summary: Summary, env: Mapping[str, str], workers: list[Program]) -> None:
        with self._voice.stage("Producer: texts to prompts to Kafka, by Spark"):
            summary.produced = self._spark("producer", env)
        progress = Progress(env["DATABASE_URL"], JOB, summary.produced["run"], self._voice.say)
        try:
            published = summary.produced["published"]
            with self._voice.bar(f"{WORKERS} workers answer", published) as update:
                progress.wait(published, workers, update)
            summary.ended, summary.failed = progress.counts()
            summary.calls, summary.failures = progress.calls(), progress.failures()
        finally:
            progress.close()

    def _spark(self, job: str, env: Mapping[str, str]) -> dict[str, Any]:
        return spark_submit(job, [f"{job}/job.py", "--job", str(self._place.job_file)], env, self._place)

    def _check(self, summary: Summary, env: Mapping[str, str]) -> None:
        problems = list(_imbalances(summary))
        if problems:
            raise DemoError("the stages do not reconcile: " + "; ".join(problems))
        if self._model == "sim":
            with self._voice.stage("Check: each row's label against the simulator's own"):
                asked = requests(self._place.warehouse)
                servers, model = env["KAFKA_BOOTSTRAP_SERVERS"], env["LLM_MODEL"]
                summary.checked = check_labels(summary.rows, asked, servers, JOB, model)


def _imbalances(summary: Summary) -> Iterator[str]:
    """Name each sum over the stages that does not hold."""
    made = summary.produced
    spread = made["published"] + made["rejected"] + made["deduplicated"] + made["skipped"]
    if made["read"] != summary.source_rows or made["read"] != spread:
        yield f"{summary.source_rows} rows in the source, {made['read']} read, {spread} accounted for"
    if summary.ended != made["published"]:
        yield f"{made['published']} published, {summary.ended} ended"
    if len(summary.rows) != summary.source_rows:
        yield f"{summary.source_rows} rows in the source, {len(summary.rows)} in the target"
    answered = sum(row["llm_status"] is not None for row in summary.rows)
    if answered != made["published"] + made["skipped"] + made["deduplicated"]:
        yield f"{answered} rows joined, {made['published']} published, {made['skipped']} had their answer before"
