"""Everything of a fleet that leaves it, handed to a search for marks: logs, pages, columns, commands, settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg import sql
from typer.testing import CliRunner, Result

from control.cli import app
from schemas.settings import Settings
from tests.exporting import exporter, get
from tests.fleet import Fleet
from tests.marks import Search
from worker.settings import WorkerSettings

# What is made to hold prompts' answers, and the providers' own words; nothing else in the tables may show any.
CONTENT = {
    "results": ["result", "result_json"],
    "former_results": ["result", "result_json"],
    "attempts": ["detail"],
}
_SHOWN = 3
# Commands of two words.
_NAMES = {"dead-letters": 2, "config": 2}


def logs(search: Search, folder: Path) -> None:
    """Every log below a folder, and what was scraped."""
    for path in sorted(folder.glob("*.log")):
        search.file(f"log of {path.stem.rstrip('0123456789-')}", path)
    for path in sorted(folder.glob("*.txt")):
        search.file("pages of workers", path)


def no_json(path: Path) -> list[str]:
    """Lines of a log that are no JSON object; the last one of a killed process may be cut."""
    *whole, _ = path.read_text(errors="replace").split("\n")
    return [line for line in whole if not _is_object(line)]


def columns(search: Search, database: str) -> None:
    """Every column of every table but those made for content."""
    with psycopg.connect(database) as connection:
        query = (
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'headrace'::regnamespace"
            " AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition"
        )
        for (table,) in connection.execute(query).fetchall():
            rows = sql.SQL("SELECT (to_jsonb(t) - %s::text[])::text FROM {} t").format(
                sql.Identifier("headrace", table)
            )
            for (row,) in connection.execute(rows, [CONTENT.get(table, [])]):
                search.text(f"table {table}", row)


def commands(search: Search, fleet: Fleet, folder: Path) -> None:
    """What an operator sees who asks for no content, for people and for programs; each must have something to say."""
    page = folder / "report.html"
    for words in _words(fleet, page):
        ended = command(fleet, *words)
        said = ended.stdout + ended.stderr
        # `config show` judges the settings of every program, of which the fleet has but a worker's.
        assert ended.exit_code in ((0, 1, 2) if words[0] == "config" else (0, 1)), (
            f"{words} ended with {ended.exit_code}: {said}"
        )
        search.text(f"headrace {' '.join(words[: _NAMES.get(words[0], 1)])}", said)
    search.file("headrace report", page)


def command(fleet: Fleet, *words: str) -> Result:
    """Run one command with the settings of the fleet's workers."""
    mine = {name: None for name in os.environ if name.startswith(("KAFKA_", "LLM_"))}
    return CliRunner().invoke(app, list(words), env={**mine, **fleet.env}, catch_exceptions=False)


def exporters_page(search: Search, fleet: Fleet, folder: Path) -> None:
    """What the exporter shows and says."""
    with exporter(folder, fleet.database) as exporting:
        search.text("exporter", get(exporting.port, "/metrics"))
        assert exporting.end() == 0
    search.file("exporter", exporting.log)


def settings(search: Search, environ: Mapping[str, str]) -> None:
    """Every way of printing settings that have been read."""
    found = [group.read(environ) for group in _groups(Settings)]
    for one in (*found, WorkerSettings(environ)):
        inner = vars(one)
        search.text("settings", "\n".join([repr(one), str(one), repr(inner), *map(repr, inner.values())]))


def _words(fleet: Fleet, page: Path) -> list[Sequence[str]]:
    named = [("status",), ("dead-letters", "list"), ("reconcile", fleet.job), ("doctor", "--ask")]
    named += [("dead-letters", "show", *words) for words in _letters(fleet)]
    if any(group.name == "config" for group in app.registered_groups):
        named.append(("config", "show"))
    every = [[*words, *more] for words in named for more in ((), ("--json",))]
    return [*every, ["report", fleet.job, "--out", str(page)]]


def _letters(fleet: Fleet) -> list[tuple[str, ...]]:
    """Some rows of each kind, and some of the messages that nobody could read."""
    places = [f"{fleet.dead_letter_topic}/0/{letter.offset()}" for letter in fleet.dead_letters()[:_SHOWN]]
    rows = [
        row for status in ("failed", "succeeded") for row in fleet.rows("results", f"status = '{status}'")[:_SHOWN]
    ]
    return [(place,) for place in places] + [("--job", fleet.job, "--id", row["id"]) for row in rows]


def _groups(base: type[Settings]) -> list[type[Settings]]:
    return [group for one in base.__subclasses__() for group in (one, *_groups(one))]


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
