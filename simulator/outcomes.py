"""How a call counts: its outcome in one word, whether a status line goes out, whether it is billed."""

from __future__ import annotations

from simulator.replies import Reply
from simulator.script import Action

_CLOSED = {"before_request": "closed_before_request", "after_request": "closed_after_request"}


def outcome_of(action: Action, reply: Reply) -> str:
    """The outcome if the client stays: answered, error, redirected, or the fault the script asked for."""
    if action.hang:
        return "hung"
    if action.close in ("mid_headers", "mid_body"):
        return "cut"
    if action.close is not None:
        return _CLOSED[action.close]
    if action.reset:
        return "reset"
    if reply.status < 300:
        return "answered"
    return "redirected" if reply.status < 400 else "error"


def sends_status(action: Action) -> bool:
    """Whether a whole head with a status line leaves for the client."""
    silent = action.hang or (action.reset and action.close is None)
    return not silent and action.close in (None, "mid_body")


def is_billed(action: Action, reply: Reply) -> bool:
    """Whether a provider would charge: a 2xx that was generated, received or not; `bill` overrides."""
    if action.bill is not None:
        return action.bill
    unanswered = action.hang or action.close in ("before_request", "after_request")
    unanswered = unanswered or (action.reset and action.close is None) or action.error is not None
    return reply.status < 300 and not unanswered
