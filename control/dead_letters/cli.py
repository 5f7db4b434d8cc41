"""`headrace dead-letters list|show|replay`."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import typer

from control.dead_letters import listing, reporting, showing, terminal
from control.dead_letters.choosing import Wish
from control.dead_letters.collecting import Topics, letters
from control.dead_letters.database import Database
from control.dead_letters.decisions import LeftAlone
from control.dead_letters.filters import Asked
from control.dead_letters.finding import NoSuchLetterError, find_message, find_row
from control.dead_letters.letters import Letter, Place
from control.dead_letters.links import Link
from control.dead_letters.options import ListOptions, ReplayOptions, ShowOptions, takes
from control.dead_letters.reading import Reader
from control.dead_letters.replay import Replay
from control.dead_letters.sending import Sender
from control.dead_letters.settings import LetterSettings, show_problems
from control.ends import Ends, ending, stop
from control.help import settings as named
from schemas.statuses import ExitCode

app = typer.Typer(
    help="Messages that nobody could read and prompts that failed: see them, and publish them again.",
    no_args_is_help=True,
)
SETTINGS = named("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "DEAD_LETTER_TOPIC", "PROMPTS_TOPIC", "CONSUMER_GROUP")
_ENDS: Ends = {NoSuchLetterError: (ExitCode.FAILED, "{}")}


@app.command("list", epilog=SETTINGS)
@takes(ListOptions)
def list_(options: ListOptions) -> None:
    """List dead letters and count them by kind and reason; shows no prompt and no answer.

    Example: headrace dead-letters list --job reviews --kind failed --since 12h
    """
    with _services(options.asked) as (settings, reader, database):
        topics = Topics.look(reader, settings.topics)
        limit = 0 if options.summary else options.limit
        found = listing.Listing(database.replays_of, _printer(as_json=options.json), limit)
        found.run(letters(settings.filters, topics, reader, database))
    if options.json and options.summary:
        for part in found.summary:
            typer.echo(terminal.as_json(part))
        return
    shown = found.counts.total() if options.summary else found.shown
    for text in listing.summary_lines(found.summary, shown):
        # Where the letters go into a file or a program, the counts must not get between them.
        typer.echo(text, err=not (options.summary or sys.stdout.isatty()))


@app.command(epilog=SETTINGS)
@takes(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show one letter: headers or columns, calls, and the line of its replays; the payload only if asked for.

    Example: headrace dead-letters show headrace.dead-letters/0/17
    """
    with _services(Asked(), show_problems(options)) as (settings, reader, database):
        topics = Topics.look(reader, settings.topics)
        if options.ref is not None and (place := Place.parse(options.ref)):
            facts = find_message(place, topics, reader, database)
        else:
            row = options.job or "", options.id or ""
            facts = find_row(row, topics, reader, database, message=options.payload)
    if options.json:
        typer.echo(terminal.as_json(showing.as_fields(facts, payload=options.payload)))
    else:
        showing.show(terminal.console(), facts, payload=options.payload)


@app.command(epilog=SETTINGS)
@takes(ReplayOptions)
def replay(options: ReplayOptions) -> None:
    """Publish dead letters again where they came from: messages that can be read by now, and failed rows.

    Rows that have their answer, or are being asked, are left alone, and so is what was replayed before.

    Example: headrace dead-letters replay --kind failed --reason timeout --dry-run
    """
    with _services(options.asked) as (settings, reader, database):
        if not options.dry_run and not database.lock():
            stop(ExitCode.FAILED, "another replay is running on this database: let it end first")
        topics = Topics.look(reader, settings.topics)
        sender = None if options.dry_run else Sender(settings.kafka)
        one = Replay(topics, reader, database, sender, _tell)
        wish = Wish(f"replay-{_now():%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}", options.again, options.limit)
        try:
            one.run(letters(settings.filters, topics, reader, database, by_place=True), wish, _now)
        finally:
            _report(one, sender, wish.run, as_json=options.json)
        if sender is not None and sender.acknowledged != sender.sent:
            stop(ExitCode.FAILED, f"kafka: not all were acknowledged: {'; '.join(sorted(sender.problems))}")


@contextmanager
def _services(asked: Asked, others: Sequence[str] = ()) -> Iterator[tuple[LetterSettings, Reader, Database]]:
    """Read the settings, reach both services, and turn whatever goes wrong into its exit code."""
    with ending(_ENDS):
        settings = LetterSettings(os.environ, asked, _now(), others)
        with (
            closing(Database(settings.database)) as database,
            closing(Reader(settings.kafka, settings.group.group)) as reader,
        ):
            yield settings, reader, database


def _printer(*, as_json: bool) -> listing.Show:
    def one_by_one(found: Sequence[tuple[Letter, list[Link]]]) -> None:
        for letter, links in found:
            shown = (
                terminal.as_json(listing.fields(letter, links))
                if as_json
                else terminal.line(listing.row(letter, links))
            )
            typer.echo(shown)

    def as_table(found: Sequence[tuple[Letter, list[Link]]]) -> None:
        if found:
            terminal.table(terminal.console(), listing.TITLES, [listing.row(*pair) for pair in found])

    return as_table if sys.stdout.isatty() and not as_json else one_by_one


def _tell(letter: Letter, alone: LeftAlone) -> None:
    if text := reporting.left_line(letter, alone):
        typer.echo(text, err=True)


def _report(replayed: Replay, sender: Sender | None, run: str, *, as_json: bool) -> None:
    acknowledged = sender.acknowledged if sender else 0
    found = reporting.as_fields(replayed.tally, run, dry_run=sender is None, acknowledged=acknowledged)
    for text in [terminal.as_json(found)] if as_json else reporting.lines(found):
        typer.echo(text)


def _now() -> datetime:
    return datetime.now(UTC)
