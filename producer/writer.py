"""Publish rows as a Spark data source: one Kafka client a task, Arrow batches in, an exact sum out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import RecordBatch
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from producer.columns import FINGERPRINT, ID, VALUE, column
from producer.lookup import Finished, unfinished, without
from producer.sink import Delivery
from producer.spans import tracing
from schemas.settings import KafkaSettings, TracingSettings

_FORMAT = "headrace_prompts"


@dataclass(frozen=True, slots=True)
class Publication:
    """All that a task needs to publish its rows; it travels pickled, so no secret shows in a plan or an option.

    `tally`: a file of the driver that receives the sum of the tasks; Spark calls `commit` in a process apart.
    `already`: ids whose rows are passed over and not counted.
    """

    kafka: KafkaSettings
    topic: str
    tally: Path
    finished: Callable[[], AbstractContextManager[Finished]] | None = None
    tracing: TracingSettings = field(default_factory=TracingSettings)
    already: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Delivered(WriterCommitMessage):
    """What tasks did that succeeded; `bytes` are those of keys and values."""

    rows: int = 0
    skipped: int = 0
    acked: int = 0
    bytes: int = 0


TOLD = ", ".join(f"{name} long" for name in Delivered.__annotations__)


class PromptsWriter(DataSourceArrowWriter):
    """Publishes each task's rows and lets the task fail unless the broker acknowledged all of them.

    A task that is run again publishes its rows again; only the try that succeeded is counted.
    """

    def __init__(self, publication: Publication) -> None:
        self._publication = publication

    def write(self, iterator: Iterator[RecordBatch]) -> Delivered:
        """Publish the batches of one task; raises `DeliveryError`."""
        told = self._publication
        with tracing(told.tracing, told.topic) as traced:
            delivery = Delivery(told.kafka, told.topic, traced)
            with told.finished() if told.finished else nullcontext() as finished:
                rows, skipped = _sent((without(batch, told.already) for batch in iterator), finished, delivery)
            delivery.finish()
        return Delivered(rows, skipped, delivery.acked, delivery.bytes)

    def told(self, iterator: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Publish as `write` does, for `mapInArrow`: one line of `TOLD` from each task."""
        done = asdict(self.write(iterator))
        yield RecordBatch.from_pylist([done])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the sum of all tasks for the driver."""
        _write_tally(self._publication.tally, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave the sum of the tasks that succeeded for the driver."""
        _write_tally(self._publication.tally, messages)


def publish(rows: DataFrame, publication: Publication) -> None:
    """Publish id and message of each row; `read_tally` tells what came of it, after a failure too."""
    rows.sparkSession.dataSource.register(_data_source(publication))
    _asked(rows, publication).write.format(_FORMAT).mode("append").save()


def publish_observed(rows: DataFrame, publication: Publication) -> Delivered:
    """Publish where `commit` would run on another machine: the sum comes with the rows, a failure loses it."""
    told = Observation()
    done = _asked(rows, publication).mapInArrow(PromptsWriter(publication).told, TOLD)
    sums = (fn.sum(name).alias(name) for name in Delivered.__annotations__)
    done.observe(told, *sums).write.format("noop").mode("overwrite").save()
    return Delivered(**{name: int(value or 0) for name, value in told.get.items()})


def _asked(rows: DataFrame, publication: Publication) -> DataFrame:
    return rows.select(*map(column, [ID, VALUE, *([FINGERPRINT] if publication.finished else [])]))


def read_tally(path: Path) -> Delivered:
    """Read what the tasks that succeeded did; zeros if Spark never came to its end."""
    text = path.read_text() if path.exists() else ""
    return Delivered(**json.loads(text)) if text else Delivered()


def _data_source(publication: Publication) -> type[DataSource]:
    class Prompts(DataSource):
        @classmethod
        def name(cls) -> str:
            return _FORMAT

        def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
            return PromptsWriter(publication)

    return Prompts


def _sent(iterator: Iterator[RecordBatch], finished: Finished | None, delivery: Delivery) -> tuple[int, int]:
    rows = skipped = 0
    for batch in iterator:
        wanted = unfinished(batch, finished) if finished else batch
        rows, skipped = rows + batch.num_rows, skipped + batch.num_rows - wanted.num_rows
        delivery.send(_bytes(wanted, ID), _bytes(wanted, VALUE))
    return rows, skipped


def _bytes(batch: RecordBatch, name: str) -> list[bytes]:
    """Give a column of text as the bytes that it is made of: to Arrow both are the same, to Spark a copy of each."""
    values: list[bytes] = batch.column(name).cast(pa.binary()).to_pylist()
    return values


def _write_tally(path: Path, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = [message for message in messages if isinstance(message, Delivered)]
    names = ("rows", "skipped", "acked", "bytes")
    path.write_text(json.dumps({name: sum(getattr(message, name) for message in done) for name in names}))
