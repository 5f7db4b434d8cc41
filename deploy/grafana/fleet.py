"""*Fleet*: does work get done, how much is left, and what does each worker do?"""

from __future__ import annotations

from deploy.grafana.parts import Board, Graph, Line, Number, Row, Variable
from deploy.grafana.queries import WORKERS, newly, now, per_second

_ANSWERED = f'{WORKERS}, outcome="succeeded"'

_NOW = Row(
    "Now",
    (
        Number("Workers", "Workers that can be scraped.", "short", (Line(now("up")),)),
        Number(
            "Goodput",
            "Rows a second that got their answer.",
            "rowsps",
            (Line(per_second("headrace_messages_total", where=_ANSWERED)),),
        ),
        Number(
            "Backlog",
            "Messages that are published and not committed, in partitions that a worker owns.",
            "short",
            (Line(now("headrace_consumer_lag")),),
        ),
        Number(
            "Time to go",
            "Until the backlog is gone at the pace of the last quarter of an hour. Nothing while nothing moves.",
            "s",
            (Line('max (job:headrace_backlog_eta_seconds:rate15m{job=~"$job"})'),),
        ),
        Number("Calls in flight", "Calls that are open now.", "short", (Line(now("headrace_in_flight")),)),
        Number(
            "Cost an hour",
            "Cost of answers at the prices of the models file, at the pace of the last half hour. 0 without prices.",
            "currencyUSD",
            (Line('sum (job_model:headrace_cost_usd_per_hour:rate30m{job=~"$job"})'),),
        ),
    ),
)

_ROWS = Row(
    "Rows",
    (
        Graph(
            "Rows that end, by how",
            "Duplicates and superseded versions end without a call; dead letters could not be read.",
            "rowsps",
            (Line(per_second("headrace_messages_total", "outcome"), "{{outcome}}"),),
            stacked=True,
        ),
        Graph(
            "Share that fails",
            "Failed rows of all that succeeded or failed. The alert HeadraceErrorBudgetBurn looks at these.",
            "percentunit",
            (
                Line('job:headrace_error_ratio:rate5m{job=~"$job"}', "5 minutes"),
                Line('job:headrace_error_ratio:rate1h{job=~"$job"}', "1 hour"),
                Line('job:headrace_error_ratio:rate6h{job=~"$job"}', "6 hours"),
            ),
        ),
        Graph(
            "Backlog by topic",
            "A job has a topic of its own. Partitions that no worker owns are not counted here.",
            "short",
            (Line(now("headrace_consumer_lag", "topic"), "{{topic}}"),),
            stacked=True,
        ),
        Graph(
            "Age of the oldest open message",
            "Since it was published. A large backlog is old as a whole; a straight line is one message.",
            "s",
            (Line(now("headrace_oldest_uncommitted_seconds", "instance", "max"), "{{instance}}"),),
        ),
        Graph(
            "Calls repeated, by reason",
            "Each is a row that goes on waiting. Retries are a fifth of all calls at most.",
            "cps",
            (Line(per_second("headrace_retries_total", "reason"), "{{reason}}"),),
            stacked=True,
        ),
        Graph(
            "Dead letters, by reason",
            "Messages that nobody could read, in the time between two points.",
            "short",
            (Line(newly("headrace_dead_letters_total", "reason"), "{{reason}}"),),
            stacked=True,
        ),
        Graph(
            "Saved calls, and calls that may be paid twice",
            "Duplicates that needed no call; calls whose end nobody has seen, which may have been billed.",
            "short",
            (
                Line(newly("headrace_deduplicated_total"), "duplicates"),
                Line(newly("headrace_maybe_billed_total"), "maybe billed"),
                Line(newly("headrace_expired_unread_total"), "expired unread"),
            ),
        ),
        Graph(
            "Prompts in hand",
            "Taken from Kafka and not ended: with an open call, waiting for one, or for their run's budget.",
            "short",
            (
                Line(now("headrace_open_prompts"), "in hand"),
                Line(now("headrace_in_flight"), "calls open"),
                Line(now("headrace_budget_waiting"), "waiting for money"),
            ),
        ),
    ),
)

_WORKERS = Row(
    "Workers",
    (
        Graph(
            "Rows by worker",
            "A worker that stays behind the others holds fewer partitions, or waits for something of its own.",
            "rowsps",
            (Line(per_second("headrace_messages_total", "instance"), "{{instance}}"),),
        ),
        Graph(
            "CPU by worker",
            "1 is a whole core, which is all that one worker can use: then more workers help.",
            "percentunit",
            (Line(per_second("process_cpu_seconds_total", "instance"), "{{instance}}"),),
        ),
        Graph(
            "Memory by worker",
            "Resident memory.",
            "bytes",
            (Line(now("process_resident_memory_bytes", "instance"), "{{instance}}"),),
        ),
        Graph(
            "Releases",
            "How many workers run which release.",
            "short",
            (Line(now("headrace_build_info", "version", "count"), "{{version}}"),),
            stacked=True,
        ),
    ),
)

BOARD = Board(
    name="fleet",
    title="Headrace / Fleet",
    description="Does work get done, how much is left, and what does each worker do?",
    variables=(
        Variable("job", "Job", "headrace_build_info", "job"),
        Variable("instance", "Instance", 'headrace_build_info{job=~"$job"}', "instance"),
    ),
    rows=(_NOW, _ROWS, _WORKERS),
)
