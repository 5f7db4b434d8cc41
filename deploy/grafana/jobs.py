"""*Jobs and cost*: where each job stands, what it has cost, and when it will be done."""

from __future__ import annotations

from deploy.grafana.parts import Bars, Board, Graph, Line, Number, Row, Variable
from deploy.grafana.queries import FLEET, JOBS, now, per_second, share

_AT_MOST = now("headrace_job_spend_high_usd", "job")
_MONEY = "Counted from the ledger of calls: from what is known to be billed to that plus all that may have been."

_NOW = Row(
    "Now",
    (
        Number(
            "Jobs that run",
            "Jobs with a run in the state running.",
            "short",
            (Line(now("headrace_job_state", where=f'{JOBS}, state="running"')),),
        ),
        Number("Left to do", "Rows that wait for their end.", "short", (Line(now("headrace_job_backlog")),)),
        Number("Answered", "Rows that have their answer.", "short", (Line(now("headrace_job_done_total")),)),
        Number("Failed", "Rows that ended as failed.", "short", (Line(now("headrace_job_failed_total")),)),
        Number(
            "Spent",
            f"{_MONEY} This is the upper end.",
            "currencyUSD",
            (Line(now("headrace_job_spend_high_usd")),),
        ),
    ),
)

_PROGRESS = Row(
    "Progress",
    (
        Graph(
            "Left to do",
            "Rows of each job that wait for their end.",
            "short",
            (Line(now("headrace_job_backlog", "job"), "{{job}}"),),
            stacked=True,
        ),
        Graph(
            "Answered",
            "Rows a second that got their answer.",
            "rowsps",
            (Line(per_second("headrace_job_done_total", "job"), "{{job}}"),),
            stacked=True,
        ),
        Graph(
            "Failed, by reason",
            "Rows a second. `headrace dead-letters list --summary` has the same, with examples.",
            "rowsps",
            (Line(per_second("headrace_job_failed_total", "job, reason"), "{{job}} {{reason}}"),),
            stacked=True,
        ),
        Graph(
            "Time to go",
            "Until a job is done at its present pace.",
            "s",
            (
                Line(
                    share(now("headrace_job_backlog", "job"), per_second("headrace_job_done_total", "job")), "{{job}}"
                ),
            ),
        ),
        Graph(
            "Published",
            "Rows a second that the producer has had acknowledged.",
            "rowsps",
            (Line(per_second("headrace_job_published_total", "job"), "{{job}}"),),
        ),
        Graph(
            "Oldest row that waits",
            "Since it was published.",
            "s",
            (Line(now("headrace_job_oldest_pending_seconds", "job", "max"), "{{job}}"),),
        ),
        Graph(
            "Last backfill",
            "Since answers were last joined into the job's table. HeadraceBackfillStale tells after a day.",
            "s",
            (Line(now("headrace_job_backfill_age_seconds", "job", "max"), "{{job}}"),),
        ),
        Graph(
            "State",
            "1 for the state that a job is in.",
            "short",
            (Line(f"{now('headrace_job_state', 'job, state', 'max')} > 0", "{{job}} {{state}}"),),
        ),
    ),
)

_COST = Row(
    "Cost",
    (
        Graph(
            "Spent",
            _MONEY,
            "currencyUSD",
            (
                Line(now("headrace_job_spend_low_usd", "job"), "{{job}} at least"),
                Line(now("headrace_job_spend_high_usd", "job"), "{{job}} at most"),
            ),
        ),
        Bars(
            "Of the budget",
            "The upper end of what the newest run has spent, of its budget. At 1 it is paused and its rows wait.",
            "percentunit",
            (
                Line(
                    share(now("headrace_job_budget_spent_usd", "job"), now("headrace_job_budget_usd", "job")),
                    "{{job}}",
                ),
            ),
        ),
        Graph(
            "Cost a thousand answers",
            "The upper end of what is spent, over the rows that have their answer, since the job began.",
            "currencyUSD",
            (
                Line(
                    f"1000 * {share(_AT_MOST, now('headrace_job_done_total', 'job'))}",
                    "{{job}}",
                ),
            ),
        ),
        Graph(
            "Cost an hour, by model",
            "Of answers, as the workers count it, at the pace of the last half hour. 0 for a model without a price.",
            "currencyUSD",
            (Line(f"sum by (model) (job_model:headrace_cost_usd_per_hour:rate30m{{{FLEET}}})", "{{model}}"),),
            stacked=True,
        ),
        Graph(
            "Tokens, by model",
            "A second, as the servers report them.",
            "short",
            (Line(per_second("headrace_tokens_total", "model, kind", FLEET), "{{model}} {{kind}}"),),
            stacked=True,
        ),
        Graph(
            "Calls that wait for money",
            "Of runs whose budget is used up or lent out to other workers.",
            "short",
            (Line(now("headrace_budget_waiting", where=FLEET), "waiting"),),
        ),
    ),
)

BOARD = Board(
    name="jobs",
    title="Headrace / Jobs and cost",
    description="Where each job stands, what it has cost, and when it will be done. Needs the exporter.",
    variables=(
        Variable("job", "Job", "headrace_job_backlog", "job"),
        Variable("instance", "Instance", 'headrace_job_backlog{job=~"$job"}', "instance"),
        Variable("fleet", "Workers", "headrace_build_info", "job"),
    ),
    rows=(_NOW, _PROGRESS, _COST),
)
