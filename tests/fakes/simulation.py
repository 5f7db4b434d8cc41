"""A seeded fleet under faults: several workers on one log, one database and one endpoint, all of which fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from schemas.message import Prompt, decode
from schemas.statuses import JobState, Reason, Status
from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.endpoint import FakeEndpoint, answer, completion, error, reply, text_of
from tests.fakes.fleet import FakeWorker
from tests.fakes.samples import message
from tests.fakes.source import FakeLog, FakeSource
from tests.fakes.store import FakeStore, Key, Row, Tables
from tests.fakes.virtual_time import now, wall
from worker.core.claims import Claim, Verdict
from worker.core.offsets import Partition
from worker.core.orders import Orders, RunState, TopicState
from worker.core.outcome import Kind
from worker.core.reply import Break, Broken, Reply
from worker.core.rows import FinishedRow
from worker.errors import StoreUnavailableError
from worker.ports import Request, Work

CHAOS_SECONDS = 150.0
HEALED_SECONDS = 3_600.0
Version = tuple[Key, str]


@dataclass
class Weather:
    """What the faults are now; `calm` ends them all."""

    random: Random
    store_away_until: float = 0.0
    limited_until: float = 0.0
    endpoint_away_until: float = 0.0
    store_faults: float = 0.0
    call_faults: float = 0.0
    slow: float = 0.0

    def calm(self) -> None:
        """Let everything work from now on."""
        self.store_away_until = self.limited_until = self.endpoint_away_until = 0.0
        self.store_faults = self.call_faults = self.slow = 0.0


@dataclass
class History:
    """What the invariants are judged by."""

    ended: set[Version] = field(default_factory=set)
    starts: Counter[Version] = field(default_factory=Counter)
    lost: int = 0
    unsure_claims: int = 0
    held_when_cut: int = 0
    paid: Counter[Version] = field(default_factory=Counter)
    events: list[str] = field(default_factory=list)

    def tell(self, what: str) -> None:
        """Note an event, for whoever has to understand a failing seed."""
        self.events.append(f"{now() - 1000:8.2f} {what}")


class _Trip:
    """The way of one worker's statements: slow, cut before or after they take effect, or away altogether."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.away_until = 0.0

    async def before(self) -> None:
        await asyncio.sleep(self.weather.random.uniform(0.001, 0.05))
        if now() < max(self.weather.store_away_until, self.away_until):
            raise StoreUnavailableError("OperationalError")
        self._fail()

    async def after(self) -> None:
        await asyncio.sleep(self.weather.random.uniform(0.001, 0.02))
        self._fail()

    def _fail(self) -> None:
        if self.weather.random.random() < self.weather.store_faults:
            raise StoreUnavailableError("OperationalError")


class WatchedStore(FakeStore):
    """A store that writes down which versions begin and end."""

    def __init__(self, tables: Tables, worker: str, trip: _Trip, history: History) -> None:
        super().__init__(tables, worker, trip)
        self.worker = worker
        self.trip = trip
        self._history = history

    async def claim(self, works: Sequence[Work]) -> list[Claim]:
        before = self._history.starts.total()
        try:
            return await super().claim(works)
        except StoreUnavailableError:
            # Where the statement took effect and its answer was lost, perhaps nobody renews these claims.
            self._history.unsure_claims += self._history.starts.total() - before
            raise

    def _claim(self, work: Work, at: datetime) -> Claim:
        claim = super()._claim(work, at)
        version = (work.key, work.prompt.fingerprint)
        if claim.ours:
            self._history.starts[version] += 1
        if claim.verdict is Verdict.CRASHED:
            self._history.ended.add(version)
        self._history.lost += claim.lost and claim.verdict is not Verdict.NEWER
        return claim

    def _store(self, row: FinishedRow, at: datetime) -> bool:
        stored = super()._store(row, at)
        if stored:
            key = (row.job, row.id)
            self._history.ended.add((key, self.tables.results[key]["fingerprint"]))
        return stored


