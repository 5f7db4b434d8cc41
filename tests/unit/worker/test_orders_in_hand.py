"""What becomes of prompts when orders come: those that wait leave, those that are called end, nobody else notices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from schemas.statuses import JobState
from tests.fakes.endpoint import FakeEndpoint, answer, error
from tests.fakes.fleet import FakeWorker, upstream
from tests.fakes.samples import TOPIC
from tests.fakes.source import FakeSource
from tests.fakes.store import FakeStore
from tests.fakes.virtual_time import now, settle, virtual, wall
from tests.unit.worker.test_main_path import Away, Mill, P
from worker.core.orders import Orders, RunState, TopicState
from worker.core.reply import Break, Broken
from worker.core.room import Bounds
from worker.core.rows import AttemptRow, FinishedRow
from worker.errors import StoreUnavailableError

OTHER = "headrace.prompts.tickets"
SHARED = "headrace.prompts"


def paused(run: str = "run-1", job: str = "reviews") -> RunState:
    return RunState(job, run, JobState.PAUSED)


def cancelled(run: str = "run-1", job: str = "reviews") -> RunState:
    return RunState(job, run, JobState.CANCELLED, datetime.fromtimestamp(wall(), UTC))


def parked(*runs: RunState, topic: str = TOPIC) -> Orders:
    """These runs are paused, and with them the whole topic."""
    return Orders(runs, [TopicState(topic, paused=True)])


def published(mill: Mill, count: int, start: int = 0, topic: str | None = None, **fields: str) -> list[str]:
    """Messages of a run of job reviews, or of others by `fields`; gives their ids."""
    ids = [f"{fields.get('job', 'reviews')}-{nth}" for nth in range(start, start + count)]
    for id_ in ids:
        mill.publish(id_, topic=topic, **{"job": "reviews", "run": "run-1", **fields})  # type: ignore[arg-type]
    return ids


def states(mill: Mill, job: str = "reviews") -> Counter[tuple[str, str | None]]:
    rows = [row for (of, _), row in mill.tables.results.items() if of == job]
    return Counter((row["status"], row["reason"]) for row in rows)


def nothing_in_hand(worker: FakeWorker) -> None:
    assert (worker.loop.open, worker.asker.asking, len(worker.leases), worker.upstreams.inside) == (0, 0, 0, 0)


@virtual
async def test_of_a_paused_run_running_calls_end_waiting_ones_leave_and_no_other_begins() -> None:
    mill = Mill(latency=10)
    published(mill, 100)
    worker = mill.worker(most=4)
    await asyncio.sleep(1)
    worker.foreman.obey(parked(paused()))
    await settle()
    assert len(worker.leases) == 4
    await asyncio.sleep(60)
    nothing_in_hand(worker)
    assert len(mill.endpoint.asked) == 4
    assert states(mill)["succeeded", None] == 4
    assert all(row["worker"] is None for row in mill.tables.results.values() if row["status"] == "claimed")
    worker.foreman.obey(Orders())
    await mill.until(lambda: mill.log.done)
    assert states(mill) == {("succeeded", None): 100}
    assert len(mill.endpoint.asked) == 100
    assert all(row["starts"] == 1 for row in mill.tables.results.values())


@virtual
async def test_what_rests_after_a_failure_leaves_too_with_its_call_on_record() -> None:
    mill = Mill(lambda r: error(503), latency=1)
    published(mill, 3)
    worker = mill.worker()
    await asyncio.sleep(2)
    worker.foreman.obey(parked(paused()))
    await asyncio.sleep(3600)
    nothing_in_hand(worker)
    asked = len(mill.endpoint.asked)
    assert asked == 3
    assert all(len(mill.tables.calls(("reviews", f"reviews-{nth}"))) == 1 for nth in range(3))


@virtual
async def test_a_call_that_fails_after_the_order_is_not_made_again() -> None:
    mill = Mill(lambda r: error(500), latency=10)
    published(mill, 2)
    worker = mill.worker()
    await asyncio.sleep(1)
    worker.foreman.obey(parked(paused()))
    await asyncio.sleep(600)
    assert len(mill.endpoint.asked) == 2
    nothing_in_hand(worker)


class Unwritten(FakeStore):
    """A store that takes claims and their return, and for a while no ledger line."""

    async def finish(self, rows: Sequence[FinishedRow], attempts: Sequence[AttemptRow]) -> list[bool]:
        if now() < 1100:
            raise StoreUnavailableError("OperationalError")
        return await super().finish(rows, attempts)


@virtual
async def test_a_claim_is_not_given_back_before_the_call_that_may_be_billed_is_on_record() -> None:
    mill = Mill(lambda r: Broken(Break.TIMEOUT, "ReadTimeout"), latency=1)
    published(mill, 1)
    worker = mill.worker(Unwritten(mill.tables, "w"))
    await asyncio.sleep(2)
    worker.foreman.obey(parked(paused()))
    await asyncio.sleep(90)
    assert mill.row("reviews-0", "reviews")["worker"] == "w"
    await asyncio.sleep(60)
    assert mill.row("reviews-0", "reviews")["worker"] is None
    assert [line["billed"] for line in mill.tables.calls(("reviews", "reviews-0"))] == ["maybe"]


@virtual
async def test_a_paused_topic_holds_back_nobody_else() -> None:
    mill = Mill(latency=1, others=(OTHER,))
    published(mill, 200)
    worker = mill.worker(most=4)
    await asyncio.sleep(1)
    worker.foreman.obey(parked(paused()))
    began = now()
    published(mill, 100, topic=OTHER, job="tickets")
    await mill.until(lambda: states(mill, "tickets") == {("succeeded", None): 100})
    assert now() - began < 100 / 4 * 1.2 + 3


@virtual
async def test_a_paused_job_in_a_shared_topic_is_passed_over_and_read_again_on_resume() -> None:
    mill = Mill(latency=1, others=(SHARED,))
    published(mill, 3, topic=SHARED)
    published(mill, 20, topic=SHARED, job="tickets")
    worker = mill.worker(most=4)
    worker.foreman.obey(Orders([paused()]))
    await mill.until(lambda: states(mill, "tickets") == {("succeeded", None): 20})
    await asyncio.sleep(3600)
    assert states(mill) == {}
    assert mill.log.committed.get((SHARED, 0), 0) == 0
    assert worker.source._tracker.span((SHARED, 0)) == 1, "what is behind a passed-over message is not remembered"
    nothing_in_hand(worker)
    worker.foreman.obey(Orders())
    await mill.until(lambda: mill.log.done)
    assert states(mill) == {("succeeded", None): 3}
    assert len(mill.endpoint.asked) == 23


@virtual
async def test_a_run_that_goes_on_beside_a_paused_one_of_its_topic_is_answered() -> None:
    mill = Mill()
    published(mill, 5)
    published(mill, 5, start=5, run="run-2")
    worker = mill.worker()
    worker.foreman.obey(Orders([paused()]))
    await asyncio.sleep(60)
    assert states(mill) == {("succeeded", None): 5}
    worker.foreman.obey(Orders([cancelled()]))
    await mill.until(lambda: mill.log.done)
    assert states(mill) == {("succeeded", None): 5, ("failed", "cancelled"): 5}


@virtual
async def test_a_change_of_mind_before_the_claims_are_back_costs_no_second_call() -> None:
    mill = Mill(latency=5)
    published(mill, 50)
    worker = mill.worker(Away(mill.tables, 1001, 1030), most=4)
    await asyncio.sleep(2)
    worker.foreman.obey(parked(paused()))
    await asyncio.sleep(1)
    worker.foreman.obey(Orders())
    await mill.until(lambda: mill.log.done)
    assert len(mill.endpoint.asked) == 50
    assert all(row["starts"] == 1 for row in mill.tables.results.values())
    nothing_in_hand(worker)


@virtual
async def test_a_stop_gives_back_what_was_leaving() -> None:
    mill = Mill(latency=5)
    published(mill, 50)
    worker = mill.worker(Away(mill.tables, 1001, 1008), most=4)
    await asyncio.sleep(2)
    worker.foreman.obey(parked(paused()))
    await asyncio.sleep(1)
    assert await worker.stop(25)
    mill.log.leave(worker.source)
    began = now()
    mill.worker(most=50)
    await mill.until(lambda: mill.log.done)
    assert now() - began < 30, "no lease had to run out"
    assert len(mill.endpoint.asked) == 50


@virtual
async def test_a_worker_killed_while_parked_leaves_nothing_that_must_be_waited_for() -> None:
    mill = Mill(latency=5)
    published(mill, 50)
    first = mill.worker(most=4)
    await asyncio.sleep(1)
    first.foreman.obey(parked(paused()))
    await asyncio.sleep(30)
    await first.kill()
    mill.log.leave(first.source)
    second = FakeWorker(source := FakeSource(mill.log), FakeStore(mill.tables, "w-2"), mill.endpoint, most=4)
    second.foreman.obey(parked(paused()))
    mill.log.join(source)
    mill.workers = [second]
    second.start()
    await asyncio.sleep(600)
    assert len(mill.endpoint.asked) == 4
    second.foreman.obey(Orders())
    await mill.until(lambda: mill.log.done)
    assert len(mill.endpoint.asked) == 50


@virtual
async def test_of_a_cancelled_run_running_calls_keep_their_answers_and_all_else_ends_without_a_call() -> None:
    mill = Mill(latency=10)
    published(mill, 300)
    worker = mill.worker(most=4)
    await asyncio.sleep(1)
    worker.foreman.obey(Orders([cancelled()]))
    await mill.until(lambda: mill.log.done, 60)
    assert states(mill) == {("succeeded", None): 4, ("failed", "cancelled"): 296}
    assert len(mill.endpoint.asked) == 4
    assert worker.telemetry.messages == {"succeeded": 4, "cancelled": 296}
    row = mill.row("reviews-299", "reviews")
    assert (row["retry_count"], row["run"], row["result"], row["claimed_until"]) == (0, "run-1", None, None)
    assert mill.tables.calls(("reviews", "reviews-299")) == []
    nothing_in_hand(worker)


@virtual
async def test_a_cancelled_row_says_how_often_it_was_asked_again() -> None:
    mill = Mill(lambda r: error(503), latency=1)
    published(mill, 1)
    worker = mill.worker()
    await asyncio.sleep(20)
    worker.foreman.obey(Orders([cancelled()]))
    await mill.until(lambda: mill.log.done)
    row = mill.row("reviews-0", "reviews")
    assert (row["reason"], row["retry_count"]) == ("cancelled", len(mill.endpoint.asked))
    assert len(mill.tables.calls(("reviews", "reviews-0"))) == len(mill.endpoint.asked)


@virtual
async def test_a_later_run_asks_what_a_cancelled_one_left() -> None:
    mill = Mill()
    published(mill, 20)
    worker = mill.worker(most=1)
    worker.foreman.obey(Orders([cancelled()]))
    await mill.until(lambda: mill.log.done)
    published(mill, 20, run="run-2")
    await mill.until(lambda: mill.log.done)
    assert states(mill) == {("succeeded", None): 20}


@virtual
async def test_a_duplicate_by_a_later_run_is_asked_when_the_earlier_run_is_cancelled_in_hand() -> None:
    mill = Mill(lambda r: error(503) if len(mill.endpoint.asked) == 1 else answer(), latency=1)
    published(mill, 1)
    worker = mill.worker()
    await asyncio.sleep(2)
    published(mill, 1, run="run-2")
    await asyncio.sleep(1)
    worker.foreman.obey(Orders([cancelled()]))
    await mill.until(lambda: mill.log.done)
    row = mill.row("reviews-0", "reviews")
    assert (row["status"], row["run"]) == ("succeeded", "run-2")
    nothing_in_hand(worker)


@virtual
async def test_a_duplicate_by_another_run_goes_on_when_the_first_is_paused_in_hand() -> None:
    mill = Mill(lambda r: error(503) if len(mill.endpoint.asked) == 1 else answer(), latency=1)
    published(mill, 1)
    worker = mill.worker()
    await asyncio.sleep(2)
    published(mill, 1, run="run-2")
    await asyncio.sleep(1)
    worker.foreman.obey(Orders([paused()]))
    await mill.until(lambda: states(mill) == {("succeeded", None): 1}, 60)
    assert mill.log.committed.get(P, 0) == 0, "the paused run's message stays"
    worker.foreman.obey(Orders())
    await mill.until(lambda: mill.log.done)
    assert len(mill.endpoint.asked) == 2


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_calls_are_shared_by_weight_while_both_have_a_backlog(weight: float) -> None:
    @virtual
    async def shared() -> None:
        mill = Mill(latency=1, others=(OTHER,))
        published(mill, 2000)
        published(mill, 2000, topic=OTHER, job="tickets")
        worker = mill.worker(most=8)
        worker.foreman.obey(Orders(topics=[TopicState(OTHER, paused=False, priority=2 if weight == 4.0 else 0)]))
        await asyncio.sleep(100)
        calls = Counter(asked.request.id.split("-")[0] for asked in mill.endpoint.asked)
        assert calls.total() > 8 * 95
        assert calls["tickets"] / calls["reviews"] == pytest.approx(weight, rel=0.15)

    shared()


@virtual
async def test_jobs_of_different_models_share_the_calls_of_a_worker_by_weight_too() -> None:
    mill = Mill(latency=1, others=(OTHER,))
    both = [upstream(mill.endpoint, alias, most=8, name=f"{alias}:1") for alias in ("large", "small")]
    worker = FakeWorker(FakeSource(mill.log), FakeStore(mill.tables, "w"), both, most=8)
    worker.foreman.obey(Orders(topics=[TopicState(OTHER, paused=False, priority=1)]))
    published(mill, 2000, model="large")
    published(mill, 2000, topic=OTHER, job="tickets", model="small")
    mill.log.join(worker.source)
    mill.workers = [worker]
    worker.start()
    await asyncio.sleep(100)
    calls = Counter(asked.request.id.split("-")[0] for asked in mill.endpoint.asked)
    assert calls.total() > 8 * 95
    assert calls["tickets"] / calls["reviews"] == pytest.approx(2.0, rel=0.15)


@virtual
async def test_a_job_whose_rows_all_wait_leaves_the_places_to_the_others() -> None:
    mill = Mill(latency=1, others=(OTHER,))
    mill.endpoint.handler = lambda r: error(503, headers={"retry-after": "86400"}) if "reviews" in r.id else answer()
    await _one_dead_job(mill, 200)


@virtual
async def test_a_job_whose_rows_all_back_off_leaves_the_places_to_the_others() -> None:
    mill = Mill(latency=1, others=(OTHER,))
    mill.endpoint.handler = lambda r: error(429, headers={"retry-after": "86400"}) if "reviews" in r.id else answer()
    await _one_dead_job(mill, 200)


async def _one_dead_job(mill: Mill, count: int) -> None:
    """A backlog that waits for its own endpoint, then another job on an endpoint that answers."""
    dead = FakeEndpoint(mill.endpoint.handler, 0.1)
    both = [upstream(dead, "dead", most=8, name="dead:1"), upstream(mill.endpoint, "small", most=8)]
    worker = FakeWorker(FakeSource(mill.log), FakeStore(mill.tables, "w"), both, most=16, bounds=Bounds(16, 64))
    mill.log.join(worker.source)
    mill.workers = [worker]
    worker.start()
    published(mill, 1000, model="dead")
    await asyncio.sleep(60)
    began = now()
    published(mill, count, topic=OTHER, job="tickets", model="small")
    await mill.until(lambda: states(mill, "tickets") == {("succeeded", None): count}, 600)
    assert now() - began < count / 8 * 1.2 + 3
    assert worker.loop.open <= 64


@virtual
async def test_a_duplicate_that_came_by_another_topic_is_read_again_there_too() -> None:
    mill = Mill(latency=10, others=(OTHER,))
    published(mill, 1, job="others")
    worker = mill.worker(most=1)
    await asyncio.sleep(1)
    published(mill, 1)
    published(mill, 1, topic=OTHER)
    await asyncio.sleep(1)
    worker.foreman.obey(Orders([paused()]))
    await asyncio.sleep(60)
    assert len(mill.endpoint.asked) == 1
    worker.foreman.obey(Orders())
    await mill.until(lambda: mill.log.done)
    assert states(mill) == {("succeeded", None): 1}
    assert len(mill.endpoint.asked) == 2
