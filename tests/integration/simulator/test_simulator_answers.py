"""Answers, paths and HTTP of the simulator as a client meets them."""

from __future__ import annotations

import json
import time

import pytest

from simulator.answers import answer
from tests.integration.simulator.client import (
    ask,
    connect,
    exchange,
    get,
    pipelined,
    raw,
    receive,
    request_bytes,
    until,
)
from tests.simulated import Simulated


def test_the_answer_can_be_computed_beforehand(sim: Simulated) -> None:
    got = ask(sim, "what is 猫?")
    expected = answer([{"role": "user", "content": "what is 猫?"}], "small")
    assert got.json["choices"][0]["message"]["content"] == expected
    assert got.headers["x-request-id"].startswith("req_")


def test_both_paths_models_and_health_answer(sim: Simulated) -> None:
    with connect(sim) as sock:
        assert exchange(sock, request_bytes().replace(b"/v1/chat", b"/chat")).status == 200
    for path in ("/v1/models", "/models"):
        assert [model["id"] for model in get(sim, path).json["data"]] == ["simulated"]
    assert get(sim, "/healthz").json == {"status": "ok"}


@pytest.mark.parametrize("path", ["/", "/v1/chat/completions", "/wrong/v1/models", "/_sim/none"])
def test_other_paths_are_404_in_openais_form(sim: Simulated, path: str) -> None:
    got = get(sim, path)
    assert got.status == 404
    assert got.json["error"]["message"] == f"Invalid URL (GET {path})"


def test_json_for_a_schema_comes_back(sim: Simulated) -> None:
    schema = {"type": "object", "properties": {"label": {"enum": ["good", "bad"]}}, "required": ["label"]}
    asked = {"type": "json_schema", "json_schema": {"name": "label", "schema": schema}}
    content = ask(sim, response_format=asked).json["choices"][0]["message"]["content"]
    assert json.loads(content)["label"] in {"good", "bad"}


@pytest.mark.parametrize(("body", "words"), [(b"{", "could not parse"), (b"{}", "must provide a model")])
def test_a_bad_body_is_a_400_and_counted(sim: Simulated, body: bytes, words: str) -> None:
    head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with connect(sim) as sock:
        got = exchange(sock, head + body)
    assert (got.status, words in got.json["error"]["message"]) == (400, True)
    assert sim.stats()["outcomes"] == {"refused": 1}


def test_keys_and_models_are_checked_if_the_script_has_them(sim: Simulated) -> None:
    sim.set_script({"api_keys": ["k-1"], "models": ["small", "large"]})
    assert ask(sim).json["error"]["code"] == "invalid_api_key"
    assert get(sim, "/v1/models").status == 401
    assert get(sim, "/v1/models", key="k-2").status == 401
    assert [model["id"] for model in get(sim, "/v1/models", key="k-1").json["data"]] == ["small", "large"]
    keyed = {"k-1": b"Host: x\r\nAuthorization: Bearer k-1\r\n"}
    with connect(sim) as sock:
        assert exchange(sock, request_bytes().replace(b"Host: x\r\n", keyed["k-1"])).status == 200
        unknown = exchange(sock, request_bytes(model="huge").replace(b"Host: x\r\n", keyed["k-1"]))
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "model_not_found")
    assert sim.stats()["headers"] == {"authorization": 2}


def test_pipelined_requests_are_answered_in_order(sim: Simulated) -> None:
    sim.set_script([{"match": {"ids": ["slow"]}, "latency_ms": 150}])
    health = b"GET /healthz HTTP/1.1\r\n\r\n"
    calls = [request_bytes("first", "slow"), request_bytes("second"), health, request_bytes("last")]
    with connect(sim) as sock:
        first, second, healthy, last = pipelined(sock, *calls)
    assert [got.said.split("] ")[1] for got in (first, second, last)] == ["first", "second", "last"]
    assert healthy.json == {"status": "ok"}


def test_an_answer_waits_for_its_turn_behind_one_the_client_has_not_read(sim: Simulated) -> None:
    slow = {"bytes": 20, "every_ms": 50, "from": "head"}
    sim.set_script([{"match": {"ids": ["big"]}, "content_chars": 8_000_000}, {"body": "0123456789", "trickle": slow}])
    with connect(sim) as sock:
        sock.sendall(request_bytes(row="big") + request_bytes())
        until(lambda: sim.stats()["in_flight"] == 1)
        big, small = pipelined(sock, b"", b"")
    assert len(big.said) == 8_000_000
    assert small.body == b"0123456789"


def test_a_client_that_pipelines_without_end_is_held_back(sim: Simulated) -> None:
    sim.set_script([{"hang": True}])
    with connect(sim) as sock:
        sock.settimeout(1)
        with pytest.raises(TimeoutError):
            sock.sendall(request_bytes() * 300_000)


def test_a_connection_is_kept_until_the_client_asks_to_close(sim: Simulated) -> None:
    with connect(sim) as sock:
        for at in range(50):
            assert exchange(sock, request_bytes(row=f"r-{at}")).status == 200
        last = exchange(sock, request_bytes().replace(b"Host: x", b"Connection: close"))
        assert last.headers["Connection"] == "close"
        assert sock.recv(1) == b""


def test_chunked_requests_and_expect_continue_are_read(sim: Simulated) -> None:
    head, _, body = request_bytes("in chunks").partition(b"\r\n\r\n")
    chunked = head.rpartition(b"\r\n")[0] + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [b"%x\r\n%b\r\n" % (len(body[at : at + 9]), body[at : at + 9]) for at in range(0, len(body), 9)]
    with connect(sim) as sock:
        assert exchange(sock, chunked + b"".join(pieces) + b"0\r\n\r\n").json["usage"]["prompt_tokens"] == 3
        sock.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert exchange(sock, body).status == 200


def test_a_body_above_64_mib_is_a_413_the_client_can_read(sim: Simulated) -> None:
    with connect(sim) as sock:
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 67108865\r\n\r\n")
        time.sleep(0.2)
        sock.sendall(b"x" * 1_000_000)
        assert receive(sock).status == 413


def test_a_body_of_20_mb_is_answered(sim: Simulated) -> None:
    assert ask(sim, "x" * 20_000_000).json["usage"]["prompt_tokens"] == 5_000_000


def test_bytes_of_tls_are_refused_at_once(sim: Simulated) -> None:
    assert raw(sim, b"\x16\x03\x01\x02\x00\x01").startswith(b"HTTP/1.1 400 ")
