"""A limit that nobody told: found from the server's refusals, as answers in the time that a refusal spans."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# A pace is measured over the stretch from the end of the pause that taught the last one to the end of this one, and a
# shorter stretch is all chance.
MEASURED_SECONDS = 10.0
# A longer stretch has no pace that is worth keeping: its server is waited for.
LONGEST_SECONDS = 600.0
# A refusal says that the measured pace was just too much. Without one the pace grows: at first so slowly that the
# present limit is seldom met again, later faster and faster, since the limit may be another one by now.
EASED = 0.995
GROWTH_A_SECOND = 0.004
GROWTH_A_SECOND_SQUARED = 0.0004
# After so long without a refusal there is no limit to keep.
FORGOTTEN_SECONDS = 900.0
# A pace is kept by slots; one that nobody used may be caught up with for so long.
_CAUGHT_UP_SECONDS = 0.5
# A gap between answers that no refusal explains says that there was no work, or an outage: it is in no stretch.
_GAP_SECONDS = 5.0
# Answers are counted in buckets of this length.
_BUCKET_SECONDS = 0.1


@dataclass(slots=True)
class _Bucket:
    at: float
    answers: int = 0


@dataclass(slots=True)
class Pace:
    """The learned pace of one endpoint, in calls a second; None until it has refused. Times on the caller's clock."""

    rate: float | None = None
    _answers: deque[_Bucket] = field(default_factory=deque)
    _since: float | None = None
    _last: float = 0.0
    _paused_until: float = 0.0
    _refused_at: float = float("-inf")
    _set_at: float = 0.0
    _next: float = 0.0

    def answered(self, now: float) -> None:
        """Count an answer."""
        if self._since is None or now - max(self._since, self._last, self._paused_until) > _GAP_SECONDS:
            self._since = now
        self._last = now
        if not self._answers or now - self._answers[-1].at >= _BUCKET_SECONDS:
            self._answers.append(_Bucket(now))
            self._trim(now)
        self._answers[-1].answers += 1

    def refused(self, started: float, now: float, wait: float) -> None:
        """Learn from a refusal that asks to wait; a call that left before the last lesson says nothing new.

        One without a wait says nothing of a rate: the server may count calls at once.
        """
        since, until = self._since, now + wait
        self._paused_until = max(self._paused_until, until)
        if since is None or started <= self._refused_at or not wait > 0 or until - since < MEASURED_SECONDS:
            return
        count = sum(bucket.answers for bucket in self._answers if bucket.at >= since)
        if count and until - since <= LONGEST_SECONDS:
            self.rate, self._set_at = EASED * count / (until - since), until
        if count:
            self._refused_at, self._since = now, until

    def ready_at(self, now: float) -> float:
        """The instant at which the next call may leave."""
        rate = self._rate_at(now)
        return now if rate is None else max(now, self._next)

    def take(self, now: float) -> None:
        """A call leaves."""
        if (rate := self._rate_at(now)) is not None:
            self._next = max(self._next, now - _CAUGHT_UP_SECONDS) + 1.0 / rate

    def give_back(self, now: float) -> None:
        """The call has not left: its slot is the next one's."""
        if (rate := self._rate_at(now)) is not None:
            self._next -= 1.0 / rate

    def _rate_at(self, now: float) -> float | None:
        if self.rate is None or now - self._set_at > FORGOTTEN_SECONDS:
            return None
        age = max(0.0, now - self._set_at)
        return self.rate * (1.0 + GROWTH_A_SECOND * age + GROWTH_A_SECOND_SQUARED * age * age)

    def _trim(self, now: float) -> None:
        while now - self._answers[0].at > LONGEST_SECONDS:
            self._answers.popleft()
