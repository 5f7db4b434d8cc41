"""When a batch of finished rows is due."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchRule:
    """A batch is due when it holds `rows`, or `seconds` after the last one began; times in seconds.

    What comes after a quiet time waits only for its neighbours, `gather`: each answer that is not written yet is one
    that a crash would pay for twice.
    """

    rows: int = 500
    seconds: float = 0.05
    gather: float = 0.005

    def wait(self, held: int, oldest_age: float, since_last: float) -> float:
        """Seconds until the batch is due; 0 means now. `since_last` counts from the start of the last write."""
        if held >= self.rows:
            return 0.0
        return max(0.0, self.gather - oldest_age, self.seconds - max(oldest_age, since_last))
