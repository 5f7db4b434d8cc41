"""*Kafka and Postgres*: how the fleet stands with its two services, as the workers see them."""

from __future__ import annotations

from deploy.grafana.parts import Board, Graph, Line, Number, Row, Variable
from deploy.grafana.queries import WORKERS, newly, now, per_second, quantile, share

_TOPICS = f'{WORKERS}, topic=~"$topic"'

_KAFKA = Row(
    "Kafka",
    (
        Graph(
            "Backlog by partition",
            "End less committed, where a worker owns it. One that stands out holds a message that does not end.",
            "short",
            (
                Line(
                    now("headrace_consumer_lag", "topic, partition", where=_TOPICS),
                    "{{topic}} {{partition}}",
                ),
            ),
        ),
        Graph(
            "Partitions by worker",
            "Owned, and of these put by, since their job is paused.",
            "short",
            (
                Line(now("headrace_consumer_lag", "instance", "count", _TOPICS), "{{instance}} owned"),
                Line(now("headrace_parked_partitions", "instance"), "{{instance}} put by"),
            ),
        ),
        Graph(
            "Rebalances",
            "Some at each start and stop of a worker; without end: workers that come and go.",
            "short",
            (Line(newly("headrace_rebalances_total", "instance"), "{{instance}}"),),
        ),
        Graph(
            "Since the last poll",
            "A minute without a poll, and the health check restarts the worker.",
            "s",
            (Line(now("headrace_last_poll_age_seconds", "instance", "max"), "{{instance}}"),),
        ),
        Graph(
            "Commits refused",
            "Tried again; many of them go with a rebalance or a broker in trouble.",
            "short",
            (Line(newly("headrace_commit_failures_total", "instance"), "{{instance}}"),),
        ),
        Graph(
            "Messages that expired unread",
            "The topic's retention is shorter than the backlog. Publish these rows again.",
            "short",
            (Line(newly("headrace_expired_unread_total", "instance"), "{{instance}}"),),
        ),
    ),
)

_POSTGRES = Row(
    "Postgres",
    (
        Graph(
            "Rows made durable",
            "Answers and ends, a second.",
            "rowsps",
            (Line(per_second("headrace_store_rows_total", "instance"), "{{instance}}"),),
            stacked=True,
        ),
        Graph(
            "Time of a batch",
            "One transaction with rows and ledger lines.",
            "s",
            (
                Line(quantile(0.5, "headrace_store_write_seconds"), "half"),
                Line(quantile(0.95, "headrace_store_write_seconds"), "19 of 20"),
                Line(quantile(0.99, "headrace_store_write_seconds"), "99 of 100"),
            ),
        ),
        Graph(
            "Rows a batch",
            "A batch is written when it is full or a fraction of a second old.",
            "short",
            (
                Line(
                    share(
                        per_second("headrace_store_rows_total"),
                        per_second("headrace_store_write_seconds_count"),
                    ),
                    "rows",
                ),
            ),
        ),
        Graph(
            "Prompts in hand and calls open",
            "A gap that grows while Postgres is slow: answers wait to be written.",
            "short",
            (Line(now("headrace_open_prompts"), "in hand"), Line(now("headrace_in_flight"), "calls open")),
        ),
    ),
)

_NOW = Row(
    "Now",
    (
        Number("Backlog", "Messages not committed.", "short", (Line(now("headrace_consumer_lag", where=_TOPICS)),)),
        Number(
            "Longest since a poll",
            "Of any worker.",
            "s",
            (Line(now("headrace_last_poll_age_seconds", how="max")),),
        ),
        Number(
            "Batches",
            "Transactions with answers, a second.",
            "wps",
            (Line(per_second("headrace_store_write_seconds_count")),),
        ),
        Number(
            "Workers in the database",
            "Workers that say every few seconds that they live, as the exporter counts them.",
            "short",
            (Line("max (headrace_workers_alive)"),),
        ),
    ),
)

BOARD = Board(
    name="services",
    title="Headrace / Kafka and Postgres",
    description="How the fleet stands with its two services, as the workers see them.",
    variables=(
        Variable("job", "Job", "headrace_build_info", "job"),
        Variable("instance", "Instance", 'headrace_build_info{job=~"$job"}', "instance"),
        Variable("topic", "Topic", 'headrace_consumer_lag{job=~"$job"}', "topic"),
    ),
    rows=(_NOW, _KAFKA, _POSTGRES),
)
