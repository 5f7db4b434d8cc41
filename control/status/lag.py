"""How many messages of each partition the group has not committed."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from control.dead_letters.ranges import Ranges
from control.status.document import Lag
from control.topics import KafkaUnreachableError, TopicRefusedError, admin
from schemas.settings import KafkaSettings

_SECONDS = 10.0


class Lags:
    """Asks the brokers, by the same connection each time; raises `KafkaUnreachableError` and `SettingsError`."""

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self._servers = settings.bootstrap_servers
        # As nobody's member: librdkafka's admin client dies of a coordinator that has just moved.
        self._nobody = Ranges(settings, group)
        self._brokers = admin(settings)
        self._admin = self._brokers.client

    def of(self, topics: Iterable[str]) -> list[Lag]:
        """Look at these topics; one that is not there has no partitions."""
        try:
            return self._look(sorted(set(topics)))
        except KafkaException as error:
            raise KafkaUnreachableError(f"{self._servers}: {error.args[0].str()}") from None
        except TopicRefusedError as error:
            raise KafkaUnreachableError(f"{self._servers}: {error}") from None

    def _look(self, topics: list[str]) -> list[Lag]:
        known = self._brokers.topics(_SECONDS)
        places = [TopicPartition(t, p) for t in topics if t in known for p in sorted(known[t].partitions)]
        if not places:
            return []
        committed = self._committed(places)
        firsts = self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return [_lag(place, committed[place], firsts[place], ends[place]) for place in committed]

    def _committed(self, places: list[TopicPartition]) -> dict[tuple[str, int], int]:
        asked = self._nobody.consumer
        found = self._nobody.ask(places[0].topic, lambda: asked.committed(places, timeout=_SECONDS))
        return {(place.topic, place.partition): place.offset for place in found}

    def _offsets(self, places: list[TopicPartition], which: OffsetSpec) -> dict[tuple[str, int], int]:
        found = self._admin.list_offsets(dict.fromkeys(places, which), request_timeout=_SECONDS)
        return {(place.topic, place.partition): future.result().offset for place, future in found.items()}


def _lag(place: tuple[str, int], committed: int, first: int, end: int) -> Lag:
    """A group that has committed nothing begins with the first message that is still there."""
    at = committed if committed >= 0 else None
    behind = max(0, end - max(first, committed))
    return Lag(topic=place[0], partition=place[1], committed=at, end=end, lag=behind)
