"""The main path: given these messages and this endpoint, after so long these rows and commits exist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from schemas.message import Prompt, decode
from schemas.statuses import DeadLetter, Status
from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.endpoint import FakeEndpoint, answer, error, text_of
from tests.fakes.fleet import FakeWorker
from tests.fakes.samples import TOPIC, finished, message, work
from tests.fakes.source import FakeLog, FakeSource
from tests.fakes.store import FakeStore, Row, Tables
from tests.fakes.virtual_time import now, settle, virtual, wall
from worker.core.reply import Broken, Reply
from worker.core.room import Bounds
from worker.errors import StoreUnavailableError, WrongSettingsError
from worker.ports import Request

P = (TOPIC, 0)


class Mill:
    """One log, one database, one endpoint, and workers that come and go."""

    def __init__(
        self,
        handler: Callable[[Request], Reply | Broken] = lambda r: answer(text_of(r)),
        *,
        latency: float = 0.1,
        partitions: int = 1,
        others: tuple[str, ...] = (),
    ) -> None:
        self.log = FakeLog(partitions=partitions, clock=wall, others=others)
        self.tables = Tables(wall)
        self.endpoint = FakeEndpoint(handler, latency)
        self.workers: list[FakeWorker] = []

    def worker(self, store: FakeStore | None = None, **fields: Any) -> FakeWorker:
        source = FakeSource(self.log)
        store = store or FakeStore(self.tables, f"w-{len(self.workers)}")
        one = FakeWorker(source, store, self.endpoint, **fields)
        self.log.join(source)
        self.workers.append(one)
        one.start()
        return one

    def publish(
        self, id_: str, prompt: str = "Why?", partition: int = 0, topic: str | None = None, **fields: Any
    ) -> None:
        self.log.publish(message(id_, prompt, **fields), key=id_.encode(), partition=partition, topic=topic)

    def row(self, id_: str, job: str = "default") -> Row:
        return self.tables.results[job, id_]

    def called(self, id_: str) -> int:
        return sum(asked.request.id == id_ for asked in self.endpoint.asked)

    async def until(self, done: Callable[[], bool], seconds: float = 600) -> None:
        """Let time pass until something holds."""
        deadline = now() + seconds
        while not done():
            assert now() < deadline, "never came"
            for one in self.workers:
                if (error_ := one.broken()) is not None:
                    raise error_
            await asyncio.sleep(0.05)


@virtual
async def test_messages_become_rows_and_only_then_offsets() -> None:
    mill = Mill()
    for nth in range(20):
        mill.publish(f"r-{nth}", f"question {nth}")
    committed: list[int] = []
    mill.log.on_commit = lambda _partition, offset: committed.append(offset)
    worker = mill.worker()
    await mill.until(lambda: mill.log.done)
    assert all(mill.row(f"r-{nth}")["result"] == f"question {nth}" for nth in range(20))
    assert worker.telemetry.messages == {"succeeded": 20}
    assert committed == sorted(committed)
    assert worker.loop.open == 0


@virtual
async def test_a_slow_message_holds_the_commit_and_nobody_else_and_is_not_asked_again_after_a_crash() -> None:
    mill = Mill(latency=0.1)
    slow = asyncio.Event()

    async def wait_for_it() -> Reply:
        await slow.wait()
        return answer("late")

    mill.endpoint.handler = lambda r: wait_for_it() if r.id == "r-0" else answer()
    for nth in range(10):
        mill.publish(f"r-{nth}")
    first = mill.worker()
    await asyncio.sleep(590)
    assert mill.log.committed.get(P, 0) == 0
    assert [mill.row(f"r-{nth}")["status"] for nth in range(10)] == ["claimed", *["succeeded"] * 9]
    await first.kill()
    mill.log.leave(first.source)
    slow.set()
    mill.worker()
    await mill.until(lambda: mill.log.done)
    assert [mill.called(f"r-{nth}") for nth in range(10)] == [2, *[1] * 9]
    assert [(line["outcome"], line["billed"]) for line in mill.tables.calls(("default", "r-0"))] == [
        ("lost", "maybe"),
        ("answered", "yes"),
    ]


@virtual
async def test_a_duplicate_in_hand_shares_the_call_and_the_end() -> None:
    mill = Mill(latency=5)
    for _ in range(3):
        mill.publish("r-1")
    worker = mill.worker()
    await asyncio.sleep(1)
    mill.publish("r-1")
    await mill.until(lambda: mill.log.done)
    assert mill.called("r-1") == 1
    assert worker.telemetry.messages == {"succeeded": 1, "duplicate": 3}


@virtual
async def test_a_duplicate_of_what_is_answered_is_not_asked() -> None:
    mill = Mill()
    mill.publish("r-1")
    worker = mill.worker()
    await mill.until(lambda: mill.log.done)
    mill.publish("r-1", run="run-2")
    await mill.until(lambda: mill.log.done)
    assert mill.called("r-1") == 1
    assert worker.telemetry.messages == {"succeeded": 1, "duplicate": 1}


@virtual
async def test_of_two_versions_in_one_poll_only_the_later_is_asked() -> None:
    mill = Mill()
    mill.publish("r-1", "v1")
    mill.publish("r-1", "v2")
    worker = mill.worker()
    await mill.until(lambda: mill.log.done)
    assert [text_of(asked.request) for asked in mill.endpoint.asked] == ["v2"]
    assert worker.telemetry.messages == {"succeeded": 1, "superseded": 1}


@pytest.mark.parametrize("newest", [0, 1])
def test_of_versions_in_two_partitions_the_one_published_later_is_asked(newest: int) -> None:
    """As after a change of the number of partitions, or from a client with another partitioner."""

    @virtual
    async def asked() -> None:
        mill = Mill(partitions=2)
        mill.publish("r-1", "v1", partition=1 - newest)
        await asyncio.sleep(5)
        mill.publish("r-1", "v2", partition=newest)
        mill.worker()
        await mill.until(lambda: mill.log.done)
        assert mill.row("r-1")["result"] == "v2"
        assert [text_of(call.request) for call in mill.endpoint.asked] == ["v2"]

    asked()


@virtual
async def test_an_older_answer_never_overwrites_a_newer_one() -> None:
    mill = Mill()
    late = {"v1": 30.0, "v2": 1.0}

    async def answered(request: Request) -> Reply:
        await asyncio.sleep(late[text_of(request)])
        return answer(f"to {text_of(request)}")

    mill.endpoint.handler = answered
    mill.publish("r-1", "v1")
    mill.worker()
    await asyncio.sleep(0.5)
    mill.publish("r-1", "v2")
    await mill.until(lambda: mill.log.done)
    assert mill.row("r-1")["result"] == "to v2"
    assert {line["outcome"] for line in mill.tables.calls(("default", "r-1"))} == {"answered"}
    assert len(mill.tables.calls(("default", "r-1"))) == 2


@virtual
async def test_an_older_version_is_not_asked_any_further_once_a_newer_one_has_come() -> None:
    mill = Mill(lambda r: error(500) if text_of(r) == "v1" else answer(), latency=1)
    mill.publish("r-1", "v1")
    mill.publish("r-2", "others are answered")
    mill.worker()
    await asyncio.sleep(1.5)
    mill.publish("r-1", "v2")
    await mill.until(lambda: mill.log.done)
    assert [text_of(asked.request) for asked in mill.endpoint.asked if asked.request.id == "r-1"] == ["v1", "v2"]


@virtual
async def test_the_first_version_sent_again_is_the_latest_version() -> None:
    mill = Mill()
    for prompt in ("v1", "v2", "v1"):
        mill.publish("r-1", prompt)
        if not mill.workers:
            mill.worker()
        await mill.until(lambda: mill.log.done)
    assert mill.row("r-1")["result"] == "v1"
    assert mill.called("r-1") == 3


@virtual
async def test_unreadable_messages_go_to_the_dead_letters_and_the_partition_goes_on() -> None:
    mill = Mill()
    poison = [b"not json", b"{}", b"\x00\x00", b'{"id": "x"}', message("r-9"), b"[" * 100_000]
    for value in poison:
        mill.log.publish(value, key=b"other" if value == poison[4] else None)
        mill.publish(f"r-{len(mill.log.records[P])}")
    worker = mill.worker(letters=(letters := FakeDeadLetters()))
    before = now()
    await mill.until(lambda: mill.log.done)
    assert now() - before < 3
    assert [letter.reason for _, letter in letters.letters] == [
        DeadLetter.NOT_JSON,
        DeadLetter.NO_ID,
        DeadLetter.FRAMED,
        DeadLetter.NO_PROMPT,
        DeadLetter.KEY_MISMATCH,
        DeadLetter.NOT_JSON,
    ]
    assert worker.telemetry.messages == {"succeeded": 6, "dead_letter": 6}
    assert sum(worker.telemetry.letters.values()) == 6


@virtual
async def test_a_dead_letter_that_is_not_delivered_holds_its_offset_and_nothing_else() -> None:
    mill = Mill()
    mill.log.publish(b"not json")
    for nth in range(5):
        mill.publish(f"r-{nth}")
    letters = FakeDeadLetters(failures=20)
    mill.worker(letters=letters)
    await asyncio.sleep(60)
    assert mill.log.committed.get(P, 0) == 0
    assert all(mill.row(f"r-{nth}")["status"] is Status.SUCCEEDED for nth in range(5))
    await mill.until(lambda: mill.log.done)
    assert len(letters.letters) == 1


@virtual
async def test_a_null_value_is_skipped_and_counted() -> None:
    mill = Mill()
    mill.log.publish(None, key=b"r-1")
    worker = mill.worker()
    await mill.until(lambda: mill.log.done)
    assert worker.telemetry.messages == {"tombstone": 1}
    assert mill.tables.results == {}


@virtual
async def test_a_row_of_another_owner_is_waited_for_without_holding_back_the_others() -> None:
    mill = Mill()
    other = FakeStore(mill.tables, "elsewhere")
    held = work("r-0", offset=99, log=f"{TOPIC}/0")
    (held.claim,) = await other.claim([held])
    for nth in range(5):
        mill.publish(f"r-{nth}")
    worker = mill.worker()
    await asyncio.sleep(30)
    assert [mill.called(f"r-{nth}") for nth in range(5)] == [0, 1, 1, 1, 1]
    assert mill.log.committed.get(P, 0) == 0
    await other.finish([finished(held, "theirs")], [])
    await mill.until(lambda: mill.log.done, 10)
    assert mill.row("r-0")["result"] == "theirs"
    assert worker.telemetry.messages == {"succeeded": 4, "duplicate": 1}


@virtual
async def test_many_rows_of_another_owner_that_end_there_leave_room_for_what_comes_next() -> None:
    mill = Mill()
    other = FakeStore(mill.tables, "elsewhere")
    held = [work(f"r-{nth}", offset=99 + nth, log=f"{TOPIC}/0") for nth in range(4)]
    for one, claim in zip(held, await other.claim(held), strict=True):
        one.claim = claim
    for nth in range(10):
        mill.publish(f"r-{nth}")
    mill.worker(bounds=Bounds(ahead=2, open=4))
    await asyncio.sleep(10)
    await other.finish([finished(one, "theirs") for one in held], [])
    await mill.until(lambda: mill.log.done, 60)
    assert [mill.called(f"r-{nth}") for nth in range(10)] == [0] * 4 + [1] * 6


@virtual
async def test_a_lapsed_claim_is_taken_over_and_the_late_owner_changes_nothing() -> None:
    mill = Mill()
    other = FakeStore(mill.tables, "zombie")
    held = work("r-0", offset=0, log=f"{TOPIC}/0")
    (held.claim,) = await other.claim([held])
    mill.publish("r-0")
    worker = mill.worker()
    await asyncio.sleep(58)
    assert mill.called("r-0") == 0
    await mill.until(lambda: mill.log.done, 10)
    assert await other.finish([finished(held, "late")], []) == [False]
    assert mill.row("r-0")["result"] == "Why?"
    assert worker.telemetry.lost == 1


class Away(FakeStore):
    """A store that is away between two instants."""

    def __init__(self, tables: Tables, start: float, end: float) -> None:
        super().__init__(tables, "w")
        self._trouble = self
        self._span = (start, end)

    async def before(self) -> None:
        if self._span[0] <= now() < self._span[1]:
            raise StoreUnavailableError("OperationalError 57P03")

    async def after(self) -> None:
        return


@virtual
async def test_an_owner_who_comes_too_late_keeps_its_offset_until_the_row_has_its_end() -> None:
    mill = Mill(partitions=2)
    seconds = iter([10.0, 120.0])

    async def answered(_request: Request) -> Reply:
        await asyncio.sleep(next(seconds))
        return answer("in time")

    mill.endpoint.handler = answered
    for partition in range(2):
        mill.publish("r-0", partition=partition)
    late, other = mill.worker(Away(mill.tables, 1002, 1090)), mill.worker()
    mill.log.assign({late.source: [P], other.source: [(TOPIC, 1)]})
    await asyncio.sleep(150)
    assert mill.row("r-0")["status"] == "claimed"
    assert mill.log.committed == {}
    await mill.until(lambda: mill.log.done)
    assert mill.called("r-0") == 2
    assert late.telemetry.messages == {"duplicate": 1}


@virtual
async def test_answers_wait_while_the_store_is_away_and_nobody_is_asked_again() -> None:
    mill = Mill(latency=10)
    for nth in range(300):
        mill.publish(f"r-{nth}")
    mill.worker(Away(mill.tables, 1005, 1600), bounds=Bounds(ahead=4, open=40))
    await asyncio.sleep(500)
    asked = len(mill.endpoint.asked)
    assert asked <= 40
    assert mill.log.committed.get(P, 0) == 0
    await mill.until(lambda: mill.log.done, 1200)
    assert len(mill.endpoint.asked) == 300


@virtual
async def test_calls_in_hand_never_exceed_the_limit() -> None:
    mill = Mill(latency=3)
    for nth in range(200):
        mill.publish(f"r-{nth}")
    mill.worker(most=7)
    await mill.until(lambda: mill.log.done)
    assert mill.endpoint.most_open == 7
    assert now() - 1000 < 200 / 7 * 3 * 1.2 + 5


@virtual
async def test_a_backlog_is_not_taken_in_beyond_the_bounds() -> None:
    mill = Mill(latency=1e6)
    for nth in range(5000):
        mill.publish(f"r-{nth}")
    worker = mill.worker(most=8)
    await asyncio.sleep(600)
    assert 8 <= worker.loop.open <= 8 + 16
    assert len(mill.tables.results) == worker.loop.open


@virtual
async def test_rows_that_rest_leave_their_places_to_others() -> None:
    mill = Mill(latency=1)
    mill.endpoint.handler = lambda r: (
        error(503, headers={"retry-after": "0.5"}) if mill.called(r.id) == 1 else answer()
    )
    for nth in range(50):
        mill.publish(f"r-{nth}")
    mill.worker(most=4)
    await mill.until(lambda: mill.log.done, 300)
    assert len(mill.endpoint.asked) == 100


@virtual
async def test_a_partition_that_leaves_takes_its_waiting_rows_along() -> None:
    mill = Mill(partitions=2)
    other = FakeStore(mill.tables, "elsewhere")
    held = work("r-0", offset=0, log=f"{TOPIC}/1")
    (held.claim,) = await other.claim([held])
    mill.publish("r-0", partition=1)
    worker = mill.worker()
    await asyncio.sleep(5)
    assert worker.loop.open == 1
    mill.log.assign({worker.source: [P]})
    await asyncio.sleep(5)
    assert worker.loop.open == 0
    assert worker.broken() is None


@virtual
async def test_what_breaks_a_task_ends_the_main_path_with_its_error() -> None:
    mill = Mill(lambda _: error(404))
    mill.endpoint.nowhere = True
    mill.publish("r-1")
    worker = mill.worker()
    with pytest.raises(WrongSettingsError):
        await mill.until(lambda: False, 10)
    assert worker.tasks[0].done()


@virtual
async def test_one_failing_row_of_ten_leaves_the_others_stored() -> None:
    mill = Mill(lambda r: error(400) if r.id == "r-4" else answer())
    for nth in range(10):
        mill.publish(f"r-{nth}")
    mill.worker()
    await mill.until(lambda: mill.log.done)
    assert sum(mill.row(f"r-{nth}")["status"] is Status.SUCCEEDED for nth in range(10)) == 9
    assert (mill.row("r-4")["status"], mill.row("r-4")["reason"]) == ("failed", "rejected_request")
    assert len(mill.endpoint.asked) == 10


@virtual
async def test_jobs_are_namespaces() -> None:
    mill = Mill()
    for job in ("a", "b"):
        mill.publish("r-1", f"for {job}", job=job)
    mill.worker()
    await mill.until(lambda: mill.log.done)
    assert (mill.row("r-1", "a")["result"], mill.row("r-1", "b")["result"]) == ("for a", "for b")


@virtual
async def test_a_failed_row_is_asked_again_by_a_later_run_and_not_by_the_same_one() -> None:
    mill = Mill(lambda r: error(400) if mill.called(r.id) == 1 else answer())
    mill.publish("r-1", run="run-1")
    mill.worker()
    await mill.until(lambda: mill.log.done)
    mill.publish("r-1", run="run-1")
    await mill.until(lambda: mill.log.done)
    assert mill.row("r-1")["status"] == "failed"
    mill.publish("r-1", run="run-2")
    await mill.until(lambda: mill.log.done)
    assert (mill.row("r-1")["status"], mill.called("r-1")) == ("succeeded", 2)


def test_the_sample_is_what_the_reader_reads() -> None:
    assert isinstance(decode(b"r-1", message("r-1")), Prompt)


@virtual
async def test_an_idle_worker_waits_for_its_first_message_for_hours() -> None:
    mill = Mill()
    worker = mill.worker()
    await asyncio.sleep(6 * 3600)
    mill.publish("r-1")
    await mill.until(lambda: mill.log.done, 5)
    await worker.stop()
    await settle()


@virtual
async def test_a_newer_version_whose_claim_was_not_heard_of_fences_the_older_one_in_hand() -> None:
    mill = Mill(lambda r: error(503) if text_of(r) == "v1" else answer(), latency=1)
    mill.publish("r-1", "v1")
    mill.worker(Unheard(mill.tables, 1004.9, 1005.1))
    await asyncio.sleep(5)
    mill.publish("r-1", "v2")
    await mill.until(lambda: mill.log.done)
    assert [text_of(asked.request) for asked in mill.endpoint.asked] == ["v1", "v2"]
    assert mill.row("r-1")["result"] == "yes"


class Unheard(Away):
    """A store whose answers are lost between two instants, after the statement has taken effect."""

    async def before(self) -> None:
        return

    async def after(self) -> None:
        await super().before()
