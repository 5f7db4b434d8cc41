"""Connections to the health server that stay open, over real sockets: who may keep one, and who is hung up on."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import BinaryIO, cast

import pytest

from tests.fleet import wait_for
from worker.http_connection import TEXT, Answer, Limits, Page
from worker.http_server import HttpServer

BIG = b"0123456789abcdef" * 500_000
LIMITS = Limits(connections=4, slow_seconds=0.5, idle_seconds=60)
ASK = b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n"
ASK_BIG, ASK_USUAL = ASK.replace(b"small", b"big"), ASK.replace(b"small", b"usual")
USUAL_BYTES = 40_000


class Client:
    """One connection, read answer by answer."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))
        self._file = cast(BinaryIO, self.socket.makefile("rb"))

    def say(self, words: bytes) -> None:
        self.socket.sendall(words)

    def answer(self) -> tuple[int, bytes, str]:
        """Status, body and what is said of the connection."""
        status = int(self._file.readline().split()[1])
        fields: dict[str, str] = {}
        while (line := self._file.readline().decode()) != "\r\n":
            name, _, value = line.partition(": ")
            fields[name.lower()] = value.strip()
        return status, self._file.read(int(fields["content-length"])), fields["connection"]

    def ask(self, words: bytes = ASK) -> tuple[int, bytes, str]:
        self.say(words)
        return self.answer()

    def ended(self) -> bool:
        """Whether the server hangs up, with nothing more to say."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class Counting:
    """A page, and how often it was asked for."""

    def __init__(self, body: bytes) -> None:
        self.asked = 0
        self._answer = Answer(HTTPStatus.OK, TEXT, body)

    def __call__(self) -> Answer:
        self.asked += 1
        return self._answer


class World:
    """A server and those who ask it."""

    def __init__(self, stack: ExitStack, limits: Limits) -> None:
        self.small, self.big = Counting(b"small\n"), Counting(BIG)
        usual = Counting(b"x" * USUAL_BYTES)
        pages: dict[str, Page] = {"/small": self.small, "/big": self.big, "/usual": usual}
        self.server = HttpServer("127.0.0.1", 0, pages, limits)
        self.server.start()
        stack.callback(self.stop)
        self._stack = stack

    def stop(self) -> None:
        if self.server._thread.is_alive():
            self.server.stop()

    def connect(self, receive_buffer: int | None = None) -> Client:
        made = Client(self.server.port, receive_buffer)
        self._stack.callback(made.close)
        return made


@contextmanager
def serving(limits: Limits) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, limits)


@pytest.fixture
def world() -> Iterator[World]:
    with serving(LIMITS) as made:
        yield made


def test_two_requests_on_one_connection(world: World) -> None:
    client = world.connect()
    assert client.ask() == (200, b"small\n", "keep-alive")
    assert client.ask(ASK_BIG) == (200, BIG, "keep-alive")
    assert client.ask(b"GET /nowhere HTTP/1.1\r\n\r\n") == (404, b"not found\n", "keep-alive")
    assert client.ask() == (200, b"small\n", "keep-alive")


@pytest.mark.parametrize(
    "words",
    [
        b"GET /small HTTP/1.0\r\n\r\n",
        b"GET /small HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET /small HTTP/1.1\r\nconnection: Close, TE\r\n\r\n",
    ],
)
def test_it_is_closed_for_those_who_want_it_so(world: World, words: bytes) -> None:
    client = world.connect()
    assert client.ask(words) == (200, b"small\n", "close")
    assert client.ended()


def test_an_old_client_may_ask_for_it_to_stay(world: World) -> None:
    client = world.connect()
    asking = b"GET /small HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    assert client.ask(asking) == client.ask(asking) == (200, b"small\n", "keep-alive")


@pytest.mark.parametrize("before", [0, 1])
def test_half_a_request_is_cut_also_after_a_whole_one_and_if_it_comes_byte_by_byte(world: World, before: int) -> None:
    client = world.connect()
    for _ in range(before):
        client.ask()
    assert seconds_until_cut(client) < 4
    assert world.connect().ask()[0] == 200


def seconds_until_cut(client: Client) -> float:
    """Say one byte after another until the server hangs up."""
    began = time.monotonic()
    while time.monotonic() - began < 8:
        try:
            client.say(b"G")
        except OSError:
            break
        time.sleep(0.05)
    return time.monotonic() - began


def test_whoever_is_idle_may_stay_longer_than_whoever_is_slow_but_not_for_ever() -> None:
    with serving(Limits(slow_seconds=0.1, idle_seconds=1.5)) as world:
        client = world.connect()
        client.ask()
        began = time.monotonic()
        assert client.ended()
        assert 1.4 < time.monotonic() - began < 5


def test_the_longest_idle_makes_room(world: World) -> None:
    first, second, third, fourth = keepers = [world.connect() for _ in range(4)]
    for client in (*keepers, first):
        client.ask()
    probe = world.connect()
    assert probe.ask() == (200, b"small\n", "keep-alive")
    assert second.ended()
    for client in (first, third, fourth, probe):
        assert client.ask()[0] == 200


def test_those_who_come_together_take_no_more_than_the_places(world: World) -> None:
    keepers = [world.connect() for _ in range(4)]
    for client in keepers:
        client.ask()
    probes = [world.connect() for _ in range(3)]
    for client in probes:
        assert client.ask()[0] == 200
    assert [client.ended() for client in keepers[:3]] == [True] * 3
    assert keepers[3].ask()[0] == 200
    assert len(world.server._places._taken) == 4


def test_nobody_who_is_asking_makes_room(world: World) -> None:
    asking = [world.connect() for _ in range(4)]
    for client in asking:
        client.say(ASK[:-2])
    late = world.connect()
    assert late.ended()
    for client in asking:
        assert client.ask(ASK[-2:])[0] == 200


def test_requests_that_come_together_are_answered_in_order() -> None:
    with serving(Limits()) as world:
        client = world.connect(receive_buffer=4096)
        client.say((ASK + ASK_BIG + b"GET /nowhere HTTP/1.1\r\n\r\n") * 2 + ASK[:10])
        for _ in range(2):
            assert client.answer() == (200, b"small\n", "keep-alive")
            assert client.answer() == (200, BIG, "keep-alive")
            assert client.answer() == (404, b"not found\n", "keep-alive")
        assert client.ask(ASK[10:]) == (200, b"small\n", "keep-alive")


def test_nothing_is_answered_after_the_last_answer() -> None:
    with serving(Limits()) as world:
        client = world.connect(receive_buffer=4096)
        client.say(b"GET /big HTTP/1.1\r\nConnection: close\r\n\r\n" + ASK * 5)
        assert client.answer() == (200, BIG, "close")
        assert client.ended()
        assert world.small.asked == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (b"GET /small HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(ASK), 200),
        (b"POST /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_what_follows_a_request_with_a_body_or_no_request_is_not_taken_for_another(
    world: World, words: bytes, status: int
) -> None:
    client = world.connect()
    client.say(words + ASK)
    assert client.answer()[::2] == (status, "close")
    assert client.ended()
    assert world.small.asked == (status == 200)


def test_whoever_says_too_much_at_once_is_hung_up_on(world: World) -> None:
    client = world.connect()
    client.say(ASK * 1000)
    assert client.ended()
    assert world.connect().ask()[0] == 200


def test_whoever_asks_and_never_reads_gets_one_answer_at_a_time_and_is_hung_up_on(world: World) -> None:
    greedy = world.connect(receive_buffer=4096)
    greedy.say(ASK_BIG * 100)
    wait_for(lambda: world.big.asked > 0, 5)
    wait_for(lambda: not world.server._places._taken, 5)
    assert world.big.asked == 1
    assert world.connect().ask()[0] == 200


def test_no_more_than_one_answer_is_kept_for_whoever_does_not_read(world: World) -> None:
    greedy = world.connect(receive_buffer=4096)
    greedy.say(ASK_USUAL * 400)

    def kept() -> int:
        return max((one._transport.get_write_buffer_size() for one in [*world.server._places._taken]), default=0)

    assert 0 < wait_for(kept, 5) < USUAL_BYTES + 1000


def test_a_stop_waits_for_nobody(world: World) -> None:
    idle, half = world.connect(), world.connect()
    idle.ask()
    half.say(ASK[:10])
    greedy = world.connect(receive_buffer=4096)
    greedy.say(ASK_BIG)
    assert world.connect().ask()[0] == 200
    began = time.monotonic()
    world.stop()
    assert time.monotonic() - began < 1
    assert not world.server._thread.is_alive()
    assert idle.ended()
    assert half.ended()
