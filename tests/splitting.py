"""Which tests share a process when a run has several."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# What needs no service and may run anywhere; the rest shares one Kafka, one Postgres and one Spark.
_ALONE = ("tests/unit/", "tests/architecture/")


class ByNeed(LoadScopeScheduling):  # type: ignore[misc]
    """All tests that use services in one process, the others file by file."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::", 1)[0] if nodeid.startswith(_ALONE) else "services"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByNeed:
    """Give the tests out like that."""
    return ByNeed(config, log)
