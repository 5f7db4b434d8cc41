"""One request, one call: of the rows that ask the same thing one is published, the others wait for its answer.

The rule. One id leads for each request: the one that led in the run before, if it is still there and still asks this;
else the least. So a row that is added later, whatever its id, never makes a request that is under way start anew.
Only ids and fingerprints are shuffled to find the leads; rows are not, unless many of them repeat others.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from schemas import requests_table as table

_LED_BEFORE = f"{names.PREFIX}led_before"
_FOLLOWER = f"{names.PREFIX}follower"
_HASH = f"{names.PREFIX}hash"
_NTH = f"{names.PREFIX}nth"


def asks(passing: DataFrame) -> DataFrame:
    """Say of each id that passes which request it asks by which route: the only columns that are ever shuffled.

    Each leads, which is how it stays where no two ask the same.
    """
    named = {names.ID: table.ID, names.FINGERPRINT: table.FINGERPRINT, names.ROUTE: table.ROUTE}
    columns = (column(name).alias(called) for name, called in named.items())
    return passing.select(*columns, fn.lit(True).alias(table.ASKED))


def repeating(asks: DataFrame, *columns: str) -> frozenset[str]:
    """Name the columns in which a value may repeat; in most tables none does, and eight bytes for each tell that.

    Two values may meet in one hash, which only means that all are looked at more closely.
    """
    # The lowest bits tell the columns apart, so that all are settled in one shuffle.
    told = [fn.shiftleft(fn.xxhash64(name), 1).bitwiseOR(fn.lit(nth)) for nth, name in enumerate(columns)]
    hashes = asks.select(fn.explode(fn.array(*told)).alias(_HASH)).groupBy(_HASH).count().where("count > 1")
    found = hashes.select(fn.col(_HASH).bitwiseAND(fn.lit(1)).alias(_NTH)).distinct().collect()
    return frozenset(columns[row[_NTH]] for row in found)


def requests(asks: DataFrame, before: DataFrame | None) -> DataFrame:
    """Say of each id which request it asks, and whether it leads; `before` is what the last run said."""
    led = asks.withColumn(_LED_BEFORE, fn.lit(None).cast("string"))
    if before is not None:
        led = asks.join(_leads(before), table.FINGERPRINT, "left")
    preferred = fn.struct(~fn.col(table.ID).eqNullSafe(fn.col(_LED_BEFORE)), fn.col(table.ID).alias(table.ID))
    lead = fn.min(preferred).over(Window.partitionBy(table.FINGERPRINT))[table.ID]
    return led.withColumn(table.ASKED, lead == fn.col(table.ID)).select(*asks.columns)


def leads_and_followers(requests: DataFrame) -> tuple[int, int]:
    """Count the ids that lead, and those that another one leads for."""
    leads = fn.col(table.ASKED)
    row = requests.agg(fn.count_if(leads), fn.count_if(~leads)).first()
    assert row is not None
    return int(row[0]), int(row[1])


def without_followers(judged: DataFrame, requests: DataFrame) -> DataFrame:
    """Mark the rows that another one leads for as repeated, save those that are rejected."""
    led = requests.where(~fn.col(table.ASKED)).select(fn.col(table.ID).alias(_FOLLOWER))
    rows = judged.join(led, column(names.ID) == fn.col(_FOLLOWER), "left")
    follows = column(names.VERDICT).isNull() & fn.col(_FOLLOWER).isNotNull()
    return rows.withColumn(names.REPEATED, column(names.REPEATED) | follows).drop(_FOLLOWER)


def _leads(before: DataFrame) -> DataFrame:
    leads = before.where(table.ASKED).groupBy(table.FINGERPRINT)
    return leads.agg(fn.min(table.ID).alias(_LED_BEFORE))
