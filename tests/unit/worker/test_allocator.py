"""Threads that allocate share one arena, as the C library itself tells."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Eight threads that hold memory at the same time, and what the allocator says of its arenas.
PROGRAM = """
import ctypes, sys, threading
from worker.allocator import share_one_arena
if sys.argv[1] == "share" and not share_one_arena():
    sys.exit("refused")
met = threading.Barrier(9)
def hold():
    kept = [bytes(10_000 + n) for n in range(200)]
    met.wait()
    met.wait()
threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads:
    thread.start()
met.wait()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
met.wait()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc")
def test_threads_share_one_arena() -> None:
    arenas = {}
    for way in ("share", "leave"):
        ended = subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True)
        arenas[way] = ended.stdout.count("<heap nr=")
    assert arenas["share"] == 1 < arenas["leave"]
