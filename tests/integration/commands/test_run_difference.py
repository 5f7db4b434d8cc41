"""`headrace report --against` on a real Postgres and real Parquet, held against a truth worked out by hand."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner, Result

from control.cli import app
from schemas import requests_table
from tests.services import PostgresService

pytestmark = pytest.mark.integration
OLD, NEW, JOB = "20261101T000000", "20261102T000000", "reviews"
Asks = dict[str, str]


class Place:
    """A job of two runs: its tables of requests beside the target, its answers in the database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.file = folder / "job file.yaml"
        job = {
            "job": JOB,
            "source": {"format": "parquet", "path": "rows"},
            "id": "id",
            "prompt": {"template": "{text}"},
            "target": {"format": "parquet", "path": "labelled rows"},
        }
        self.file.write_text(yaml.safe_dump(job))

    def table(self, run: str, asks: Asks) -> None:
        place = Path(requests_table.address(str(self.folder / "labelled rows"))) / requests_table.run_folder(run)
        place.mkdir(parents=True)
        rows = [{"id": id_, "fingerprint": ask, "asked": True} for id_, ask in asks.items()]
        for part in (0, 1):
            pq.write_table(pa.Table.from_pylist(rows[part::2]), place / f"part-{part}.parquet")
        (place / "_SUCCESS").touch()

    def answer(self, run: str, answers: dict[str, tuple[str, Any]]) -> None:
        """Store what workers would, row by row: the trigger keeps what a row leaves behind."""
        statement = """INSERT INTO headrace.results
            (job, id, run, fingerprint, status, result, result_json, completed_at)
            VALUES (%s, %s, %s, %s, 'succeeded', %s, %s, clock_timestamp()) ON CONFLICT (job, id) DO UPDATE SET
            run = excluded.run, fingerprint = excluded.fingerprint, result = excluded.result,
            result_json = excluded.result_json, completed_at = excluded.completed_at"""
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            rows = [
                (JOB, id_, run, ask, said if isinstance(said, str) else json.dumps(said),
                 None if isinstance(said, str) else json.dumps(said))
                for id_, (ask, said) in answers.items()
            ]  # fmt: skip
            cursor.executemany(statement, rows)

    def spend(self, run: str, billed: str, cost: str | None, bound: str | None = None) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(
                """INSERT INTO headrace.attempts (job, id, attempt, run, outcome, billed, cost_usd, cost_bound_usd)
                VALUES (%s, gen_random_uuid()::text, 1, %s, 'succeeded', %s, %s, %s)""",
                (JOB, run, billed, cost, bound),
            )

    def __call__(self, *words: str) -> Result:
        command = ["report", JOB, "--job-file", str(self.file), *words]
        return CliRunner().invoke(app, command, env={"DATABASE_URL": self.url}, catch_exceptions=False)

    def difference(self) -> dict[str, Any]:
        told = self("--against", OLD, "--json")
        assert told.exit_code == 0, told.output
        return dict(json.loads(told.stdout))


@pytest.fixture
def place(postgres: PostgresService, tmp_path: Path) -> Iterator[Place]:
    with postgres.migrated_database() as url:
        yield Place(url, tmp_path)


def leads(asks: Asks) -> dict[str, str]:
    """The one row of each request that is asked."""
    found: dict[str, str] = {}
    for id_ in sorted(asks):
        found.setdefault(asks[id_], id_)
    return found


