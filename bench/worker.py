"""The worker's figures on real Kafka and Postgres: `python -m bench.worker [--rounds N] [--only NAME]`.

CPU a prompt end to end against a bare loop on the same transport, at 64, 256 and 1,024 in flight; calls in flight
reached; resident memory; a batch of answers and a batch of claims; latency added to an idle pipeline.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import psycopg

from bench.rig import LATENCY_MS, PROMPT_CHARS, Figure, Rig, Stretch, measure_worker, median, reference, rig
from schemas.message import Prompt
from schemas.settings import DatabaseSettings
from schemas.statuses import Billed
from tests.fleet import Fleet, prompts
from worker.core.claims import Claim
from worker.core.offsets import Ticket
from worker.core.outcome import Answer, Kind, Outcome
from worker.core.rows import AttemptRow, Call, FinishedRow, ended, ledger_line
from worker.ports import Record, Work
from worker.store import PostgresStore

ROWS = {64: 4000, 256: 10_000, 1024: 16_000}
BATCH = 500
BATCHES = 40
IDLE_MESSAGES = 200


def end_to_end(rig: Rig, rounds: int) -> Iterator[Figure]:
    """CPU, reach and memory, worker and reference in turn."""
    ours: dict[int, list[Stretch]] = {n: [] for n in ROWS}
    bare: dict[int, list[float]] = {n: [] for n in ROWS}
    reached: dict[int, list[float]] = {n: [] for n in ROWS}
    for _ in range(rounds):
        for in_flight, rows in ROWS.items():
            bare[in_flight].append(reference(rig.endpoint.base_url, in_flight, rows // 2))
            ours[in_flight].append(one_run(rig, in_flight, rows))
            reached[in_flight].append(rig.endpoint.stats()["max_in_flight"] / in_flight)
    cpu = {n: median([stretch.cpu_ms_a_prompt for stretch in runs]) for n, runs in ours.items()}
    base = median(bare[256])
    yield Figure("1 CPU a prompt, 256 in flight", cpu[256], "<= 1.0 ms", cpu[256] <= 1.0, unit="ms")
    yield Figure("1 same, against the bare loop", cpu[256], "ratio <= 1.25", cpu[256] <= 1.25 * base, base, "ms")
    yield Figure(
        "2 CPU a prompt, 1,024 against 64", cpu[1024], "ratio <= 1.25", cpu[1024] <= 1.25 * cpu[64], cpu[64], "ms"
    )
    share = median(reached[256])
    yield Figure("3 in flight reached / asked, 256", share, ">= 0.99", share >= 0.99)
    for in_flight, most in ((256, 120), (1024, 180)):
        peak = median([stretch.peak_mb for stretch in ours[in_flight]])
        yield Figure(f"12 resident memory at {in_flight} in flight", peak, f"<= {most} MB", peak <= most, unit="MB")
    rate = median([stretch.prompts_a_second for stretch in ours[256]])
    yield Figure("  prompts a second at 256 in flight (this machine)", rate, "-", True, unit="/s")


def store(rig: Rig, rounds: int) -> Iterator[Figure]:
    """Claims and answers in batches of 500, one connection, 1 KB each."""
    measured = [asyncio.run(_store_round(rig)) for _ in range(rounds)]
    claim_ms, claim_cpu, rows_s, row_cpu = (median(column) for column in zip(*measured, strict=True))
    yield Figure("9 answers stored a second", rows_s, ">= 25,000", rows_s >= 25_000, unit="rows/s")
    yield Figure("9 client CPU a row stored", row_cpu, "<= 10 us", row_cpu <= 10, unit="us")
    yield Figure("10 claim of a batch of 500", claim_ms, "<= 20 ms", claim_ms <= 20, unit="ms")
    yield Figure("10 client CPU a row claimed", claim_cpu, "<= 10 us", claim_cpu <= 10, unit="us")


def idle(rig: Rig, rounds: int) -> Iterator[Figure]:
    """From produced to readable in Postgres, less the model's time, one message at a time."""
    made = rig.fleet()
    try:
        made.start(1)
        delays = sorted(_delays(made, IDLE_MESSAGES))
    finally:
        made.close()
    for name, share, most in (("p50", 0.5, 150), ("p99", 0.99, 600)):
        delay = delays[int(len(delays) * share)] * 1000 - LATENCY_MS
        yield Figure(f"13 added latency, idle, {name}", delay, f"<= {most} ms", delay <= most, unit="ms")


