"""Everything here runs on the one session of `tests/spark_session.py`."""

from __future__ import annotations

from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]
