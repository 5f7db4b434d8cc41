"""What a claim tells the worker to do with a message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Verdict(StrEnum):
    """The store's word on one message, in one atomic statement."""

    # Ours to ask now.
    NEW = "new"
    NEWER = "newer"
    AGAIN = "again"
    RELEASED = "released"
    LOST = "lost"
    # Not to be asked.
    DONE = "done"
    SUPERSEDED = "superseded"
    CRASHED = "crashed"
    # This worker's own claim: in hand, or made by a statement whose end it never learned.
    HELD = "held"
    # Another owner is asking: come back later.
    LIVE = "live"


OURS = frozenset({Verdict.NEW, Verdict.NEWER, Verdict.AGAIN, Verdict.RELEASED, Verdict.LOST})


@dataclass(frozen=True, slots=True)
class Claim:
    """The store's answer for one message.

    `fence` names this claim among all claims of the row, and only its holder may write; `attempts` is the highest
    number a call of this row has had so far; `lost` says that a former owner's call was recorded as maybe billed.
    """

    verdict: Verdict
    fence: int = 0
    claimed_at: datetime | None = None
    attempts: int = 0
    lost: bool = False

    @property
    def ours(self) -> bool:
        """Whether the holder is to ask."""
        return self.verdict in OURS
