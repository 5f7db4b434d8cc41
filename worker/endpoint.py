"""The HTTP side of an endpoint: httpx, on aiohttp's connections unless told otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Literal
from urllib.parse import quote, urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from schemas.models import Timeouts
from worker.core.reply import Break, Broken, Reply
from worker.inflate import Inflater, OversizeError, UndecodableError
from worker.ports import Request

Transport = Literal["aiohttp", "httpx"]
# A whole answer, on the wire and inflated: far above any text a model writes.
MAX_BODY_BYTES = 8 * 1024 * 1024
# Idle connections are dropped before the 5 s at which common servers drop theirs, or a call would meet a dead one.
_KEEPALIVE_SECONDS = 4.0
_WRITE_SECONDS = 30.0
# aiohttp's own classes tell what the bridge to httpx blurs: only these mean that no byte of the request left.
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL, httpx.ConnectError)
_ERRORS = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, ValueError)


def make_transport(kind: Transport = "aiohttp") -> httpx.AsyncBaseTransport:
    """Make the connections of an alias: no proxies of the environment, no redirects, retries or limit of their own.

    Calls go to httpx's transport port itself: the client above it adds nothing here but 0.13 ms of CPU a call.
    """
    if kind == "aiohttp":
        return _aiohttp()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEEPALIVE_SECONDS)
    return httpx.AsyncHTTPTransport(limits=limits, trust_env=False)


def endpoint_name(base_url: str) -> str:
    """Name an endpoint for people: host, port and what of its path is not the usual `/v1`."""
    parts = urlsplit(base_url)
    return parts.netloc + parts.path.removesuffix("/v1")


class HttpEndpoint:
    """One server behind the OpenAI chat completions API; `key` is read at each call and may be empty."""

    def __init__(
        self, base_url: str, key: Callable[[], str], transport: httpx.AsyncBaseTransport, timeouts: Timeouts
    ) -> None:
        self._url = httpx.URL(f"{base_url}/chat/completions")
        self._models_url = httpx.URL(f"{base_url}/models")
        self._key = key
        self._transport = transport
        self._total = timeouts.total
        waits = httpx.Timeout(connect=timeouts.connect, read=timeouts.read, write=_WRITE_SECONDS, pool=None)
        self._extensions = {"timeout": waits.as_dict()}

    async def ask(self, request: Request) -> Reply | Broken:
        """Make one call within the total deadline; what goes wrong on the way is a value."""
        headers = {
            "Content-Type": "application/json",
            "X-Request-Id": f"{quote(request.id, safe='')}:{request.attempt}",
            "Idempotency-Key": request.idempotency_key,
        }
        return await self._exchange("POST", self._url, headers, body(request))

    async def leads_nowhere(self) -> bool:
        """Whether the address itself is wrong: nothing lists its models there."""
        reply = await self._exchange("GET", self._models_url, {}, b"")
        return isinstance(reply, Reply) and reply.status == 404

    async def _exchange(self, method: str, url: httpx.URL, headers: dict[str, str], content: bytes) -> Reply | Broken:
        headers |= {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "headrace"}
        if key := self._key():
            headers["Authorization"] = f"Bearer {key}"
        request = httpx.Request(method, url, headers=headers, content=content, extensions=self._extensions)
        try:
            async with asyncio.timeout(self._total):
                return await self._send(request)
        except TimeoutError as error:
            return Broken(Break.TIMEOUT, type(error).__name__)
        except OversizeError:
            return Broken(Break.OVERSIZE, "response_too_large")
        except UndecodableError:
            return Broken(Break.ENCODING, "undecodable_body")
        except _ERRORS as error:
            return Broken(*_what(error))

    async def _send(self, request: httpx.Request) -> Reply:
        response = await self._transport.handle_async_request(request)
        headers = _plain(response.headers.raw)
        try:
            return Reply(response.status_code, headers, await _read(response, headers))
        except (OversizeError, UndecodableError):
            if response.is_success:
                raise
            # The status alone says what an error page of the wrong size or encoding would have said.
            return Reply(response.status_code, headers, b"")
        finally:
            await response.aclose()


def _plain(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Names in lower case, repeated ones joined; httpx's own mapping tries encodings at each look, 20 us a call."""
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


async def _read(response: httpx.Response, headers: Mapping[str, str]) -> bytes:
    inflater = Inflater(headers.get("content-encoding", ""), MAX_BODY_BYTES)
    async for chunk in response.aiter_raw():
        inflater.feed(chunk)
    return inflater.whole()


def body(request: Request) -> bytes:
    """Encode a call; the message's parameters never replace model or messages."""
    content = {**request.params, "model": request.model, "messages": list(request.messages)}
    if request.response_format is not None:
        content["response_format"] = request.response_format
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _aiohttp() -> AiohttpTransport:
    # The session must be made inside the running loop, so the transport makes it at the first call.
    return AiohttpTransport(
        client=lambda: aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        ),
        trust_env=False,
    )


def _what(error: Exception) -> tuple[Break, str]:
    cause = error.__cause__ or error
    name = type(cause).__name__
    if isinstance(cause, _NOT_SENT):
        return Break.NOT_SENT, name
    timed_out = isinstance(cause, TimeoutError) or isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout)
    return (Break.TIMEOUT if timed_out else Break.CONNECTION), name
