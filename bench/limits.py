"""A fleet against a limit: `python -m bench.limits [--workers 1 8] [--seconds 180] [--only NAME]`.

Goodput over the limit once the first 20 s are over, refusals a call, rows lost; told the limit or not; requests and
tokens; sliding, fixed and bucket windows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.rig import Figure, Rig, rig
from tests.fleet import Fleet, prompts, wait_for
from tests.simulated import Simulated, read_ledger, simulated

SETTLING_SECONDS = 20.0
LATENCY_MS = 200
MAX_TOKENS = 300
PROMPT_CHARS = 400


@dataclass(frozen=True)
class Case:
    """One limit; `told` says whether the workers' models file names it. Goals are shares."""

    name: str
    limit: int
    window: str
    told: bool
    unit: str = "requests"
    goodput: float = 0.97
    refused: float = 0.01

    def script(self) -> dict[str, Any]:
        return {"limits": [{f"{self.unit}_per_minute": self.limit, "window": self.window}]}

    def calls_a_minute(self) -> float:
        return self.limit if self.unit == "requests" else self.limit / (PROMPT_CHARS / 4 + MAX_TOKENS)

    def models(self, base_url: str) -> dict[str, Any]:
        endpoint: dict[str, Any] = {"base_url": base_url, "model": "simulated"}
        if self.told:
            endpoint["rpm" if self.unit == "requests" else "tpm"] = self.limit
        return {"models": {"simulated": {"endpoints": [endpoint]}}}


CASES = [
    *(Case(f"told {n} {w}", n, w, told=True) for n in (600, 6000) for w in ("sliding", "fixed", "bucket")),
    Case("told 200000 tokens sliding", 200_000, "sliding", told=True, unit="tokens", goodput=0.9),
    *(Case(f"not told 6000 {w}", 6000, w, told=False, goodput=0.95, refused=0.05) for w in ("bucket", "sliding")),
]


def measure(rig: Rig, case: Case, workers: int, seconds: float) -> Iterator[Figure]:
    """Run a fleet against a limit for a while and read the endpoint's ledger."""
    ledger = rig.folder / f"{case.name.replace(' ', '-')}-{workers}.jsonl"
    with simulated(case.script(), latency_ms=LATENCY_MS, ledger=ledger) as endpoint:
        calls = _run(rig, case, workers, seconds, endpoint, ledger)
    began = min(call["t_start"] for call in calls)
    # A limit that nobody told is found by meeting it: what came before counts, the burst with its wait.
    since = began + (SETTLING_SECONDS if case.told else 0.0)
    until = began + SETTLING_SECONDS + seconds
    answers = sum(1 for call in calls if call["status"] == 200 and since <= call["t_start"] < until)
    refusals = sum(1 for call in calls if call["status"] == 429)
    others = len(calls) - refusals - sum(1 for call in calls if call["status"] == 200)
    goodput = answers / ((until - since) / 60) / case.calls_a_minute()
    name = f"{case.name}, {workers} workers"
    yield Figure(f"4/5 goodput / limit, {name}", goodput, f">= {case.goodput}", goodput >= case.goodput)
    share = refusals / len(calls)
    yield Figure(f"4/5 429s a call, {name}", share, f"<= {case.refused}", share <= case.refused)
    yield Figure(f"6 calls neither answered nor refused, {name}", others, "0", others == 0)


def _run(
    rig: Rig, case: Case, workers: int, seconds: float, endpoint: Simulated, ledger: Path
) -> list[dict[str, Any]]:
    models = rig.folder / f"{ledger.stem}.yaml"
    models.write_text(yaml.safe_dump(case.models(endpoint.base_url)))
    made = Fleet(rig.stack.kafka.bootstrap_servers, rig.stack.postgres.url, rig.folder, endpoint.base_url)
    made.settings = {"MODELS_FILE": str(models), "LLM_BASE_URL": ""}
    made.prepare(partitions=12)
    rows = round(case.calls_a_minute() * (seconds + SETTLING_SECONDS + 60) / 60)
    body = {"params": {"max_tokens": MAX_TOKENS}}
    made.publish(message | body for message in prompts(rows, PROMPT_CHARS))
    try:
        made.start(workers)
        wait_for(lambda: ledger.exists() and ledger.stat().st_size, 60)
        wait_for(lambda: _spans(ledger, SETTLING_SECONDS + seconds + 1), seconds + 120)
        failed = made.statuses() - Counter({("succeeded", None): rows, ("claimed", None): rows})
        assert not failed, f"no row may be lost to a limit: {failed}"
    finally:
        made.close()
    # What the kill of the workers cut off says nothing.
    return [call for call in read_ledger(ledger) if call["outcome"] != "client_gone"]


def _spans(ledger: Path, seconds: float) -> bool:
    with ledger.open("rb") as file:
        first = json.loads(file.readline())
        file.seek(max(0, ledger.stat().st_size - 4096))
        last = file.read().splitlines()[-2:-1]
    return bool(last) and json.loads(last[0])["t_start"] - first["t_start"] >= seconds


def main() -> int:
    """Measure, print, and say by the exit code whether every goal is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    figures: list[Figure] = []
    with rig() as made:
        for case in CASES:
            for workers in asked.workers if case.name.startswith(asked.only) else []:
                for figure in measure(made, case, workers, asked.seconds):
                    print(figure, flush=True)
                    figures.append(figure)
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
