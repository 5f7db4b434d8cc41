from __future__ import annotations

from email.utils import parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.refusals import retry_headers
from simulator.script import RetryAfter

NOON = 1_800_000_000.0


@pytest.mark.parametrize(
    ("form", "wait", "headers"),
    [
        ("s", 0.001, {"Retry-After": "1"}),
        ("s", 2.0, {"Retry-After": "2"}),
        ("s", 0.0, {"Retry-After": "0"}),
        ("fraction", 0.2501, {"Retry-After": "0.251"}),
        ("ms", 1.2, {"retry-after-ms": "1200", "Retry-After": "2"}),
        ("date", 2.5, {"Retry-After": "Fri, 15 Jan 2027 08:00:03 GMT"}),
        ("none", 2.5, {}),
    ],
)
def test_a_wait_is_said_in_the_form_asked_for(form: str, wait: float, headers: dict[str, str]) -> None:
    assert dict(retry_headers(RetryAfter(form), wait, NOON)) == headers  # type: ignore[arg-type]


@given(st.floats(0, 1e6))
def test_no_form_undercuts_the_wait(wait: float) -> None:
    assert float(dict(retry_headers(RetryAfter("s"), wait, NOON))["Retry-After"]) >= wait
    assert float(dict(retry_headers(RetryAfter("fraction"), wait, NOON))["Retry-After"]) >= wait
    assert float(dict(retry_headers(RetryAfter("ms"), wait, NOON))["retry-after-ms"]) >= wait * 1000
    date = parsedate_to_datetime(dict(retry_headers(RetryAfter("date"), wait, NOON))["Retry-After"])
    assert date.timestamp() >= NOON + wait
