"""Read a table of a database over JDBC; what to tell Spark is settled by `schemas.jdbc`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType

from backfill.errors import UnreachableError, WrongJobError
from backfill.settings import JobFile
from schemas import jdbc


def read(spark: SparkSession, file: JobFile) -> DataFrame:
    """Open the source; raises `WrongJobError`, or `UnreachableError` where no database answers."""
    source = jdbc.read(file.job.source, file.job.id, file.password)
    with _database_errors():
        if source.bounds:
            _check(spark, source, source.bounds)
        reader = spark.read.options(**source.options)
        if source.predicates:
            return reader.jdbc(source.url, source.table, predicates=list(source.predicates))
        return reader.format("jdbc").load()


def _check(spark: SparkSession, source: jdbc.Read, bounds: jdbc.Bounds) -> None:
    options = {name: value for name, value in source.options.items() if name not in jdbc.CUTTING}
    found = spark.read.format("jdbc").options(**options, query=bounds.query).load()
    kind = found.schema[0].dataType
    if isinstance(kind, StringType):
        raise WrongJobError(jdbc.TEXT)
    below = fn.col(found.columns[0]) < fn.lit(bounds.lower).cast(kind)
    above = fn.col(found.columns[1]) > fn.lit(bounds.upper).cast(kind)
    if found.where(below | above).count():
        raise WrongJobError(jdbc.OUTSIDE)


@contextmanager
def _database_errors() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        state = _sql_state(error)
        if jdbc.is_unreachable(state):
            raise UnreachableError(jdbc.UNREACHABLE) from error
        if problem := jdbc.refusal(state):
            raise WrongJobError(problem) from error
        raise


def _sql_state(error: PySparkException | Py4JJavaError) -> str | None:
    """Find the database's own exception below those of Spark."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while cause is not None:
        # Py4J says of every object that it has every method, until one is called.
        with suppress(Py4JError):
            return str(cause.getSQLState())
        cause = cause.getCause()
    return None
