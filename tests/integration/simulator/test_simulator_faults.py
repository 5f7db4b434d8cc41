"""Every fault a script can ask for, as bytes on a socket, and who is billed."""

from __future__ import annotations

import gzip
import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.simulator.client import (
    ask,
    connect,
    exchange,
    inflated,
    raw,
    receive,
    request_bytes,
    resident,
    timed,
    until,
)
from tests.simulated import Simulated, simulated


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    """The simulator on both event loops: they write, close and reset through different code."""
    environ = {}
    if request.param == "asyncio":
        hiding = tmp_path_factory.mktemp("without_uvloop")
        (hiding / "uvloop.py").write_text("raise ImportError")
        environ["PYTHONPATH"] = str(hiding)
    with simulated(environ=environ) as one:
        yield one


@pytest.mark.parametrize("close", ["before_request", "after_request"])
def test_a_close_without_an_answer_bills_only_if_told(sim: Simulated, close: str) -> None:
    sim.set_script([{"match": {"ids": ["paid"]}, "close": close, "bill": True}, {"close": close}])
    assert raw(sim, request_bytes(row="paid")) == raw(sim, request_bytes(row="free")) == b""
    stats = sim.stats(ids=True)
    assert stats["ids"] == {"paid": {"calls": 1, "billed": 1}, "free": {"calls": 1, "billed": 0}}
    assert stats["outcomes"] == {f"closed_{close}": 2}
    assert stats["status"] == {}


def test_only_a_close_before_the_request_spares_the_latency(sim: Simulated) -> None:
    started = time.monotonic()
    sim.set_script([{"close": "before_request", "latency_ms": 20_000}])
    assert raw(sim, request_bytes()) == b""
    assert time.monotonic() - started < 5
    sim.set_script([{"close": "after_request", "latency_ms": 300}])
    started = time.monotonic()
    assert raw(sim, request_bytes()) == b""
    assert time.monotonic() - started >= 0.3


def test_heads_and_bodies_are_cut(sim: Simulated) -> None:
    sim.set_script(
        [{"match": {"ids": ["head"]}, "close": "mid_headers"}, {"close": "mid_body", "close_after_bytes": 9}]
    )
    assert b"\r\n\r\n" not in raw(sim, request_bytes(row="head"))
    assert len(raw(sim, request_bytes()).partition(b"\r\n\r\n")[2]) == 9
    with pytest.raises(http.client.IncompleteRead):
        ask(sim)
    assert sim.stats()["outcomes"] == {"cut": 3}
    assert sim.stats()["billed"] == 3


@pytest.mark.parametrize("fields", [{"reset": True}, {"reset": True, "close": "mid_body"}])
def test_a_reset_is_a_reset(sim: Simulated, fields: dict[str, Any]) -> None:
    sim.set_script([fields])
    with pytest.raises(ConnectionResetError):
        raw(sim, request_bytes())


def test_a_hang_never_answers_and_ends_with_the_client(sim: Simulated) -> None:
    sim.set_script([{"hang": True}])
    with connect(sim) as sock:
        sock.sendall(request_bytes())
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        assert sim.stats()["in_flight"] == 1
    until(lambda: sim.stats()["outcomes"] == {"hung": 1})
    assert sim.stats()["in_flight"] == 0


@pytest.mark.parametrize(("start", "pieces"), [("body", 5), ("head", 30)])
def test_a_trickle_takes_its_time(sim: Simulated, start: str, pieces: int) -> None:
    sim.set_script([{"body": "0123456789", "trickle": {"bytes": 2, "every_ms": 40, "from": start}}])
    started = time.monotonic()
    assert ask(sim).body == b"0123456789"
    assert time.monotonic() - started >= pieces * 0.04


def test_an_answer_can_be_chunked_and_compressed(sim: Simulated) -> None:
    sim.set_script([{"chunked": 10, "gzip": True}])
    got = ask(sim)
    assert (got.headers["Transfer-Encoding"], got.headers["Content-Encoding"]) == ("chunked", "gzip")
    assert json.loads(gzip.decompress(got.body))["object"] == "chat.completion"


def test_a_gzip_bomb_leaves_other_clients_their_turn(sim: Simulated) -> None:
    sim.set_script([{"match": {"ids": ["bomb"]}, "gzip_bomb": 300_000_000}])
    with ThreadPoolExecutor(1) as pool:
        bomb = pool.submit(ask, sim, row="bomb")
        until(lambda: sim.stats()["in_flight"] == 1)
        slowest = max(timed(lambda: ask(sim, row="other")) for _ in range(5))
        packed = bomb.result().body
    assert len(packed) < 1_000_000
    assert sum(len(piece) for piece in inflated(packed)) == 300_000_000
    assert slowest < 2


