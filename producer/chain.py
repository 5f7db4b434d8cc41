"""How rows of a canary get their answers, as seen from the driver."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame

from producer.deliver import deliver
from producer.run import Run
from producer.writer import Delivered


class Chain(Protocol):
    """Takes rows a part at a time, one over before the next is sent. `acked`: rows that it has taken so far."""

    acked: int

    def send(self, rows: DataFrame, number: int) -> None:
        """Give so many rows into the chain; raises a `ProducerError`."""

    def check(self) -> None:
        """Raise a `ProducerError` when rows that were sent will get no end."""

    def finish(self) -> None:
        """Wait for what is at work on rows that have their ends; raises as `check` does."""

    def close(self) -> None:
        """Wait for what is at work on the rows of a run that was ended."""


class ByKafka:
    """Publishes; a fleet of its own answers."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.acked = 0

    def send(self, rows: DataFrame, number: int) -> None:
        """See `Chain`."""
        deliver(rows, self._run, self._note)

    def check(self) -> None:
        """See `Chain`: while there is a database, a fleet may come at any time."""

    finish = close = check

    def _note(self, delivered: Delivered) -> None:
        self.acked += delivered.acked
