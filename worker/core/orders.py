"""What operators have ordered for jobs: whose prompts wait, whose end without a call, who gets how much."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.statuses import JobState

# A priority is the logarithm of a weight: one more is twice the share. Beyond these the weight grows no further, so
# that the lowest still gets a message in about a thousand.
_LOWEST, _HIGHEST = -5, 5


class Word(StrEnum):
    """What is to become of a prompt."""

    GO = "go"
    # Nobody asks it, and its message stays to be read again.
    WAIT = "wait"
    # It ends as failed/cancelled without a call.
    END = "end"


@dataclass(frozen=True, slots=True)
class RunState:
    """One run as it stands in the table of jobs; `ended_at` is when it was cancelled."""

    job: str
    run: str
    state: JobState
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TopicState:
    """The open runs of one topic taken together: whether all of them are paused, the priority of the newest."""

    topic: str
    paused: bool
    priority: int = 0


class Orders:
    """All orders at one instant.

    A message obeys the run that it names. One that names none, or a run that nobody has recorded, obeys the run
    called "" of its job, which an order for the whole job writes: such a message waits while that run is paused, and
    ends if it was published before that run was cancelled. `shared` are topics that belong to no job, which are
    never parked.
    """

    def __init__(
        self, runs: Iterable[RunState] = (), topics: Iterable[TopicState] = (), shared: Collection[str] = ()
    ) -> None:
        self._runs = {(run.job, run.run): run for run in runs}
        known = tuple(topics)
        self.parked = frozenset(topic.topic for topic in known if topic.paused) - frozenset(shared)
        self.weights = {topic.topic: weight(topic.priority) for topic in known}

    def word(self, job: str, run: str | None, published_at: datetime | None) -> Word:
        """Say what is to become of one prompt."""
        if run and (named := self._runs.get((job, run))):
            return _WORDS.get(named.state, Word.GO)
        whole = self._runs.get((job, ""))
        if whole is None:
            return Word.GO
        if whole.ended_at is not None and published_at is not None and published_at <= whole.ended_at:
            return Word.END
        return Word.WAIT if whole.state is JobState.PAUSED else Word.GO


_WORDS = {JobState.PAUSED: Word.WAIT, JobState.CANCELLED: Word.END}


def weight(priority: int) -> float:
    """Turn a priority into a weight: 2 to its power, so that 0 is 1, between -5 and 5."""
    return float(2.0 ** min(max(priority, _LOWEST), _HIGHEST))
