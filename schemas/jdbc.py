"""A JDBC source: which options it takes, where its password comes from, and how its read is cut into even parts.

`numPartitions` alone cuts by a hash of the id (or of `partitionColumn`): text or number, every task gets its share
and each row is in exactly one. With `partitionColumn`, `lowerBound` and `upperBound` the range is cut, and must hold
every value, since those outside would all fall to one task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import SecretStr

from schemas import ids
from schemas.ids import Id
from schemas.job import Source
from schemas.settings import SettingsError, secret

# Names the variable; no value of it is ever here.
VARIABLE = "password_env"
# Options that must not stand beside a query of one's own.
CUTTING = frozenset({"dbtable", "numPartitions", "partitionColumn", "lowerBound", "upperBound"})
OUTSIDE = (
    "source.options: values lie outside of lowerBound and upperBound, so one task would read all of them: widen the "
    "bounds, or leave them out and let numPartitions cut by a hash"
)
TEXT = (
    "source.options.partitionColumn: is text, which no range cuts evenly: leave the bounds out and let numPartitions "
    "cut by a hash"
)
UNREACHABLE = "the database of the source cannot be reached: check source.options.url and that it is up"
# Spark's default 0 lets the driver of PostgreSQL take the whole result into memory at once.
_FETCH_ROWS = "10000"
_MOST_PARTITIONS = 1000
_BOUNDS = ("lowerBound", "upperBound")
_SCHEME = re.compile(r"jdbc:([a-z0-9]+):")
_SECRET_IN_URL = re.compile(r"//[^/@\s]*:[^/@\s]*@|(?:password|passwd|pwd|secret|token)\s*=", re.IGNORECASE)
_SECRET_NAME = re.compile("password|secret|token", re.IGNORECASE)
_HASH = "(hashtext(CAST({column} AS text)) & 2147483647) % {parts} = {part}"
_KNOWN = {name.lower(): name for name in ("url", "dbtable", "query", "numPartitions", "partitionColumn", *_BOUNDS)}


class Driver(NamedTuple):
    """A JDBC driver: its class, and the package that holds it (None: the starter knows)."""

    name: str
    package: str | None


POSTGRES = Driver("org.postgresql.Driver", "org.postgresql:postgresql:42.7.14")
_DRIVERS = {"postgresql": POSTGRES}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of a column that its owner says the values lie in, and a query for the true one."""

    lower: str
    upper: str
    query: str


@dataclass(frozen=True, slots=True)
class Read:
    """What Spark's reader is told; `predicates`, one a task, if the read is cut by a hash; holds the password."""

    url: str
    table: str
    options: Mapping[str, str]
    predicates: tuple[str, ...] = ()
    bounds: Bounds | None = None

    def __repr__(self) -> str:
        return f"Read({self.table!r})"


def problems(source: Source) -> Iterator[str]:
    """Name every option that is missing or wrong, with its path in the job file and without any value of it."""
    options = _options(source)
    if not _SCHEME.match(url := str(options.get("url", ""))):
        yield "source.options.url: must look like jdbc:postgresql://host:5432/database"
    if _SECRET_IN_URL.search(url):
        yield f"source.options.url: holds a password; name its environment variable in {VARIABLE}"
    if ("dbtable" in options) == ("query" in options):
        yield "source.options: jdbc needs dbtable or query, one of the two"
    for name in source.options:
        if _SECRET_NAME.search(name) and name != VARIABLE:
            yield f"source.options.{name}: no secret in a job file; name its environment variable in {VARIABLE}"
    yield from _cut(options)


def password(source: Source, environ: Mapping[str, str]) -> tuple[SecretStr | None, list[str]]:
    """Read the password that the job file names the place of; None if it names none, and what is wrong."""
    name = source.options.get(VARIABLE)
    if source.format != "jdbc" or name is None:
        return None, []
    try:
        return secret(str(name), environ), []
    except SettingsError as error:
        return None, [f"source.options.{VARIABLE}: {problem}" for problem in error.problems]


def driver(source: Source) -> Driver | None:
    """The driver that the address needs; None if it is not known here and the job file names none."""
    options = _options(source)
    if named := options.get("driver"):
        return Driver(str(named), next((d.package for d in _DRIVERS.values() if d.name == named), None))
    return _DRIVERS.get(_kind(options))


