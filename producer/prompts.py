"""From a source row to its message: text, prompt, model and verdict, all of it column expressions."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import any_of, column, first_of, text_of
from producer.explain import fitting
from producer.request import Request, fingerprint, message, shared_bytes
from producer.source import Table
from producer.texts import cleaning, cut, is_overlong, sendable
from producer.verdicts import Message, verdict
from schemas import template
from schemas.job import Clean, Job, Route
from schemas.text import clean_text

# The number of the route of rows that no route takes.
NO_ROUTE = -1


def prepare(table: Table, job: Job, request: Request) -> DataFrame:
    """Add to each row its id, prompt, model, fingerprint, message and verdict; raises `WrongJobError`."""
    rows = _with_texts(table.rows, job)
    rows = rows.withColumn(names.PROMPT, rendered(job.prompt.template))
    if job.routes:
        rows = rows.withColumn(names.PROMPT_CHARS, fn.length(names.PROMPT))
    rows = rows.withColumns(_routed(rows, job))
    rows = rows.withColumn(names.FINGERPRINT, fingerprint(column(names.MODEL), column(names.PROMPT), request))
    written = Message(message(request), shared_bytes(request))
    rows = rows.withColumn(names.VALUE, written.json)
    return rows.withColumn(names.VERDICT, verdict(job, written, corrupt=table.corrupt, lossy=table.lossy))


def rendered(text: str) -> Column:
    """Fill a template; null if a column is null. What a column holds is never read as a template again."""
    parts = template.parse(text)
    return fn.concat(
        *(
            column(text_of(part.name)) if isinstance(part, template.Column) else fn.lit(clean_text(part.text)[0])
            for part in parts
        )
    )


def _with_texts(rows: DataFrame, job: Job) -> DataFrame:
    """Add the id and every text column that a prompt or a rule of cleaning names."""
    texts = sorted({*template.columns(job.prompt.template), *job.clean.columns})
    added = {text_of(name): sendable(column(name).cast("string")) for name in texts}
    rows = rows.withColumns({names.ID: column(job.id).cast("string"), **added})
    cleaned = [text_of(name) for name in dict.fromkeys(job.clean.columns)]
    for step in cleaning(job.clean):
        rows = rows.withColumns({name: step(column(name)) for name in cleaned})
    if not _cuts(job.clean):
        return rows.withColumn(names.TRUNCATED, fn.lit(False))
    rows = rows.withColumn(names.TRUNCATED, any_of(is_overlong(column(name), job.clean) for name in cleaned))
    return rows.withColumns({name: cut(column(name), job.clean) for name in cleaned})


def _cuts(rules: Clean) -> bool:
    return rules.max_chars is not None and rules.on_overlong == "truncate"


def _routed(rows: DataFrame, job: Job) -> dict[str, Column]:
    """Take model, template and number of the first route that holds.

    Without one the model is null, which is the worker's default; without a template of its own a route has the job's.
    """
    conditions = [_condition(rows, number, route) for number, route in enumerate(job.routes)]
    models = [fn.lit(route.model) for route in job.routes]
    found = {names.MODEL: first_of(zip(conditions, models, strict=True)).cast("string")}
    numbers = [fn.lit(number) for number in range(len(job.routes))]
    found[names.ROUTE] = fn.coalesce(first_of(zip(conditions, numbers, strict=True)).cast("int"), fn.lit(NO_ROUTE))
    if any(route.template for route in job.routes):
        usual = column(names.PROMPT)
        prompts = [rendered(route.template) if route.template else usual for route in job.routes]
        found[names.PROMPT] = first_of([*zip(conditions, prompts, strict=True), (fn.lit(True), usual)])
    return found


def _condition(rows: DataFrame, number: int, route: Route) -> Column:
    if route.when is None:
        return fn.lit(True)
    with fitting(f"routes.{number}.when"):
        condition = fn.expr(route.when)
        rows.where(condition)
    return condition
