"""Calls that are turned away before any rule is asked: bad body, wrong key, unknown model, limits."""

from __future__ import annotations

import math
from email.utils import formatdate

from simulator import errors
from simulator.calls import Call
from simulator.limits import Refusal
from simulator.replies import Headers, Reply, json_reply
from simulator.script import ConcurrencyLimit, RetryAfter, Script

_BEARER = "bearer "


def refuse_key(script: Script, headers: dict[str, str]) -> Reply | None:
    """A 401 unless the request carries one of the script's keys as its bearer token."""
    if script.api_keys is None:
        return None
    given = headers.get("authorization", "")
    if given[: len(_BEARER)].lower() == _BEARER and given[len(_BEARER) :] in script.api_keys:
        return None
    return json_reply(401, errors.body(401, {}))


def refuse_call(script: Script, call: Call) -> Reply | None:
    """A 400 for a body that cannot be answered, a 404 for a model that is not served."""
    if call.problem:
        return json_reply(400, errors.invalid(call.problem))
    if script.models is not None and call.model not in script.models:
        return json_reply(404, errors.no_such_model(call.model))
    return None


def refuse_over_limit(refusal: Refusal, wall_time: float) -> Reply:
    """A 429 or 503 that says when to come back; `wall_time` is seconds since 1970."""
    limit = refusal.limit
    headers = retry_headers(limit.retry_after, refusal.wait, wall_time)
    if isinstance(limit, ConcurrencyLimit):
        status = 503 if limit.over == "503" else 429
        return json_reply(status, errors.body(status, {}), headers)
    return json_reply(429, errors.body(429, {"type": limit.unit}), headers)


def retry_headers(how: RetryAfter, wait: float, wall_time: float) -> Headers:
    """The headers for a wait in seconds; never shorter than the wait, at most rounded up to the unit."""
    if how.form == "none":
        return []
    if how.form == "date":
        return [("Retry-After", formatdate(math.ceil(wall_time + wait), usegmt=True))]
    if how.form == "fraction":
        return [("Retry-After", f"{math.ceil(wait * 1000) / 1000:.3f}")]
    seconds = ("Retry-After", str(math.ceil(wait)))
    return [("retry-after-ms", str(math.ceil(wait * 1000))), seconds] if how.form == "ms" else [seconds]