def read(source: Source, id_: Id, password: SecretStr | None) -> Read:
    """Say how to read a source that has no `problems`."""
    options = _options(source)
    table = str(options.get("dbtable") or f"({str(options['query']).rstrip().rstrip(';')}\n) headrace_source")
    spark = {name: str(value) for name, value in options.items() if name not in {VARIABLE, "query"}}
    spark = {"fetchsize": _FETCH_ROWS} | spark | {"dbtable": table}
    if known := driver(source):
        spark["driver"] = known.name
    if password is not None:
        spark["password"] = password.get_secret_value()
    url = str(options["url"])
    parts = int(options.get("numPartitions", 1))
    if "lowerBound" in options:
        return Read(url, table, spark, bounds=_bounds(options, table))
    column = str(options.get("partitionColumn", ids.columns(id_)[0]))
    spark = {name: value for name, value in spark.items() if name not in {"numPartitions", "partitionColumn"}}
    return Read(url, table, spark, predicates(quoted(column), parts))


def predicates(column: str, parts: int) -> tuple[str, ...]:
    """Cut a table by a hash of a quoted column: each row, those with NULL too, meets exactly one condition."""
    if parts == 1:
        return ()
    conditions = [_HASH.format(column=column, parts=parts, part=part) for part in range(parts)]
    return (f"{conditions[0]} OR {column} IS NULL", *conditions[1:])


def quoted(name: str) -> str:
    """Write a column's name as SQL takes it, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def refusal(sql_state: str | None) -> str | None:
    """Say what a database's five-character state means for the job file; None if it says nothing of use."""
    match (sql_state or "")[:2]:
        case "28":
            return f"source.options: the database refused user or password ({VARIABLE} names the password's place)"
        case "3D":
            return "source.options.url: there is no such database"
        case "42":
            return "source.options: the database refused the query: is there such a table, and may this user read it?"
    return None


def is_unreachable(sql_state: str | None) -> bool:
    """Tell whether the state says that no connection could be made."""
    return (sql_state or "").startswith("08")


def _bounds(options: Mapping[str, str | int | float | bool], table: str) -> Bounds:
    column = quoted(str(options["partitionColumn"]))
    if _kind(options) in {"mysql", "mariadb"}:
        column = f"`{str(options['partitionColumn']).replace('`', '``')}`"
    alias = "" if "query" in options else " headrace_source"
    query = ("SELECT", f"min({column}) AS low, max({column}) AS high", "FROM", f"{table}{alias}")
    return Bounds(str(options["lowerBound"]), str(options["upperBound"]), " ".join(query))


def _cut(options: Mapping[str, str | int | float | bool]) -> Iterator[str]:
    given = [name for name in _BOUNDS if name in options]
    parts = options.get("numPartitions")
    if parts is None and (given or "partitionColumn" in options):
        yield "source.options.numPartitions: is missing, so nothing would be cut"
    if parts is not None and not (str(parts).isdecimal() and 1 <= int(parts) <= _MOST_PARTITIONS):
        yield f"source.options.numPartitions: must be a whole number from 1 to {_MOST_PARTITIONS}"
    if given and (len(given) == 1 or "partitionColumn" not in options):
        yield "source.options: lowerBound and upperBound go together with partitionColumn"
    if len(given) == 2 and not _ascend(*(str(options[name]) for name in given)):
        yield "source.options.lowerBound: must be a number or an ISO date, and below upperBound"
    if parts is not None and not given and _kind(options) != "postgresql":
        yield "source.options.numPartitions: only postgresql is cut by a hash; add partitionColumn and its bounds"


def _ascend(lower: str, upper: str) -> bool:
    for kind in (float, datetime.fromisoformat):
        try:
            return bool(kind(lower) < kind(upper))  # type: ignore[operator]
        except (ValueError, TypeError):
            continue
    return False


def _options(source: Source) -> dict[str, str | int | float | bool]:
    """The options by the names that this module knows; Spark takes them in any case."""
    return {_KNOWN.get(name.lower(), name): value for name, value in source.options.items()}


def _kind(options: Mapping[str, str | int | float | bool]) -> str:
    found = _SCHEME.match(str(options.get("url", "")))
    return found[1] if found else ""
