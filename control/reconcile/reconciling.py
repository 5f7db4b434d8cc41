"""The reconciliation: every message that the workers have dealt with, against the row or dead letter it became."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from control.dead_letters.letters import Place, Raw
from control.dead_letters.ranges import Partition
from control.dead_letters.reading import Reader
from control.dead_letters.sending import Outgoing, Sender
from control.reconcile.database import Results
from control.reconcile.log import Log, Stretch
from schemas.dead_letters import ERRORS_PREFIX
from schemas.message import Prompt, decode

_AT_ONCE = 2_000
Message = tuple[Place, str, Prompt]


@dataclass(slots=True)
class Account:
    """What was found; ids are the first of the missing ones, as job and id."""

    checked: int = 0
    unread: int = 0
    expired_unread: int = 0
    unreadable: int = 0
    letters_missing: int = 0
    missing: int = 0
    republished: int = 0
    ids: list[tuple[str, str]] = field(default_factory=list)

    @property
    def adds_up(self) -> bool:
        """Whether nothing is missing, or all that was is on its way again."""
        return not (self.expired_unread or self.letters_missing or self.missing > self.republished)


@dataclass(slots=True)
class Reconciliation:
    """One run over some topics; `job` limits it to the messages of that job."""

    log: Log
    reader: Reader
    results: Results
    dead_letters: str
    job: str | None
    account: Account = field(default_factory=Account)
    _unreadable: set[Place] = field(default_factory=set)

    def run(self, topics: list[str], most_ids: int) -> Account:
        """Compare: results are asked after the offsets, so that work under way is no gap."""
        stretches = self.log.stretches(topics)
        names = self.reader.ids(topics)
        self.account.expired_unread = sum(stretch.expired for stretch in stretches.values())
        self.account.unread = sum(end - start for start, end in (s.unread for s in stretches.values()))
        for batch in self._batches({p: s.read for p, s in stretches.items()}, names, count=True):
            self.results.look(batch)
        if self.results.missing():
            self._pass_over_waiting(stretches, names)
        self._find_letters()
        self.account.missing, self.account.ids = self.results.missing(), self.results.ids(most_ids)
        return self.account

    def republish(self, sender: Sender) -> None:
        """Publish what is missing again, each message as it stands in its topic."""
        for places in self.results.places():
            for raw in self.reader.at(places):
                sender.send(Outgoing(raw.place.topic, raw.key, raw.value or b"", raw.headers), _told)
            sender.flush()
        self.account.republished = sender.acknowledged

    def _pass_over_waiting(self, stretches: Mapping[Partition, Stretch], names: Mapping[str, str]) -> None:
        for batch in self._batches({p: s.unread for p, s in stretches.items()}, names, count=False):
            self.results.wait_for(batch)

    def _batches(
        self, ranges: dict[Partition, tuple[int, int]], names: Mapping[str, str], *, count: bool
    ) -> Iterator[list[Message]]:
        messages = self._messages(self.log.messages(ranges), names, count=count)
        while batch := list(islice(messages, _AT_ONCE)):
            yield batch

    def _messages(self, raws: Iterable[Raw], names: Mapping[str, str], *, count: bool) -> Iterator[Message]:
        for raw in raws:
            if raw.value is None:
                continue
            prompt = decode(raw.key, raw.value)
            if isinstance(prompt, Prompt):
                if self.job in (None, prompt.job):
                    self.account.checked += count
                    yield raw.place, f"{names.get(raw.place.topic, raw.place.topic)}/{raw.place.partition}", prompt
            elif count:
                self._unreadable.add(raw.place)

    def _find_letters(self) -> None:
        """Strike off unreadable messages that have become dead letters."""
        self.account.unreadable = len(self._unreadable)
        if self._unreadable and self.dead_letters in self.reader.topics:
            for raw in self.reader.letters(self.dead_letters):
                self._unreadable.discard(_source(raw))
        self.account.letters_missing = len(self._unreadable)


def _source(raw: Raw) -> Place:
    """Where a dead letter came from; a place that cannot be if it does not say."""
    told = {name.removeprefix(ERRORS_PREFIX): (value or b"").decode(errors="replace") for name, value in raw.headers}
    written = "/".join(told.get(name, "") for name in ("topic", "partition", "offset"))
    return Place.parse(written) or Place("", -1, -1)


def _told(_partition: int, _offset: int) -> None:
    """The sender counts for itself."""
