"""The header that ties a message to a trace: W3C Trace Context, as both sides of the topic read it."""

from __future__ import annotations

import re

TRACEPARENT = "traceparent"
# Of an id in a span, as in a log line.
LONGEST_ID = 128
_FORM = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-.*)?")


def traceparent(trace: int, span: int) -> str:
    """Write the header of a sampled trace."""
    return f"00-{trace:032x}-{span:016x}-01"


def is_sampled(text: str) -> bool:
    """Tell whether a header names a trace that is kept; false of anything that is no such header."""
    found = _FORM.fullmatch(text)
    return found is not None and not text.startswith("ff") and bool(int(found[1], 16) & 1)