def one_run(rig: Rig, in_flight: int, rows: int) -> Stretch:
    """Let one worker end so many prompts."""
    rig.endpoint.reset()
    made = rig.fleet()
    made.publish(prompts(rows, PROMPT_CHARS))
    try:
        (worker,) = made.start(1, MAX_IN_FLIGHT=str(in_flight))
        return measure_worker(made, worker, rows)
    finally:
        made.close()


async def _store_round(rig: Rig) -> tuple[float, float, float, float]:
    """Milliseconds a claim, CPU microseconds a claimed row, rows stored a second, CPU microseconds a stored row."""
    pg = PostgresStore(DatabaseSettings(url=rig.stack.postgres.url), "bench")
    await pg.open()
    job = f"bench-{uuid.uuid4().hex[:8]}"
    batches = [[_work(job, number * BATCH + n) for n in range(BATCH)] for number in range(BATCHES)]
    await pg.claim([_work(f"{job}-warm", 0)])
    began, cpu = time.monotonic(), time.process_time()
    claims = [await pg.claim(works) for works in batches]
    claim_s, claim_cpu = time.monotonic() - began, time.process_time() - cpu
    written = [list(zip(works, held, strict=True)) for works, held in zip(batches, claims, strict=True)]
    contents = [([_row(*pair) for pair in pairs], [_line(*pair) for pair in pairs]) for pairs in written]
    began, cpu = time.monotonic(), time.process_time()
    for rows, lines in contents:
        assert all(await pg.finish(rows, lines))
    store_s, store_cpu = time.monotonic() - began, time.process_time() - cpu
    await pg.close()
    total = BATCH * BATCHES
    return 1000 * claim_s / BATCHES, 1e6 * claim_cpu / total, total / store_s, 1e6 * store_cpu / total


def _work(job: str, number: int) -> Work:
    content = f"{number} ".ljust(PROMPT_CHARS, "p")
    prompt = Prompt(job, f"r-{number}", ({"role": "user", "content": content},), f"{number:064x}", run="bench")
    record = Record("t", 0, number, None, None, timestamp=datetime.now(UTC), log="t/0")
    return Work(prompt, record, [Ticket(("t", 0), number, 1)], "simulated")


def _outcome(number: int) -> Outcome:
    """An answer like no other, so that nothing of a batch is the same but what would be."""
    text = f"{number} ".ljust(PROMPT_CHARS, "a")
    answer = Answer(text, "stop", "simulated", 250 + number % 7, 260 + number % 11)
    return Outcome(Kind.ANSWERED, billed=Billed.YES, answer=answer, status=200)


def _call(number: int) -> Call:
    now = datetime.now(UTC)
    return Call(1, "simulated", "127.0.0.1", now, now, 100 + number % 13)


def _row(work: Work, claim: Claim) -> FinishedRow:
    number = work.record.offset
    return ended(work.prompt, claim, _call(number), _outcome(number), reason=None, retries=0)


def _line(work: Work, claim: Claim) -> AttemptRow:
    number = work.record.offset
    return ledger_line(work.prompt, claim, _call(number), _outcome(number))


def _delays(made: Fleet, messages: int) -> Iterator[float]:
    with psycopg.connect(made.database, autocommit=True) as connection:
        for number in range(messages + 5):
            began = time.monotonic()
            made.publish(prompts(1, start=number))
            query = "SELECT 1 FROM headrace.results WHERE job = %s AND id = %s AND status = 'succeeded'"
            while not connection.execute(query, (made.job, f"r-{number}")).fetchone():
                time.sleep(0.002)
            if number >= 5:
                yield time.monotonic() - began


PARTS: dict[str, Callable[[Rig, int], Iterator[Figure]]] = {"store": store, "idle": idle, "end_to_end": end_to_end}


def main() -> int:
    """Measure, and end with 1 if a figure is short."""
    parser = argparse.ArgumentParser(prog="python -m bench.worker", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=sorted(PARTS))
    arguments = parser.parse_args()
    print(f"{'figure':58} {'ours':>10} {'reference':>10} {'ratio':>6}  {'goal':24}")
    short = False
    with rig() as running:
        running.fleet()
        for name, part in PARTS.items():
            if arguments.only in (None, name):
                for figure in part(running, arguments.rounds):
                    print(figure, flush=True)
                    short |= not figure.met
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
