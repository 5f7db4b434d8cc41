"""One call over HTTP without a socket: what is sent, and what becomes of everything that can go wrong."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import httpcore
import httpx
import pytest

from schemas.models import Timeouts
from tests.fakes.virtual_time import now, virtual
from worker.core.reply import Break, Broken, Reply
from worker.endpoint import MAX_BODY_BYTES, HttpEndpoint, body, endpoint_name, make_transport
from worker.ports import Request

Handler = Callable[[httpx.Request], Any]
CANARY = "sk-canary-1"
ASK = Request("r/1 é", 3, "abc", "qwen", [{"role": "user", "content": "Why? 🦊"}], {"max_tokens": 5})


class Stream(httpx.AsyncByteStream):
    """A body that arrives in chunks, an exception or a pause (seconds) among them."""

    def __init__(self, *chunks: bytes | float | Exception) -> None:
        self.chunks = chunks
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            if isinstance(chunk, bytes):
                yield chunk
            else:
                await asyncio.sleep(chunk)

    async def aclose(self) -> None:
        self.closed = True


def endpoint(
    handler: Handler, key: str = CANARY, total: float = 600, base_url: str = "http://llm:8000/v1"
) -> HttpEndpoint:
    return HttpEndpoint(base_url, lambda: key, httpx.MockTransport(handler), Timeouts(connect=3, read=7, total=total))


async def ask(handler: Handler, **fields: Any) -> Reply | Broken:
    return await endpoint(handler, **fields).ask(ASK)


@virtual
async def test_what_a_call_says() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, stream=Stream(b'{"ok": 1}'), headers={"X-Odd": "Yes"})

    reply = await ask(handler)
    assert isinstance(reply, Reply)
    assert (reply.status, json.loads(reply.body), reply.headers["x-odd"]) == (200, {"ok": 1}, "Yes")
    (request,) = seen
    assert (request.method, str(request.url)) == ("POST", "http://llm:8000/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {CANARY}"
    assert request.headers["x-request-id"] == "r%2F1%20%C3%A9:3"
    assert request.headers["idempotency-key"] == "abc"
    assert request.headers["accept-encoding"] == "identity"
    sent = {"max_tokens": 5, "model": "qwen", "messages": [{"role": "user", "content": "Why? 🦊"}]}
    assert json.loads(request.content) == sent


@virtual
async def test_without_a_key_no_header_is_sent() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, stream=Stream())

    await ask(handler, key="")
    assert "authorization" not in seen[0].headers


def test_parameters_never_replace_model_or_messages() -> None:
    evil = Request(
        "r", 1, "k", "qwen", [], {"model": "other", "messages": ["x"], "response_format": 1}, {"type": "json_object"}
    )
    assert json.loads(body(evil)) == {"model": "qwen", "messages": [], "response_format": {"type": "json_object"}}


def test_what_is_not_set_is_not_sent() -> None:
    assert set(json.loads(body(Request("r", 1, "k", "qwen", [])))) == {"model", "messages"}


@virtual
async def test_a_redirect_is_an_answer_and_the_key_stays_at_home() -> None:
    hosts: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        return httpx.Response(307, stream=Stream(), headers={"location": "http://elsewhere/v1"})

    reply = await ask(handler)
    assert isinstance(reply, Reply)
    assert (reply.status, hosts) == (307, ["llm"])


ERRORS: list[tuple[Exception, Break]] = [
    (httpx.ConnectError("no"), Break.NOT_SENT),
    (httpx.ReadTimeout("no"), Break.TIMEOUT),
    (httpx.WriteTimeout("no"), Break.TIMEOUT),
    (httpx.ReadError("no"), Break.CONNECTION),
    (httpx.RemoteProtocolError("no"), Break.CONNECTION),
    (httpx.LocalProtocolError("no"), Break.CONNECTION),
    (aiohttp.ServerDisconnectedError(), Break.CONNECTION),
    (aiohttp.ClientPayloadError("no"), Break.CONNECTION),
    (ConnectionResetError("no"), Break.CONNECTION),
    (ssl.SSLError("no"), Break.CONNECTION),
    (ValueError("no"), Break.CONNECTION),
]


@pytest.mark.parametrize(("error", "how"), ERRORS)
def test_what_goes_wrong_on_the_way_is_a_value_that_names_the_class_only(error: Exception, how: Break) -> None:
    def handler(_request: httpx.Request) -> httpx.Response:
        raise error

    @virtual
    async def asked() -> None:
        assert await ask(handler) == Broken(how, type(error).__name__)

    asked()


@pytest.mark.parametrize("cause", [aiohttp.ConnectionTimeoutError("no"), aiohttp.InvalidURL("no")])
def test_what_hides_behind_the_bridge_to_httpx_counts(cause: Exception) -> None:
    def handler(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("no") from cause

    @virtual
    async def asked() -> None:
        assert await ask(handler) == Broken(Break.NOT_SENT, type(cause).__name__)

    asked()


@virtual
async def test_a_server_that_hangs_up_after_reading_may_have_billed() -> None:
    def handler(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("no") from aiohttp.ServerDisconnectedError()

    assert await ask(handler) == Broken(Break.CONNECTION, "ServerDisconnectedError")


@virtual
async def test_a_call_ends_at_its_total_deadline_however_slowly_bytes_trickle() -> None:
    stream = Stream(*(part for _ in range(1000) for part in (b" ", 1.0)))
    began = now()
    reply = await ask(lambda _request: httpx.Response(200, stream=stream), total=60)
    assert reply == Broken(Break.TIMEOUT, "TimeoutError")
    assert now() - began == pytest.approx(60, abs=1)
    assert stream.closed


@virtual
async def test_a_body_cut_in_the_middle_is_no_answer() -> None:
    stream = Stream(b'{"choices": [', httpx.RemoteProtocolError("peer closed connection"))
    reply = await ask(lambda _request: httpx.Response(200, stream=stream))
    assert reply == Broken(Break.CONNECTION, "RemoteProtocolError")


@pytest.mark.parametrize("status", [200, 500])
def test_an_oversized_body_ends_early_and_an_error_keeps_its_status(status: int) -> None:
    @virtual
    async def asked() -> None:
        stream = Stream(*([b"x" * 1_000_000] * (MAX_BODY_BYTES // 1_000_000 + 2)))
        reply = await ask(lambda _request: httpx.Response(status, stream=stream))
        if status == 200:
            assert reply == Broken(Break.OVERSIZE, "response_too_large")
        else:
            assert isinstance(reply, Reply)
            assert (reply.status, reply.body) == (500, b"")
        assert stream.closed

    asked()


@pytest.mark.parametrize("status", [200, 502])
def test_a_wrongly_declared_compression_does_not_hide_the_status(status: int) -> None:
    @virtual
    async def asked() -> None:
        headers = {"content-encoding": "gzip"}
        reply = await ask(lambda _request: httpx.Response(status, headers=headers, stream=Stream(b"plain")))
        if status == 200:
            assert reply == Broken(Break.ENCODING, "undecodable_body")
        else:
            assert isinstance(reply, Reply)
            assert (reply.status, reply.body) == (502, b"")

    asked()


@virtual
async def test_a_cancelled_call_closes_its_response() -> None:
    stream = Stream(b" ", 3600.0)
    call = asyncio.create_task(ask(lambda _request: httpx.Response(200, stream=stream)))
    await asyncio.sleep(1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert call.cancelled()
    assert stream.closed


@pytest.mark.parametrize(("status", "nowhere"), [(404, True), (200, False), (401, False), (500, False)])
def test_an_address_that_lists_no_models_leads_nowhere(status: int, nowhere: bool) -> None:
    @virtual
    async def asked() -> None:
        seen: list[httpx.URL] = []

        def handler(request: httpx.Request) -> httpx.Response:
            seen.append(request.url)
            return httpx.Response(status, stream=Stream())

        assert await endpoint(handler).leads_nowhere() is nowhere
        assert seen == [httpx.URL("http://llm:8000/v1/models")]

    asked()


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("http://llm:8000/v1", "llm:8000"),
        ("https://api.example.com/v1", "api.example.com"),
        ("http://llm/openai/v1", "llm/openai"),
        ("http://llm", "llm"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
    ],
)
def test_an_endpoint_is_named_for_people(base_url: str, name: str) -> None:
    assert endpoint_name(base_url) == name


@virtual
async def test_a_call_carries_its_time_limits_and_never_waits_for_a_place() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"] == {"connect": 3, "read": 7, "write": 30, "pool": None}
        return httpx.Response(200, stream=Stream(b"{}"))

    assert isinstance(await ask(handler), Reply)


def test_the_stock_transport_obeys_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://sink:1")
    transport = make_transport("httpx")
    assert isinstance(transport, httpx.AsyncHTTPTransport)
    assert type(transport._pool) is httpcore.AsyncConnectionPool
