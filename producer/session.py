"""The Spark session of a job: what the job needs and its starter has not settled, and a quiet log."""

from __future__ import annotations

import os
import sys

from pyspark import SparkConf
from pyspark.sql import SparkSession

# Times as text and the days of a partition must not hang on the machine that runs the job.
_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


def session(name: str, log_level: str) -> SparkSession:
    """Open the session; master, memory and packages are the starter's to settle (`spark-submit --conf`).

    Spark's own log stays silent unless `log_level` is DEBUG or `spark.log.level` says otherwise, since errors are
    told in one line each.
    """
    conf = SparkConf()
    for key, value in _DEFAULTS.items():
        conf.setIfMissing(key, value)
    conf.setIfMissing("spark.log.level", "WARN" if log_level == "DEBUG" else "FATAL")
    if conf.get("spark.master", "local").startswith("local"):
        # Otherwise Spark would take whatever `python3` is first on the path, without our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.appName(name).config(conf=conf).getOrCreate()
