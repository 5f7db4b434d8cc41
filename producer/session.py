"""The Spark session of a job: what the job needs and its starter has not settled, and a quiet log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

# Times as text and the days of a partition must not hang on the machine that runs the job.
_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def session(name: str, log_level: str) -> Iterator[SparkSession]:
    """Open a session and stop it afterwards.

    Master, memory and packages are the starter's to settle (`spark-submit --conf`). Spark's own log stays silent
    unless `log_level` is DEBUG or `spark.log.level` says otherwise, since errors are told in one line each.
    """
    # Only with the JVM behind it does a SparkConf hold what the starter settled.
    SparkContext._ensure_initialized()
    conf = SparkConf()
    for key, value in _DEFAULTS.items():
        conf.setIfMissing(key, value)
    conf.setIfMissing("spark.log.level", "WARN" if log_level == "DEBUG" else "FATAL")
    if conf.get("spark.master", "local").startswith("local"):
        # Otherwise Spark would take whatever `python3` is first on the path, without our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName(name).config(conf=conf).getOrCreate()
    try:
        yield spark
    finally:
        # When its process is gone already, the error that told so is the one to hear.
        with suppress(Py4JError, OSError):
            spark.stop()
