"""The C library's allocator, told that one arena is enough."""

from __future__ import annotations

import ctypes

# M_ARENA_MAX of glibc's malloc.h.
_ARENA_MAX = -8


def share_one_arena() -> bool:
    """Let all threads allocate from one arena; says whether the C library took it. Call it before any thread starts.

    Messages are allocated by the Kafka client's threads and freed by ours. With arenas of their own, what is free in
    one is of no use to the others, and a worker with a deep backlog keeps 10 MB and more that it does not need.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_ARENA_MAX, 1))
    except (AttributeError, OSError, TypeError):
        # Another C library than glibc.
        return False