def test_every_number_is_that_of_a_truth_worked_out_by_hand(place: Place) -> None:
    chance = random.Random(7)
    texts = {f"r{number}": chance.randrange(60) for number in range(400)}
    before = {id_: f"a{text}" for id_, text in list(texts.items())[:380]}
    after = {id_: f"{'b' if text < 30 else 'a'}{text}" for id_, text in list(texts.items())[15:]}
    said = {ask: chance.choice(["good", "bad", "<b>mixed"]) for ask in sorted({*before.values(), *after.values()})}
    silent = "b7"
    place.table(OLD, before)
    place.table(NEW, after)
    place.answer(OLD, {id_: (ask, {"label": said[ask]}) for ask, id_ in leads(before).items()})
    known = set(before.values())
    new = {ask: id_ for ask, id_ in leads(after).items() if ask not in known and ask != silent}
    place.answer(NEW, {id_: (ask, {"label": said[ask]}) for ask, id_ in new.items()})
    place.spend(OLD, "yes", "5")
    place.spend(NEW, "yes", "0.25")
    place.spend(NEW, "maybe", None, "0.5")

    both = before.keys() & after.keys()
    rows: Counter[tuple[str | None, str | None]] = Counter()
    requests: dict[tuple[str | None, str | None], set[tuple[str, str]]] = defaultdict(set)
    for id_ in both:
        pair = (said[before[id_]], None if after[id_] == silent else said[after[id_]])
        rows[pair] += 1
        requests[pair].add((before[id_], after[id_]))
    told = place.difference()
    cells = told["labels"]["label"]
    assert {(cell["old"], cell["new"]): cell["rows"] for cell in cells} == dict(rows)
    assert {(cell["old"], cell["new"]): cell["requests"] for cell in cells} == {
        k: len(v) for k, v in requests.items()
    }
    moved = [(old, new) for old, new in rows if new is not None and old != new]
    assert told["counts"] == {
        "rows_before": 380,
        "rows_after": 385,
        "added": 20,
        "gone": 15,
        "asked_otherwise": sum(before[id_] != after[id_] for id_ in both),
        "requests_otherwise": len({(before[id_], after[id_]) for id_ in both if before[id_] != after[id_]}),
        "changed": sum(rows[pair] for pair in moved),
        "changed_requests": sum(len(requests[pair]) for pair in moved),
        "same": sum(count for (old, new), count in rows.items() if old == new),
        "not_compared": sum(count for (_, new), count in rows.items() if new is None),
    }
    assert told["cost"]["calls"] == 2
    assert (float(told["cost"]["low_usd"]), float(told["cost"]["high_usd"])) == (0.25, 0.75)
    shown = place("--against", OLD)
    assert shown.exit_code == 0
    assert "<b>mixed" in shown.stdout


def test_answers_that_are_no_labels_are_compared_and_never_shown(place: Place) -> None:
    asks = {f"r{number}": f"a{number}" for number in range(12)}
    place.table(OLD, asks)
    place.table(NEW, {id_: f"b{ask}" for id_, ask in asks.items()})
    place.answer(OLD, {id_: (ask, f"a private story {id_}") for id_, ask in asks.items()})
    place.answer(NEW, {id_: (f"b{ask}", f"a private {id_ == 'r3' or 'story'} {id_}") for id_, ask in asks.items()})
    told = place.difference()
    assert (told["counts"]["changed"], told["counts"]["same"], told["labels"]) == (1, 11, {})
    assert "private" not in place("--against", OLD).output


def test_a_row_that_was_asked_itself_keeps_its_own_answer_beside_a_later_one(place: Place) -> None:
    rows = [f"r{number}" for number in range(6)]
    place.table(OLD, dict.fromkeys(rows, "two"))
    place.table(NEW, dict.fromkeys(rows, "one"))
    place.answer(OLD, {"r0": ("one", "yes"), "r1": ("one", "no"), "r2": ("two", "no")})
    place.answer(NEW, {"r5": ("one", "no")})
    counts = place.difference()["counts"]
    assert (counts["changed"], counts["changed_requests"], counts["same"]) == (1, 1, 5)


def test_a_run_without_a_table_is_refused_with_those_there_are(place: Place) -> None:
    place.table(NEW, {"a": "1"})
    refused = place("--against", OLD)
    assert (refused.exit_code, NEW in refused.stderr, OLD in refused.stderr) == (2, True, True)
