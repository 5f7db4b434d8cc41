from __future__ import annotations

import json
import math
from typing import Any

import pytest

from simulator.reading import ScriptError, parse_script, read_script
from simulator.script import Action, ConcurrencyLimit, Latency, Match, RateLimit, Script, Trickle


def _problems(value: object) -> list[str]:
    with pytest.raises(ScriptError) as caught:
        read_script(value)
    return caught.value.problems


def test_an_empty_script_and_an_empty_list_answer_everything_well() -> None:
    assert read_script({}) == read_script([]) == Script()


def test_every_field_of_a_match_is_read() -> None:
    match = {
        "ids": ["a", "b:c"],
        "id_prefix": "r-",
        "prompt_contains": "cat",
        "prompt_chars_over": 10,
        "probability": 0.25,
        "attempts": [1, 2],
        "model": "small",
        "param": "max_tokens",
        "after_s": 1,
        "until_s": 2.5,
        "times": 3,
    }
    assert read_script([{"match": match}]).rules[0].match == Match(
        ids=frozenset({"a", "b:c"}),
        id_prefix="r-",
        prompt_contains="cat",
        prompt_chars_over=10,
        probability=0.25,
        attempts=frozenset({1, 2}),
        model="small",
        param="max_tokens",
        after_s=1.0,
        until_s=2.5,
        times=3,
    )


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"latency_ms": 5}, Action(latency_ms=Latency("uniform", 5, 5))),
        ({"latency_ms": {"min": 1, "max": 9}}, Action(latency_ms=Latency("uniform", 1, 9))),
        ({"latency_ms": {"p50": 1, "p99": 9}}, Action(latency_ms=Latency("lognormal", 1, 9))),
        ({"headers": {"Retry-After": " soon", "x": None}}, Action(headers=(("Retry-After", " soon"), ("x", None)))),
        ({"body": "\ud800"}, Action(body=b"\xed\xa0\x80")),
        ({"body_base64": "AP8="}, Action(body=b"\x00\xff")),
        ({"json": None}, Action(json=None)),
        ({"usage": None}, Action(usage=None)),
        ({"finish_reason": None}, Action(finish_reason=None)),
        ({"omit": ["usage"]}, Action(omit=frozenset({"usage"}))),
        ({"chunked": True}, Action(chunked=1024)),
        ({"chunked": 7}, Action(chunked=7)),
        ({"chunked": False}, Action()),
        ({"trickle": {"bytes": 2, "every_ms": 3}}, Action(trickle=Trickle(2, 3.0, "body"))),
        ({"trickle": {"bytes": 2, "every_ms": 3, "from": "head"}}, Action(trickle=Trickle(2, 3.0, "head"))),
        ({"close": "mid_body", "close_after_bytes": 200}, Action(close="mid_body", close_after_bytes=200)),
    ],
)
def test_fields_of_an_action_are_read(given: dict[str, Any], read: Action) -> None:
    assert read_script([given]).rules[0].action == read


def test_limits_are_read() -> None:
    script = read_script(
        {
            "limits": [
                {"requests_per_minute": 600, "window": "bucket", "burst": 10, "retry_after": "ms"},
                {"tokens_per_minute": 5000, "window_s": 1, "count": "prompt", "model": "small"},
                {"max_concurrent": [{"at_s": 0, "max": 64}, {"at_s": 30, "max": 4}], "over": "queue"},
            ],
            "seed": 7,
        }
    )
    requests, tokens = script.rates
    assert (requests.unit, requests.amount, requests.burst, requests.retry_after.form) == ("requests", 600, 10, "ms")
    assert tokens == RateLimit("tokens", 5000, "sliding", 1.0, None, "small", "prompt")
    assert script.concurrency == (ConcurrencyLimit(((0.0, 64), (30.0, 4)), "queue"),)
    assert script.seed == "7"


