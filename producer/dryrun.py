"""Count what a run would do, and show a few prompts; nothing is published, nothing written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from producer.counts import counted, judged_counts, publishable
from producer.estimate import Forecast, Tier, from_size, total
from producer.explain import spark_errors
from producer.ledger import Ledger
from producer.pipeline import Reached, judge
from producer.request import Request
from producer.run import Run
from producer.watch import Watch

# Of the job's earlier results, from which a run's cost is estimated.
_EARLIER_ROWS = 1_000
# UTF-8 bytes a token: about 4 in English and code, 3 in Chinese; the interval takes in most tokenizers.
_BYTES_PER_TOKEN = (2.5, 5.0)
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
    run.counts = judged_counts(seen, published=0, skipped=int(seen["passing"]) - sizes["rows"])
    run.forecast = _earlier(run, sizes["rows"]) or from_size(sizes["rows"], sizes["bytes"], _max_tokens(run))
    low, high = (int(sizes["bytes"] / size) for size in reversed(_BYTES_PER_TOKEN))
    return Estimate(sizes["rows"], sizes["chars"], (low, high), tuple(_shown(row) for row in samples))


def _earlier(run: Run, rows: int) -> Forecast | None:
    """Estimate from what rows of the job cost before; None if it has no calls on record, or nobody asks."""
    if not run.file.job.incremental:
        return None
    watch = Watch(run.settings.database.url, run.file.job.job)
    bills = list(watch.bills(watch.sample(_EARLIER_ROWS)).values())
    if len(bills) < 2:
        return None
    return Forecast(
        rows=rows,
        basis=f"{len(bills)} earlier results of this job",
        usd=total([Tier(rows, [None if bill.usd is None else float(bill.usd) for bill in bills])]),
        tokens=total([Tier(rows, [None if bill.tokens is None else float(bill.tokens) for bill in bills])]),
    )


def _max_tokens(run: Run) -> int | None:
    params = run.file.job.params
    most = params.get("max_completion_tokens", params.get("max_tokens"))
    return most if isinstance(most, int) and not isinstance(most, bool) else None


def _sizes(rows: DataFrame, shared: str, ledger: Ledger | None) -> Row:
    """Add up rows, characters and bytes of what is not finished; text that all share counts in each row."""
    prompt = column(names.PROMPT)
    sized = rows.select(
        column(names.ID),
        column(names.FINGERPRINT),
        (fn.length(prompt) + len(shared)).cast("long").alias("chars"),
        (fn.octet_length(prompt) + len(shared.encode())).cast("long").alias("bytes"),
    )
    if ledger:
        sized = sized.mapInArrow(ledger.unfinished, sized.schema)
    total = sized.agg(
        fn.count(fn.lit(1)).alias("rows"),
        fn.coalesce(fn.sum("chars"), fn.lit(0)).alias("chars"),
        fn.coalesce(fn.sum("bytes"), fn.lit(0)).alias("bytes"),
    ).first()
    assert total is not None
    return total


def _shown(row: Row) -> str:
    """Show one request on a terminal: control characters, which could act there, are replaced."""
    id_, model, value = (row[name] for name in _SHOWN)
    sent = json.loads(value)
    turns = sent.get("messages") or [{"role": "user", "content": sent["prompt"]}]
    size = sum(len(turn["content"]) for turn in turns)
    texts = [f"[{turn['role']}]\n{turn['content']}" if len(turns) > 1 else turn["content"] for turn in turns]
    told = f"--- {id_} for model {model or 'default'}, {size} characters\n" + "\n".join(texts)
    return _CONTROL.sub("\ufffd", told)
