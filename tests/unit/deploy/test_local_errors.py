"""A failed start is told in one line."""

from __future__ import annotations

import pytest

from deploy.local import errors


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x\njava.net.BindException: Address already in use\nmore", "a port it needs is taken"),
        ("FATAL: could not write: No space left on device", "the disk is full"),
        ('a\nFATAL:  unrecognized configuration parameter "b"\nshut down', "unrecognized configuration"),
        ("first\nlast words\n\n", '"last words"'),
        ("", "it logged nothing"),
    ],
)
def test_the_cause_is_read_from_the_log(text: str, part: str) -> None:
    said = errors.explain(text)
    assert part in said
    assert "\n" not in said