def test_every_problem_is_named_at_once_with_its_path() -> None:
    script = {
        "rules": [
            {"match": {"probability": 2, "idz": []}, "status": "500"},
            {"latency_ms": {"min": 5, "max": 1}, "close": "sometimes", "hang": 1},
            {"trickle": {"bytes": 0}},
        ],
        "limits": [{"requests_per_minute": 5, "burst": 2}, {}, {"max_concurrent": [{"at_s": 1, "max": 2}]}],
        "api_key": [],
    }
    assert _problems(script) == [
        "rules[0].match.probability: must be a number from 0 to 1, got 2",
        "rules[0].match.idz: unknown field, did you mean ids?",
        "rules[0].status: must be a whole number from 200 to 599, got '500'",
        "rules[1].latency_ms: needs min and max, the first not above the second",
        "rules[1].close: must be one of before_request, after_request, mid_headers, mid_body, got 'sometimes'",
        "rules[1].hang: must be true or false, got 1",
        "rules[2].trickle.bytes: must be a whole number of at least 1, got 0",
        "rules[2].trickle: needs bytes and every_ms",
        "limits[0].burst: needs window: bucket",
        "limits[1]: needs exactly one of requests_per_minute, tokens_per_minute, max_concurrent",
        "limits[2].max_concurrent: at_s must begin at 0 and rise",
        "api_key: unknown field, did you mean api_keys?",
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (5, ": must be an object, got 5"),
        ({"rules": {}}, "rules: must be a list of rules"),
        ({"limits": 5}, "limits: must be a list of limits"),
        ([{"body": "", "json": 1}], "rules[0]: body and json exclude each other, keep one"),
        ([{"json": None, "error": {}}], "rules[0]: json and error exclude each other, keep one"),
        ([{"hang": True, "close": "mid_body"}], "rules[0]: hang and close exclude each other, keep one"),
        ([{"close_after_bytes": 5}], "rules[0].close_after_bytes: needs close: mid_body"),
        ([{"match": {"after_s": 5, "until_s": 5}}], "rules[0].match: until_s must be above after_s"),
        ([{"latency_ms": math.inf}], "rules[0].latency_ms: must be a number of at least 0, got inf"),
        ([{"latency_ms": True}], "rules[0].latency_ms: must be a number of at least 0, got True"),
        ([{"latency_ms": {"p50": 5}}], "rules[0].latency_ms: needs p50 and p99, the first not above the second"),
        ([{"headers": {"x": 1}}], "rules[0].headers.x: must be a string, got 1"),
        ([{"match": {"ids": "a"}}], "rules[0].match.ids: must be a list, got 'a'"),
        ([{"match": {"attempts": [0]}}], "rules[0].match.attempts[0]: must be a whole number of at least 1, got 0"),
        (
            {"limits": [{"max_concurrent": 1}] * 2},
            "limits: give one max_concurrent for all calls, or one for each model",
        ),
        ({"limits": [{"requests_per_minute": 5, "count": "prompt"}]}, "limits[0].count: needs tokens_per_minute"),
    ],
)
def test_a_wrong_script_is_refused(value: object, problem: str) -> None:
    assert _problems(value) == [problem]


def test_an_unknown_field_without_a_near_one_lists_the_known_ones() -> None:
    assert _problems({"zzz": 1}) == [
        "zzz: unknown field; known are api_keys, idle_timeout_s, limits, models, rules, seed"
    ]


@pytest.mark.parametrize("raw", ["", "{", "[" * 100_000, b"\xff"])
def test_text_that_is_no_json_is_refused(raw: str | bytes) -> None:
    with pytest.raises(ScriptError, match="not JSON"):
        parse_script(raw)


def test_names_of_rules_are_kept_and_others_are_numbered() -> None:
    raw = json.dumps([{"name": "outage", "status": 500}, {"status": 503}])
    assert [rule.name for rule in parse_script(raw).rules] == ["outage", "1"]
