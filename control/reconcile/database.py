"""The results, asked for what they lack of the messages that were dealt with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from psycopg.rows import dict_row

from control.database import connect, translated
from control.dead_letters.letters import Place
from control.reconcile import statements
from schemas.message import Prompt
from schemas.settings import DatabaseSettings

_PLACES_AT_ONCE = 1_000


class Results:
    """One connection, for one reconciliation. Raises the errors of `control.database`."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._connection = connect(settings)
        self._rows(statements.MISSING)

    def close(self) -> None:
        """Hang up, and with that forget what is missing."""
        self._connection.close()

    def look(self, messages: Sequence[tuple[Place, str, Prompt]]) -> None:
        """Remember which of these messages, each with the name of its log, no row answers for."""
        self._rows(
            statements.LOOK,
            job=[prompt.job for _, _, prompt in messages],
            id=[prompt.id for _, _, prompt in messages],
            fingerprint=[prompt.fingerprint for _, _, prompt in messages],
            log=[log for _, log, _ in messages],
            topic=[place.topic for place, _, _ in messages],
            partition=[place.partition for place, _, _ in messages],
            log_offset=[place.offset for place, _, _ in messages],
            published_at=[prompt.published_at for _, _, prompt in messages],
        )

    def wait_for(self, messages: Sequence[tuple[Place, str, Prompt]]) -> None:
        """Forget rows of which another message waits unread."""
        prompts = [prompt for _, _, prompt in messages]
        self._rows(statements.WAITING, job=[p.job for p in prompts], id=[p.id for p in prompts])

    def missing(self) -> int:
        """Count the rows that are missing."""
        return int(self._rows(statements.COUNT)[0]["missing"])

    def ids(self, most: int) -> list[tuple[str, str]]:
        """Job and id of the first rows that are missing."""
        return [(row["job"], row["id"]) for row in self._rows(statements.IDS, most=most)]

    def places(self) -> Iterator[list[Place]]:
        """Where their messages lie, some at a time, in the order of the topics."""
        last = Place("", -1, -1)
        while found := self._rows(
            statements.PLACES,
            topic=last.topic,
            partition=last.partition,
            log_offset=last.offset,
            most=_PLACES_AT_ONCE,
        ):
            places = [Place(row["topic"], row["partition"], row["log_offset"]) for row in found]
            yield places
            last = places[-1]

    def _rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        with translated(), self._connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []
