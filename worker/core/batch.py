"""When a batch of finished rows is due."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchRule:
    """A batch is due when it holds `rows`, or when its oldest row has waited `seconds`."""

    rows: int = 500
    seconds: float = 0.05

    def wait(self, held: int, oldest_age: float) -> float:
        """Seconds until the batch is due; 0 means now."""
        if held >= self.rows:
            return 0.0
        return max(0.0, self.seconds - oldest_age)
