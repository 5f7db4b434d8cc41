"""`headrace reconcile [JOB]`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Annotated

import typer

from control.dead_letters.reading import Reader
from control.dead_letters.sending import Sender
from control.dead_letters.terminal import visible
from control.ends import ending, stop
from control.help import settings as named
from control.reconcile.database import Results
from control.reconcile.log import Log
from control.reconcile.reconciling import Account, Reconciliation
from schemas.settings import DatabaseSettings, GroupSettings, KafkaSettings, TopicSettings
from schemas.statuses import ExitCode
from schemas.topics import prompts_topic, subscribes_to

SETTINGS = named("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "DEAD_LETTER_TOPIC", "PROMPTS_TOPIC", "CONSUMER_GROUP")
_SHOWN, _LISTED, _LONGEST = 20, 1_000, 128
_Job = Annotated[str | None, typer.Argument(help="The job; all that workers read if absent.", show_default=False)]
_Topic = Annotated[str | None, typer.Option("--topic", help="The job's topic, if its job file names another.")]
_Fix = Annotated[bool, typer.Option("--fix", help="Publish what is missing again.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, with the first 1,000 ids.")]


def reconcile(job: _Job = None, topic: _Topic = None, fix: _Fix = False, as_json: _Json = False) -> None:
    """Find messages that the workers have dealt with and that have neither a result nor a dead letter.

    Such gaps are left by a database that lost commits, and by messages that expired unread. Nothing is committed.
    The warehouse is compared by `spark-submit backfill/job.py --job FILE --reconcile`.

    Example: headrace reconcile reviews --fix
    """
    with ending(), _services(job) as reconciliation:
        topics = _topics(reconciliation.reader, job, topic)
        account = reconciliation.run(topics, _LISTED)
        if fix and account.missing:
            reconciliation.republish(Sender(KafkaSettings.read(os.environ)))
    if as_json:
        typer.echo(json.dumps({**asdict(account), "adds_up": account.adds_up}))
    else:
        _tell(account, fixed=fix)
    raise typer.Exit(ExitCode.DONE if account.adds_up else ExitCode.FAILED)


@contextmanager
def _services(job: str | None) -> Iterator[Reconciliation]:
    kafka, group = KafkaSettings.read(os.environ), GroupSettings.read(os.environ).group
    letters = TopicSettings.read(os.environ).dead_letters
    with (
        closing(Results(DatabaseSettings.read(os.environ))) as results,
        closing(Log(kafka, group)) as log,
        closing(Reader(kafka, group)) as reader,
    ):
        yield Reconciliation(log, reader, results, letters, job)


def _topics(reader: Reader, job: str | None, topic: str | None) -> list[str]:
    """Choose the topics to read; one that was named must be there."""
    if job is None and topic is None:
        return sorted(t for t in reader.topics if subscribes_to(TopicSettings.read(os.environ).prompts, t))
    named = topic or prompts_topic(job or "")
    if named not in reader.topics:
        stop(
            ExitCode.WRONG_SETTINGS, f"there is no topic {visible(named, _LONGEST)}: name the job's own with --topic"
        )
    return [named]


def _tell(account: Account, *, fixed: bool) -> None:
    typer.echo(f"{account.checked} messages dealt with, {account.unreadable} unreadable, {account.unread} unread yet")
    for job, id_ in account.ids[:_SHOWN]:
        typer.echo(f"  missing: {visible(job, _LONGEST)} {visible(id_, _LONGEST)}")
    typer.echo(f"{account.missing} rows are missing, {account.letters_missing} dead letters are")
    if fixed:
        typer.echo(f"{account.republished} messages published again")
    elif account.missing:
        typer.echo("publish them again: headrace reconcile --fix")
    if account.expired_unread:
        typer.echo(
            f"{account.expired_unread} offsets expired unread: run the producer, which publishes every row "
            "that has no result"
        )
    typer.echo("the warehouse against all this: spark-submit backfill/job.py --job FILE --reconcile")
