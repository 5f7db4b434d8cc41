"""Seeded monkeys: what they break, and in which order, follows from the seed alone; when, from the machine."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psycopg

from tests.chaos.toxics import POSTGRES_READY, Trap, commits_claims, commits_offsets, finishes
from tests.chaos.world import World
from tests.fleet import Worker

Act = Callable[[random.Random], None]


@dataclass(frozen=True)
class Pace:
    """Seconds between two acts, least and most."""

    least: float
    most: float


class Monkey:
    """Does one act after the other, on a thread of its own, until stopped; `done` tells what."""

    def __init__(self, name: str, seed: int, pace: Pace, acts: Mapping[str, tuple[float, Act]]) -> None:
        self.done: list[str] = []
        self.failure: Exception | None = None
        self._random = random.Random(f"{seed}:{name}")
        self._pace = pace
        self._acts = acts
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"monkey-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present act; raises what an act has raised."""
        self._stopping.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "a monkey hangs"
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        names = list(self._acts)
        weights = [self._acts[name][0] for name in names]
        try:
            while not self._stopping.wait(self._random.uniform(self._pace.least, self._pace.most)):
                (name,) = self._random.choices(names, weights)
                self._acts[name][1](self._random)
                self.done.append(name)
        except Exception as error:
            self.failure = error


class Mischief:
    """The acts, drawn from one seed; `most` is the size of the fleet at its largest."""

    def __init__(self, made: World, seed: int, most: int = 4) -> None:
        self._world = made
        self._seed = seed
        self._most = most

    def on_workers(self, pace: Pace) -> Monkey:
        """Kill -9 and restart, freeze past the session's end, drain and restart, scale."""
        acts = {
            "kill": (4.0, self._kill),
            "freeze": (1.0, self._freeze),
            "drain": (2.0, self._drain),
            "scale": (1.0, self._scale),
        }
        return Monkey("workers", self._seed, pace, acts)

    def on_broker(self, pace: Pace) -> Monkey:
        """Kill -9 for 3 to 15 s, cut connections, drop the replies to commits."""
        acts = {
            "broker kill": (1.0, self._kill_broker),
            "broker reset": (1.0, self._reset_kafka),
            "commit reply lost": (1.0, self._lose_commits),
        }
        return Monkey("broker", self._seed, pace, acts)

    def on_database(self, pace: Pace) -> Monkey:
        """Kill -9 for 2 to 8 s, end backends, make commits ambiguous."""
        acts = {
            "database kill": (1.0, self._kill_database),
            "backends ended": (2.0, self._end_backends),
            "ambiguous finish": (2.0, lambda _: self._trap(finishes)),
            "ambiguous claim": (1.0, lambda _: self._trap(commits_claims)),
        }
        return Monkey("database", self._seed, pace, acts)

    def _kill(self, draws: random.Random) -> None:
        if worker := self._any(draws):
            self._world.kill(worker)
            time.sleep(draws.uniform(0, 2))
            self._world.fleet.start(1)

    def _freeze(self, draws: random.Random) -> None:
        """Longer than the session, so that the group gives its partitions away."""
        if worker := self._any(draws):
            self._world.freeze(worker)
            time.sleep(draws.uniform(7, 11))
            self._world.thaw(worker)

    def _drain(self, draws: random.Random) -> None:
        if worker := self._any(draws):
            self._world.stop(worker)
            self._world.fleet.start(1)

    def _scale(self, draws: random.Random) -> None:
        if len(self._world.alive) < self._most:
            self._world.fleet.start(self._most - len(self._world.alive))
        elif worker := self._any(draws):
            self._world.stop(worker)

    def _any(self, draws: random.Random) -> Worker | None:
        alive = self._world.alive
        return alive[draws.randrange(len(alive))] if alive else None

    def _kill_broker(self, draws: random.Random) -> None:
        seconds = draws.uniform(3, 15)
        with self._world.fault(f"broker killed for {seconds:.0f} s"):
            self._world.servers.kafka.kill()
            time.sleep(seconds)
            self._world.servers.kafka.start()

    def _reset_kafka(self, _draws: random.Random) -> None:
        self._world.servers.kafka_proxy.reset()

    def _lose_commits(self, _draws: random.Random) -> None:
        self._world.servers.kafka_proxy.set_trap(Trap(commits_offsets))

    def _kill_database(self, draws: random.Random) -> None:
        seconds = draws.uniform(2, 8)
        with self._world.fault(f"database killed for {seconds:.0f} s"):
            self._world.servers.postgres.kill()
            time.sleep(seconds)
            self._world.servers.postgres.start()

    def _end_backends(self, draws: random.Random) -> None:
        end_backends(self._world, draws.uniform(0.3, 1.0))

    def _trap(self, matches: Callable[[bytes], bool]) -> None:
        self._world.servers.postgres_proxy.set_trap(Trap(matches, reply_ends=POSTGRES_READY))


def end_backends(made: World, share: float) -> int:
    """Terminate this share of the workers' sessions; tells how many."""
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE application_name = 'headrace-worker' AND datname = current_database() AND random() < %s"
    )
    try:
        with psycopg.connect(made.fleet.database, autocommit=True) as connection:
            row = connection.execute(query, (share,)).fetchone()
            return int(row[0]) if row else 0
    except psycopg.OperationalError:
        return 0
