"""What the backfill's tests share: a source table, a job file, results in Postgres, and runs on the test session."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import yaml
from psycopg import sql
from pydantic import SecretStr
from pyspark.sql import DataFrame, Row, SparkSession

from backfill.counts import Counts
from backfill.run import backfill
from backfill.settings import JobFile, read_job
from backfill.source import database_session
from control.migrate import migrate
from schemas.settings import DatabaseSettings
from tests.services import PostgresService

JOB = "reviews"
LABEL_SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["good", "bad"]}, "score": {"type": "number"}},
}


@dataclass(frozen=True)
class Place:
    """A folder with a source and a target, and a database with results of one job."""

    spark: SparkSession
    folder: Path
    url: str
    format: str = "parquet"

    @property
    def target(self) -> Path:
        """Where the files of the target are."""
        if self.format != "iceberg":
            return self.folder / "labelled"
        return Path(self.spark.conf.get("spark.sql.catalog.lake.warehouse") or "") / "tests" / self._name

    @property
    def _name(self) -> str:
        return f"labelled_{zlib.crc32(str(self.folder).encode())}"

    @property
    def place(self) -> dict[str, str]:
        """The target as the job file names it."""
        if self.format != "iceberg":
            return {"path": "labelled"}
        return {"table": f"lake.tests.{self._name}", "beside": "labelled"}

    def source(self, rows: Sequence[Sequence[Any]], schema: str = "id string, text string") -> None:
        """Write the source table, in the place of the last one."""
        frame = self.spark.createDataFrame(list(map(tuple, rows)), schema)
        frame.write.mode("overwrite").parquet(str(self.folder / "rows"))

    def requests(self, run: str, **asks: str) -> None:
        """Say who asks what, as a run of the producer does; runs sort by their names."""
        rows = [(id_, fingerprint, False) for id_, fingerprint in asks.items()]
        frame = self.spark.createDataFrame(rows, "id string, fingerprint string, asked boolean")
        frame.write.parquet(f"{self.folder / 'labelled'}_requests/run={run}")

    def job_file(self, **changes: Any) -> Path:
        """Write a job file: the smallest one, with some parts changed."""
        job = {
            "job": JOB,
            "source": {"format": "parquet", "path": "rows"},
            "id": "id",
            "prompt": {"template": "{text}"},
            "target": {"format": self.format} | self.place,
        }
        for name, value in changes.items():
            job[name] = job[name] | value if name in {"source", "target"} else value
        path = self.folder / "job.yaml"
        path.write_text(yaml.safe_dump(job), encoding="utf-8")
        return path

    def job(self, **changes: Any) -> JobFile:
        """Read such a job file."""
        return read_job(self.job_file(**changes))

    def execute(self, statement: str, *values: Any) -> None:
        """Change the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), values or None)

    def answer(self, *ids: str, **columns: Any) -> None:
        """Store one finished result for each id, with some columns changed; a later one takes its place."""
        row = {"job": JOB, "status": "succeeded", "completed_at": "2026-03-01 12:00:00+00", **columns}
        names = [*row, "id"]
        statement = sql.SQL(
            "INSERT INTO headrace.results ({names}) VALUES ({values}) ON CONFLICT (job, id) DO UPDATE SET {updates}"
        ).format(
            names=sql.SQL(", ").join(map(sql.Identifier, names)),
            values=sql.SQL(", ").join(sql.Placeholder() for _ in names),
            updates=sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in row),
        )
        values = [json.dumps(value) if name == "result_json" else value for name, value in row.items()]
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.executemany(statement, [[*values, id_] for id_ in ids])

    def run(self, **changes: Any) -> Counts:
        """Carry out one backfill."""
        file = self.job(**changes)
        counts = Counts()
        with database_session(SecretStr(self.url), file.job.job, file.target_name) as held:
            backfill(self.spark, file, held, counts)
        return counts

    def table(self) -> DataFrame:
        """The target as anybody reads it."""
        if self.format == "iceberg":
            return self.spark.table(self.place["table"])
        return self.spark.read.format(self.format).load(str(self.target))

    def rows(self, *names: str) -> list[Row]:
        """Some columns of the target, in their own order."""
        return sorted(self.table().select(*names).collect(), key=lambda row: tuple(map(str, row)))

    def state(self) -> list[tuple[str, int, int]]:
        """Every visible file of the target, with its inode and time: equal only if nothing was written."""
        files = (path for path in self.target.rglob("*") if path.is_file() and not path.name.endswith(".crc"))
        return sorted((str(path), path.stat().st_ino, path.stat().st_mtime_ns) for path in files)


def migrated(postgres: PostgresService) -> str:
    """Make a database with the product's tables."""
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    return url


def plain(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Rows as tuples."""
    return [tuple(row) for row in rows]
