"""The Spark session that the tests share: one JVM, on this machine alone, small and quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from schemas import spark_jars
from schemas.jdbc import POSTGRES
from schemas.spark_jars import DELTA, ICEBERG, minor

CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# For many short jobs: code that is compiled at once and simply, and no compiler or collector that works beside them.
# The room that such a compiler has by itself, 48 MB, is full after a few hundred jobs, and nothing more is compiled.
_ROOM = "-XX:ReservedCodeCacheSize=240m"
SHORT = {"spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {_ROOM}"}
# For one long job, as our image and docs/cluster.md advise.
LONG = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}
# Iceberg has no jar for the newest Spark: its tests run in an environment of their own (`make test-iceberg`).
WITH_ICEBERG = minor(pyspark.__version__) in ICEBERG.sparks
NEEDS = (DELTA, ICEBERG) if WITH_ICEBERG else (DELTA,)
PACKAGES = (*(need.coordinates(pyspark.__version__) or "" for need in NEEDS), POSTGRES.package or "")
JARS_CONF = (
    spark_jars.settings(NEEDS, "")
    | spark_jars.defaults(NEEDS)
    | {
        # The log of a small table needs no 50 tasks.
        "spark.databricks.delta.snapshotPartitions": "1",
    }
)


def open_session(packages: Sequence[str], folder: Path, more: Mapping[str, str] | None = None) -> SparkSession:
    """Open a local session with two cores; `packages` are Maven coordinates, and without them if none can be had.

    Tables and scratch files go to `folder`; `more` are further properties. A process has one session: packages count
    for the first call only.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = CONF | {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "scratch")}
    conf |= dict(more or {}) | (JARS_CONF if packages else {})
    if packages and WITH_ICEBERG:
        conf |= {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        }
    builder = SparkSession.builder.master("local[2]").appName("headrace-tests")
    if packages:
        builder = builder.config("spark.jars.packages", ",".join(packages))
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError:
        if not packages:
            raise
        return open_session((), folder, more)
    spark.sparkContext.setLogLevel(os.environ.get("SPARK_TEST_LOG_LEVEL", "FATAL"))
    return spark


@pytest.fixture(scope="session")
def spark_packages() -> tuple[str, ...]:
    """Maven packages of the session: those of SPARK_TEST_PACKAGES, comma by comma; all of ours if it is not set."""
    return tuple(filter(None, os.environ.get("SPARK_TEST_PACKAGES", ",".join(PACKAGES)).split(",")))


@pytest.fixture(scope="session")
def spark(spark_packages: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; tests share it, so each names its own views and folders."""
    session = open_session(spark_packages, tmp_path_factory.mktemp("spark"), SHORT)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def delta_spark(spark: SparkSession) -> SparkSession:
    """The session for tests of Delta tables: they fail, and are not skipped, where Delta's jars cannot be had."""
    if "DeltaSparkSessionExtension" not in (spark.conf.get("spark.sql.extensions", "") or ""):
        pytest.fail(f"{PACKAGES} could not be resolved: is a Maven repository within reach?")
    return spark
