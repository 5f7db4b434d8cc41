"""How a reply goes out: the bytes to write, when, and what becomes of the connection. A plan, not an action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from simulator.replies import Reply
from simulator.script import Action
from simulator.wire import chunk_of, head_of


class End(Enum):
    """What follows the last byte of a step."""

    MORE = "more"
    NEXT = "next"
    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class Step:
    """Wait `delay_s`, write `data`, then do `end`."""

    data: bytes = b""
    delay_s: float = 0.0
    end: End = End.MORE


def plain_steps(reply: Reply, *, keep_alive: bool) -> Iterator[Step]:
    """The steps of a reply that goes out whole and well."""
    return iter((_whole_step(reply, keep_alive),))


def steps_of(reply: Reply, action: Action, *, keep_alive: bool) -> Iterator[Step]:
    """The steps of a reply under an action's faults; lazy, so that a huge body is never held."""
    if action.hang:
        return iter((Step(end=End.HANG),))
    if action.close in ("before_request", "after_request") or (action.reset and action.close is None):
        return iter((Step(end=_broken_end(action)),))
    if _is_plain(reply, action):
        return iter((_whole_step(reply, keep_alive and not _asks_to_close(action)),))
    return _shaped_steps(reply, action, keep_alive and not _asks_to_close(action))


def _is_plain(reply: Reply, action: Action) -> bool:
    shaped = (action.close, action.trickle, action.chunked, reply.stream, action.wrong_content_length)
    return not action.headers and all(part is None for part in shaped)


def _whole_step(reply: Reply, keep_alive: bool) -> Step:
    headers = [("Content-Type", reply.content_type), ("Content-Length", str(len(reply.body))), *reply.headers]
    if not keep_alive:
        headers.append(("Connection", "close"))
    return Step(head_of(reply.status, headers) + reply.body, end=End.NEXT if keep_alive else End.CLOSE)


def _shaped_steps(reply: Reply, action: Action, keep_alive: bool) -> Iterator[Step]:
    chunk = action.chunked
    if chunk is None and reply.stream is not None and reply.length is None:
        chunk = 64 * 1024
    head = head_of(reply.status, _headers(reply, action, chunk, keep_alive))
    if action.close == "mid_headers":
        yield Step(head[: len(head) // 2], end=_broken_end(action))
        return
    pieces: Iterable[bytes] = reply.stream if reply.stream is not None else (reply.body,)
    if action.close == "mid_body":
        pieces = _first(_cut_at(reply, action), pieces)
    framed = pieces if chunk is None else _chunked(pieces, chunk, ends=action.close is None)
    yield from _paced(head, framed, action)
    yield Step(end=_last_end(reply, action, keep_alive))


def _paced(head: bytes, pieces: Iterable[bytes], action: Action) -> Iterator[Step]:
    trickle = action.trickle
    if trickle is None:
        yield Step(head)
        yield from (Step(piece) for piece in pieces)
        return
    delay_s, size = trickle.every_ms / 1000, trickle.size
    slow: Iterable[bytes] = pieces if trickle.start == "body" else (head, *pieces)
    if trickle.start == "body":
        yield Step(head)
    for piece in slow:
        yield from (Step(piece[at : at + size], delay_s) for at in range(0, len(piece), size))


def _last_end(reply: Reply, action: Action, keep_alive: bool) -> End:
    if action.close is not None or action.reset:
        return _broken_end(action)
    promised = action.wrong_content_length
    if promised is not None and promised > len(reply.body):
        return End.CLOSE
    return End.NEXT if keep_alive else End.CLOSE


def _broken_end(action: Action) -> End:
    return End.RESET if action.reset else End.CLOSE


def _headers(reply: Reply, action: Action, chunk: int | None, keep_alive: bool) -> list[tuple[str, str]]:
    headers = [("Content-Type", reply.content_type), _framing(reply, action, chunk), *reply.headers]
    if not keep_alive and not _asks_to_close(action):
        headers.append(("Connection", "close"))
    replaced = {name.lower() for name, _ in action.headers}
    kept = [(name, value) for name, value in headers if name.lower() not in replaced]
    return kept + [(name, value) for name, value in action.headers if value is not None]


def _framing(reply: Reply, action: Action, chunk: int | None) -> tuple[str, str]:
    if chunk is not None:
        return "Transfer-Encoding", "chunked"
    known = len(reply.body) if reply.length is None else reply.length
    return "Content-Length", str(known if action.wrong_content_length is None else action.wrong_content_length)


def _asks_to_close(action: Action) -> bool:
    return any(name.lower() == "connection" and value == "close" for name, value in action.headers)


def _cut_at(reply: Reply, action: Action) -> int:
    if action.close_after_bytes is not None:
        return action.close_after_bytes
    return (len(reply.body) if reply.length is None else reply.length) // 2


def _first(count: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece[:count]
        count -= len(piece)
        if count <= 0:
            return


def _chunked(pieces: Iterable[bytes], size: int, *, ends: bool) -> Iterator[bytes]:
    for piece in pieces:
        yield from (chunk_of(piece[at : at + size]) for at in range(0, len(piece), size))
    if ends:
        yield chunk_of(b"")