def test_a_big_body_arrives_whole(sim: Simulated) -> None:
    sim.set_script([{"big_body": 50_000_000}])
    got = ask(sim)
    assert (len(got.body), got.headers["Content-Length"]) == (50_000_000, "50000000")
    assert got.body.startswith(b'{"id":"chatcmpl-')


def test_an_endless_body_to_a_client_that_leaves_costs_no_memory(sim: Simulated) -> None:
    sim.set_script([{"big_body": 10**14, "chunked": True}])
    with connect(sim) as sock:
        sock.sendall(request_bytes())
        sock.recv(1000)
        time.sleep(0.3)
        before = resident(sim)
        time.sleep(0.3)
        assert resident(sim) - before < 5_000_000
    until(lambda: sim.stats()["outcomes"] == {"client_gone": 1})
    assert sim.stats()["billed"] == 1


@pytest.mark.parametrize("promised", [5, 5000])
def test_a_wrong_length_is_sent(sim: Simulated, promised: int) -> None:
    sim.set_script([{"body": "0123456789", "wrong_content_length": promised}])
    with connect(sim) as sock:
        sock.sendall(request_bytes())
        if promised > 10:
            with pytest.raises(http.client.IncompleteRead):
                receive(sock)
        else:
            assert receive(sock).body == b"01234"


def test_a_redirect_is_sent_and_its_target_sees_who_brings_a_key(sim: Simulated) -> None:
    with simulated() as other:
        sim.set_script([{"redirect": f"{other.base_url}/chat/completions"}])
        got = ask(sim)
        assert (got.status, got.headers["Location"]) == (307, f"{other.base_url}/chat/completions")
        keyed = request_bytes().replace(b"Host: x\r\n", b"Host: x\r\nx-api-key: secret\r\n")
        with connect(other) as sock:
            exchange(sock, keyed)
        assert other.stats()["headers"] == {"x-api-key": 1}
        assert "secret" not in json.dumps(other.stats(ids=True))


def test_an_event_stream_is_sent(sim: Simulated) -> None:
    sim.set_script([{"event_stream": True}])
    got = ask(sim)
    assert got.headers["Content-Type"].startswith("text/event-stream")
    assert got.body.endswith(b"data: [DONE]\n\n")


def test_status_headers_and_error_are_sent_verbatim(sim: Simulated) -> None:
    sim.set_script([{"status": 429, "headers": {"Retry-After": "3600"}, "error": {"code": "insufficient_quota"}}])
    got = ask(sim)
    assert (got.status, got.headers["Retry-After"]) == (429, "3600")
    assert got.json["error"]["code"] == "insufficient_quota"
    assert sim.stats()["billed"] == 0


def test_an_idle_connection_is_closed_when_its_time_is_up(sim: Simulated) -> None:
    sim.set_script({"idle_timeout_s": 0.3, "rules": [{"match": {"ids": ["slow"]}, "latency_ms": 600}]})
    with connect(sim) as sock:
        assert exchange(sock, request_bytes(row="slow")).status == 200
        started = time.monotonic()
        assert sock.recv(1) == b""
        assert 0.2 < time.monotonic() - started < 2


def test_a_client_that_leaves_is_billed_when_the_answer_is_ready(sim: Simulated) -> None:
    sim.set_script([{"latency_ms": 500}])
    with connect(sim) as sock:
        sock.sendall(request_bytes())
        until(lambda: sim.stats()["in_flight"] == 1)
    assert sim.stats()["billed"] == 0
    until(lambda: sim.stats()["billed"] == 1)
    stats = sim.stats()
    assert (stats["outcomes"], stats["status"], stats["answers"]) == ({"client_gone": 1}, {}, 0)


def test_a_server_that_aborts_with_its_client_bills_nothing(sim: Simulated) -> None:
    sim.set_script([{"latency_ms": 60_000, "abort_on_disconnect": True}])
    with connect(sim) as sock:
        sock.sendall(request_bytes())
        until(lambda: sim.stats()["in_flight"] == 1)
    until(lambda: sim.stats()["outcomes"] == {"client_gone": 1})
    assert sim.stats()["billed"] == 0


def test_the_same_row_answered_twice_is_a_duplicate_bill(sim: Simulated) -> None:
    for attempt in (1, 2):
        ask(sim, row="a:b/ 猫", attempt=attempt)
    stats = sim.stats(ids=True)
    assert stats["ids"] == {"a:b/ 猫": {"calls": 2, "billed": 2}}
    assert stats["duplicate_bills"] == 1
