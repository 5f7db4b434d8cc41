"""What the producer says on its way, on standard error: standard output is for its last line."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Write one line for people."""
    sys.stderr.write(f"producer: {text}\n")
    sys.stderr.flush()
