"""Read the source table, every row of it: what cannot be read stays as a row that will be rejected."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from producer import csvfiles, jdbc
from producer.columns import CORRUPT, PREFIX, PROMPT_CHARS, RULE, column
from producer.errors import WrongJobError
from producer.explain import first_line, fitting, spark_errors
from producer.settings import JobFile
from producer.verdicts import DETAIL, REASON
from schemas import ids, sources
from schemas.job import Job, Source
from schemas.settings import SettingsError

# Types whose text form is not what their author would write.
_NO_TEXT = frozenset({"array", "binary", "map", "struct", "variant", "void"})


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of the source, and what is known about how they were read.

    `corrupt`: a column `_corrupt_record` holds the raw text of rows that could not be read.
    `lossy`: bytes that are not of the encoding have become U+FFFD, which the encoding itself cannot hold.
    """

    rows: DataFrame
    corrupt: bool = False
    lossy: bool = False

    @property
    def columns(self) -> list[str]:
        """The source's own columns, without the one for unreadable text."""
        return [name for name in self.rows.columns if not (self.corrupt and name == CORRUPT)]


def read(spark: SparkSession, file: JobFile, limit: int | None) -> Table:
    """Open the source, keep the rows of `where`, check the columns that the job names; nothing is run yet.

    Rows that could not be read pass `where`, since nothing is known about them. Raises `WrongJobError`.
    """
    with spark_errors():
        try:
            table = _opened(spark, file)
        except PySparkException as error:
            raise WrongJobError(_problem(file, error)) from error
    table = _kept(table, file.job.source.where)
    with fitting("source"):
        _check_columns(file.job, table)
    return replace(table, rows=table.rows.limit(limit).persist()) if limit else table


def _opened(spark: SparkSession, file: JobFile) -> Table:
    source = file.job.source
    if source.query:
        return Table(spark.sql(sources.selection(source.query)))
    if source.format in {"table", "iceberg"}:
        return Table(spark.read.options(**sources.given_options(source)).table(source.table or ""))
    if source.format == "jdbc":
        return Table(jdbc.read(spark, file))
    path = file.locate(source.path or "")
    if source.encoding:
        # Spark 4 reads seven encodings unless it is told that Java's others are meant.
        spark.conf.set("spark.sql.legacy.javaCharsets", "true")
    if source.format == "csv":
        return _csv(spark, source, path)
    if source.format in {"json", "jsonl"}:
        return _json(spark, source, path)
    return Table(spark.read.format(source.format).options(**sources.given_options(source)).load(path))


def _csv(spark: SparkSession, source: Source, path: str) -> Table:
    rows = csvfiles.read(spark, source, path)
    return Table(rows, corrupt=True, lossy=not sources.is_utf8(source.encoding))


def _json(spark: SparkSession, source: Source, path: str) -> Table:
    reader = spark.read.options(**sources.json_options(source))
    fields = [field for field in reader.json(path).schema.fields if field.name != CORRUPT]
    schema = StructType([*fields, StructField(CORRUPT, StringType())])
    return Table(reader.schema(schema).json(path), corrupt=True, lossy=not sources.is_utf8(source.encoding))


def _kept(table: Table, where: str | None) -> Table:
    if where is None:
        return table
    with fitting("source.where"):
        condition = fn.expr(where)
        if table.corrupt:
            condition |= column(CORRUPT).isNotNull()
        return replace(table, rows=table.rows.where(condition))


def _problem(file: JobFile, error: PySparkException) -> str:
    source = file.job.source
    match error.getCondition():
        case "PATH_NOT_FOUND" | "DELTA_TABLE_NOT_FOUND" | "DELTA_PATH_DOES_NOT_EXIST":
            return f"job file: source.path: {file.locate(source.path or '')} does not exist"
        case "TABLE_OR_VIEW_NOT_FOUND" if not source.query:
            return f"job file: source.table: {source.table} does not exist"
        case "UNABLE_TO_INFER_SCHEMA":
            return f"job file: source.path: {file.locate(source.path or '')} holds no {source.format} file"
    return f"job file: source: {first_line(error)}"


def _check_columns(job: Job, table: Table) -> None:
    known = set(table.columns)
    problems = [
        f"{place}: the source has no column {name}; it has {', '.join(sorted(known))}"
        for place, name in _named(job)
        if name not in known
    ]
    if not problems:
        problems = [*_types(job, table), *_taken(job, known)]
    if problems:
        raise SettingsError("job file", problems)


def _named(job: Job) -> list[tuple[str, str]]:
    texts = sorted(job.prompt.columns)
    language = job.language.column if job.language else None
    return [
        *(("id", name) for name in ids.columns(job.id)),
        *(("prompt.template" if job.prompt.template else "prompt.messages", name) for name in texts),
        *(("clean.columns", name) for name in job.clean.columns),
        *([("language.column", language)] if language else []),
    ]


def _types(job: Job, table: Table) -> list[str]:
    kinds = {name: table.rows.select(column(name)).schema[0].dataType for _, name in _named(job)}
    problems = [
        f"{place}: column {name} is {kinds[name].simpleString()}; make it text first"
        for place, name in _named(job)
        if place != "id" and kinds[name].typeName() in _NO_TEXT
    ]
    inexact = [(name, sources.id_type_problem(kinds[name].simpleString())) for name in ids.columns(job.id)]
    return [*(f"id: column {name} {problem}" for name, problem in inexact if problem), *problems]


def _taken(job: Job, known: set[str]) -> list[str]:
    ours = {REASON, DETAIL, *([PROMPT_CHARS] if job.routes or job.rules else []), *([RULE] if job.rules else [])}
    taken = sorted(name for name in known if name.lower() in ours or name.lower().startswith(PREFIX))
    return [f"source: column {name} has a name that the producer adds; rename it" for name in taken]
