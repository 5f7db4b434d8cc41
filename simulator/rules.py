"""Which rule of a script a call falls under: a pure decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulator import draws
from simulator.calls import Call
from simulator.script import Match, Rule, Script


@dataclass(frozen=True, slots=True)
class Moment:
    """What a match may look at besides the call: seconds since start or reset, the seed, hits of each rule."""

    elapsed: float
    seed: str
    hits: Mapping[str, int]


def rule_for(script: Script, call: Call, moment: Moment) -> Rule:
    """The first rule that matches, else the default one: a good answer."""
    for rule in script.rules:
        if matches(rule, call, moment):
            return rule
    return script.default_rule


def matches(rule: Rule, call: Call, moment: Moment) -> bool:
    """Whether every condition of a rule holds."""
    match = rule.match
    return (
        _asked_matches(match, call)
        and _in_time(match, moment.elapsed)
        and (match.times is None or moment.hits.get(rule.name, 0) < match.times)
        and (match.probability is None or chance(rule, call, moment.seed) < match.probability)
    )


def chance(rule: Rule, call: Call, seed: str) -> float:
    """The call's draw for one rule, above 0 and below 1, fixed by seed, rule, id and number."""
    return draws.unit(seed, rule.name, call.id, call.number)


def _asked_matches(match: Match, call: Call) -> bool:
    return (
        (match.ids is None or call.id in match.ids)
        and (match.id_prefix is None or call.id.startswith(match.id_prefix))
        and (match.attempts is None or call.number in match.attempts)
        and (match.model is None or match.model == call.model)
        and (match.param is None or match.param in call.params)
        and (match.prompt_chars_over is None or len(call.prompt) > match.prompt_chars_over)
        and (match.prompt_contains is None or match.prompt_contains in call.prompt)
    )


def _in_time(match: Match, elapsed: float) -> bool:
    started = match.after_s is None or elapsed >= match.after_s
    return started and (match.until_s is None or elapsed < match.until_s)
