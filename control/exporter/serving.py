"""`/metrics` and `/healthz` over HTTP."""

from __future__ import annotations

import socket
import socketserver
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TypeAlias, cast

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

# Content type and body.
_Page: TypeAlias = Callable[[], tuple[str, bytes]]
_TEXT = "text/plain; charset=utf-8"


class Server(socketserver.ThreadingTCPServer):
    """Answers scrapes and probes; port 0 takes a free one. Raises `OSError` when it cannot listen there."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, collect: Callable[[], Iterable[Metric]]) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(collect))
        self.pages: dict[str, _Page] = {
            "/metrics": lambda: (CONTENT_TYPE_LATEST, generate_latest(registry)),
            # Alive is who answers: a database that is away is no reason to begin anew.
            "/healthz": lambda: (_TEXT, b"ok\n"),
        }
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Exchange)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Let those go who hang up while they are answered."""


class _Collector(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


class _Exchange(BaseHTTPRequestHandler):
    # Seconds for a request, and for the answer to be taken.
    timeout = 5

    def do_GET(self) -> None:
        page = cast(Server, self.server).pages.get(self.path.partition("?")[0])
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, b"there are /metrics and /healthz\n")
        else:
            self._answer(HTTPStatus.OK, *page())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: a line for each scrape tells nobody anything."""

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
