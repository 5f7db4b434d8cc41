"""Which rows a canary tries: a random few of each route among those that are to be asked, the same at each start.

A fingerprint is a hash of the whole request, so the smallest of a route are a fair sample of it, whatever the order
of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from producer.counts import Counts, judged_counts
from producer.explain import spark_errors
from producer.run import Judged, Run
from producer.shares import spread
from schemas import requests_table as table


@dataclass(frozen=True, slots=True)
class Chosen:
    """A row that goes first."""

    id: str
    fingerprint: str
    route: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows that go first, how many are to be asked by each route, and what was counted of all rows."""

    chosen: tuple[Chosen, ...]
    sizes: Mapping[int, int]
    counts: Counts

    @property
    def left(self) -> Mapping[int, int]:
        """Rows of each route that come after the canary."""
        return {route: size - len(self.of(route)) for route, size in self.sizes.items()}

    @property
    def is_all(self) -> bool:
        """Whether nothing comes after the canary."""
        return not any(self.left.values())

    def of(self, route: int) -> list[Chosen]:
        """Give the chosen rows of one route."""
        return [row for row in self.chosen if row.route == route]

    def held(self, published: int) -> Counts:
        """Count a run that ends with its canary."""
        return replace(self.counts, published=published, held_back=self.counts.held_back - published)


def choose(judged: Judged, run: Run, looks_up: bool) -> Plan:
    """Find what is to be asked and choose the canary from it; ids, fingerprints and routes are all that is read."""
    with spark_errors():
        leads = _leads(judged)
        if looks_up:
            leads = leads.mapInArrow(run.ledger.unfinished, leads.schema).persist(StorageLevel.DISK_ONLY)
        try:
            sizes = {int(row[0]): int(row[1]) for row in leads.groupBy(names.ROUTE).count().collect()}
            chosen = _smallest(leads, sizes, run.file.job.canary.rows)
        finally:
            leads.unpersist()
    return Plan(tuple(chosen), dict(sorted(sizes.items())), _counts(judged, sum(sizes.values())))


def _leads(judged: Judged) -> DataFrame:
    asked = judged.asks if judged.requests is None else judged.requests.where(table.ASKED)
    assert asked is not None
    named = (fn.col(table.ID).alias(names.ID), fn.col(table.FINGERPRINT).alias(names.FINGERPRINT))
    return asked.select(*named, fn.col(table.ROUTE).alias(names.ROUTE))


def _smallest(leads: DataFrame, sizes: Mapping[int, int], most: int) -> list[Chosen]:
    routes = sorted(sizes)
    shares = spread([sizes[route] for route in routes], most)
    order = (column(names.FINGERPRINT), column(names.ID))
    parts = [
        leads.where(column(names.ROUTE) == route).orderBy(*order).limit(share)
        for route, share in zip(routes, shares, strict=True)
        if share
    ]
    rows: list[Row] = reduce(DataFrame.unionByName, parts).collect() if parts else []
    # Without `dedup` an id may come twice; its rows are published together.
    found = {row[names.ID]: Chosen(row[names.ID], row[names.FINGERPRINT], row[names.ROUTE]) for row in rows}
    return list(found.values())


def _counts(judged: Judged, to_ask: int) -> Counts:
    """Count all rows as if whatever is to be asked were held back."""
    assert judged.seen is not None
    assert judged.distinct is not None
    seen, total = judged.seen.get, judged.distinct
    followers = int(seen["passing"]) - total
    seen = {**seen, "deduplicated": int(seen["deduplicated"]) + followers}
    return replace(judged_counts(seen, published=0, skipped=total - to_ask), held_back=to_ask)
