"""Which tests share a process when a run has several."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# What needs the Spark session: a second one would cost its memory, its start and a JVM that is cold again.
_SESSION = (
    "backfill_kills backfill_many_runs backfill_reconcile backfill_run backfill_watch direct_mode producer_faults"
)
_CONNECT = ("backfill_connect", "spark_connect")
_SPARK = (
    "tests/spark/",
    *(f"tests/integration/test_{name}.py" for name in (*_SESSION.split(), "producer_publishing", *_CONNECT)),
)
# What needs no service and is short: it fills up the time of whoever has any.
_ALONE = ("tests/unit/", "tests/architecture/")


class ByNeed(LoadScopeScheduling):  # type: ignore[misc]
    """All tests of the Spark session in one process, the others file by file.

    Each process starts a Kafka and a Postgres of its own.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(_SPARK) else nodeid.split("::", 1)[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByNeed:
    """Give the tests out like that, in the order in which they were found."""
    config.option.loadscopereorder = False
    return ByNeed(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let one of several processes find first what takes longest."""
    if hasattr(config, "workerinput"):
        strangers = {item.location[0] for item in items if "spark" in getattr(item, "fixturenames", ())}
        if strangers := {name for name in strangers if not name.startswith(_SPARK)}:
            raise pytest.UsageError(f"tests of the Spark session that tests/splitting.py does not know: {strangers}")
        items.sort(key=lambda item: (item.nodeid.startswith(_ALONE), not item.nodeid.startswith(_SPARK)))
