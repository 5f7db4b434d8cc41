"""Workers that start before what they need: they wait, say so, and work once it is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.invariants import Report
from tests.chaos.manifest import marked
from tests.chaos.servers import Servers
from tests.chaos.world import World, replaced, world

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

_AWAY: dict[str, tuple[Callable[[World], object], Callable[[World], object]]] = {
    "kafka": (lambda made: made.servers.kafka_proxy.down(), lambda made: made.servers.kafka_proxy.up()),
    "postgres": (lambda made: made.servers.postgres_proxy.down(), lambda made: made.servers.postgres_proxy.up()),
    "endpoint": (lambda made: made.endpoint.stop(), lambda made: made.endpoint.start()),
}


@pytest.mark.parametrize("missing", list(_AWAY))
def test_a_worker_waits_for_what_is_not_up_yet(
    missing: str, shared: Servers, tmp_path: Path, passes: Callable[..., Report]
) -> None:
    leave, come = _AWAY[missing]
    with world(shared, tmp_path, replaced([])) as made:
        made.publisher.publish(marked(100))
        leave(made)
        workers = made.fleet.start(2)
        assert [worker.metrics_port > 0 for worker in workers] == [True, True]
        time.sleep(8)
        if missing != "endpoint":
            assert {worker.get("/readyz")[0] for worker in workers} == {503}
        assert made.ended() == 0
        come(made)
        made.settle()
        assert len(made.alive) == 2, "nobody had to be restarted"
        report = passes(made.report(100))
    assert not report.failed
    assert report.extra_paid_calls == 0
