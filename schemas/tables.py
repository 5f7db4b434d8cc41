"""The tables in Postgres, schema `headrace`; the migrations create them, a test holds both to the same shape."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Integer,
    Numeric,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from schemas import table_parts
from schemas.statuses import Billed, JobState, LetterKind, PausedFor, Reason, Status, Unit
from schemas.table_parts import XID8, instant, one_of

metadata = table_parts.metadata

results = Table(
    "results",
    metadata,
    Column("job", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("run", Text),
    Column("fingerprint", Text),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("result", Text),
    Column("result_json", JSONB),
    Column("sanitised", Boolean, nullable=False, server_default=text("false")),
    Column("finish_reason", Text),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("latency_ms", BigInteger),
    Column("prompt_length", BigInteger),
    Column("result_length", BigInteger),
    Column("retry_count", Integer, nullable=False, server_default=text("0")),
    Column("error_msg", Text),
    Column("model", Text),
    Column("model_answered", Text),
    Column("endpoint", Text),
    Column("cost_usd", Numeric),
    Column("worker", Text),
    instant("claimed_until"),
    instant("published_at"),
    instant("completed_at"),
    # Which log the message came from and where in it: decides which of two versions of a row is the later one.
    Column("log", Text),
    Column("log_offset", BigInteger),
    # Counts the claims of a row: only the holder of the newest may write.
    Column("fence", BigInteger, nullable=False, server_default=text("0")),
    Column("starts", Integer, nullable=False, server_default=text("0")),
    instant("claimed_at"),
    Column("version_xid", XID8, nullable=False, server_default=text("pg_current_xact_id()")),
    CheckConstraint(one_of("status", Status), name="status"),
    CheckConstraint(one_of("reason", Reason), name="reason"),
)

# Answers whose rows have gone on to another request: kept by a trigger, so that a request that comes back, or that
# other rows share, is not asked again.
former_results = Table(
    "former_results",
    metadata,
    Column("job", Text, primary_key=True),
    Column("fingerprint", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("run", Text),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("result", Text),
    Column("result_json", JSONB),
    Column("sanitised", Boolean, nullable=False, server_default=text("false")),
    Column("finish_reason", Text),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("latency_ms", BigInteger),
    Column("retry_count", Integer, nullable=False, server_default=text("0")),
    Column("model", Text),
    Column("model_answered", Text),
    Column("endpoint", Text),
    Column("cost_usd", Numeric),
    instant("completed_at"),
    Column("kept_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    CheckConstraint(f"status IN ('{Status.SUCCEEDED}')", name="status"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    # When its claim was made: names the claim, and says which month's partition holds the row.
    Column("claimed_at", DateTime(timezone=True), primary_key=True, server_default=text("now()")),
    Column("run", Text),
    Column("outcome", Text, nullable=False),
    Column("http_status", Integer),
    Column("billed", Text, nullable=False),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("latency_ms", BigInteger),
    Column("cost_usd", Numeric),
    Column("model", Text),
    Column("endpoint", Text),
    Column("worker", Text),
    instant("started_at"),
    instant("finished_at"),
    Column("detail", Text),
    # What a call of unknown cost may have cost at most, and used.
    Column("cost_bound_usd", Numeric),
    Column("tokens_bound", BigInteger),
    CheckConstraint(one_of("billed", Billed), name="billed"),
    postgresql_partition_by="RANGE (claimed_at)",
)

jobs = Table(
    "jobs",
    metadata,
    Column("job", Text, primary_key=True),
    Column("run", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("topic", Text),
    Column("read", BigInteger, nullable=False, server_default=text("0")),
    Column("rejected", BigInteger, nullable=False, server_default=text("0")),
    Column("deduplicated", BigInteger, nullable=False, server_default=text("0")),
    Column("skipped", BigInteger, nullable=False, server_default=text("0")),
    Column("published", BigInteger, nullable=False, server_default=text("0")),
    Column("budget_usd", Numeric),
    Column("budget_tokens", BigInteger),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    instant("finished_at"),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    # By whom a paused run was paused.
    Column("paused_for", Text),
    CheckConstraint(one_of("state", JobState), name="state"),
    CheckConstraint(one_of("paused_for", PausedFor), name="paused_for"),
)

# The workers that live: each says so every few seconds.
workers = Table(
    "workers",
    metadata,
    Column("worker", Text, primary_key=True),
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("in_flight", Integer, nullable=False, server_default=text("0")),
    Column("open", Integer, nullable=False, server_default=text("0")),
)

# The rate limits of the whole fleet: up to when the units of each are leased out.
quotas = Table(
    "quotas",
    metadata,
    Column("endpoint", Text, primary_key=True),
    Column("unit", Text, primary_key=True),
    Column("next_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    CheckConstraint(one_of("unit", Unit), name="unit"),
)

# What the fleet knows of an endpoint that answers nobody, or refuses the whole run.
circuits = Table(
    "circuits",
    metadata,
    Column("endpoint", Text, primary_key=True),
    Column("faults", Integer, nullable=False, server_default=text("0")),
    instant("faulted_at"),
    instant("opened_at"),
    Column("reason", Text),
    Column("detail", Text),
    instant("probe_at"),
    Column("probe_seconds", Double, nullable=False, server_default=text("0")),
)

# What each worker may spend of a run's budget, and what it has spent: the grants never exceed the budget.
spending = Table(
    "spending",
    metadata,
    Column("job", Text, primary_key=True),
    Column("run", Text, primary_key=True),
    Column("worker", Text, primary_key=True),
    Column("granted_usd", Numeric, nullable=False, server_default=text("0")),
    Column("granted_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("spent_usd", Numeric, nullable=False, server_default=text("0")),
    Column("spent_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
)

# How far each target of the backfill has come.
backfills = Table(
    "backfills",
    metadata,
    Column("job", Text, primary_key=True),
    Column("target", Text, primary_key=True),
    Column("cursor", XID8, nullable=False),
    Column("results", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("joined", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("written", BigInteger, nullable=False),
    Column("started_at", DateTime(timezone=True), nullable=False),
    Column("finished_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
)

# One row for each time a dead letter was published again: written before the message leaves, its new place when it is
# acknowledged. `ancestor` is the letter as people write it, topic/partition/offset; the key names its log instead,
# since a re-created topic is another log.
replays = Table(
    "replays",
    metadata,
    Column("ancestor_log", Text, primary_key=True),
    Column("ancestor_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("run", Text, primary_key=True),
    Column("ancestor", Text, nullable=False),
    Column("root", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("reason", Text),
    Column("job", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("partition", Integer),
    Column("log", Text),
    Column("log_offset", BigInteger),
    Column("replayed_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    instant("acknowledged_at"),
    CheckConstraint(one_of("kind", LetterKind), name="kind"),
)
