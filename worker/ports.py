"""What the main path needs of the world, and the small values that pass through."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from schemas.message import Prompt, Unreadable
from worker.core.claims import Claim
from worker.core.offsets import Partition, Ticket
from worker.core.orders import Word
from worker.core.outcome import Outcome
from worker.core.reply import Broken, Reply
from worker.core.rows import AttemptRow, FinishedRow


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """One message as the log holds it; `log` names what its offset counts in, a re-created topic being another."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: datetime | None = None
    log: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Taken:
    """A record in our hands, and the ticket that lets its offset be committed."""

    record: Record
    ticket: Ticket


@dataclass(slots=True, repr=False, eq=False)
class Work:
    """One prompt on its way; the tickets of its duplicates travel with it.

    `twins` are duplicates by other runs, which share its answer but not its withdrawal; `word` is what the orders
    say of it. `fenced` says that another claim is known to have come between, so that no further call is worth its
    price; until `sure_until`, on the event loop's clock, none can have come between.
    """

    prompt: Prompt
    record: Record
    tickets: list[Ticket]
    alias: str
    claim: Claim | None = None
    fenced: bool = False
    sure_until: float = float("inf")
    word: Word = Word.GO
    twins: list[Work] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str]:
        """What answers are keyed on."""
        return self.prompt.job, self.prompt.id

    @property
    def published_at(self) -> datetime | None:
        """When the message was published: in its own words, else in the log's."""
        return self.prompt.published_at or self.record.timestamp

    def is_older_than(self, other: Work) -> bool:
        """Whether this is the earlier version of a row: the offset's word within one log, the time's between two."""
        if self.record.log == other.record.log:
            return self.record.offset < other.record.offset
        mine, theirs = self.published_at, other.published_at
        return mine is not None and theirs is not None and mine < theirs


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """One call to make."""

    id: str
    attempt: int
    idempotency_key: str
    model: str
    messages: Sequence[Mapping[str, Any]]
    params: Mapping[str, Any] = field(default_factory=dict)
    response_format: Mapping[str, Any] | None = None


def any_number(_topic: str) -> int:
    """Allow as many messages of each topic as there are."""
    return sys.maxsize


class Source(Protocol):
    """Where messages come from; commits only what is finished without a gap."""

    async def take(self, most: int, allowed: Callable[[str], int] = any_number) -> list[Taken]:
        """Wait for at least one message and return up to `most`, of each topic as many as are allowed.

        Returns nothing once the source was stopped, or as soon as `look` is called.
        """

    def look(self) -> None:
        """Let a taker that waits ask again for what it is allowed now."""

    @property
    def waiting(self) -> Collection[str]:
        """The topics that have messages ready to be taken."""

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Give topics that wait at the same time turns by these weights; one that is not named has 1."""

    def park(self, topics: Collection[str]) -> None:
        """Give out nothing of these topics until they are no longer named; tickets of theirs change nothing more.

        Whatever of them was not committed is read again then.
        """

    def pass_over(self, ticket: Ticket) -> None:
        """Leave a message for later: nothing from it on is committed until its topic is read again."""

    def reread(self, topics: Collection[str]) -> None:
        """Read these topics again from where they are committed; their present tickets change nothing more."""

    def stop(self) -> None:
        """Take no more messages."""

    def done(self, ticket: Ticket) -> None:
        """A message is durably finished: its offset may be committed."""

    def owns(self, ticket: Ticket) -> bool:
        """Whether this ticket's partition is still ours."""


class SourceEvents(Protocol):
    """Who is told, from the consumer's thread, what happens to partitions."""

    def rebalanced(self, what: str, partitions: Iterable[Partition]) -> None:
        """Partitions were assigned, revoked or lost."""

    def skipped(self, partition: Partition, expected: int, found: int) -> None:
        """The log no longer holds the committed offset: messages have expired unread, or the topic is another one."""

    def commit_failed(self, code: str) -> None:
        """A commit was refused; it will be tried again."""


class Logs(Protocol):
    """Who can tell a topic from an earlier one of the same name."""

    def learn(self, topics: Iterable[str]) -> None:
        """Look these topics up."""

    def log_name(self, topic: str, partition: int) -> str:
        """Name what a partition's offsets count in."""


class Store(Protocol):
    """Where claims and answers are kept. Every method raises `StoreUnavailableError`
    or `StoreRefusedError`."""

    async def claim(self, works: Sequence[Work]) -> list[Claim]:
        """Claim in one transaction what a poll brought; answers in the same order. Keys are distinct."""

    async def finish(self, rows: Sequence[FinishedRow], attempts: Sequence[AttemptRow]) -> list[bool]:
        """Write ends and ledger lines in one transaction; False for a row whose claim another owner holds now."""

    async def renew(self, works: Sequence[Work]) -> list[bool]:
        """Prolong the leases of these claims; False where another claim has come between or the row has ended."""

    async def release(self, works: Sequence[Work]) -> None:
        """Give claims back whose call is not running, so that the next owner need not wait for the lease."""


class Recorder(Protocol):
    """Who makes calls and ends durable; the futures end when they are."""

    def note(self, attempt: AttemptRow) -> asyncio.Future[bool]:
        """Keep a ledger line."""

    def write(self, row: FinishedRow, attempt: AttemptRow | None) -> asyncio.Future[bool]:
        """Keep an end with the ledger line of its last call; False when another owner holds the claim by then."""


class Endpoint(Protocol):
    """One server that answers prompts."""

    async def ask(self, request: Request) -> Reply | Broken:
        """Make one call; never raises for what the server or the network does."""

    async def leads_nowhere(self) -> bool:
        """Whether the address itself is wrong: nothing lists its models there."""


class DeadLetters(Protocol):
    """Where unreadable messages go."""

    async def put(self, record: Record, unreadable: Unreadable) -> bool:
        """Publish one and wait for its delivery; False if it was not delivered."""


class Telemetry(Protocol):
    """Who is told of everything and asked for nothing."""

    def message(self, outcome: str, job: str) -> None:
        """A message has ended."""

    def call(self, alias: str, endpoint: str, outcome: Outcome, seconds: float) -> None:
        """A call has ended."""

    def paused(self, endpoint: str, seconds: float) -> None:
        """A server has asked to be left alone for so much longer."""

    def lost_call(self) -> None:
        """A former owner may have made a call that nobody has seen the end of."""

    def retry(self, reason: str) -> None:
        """A row will be asked again."""

    def dead_letter(self, reason: str) -> None:
        """A message went to the dead-letter topic."""

    def wrote(self, rows: int, seconds: float) -> None:
        """A batch is durable."""
