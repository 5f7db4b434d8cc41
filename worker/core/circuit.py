"""Whether an endpoint is worth calling: opened by outages and by faults of the whole run, closed by a probe."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from worker.core.outcome import OUTAGE_KINDS, Kind, Outcome

# So many run-level answers within a minute, or so many failures in a row while nobody has been answered for a
# while, open the circuit.
RUN_FAULTS = 5
RUN_FAULT_WINDOW_SECONDS = 60.0
OUTAGE_FAILURES = 5
OUTAGE_QUIET_SECONDS = 5.0
FIRST_PROBE_SECONDS = 15.0
SLOWEST_PROBE_SECONDS = 60.0
# After a fault of the run nobody calls until the fleet has counted it. Without its word, one call leaves after this.
DOUBT_SECONDS = 2.0
_MOST_NEWS = 64


class Permit(StrEnum):
    """What an endpoint lets a caller do now."""

    GO = "go"
    PROBE = "probe"
    WAIT = "wait"


class News(StrEnum):
    """What the fleet has to hear of an endpoint."""

    FAULT = "fault"
    OPENED = "opened"
    CLOSED = "closed"


@dataclass(slots=True)
class Circuit:
    """State of one endpoint as one worker sees it; used from the event loop only, `now` in seconds of its clock.

    Faults of the run are the fleet's: with `shared`, it says when such a circuit opens and closes, and who may probe.
    An outage is this worker's own, since it may be its network that is broken.
    """

    opened_for: Outcome | None = None
    opened_at: float = 0.0
    paused_until: float = 0.0
    last_answer: float | None = None
    last_fault: Outcome | None = None
    shared: bool = False
    news: deque[News] = field(default_factory=lambda: deque(maxlen=_MOST_NEWS))
    _next_probe: float = 0.0
    _probe_wait: float = FIRST_PROBE_SECONDS
    _probing: bool = False
    _failures: int = 0
    _failing_since: float = 0.0
    _faults: deque[float] = field(default_factory=deque)
    _doubted_at: float | None = None
    _trusted: bool = False

    def permit(self, now: float) -> Permit:
        """Say whether a call may leave; a `PROBE` is given to one caller at a time, who must report its outcome."""
        if now < self.paused_until:
            return Permit.WAIT
        if self.opened_for is None:
            return Permit.GO if self._doubted_at is None else self._in_doubt(now)
        if self._probing or now < self._next_probe:
            return Permit.WAIT
        self._probing = True
        return Permit.PROBE

    def wakes_at(self, now: float) -> float:
        """The instant at which `permit` is worth asking again."""
        if now < self.paused_until:
            return self.paused_until
        if self.opened_for is None and self._doubted_at is not None:
            return max(now, self._doubted_at + DOUBT_SECONDS)
        return now + 1.0 if self._probing else max(self._next_probe, now)

    def pause(self, until: float) -> None:
        """Hold back everybody, as the server asked."""
        self.paused_until = max(self.paused_until, until)

    def saw(self, outcome: Outcome, now: float, *, started: float | None = None, probed: bool = False) -> None:
        """Learn from the end of a call; `probed` says that this call was the probe."""
        if probed:
            self._probing = False
        if outcome.kind is Kind.RUN_FAULT:
            self._fault(outcome, now)
        elif outcome.kind in OUTAGE_KINDS:
            self._failure(outcome, now)
        else:
            self._answer(now, now if started is None else started)
        if probed and self.opened_for:
            self._probe_wait = min(self._probe_wait * 2, SLOWEST_PROBE_SECONDS)

    def abandon_probe(self) -> None:
        """Give the probe back: its call was cancelled and says nothing."""
        self._probing = False

    def give_back(self, at: float) -> None:
        """The call that might leave at this instant has not: another one may."""
        if self._doubted_at == at:
            self._trusted = True

    def answered_since(self, then: float) -> bool:
        """Tell whether the endpoint has answered anybody after an instant."""
        return self.last_answer is not None and self.last_answer >= then

    def trust(self) -> None:
        """The fleet has counted the fault, and there are too few to open: one more call may leave."""
        self._trusted = self._doubted_at is not None

    def share(self, shared: bool, now: float) -> None:
        """Leave the probes to the fleet, or take them back: while the database is away each worker has its own."""
        if self.shared and not shared and self._is_the_fleets:
            self._next_probe = now + self._probe_wait
        self.shared = shared

    def may_probe(self, now: float) -> None:
        """The fleet gives this worker the next probe."""
        self._next_probe = now

    def follow(self, opened_for: Outcome | None, now: float) -> bool:
        """Take over the fleet's word on faults of the run, once it has heard ours; says whether that closes it."""
        if opened_for is not None:
            if self.opened_for is None:
                self._start_open(now)
                self._next_probe = float("inf")
            self.opened_for = opened_for
            return False
        closes = self._is_the_fleets
        if closes:
            self._close()
        return closes

    @property
    def _is_the_fleets(self) -> bool:
        return self.opened_for is not None and self.opened_for.kind is Kind.RUN_FAULT

    def _in_doubt(self, now: float) -> Permit:
        if self._trusted or self._doubted_at is None or now >= self._doubted_at + DOUBT_SECONDS:
            self._trusted, self._doubted_at = False, now
            return Permit.GO
        return Permit.WAIT

    def _answer(self, now: float, started: float) -> None:
        self.last_answer = now
        self._failures = 0
        if self._doubted_at is not None and started >= self._doubted_at:
            self._doubted_at = None
        if self.opened_for is None:
            return
        # A call that began before a key was revoked says nothing of the key; but who answers is no longer away.
        if started >= self.opened_at or not self._is_the_fleets:
            self._close()
            self.news.append(News.CLOSED)

    def _close(self) -> None:
        self.opened_for, self._doubted_at = None, None
        self._failures = 0
        self._probe_wait = FIRST_PROBE_SECONDS

    def _fault(self, outcome: Outcome, now: float) -> None:
        self._faults.append(now)
        while now - self._faults[0] > RUN_FAULT_WINDOW_SECONDS:
            self._faults.popleft()
        self._doubted_at, self._trusted = now, False
        self.last_fault = outcome
        if not self.opened_for:
            self.news.append(News.FAULT)
        if self.opened_for or len(self._faults) >= RUN_FAULTS:
            self._open(outcome, now)

    def _failure(self, outcome: Outcome, now: float) -> None:
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        quiet = now - max(self._failing_since, self.last_answer or 0.0) >= OUTAGE_QUIET_SECONDS
        if self.opened_for or (self._failures >= OUTAGE_FAILURES and quiet and outcome.retry_after is None):
            self._open(outcome, now)

    def _open(self, outcome: Outcome, now: float) -> None:
        if self.opened_for is None:
            self._start_open(now)
            self.news.append(News.OPENED)
        self.opened_for = outcome
        self._next_probe = float("inf") if self.shared and self._is_the_fleets else now + self._probe_wait

    def _start_open(self, now: float) -> None:
        self.opened_at = now
        self._probe_wait = FIRST_PROBE_SECONDS
        self._faults.clear()
