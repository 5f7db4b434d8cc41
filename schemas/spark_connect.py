"""Spark Connect as the jobs see it: where its server is, and what is said where it does not fit."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from schemas import spark_jars
from schemas.spark_jars import Need

# The environment variable of Spark's own that names the server; `spark-submit --remote` sets it too.
REMOTE = "SPARK_REMOTE"
_PORT = 15002
_ANSWER_SECONDS = 10.0
NO_CLIENT = "Spark Connect: its client is not installed: pip install 'headrace[spark,connect]'"
NOT_SHARED = (
    "the Spark Connect server does not find at {place} what this machine has just written there: both must reach the "
    "target under one name (a shared mount, s3://, hdfs://); or run plain spark-submit"
)
# A server goes on with the write of a client that was killed, into the folder that the next run would write.
NO_PARQUET = (
    f"target.format: parquet is not written on Spark Connect: use delta or iceberg, whose tables no two writers "
    f"can spoil, or start the backfill with spark-submit and without {REMOTE}"
)


def place(remote: str) -> tuple[str, int]:
    """Read host and port out of `sc://host:port/;token=...`, and nothing else, since the rest may be secret.

    Raises `ValueError`.
    """
    url = urlsplit(remote)
    if url.scheme != "sc" or not url.hostname:
        raise ValueError(f"{REMOTE}: must be sc://HOST:PORT")
    return url.hostname, url.port or _PORT


def unanswered(host: str, port: int) -> str | None:
    """Try to reach the server: Spark's own client would try for ten minutes; tells what is wrong."""
    try:
        socket.create_connection((host, port), _ANSWER_SECONDS).close()
    except OSError as error:
        return f"Spark Connect: {host}:{port} gave no answer ({error}). Check {REMOTE} and that the server is up"
    return None


def problems(
    needs: Sequence[Need], spark: str, has_class: Callable[[str], bool], setting: Callable[[str], str]
) -> list[str]:
    """Say what a server lacks of what a job needs: jars, by their classes, and settings."""
    lacking = [missing(need, spark) for need in needs if not has_class(need.shows)]
    return [*lacking, *spark_jars.unsettled(needs, setting)]


def missing(need: Need, spark: str) -> str:
    """Say which jars the server lacks."""
    package = need.coordinates(spark) or f"(the package of {need.shows})"
    return f"{need.wanted_by}: start the Spark Connect server with --packages {package}"
