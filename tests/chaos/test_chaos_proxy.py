"""The proxy does what it is told, so that a scenario through it means what it says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from deploy.local import ports
from tests.chaos.proxy import HOST, Proxy
from tests.chaos.toxics import Toxics, Trap, commits_offsets
from tests.fleet import wait_for


class _Echo:
    """A server that answers each piece with itself, and keeps what it was sent."""

    def __init__(self) -> None:
        self.listener = socket.create_server((HOST, 0))
        self.port: int = self.listener.getsockname()[1]
        self.received = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65_536):
                    self.received += data
                    connection.sendall(data)
            except OSError:
                return


@pytest.fixture
def echo() -> Iterator[_Echo]:
    server = _Echo()
    yield server
    server.listener.close()


@pytest.fixture
def proxy(echo: _Echo) -> Iterator[Proxy]:
    made = Proxy(ports.choose(("proxy",), {})["proxy"])
    made.start(echo.port)
    yield made
    made.close()


def _dial(proxy: Proxy, timeout: float = 5) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=timeout)


def _ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(65_536)


def test_it_forwards_both_ways(proxy: Proxy) -> None:
    with _dial(proxy) as connection:
        assert _ask(connection, b"one") == b"one"
        assert _ask(connection, b"two") == b"two"


def test_down_cuts_and_refuses_until_up(proxy: Proxy) -> None:
    with _dial(proxy) as connection:
        assert _ask(connection, b"one") == b"one"
        proxy.down()
        with pytest.raises(ConnectionResetError):
            _ask(connection, b"two")
    with pytest.raises(ConnectionRefusedError):
        _dial(proxy)
    proxy.up()
    with _dial(proxy) as connection:
        assert _ask(connection, b"three") == b"three"


def test_reset_ends_connections_and_takes_new_ones(proxy: Proxy) -> None:
    with _dial(proxy) as connection:
        assert _ask(connection, b"one") == b"one"
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
    with _dial(proxy) as connection:
        assert _ask(connection, b"two") == b"two"


def test_a_stall_accepts_and_forwards_nothing_until_it_flows(proxy: Proxy, echo: _Echo) -> None:
    with _dial(proxy, 0.3) as connection:
        assert _ask(connection, b"one") == b"one"
        proxy.stall()
        with pytest.raises(TimeoutError):
            _ask(connection, b"two")
        with _dial(proxy, 0.3) as another, pytest.raises(TimeoutError):
            _ask(another, b"three")
        assert echo.received == b"one"
        proxy.flow()
        connection.settimeout(5)
        assert connection.recv(10) == b"two"


def test_latency_holds_back_each_way_and_bandwidth_each_byte(proxy: Proxy) -> None:
    with _dial(proxy) as connection:
        proxy.toxics = Toxics(latency=0.1)
        began = time.monotonic()
        _ask(connection, b"one")
        assert time.monotonic() - began >= 0.2
        proxy.toxics = Toxics(bytes_per_second=1000)
        began = time.monotonic()
        _ask(connection, b"x" * 200)
        assert time.monotonic() - began >= 0.4


def test_an_answer_is_cut_after_so_many_bytes(proxy: Proxy) -> None:
    proxy.toxics = Toxics(cut_after_bytes=5)
    with _dial(proxy) as connection:
        assert _ask(connection, b"five!") == b"five!"
        with pytest.raises(ConnectionResetError):
            _ask(connection, b"six")


def test_a_trap_lets_the_request_arrive_and_keeps_the_reply(proxy: Proxy, echo: _Echo) -> None:
    trap = proxy.set_trap(Trap(lambda data: b"COMMIT" in data, reply_ends=b"COMMIT"))
    with _dial(proxy) as connection:
        assert _ask(connection, b"BEGIN") == b"BEGIN"
        with pytest.raises(ConnectionResetError):
            _ask(connection, b"COMMIT")
    assert echo.received == b"BEGINCOMMIT"
    assert trap.sprung.is_set()
    with _dial(proxy) as connection:
        assert _ask(connection, b"COMMIT") == b"COMMIT", "a trap catches once"


def test_a_trap_may_keep_the_request_and_hold_the_connection(proxy: Proxy, echo: _Echo) -> None:
    trap = proxy.set_trap(Trap(lambda data: b"COMMIT" in data, keep="request", reset=False))
    with _dial(proxy, 0.3) as connection:
        with pytest.raises(TimeoutError):
            _ask(connection, b"COMMIT")
        assert trap.sprung.is_set()
        assert echo.received == b""
        proxy.heal()
        wait_for(lambda: _is_reset(connection), 5)


def test_a_commit_of_offsets_is_known_among_other_requests_of_kafka() -> None:
    def request(api_key: int, body: bytes) -> bytes:
        head = api_key.to_bytes(2, "big") + b"\x00\x07"
        return (len(head + body)).to_bytes(4, "big") + head + body

    fetch, commit = request(1, b"\x00\x08" * 9), request(8, b"group")
    assert commits_offsets(commit)
    assert commits_offsets(fetch + commit)
    assert not commits_offsets(fetch)
    assert not commits_offsets(fetch[:5])


def _is_reset(connection: socket.socket) -> bool:
    try:
        return connection.recv(10) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
