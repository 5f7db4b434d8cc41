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
from pyspark.sql import Column, DataFrame, SparkSession
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
    runs = runs_of_requests(spark, file)
    return spark.read.parquet(runs[-1]) if runs else None


def runs_of_requests(spark: SparkSession, file: JobFile) -> list[str]:
    """Name the folders of the producer's complete runs, the newest last; none without `dedup`."""
    address = table.address(file.beside)
    runs = table.complete_runs(Folders(spark, address).files(address)) if file.job.dedup else []
    return [f"{address}/{run}" for run in runs]


@dataclass(frozen=True)
class Fanout:
    """Whom the results of a job are for.

    `pairs`: each id with what it asks and what it was told; `deliveries`: one row a recipient; `shared`: whether any
    row needs the answer of another one; `strangers`: whether any result is of an id that asks nothing.
    """

    pairs: DataFrame
    deliveries: DataFrame
    shared: bool
    strangers: bool

    @staticmethod
    def of(requests: DataFrame, known: DataFrame) -> Fanout:
        """Settle it from results without their texts; the pairs are kept on disk until `free`."""
        found = pairs(requests, known).persist(StorageLevel.DISK_ONLY)
        row = found.agg(fn.count_if(_needs_another()), fn.count_if(fn.col(_ASKS).isNull())).first()
        assert row is not None
        own, shared = alone(found), row[0] > 0
        return Fanout(found, own.unionByName(from_others(found, known)) if shared else own, shared, row[1] > 0)

    def free(self) -> None:
        """Give the disk back."""
        self.pairs.unpersist()

    def read(self) -> int:
        """Count the results that were read, those left behind aside."""
        return self._told().count()

    def matched(self, keyed: DataFrame) -> int:
        """Count the results whose id some keyed row of the source has."""
        return self._told().join(keyed.select(KEY), KEY, "left_semi").count()

    def delivered(self, results: DataFrame) -> DataFrame:
        """Put results under the id of every row that they are for; without `shared` they are there already."""
        if not (self.shared or self.strangers):
            return results.withColumn(CURRENT, fn.lit(True))
        if not self.shared:
            return results.join(self.deliveries.select(fn.col(KEY).alias("id"), CURRENT), "id")
        rows = results.join(self.deliveries, HANDLE)
        asked = fn.col("id") == fn.col(KEY)
        spent = {
            name: fn.when(asked, fn.col(name)).otherwise(fn.lit(none).cast(results.schema[name].dataType))
            for name, none in _NOT_ASKED.items()
        }
        return rows.withColumns(spent).withColumn("id", fn.col(KEY)).drop(KEY)

    def _told(self) -> DataFrame:
        return self.pairs.where(fn.col(_OWN).isNotNull())


def pairs(requests: DataFrame, known: DataFrame) -> DataFrame:
    """Put together what each id asks and the result it has itself; either may be NULL."""
    asks = requests.select(fn.col(table.ID).alias(KEY), fn.col(table.FINGERPRINT).alias(_ASKS))
    own = known.where(fn.col(HANDLE) == fn.col("id"))
    own = own.select(fn.col("id").alias(KEY), fn.struct("fingerprint", _succeeded(), HANDLE).alias(_OWN))
    return asks.join(own, KEY, "full")


def alone(pairs: DataFrame) -> DataFrame:
    """Deliver to the rows that need no other: of `HANDLE`, and whether it answers the present request, `CURRENT`."""
    handle = fn.col(_OWN)[HANDLE].alias(HANDLE)
    return pairs.where(~_needs_another()).select(KEY, handle, fn.col(_ASKS).isNotNull().alias(CURRENT))


def from_others(pairs: DataFrame, known: DataFrame) -> DataFrame:
    """Deliver the best result of its request to each row that has no success of its own to it; see `alone`."""
    result = fn.struct(_succeeded(), "completed_at", HANDLE)
    best = known.groupBy(fn.col("fingerprint").alias(_ASKS)).agg(fn.max(result).alias(_BEST))
    rows = pairs.where(_needs_another()).join(best, _ASKS, "left")
    mine, others = fn.col(_OWN), fn.col(_BEST)
    as_good = (mine["fingerprint"] == fn.col(_ASKS)) & (mine["succeeded"] == others["succeeded"])
    unnamed = others.isNull() & mine["fingerprint"].isNull()
    handle = fn.when(as_good | unnamed, mine[HANDLE]).otherwise(others[HANDLE])
    return rows.select(KEY, handle.alias(HANDLE), others.isNotNull().alias(CURRENT)).where(fn.col(HANDLE).isNotNull())


def _needs_another() -> Column:
    """The row asks something that it has not been told itself."""
    mine = fn.col(_OWN)
    told = mine["succeeded"] & (mine["fingerprint"] == fn.col(_ASKS))
    return fn.col(_ASKS).isNotNull() & ~fn.coalesce(told, fn.lit(False))


def _succeeded() -> Column:
    return (fn.col("status") == Status.SUCCEEDED).alias("succeeded")
