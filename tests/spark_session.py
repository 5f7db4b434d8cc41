"""The Spark session that the tests share: one JVM, on this machine alone, small and quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def open_session(packages: Sequence[str], folder: Path) -> SparkSession:
    """Open a local session with two cores; `packages` are Maven coordinates, none by default.

    Tables and scratch files go to `folder`. A process has one session: packages count for the first call only.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = CONF | {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "scratch")}
    conf |= DELTA if any("delta" in package for package in packages) else {}
    builder = SparkSession.builder.master("local[2]").appName("headrace-tests")
    if packages:
        builder = builder.config("spark.jars.packages", ",".join(packages))
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(os.environ.get("SPARK_TEST_LOG_LEVEL", "FATAL"))
    return spark


@pytest.fixture(scope="session")
def spark_packages() -> tuple[str, ...]:
    """Maven packages of the session: those of SPARK_TEST_PACKAGES, comma by comma; a conftest may override this."""
    return tuple(filter(None, os.environ.get("SPARK_TEST_PACKAGES", "").split(",")))


@pytest.fixture(scope="session")
def spark(spark_packages: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; tests share it, so each names its own views and folders."""
    session = open_session(spark_packages, tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
