"""What pyspark would print of an error by itself, with the value of a row, stays unsaid in both Spark jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from pyspark.logger import PySparkLogger

from backfill import explain as backfill
from producer import explain as producer

LOUD = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    for name in LOUD:
        logging.getLogger(name).disabled = False


@pytest.mark.parametrize("hush", [producer.hush, backfill.hush])
@pytest.mark.parametrize("name", LOUD)
def test_pyspark_prints_no_error_of_its_own(
    hush: Callable[[], None], name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.Logger.manager.loggerDict.pop(name, None)
    PySparkLogger.getLogger(name).exception("The value 'my secret prompt' cannot be cast", errorClass="CAST")
    assert "my secret prompt" in capfd.readouterr().err
    hush()
    PySparkLogger.getLogger(name).exception("The value 'my secret prompt' cannot be cast", errorClass="CAST")
    assert capfd.readouterr().err == ""
