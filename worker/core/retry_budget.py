"""How many of a worker's calls may be retries: a server that recovers is not trampled by those it failed before."""

from __future__ import annotations

from dataclasses import dataclass

# Retries leave at this share of the rate of all calls of late, but at least one a second, so that the last rows of a
# job are not stuck behind calls that will not come.
SHARE = 0.2
LEAST_A_SECOND = 1.0
_MEMORY_SECONDS = 20.0
# Saved up for a bad moment: so many retries, or those of so many seconds.
_SAVED = 10.0
_SAVED_SECONDS = 2.0


@dataclass(slots=True)
class RetryBudget:
    """Retries that may leave; `now` in seconds of the caller's clock. Those of an outage are not counted here."""

    tokens: float = _SAVED
    _rate: float = 0.0
    _at: float = 0.0

    def called(self, now: float) -> None:
        """A call has left, whether the first of its row or not."""
        self._pass(now)
        self._rate += 1.0 / _MEMORY_SECONDS

    def ready_at(self, now: float) -> float:
        """The instant at which one retry may leave."""
        self._pass(now)
        return now if self.tokens >= 1.0 else now + (1.0 - self.tokens) / self._a_second

    def take(self, now: float) -> bool:
        """Take one retry, if it may leave now."""
        if self.ready_at(now) > now:
            return False
        self.tokens -= 1.0
        return True

    def give_back(self) -> None:
        """A retry that was taken has not left."""
        self.tokens += 1.0

    @property
    def _a_second(self) -> float:
        return max(LEAST_A_SECOND, SHARE * self._rate)

    def _pass(self, now: float) -> None:
        seconds = now - self._at
        if seconds > 0:
            most = max(_SAVED, _SAVED_SECONDS * self._a_second)
            self.tokens = min(self.tokens + seconds * self._a_second, most)
            self._rate *= max(0.0, 1.0 - seconds / _MEMORY_SECONDS)
            self._at = now