class PayingEndpoint(FakeEndpoint):
    """An endpoint that bills what it has answered, and what its caller did not wait for."""

    def __init__(self, handler: Callable[[Request], Awaitable[Reply | Broken]], history: History) -> None:
        super().__init__(handler)
        self._history = history

    async def ask(self, request: Request) -> Reply | Broken:
        version = (("default", request.id), text_of(request))
        try:
            got = await super().ask(request)
        except asyncio.CancelledError:
            self._history.paid[version] += 1
            raise
        if isinstance(got, Reply) and got.status == 200 and got.body != b"{}":
            self._history.paid[version] += 1
        return got


class SimulatedWorker(FakeWorker):
    """A worker on a watched store."""

    store: WatchedStore


class Simulation:
    """One run of one seed; `run` ends with every invariant checked."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.weather = Weather(Random(seed + 1))
        self.history = History()
        self.tables = Tables(wall)
        self.log = FakeLog(self.random.randint(1, 3), clock=wall, on_commit=self._check_commit)
        self.letters = FakeDeadLetters()
        self.endpoint = PayingEndpoint(self._answer, self.history)
        self.workers: list[SimulatedWorker] = []
        self.orders = Orders()
        self.published: dict[Key, Prompt] = {}
        self._names = 0

    async def run(self) -> None:
        """Publish and break things for a while, heal everything, and wait until all is committed."""
        for _ in range(self.random.randint(1, 3)):
            self._start()
        publishing = asyncio.create_task(self._publish())
        await self._chaos()
        await publishing
        self._heal()
        deadline = now() + HEALED_SECONDS
        while not (self.log.done and not any(worker.loop.open for worker in self.workers)):
            assert now() < deadline, f"stuck: committed {self.log.committed}"
            await asyncio.sleep(1.0)
            self._check_workers()
        await self._check_end()

    async def _publish(self) -> None:
        count = self.random.randint(8, 24)
        for nth in range(count):
            await asyncio.sleep(self.random.expovariate(count / (CHAOS_SECONDS / 2)))
            self._publish_one(nth)

    def _publish_one(self, nth: int) -> None:
        kinds = {"new": 55, "again": 10, "twin": 10, "version": 15, "poison": 5, "tombstone": 5}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        partition = self.random.randrange(self.log.partitions)
        if kind == "poison":
            self.log.publish(self.random.choice([b"no", b"{}", b"\x00a"]), partition=partition)
        elif kind == "tombstone":
            self.log.publish(None, key=b"x", partition=partition)
        elif kind == "new" or not self.published:
            self._send(f"r-{nth}", self.random.choice(["ok", "ok", "ok", "bad", "short"]))
        else:
            (_, id_), prompt = self.random.choice(list(self.published.items()))
            text = str(prompt.messages[0]["content"])
            self._send(id_, f"{text}+" if kind == "version" else text, beside=kind == "twin")

    def _send(self, id_: str, text: str, *, beside: bool = False) -> None:
        """Publish to the id's partition, or as a client with another partitioner would, beside it."""
        value = message(id_, text, run=self.random.choice(["run-1", "run-1", "run-2"]))
        partition = (int(id_.removeprefix("r-")) + beside) % self.log.partitions
        self.log.publish(value, key=id_.encode(), partition=partition)
        prompt = decode(None, value)
        assert isinstance(prompt, Prompt)
        self.published["default", id_] = prompt

    async def _answer(self, request: Request) -> Reply | Broken:
        random, weather = self.weather.random, self.weather
        slow = random.random() < weather.slow
        await asyncio.sleep(random.uniform(30, 90) if slow else random.expovariate(1 / 2.0))
        if now() < weather.endpoint_away_until:
            away: list[Reply | Broken] = [Broken(Break.NOT_SENT, "ConnectError"), error(503), error(500)]
            return random.choice(away)
        if now() < weather.limited_until:
            seconds = max(weather.limited_until - now(), 0.0)
            return error(429, headers=random.choice([{}, {"retry-after": f"{seconds:.1f}"}]))
        if random.random() < weather.call_faults:
            return self._fault()
        return _fate(text_of(request))

    def _fault(self) -> Reply | Broken:
        faults: list[Reply | Broken] = [
            *map(error, (429, 500, 502, 503)),
            error(429, headers={"retry-after": "3"}),
            reply(200, b"{}"),
            Broken(Break.TIMEOUT, "ReadTimeout"),
            Broken(Break.CONNECTION, "ReadError"),
        ]
        return self.weather.random.choice(faults)

    async def _chaos(self) -> None:
        self.weather.store_faults = self.random.choice([0.0, 0.02, 0.1])
        self.weather.call_faults = self.random.choice([0.0, 0.1, 0.3])
        self.weather.slow = self.random.choice([0.0, 0.1])
        self.letters.failures = self.random.choice([0, 0, 3])
        until = now() + CHAOS_SECONDS
        members = [self._kill, self._stop, self._grow, self._shuffle, self._freeze]
        services = [self._store_away, self._endpoint_away, self._limit, self._order]
        while (gap := self.random.expovariate(1 / 12)) + now() < until:
            await asyncio.sleep(gap)
            await self.random.choice(members + services)()
            self._check_workers()

    def _start(self) -> None:
        self._names += 1
        source = FakeSource(self.log)
        store = WatchedStore(self.tables, f"w-{self._names}", _Trip(self.weather), self.history)
        jitter = Random(self.random.random()).random
        worker = SimulatedWorker(source, store, self.endpoint, most=8, letters=self.letters, jitter=jitter)
        self.history.tell(f"start w-{self._names}")
        worker.foreman.obey(self.orders)
        self.log.join(source)
        self.workers.append(worker)
        worker.start()

    async def _kill(self) -> None:
        worker = self.random.choice(self.workers)
        self.workers.remove(worker)
        self.history.tell(f"kill {worker.store.worker}, holding {self._cut(worker)}")
        await worker.kill()
        await asyncio.sleep(self.random.uniform(0, 30))
        worker.source.lose(worker.source.owned)
        self.log.members.remove(worker.source)
        self.log.share()
        if not self.workers:
            self._start()

    async def _stop(self) -> None:
        worker = self.random.choice(self.workers)
        self.workers.remove(worker)
        self.history.tell(f"stop {worker.store.worker}")
        if not await worker.stop(self.random.choice([2.0, 25.0])):
            self._cut(worker)
        self.log.leave(worker.source)
        if not self.workers:
            self._start()

    async def _grow(self) -> None:
        if len(self.workers) < 4:
            self._start()

    async def _shuffle(self) -> None:
        members = self.log.members
        if not members:
            return
        shares: dict[FakeSource, list[Partition]] = {member: [] for member in members}
        for partition in self.log.records:
            shares[self.random.choice(members)].append(partition)
        self.history.tell("rebalance")
        if self.random.random() < 0.3:
            for member in members:
                member.lose(member.owned.difference(shares[member]))
        self.log.assign(shares)

    async def _store_away(self) -> None:
        seconds = self.random.choice([1.0, 10.0, 100.0])
        self.history.tell(f"store away for {seconds:.0f} s")
        self.weather.store_away_until = now() + seconds
        if seconds > 30:
            for worker in self.workers:
                self._cut(worker)

    async def _freeze(self) -> None:
        """Cut one worker off the store for longer than a lease: others take over while its calls go on."""
        worker = self.random.choice(self.workers)
        self.history.tell(f"freeze {worker.store.worker}, holding {self._cut(worker)}")
        worker.store.trip.away_until = now() + 90
        if self.random.random() < 0.5:
            worker.source.lose(worker.source.owned)
            self.log.share()

    async def _order(self) -> None:
        """Pause one run or the whole topic, cancel a run, or let all go; each worker hears of it in its own time."""
        run = self.random.choice(["run-1", "run-2"])
        paused = [RunState("default", run, JobState.PAUSED)]
        orders = {
            "pause": Orders(paused),
            "park": Orders(paused, [TopicState(self.log.topic, paused=True)]),
            "cancel": Orders([RunState("default", "run-2", JobState.CANCELLED)]),
            "go": Orders(),
        }
        what = self.random.choice(list(orders))
        self.history.tell(f"order {what} {run}")
        self.orders = orders[what]
        for worker in list(self.workers):
            await asyncio.sleep(self.random.uniform(0, 1))
            worker.foreman.obey(self.orders)

    def _cut(self, worker: SimulatedWorker) -> int:
        """Count the claims of a worker that will not renew them, as the database has them."""
        claimed = (row["worker"] for row in self.tables.results.values() if row["status"] == "claimed")
        held = list(claimed).count(worker.store.worker)
        self.history.held_when_cut += held
        return held

    async def _endpoint_away(self) -> None:
        self.weather.endpoint_away_until = now() + self.random.choice([2.0, 20.0, 60.0])

    async def _limit(self) -> None:
        self.weather.limited_until = now() + self.random.choice([2.0, 15.0])

    def _heal(self) -> None:
        self.history.tell("heal")
        self.weather.calm()
        self.letters.failures = 0
        self.orders = Orders()
        for worker in self.workers:
            worker.foreman.obey(self.orders)
            worker.store.trip.away_until = 0.0
        self.log.members[:] = [worker.source for worker in self.workers]
        self.log.share()

    def _check_commit(self, partition: Partition, offset: int) -> None:
        """No committed offset passes a message whose end is not durable at this moment, and none falls."""
        before = self.log.committed.get(partition, 0)
        assert offset >= before, f"{partition} fell from {before} to {offset}"
        for record in self.log.records[partition][before:offset]:
            assert self._is_ended(partition, record.offset), f"{partition} {record.offset} is open"

    def _is_ended(self, partition: Partition, offset: int) -> bool:
        record = self.log.records[partition][offset]
        if record.value is None:
            return True
        prompt = decode(record.key, record.value)
        if not isinstance(prompt, Prompt):
            return any(letter is record for letter, _ in self.letters.letters)
        key = (prompt.job, prompt.id)
        row = self.tables.results.get(key)
        if (key, prompt.fingerprint) in self.history.ended:
            return True
        if row is None or row["fingerprint"] == prompt.fingerprint:
            return False
        same_log = row["log"] == record.log
        return bool(row["log_offset"] > offset if same_log else row["published_at"] >= record.timestamp)

    def _check_workers(self) -> None:
        for worker in self.workers:
            if (error_ := worker.broken()) is not None:
                raise AssertionError(f"a worker broke: {error_!r}") from error_

    async def _check_end(self) -> None:
        assert set(self.tables.results) == set(self.published)
        for key, prompt in self.published.items():
            self._check_row(key, self.tables.results[key], prompt)
        self._check_bills()
        # A ledger line may still wait for its next try.
        await asyncio.sleep(15.0)
        for worker in self.workers:
            assert (worker.loop.open, len(worker.leases), worker.writer.held) == (0, 0, 0)
            assert (worker.asker.asking, worker.upstreams.inside) == (0, 0)

    def _check_row(self, key: Key, row: Row, prompt: Prompt) -> None:
        assert row["fingerprint"] == prompt.fingerprint, f"{key}: an older version stands"
        assert row["status"] in (Status.SUCCEEDED, Status.FAILED)
        assert (row["status"] == Status.SUCCEEDED) == (row["reason"] is None)
        if row["status"] == Status.SUCCEEDED:
            assert row["result"] == f"to {prompt.messages[0]['content']}"
        else:
            assert row["reason"] in set(Reason)
        assert {line["outcome"] for line in self.tables.calls(key)} <= {*Kind, "lost"}

    def _check_bills(self) -> None:
        """Every call that may cost money is on record, and a version is asked again only after a cut."""
        for key in self.published:
            lines = self.tables.calls(key)
            billable = sum(line["billed"] in ("yes", "maybe") for line in lines)
            paid = sum(count for (of, _), count in self.history.paid.items() if of == key)
            assert paid <= billable, f"{key}: {paid} calls paid, {billable} on record"
        assert self.history.lost <= self.history.held_when_cut + self.history.unsure_claims


def _fate(text: str) -> Reply:
    """What the endpoint says to a prompt when nothing is wrong."""
    if text.startswith("bad"):
        return error(400, "bad")
    return reply(200, completion("cut", "length")) if text.startswith("short") else answer(f"to {text}")


async def simulate(seed: int) -> Simulation:
    """Run one seed."""
    simulation = Simulation(seed)
    await simulation.run()
    return simulation
