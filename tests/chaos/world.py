"""One scenario's world: servers behind proxies, an endpoint, a fleet, and the ledgers of what happens to them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from deploy.local import ports
from tests import leaving, marks
from tests.chaos import history
from tests.chaos.invariants import Report, check
from tests.chaos.ledgers import Fault, Halt, Ledgers
from tests.chaos.manifest import Manifest, Publisher
from tests.chaos.sampler import PARTITIONS, Sampler
from tests.chaos.servers import Servers
from tests.fleet import Fleet, Worker, wait_for
from tests.leaving import no_json
from tests.otlp import Receiver
from tests.simulated import Script, Simulated, read_ledger, simulated

# Short, so that the group notices a dead or frozen worker within a test's patience.
_GROUP = "session.timeout.ms=6000,heartbeat.interval.ms=1500"
# Rules of a script whose name begins so have billed a call and spoiled its answer.
PAID = "paid: "


@dataclass
class World:
    """What a scenario steers and measures. `real_leases` lets claims of the dead run out by themselves."""

    servers: Servers
    endpoint: Simulated
    fleet: Fleet
    folder: Path
    real_leases: bool
    manifest: Manifest = field(default_factory=Manifest)
    halts: list[Halt] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    # Where the workers' spans go, if they make any; and whether the report asks every command, which takes a while.
    spans: Receiver | None = None
    asks_everything: bool = False

    def __post_init__(self) -> None:
        self._frozen: set[int] = set()
        self.sampler = Sampler(self.fleet, self.manifest, self.folder / "scrapes.txt")
        self.publisher = Publisher(self.fleet.kafka, self.fleet.topic, self.fleet.job, self.manifest)

    @property
    def alive(self) -> list[Worker]:
        """Workers whose process runs."""
        return [worker for worker in self.fleet.workers if worker.process.poll() is None]

    def kill(self, worker: Worker) -> Halt:
        """Kill -9, with the endpoint's count of calls in flight taken right before."""
        in_flight = self.endpoint.stats()["in_flight"]
        worker.process.kill()
        worker.process.wait()
        return self._halted(Halt("kill", time.time(), worker.process.pid, in_flight))

    def freeze(self, worker: Worker) -> Halt:
        """SIGSTOP: a process that everybody takes for dead."""
        in_flight = self.endpoint.stats()["in_flight"]
        worker.signal(signal.SIGSTOP)
        self._frozen.add(worker.process.pid)
        return self._halted(Halt("freeze", time.time(), worker.process.pid, in_flight))

    def thaw(self, worker: Worker) -> None:
        """SIGCONT."""
        self._frozen.discard(worker.process.pid)
        worker.signal(signal.SIGCONT)

    def stop(self, worker: Worker, seconds: float = 45) -> int:
        """SIGTERM, and wait; gives the exit code. A worker that is still being loaded has no handler yet."""
        wait_for(lambda: worker.events, 60)
        in_flight, at = self.endpoint.stats()["in_flight"], time.time()
        worker.signal(signal.SIGTERM)
        code = worker.end(seconds)
        self._halted(Halt("stop", at, worker.process.pid, in_flight, code))
        return code

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Note when something was taken from the fleet."""
        began = time.time()
        yield
        self.faults.append(Fault(name, began, time.time()))

    def time_passes(self) -> None:
        """Let the leases of processes that are dead or frozen run out now, as a minute would."""
        if self.real_leases:
            return
        dead = {worker.process.pid for worker in self.fleet.workers} - {w.process.pid for w in self.alive}
        gone = [f"%-{pid}-%" for pid in dead | self._frozen]
        with psycopg.connect(self.fleet.database, autocommit=True) as connection:
            connection.execute(
                "UPDATE headrace.results SET claimed_until = now() WHERE status = 'claimed' AND worker LIKE ANY(%s) "
                "AND claimed_until > now()",
                (gone,),
            )

    def wait_for_ends(self, rows: int, seconds: float = 120) -> None:
        """Wait until so many rows have their end, a database that is away notwithstanding."""
        wait_for(lambda: self.ended() >= rows, seconds, lambda: f"{self.ended()} of {rows} rows have ended")

    def ended(self) -> int:
        """Rows that have their end; -1 while the database does not answer."""
        try:
            return self.fleet.ended()
        except psycopg.Error:
            return -1

    def settle(self, seconds: float = 200) -> None:
        """Wait until every published message has its end and its commit."""
        self.publisher.join()
        wanted = len(self.manifest.ids)
        wait_for(lambda: self._passed() >= wanted, seconds, lambda: f"{self.ended()} of {wanted} rows have ended")
        wait_for(lambda: self.fleet.lag() == 0, 60, lambda: f"lag {self.fleet.lag()}")
        wait_for(lambda: self.endpoint.stats()["in_flight"] == 0, 60, lambda: "calls are still in flight")

    def report(self, planned: int) -> Report:
        """Stop the fleet, read every ledger and compare them."""
        samples = self.sampler.stop()
        codes = self._stop_all()
        letters = [dict(letter.headers() or []) for letter in self.fleet.dead_letters()]
        rules = self.endpoint.stats()["rules"]
        ledgers = Ledgers(
            manifest=self.manifest,
            calls=read_ledger(self.folder / "calls.jsonl"),
            results=self.fleet.rows("results"),
            attempts=self.fleet.rows("attempts"),
            letters=letters,  # type: ignore[arg-type]
            samples=samples,
            history=history.read(self.fleet.database, self.fleet.job),
            planned=planned,
            halts=self.halts,
            faults=self.faults,
            paid_faults=sum(count for name, count in rules.items() if name.startswith(PAID)),
        )
        search = self._searched(ledgers)
        report = check(replace(ledgers, canary_hits=search.hits, searched=search.looked))
        lines = [f"{worker.log.name}: {line[:200]}" for worker in self.fleet.workers for line in no_json(worker.log)]
        report.problems += [f"no line of JSON in {line}" for line in lines[:5]]
        if codes - {0}:
            report.problems.append(f"workers left with {sorted(codes)} at the end")
        return report

    def _stop_all(self) -> set[int]:
        """Let every worker drain; one that is still being loaded has no handler for signals yet."""
        for worker in (alive := self.alive):
            wait_for(lambda worker=worker: worker.events, 30)  # type: ignore[misc]
            worker.signal(signal.SIGTERM)
        return {worker.end(45) for worker in alive}

    def _searched(self, ledgers: Ledgers) -> marks.Search:
        """Look for what must not be shown wherever this run has left something."""
        password = make_url(self.fleet.database).password or ""
        search = marks.Search((*marks.Search.marks, str(password)))
        leaving.logs(search, self.folder)
        leaving.columns(search, self.fleet.database)
        search.headers("dead letter headers", ledgers.letters)
        if self.spans is not None:
            search.text("traces", bytes(self.spans.received))
        if self.asks_everything:
            leaving.exporters_page(search, self.fleet, self.folder)
            leaving.commands(search, self.fleet, self.folder)
            leaving.settings(search, self.fleet.env)
        return search

    def _halted(self, halt: Halt) -> Halt:
        self.halts.append(halt)
        return halt

    def _passed(self) -> int:
        self.time_passes()
        return self.ended()


@contextmanager
def world(
    shared: Servers, folder: Path, script: Script | None = None, seed: int = 0, **settings: str
) -> Iterator[World]:
    """A prepared world without workers, its sampler running; `settings` are those of the workers."""
    name = f"chaos_{os.urandom(4).hex()}"
    shared.heal()
    database = shared.new_database(name)
    with simulated(script, seed=str(seed), ledger=folder / "calls.jsonl", latency_ms=100) as endpoint:
        fleet = Fleet(shared.kafka.bootstrap_servers, database, folder, endpoint.base_url)
        fleet.settings = {
            "KAFKA_BOOTSTRAP_SERVERS": f"{ports.HOST}:{shared.kafka_proxy.port}",
            "KAFKA_CONSUMER_CONF": _GROUP,
            "DATABASE_URL": shared.proxied(database),
            "LLM_API_KEY": marks.KEY,
            "LOG_LEVEL": "DEBUG",
            "MAX_IN_FLIGHT": "16",
            "DRAIN_SECONDS": "15",
            **settings,
        }
        fleet.prepare(PARTITIONS)
        history.install(database)
        made = World(shared, endpoint, fleet, folder, os.environ.get("HEADRACE_CHAOS") == "full")
        made.sampler.start()
        try:
            yield made
        finally:
            shared.heal()
            made.sampler.stop()
            fleet.close()


def replaced(rules: Sequence[dict[str, object]], latency_ms: object = 100) -> Script:
    """A script of these faults before good answers of this latency."""
    return {"rules": [*rules, {"name": "well", "latency_ms": latency_ms}]}
