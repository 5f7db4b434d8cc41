"""What one worker may spend of a run's budget: granted, reserved by calls that run, spent by those that ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from schemas.models import Price
from schemas.statuses import Billed
from worker.core.amounts import NOTHING, Amount
from worker.core.outcome import Outcome
from worker.core.rows import cost

# A worker wishes for what its calls take in so long; the fewer seconds, the less a dead one strands.
AHEAD_SECONDS = 5.0
# A purse from which nothing was taken for so long gives back what no call holds: others may lack it.
IDLE_SECONDS = 2.0
# A grant whose holder has not been heard of may be taken back after `SILENT_SECONDS`; the holder, by its own clock,
# spends nothing of it any more well before, and is heard of often enough.
SURE_SECONDS = 40.0
SILENT_SECONDS = 60.0
REPORT_SECONDS = 2.0
RENEW_SECONDS = 10.0
_SHORTEST_SECONDS = 0.1


def charge(outcome: Outcome, price: Price | None, reserve: Amount) -> Amount:
    """Give what an ended call counts for: what it says, nothing if it is not billed, else all it may have taken."""
    answer = outcome.answer
    if outcome.billed is Billed.NO:
        return NOTHING
    if answer is None or answer.prompt_tokens is None or answer.completion_tokens is None:
        return reserve
    known = cost(answer, price)
    return Amount(reserve.usd if known is None else known, answer.prompt_tokens + answer.completion_tokens)


@dataclass(frozen=True, slots=True)
class Limits:
    """Which of the two has a budget; the other is not counted."""

    usd: bool
    tokens: bool

    def of(self, amount: Amount) -> Amount:
        """What counts of an amount."""
        return Amount(amount.usd if self.usd else Decimal(0), amount.tokens if self.tokens else 0)


@dataclass(frozen=True, slots=True)
class Draw:
    """What a worker tells and asks of the fleet's store; `headrace.draw_budget` says what each is."""

    keeps: Amount
    spent: Amount
    reserved: Amount
    smallest: Amount
    largest: Amount
    wish: Amount
    stuck: bool


@dataclass(slots=True, eq=False)
class Purse:
    """A worker's part of one run's budget; `now` on the caller's clock.

    Of what is granted, calls that run hold their reserve. An ended call counts with what it cost; where that is more
    than its reserve the excess is owed, and the next grant makes up for it.
    """

    limits: Limits
    granted: Amount = NOTHING
    reserved: Amount = NOTHING
    spent: Amount = NOTHING
    running: int = 0
    _sure_until: float = float("-inf")
    _drawn_at: float = float("-inf")
    _taken_at: float = float("-inf")
    _taken: Amount = NOTHING
    _level: Amount = NOTHING
    _told: Amount = NOTHING
    _largest: Amount = NOTHING

    @property
    def free(self) -> Amount:
        """What no call holds; negative while something is owed."""
        return self.granted - self.reserved - self.spent

    @property
    def low(self) -> bool:
        """Whether less than half is left of what was free after the last draw."""
        free, level = self.free, self._level
        return free.usd * 2 < level.usd or free.tokens * 2 < level.tokens

    def has(self, counted: Amount, now: float) -> bool:
        """Whether so much of what counts is free now."""
        return now <= self._sure_until and self.free.covers(counted)

    def take(self, amount: Amount, now: float) -> Amount | None:
        """Reserve for a call, and give what is held for `settle`; None when there is too little."""
        held = self.limits.of(amount)
        if not self.has(held, now):
            return None
        self.reserved += held
        self.running += 1
        self._taken += held
        self._taken_at = now
        self._largest = held
        return held

    def settle(self, held: Amount, actual: Amount) -> None:
        """A call has ended: its reserve is free again, what it counts for is spent."""
        self.reserved -= held
        self.running -= 1
        self.spent += self.limits.of(actual)

    def close(self) -> None:
        """Nothing more will be taken: the next draw gives back what no call holds."""
        self._taken_at = float("-inf")

    def due(self, waiting: bool, now: float) -> bool:
        """Whether something is to be told or asked for now."""
        since, idle, free = now - self._drawn_at, self._idle(now), self.free
        if waiting or (idle and (free.usd > 0 or free.tokens > 0)) or (not idle and self.low):
            return True
        if self.spent != self._told:
            return since >= REPORT_SECONDS
        return self.granted != self.spent and since >= RENEW_SECONDS

    def draw(self, waiting: Sequence[Amount], now: float) -> Draw:
        """Say what is spent and what is wanted, for calls that wait and for those to come.

        What is not enough for any call that waits is given back, for another worker that may lack just that.
        """
        wanted = [self.limits.of(amount) for amount in waiting]
        stuck = bool(wanted) and not any(map(self.free.covers, wanted))
        if stuck or (not wanted and self._idle(now)):
            self.granted = self.granted.or_less(self.spent + self.reserved)
        wish = self._wish(wanted, now)
        self._taken, self._drawn_at = NOTHING, now
        return Draw(
            keeps=self.granted,
            spent=self.spent,
            reserved=self.reserved,
            smallest=min(wanted, key=lambda amount: (amount.usd, amount.tokens), default=NOTHING),
            largest=_largest([*wanted, self._largest] if wish != NOTHING else []),
            wish=wish,
            stuck=stuck and not self.running,
        )

    def drawn(self, granted: Amount, draw: Draw) -> None:
        """Take in what the store has granted for a draw."""
        self.granted = granted
        self._told = draw.spent
        self._sure_until = self._drawn_at + SURE_SECONDS
        self._level = self.free.or_more(NOTHING)

    def _idle(self, now: float) -> bool:
        return now - self._taken_at > IDLE_SECONDS

    def _wish(self, wanted: Sequence[Amount], now: float) -> Amount:
        if not wanted and self._idle(now):
            return NOTHING
        ahead = self._taken.times(AHEAD_SECONDS / max(now - self._drawn_at, _SHORTEST_SECONDS))
        return sum(wanted, NOTHING).or_more(ahead).or_more(self._largest)


def _largest(amounts: Sequence[Amount]) -> Amount:
    largest = NOTHING
    for amount in amounts:
        largest = largest.or_more(amount)
    return largest
