"""How long a server asks us to wait."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?|\.[0-9]+", re.I)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Read `retry-after-ms`, else `retry-after` (seconds, fractions or an HTTP date) as seconds from `now`.

    `now` is Unix time. 0 or a past date means at once; a negative, empty or unreadable value means None.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    return seconds if seconds is not None else _until(text, now)


def _number(text: str | None) -> float | None:
    # Python alone would also read `1_000` and digits of other scripts.
    if text is None or not _NUMBER.fullmatch(text.strip()):
        return None
    number = float(text.strip())
    return number if math.isfinite(number) else None


def _until(text: str | None, now: float) -> float | None:
    try:
        date = parsedate_to_datetime(text or "")
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
