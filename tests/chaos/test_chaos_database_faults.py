"""One fault of Postgres at a time: killed, stopped, sessions ended, ambiguous commits, refusals, locks, distance."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.chaos import history
from tests.chaos.conftest import Scale
from tests.chaos.invariants import Report
from tests.chaos.manifest import marked
from tests.chaos.monkey import end_backends
from tests.chaos.servers import Servers
from tests.chaos.toxics import POSTGRES_READY, Toxics, Trap, commits_claims, finishes
from tests.chaos.world import World, replaced, world

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]
Passes = Callable[..., Report]


def _kill_one_backend(shared: Servers) -> None:
    """The server ends every session and recovers, as after a crash of its own."""
    with psycopg.connect(shared.postgres.url, autocommit=True) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'headrace-worker' LIMIT 1"
        row = connection.execute(query).fetchone()
    assert row is not None
    os.kill(row[0], signal.SIGKILL)


_ENDS: dict[str, Callable[[Servers], None]] = {
    "kill": lambda shared: shared.postgres.kill(),
    "immediate": lambda shared: shared.postgres.stop(signal.SIGQUIT),
    "fast": lambda shared: shared.postgres.stop(),
    "one backend": _kill_one_backend,
}


@pytest.mark.parametrize("how", list(_ENDS))
def test_a_database_that_goes_and_comes_back_costs_no_call(
    how: str, shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(3)
        made.publisher.trickle(marked(scale.single), per_second=50)
        for turn, seconds in enumerate((2, 6)):
            made.wait_for_ends(150 + 250 * turn)
            with made.fault(f"{how} {seconds} s"):
                _ENDS[how](shared)
                time.sleep(seconds)
                shared.postgres.start()
        made.settle()
        assert len(made.alive) == 3, "no worker left"
        report = passes(made.report(scale.single))
    assert report.extra_paid_calls == 0
    assert report.maybe_attempts == 0
    # None is a second fault that came after everybody's end.
    waits = [after for after in report.resumed_after.values() if after is not None]
    assert waits
    assert max(waits) <= 10


@pytest.mark.parametrize("what", [commits_claims, finishes])
def test_an_ambiguous_commit_repeats_the_statement_and_never_the_call(
    what: Callable[[bytes], bool], shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    trap = Trap(what, times=15, reply_ends=POSTGRES_READY)
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(3)
        made.publisher.trickle(marked(scale.single), per_second=50)
        made.wait_for_ends(50)
        shared.postgres_proxy.set_trap(trap)
        began = time.monotonic()
        made.settle()
        took = time.monotonic() - began
        report = passes(made.report(scale.single))
    assert trap.caught == 15
    assert report.extra_paid_calls == 0
    assert report.maybe_attempts == 0, "no call was lost, so none may stand as lost"
    assert took < scale.single / 50 + 30, "a worker does not wait for its own lease to run out"


def test_sessions_ended_each_second_leave_most_of_the_pace(
    shared: Servers, tmp_path: Path, scale: Scale, seed: int, passes: Passes
) -> None:
    draws = random.Random(seed)
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(3)
        made.publisher.trickle(marked(scale.single), per_second=40)
        made.wait_for_ends(100)
        ended = 0
        began, before = time.monotonic(), made.ended()
        for _ in range(15):
            ended += end_backends(made, draws.uniform(0.2, 0.7))
            time.sleep(1)
        pace = (made.ended() - before) / (time.monotonic() - began)
        made.settle()
        report = passes(made.report(scale.single), f"seed {seed}, {ended} sessions ended, {pace:.0f}/s of 40/s")
    assert ended >= 15
    assert pace >= 0.8 * 40
    assert report.extra_paid_calls == 0


@pytest.mark.parametrize("state", ["40001", "40P01", "53100", "53300", "57014", "25006"])
def test_statements_that_the_server_refuses_for_a_while_are_repeated(
    state: str, shared: Servers, tmp_path: Path, passes: Passes
) -> None:
    with world(shared, tmp_path, replaced([], 200)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(400), per_second=40)
        made.wait_for_ends(60)
        history.raise_for(made.fleet.database, state, 8)
        time.sleep(3)
        quiet = made.endpoint.stats()["calls"]
        time.sleep(4)
        assert made.endpoint.stats()["calls"] - quiet <= 2, "no claim, no call"
        history.raise_for(made.fleet.database, state, 6, share=0.3)
        made.settle()
        report = passes(made.report(400))
    assert report.extra_paid_calls == 0
    assert not report.failed


def test_a_read_only_database_after_a_failover_is_waited_for(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 200)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(500), per_second=40)
        made.wait_for_ends(60)
        with made.fault("read only"):
            _set_read_only(made, True)
            time.sleep(8)
            _set_read_only(made, False)
        made.settle()
        report = passes(made.report(500))
    assert report.extra_paid_calls == 0
    assert not report.failed


def test_a_database_that_stalls_is_waited_for(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 200)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(600), per_second=30)
        made.wait_for_ends(60)
        with made.fault("stalled"):
            shared.postgres_proxy.stall()
            time.sleep(12)
            shared.postgres_proxy.flow()
        made.settle()
        report = passes(made.report(600))
    assert report.extra_paid_calls == 0
    assert not report.failed


def test_a_lock_held_for_half_a_minute_is_waited_out(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 200)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(600), per_second=30)
        made.wait_for_ends(60)
        with made.fault("locked"), psycopg.connect(made.fleet.database) as connection:
            connection.execute("LOCK TABLE headrace.results IN EXCLUSIVE MODE")
            time.sleep(30)
        made.settle()
        report = passes(made.report(600))
    assert report.extra_paid_calls == 0


def test_a_database_without_free_connections_is_waited_for(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 200)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(500), per_second=30)
        made.wait_for_ends(60)
        taken = _take_connections(made)
        end_backends(made, 1.0)
        more = threading.Event()
        taken += _take_connections(made)
        more.wait(10)
        for connection in taken:
            connection.close()
        made.settle()
        report = passes(made.report(500), f"{len(taken)} connections taken")
    assert len(taken) > 20
    assert report.extra_paid_calls == 0


def test_a_distant_database_slows_little(shared: Servers, tmp_path: Path, scale: Scale, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 300), MAX_IN_FLIGHT="32") as made:
        made.fleet.start(2)
        shared.postgres_proxy.toxics = Toxics(latency=0.1, jitter=0.02)
        made.publisher.publish(marked(scale.single))
        made.wait_for_ends(100)
        began, before = time.monotonic(), made.ended()
        made.wait_for_ends(scale.single - 50)
        pace = (made.ended() - before) / (time.monotonic() - began)
        made.settle()
        report = passes(made.report(scale.single), f"{pace:.0f} rows a second at 200 ms a round trip")
    assert report.extra_paid_calls == 0
    assert pace > 30


def _set_read_only(made: World, yes: bool) -> None:
    with psycopg.connect(made.fleet.database, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        value = sql.Literal("on" if yes else "off")
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(name, value))
    end_backends(made, 1.0)


def _take_connections(made: World) -> list[psycopg.Connection[tuple[object, ...]]]:
    """Take every connection that the server still gives."""
    taken: list[psycopg.Connection[tuple[object, ...]]] = []
    while len(taken) < 100:
        try:
            taken.append(psycopg.connect(made.fleet.database, autocommit=True))
        except psycopg.OperationalError:
            break
    return taken
