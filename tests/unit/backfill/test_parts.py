"""What Spark plans a read with is light: a new Python process loads it in no time."""

from __future__ import annotations

import pickle
import subprocess
import sys

from pydantic import SecretStr
from pyspark.sql.datasource import InputPartition

from backfill.parts import Part, Reader
from backfill.source import Query, Snapshot

QUERY = Query(Snapshot(SecretStr("postgresql://u:canary-secret@h/d"), "reviews", "s", 1), 3, ("id",))


def test_planning_loads_neither_the_driver_nor_the_settings() -> None:
    reader = pickle.dumps(Reader(QUERY.parts, pickle.dumps(QUERY)))
    plan = (
        "import pickle, sys; parts = pickle.loads(bytes.fromhex(sys.argv[1])).partitions();"
        "print([part.number for part in parts], sorted({'psycopg', 'pydantic', 'yaml'} & sys.modules.keys()))"
    )
    told = subprocess.run([sys.executable, "-c", plan, reader.hex()], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "[0, 1, 2] []"


def test_a_reader_shows_no_password() -> None:
    reader = Reader(QUERY.parts, pickle.dumps(QUERY))

    assert "canary-secret" not in f"{reader!r} {vars(Part(0))}"
    assert isinstance(Part(0), InputPartition)
