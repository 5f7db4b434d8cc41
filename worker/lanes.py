"""One queue a topic, taken from by weight; together bounded in messages and bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from worker.core.offsets import Partition
from worker.core.turns import Turns
from worker.ports import Taken

# A topic alone may fill all but this part, in which another topic's first messages find room.
_RESERVE = 1 / 4


@dataclass(slots=True)
class _Lane:
    items: deque[Taken] = field(default_factory=deque)
    bytes: int = 0


class Lanes:
    """Messages that wait to be taken, at most `messages` and about `nbytes`. Not safe for threads.

    Topics that wait at the same time have equal parts of the room. One that has filled its part is `full`, until
    half of that is free again.
    """

    def __init__(self, messages: int, nbytes: int) -> None:
        self._messages = messages
        self._most_bytes = nbytes
        self._lanes: dict[str, _Lane] = {}
        self._turns = Turns()
        self._full: set[str] = set()
        self._count = self._bytes = 0
        self.weights: Mapping[str, float] = {}

    @property
    def room(self) -> int:
        """How many more messages may come; a filled-up number of bytes leaves none."""
        return self._messages - self._count if self._bytes < self._most_bytes else 0

    @property
    def topics(self) -> Collection[str]:
        """The topics that have messages waiting."""
        return self._lanes.keys()

    @property
    def full(self) -> frozenset[str]:
        """The topics that are to bring nothing more for now."""
        share = self._share
        for topic, lane in self._lanes.items():
            filled = self._filled(lane)
            if filled >= share:
                self._full.add(topic)
            elif filled <= share / 2:
                self._full.discard(topic)
        return frozenset(self._full)

    @property
    def step(self) -> int:
        """How many messages may come at once so that no topic fills more than its part."""
        share, full = self._share, self._full
        lanes = [lane for topic, lane in self._lanes.items() if topic not in full]
        filled = max(map(self._filled, lanes), default=0.0)
        return max(1, min(self.room, int((share - filled) * self._messages)))

    def put(self, item: Taken) -> None:
        """Take one message in."""
        lane = self._lanes.setdefault(item.record.topic, _Lane())
        lane.items.append(item)
        self._grow(lane, 1, _size(item))

    def take(self, most: int, allowed: Callable[[str], int]) -> list[Taken]:
        """Give up to `most` messages, of each topic as many as are allowed."""
        left = {topic: count for topic in self._lanes if (count := allowed(topic)) > 0}
        taken: list[Taken] = []
        while left and len(taken) < most:
            topic = self._turns.next(left, self.weights)
            taken.append(self._pop(topic))
            left[topic] -= 1
            if left[topic] <= 0 or topic not in self._lanes:
                del left[topic]
        return taken

    def drop(self, partitions: Collection[Partition]) -> None:
        """Throw away the messages of these partitions."""
        for topic in {topic for topic, _ in partitions} & self._lanes.keys():
            lane = self._lanes[topic]
            gone = [item for item in lane.items if item.ticket.partition in partitions]
            lane.items = deque(item for item in lane.items if item.ticket.partition not in partitions)
            self._grow(lane, -len(gone), -sum(map(_size, gone)))
            self._tidy(topic)

    def _pop(self, topic: str) -> Taken:
        lane = self._lanes[topic]
        item = lane.items.popleft()
        self._grow(lane, -1, -_size(item))
        self._tidy(topic)
        return item

    def _grow(self, lane: _Lane, messages: int, nbytes: int) -> None:
        lane.bytes += nbytes
        self._count += messages
        self._bytes += nbytes

    def _tidy(self, topic: str) -> None:
        if not self._lanes[topic].items:
            del self._lanes[topic]
            self._full.discard(topic)

    def _filled(self, lane: _Lane) -> float:
        return max(len(lane.items) / self._messages, lane.bytes / self._most_bytes)

    @property
    def _share(self) -> float:
        return 1 / len(self._lanes) if len(self._lanes) > 1 else 1 - _RESERVE


def _size(item: Taken) -> int:
    return len(item.record.value or b"") + len(item.record.key or b"")
