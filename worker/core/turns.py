"""Whose turn it is: shares by weight among those who have something waiting (stride scheduling)."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class Turns:
    """Gives turns in proportion to weights.

    Each name stands at the virtual time at which it is due; a turn moves it on by the inverse of its weight. Whoever
    has been away comes back at the present and has saved up nothing, so nobody is starved by its return.
    """

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._now = 0.0

    def next(self, waiting: Collection[str], weights: Mapping[str, float]) -> str:
        """Give the next turn to one of those waiting; a weight that is not named is 1."""
        name = min(waiting, key=lambda one: (max(self._due.get(one, 0.0), self._now), one))
        self._now = max(self._due.get(name, 0.0), self._now)
        self._due[name] = self._now + 1.0 / weights.get(name, 1.0)
        if len(self._due) > 2 * len(waiting) + 16:
            self._due = {one: due for one, due in self._due.items() if one in waiting}
        return name
