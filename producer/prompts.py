"""From a source row to its message: text, prompt, model and verdict, all of it column expressions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from producer import cascade
from producer import columns as names
from producer.columns import any_of, column, first_of, text_of
from producer.explain import fitting
from producer.request import Request, fingerprint, message, shared_bytes, turn_columns
from producer.source import Table
from producer.texts import cleaning, cutting, has_more_characters, has_more_tokens, script_share, sendable
from producer.verdicts import Message, verdict
from schemas import ids, template
from schemas.job import Job
from schemas.shaping import PromptTemplate, Rule
from schemas.text import clean_text

# The number of the route of rows that no route takes.
NO_ROUTE = -1
# 64 bits of the hash: whoever wants to forge a tag must find a text that holds its own.
_TAG_DIGITS = 16


def prepare(table: Table, job: Job, request: Request, gone_on: DataFrame | None = None) -> DataFrame:
    """Add to each row its id, prompt, model, fingerprint, message and verdict; raises `WrongJobError`.

    `gone_on`: the rows that ask a second model by now, as `cascade.find` gives them.
    """
    _check_scripts(table.rows, job)
    rows = _with_texts(table.rows, job)
    rows = _with_prompt(rows, job.prompt)
    if job.rules or job.routes:
        rows = rows.withColumn(names.PROMPT_CHARS, fn.length(names.PROMPT))
    if job.rules:
        rows = rows.withColumn(names.RULE, _rule(rows, job.rules))
    rows = rows.withColumns(_routed(rows, job))
    rows = rows.withColumn(names.FINGERPRINT, fingerprint(column(names.MODEL), request))
    if job.escalates:
        rows = cascade.applied(rows, job, request, gone_on)
    written = Message(message(request), shared_bytes(request))
    rows = rows.withColumn(names.VALUE, written.json)
    return rows.withColumn(names.VERDICT, verdict(job, written, corrupt=table.corrupt, lossy=table.lossy))


def rendered(text: str, fence: Collection[str] = ()) -> Column:
    """Fill a template; null if a column is null. What a column holds is never read as a template again."""
    filled: list[Column] = []
    for part in template.parse(text):
        if isinstance(part, template.Column):
            own = column(text_of(part.name))
            filled.append(_fenced(own) if part.name in fence else own)
        else:
            filled.append(fn.lit(clean_text(part.text)[0]))
    return fn.concat(*filled)


def _fenced(text: Column) -> Column:
    """Put text between tags that carry its own hash, which no text can hold: the same text has the same tags."""
    tag = fn.concat(fn.lit("data-"), fn.substring(fn.sha2(text, 256), 1, _TAG_DIGITS))
    return fn.concat(fn.lit("<"), tag, fn.lit(">\n"), text, fn.lit("\n</"), tag, fn.lit(">"))


def _with_prompt(rows: DataFrame, prompt: PromptTemplate) -> DataFrame:
    """Add the prompt: the filled template or, where a chat has several, all of them one after the other."""
    turns = turn_columns(prompt)
    filled = [rendered(text, prompt.fence) for text in prompt.templates]
    rows = rows.withColumns(dict(zip(turns, filled, strict=True)))
    return rows if turns == [names.PROMPT] else rows.withColumn(names.PROMPT, fn.concat(*map(column, turns)))


def _with_texts(rows: DataFrame, job: Job) -> DataFrame:
    """Add the id and every text column that a prompt or a rule of cleaning names."""
    texts = sorted({*job.prompt.columns, *job.clean.columns})
    # Where control characters go, U+0000 goes with them.
    as_read = job.clean.columns if job.clean.strip_control else []
    kept = {name: column(name).cast("string") for name in texts}
    added = {text_of(name): text if name in as_read else sendable(text) for name, text in kept.items()}
    rows = rows.withColumns({names.ID: fn.expr(ids.sql(job.id)), **added})
    cleaned = [text_of(name) for name in dict.fromkeys(job.clean.columns)]
    for step in cleaning(job.clean):
        rows = rows.withColumns({name: step(column(name)) for name in cleaned})
    over = fn.lit(False)
    if cuts := cutting(job.clean):
        tests = [test(column(name), job.clean) for name in cleaned for test in (has_more_characters, has_more_tokens)]
        over = any_of(tests)
    rows = rows.withColumn(names.TRUNCATED, over)
    for step in cuts:
        rows = rows.withColumns({name: step(column(name)) for name in cleaned})
    return rows


def _check_scripts(rows: DataFrame, job: Job) -> None:
    """Let the JVM say which script it does not know, before any row is read."""
    if job.language and job.language.scripts:
        with fitting("language.scripts"):
            rows.sparkSession.sql("SELECT 'a' AS text").select(
                script_share(column("text"), job.language.scripts)
            ).first()


def _rule(rows: DataFrame, rules: Sequence[Rule]) -> Column:
    """Name the first rule that holds; null if none does."""
    conditions = [_condition(rows, f"rules.{number}.when", rule.when) for number, rule in enumerate(rules)]
    return first_of(zip(conditions, [fn.lit(rule.name) for rule in rules], strict=True)).cast("string")


def _routed(rows: DataFrame, job: Job) -> dict[str, Column]:
    """Take model, template and number of the first route that holds.

    Without one the model is null, which is the worker's default; without a template of its own a route has the job's.
    """
    conditions = [_condition(rows, f"routes.{number}.when", route.when) for number, route in enumerate(job.routes)]
    models = [fn.lit(route.model) for route in job.routes]
    found = {names.MODEL: first_of(zip(conditions, models, strict=True)).cast("string")}
    numbers = [fn.lit(number) for number in range(len(job.routes))]
    found[names.ROUTE] = fn.coalesce(first_of(zip(conditions, numbers, strict=True)).cast("int"), fn.lit(NO_ROUTE))
    if any(route.template for route in job.routes):
        usual = column(names.PROMPT)
        prompts = [rendered(route.template, job.prompt.fence) if route.template else usual for route in job.routes]
        found[names.PROMPT] = first_of([*zip(conditions, prompts, strict=True), (fn.lit(True), usual)])
    return found


def _condition(rows: DataFrame, place: str, when: str | None) -> Column:
    if when is None:
        return fn.lit(True)
    with fitting(place):
        condition = fn.expr(when)
        rows.where(condition)
    return condition
