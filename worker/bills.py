"""What calls may have cost at most, where nobody knows what they did cost."""

from __future__ import annotations

from collections.abc import Callable

from worker.core.amounts import Amount, Bound, at_most
from worker.core.outcome import Outcome
from worker.core.tokens import Size
from worker.ports import Work
from worker.upstreams import Admission, Upstreams


def of_call(admission: Admission, outcome: Outcome) -> Amount | None:
    """Give what an ended call may have taken, if it does not say what it took."""
    if outcome.tells_tokens:
        return None
    upstream = admission.upstream
    return at_most(upstream.price, upstream.meter.estimate, admission.size)


def of_lost(upstreams: Upstreams) -> Callable[[Work], Bound]:
    """Give what bounds the call of another owner that nobody has seen the end of: as if this worker had made it."""

    def bound(work: Work) -> Bound:
        alias, _ = upstreams.resolve(work.prompt.model)
        upstream = next((one for one in upstreams.all if one.alias == alias), None)
        if upstream is None:
            return Bound()
        most = at_most(upstream.price, upstream.meter.estimate, Size.of(work.prompt.messages, work.prompt.params))
        return Bound(most.usd if upstream.price else None, most.tokens)

    return bound
