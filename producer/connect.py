"""A session on a Spark Connect server: no JVM here, our code sent there, what cannot work told before it starts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import pyspark
from pyspark.errors import PySparkException, PySparkImportError
from pyspark.sql import SparkSession

from producer.arrow_files import ArrowFiles
from producer.errors import UnreachableError, WrongJobError
from schemas import packing, spark_connect
from schemas.spark_jars import Need

_PACKAGES = ("schemas", "producer", "worker")


def session(remote: str, conf: Mapping[str, str], needs: Sequence[Need]) -> SparkSession:
    """Open a session and send our code; raises `UnreachableError`, or `WrongJobError` where something is lacking."""
    try:
        host, port = spark_connect.place(remote)
    except ValueError as error:
        raise WrongJobError(str(error)) from None
    if problem := spark_connect.unanswered(host, port):
        raise UnreachableError(problem)
    try:
        spark = SparkSession.builder.remote(remote).getOrCreate()
    except PySparkImportError:
        raise WrongJobError(spark_connect.NO_CLIENT) from None
    for name, value in conf.items():
        spark.conf.set(name, value)
    if problems := spark_connect.problems(
        needs, pyspark.__version__, lambda name: has_class(spark, name), lambda name: str(spark.conf.get(name, ""))
    ):
        raise WrongJobError("; ".join(problems))
    _send(spark)
    return spark


def check_shared(spark: SparkSession, target: str) -> None:
    """Raise `WrongJobError` unless the server finds beside the target what this machine writes there."""
    files, probe = ArrowFiles(target), f"{target.rstrip('/')}-probe-{secrets.token_hex(4)}"
    files.write(probe, probe)
    try:
        found = [row[0] for row in spark.read.text(probe).collect()]
    except PySparkException:
        found = []
    finally:
        files.delete(probe)
    if found != [probe]:
        raise WrongJobError(spark_connect.NOT_SHARED.format(place=target))


def has_class(spark: SparkSession, name: str) -> bool:
    """Ask the server for a class; Spark looks for it before it finds that it has no such method."""
    try:
        spark.sql(f"SELECT java_method('{name}', 'headrace')").collect()
    except PySparkException as error:
        return "UNEXPECTED_CLASS_TYPE" not in (error.getCondition() or "")
    return True


def _send(spark: SparkSession) -> None:
    """Put our packages on the path of the server's Python workers, for this session."""
    with packing.packed(_PACKAGES) as archive:
        spark.addArtifacts(str(archive), pyfile=True)
