"""Count what a run would do, and show a few prompts; nothing is published, nothing written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from producer.counts import counted, judged_counts, publishable
from producer.explain import spark_errors
from producer.judging import judge
from producer.ledger import Ledger
from producer.pipeline import Reached
from producer.request import Request
from producer.run import Run
from producer.watch import Watch
from schemas.bills import Earlier
from schemas.estimate import FEWEST_BYTES, MOST_BYTES, Forecast, Prompts, from_earlier, from_size, max_tokens

# Of the job's earlier results, from which a run's cost is estimated.
_EARLIER_ROWS = 1_000
_FEWEST_ROWS = 2
_SHOWN = (names.ID, names.MODEL, names.VALUE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would publish; tokens are a guess from the text's size, as an interval."""

    rows: int
    prompt_chars: int
    prompt_tokens: tuple[int, int]
    samples: tuple[str, ...]


def dry_run(spark: SparkSession, run: Run, reached: Reached) -> Estimate:
    """Read, judge and count all rows; raises a `ProducerError`. Kafka is not asked, Postgres only if incremental."""
    looks_up = run.file.job.incremental and reached.any_finished
    shared = Request.of(run.file, run.id, run.started).shared_text
    with judge(spark, run) as judged, spark_errors():
        rows, observation = counted(judged.rows, run.file.job)
        sizes = _sizes(rows, shared, run.ledger if looks_up else None)
        samples = publishable(judged.rows).limit(run.arguments.print_prompts).select(*map(column, _SHOWN)).collect()
    seen = observation.get
    left, chars, size = (sum(part[name] for part in sizes) for name in ("rows", "chars", "bytes"))
    run.counts = judged_counts(seen, published=0, skipped=int(seen["passing"]) - left)
    run.forecast = _forecast(run, sizes)
    tokens = (int(size / MOST_BYTES), int(size / FEWEST_BYTES))
    return Estimate(left, chars, tokens, tuple(_shown(row) for row in samples))


def _forecast(run: Run, sizes: Sequence[Row]) -> Forecast:
    """Estimate from what rows of the job took before, else from the size of the prompts."""
    known, rows = run.settings.catalog, sum(part["rows"] for part in sizes)
    price = known.price if known else lambda _: None
    earlier = _earlier(run)
    if len(earlier) >= _FEWEST_ROWS:
        found = from_earlier(rows, earlier, price)
    else:
        prompts = [Prompts(part["rows"], part["bytes"], price(part[names.MODEL])) for part in sizes]
        found = from_size(prompts, max_tokens(run.file.job.params))
    return replace(found, basis=f"{found.basis}; prices of {known.path}") if known and found.usd else found


def _earlier(run: Run) -> list[Earlier]:
    if not run.file.job.incremental:
        return []
    return Watch(run.settings.database.url, run.file.job.job).earlier(_EARLIER_ROWS)


def _sizes(rows: DataFrame, shared: str, ledger: Ledger | None) -> list[Row]:
    """Add up by model rows, characters and bytes of what is not finished; text that all share counts in each row."""
    prompt = column(names.PROMPT)
    sized = rows.select(
        column(names.ID),
        column(names.FINGERPRINT),
        column(names.MODEL),
        (fn.length(prompt) + len(shared)).cast("long").alias("chars"),
        (fn.octet_length(prompt) + len(shared.encode())).cast("long").alias("bytes"),
    )
    if ledger:
        sized = sized.mapInArrow(ledger.unfinished, sized.schema)
    parts = sized.groupBy(names.MODEL).agg(
        fn.count(fn.lit(1)).alias("rows"), fn.sum("chars").alias("chars"), fn.sum("bytes").alias("bytes")
    )
    return parts.orderBy(names.MODEL).collect()


def _shown(row: Row) -> str:
    """Show one request on a terminal: control characters, which could act there, are replaced."""
    id_, model, value = (row[name] for name in _SHOWN)
    sent = json.loads(value)
    turns = sent.get("messages") or [{"role": "user", "content": sent["prompt"]}]
    size = sum(len(turn["content"]) for turn in turns)
    texts = [f"[{turn['role']}]\n{turn['content']}" if len(turns) > 1 else turn["content"] for turn in turns]
    told = f"--- {id_} for model {model or 'default'}, {size} characters\n" + "\n".join(texts)
    return _CONTROL.sub("\ufffd", told)
