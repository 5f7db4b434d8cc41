"""One letter or row with everything that belongs to it."""

from __future__ import annotations

from control.dead_letters.collecting import Topics
from control.dead_letters.database import Database
from control.dead_letters.letters import Place, failed, unreadable
from control.dead_letters.reading import Reader
from control.dead_letters.showing import Facts
from control.dead_letters.terminal import visible
from schemas.settings import SettingsError


class NoSuchLetterError(Exception):
    """There is nothing at that place."""


def find_message(place: Place, topics: Topics, reader: Reader, database: Database) -> Facts:
    """An unreadable message; raises `SettingsError` for a place in another topic, and `NoSuchLetterError`."""
    own = topics.settings.dead_letters
    if place.topic != own:
        advice = "for a failed row give --job and --id"
        raise SettingsError("options", [f"REF names the topic {place.topic}, DEAD_LETTER_TOPIC is {own}; {advice}"])
    raw = next(reader.at([place]), None)
    if raw is None:
        raise NoSuchLetterError(f"there is no message at {place}, or it has expired")
    letter = unreadable(raw, topics.log(own, place.partition))
    return Facts(letter, None, (), database.line(letter.root, None, None), raw)


def find_row(row: tuple[str, str], topics: Topics, reader: Reader, database: Database, *, message: bool) -> Facts:
    """A row, failed or not, with its message if that is asked for; raises `NoSuchLetterError`."""
    found = database.row(*row)
    if found is None:
        raise NoSuchLetterError(f"there is no row of job {visible(row[0], 128)} with id {visible(row[1], 128)}")
    letter = failed(found, topics.names)
    raw = next(reader.at([letter.source]), None) if message and letter.source else None
    return Facts(letter, found, database.calls(*row), database.line("", *row), raw)
