"""Every way in which a server says how long to wait."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.waits import retry_after

NOW = 1_767_225_600.0  # Thu, 01 Jan 2026 00:00:00 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": " 7 "}, 7),
        ({"retry-after": "7\x1f"}, 7),
        ({"retry-after": "3600"}, 3600),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "0"}, 0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after-ms": "-1", "retry-after": "9"}, 9),
        ({"retry-after-ms": "", "retry-after": "9"}, 9),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00 GMT"}, 60),
        ({"retry-after": "Thursday, 01-Jan-26 00:01:00 GMT"}, 60),
        ({"retry-after": "Thu Jan  1 00:01:00 2026"}, 60),
        ({"retry-after": "Thu, 01 Jan 2026 02:01:00 +0200"}, 60),
        ({"retry-after": "Thu, 01 Jan 2026 00:01:00 -0000"}, 60),
        ({"retry-after": "Wed, 31 Dec 2025 23:59:59 GMT"}, 0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0),
    ],
)
def test_what_is_readable(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(headers, NOW) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "-0.1",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "soon",
        "1,5",
        "10, 20",
        "0x10",
        "1_0",
        "２",
        "10s",
        "1 0",
    ],
)
@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_what_is_not(text: str, name: str) -> None:
    assert retry_after({name: text}, NOW) is None


@pytest.mark.parametrize("text", ["Thu, 32 Jan 2026 00:01:00 GMT", "Thu, 01 Jan 99999 00:00:00 GMT", "GMT", "12:00"])
def test_a_date_that_is_none(text: str) -> None:
    assert retry_after({"retry-after": text}, NOW) is None


def test_without_a_header_nothing_is_asked() -> None:
    assert retry_after({}, NOW) is None


@given(st.integers(0, 4_000_000_000))
def test_any_date_as_servers_write_it(at: int) -> None:
    assert retry_after({"retry-after": formatdate(at, usegmt=True)}, NOW) == max(0.0, at - NOW)


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text()), st.floats(0, 4e9))
def test_any_text_is_a_wait_or_none(headers: dict[str, str], now: float) -> None:
    found = retry_after(headers, now)
    assert found is None or 0 <= found < float("inf")
