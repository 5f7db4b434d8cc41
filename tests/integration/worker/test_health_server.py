"""Probes and scrapes over loopback: what they say, and that nobody who asks badly can hold them up."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from worker.health import Exposition, HealthServer


class State:
    dead: str | None = None
    unready: str | None = "kafka: not in the group yet"


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def server(state: State) -> Iterator[HealthServer]:
    registry = CollectorRegistry()
    Counter("headrace_things", "Things", registry=registry).inc()
    made = HealthServer(
        "127.0.0.1",
        0,
        registry,
        alive=lambda: state.dead,
        ready=lambda: state.unready,
    )
    made.start()
    yield made
    made.stop()


def ask(server: HealthServer, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def ended(connection: socket.socket) -> bool:
    """Whether the server has hung up."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_liveness_and_readiness_say_why_not(server: HealthServer, state: State) -> None:
    assert ask(server, "/healthz") == (200, "ok\n")
    assert ask(server, "/readyz") == (503, "kafka: not in the group yet\n")
    state.dead, state.unready = "the poll loop is stuck", None
    assert ask(server, "/healthz") == (503, "the poll loop is stuck\n")
    assert ask(server, "/readyz") == (200, "ok\n")


def test_metrics_are_there_and_a_query_does_not_matter(server: HealthServer) -> None:
    status, text = ask(server, "/metrics?name[]=x")
    assert status == 200
    assert "headrace_things_total 1.0" in text


@pytest.mark.parametrize("path", ["/", "/config", "/healthz/", "/../etc/passwd", "/metrics/x"])
def test_nothing_else_is_there(server: HealthServer, path: str) -> None:
    assert ask(server, path)[0] == 404


def test_only_reading_is_allowed(server: HealthServer) -> None:
    assert ask(server, "/healthz", "POST")[0] == 501


def test_it_listens_on_loopback_only_unless_told_otherwise(server: HealthServer) -> None:
    assert server.host == "127.0.0.1"


def test_a_taken_port_is_an_error(server: HealthServer) -> None:
    with pytest.raises(OSError, match="in use"):
        HealthServer("127.0.0.1", server.port, CollectorRegistry(), alive=lambda: None, ready=lambda: None)


def test_a_hundred_scrapers_at_once_get_answers_or_are_turned_away(server: HealthServer) -> None:
    def scrape(_: int) -> int:
        try:
            return ask(server, "/metrics")[0]
        except (OSError, http.client.HTTPException):
            return 0

    before = threading.active_count()
    with ThreadPoolExecutor(100) as pool:
        ends = list(pool.map(scrape, range(300)))
    assert set(ends) <= {200, 0}
    assert ends.count(200) >= 8
    assert ask(server, "/healthz")[0] == 200
    assert threading.active_count() <= before


def test_those_who_come_at_once_are_served_together(server: HealthServer) -> None:
    def switches() -> int:
        path = f"/proc/self/task/{server._thread.native_id}/status"
        lines = Path(path).read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt_switches")))

    def one_after_another(server: HealthServer) -> Iterator[socket.socket]:
        for _ in range(60):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            time.sleep(0.002)
            yield connection

    before = switches()
    with ExitStack() as stack:
        for connection in [stack.enter_context(one) for one in one_after_another(server)]:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
    # A few wake-ups for all of them, not one for each.
    assert switches() - before < 30


def test_those_who_connect_and_say_nothing_hold_nobody_up_and_are_hung_up_on(server: HealthServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=15) for _ in range(20)]
    assert ask(server, "/healthz")[0] == 200
    assert [connection.recv(1) for connection in silent] == [b""] * 20
    for connection in silent:
        connection.close()


def test_more_than_it_has_places_for_are_hung_up_on(server: HealthServer) -> None:
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=15)) for _ in range(200)
        ]
        silent[-1].settimeout(3)
        assert ended(silent[-1])
        silent[0].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[0].recv(1)


@pytest.mark.parametrize("line", ["GET /metrics HTTP/1.1\r\nX: " + "y" * 20_000, "\r\n\r\n", "nonsense\r\n\r\n"])
def test_what_is_no_request_gets_no_page(server: HealthServer, line: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as connection:
        connection.sendall(line.encode())
        try:
            said = connection.recv(100)
        except ConnectionResetError:
            said = b""
    assert said == b"" or said.startswith(b"HTTP/1.1 400 ")
    assert ask(server, "/healthz")[0] == 200


def test_a_request_may_come_in_pieces(server: HealthServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as connection:
        for piece in (b"GET /hea", b"lthz HTTP/1.1\r", b"\nHost: x\r\n\r", b"\n"):
            connection.sendall(piece)
            time.sleep(0.01)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_stop_frees_the_port(state: State) -> None:
    made = HealthServer("127.0.0.1", 0, CollectorRegistry(), alive=lambda: None, ready=lambda: None)
    made.start()
    assert ask(made, "/healthz")[0] == 200
    made.stop()
    HealthServer("127.0.0.1", made.port, CollectorRegistry(), alive=lambda: None, ready=lambda: None)._socket.close()


def test_a_check_that_breaks_takes_nothing_with_it(server: HealthServer, state: State) -> None:
    def broken() -> str:
        raise ValueError("tell-nobody")

    state.__class__ = type("Broken", (State,), {"dead": property(lambda _: broken())})
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(server, "/healthz")
    assert ask(server, "/metrics")[0] == 200


def test_however_many_ask_the_text_is_made_once_a_second() -> None:
    now = [100.0]
    registry = CollectorRegistry()
    things = Counter("headrace_things", "Things", registry=registry)
    exposition = Exposition(registry, lambda: now[0])
    first = exposition.page()
    things.inc()
    assert exposition.page() == first
    now[0] += 1.0
    assert b"headrace_things_total 1.0" in exposition.page().body
