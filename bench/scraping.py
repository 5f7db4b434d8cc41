"""A hundred scrapers as one cheap process: `python -m bench.scraping PORT [--fresh]`; ends when one is turned away.

Each asks once a second, evenly spread, with the words of Prometheus, and keeps its connection as Prometheus does;
with `--fresh` it takes a new one each time.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import cast

# The cheapest loop: what the scrapers themselves use of this machine is not the worker's cost.
import uvloop

SCRAPERS = 100
_REQUEST = (
    b"GET /metrics HTTP/1.1\r\nHost: worker:9400\r\nUser-Agent: Prometheus/3.5.0\r\n"
    b"Accept: text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\nAccept-Encoding: gzip\r\n"
    b"X-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n"
)
_PATIENCE_SECONDS = 10
_LENGTH = b"\r\nContent-Length: "


class Scraper(asyncio.Protocol):
    """One who asks each second, and throws away what is answered."""

    def __init__(self, port: int, fresh: bool) -> None:
        self._port = port
        self._fresh = fresh
        self._transport: asyncio.Transport | None = None
        self._missing = 0
        self._asked = False

    async def run(self, begin: float) -> None:
        """Ask for ever, from `begin` seconds on; raises `TimeoutError` if Prometheus would give up."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(begin)
        due = asked = loop.time()
        while True:
            if not self._asked:
                asked = due
                await self._ask(loop)
            elif due - asked > _PATIENCE_SECONDS:
                raise TimeoutError(f"no answer within {_PATIENCE_SECONDS} s")
            due += 1
            await asyncio.sleep(due - loop.time())

    async def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asked = True
        if self._transport is None or self._transport.is_closing():
            await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        assert self._transport is not None
        self._transport.write(_REQUEST)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self._missing = 0
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Count down to the end of the answer."""
        if self._missing == 0:
            assert data.startswith(b"HTTP/1.1 200 "), data[:100]
            head, _, data = data.partition(b"\r\n\r\n")
            self._missing = int(head.partition(_LENGTH)[2].partition(b"\r\n")[0])
        self._missing -= len(data)
        if self._missing == 0:
            self._asked = False
            if self._fresh and self._transport is not None:
                self._transport.close()


async def scrape(port: int, fresh: bool) -> None:
    """Be the hundred."""
    await asyncio.gather(*(Scraper(port, fresh).run(number / SCRAPERS) for number in range(SCRAPERS)))


def main() -> int:
    """Scrape until killed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("port", type=int)
    arguments.add_argument("--fresh", action="store_true")
    chosen = arguments.parse_args()
    uvloop.run(scrape(chosen.port, chosen.fresh))
    return 1


if __name__ == "__main__":
    sys.exit(main())
