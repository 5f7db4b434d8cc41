"""What `/metrics`, `/healthz` and `/readyz` say."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from worker.http_connection import TEXT, Answer, Page
from worker.http_server import HttpServer

# Says what is wrong, or None.
Check = Callable[[], str | None]
# Rendering some hundred series takes milliseconds from the work: a text serves all who ask within a second.
_RENDER_EVERY_SECONDS = 1.0


class HealthServer(HttpServer):
    """Answers probes and scrapes; port 0 takes a free one. Raises `OSError` when the port is taken."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry, *, alive: Check, ready: Check) -> None:
        pages = {
            "/metrics": Exposition(registry, time.monotonic).page,
            "/healthz": _verdict(alive),
            "/readyz": _verdict(ready),
        }
        super().__init__(host, port, pages)


class Exposition:
    """All series as text, rendered anew when the last one is a second old, however many ask.

    `clock` gives seconds that never go back. For one thread.
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._stale_at = float("-inf")

    def page(self) -> Answer:
        """The text."""
        if (now := self._clock()) >= self._stale_at:
            self._answer = Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry))
            self._stale_at = now + _RENDER_EVERY_SECONDS
        return self._answer


def _verdict(check: Check) -> Page:
    def page() -> Answer:
        problem = check()
        if problem:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, TEXT, f"{problem}\n".encode())
        return Answer(HTTPStatus.OK, TEXT, b"ok\n")

    return page
