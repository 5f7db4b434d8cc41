"""The links from letters to what was published in their place: rows of `headrace.replays`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

# A letter as its replays are recorded under it: log and offset.
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Link:
    """One replay of a letter; `status` is its row's since. Without `acknowledged_at` nobody knows if it left."""

    ancestor_log: str
    ancestor_offset: int
    run: str
    ancestor: str
    root: str
    kind: str
    reason: str | None
    job: str
    id: str
    topic: str
    partition: int | None
    log: str | None
    log_offset: int | None
    replayed_at: datetime
    acknowledged_at: datetime | None
    status: str | None

    @property
    def key(self) -> Key:
        """The letter that was replayed."""
        return self.ancestor_log, self.ancestor_offset

    @property
    def place(self) -> str | None:
        """Where the replay lies, once it was acknowledged."""
        return None if self.acknowledged_at is None else f"{self.topic}/{self.partition}/{self.log_offset}"


def is_done(links: Sequence[Link]) -> bool:
    """Tell whether a letter was replayed for sure."""
    return any(link.acknowledged_at is not None for link in links)


def mark(links: Sequence[Link]) -> str | None:
    """Say in a word or two what became of a letter: the status of its row since, if it was replayed."""
    if not links:
        return None
    return f"replayed: {links[-1].status or 'waits'}" if is_done(links) else "unconfirmed"


def unconfirmed_run(links: Sequence[Link]) -> str | None:
    """The run under which a letter may have been published, nobody knows; None if there is no such doubt."""
    open_ = [link.run for link in links if link.acknowledged_at is None]
    return None if is_done(links) or not open_ else open_[-1]
