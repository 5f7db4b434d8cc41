"""Answers on their way to the store: batched, repeated until durable, never lost to a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from schemas.statuses import Reason, Status
from tests.fakes.fleet import half
from tests.fakes.samples import called, finished, work
from tests.fakes.telemetry import FakeTelemetry
from tests.fakes.virtual_time import now, settle, virtual
from worker.core.batch import BatchRule
from worker.core.claims import Claim, Verdict
from worker.core.rows import AttemptRow, FinishedRow
from worker.errors import StoreRefusedError, StoreUnavailableError
from worker.ports import Work
from worker.writer import Writer

Reply = Callable[[Sequence[FinishedRow]], list[bool]]


class ScriptedStore:
    """Answers each write by the next of `replies`: an error to raise, or seconds to take; then with success."""

    def __init__(self, *replies: Exception | float, refuses: frozenset[str] = frozenset()) -> None:
        self.replies = list(replies)
        self.refuses = refuses
        self.fenced: set[str] = set()
        self.written: list[tuple[list[FinishedRow], list[AttemptRow]]] = []
        self.tries = 0

    async def finish(self, rows: Sequence[FinishedRow], attempts: Sequence[AttemptRow]) -> list[bool]:
        self.tries += 1
        reply = self.replies.pop(0) if self.replies else 0.0
        if isinstance(reply, Exception):
            raise reply
        await asyncio.sleep(reply)
        if any(row.result in self.refuses for row in rows) or any(line.detail in self.refuses for line in attempts):
            raise StoreRefusedError("DataError")
        self.written.append((list(rows), list(attempts)))
        return [row.id not in self.fenced for row in rows]

    async def claim(self, works: Sequence[Work]) -> list[Claim]:
        raise NotImplementedError

    async def renew(self, works: Sequence[Work]) -> list[bool]:
        raise NotImplementedError

    async def release(self, works: Sequence[Work]) -> None:
        raise NotImplementedError

    @property
    def ids(self) -> list[str]:
        return [row.id for rows, _ in self.written for row in rows]


def writer(store: ScriptedStore, rows: int = 500) -> Writer:
    return Writer(store, BatchRule(rows, 0.05), FakeTelemetry(), half)


def claimed(id_: str) -> Work:
    one = work(id_)
    one.claim = Claim(Verdict.NEW, fence=1)
    return one


def write(to: Writer, id_: str, text: str = "yes") -> asyncio.Future[bool]:
    one = claimed(id_)
    return to.write(finished(one, text), called(one))


def away() -> StoreUnavailableError:
    return StoreUnavailableError("OperationalError")


@virtual
async def test_what_arrives_together_is_written_together_after_a_moment_and_the_next_a_while_later() -> None:
    store = ScriptedStore()
    to = writer(store)
    running = asyncio.create_task(to.run())
    began = now()
    assert await asyncio.gather(*(write(to, f"r-{nth}") for nth in range(10))) == [True] * 10
    assert now() - began == pytest.approx(0.005)
    await asyncio.gather(*(write(to, f"s-{nth}") for nth in range(10)))
    assert now() - began == pytest.approx(0.055)
    assert [len(rows) for rows, _ in store.written] == [10, 10]
    running.cancel()


@virtual
async def test_a_full_batch_does_not_wait_and_a_larger_number_is_divided() -> None:
    store = ScriptedStore()
    to = writer(store, rows=4)
    running = asyncio.create_task(to.run())
    began = now()
    await asyncio.gather(*(write(to, f"r-{nth}") for nth in range(10)))
    assert now() - began <= 0.05
    assert [len(rows) for rows, _ in store.written] == [4, 4, 2]
    assert store.ids == [f"r-{nth}" for nth in range(10)]
    running.cancel()


@virtual
async def test_ledger_lines_go_along_and_each_row_hears_its_own_end() -> None:
    store = ScriptedStore()
    store.fenced = {"b"}
    to = writer(store)
    running = asyncio.create_task(to.run())
    ends = [write(to, "a"), to.note(called(claimed("x"))), write(to, "b"), write(to, "c")]
    assert await asyncio.gather(*ends) == [True, True, False, True]
    ((rows, attempts),) = store.written
    assert ([row.id for row in rows], [line.id for line in attempts]) == (["a", "b", "c"], ["a", "x", "b", "c"])
    running.cancel()


@virtual
async def test_while_the_store_is_away_the_same_batch_is_sent_again_with_longer_and_longer_waits() -> None:
    store = ScriptedStore(*(away() for _ in range(12)))
    to = writer(store)
    running = asyncio.create_task(to.run())
    began = now()
    assert await write(to, "a") is True
    assert store.tries == 13
    assert 30 < now() - began < 120
    running.cancel()


@virtual
async def test_what_comes_while_the_store_is_away_waits_its_turn() -> None:
    store = ScriptedStore(away(), away())
    to = writer(store)
    running = asyncio.create_task(to.run())
    first = write(to, "a")
    await asyncio.sleep(0.1)
    second = write(to, "b")
    await asyncio.gather(first, second)
    assert store.ids == ["a", "b"]
    running.cancel()


@virtual
async def test_a_refused_row_is_found_and_the_others_are_stored() -> None:
    store = ScriptedStore(refuses=frozenset({"bad"}))
    to = writer(store)
    running = asyncio.create_task(to.run())
    texts = ["bad" if nth == 37 else "good" for nth in range(100)]
    ends = [write(to, f"r-{nth}", text) for nth, text in enumerate(texts)]
    assert all(await asyncio.gather(*ends))
    rows = {row.id: row for stored, _ in store.written for row in stored}
    assert len(rows) == 100
    assert (rows["r-37"].status, rows["r-37"].reason, rows["r-37"].result) == (
        Status.FAILED,
        Reason.MALFORMED_RESPONSE,
        None,
    )
    assert rows["r-37"].prompt_tokens == 7
    assert all(row.status is Status.SUCCEEDED for id_, row in rows.items() if id_ != "r-37")
    assert store.tries < 25
    running.cancel()


@virtual
async def test_a_refused_ledger_line_loses_its_detail_only() -> None:
    store = ScriptedStore(refuses=frozenset({"bad"}))
    to = writer(store)
    running = asyncio.create_task(to.run())
    assert await to.note(called(claimed("a"), detail="bad")) is True
    assert [(line.id, line.detail) for _, lines in store.written for line in lines] == [("a", None)]
    running.cancel()


@virtual
async def test_what_is_refused_even_without_its_content_stops_the_worker() -> None:
    store = ScriptedStore(*(StoreRefusedError("IntegrityError") for _ in range(5)))
    to = writer(store)
    running = asyncio.create_task(to.run())
    end = write(to, "a")
    with pytest.raises(StoreRefusedError):
        await running
    assert not end.done()


async def _stop_and_flush(store: ScriptedStore, stop_after: float, texts: Sequence[str]) -> list[bool]:
    """Write, cut the writer off after a while, and let a drain flush what it has left."""
    to = writer(store)
    running = asyncio.create_task(to.run())
    ends = [write(to, f"r-{nth}", text) for nth, text in enumerate(texts)]
    await asyncio.sleep(stop_after)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await to.flush()
    await settle()
    assert all(end.done() for end in ends)
    return [end.result() for end in ends]


@virtual
async def test_a_stop_in_the_middle_of_a_statement_leaves_its_rows_to_the_drain() -> None:
    store = ScriptedStore(1.0)
    assert await _stop_and_flush(store, 0.5, ["yes"] * 3) == [True] * 3
    assert store.ids == ["r-0", "r-1", "r-2"]


@virtual
async def test_a_stop_between_two_tries_leaves_the_rows_to_the_drain() -> None:
    store = ScriptedStore(away(), away(), away(), away(), away())
    assert await _stop_and_flush(store, 0.3, ["yes"] * 3) == [True] * 3
    assert store.ids == ["r-0", "r-1", "r-2"]


@virtual
async def test_a_stop_while_a_refused_row_is_looked_for_leaves_the_rest_to_the_drain() -> None:
    store = ScriptedStore(0.0, 1.0, refuses=frozenset({"bad"}))
    assert await _stop_and_flush(store, 0.5, ["yes", "bad", "yes", "yes"]) == [True] * 4
    assert sorted(store.ids) == ["r-0", "r-1", "r-2", "r-3"]


@virtual
async def test_what_comes_during_a_write_is_written_next_in_order() -> None:
    store = ScriptedStore(1.0)
    to = writer(store)
    running = asyncio.create_task(to.run())
    first = write(to, "a")
    await asyncio.sleep(0.5)
    rest = [write(to, "b"), write(to, "c")]
    await asyncio.gather(first, *rest)
    assert [[row.id for row in rows] for rows, _ in store.written] == [["a"], ["b", "c"]]
    running.cancel()


@virtual
async def test_an_end_nobody_waits_for_any_more_is_written_all_the_same() -> None:
    store = ScriptedStore()
    to = writer(store)
    running = asyncio.create_task(to.run())
    abandoned = asyncio.ensure_future(_wait_for(write(to, "a")))
    await settle()
    abandoned.cancel()
    assert await write(to, "b") is True
    assert store.ids == ["a", "b"]
    running.cancel()


async def _wait_for(end: asyncio.Future[bool]) -> bool:
    return await end
