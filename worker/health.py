"""`/metrics`, `/healthz` and `/readyz`, on threads of their own so that a slow reader cannot slow the work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

# Says what is wrong, or None.
Check = Callable[[], str | None]
_MOST_AT_ONCE = 8
_SOCKET_SECONDS = 5
# Rendering some hundred series takes a millisecond from the work: half a second serves everybody who asks meanwhile.
_RENDER_EVERY_SECONDS = 0.5


class HealthServer:
    """Answers probes and scrapes; port 0 takes a free one. Raises `OSError` when the port is taken."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry, *, alive: Check, ready: Check) -> None:
        pages = {
            "/metrics": Exposition(registry, time.monotonic).page,
            "/healthz": _verdict(alive),
            "/readyz": _verdict(ready),
        }
        self._server = _Server((host, port), _handler(pages))
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


Page = Callable[[], tuple[int, str, bytes]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._places = threading.BoundedSemaphore(_MOST_AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: object, client_address: object) -> None:
        """Answer on a thread, or hang up when too many are at it."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Give the place back whatever happens."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A scraper that hangs up is no event of ours."""


def _handler(pages: dict[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SOCKET_SECONDS

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            status, kind, content = page() if page else (404, "text/plain", b"not found\n")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Probes are not worth a line each."""

    return Handler


class Exposition:
    """All series as text, rendered anew when the last one is half a second old, however many ask.

    `clock` gives seconds that never go back. Threads may share it.
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._lock = threading.Lock()
        self._stale_at = float("-inf")
        self._text = b""

    def page(self) -> tuple[int, str, bytes]:
        """Status, content type and text."""
        with self._lock:
            if (now := self._clock()) >= self._stale_at:
                self._text = generate_latest(self._registry)
                self._stale_at = now + _RENDER_EVERY_SECONDS
            return 200, CONTENT_TYPE_LATEST, self._text


def _verdict(check: Check) -> Page:
    def page() -> tuple[int, str, bytes]:
        problem = check()
        return (503, "text/plain", f"{problem}\n".encode()) if problem else (200, "text/plain", b"ok\n")

    return page
