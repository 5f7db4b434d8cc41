"""The header that ties a message to a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tracing import is_sampled, traceparent


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1))
def test_what_one_side_writes_the_other_reads(trace: int, span: int) -> None:
    assert is_sampled(traceparent(trace, span))


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", True),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03", True),
        ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", True),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", False),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", False),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", False),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", False),
        ("\n", False),
        ("", False),
    ],
)
def test_only_a_sound_header_of_a_kept_trace_counts(text: str, sampled: bool) -> None:
    assert is_sampled(text) is sampled
