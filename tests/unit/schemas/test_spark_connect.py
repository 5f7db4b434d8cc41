"""Where a Spark Connect server is, and what it was not started with."""

from __future__ import annotations

import socket

import pytest

from schemas import spark_connect, spark_jars
from schemas.spark_jars import DELTA


@pytest.mark.parametrize(
    ("remote", "place"),
    [
        ("sc://host", ("host", 15002)),
        ("sc://host:7077/;token=secret;use_ssl=true", ("host", 7077)),
        ("sc://[::1]:7077", ("::1", 7077)),
    ],
)
def test_host_and_port_are_all_that_is_read(remote: str, place: tuple[str, int]) -> None:
    assert spark_connect.place(remote) == place


@pytest.mark.parametrize("remote", ["local[2]", "http://host", "sc:///;token=secret", "spark://host:7077"])
def test_what_names_no_server_is_refused_without_being_quoted(remote: str) -> None:
    with pytest.raises(ValueError, match="SPARK_REMOTE: must be sc://HOST:PORT") as raised:
        spark_connect.place(remote)
    assert remote not in str(raised.value)


def test_a_server_that_does_not_listen_is_told_at_once_and_one_that_does_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        assert spark_connect.unanswered(host, port) is None
    assert "gave no answer" in (spark_connect.unanswered(host, port) or "")


def test_settings_that_only_a_servers_start_can_make_are_named_with_their_values() -> None:
    none = spark_jars.unsettled([DELTA], lambda _: "")
    assert [problem.split("--conf ")[1].split("=")[0] for problem in none] == [
        "spark.sql.catalog.spark_catalog",
        "spark.sql.extensions",
    ]
    held = {**DELTA.defaults, "spark.sql.extensions": f"another.Extension,{DELTA.extension}"}
    assert spark_jars.unsettled([DELTA], lambda name: held.get(name, "")) == []
    assert "--packages io.delta:delta-spark_4.2_2.13" in spark_connect.missing(DELTA, "4.2.0")
