"""What a reply means for its prompt, and whether its answer fits the schema that was asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable

from schemas.message import Prompt
from schemas.statuses import Billed, Reason
from worker.core.classify import classify
from worker.core.outcome import Kind, Outcome
from worker.core.output import checked, schema_of, wants_json
from worker.core.reply import Broken, Reply
from worker.validation import Checks

log = logging.getLogger(__name__)


class Judge:
    """Turns replies into outcomes; `wall` gives Unix time, for dates in headers."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._checks = Checks()

    def __call__(self, prompt: Prompt, reply: Reply | Broken) -> tuple[Outcome, str]:
        """Give the outcome, and what is wrong with an answer that does not fit its schema; never raises."""
        try:
            return self._checked(prompt, classify(reply, self._wall()))
        except Exception as error:
            # A body that breaks our own reader must not take the other calls of this worker with it.
            log.exception("answer.unreadable", extra={"id": prompt.id, "what": type(error).__name__})
            return Outcome(Kind.MALFORMED, Reason.MALFORMED_RESPONSE, Billed.MAYBE, code=type(error).__name__), ""

    def _checked(self, prompt: Prompt, outcome: Outcome) -> tuple[Outcome, str]:
        if not wants_json(prompt.response_format):
            return outcome, ""
        return checked(outcome, self._checks.of(schema_of(prompt.response_format)))
