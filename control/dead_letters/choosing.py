"""Which letters of a batch may be published again: each question in turn, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from control.dead_letters.collecting import Topics
from control.dead_letters.database import Database
from control.dead_letters.decisions import LeftAlone, Why, judge, read, target, waiting
from control.dead_letters.letters import Letter, Raw
from control.dead_letters.links import is_done, unconfirmed_run
from control.dead_letters.reading import Reader
from schemas.message import Prompt

# Each batch looks through what waits unread, which grows by what is replayed: few batches are better than many.
_LETTERS_AT_ONCE = 5_000
_BYTES_AT_ONCE = 16 * 1024 * 1024
Told = Callable[[Letter, LeftAlone], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """How to replay: under which run, letters that were replayed before too or not, and how many at most."""

    run: str
    again: bool = False
    limit: int | None = None


@dataclass(slots=True, repr=False)
class Case:
    """One letter on its way back; `run` is the run it goes under."""

    letter: Letter
    run: str
    topic: str = ""
    raw: Raw | None = None
    prompt: Prompt | None = None

    @property
    def message(self) -> tuple[Raw, Prompt]:
        """Its message, as bytes and as it reads, once it has been read."""
        assert self.raw is not None
        assert self.prompt is not None
        return self.raw, self.prompt

    @property
    def row(self) -> tuple[str, str]:
        """The row that it is about, once it has been read."""
        _, prompt = self.message
        return prompt.job, prompt.id


class Chooser:
    """Asks Kafka and Postgres what the decisions need; `told` hears of each letter that is left alone."""

    def __init__(self, topics: Topics, reader: Reader, database: Database, told: Told) -> None:
        self._topics = topics
        self._reader = reader
        self._database = database
        self._told = told

    def choose(self, letters: Sequence[Letter], wish: Wish) -> list[Case]:
        """Those of a batch that may be sent, in their order."""
        cases = self._not_replayed(letters, wish)
        for keep in (self._aimed, self._readable, self._standing, self._not_waiting):
            cases = keep(cases)
        return cases

    def _not_replayed(self, letters: Sequence[Letter], wish: Wish) -> list[Case]:
        links = self._database.replays_of(letter.key for letter in letters)
        cases = []
        for letter in letters:
            known = links.get(letter.key, [])
            if is_done(known) and not wish.again:
                self._told(letter, LeftAlone(Why.REPLAYED))
            else:
                cases.append(Case(letter, unconfirmed_run(known) or wish.run))
        return cases

    def _aimed(self, cases: list[Case]) -> list[Case]:
        def aim(case: Case) -> LeftAlone | None:
            found = target(case.letter, self._topics.settings.prompts, self._reader.topics)
            if isinstance(found, LeftAlone):
                return found
            case.topic = found
            return None

        return self._kept(cases, aim)

    def _readable(self, cases: list[Case]) -> list[Case]:
        rows = [case.letter.source for case in cases if case.letter.raw is None]
        found = {raw.place: raw for raw in self._reader.at(place for place in rows if place)}

        def look(case: Case) -> LeftAlone | None:
            case.raw = case.letter.raw or found.get(case.letter.source)  # type: ignore[arg-type]
            prompt = read(case.letter, case.raw)
            if isinstance(prompt, LeftAlone):
                return prompt
            case.prompt = prompt
            return None

        return self._kept(cases, look)

    def _standing(self, cases: list[Case]) -> list[Case]:
        standings = self._database.standings(case.row for case in cases)

        def stands(case: Case) -> LeftAlone | None:
            _, prompt = case.message
            source = case.letter.source
            log = self._topics.log(source.topic, source.partition) if source else ""
            return judge(case.letter, prompt, standings.get(case.row), log)

        return self._kept(cases, stands)

    def _not_waiting(self, cases: list[Case]) -> list[Case]:
        later: set[tuple[str, str]] = set()
        for topic in {case.topic for case in cases}:
            sources = {case.row: case.letter.source for case in cases if case.topic == topic}
            later |= waiting(sources, self._reader.unread(topic))
        return self._kept(cases, lambda case: LeftAlone(Why.WAITING) if case.row in later else None)

    def _kept(self, cases: list[Case], left: Callable[[Case], LeftAlone | None]) -> list[Case]:
        kept = []
        for case in cases:
            alone = left(case)
            if alone is None:
                kept.append(case)
            else:
                self._told(case.letter, alone)
        return kept


def batches(letters: Iterable[Letter], limit: int | None = None) -> Iterator[list[Letter]]:
    """Cut letters into batches that fit into memory, by number and by size, and no larger than what is wanted."""
    most = min(limit or _LETTERS_AT_ONCE, _LETTERS_AT_ONCE)
    batch: list[Letter] = []
    size = 0
    for letter in letters:
        batch.append(letter)
        size += letter.size
        if len(batch) >= most or size >= _BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
