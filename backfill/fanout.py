"""One answer for all rows that ask the same thing: which result is delivered to which row, settled without any text.

The rule. A row that the table of requests knows gets the answer to its present request and no other: its own if it
was asked itself and no other one of the request did better; else the best there is, a succeeded one before a failed
one, then the latest, whatever id it was asked under and whatever that row asks by now. A row that the table does not
know, and one whose result names no request, gets the result of its own id. What a call cost stands on the row that
was asked and on no other, so that sums over the target are true.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from backfill.columns import CURRENT, HANDLE, KEY, PREFIX
from backfill.folders import Folders
from backfill.settings import JobFile
from schemas import requests_table as table
from schemas.statuses import Status

_ASKS = f"{PREFIX}asks"
_OWN = f"{PREFIX}own"
_BEST = f"{PREFIX}best"
# Zero, not NULL: nothing was called for such a row, and `llm_attempts`, which is one more, says so.
_NOT_ASKED = {"prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0, "retry_count": -1}


def requests(spark: SparkSession, file: JobFile) -> DataFrame | None:
    """Open what the last complete run of the producer said of each id; None without `dedup`, or before such a run."""
    address = table.address(file.target_path)
    runs = table.complete_runs(Folders(spark, address).files(address)) if file.job.dedup else []
    return spark.read.parquet(f"{address}/{runs[-1]}") if runs else None


@dataclass(frozen=True)
class Fanout:
    """Whom the results of a job are for. `known`: each without its text; `deliveries`: one row a recipient."""

    known: DataFrame
    deliveries: DataFrame

    @staticmethod
    def of(requests: DataFrame, known: DataFrame) -> Fanout:
        """Settle it; both frames are kept on disk until `free`."""
        known = known.persist(StorageLevel.DISK_ONLY)
        return Fanout(known, deliveries(requests, known).persist(StorageLevel.DISK_ONLY))

    def free(self) -> None:
        """Give the disk back."""
        self.deliveries.unpersist()
        self.known.unpersist()

    def read(self) -> int:
        """Count the results that were read, those left behind aside."""
        return self._present().count()

    def matched(self, keyed: DataFrame) -> int:
        """Count the results whose id some keyed row of the source has."""
        return self._present().join(keyed.select(KEY), fn.col("id") == fn.col(KEY), "left_semi").count()

    def delivered(self, results: DataFrame) -> DataFrame:
        """Put results under the id of every row that they are for."""
        rows = results.join(self.deliveries, HANDLE)
        asked = fn.col("id") == fn.col(KEY)
        spent = {
            name: fn.when(asked, fn.col(name)).otherwise(fn.lit(none).cast(results.schema[name].dataType))
            for name, none in _NOT_ASKED.items()
        }
        return rows.withColumns(spent).withColumn("id", fn.col(KEY)).drop(KEY)

    def _present(self) -> DataFrame:
        return self.known.where(fn.col(HANDLE) == fn.col("id"))


def deliveries(requests: DataFrame, known: DataFrame) -> DataFrame:
    """Say by handle which result each id gets, and whether it is known to be its present request's: `CURRENT`."""
    asks = requests.select(fn.col(table.ID).alias(KEY), fn.col(table.FINGERPRINT).alias(_ASKS))
    succeeded = (fn.col("status") == Status.SUCCEEDED).alias("succeeded")
    result = fn.struct(succeeded, "completed_at", HANDLE)
    best = known.groupBy(fn.col("fingerprint").alias(_ASKS)).agg(fn.max(result).alias(_BEST))
    own = known.where(fn.col(HANDLE) == fn.col("id"))
    own = own.select(fn.col("id").alias(KEY), fn.struct("fingerprint", succeeded, HANDLE).alias(_OWN))
    rows = asks.join(own, KEY, "full").join(best, _ASKS, "left")
    mine, others = fn.col(_OWN), fn.col(_BEST)
    as_good = (mine["fingerprint"] == fn.col(_ASKS)) & (mine["succeeded"] == others["succeeded"])
    unnamed = fn.col(_ASKS).isNull() | (others.isNull() & mine["fingerprint"].isNull())
    handle = fn.when(unnamed | as_good, mine[HANDLE]).otherwise(others[HANDLE])
    return rows.select(KEY, handle.alias(HANDLE), others.isNotNull().alias(CURRENT)).where(fn.col(HANDLE).isNotNull())
