"""One publication of rows from the driver's side, and what came of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.sql import DataFrame, is_remote

from producer import writer
from producer.explain import spark_errors
from producer.lookup import Finished
from producer.run import Run
from producer.writer import Delivered


def deliver(
    rows: DataFrame,
    run: Run,
    note: Callable[[Delivered], None],
    finished: Callable[[], AbstractContextManager[Finished]] | None = None,
    already: Collection[str] = (),
) -> None:
    """Publish rows to the run's topic and tell `note` what was delivered, after a failure too.

    Rows whose ids are `already` published are passed over. Raises a `ProducerError`.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        tally = Path(folder) / "tally.json"
        topic = run.file.job.prompts_topic
        tracing = run.settings.tracing
        publication = writer.Publication(run.settings.kafka, topic, tally, finished, tracing, frozenset(already))
        if is_remote():
            with spark_errors():
                return note(writer.publish_observed(rows, publication))
        try:
            with spark_errors():
                writer.publish(rows, publication)
        finally:
            note(writer.read_tally(tally))
    return None
