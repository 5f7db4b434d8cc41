"""A table that is not there yet: source and answers are joined and counted in the one pass that writes them.

Spark adds up what it observes over every attempt of a task whose output others read, so a count may come out too
large and never too small. Each is compared with a number that is sure (the rows in the files that were written, the
results that the database counted), and taken again by itself where the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as fn

from backfill import counts
from backfill.columns import CURRENT, KEY, PREFIX
from backfill.target import Written
from schemas.ids import Id

_HERE = f"{PREFIX}here"


class Making:
    """One new table, from keyed rows of the source and answers; only the driver's main thread uses it, once.

    `rows`: those of the table before `last`, and beside them the answers that are for none of them.
    `told`: whether Spark tells what it observed while a table of that kind is written; else all is counted after it.
    """

    def __init__(self, rows: DataFrame, answered: DataFrame, told: bool) -> None:
        self._told = told
        self._rows, self._answered = rows, answered
        self._read, self._results, self._joined = Observation(), Observation(), Observation()
        source = self._watched(rows.withColumn(_HERE, fn.lit(True)), self._read, fn.count("*").alias("rows"))
        answers = self._watched(answered.drop(CURRENT), self._results, fn.count("*").alias("results"))
        self.rows = source.join(answers, KEY, "full").drop(KEY)

    def last(self, rows: DataFrame) -> DataFrame:
        """Count what is about to be written, and leave out answers that are for no row: no shuffle may follow."""
        here = fn.col(_HERE).isNotNull()
        sums = (*counts.table_totals(here), fn.count_if(~here).alias("orphans"))
        return self._watched(rows, self._joined, *sums).where(here)

    def totals(self, made: Written) -> dict[str, int]:
        """Sum up the table that was written: `table_totals`, and `read`, the rows of the source."""
        totals = self._written(made)
        written = totals["rows"]
        # A side of the join without rows is planned away, and what would observe it too.
        sure = written > 0 and self._observed(self._read).get("rows") == written
        return totals | {"read": written if sure else self._rows.count()}

    def _written(self, made: Written) -> dict[str, int]:
        """Take what was observed of the rows if there are as many of them in the files; else read the table."""
        observed = self._observed(self._joined)
        if not observed or observed["rows"] != made.rows():
            return counts.first(made.table.agg(*counts.table_totals(fn.lit(True))))
        return {name: count for name, count in observed.items() if name != "orphans"}

    def results(self, table: DataFrame, id_: Id, totals: Mapping[str, int], results: int) -> dict[str, int]:
        """Count, for a table with such totals, those of so many results that were read (`seen`) and `matched`."""
        orphans = self._observed(self._joined).get("orphans", 0)
        met = totals["joined"] + orphans > 0
        sure = met and self._observed(self._results).get("results") == results
        seen = {"seen": results if sure else self._answered.count()}
        if self._observed(self._joined).get("rows") == totals["rows"]:
            return seen | {"matched": results - orphans}
        return seen | counts.first(table.agg(counts.matched(id_)))

    def _watched(self, rows: DataFrame, observation: Observation, *sums: Column) -> DataFrame:
        return rows.observe(observation, *sums) if self._told else rows

    def _observed(self, observation: Observation) -> dict[str, Any]:
        """Take what was observed; nothing where Spark tells nothing, or has planned it away."""
        return observation.get if self._told else {}
