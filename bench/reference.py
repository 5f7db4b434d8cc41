"""The bare loop that the worker is compared with: same client, same transport; no Kafka, no retries, no store.

`python -m bench.reference BASE_URL IN_FLIGHT ROWS` prints CPU milliseconds a request, start-up and ramp left out.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator

import httpx
import uvloop

from bench.rig import PROMPT_CHARS
from worker.endpoint import make_transport


async def loop(base_url: str, in_flight: int, rows: int) -> float:
    """Ask `rows` prompts, `in_flight` at once; gives CPU milliseconds a request."""
    client = httpx.AsyncClient(transport=make_transport(), timeout=httpx.Timeout(120), trust_env=False)
    numbers = iter(range(rows))
    started: list[float] = []

    async def ask_all(numbers: Iterator[int]) -> None:
        for number in numbers:
            if number == rows // 5:
                started.append(time.process_time())
            prompt = f"What of {number}? ".ljust(PROMPT_CHARS, ".")
            body = json.dumps({"model": "simulated", "messages": [{"role": "user", "content": prompt}]})
            response = await client.post(f"{base_url}/chat/completions", content=body)
            assert response.json()["choices"][0]["message"]["content"]

    await asyncio.gather(*(ask_all(numbers) for _ in range(in_flight)))
    used = time.process_time() - started[0]
    await client.aclose()
    return 1000 * used / (rows - rows // 5)


def main() -> None:
    """Measure once."""
    base_url, in_flight, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(uvloop.run(loop(base_url, in_flight, rows)))


if __name__ == "__main__":
    main()
