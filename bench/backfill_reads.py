"""Ways to read results out of Postgres into Arrow, side by side: `python -m bench.backfill_reads`.

COPY in CSV, which the backfill uses; COPY in binary; and ADBC, if it is installed. One process and one connection
each; rows a second, and microseconds of the reader's CPU a row, as medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec

import psycopg
import pyarrow as pa
from pydantic import SecretStr

from backfill.results import columns, selected
from backfill.source import Query, database_session, rows_of
from bench.backfill import JOB, fill_results, new_database

_TYPES = "text text text text text text text int8 int8 int4 text text numeric int8".split()
_NAMES = [f"c{number}" for number in range(len(_TYPES))]
_BATCH_ROWS = 5000


def main() -> None:
    """Measure, and print one JSON line a round and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        url = new_database(stack)
        fill_results(url, arguments.rows)
        rounds = [_round(url, arguments.rows) for _ in range(arguments.rounds)]
    median = {name: round(statistics.median(found[name] for found in rounds), 2) for name in rounds[0]}
    print(json.dumps({"median": median, "rows": arguments.rows, "rounds": len(rounds)}))


def _round(url: SecretStr, rows: int) -> dict[str, float]:
    ways: dict[str, Callable[[SecretStr], Iterator[pa.RecordBatch]]] = {"csv": _csv, "binary": _binary}
    if find_spec("adbc_driver_postgresql"):
        ways["adbc"] = _adbc
    found: dict[str, float] = {}
    for name, way in ways.items():
        started, cpu = time.perf_counter(), time.process_time()
        assert sum(batch.num_rows for batch in way(url)) == rows
        found[f"{name}_rows_s"] = rows / (time.perf_counter() - started)
        found[f"{name}_cpu_us_row"] = (time.process_time() - cpu) / rows * 1e6
    print(json.dumps({name: round(value, 2) for name, value in found.items()}), flush=True)
    return found


def _csv(url: SecretStr) -> Iterator[pa.RecordBatch]:
    with database_session(url, JOB, "bench") as held:
        yield from rows_of(Query(held.snapshot, 1, columns(with_json=True)), 0)


def _binary(url: SecretStr) -> Iterator[pa.RecordBatch]:
    statement = f"COPY ({_statement()}) TO STDOUT (FORMAT binary)".encode()
    with (
        psycopg.connect(url.get_secret_value()) as connection,
        connection.cursor() as cursor,
        cursor.copy(statement) as rows,
    ):
        rows.set_types(_TYPES)
        gathered: list[tuple[object, ...]] = []
        for row in rows.rows():
            gathered.append(row)
            if len(gathered) == _BATCH_ROWS:
                yield _batch(gathered)
                gathered = []
        if gathered:
            yield _batch(gathered)


def _batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], _NAMES)


def _adbc(url: SecretStr) -> Iterator[pa.RecordBatch]:
    from adbc_driver_postgresql import dbapi

    # ADBC has no decimals of its own: costs travel as text.
    with dbapi.connect(url.get_secret_value()) as connection, connection.cursor() as cursor:
        cursor.execute(_statement().replace("round(cost_usd, 8)", "round(cost_usd, 8)::text"))
        yield from cursor.fetch_record_batch()


def _statement() -> str:
    names = columns(with_json=True)
    return f"SELECT {selected(names)} FROM headrace.results WHERE job = '{JOB}' AND status <> 'claimed'"


if __name__ == "__main__":
    main()
