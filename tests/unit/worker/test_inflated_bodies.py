"""Bodies inflated under a bound: bombs end early, wrong labels are told."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.inflate import Inflater, OversizeError, UndecodableError

LIMIT = 100_000
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "X-GZip": gzip.compress,
    " deflate ": zlib.compress,
}


def inflated(encoding: str, body: bytes, size: int = 1000, limit: int = LIMIT) -> bytes:
    inflater = Inflater(encoding, limit)
    for at in range(0, len(body), size):
        inflater.feed(body[at : at + size])
    return inflater.whole()


@given(st.sampled_from(sorted(ENCODERS)), st.binary(max_size=3000), st.integers(1, 700))
def test_what_was_sent_comes_out_whatever_the_chunks(encoding: str, body: bytes, size: int) -> None:
    assert inflated(encoding, ENCODERS[encoding](body), size) == body


@pytest.mark.parametrize("encoding", sorted(ENCODERS))
def test_the_bound_is_exact(encoding: str) -> None:
    body = bytes(range(256)) * 4
    assert inflated(encoding, ENCODERS[encoding](body), limit=max(len(body), len(ENCODERS[encoding](body)))) == body
    with pytest.raises(OversizeError):
        inflated(encoding, ENCODERS[encoding](body), limit=len(body) - 1)


def test_a_bomb_ends_before_it_fills_the_memory() -> None:
    bomb = gzip.compress(b"0" * 300_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(OversizeError):
            inflated("gzip", bomb, size=65_536, limit=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_an_endless_body_ends_at_the_bound() -> None:
    inflater = Inflater("", LIMIT)
    for _ in range(LIMIT // 100):
        inflater.feed(b"x" * 100)
    with pytest.raises(OversizeError):
        inflater.feed(b"x")


@pytest.mark.parametrize("body", [b'{"plain": "json"}', b"\x1f\x8bnonsense", b"\xff" * 20])
def test_a_body_that_is_not_what_its_label_says(body: bytes) -> None:
    with pytest.raises(UndecodableError):
        inflated("gzip", body)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "?"])
def test_an_encoding_nobody_asked_for(encoding: str) -> None:
    with pytest.raises(UndecodableError):
        Inflater(encoding, LIMIT)


def test_a_body_cut_in_the_middle_is_not_whole() -> None:
    body = b'{"choices": [{"message": {"content": "' + b"x" * 1000 + b'"}}]}'
    assert inflated("gzip", gzip.compress(body)[:40]) != body
