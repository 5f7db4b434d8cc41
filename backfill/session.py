"""The Spark session of the backfill: what it needs and its starter has not settled, and a quiet log."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import pyspark
from pyspark.sql import SparkSession

from backfill import connect, jvm
from backfill.errors import WrongJobError
from schemas import spark_connect, spark_jars
from schemas.spark_jars import Need

_DEFAULTS = {
    # Times as text and the days of a partition must not hang on the machine that runs the job.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A few files of a useful size instead of one a task: tables live longer than runs.
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "16m",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128m",
}
_QUIET = {"spark.ui.showConsoleProgress": "false"}


def session(name: str, needs: Sequence[Need], beside: str) -> SparkSession:
    """Open the session; master, memory and packages are the starter's to settle (`spark-submit --conf`).

    So is a Spark Connect server (`SPARK_REMOTE`), which has to find what lies `beside` the target. Raises
    `WrongJobError` unless all jars that the job needs are there. Spark's own log, which may quote rows, stays silent
    unless `spark.log.level` says otherwise: errors are told in one line each.
    """
    if remote := os.environ.get(spark_connect.REMOTE):
        return connect.session(remote, _DEFAULTS, needs, beside)
    conf = jvm.settled()
    for key, value in (_DEFAULTS | _QUIET | spark_jars.defaults(needs)).items():
        conf.setIfMissing(key, value)
    conf.setIfMissing("spark.log.level", "OFF")
    if problems := spark_jars.problems([(need, jvm.presence(need.shows)) for need in needs], pyspark.__version__):
        raise WrongJobError("; ".join(problems))
    for key, value in spark_jars.settings(needs, conf.get(spark_jars.EXTENSIONS, "")).items():
        conf.set(key, value)
    if conf.get("spark.master", "local").startswith("local"):
        # Otherwise Spark would take whatever `python3` is first on the path, without our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.appName(name).config(conf=conf).getOrCreate()
