"""One prompt from its claim to its end: call, judge, wait and call again."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime

from schemas.statuses import Billed
from worker import bills
from worker.core.idempotency import idempotency_key
from worker.core.outcome import Kind, Outcome
from worker.core.output import asked_again
from worker.core.retry import Again, End, Spent, decide
from worker.core.room import Crowd
from worker.core.rows import AttemptRow, Call, FinishedRow, ended, ledger_line
from worker.core.tokens import Size
from worker.door import Door
from worker.errors import WithdrawnError, WrongSettingsError
from worker.interrupting import Interruptions
from worker.judge import Judge
from worker.ports import Recorder, Request, Telemetry, Work
from worker.retries import Retries
from worker.talk import Talk
from worker.upstreams import Admission, Upstream, Upstreams

# For a row's first failure, the endpoint counts as answering when anybody has had an answer this lately.
_ANSWERS_LATELY_SECONDS = 30.0
# A claim that may have run out waits this long between looks at whether it has been renewed.
_UNSURE_SECONDS = 1.0


class Asker:
    """Asks the endpoints.

    `wall` gives Unix time, `jitter` numbers in [0, 1); `outage` is the longest wait in seconds. For one event loop.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        writer: Recorder,
        telemetry: Telemetry,
        *,
        wall: Callable[[], float],
        jitter: Callable[[], float],
        outage: float,
    ) -> None:
        self._upstreams = upstreams
        self._writer = writer
        self._telemetry = telemetry
        self._wall = wall
        self._jitter = jitter
        self._outage = outage
        self._judge = Judge(wall)
        # Where the prompts in hand are, and who is told when there are fewer at the endpoints or waiting there.
        self.crowd = Crowd()
        self._retries: defaultdict[str, Retries] = defaultdict(Retries)
        self.fewer: Callable[[], None] = lambda: None
        self.waits = Interruptions()
        self.door = Door(upstreams, self.waits)

    async def ask(self, work: Work) -> tuple[FinishedRow, AttemptRow]:
        """Give a prompt's end and the ledger line of its last call; earlier lines are already with the writer.

        Raises `FencedError` before a call that would be made under a claim that is no longer ours, `WithdrawnError`
        before one that would be made against the orders for its run.
        """
        talk = self._talk(work)
        try:
            return await self._until_end(talk)
        except WithdrawnError:
            raise WithdrawnError(talk.retries) from None
        finally:
            self._fewer(work)

    @property
    def asking(self) -> int:
        """Prompts that are at an endpoint or wait for a place there."""
        return self.crowd.asking.total

    def expect(self, work: Work) -> None:
        """Count a prompt that is about to be asked."""
        self.crowd.asking.add(work.record.topic)

    async def _until_end(self, talk: Talk) -> tuple[FinishedRow, AttemptRow]:
        while True:
            outcome, problem, call, others = await self._call(talk)
            line = ledger_line(talk.prompt, talk.claim, call, outcome)
            if problem and not talk.repeated:
                self._repeat(talk, outcome, problem)
                await self._rest(talk, 0.0, self._note(line, "invalid_output"))
                continue
            decision = self._decide(talk, outcome, others)
            if isinstance(decision, End):
                row = ended(talk.prompt, talk.claim, call, outcome, reason=decision.reason, retries=talk.retries)
                return row, line
            counted = decision.spent.retries > talk.spent.retries
            talk.spent, talk.retries = decision.spent, talk.retries + 1
            await self._rest(talk, decision.seconds, self._note(line, outcome.reason or outcome.kind))
            if counted:
                await self._afford_retry(talk)

    async def _afford_retry(self, talk: Talk) -> None:
        """Wait until one more retry keeps them a small part of all calls; meanwhile others may have its place."""
        self._fewer(talk.work)
        try:
            with self.waits.may_end(talk.work):
                await self._retries[talk.alias].afford()
        finally:
            self.expect(talk.work)

    def _fewer(self, work: Work) -> None:
        self.crowd.asking.add(work.record.topic, -1)
        self.fewer()

    async def _rest(self, talk: Talk, seconds: float, recorded: asyncio.Future[bool] | None = None) -> None:
        """Wait out a back-off, and until a call is on record; meanwhile others may have this prompt's place."""
        self._fewer(talk.work)
        try:
            with self.waits.may_end(talk.work):
                await asyncio.sleep(seconds)
                if recorded is not None:
                    await asyncio.shield(recorded)
        except WithdrawnError:
            if recorded is not None:
                await recorded
            raise
        finally:
            self.expect(talk.work)

    def _talk(self, work: Work) -> Talk:
        assert work.claim is not None
        prompt, (alias, model) = work.prompt, self._upstreams.resolve(work.prompt.model)
        size = Size.of(prompt.messages, prompt.params)
        return Talk(work, prompt, work.claim, alias, model, size, prompt.messages, work.claim.attempts, Spent())

    async def _call(self, talk: Talk) -> tuple[Outcome, str, Call, bool]:
        loop = asyncio.get_running_loop()
        while (admission := await self.door.admit(talk)) is None:
            await self._rest(talk, _UNSURE_SECONDS)
        self.crowd.inside.add(talk.work.record.topic)
        try:
            talk.attempt += 1
            started, started_wall = loop.time(), self._wall()
            self._retries[talk.alias].called()
            reply = await admission.upstream.endpoint.ask(self._request(talk, admission))
            outcome, problem = self._judge(talk.prompt, reply)
            await self._check_address(admission.upstream, outcome)
            others = self._report(talk, admission, outcome)
        except asyncio.CancelledError:
            outcome = Outcome(Kind.ABANDONED, billed=Billed.MAYBE)
            call = self._made(talk, admission, outcome, (started_wall, loop.time() - started))
            self._writer.note(ledger_line(talk.prompt, talk.claim, call, outcome))
            raise
        finally:
            self.crowd.inside.add(talk.work.record.topic, -1)
            self._upstreams.leave(admission)
        call = self._made(talk, admission, outcome, (started_wall, loop.time() - started))
        self._telemetry.call(talk.alias, call.endpoint, outcome, call.latency_ms / 1000)
        return outcome, problem, call, others

    def _made(self, talk: Talk, admission: Admission, outcome: Outcome, when: tuple[float, float]) -> Call:
        """Say where and when a call went, and count what it has cost."""
        (started, seconds), upstream = when, admission.upstream
        self.door.settle(admission, outcome)
        return Call(
            attempt=talk.attempt,
            alias=talk.model or talk.alias,
            endpoint=upstream.name,
            started_at=datetime.fromtimestamp(started, UTC),
            finished_at=datetime.fromtimestamp(started + seconds, UTC),
            latency_ms=round(seconds * 1000),
            price=upstream.price,
            most=bills.of_call(admission, outcome),
        )

    async def _check_address(self, upstream: Upstream, outcome: Outcome) -> None:
        """Refuse a base URL whose very first call finds nothing, and which lists no models either."""
        first = outcome.status == 404 and upstream.circuit.last_answer is None
        if first and await upstream.endpoint.leads_nowhere():
            raise WrongSettingsError(
                f"base URL of {upstream.name}: answers 404 to /models and to the first call; "
                "it usually ends in /v1: check LLM_BASE_URL or MODELS_FILE"
            )

    def _report(self, talk: Talk, admission: Admission, outcome: Outcome) -> bool:
        """Tell the endpoint's circuit, and say whether the endpoint has answered others while this row failed."""
        now, upstream = asyncio.get_running_loop().time(), admission.upstream
        paused_until = max(upstream.circuit.paused_until, now)
        admission.saw(outcome)
        if (longer := upstream.circuit.paused_until - paused_until) > 0:
            self._telemetry.paused(upstream.name, longer)
        since = talk.failed_at if talk.failed_at is not None else now - _ANSWERS_LATELY_SECONDS
        talk.failed_at = now
        talk.failing_since = now if talk.failing_since is None else talk.failing_since
        return upstream.circuit.answered_since(since)

    def _request(self, talk: Talk, admission: Admission) -> Request:
        prompt = talk.prompt
        return Request(
            id=prompt.id,
            attempt=talk.attempt,
            idempotency_key=idempotency_key(prompt, repeated=talk.repeated),
            model=talk.model or admission.upstream.model,
            messages=talk.messages,
            params=prompt.params,
            response_format=prompt.response_format,
        )

    def _repeat(self, talk: Talk, outcome: Outcome, problem: str) -> None:
        assert outcome.answer is not None
        talk.repeated, talk.retries = True, talk.retries + 1
        talk.messages = asked_again([*talk.prompt.messages], outcome.answer.text, problem)
        talk.size = Size.of(tuple(talk.messages), talk.prompt.params)

    def _decide(self, talk: Talk, outcome: Outcome, others: bool) -> Again | End:
        since = talk.failing_since
        overdue = since is not None and asyncio.get_running_loop().time() - since > self._outage
        return decide(outcome, talk.spent, jitter=self._jitter(), others_answered=others, overdue=overdue)

    def _note(self, line: AttemptRow, reason: str) -> asyncio.Future[bool] | None:
        """Record a call that is not the last; one that may be paid for gives what the next one has to wait for.

        Otherwise a crash while the store is away would leave two paid calls and one line that says `lost`.
        """
        self._telemetry.retry(reason)
        recorded = self._writer.note(line)
        return None if line.billed is Billed.NO else recorded
