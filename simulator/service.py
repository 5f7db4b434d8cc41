"""The endpoint's state: script, clock, counts, limits and ledger, and what they decide about a call."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from simulator import draws, refusals, rules
from simulator.admission import Admission
from simulator.calls import Call
from simulator.ledger import Ledger
from simulator.replies import Reply
from simulator.script import Rule, Script
from simulator.settings import Settings
from simulator.stats import Stats

_COUNTED_HEADERS = ("authorization", "x-api-key", "api-key", "idempotency-key", "traceparent")


class Service:
    """One simulated endpoint. Used from the event loop only."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.get_running_loop()
        self._default_latency = settings.latency_ms / 1000
        self._settings_seed = settings.seed
        self._hits: Counter[str] = Counter()
        self.connections = 0
        self.ledger = Ledger(settings.ledger) if settings.ledger else None
        self.script = settings.script
        self.reset()

    def reset(self) -> None:
        """Sets counts, clock, limits and rule hits to their start; the script stays, open calls go on uncounted."""
        self._started = self._loop.time()
        self.stats = Stats()
        self.use(self.script)

    def use(self, script: Script) -> None:
        """Takes another script: its limits and the hits of its rules begin empty, the clock goes on."""
        self.script = script
        self._seed = self._settings_seed if script.seed is None else script.seed
        self._hits.clear()
        self.admission = Admission(script, self._started)

    def count_headers(self, headers: dict[str, str]) -> None:
        """Counts the presence, never the value, of a few headers."""
        for name in _COUNTED_HEADERS:
            if name in headers:
                self.stats.headers[name] += 1

    def turn_away(self, call: Call, headers: dict[str, str]) -> tuple[Reply, str] | None:
        """The reply and outcome of a call that reaches no rule, or None."""
        reply = refusals.refuse_key(self.script, headers) or refusals.refuse_call(self.script, call)
        if reply is not None:
            return reply, "refused"
        over = self.admission.refuse(call)
        return None if over is None else (refusals.refuse_over_limit(over, time.time()), "limited")

    def pick(self, call: Call) -> Rule:
        """The rule that holds for the call, counted as hit."""
        moment = rules.Moment(self._loop.time() - self._started, self._seed, self._hits)
        rule = rules.rule_for(self.script, call, moment)
        self._hits[rule.name] += 1
        self.stats.rules[rule.name] += 1
        return rule

    def latency(self, rule: Rule, call: Call) -> float:
        """Seconds until the first byte of the call's reply."""
        latency = rule.action.latency_ms
        if latency is None:
            return self._default_latency
        return latency.seconds(draws.unit(self._seed, "latency", call.id, call.number))

    def close(self) -> None:
        """Closes the ledger."""
        if self.ledger is not None:
            self.ledger.close()
