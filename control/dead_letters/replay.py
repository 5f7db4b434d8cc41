"""Publishing dead letters again, each with a link to what it was made from.

The link of a letter is written before its message leaves, and completed with the message's place once that is
acknowledged. So nothing leaves unrecorded, and a crash between the two leaves a link without a place: whether its
message left, nobody knows. The next replay sends that letter again under the run that the link names, unless it finds
the message waiting in the topic. If both arrive, a worker answers the first and counts the second as a duplicate: it
asks nothing twice for one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from control.dead_letters.choosing import Case, Chooser, Told, Wish, batches
from control.dead_letters.collecting import Topics
from control.dead_letters.database import Database
from control.dead_letters.decisions import LeftAlone, asked_anew, linked
from control.dead_letters.letters import Letter
from control.dead_letters.reading import Reader
from control.dead_letters.sending import Outgoing, Sender
from schemas.statuses import LetterKind


@dataclass(slots=True)
class Tally:
    """What became of the letters: those sent, or that would be, by kind and reason; those left alone by why, too."""

    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    left: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    @property
    def matched(self) -> int:
        """All letters that were looked at."""
        return self.sent.total() + self.left.total()


class Replay:
    """One replay; without a sender it only counts. `told` hears of each letter that is left alone."""

    def __init__(self, topics: Topics, reader: Reader, database: Database, sender: Sender | None, told: Told) -> None:
        self._topics = topics
        self._database = database
        self._sender = sender
        self._told = told
        self._chooser = Chooser(topics, reader, database, self._leave)
        self.tally = Tally()

    def run(self, letters: Iterable[Letter], wish: Wish, now: Callable[[], datetime]) -> None:
        """Replay letters, a bounded number at a time; the tally is right even if this raises.

        Ends early at the limit, and after a batch that was not acknowledged whole.
        """
        for batch in batches(letters, wish.limit):
            room = None if wish.limit is None else wish.limit - self.tally.sent.total()
            chosen = self._chooser.choose(batch, wish)[:room]
            if self._sender is not None and chosen:
                self._publish(chosen, now(), self._sender)
            else:
                self._count(chosen)
            short = self._sender is not None and self._sender.acknowledged < self._sender.sent
            if short or self.tally.sent.total() == wish.limit:
                return

    def _publish(self, cases: Sequence[Case], now: datetime, sender: Sender) -> None:
        prepared = [(case, *linked(case.letter, case.message[0])) for case in cases]
        self._database.begin([_link(case, root) for case, _, root in prepared])
        self._count(cases)
        places: list[dict[str, Any]] = []
        for case, headers, _ in prepared:
            raw, _ = case.message
            message = Outgoing(case.topic, raw.key, _value(case, now), headers)
            sender.send(message, lambda *place, case=case: places.append(self._place(case, *place)))
        sender.flush()
        self._database.acknowledge(places)

    def _place(self, case: Case, partition: int, offset: int) -> dict[str, Any]:
        log = self._topics.log(case.topic, partition)
        return {**_key(case), "partition": partition, "log": log, "log_offset": offset}

    def _count(self, cases: Iterable[Case]) -> None:
        self.tally.sent.update((case.letter.kind, case.letter.reason or "") for case in cases)

    def _leave(self, letter: Letter, alone: LeftAlone) -> None:
        self.tally.left[letter.kind, alone.why, alone.detail or letter.reason or ""] += 1
        self._told(letter, alone)


def _key(case: Case) -> dict[str, Any]:
    log, offset = case.letter.key
    return {"ancestor_log": log, "ancestor_offset": offset, "run": case.run}


def _link(case: Case, root: str) -> dict[str, Any]:
    job, id_ = case.row
    letter = case.letter
    told = {"ancestor": letter.ref, "root": root, "kind": letter.kind, "reason": letter.reason}
    return {**_key(case), **told, "job": job, "id": id_, "topic": case.topic}


def _value(case: Case, now: datetime) -> bytes:
    """A failed row's message is one of a new run; an unreadable one goes as it came."""
    value = case.message[0].value or b""
    return asked_anew(value, case.run, now) if case.letter.kind is LetterKind.FAILED else value
