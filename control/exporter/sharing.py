"""One reading for all who ask: at most one set of queries at a time and in five seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from control.ends import ENDS
from control.exporter.figures import Figures

EVERY_SECONDS = 5.0
# Counting is not free where there are millions of rows: it takes at most a tenth of one connection's time.
_REST_SHARE = 9
_LONGEST_REST_SECONDS = 120.0
# Below the time-out of a scrape; a reading that takes longer is for those who come later.
_WAIT_SECONDS = 6.0
# So old may figures be that are shown while the next ones are being counted.
_OLDEST_SECONDS = 300.0


class Shared:
    """Gives the newest figures, or None when the database cannot be read; for any number of threads.

    `read` reads, `clock` gives seconds that never go back, `tell` is told when the database goes and comes back.
    """

    def __init__(self, read: Callable[[], Figures], clock: Callable[[], float], tell: Callable[[str], None]) -> None:
        self._read, self._clock, self._tell = read, clock, tell
        self._lock = threading.Lock()
        self._reading: Future[Figures | None] | None = None
        self._due = 0.0
        self._last: Figures | None = None
        self._read_at = 0.0
        self._trouble: str | None = None

    def latest(self) -> Figures | None:
        """Read if it is time; whoever comes while somebody reads waits for the same figures."""
        reading = self._current()
        wait([reading], _WAIT_SECONDS)
        if reading.done():
            return reading.result()
        return self._last if self._clock() - self._read_at < _OLDEST_SECONDS else None

    def _current(self) -> Future[Figures | None]:
        with self._lock:
            if self._reading is None or (self._reading.done() and self._clock() >= self._due):
                self._reading = Future()
                threading.Thread(target=self._fill, args=[self._reading], name="reading", daemon=True).start()
            return self._reading

    def _fill(self, reading: Future[Figures | None]) -> None:
        began = self._clock()
        found, trouble = self._try()
        now = self._clock()
        rest = min(_REST_SHARE * (now - began), _LONGEST_REST_SECONDS) if found else 0.0
        self._due = now + max(EVERY_SECONDS, rest)
        self._last, self._read_at = found, now
        self._note(trouble)
        reading.set_result(found)

    def _try(self) -> tuple[Figures | None, str | None]:
        try:
            return self._read(), None
        except Exception as error:
            end = ENDS.get(type(error))
            return None, end[1].format(error) if end else f"figures cannot be made: {type(error).__name__}"

    def _note(self, trouble: str | None) -> None:
        if trouble is None and self._trouble is not None:
            self._tell("database: it can be read again")
        if trouble is not None and trouble != self._trouble:
            self._tell(trouble)
        self._trouble = trouble
