"""The Spark session of a job: what the job needs and its starter has not settled, and a quiet log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from producer import connect, jvm
from producer.errors import WrongJobError
from schemas import spark_connect, spark_jars
from schemas.spark_jars import Need

# Times as text and the days of a partition must not hang on the machine that runs the job.
_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
}
_QUIET = {"spark.ui.showConsoleProgress": "false"}


@contextmanager
def session(name: str, needs: Sequence[Need] = ()) -> Iterator[SparkSession]:
    """Open a session and stop it afterwards; raises `WrongJobError` unless all jars that the job needs are there.

    Master, memory and packages are the starter's to settle (`spark-submit --conf`), and so is a Spark Connect server
    (`SPARK_REMOTE`). Spark's own log, which may quote rows, stays silent unless `spark.log.level` says otherwise:
    errors are told in one line each.
    """
    if remote := os.environ.get(spark_connect.REMOTE):
        spark = connect.session(remote, _DEFAULTS, needs)
    else:
        spark = _classic(name, needs)
    try:
        yield spark
    finally:
        # When its process is gone already, the error that told so is the one to hear.
        with suppress(Py4JError, OSError):
            spark.stop()


def _classic(name: str, needs: Sequence[Need]) -> SparkSession:
    conf = jvm.settled()
    for key, value in (_DEFAULTS | _QUIET | spark_jars.defaults(needs)).items():
        conf.setIfMissing(key, value)
    conf.setIfMissing("spark.log.level", "FATAL")
    if problems := spark_jars.problems([(need, jvm.presence(need.shows)) for need in needs], pyspark.__version__):
        raise WrongJobError("; ".join(problems))
    for key, value in spark_jars.settings(needs, conf.get(spark_jars.EXTENSIONS, "")).items():
        conf.set(key, value)
    if conf.get("spark.master", "local").startswith("local"):
        # Otherwise Spark would take whatever `python3` is first on the path, without our packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.appName(name).config(conf=conf).getOrCreate()
