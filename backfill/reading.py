"""The source table as Spark sees it, by the rules of `schemas.sources`, which the producer reads by too."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from backfill import jdbc
from backfill.columns import LLM_COLUMNS, PREFIX, column, quoted
from backfill.errors import SourceGoneError, WrongJobError
from backfill.explain import first_line
from backfill.settings import JobFile
from schemas import ids, sources
from schemas.job import Job
from schemas.settings import SettingsError

# ISO-8859-1 alone would be refused beside Windows-1252 and its like, which real files are in.
JAVA_CHARSETS = "spark.sql.legacy.javaCharsets"


def read(spark: SparkSession, file: JobFile) -> DataFrame:
    """Open the source, keep the rows of `where`, check the columns that the job names; nothing is run yet.

    Raises `WrongJobError` or `SettingsError` naming the field of the job file.
    """
    spark.conf.set(JAVA_CHARSETS, "true")
    try:
        rows = _opened(spark, file)
        # A Spark Connect client opens nothing before it is asked for the columns.
        known = rows.columns
    except PySparkException as error:
        raise _problem(file, error) from error
    if sources.CORRUPT_COLUMN in known:
        rows = rows.drop(sources.CORRUPT_COLUMN)
    if file.job.source.where is not None:
        rows = _kept(rows, file.job.source.where)
    if problems := _problems(file.job, rows):
        raise SettingsError("job file", problems)
    return rows


def _opened(spark: SparkSession, file: JobFile) -> DataFrame:
    source = file.job.source
    match source.format:
        case "table" if source.query:
            return spark.sql(sources.selection(source.query))
        case "table" | "iceberg":
            return spark.read.options(**sources.given_options(source)).table(source.table or "")
        case "jdbc":
            return jdbc.read(spark, file)
        case "csv":
            return _csv(spark, file)
        case "json" | "jsonl":
            return spark.read.options(**sources.json_options(source)).json(file.source_path)
        case _:
            return spark.read.format(source.format).options(**sources.given_options(source)).load(file.source_path)


def _csv(spark: SparkSession, file: JobFile) -> DataFrame:
    source = file.job.source
    first = spark.read.text(file.source_path, lineSep="\n").first()
    rows = spark.read.options(**sources.csv_options(source, first[0] if first else None)).csv(file.source_path)
    if not rows.columns:
        raise SourceGoneError(f"source.path: {file.source_path} holds no csv file with columns")
    folders = sources.folder_columns(next(iter(rows.inputFiles()), ""))
    names = {name: sources.header_name(name, source.encoding) for name in rows.columns}
    if not sources.is_utf8(source.encoding):
        return rows.toDF(*names.values())
    return rows.select(
        *(
            (column(raw) if raw in folders else _from_bytes(raw)).alias(name if raw not in folders else raw)
            for raw, name in names.items()
        )
    )


def _from_bytes(name: str) -> Column:
    return fn.make_valid_utf8(fn.encode(column(name), sources.BYTES_ENCODING).cast("string"))


def _kept(rows: DataFrame, where: str) -> DataFrame:
    try:
        return rows.where(fn.expr(where))
    except PySparkException as error:
        raise WrongJobError(f"source.where: {first_line(error)}") from error


def _problem(file: JobFile, error: PySparkException) -> WrongJobError:
    source = file.job.source
    match error.getCondition():
        case "PATH_NOT_FOUND" | "DELTA_TABLE_NOT_FOUND" | "DELTA_PATH_DOES_NOT_EXIST":
            return SourceGoneError(f"source.path: {file.source_path} does not exist")
        case "TABLE_OR_VIEW_NOT_FOUND" if not source.query:
            return SourceGoneError(f"source.table: {source.table} does not exist")
        case "UNABLE_TO_INFER_SCHEMA":
            return SourceGoneError(f"source.path: {file.source_path} holds no {source.format} file")
    return WrongJobError(f"source: {first_line(error)}")


def _ids(job: Job) -> list[tuple[str, str]]:
    return [("id", name) for name in ids.columns(job.id)]


def _problems(job: Job, rows: DataFrame) -> list[str]:
    known = rows.columns
    problems = [
        f"{place}: the source has no column {name}; it has {', '.join(sorted(known))}"
        for place, name in [*_ids(job), *(("target.partition_by", name) for name in job.target.partition_by)]
        if name not in {*known, *(LLM_COLUMNS if place != "id" else ())}
    ]
    for place, name in _ids(job):
        if name in known and (problem := sources.id_type_problem(rows.select(column(name)).dtypes[0][1])):
            problems.append(f"{place}: column {name} {problem}")
    taken = sorted(n for n in known if n.lower() in LLM_COLUMNS or n.lower().startswith(PREFIX))
    problems += [f"source: column {quoted(name)} has a name that the backfill adds; rename it" for name in taken]
    if len({name.lower() for name in known}) < len(known):
        problems.append("source: two columns have names that differ by case alone; rename one")
    return problems
