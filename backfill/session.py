"""The Spark session of the backfill: what it needs and its starter has not settled, and a quiet log."""

from __future__ import annotations

import os
import sys

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from backfill.errors import WrongJobError

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_DEFAULTS = {
    # Times as text and the days of a partition must not hang on the machine that runs the job.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A few files of a useful size instead of one a task: tables live longer than runs.
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "16m",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128m",
    "spark.ui.showConsoleProgress": "false",
}


def session(name: str, log_level: str, delta: bool) -> SparkSession:
    """Open the session; master, memory and packages are the starter's to settle (`spark-submit --conf`).

    With `delta`, raises `WrongJobError` unless Delta's jars are there. Spark's own log stays silent unless
    `log_level` is DEBUG, since errors are told in one line each.
    """
    # Only with the JVM behind it does a SparkConf hold what the starter settled.
    SparkContext._ensure_initialized()
    conf = SparkConf()
    for key, value in _DEFAULTS.items():
        conf.setIfMissing(key, value)
    conf.setIfMissing("spark.log.level", "WARN" if log_level == "DEBUG" else "OFF")
    if delta:
        _need_delta()
        _add_delta(conf)
    if conf.get("spark.master", "local").startswith("local"):
        # Otherwise Spark would take whatever `python3` is first on the path, without our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.appName(name).config(conf=conf).getOrCreate()


def _add_delta(conf: SparkConf) -> None:
    extensions = [name for name in conf.get("spark.sql.extensions", "").split(",") if name]
    if _DELTA_EXTENSION not in extensions:
        conf.set("spark.sql.extensions", ",".join([*extensions, _DELTA_EXTENSION]))
    conf.setIfMissing("spark.sql.catalog.spark_catalog", _DELTA_CATALOG)


def _need_delta() -> None:
    jvm = SparkContext._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"{_DELTA_EXTENSION.replace('.', '/')}.class") is None:
        raise WrongJobError(
            f"format delta: Delta's jars are not there: start with `spark-submit --packages {DELTA_PACKAGE} ...`"
        )
