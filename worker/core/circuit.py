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


class Permit(StrEnum):
    """What an endpoint lets a caller do now."""

    GO = "go"
    PROBE = "probe"
    WAIT = "wait"


@dataclass(slots=True)
class Circuit:
    """State of one endpoint as one worker sees it; used from the event loop only, `now` in seconds of its clock."""

    opened_for: Outcome | None = None
    opened_at: float = 0.0
    paused_until: float = 0.0
    last_answer: float | None = None
    _next_probe: float = 0.0
    _probe_wait: float = FIRST_PROBE_SECONDS
    _probing: bool = False
    _failures: int = 0
    _failing_since: float = 0.0
    _faults: deque[float] = field(default_factory=deque)

    def permit(self, now: float) -> Permit:
        """Say whether a call may leave; a `PROBE` is given to one caller at a time, who must report its outcome."""
        if now < self.paused_until:
            return Permit.WAIT
        if self.opened_for is None:
            return Permit.GO
        if self._probing or now < self._next_probe:
            return Permit.WAIT
        self._probing = True
        return Permit.PROBE

    def wakes_at(self, now: float) -> float:
        """The instant at which `permit` is worth asking again."""
        if now < self.paused_until:
            return self.paused_until
        return now + 1.0 if self._probing else max(self._next_probe, now)

    def pause(self, until: float) -> None:
        """Hold back everybody, as the server asked."""
        self.paused_until = max(self.paused_until, until)

    def saw(self, outcome: Outcome, now: float, *, probed: bool = False) -> None:
        """Learn from the end of a call; `probed` says that this call was the probe."""
        if probed:
            self._probing = False
        if outcome.kind is Kind.RUN_FAULT:
            self._fault(outcome, now)
        elif outcome.kind in OUTAGE_KINDS:
            self._failure(outcome, now)
        else:
            self._answer(now)
        if probed and self.opened_for:
            self._probe_wait = min(self._probe_wait * 2, SLOWEST_PROBE_SECONDS)

    def abandon_probe(self) -> None:
        """Give the probe back: its call was cancelled and says nothing."""
        self._probing = False

    def answered_since(self, then: float) -> bool:
        """Tell whether the endpoint has answered anybody after an instant."""
        return self.last_answer is not None and self.last_answer >= then

    def _answer(self, now: float) -> None:
        self.last_answer = now
        self.opened_for = None
        self._failures = 0
        self._probe_wait = FIRST_PROBE_SECONDS

    def _fault(self, outcome: Outcome, now: float) -> None:
        self._faults.append(now)
        while now - self._faults[0] > RUN_FAULT_WINDOW_SECONDS:
            self._faults.popleft()
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
            self.opened_at = now
            self._probe_wait = FIRST_PROBE_SECONDS
            self._faults.clear()
        self.opened_for = outcome
        self._next_probe = now + self._probe_wait
