"""One prompt from its claim to its end, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from schemas.statuses import Billed, Reason, Status
from tests.fakes.endpoint import FakeEndpoint, Handler, answer, completion, error, reply, script, text_of
from tests.fakes.fleet import half, upstream, upstreams
from tests.fakes.samples import work
from tests.fakes.store import FakeStore, Row, Tables
from tests.fakes.telemetry import FakeTelemetry
from tests.fakes.virtual_time import now, settle, virtual, wall
from worker.asking import Asker
from worker.core.batch import BatchRule
from worker.core.outcome import Kind, Outcome
from worker.core.reply import Break, Broken, Reply
from worker.core.rows import AttemptRow, FinishedRow
from worker.errors import FencedError, StoreUnavailableError, WrongSettingsError
from worker.ports import Request, Work
from worker.upstreams import Upstreams
from worker.writer import Writer

SCHEMA = {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}
LABELLED = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


class Desk:
    """An asker at one endpoint, and the ledger it fills."""

    def __init__(
        self, handler: Handler, *, latency: float = 0.0, some: Upstreams | None = None, **fields: Any
    ) -> None:
        self.endpoint = FakeEndpoint(handler, latency, nowhere=fields.pop("nowhere", False))
        self.upstreams = some or upstreams(upstream(self.endpoint))
        self.store = FakeStore(Tables(wall), "a")
        self.telemetry = FakeTelemetry()
        self.writer = Writer(self.store, BatchRule(), self.telemetry, half)
        outage = fields.pop("outage", 86_400.0)
        self.asker = Asker(self.upstreams, self.writer, self.telemetry, wall=wall, jitter=half, outage=outage)

    async def ask(self, one: Work) -> FinishedRow:
        if one.claim is None:
            (one.claim,) = await self.store.claim([one])
        self.asker.expect(one)
        writing = asyncio.create_task(self.writer.run())
        try:
            row, line = await self.asker.ask(one)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await self.writer.flush()
        await self.store.finish([row], [line])
        return row

    def lines(self, one: Work) -> list[Row]:
        return self.store.tables.calls(one.key)

    def waits(self) -> list[float]:
        times = [asked.at for asked in self.endpoint.asked]
        return [after - before for before, after in pairwise(times)]

    @property
    def requests(self) -> list[Request]:
        return [asked.request for asked in self.endpoint.asked]


@virtual
async def test_a_good_answer_is_one_call() -> None:
    desk, one = Desk(lambda _: answer("Yes"), latency=2.5), work(run="run-3")
    row = await desk.ask(one)
    assert (row.status, row.reason, row.result, row.retry_count) == (Status.SUCCEEDED, None, "Yes", 0)
    assert (row.latency_ms, row.model, row.endpoint) == (2500, "small", "vllm-a:8000")
    (line,) = desk.lines(one)
    assert (line["attempt"], line["outcome"], line["billed"], line["run"]) == (1, "answered", "yes", "run-3")
    assert (line["finished_at"] - line["started_at"]).total_seconds() == pytest.approx(2.5)
    assert desk.asker.asking == 0


@virtual
async def test_a_request_is_what_the_message_asks() -> None:
    desk = Desk(lambda _: answer())
    await desk.ask(work("r-1", "Why?", params={"max_tokens": 5}, response_format={"type": "text"}))
    (request,) = desk.requests
    assert (request.id, request.attempt, request.model) == ("r-1", 1, "small-7b")
    assert list(request.messages) == [{"role": "user", "content": "Why?"}]
    assert (request.params, request.response_format) == ({"max_tokens": 5}, {"type": "text"})


@virtual
async def test_a_name_that_is_no_alias_goes_to_the_only_endpoint_as_it_is() -> None:
    endpoint = FakeEndpoint(lambda _: answer())
    desk = Desk(lambda _: answer(), some=upstreams(upstream(endpoint), passes_unknown=True))
    row = await desk.ask(work(model="gpt-x"))
    assert endpoint.asked[0].request.model == "gpt-x"
    assert row.model == "gpt-x"


@virtual
async def test_numbers_of_calls_go_on_where_the_last_claim_ended() -> None:
    desk, one = Desk(script(error(400, "bad"), answer())), work(offset=1)
    await desk.ask(one)
    again = work(offset=2)
    await desk.ask(again)
    assert [line["attempt"] for line in desk.lines(one)] == [1, 2]


@virtual
async def test_retries_wait_as_the_table_says_and_each_call_has_its_line() -> None:
    desk, one = Desk(script(error(500), error(502), error(429), answer())), work()
    await answer_another(desk)
    row = await desk.ask(one)
    assert (row.status, row.retry_count) == (Status.SUCCEEDED, 3)
    assert [(line["attempt"], line["http_status"], line["billed"]) for line in desk.lines(one)] == [
        (1, 500, Billed.NO),
        (2, 502, Billed.NO),
        (3, 429, Billed.NO),
        (4, 200, Billed.YES),
    ]
    assert desk.waits()[-3:] == pytest.approx([0.75, 1.5, 3.0], abs=0.01)
    assert desk.telemetry.retries == {"server_error": 2, "rate_limited": 1}


async def answer_another(desk: Desk) -> None:
    """Let the endpoint answer somebody, so that what follows is the row's own trouble; and go on doing so."""
    handler = desk.endpoint.handler
    desk.endpoint.handler = lambda request: answer() if request.id.startswith("other") else handler(request)
    await desk.ask(work("other-0"))

    async def others() -> None:
        for nth in range(1, 100_000):
            await asyncio.sleep(0.5)
            desk.upstreams.all[0].circuit.saw(Outcome(Kind.ANSWERED), now())
            assert nth

    desk.keeps_answering = asyncio.create_task(others())  # type: ignore[attr-defined]
    await settle()


@virtual
async def test_a_row_that_fails_while_others_are_answered_is_given_up_after_three_retries() -> None:
    desk, one = Desk(lambda _: error(500)), work()
    await answer_another(desk)
    row = await desk.ask(one)
    assert (row.status, row.reason, row.retry_count) == (Status.FAILED, Reason.SERVER_ERROR, 3)
    assert row.error_msg == "trouble, status 500"
    assert len(desk.lines(one)) == 4


@pytest.mark.parametrize(
    ("broken", "reason", "calls"),
    [
        (Broken(Break.TIMEOUT, "ReadTimeout"), Reason.TIMEOUT, 2),
        (reply(200, {}), Reason.MALFORMED_RESPONSE, 2),
        (Broken(Break.OVERSIZE, "response_too_large"), Reason.MALFORMED_RESPONSE, 2),
    ],
)
def test_what_may_be_billed_is_repeated_once_even_while_nobody_is_answered(
    broken: Reply | Broken, reason: Reason, calls: int
) -> None:
    @virtual
    async def asked() -> None:
        desk, one = Desk(lambda _: broken), work()
        row = await desk.ask(one)
        assert (row.status, row.reason) == (Status.FAILED, reason)
        assert [line["billed"] for line in desk.lines(one)] == [Billed.MAYBE] * calls

    asked()


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (error(400, "bad"), Reason.REJECTED_REQUEST),
        (error(413), Reason.TOO_LONG),
        (error(422), Reason.REJECTED_REQUEST),
        (error(400, "content_filter"), Reason.FILTERED),
        (error(400, "context_length_exceeded"), Reason.TOO_LONG),
        (reply(200, completion("Ye", "length")), Reason.TRUNCATED),
        (reply(200, completion(None, "content_filter")), Reason.FILTERED),
        (reply(200, completion(None, refusal="I cannot.")), Reason.REFUSED),
        (reply(200, completion("")), Reason.INVALID_OUTPUT),
    ],
)
def test_what_is_final_is_one_call(refusal: Reply, reason: Reason) -> None:
    @virtual
    async def asked() -> None:
        desk, one = Desk(lambda _: refusal), work()
        row = await desk.ask(one)
        assert (row.status, row.reason, len(desk.lines(one))) == (Status.FAILED, reason, 1)

    asked()


@virtual
async def test_one_key_for_all_tries_of_a_request_and_another_for_another_request() -> None:
    desk = Desk(script(error(500), error(500), answer()))
    await desk.ask(work("r-1", "Why?"))
    await desk.ask(work("r-1", "Who?"))
    await desk.ask(work("r-2", "Why?"))
    keys = [request.idempotency_key for request in desk.requests]
    assert len(keys) == 5
    assert len(set(keys[:3])) == 1
    assert len(set(keys)) == 3


@virtual
async def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_its_fault() -> None:
    desk = Desk(script(answer('{"label": 7}'), answer('{"label": "a"}')))
    one = work(response_format=LABELLED)
    row = await desk.ask(one)
    assert (row.status, row.result_json, row.retry_count) == (Status.SUCCEEDED, {"label": "a"}, 1)
    first, second = desk.requests
    assert list(second.messages[:2]) == [*first.messages, {"role": "assistant", "content": '{"label": 7}'}]
    assert "at /label" in text_of(second)
    assert first.idempotency_key != second.idempotency_key
    assert [(line["outcome"], line["billed"]) for line in desk.lines(one)] == [("unfit", "yes"), ("answered", "yes")]


@virtual
async def test_an_answer_that_never_fits_is_kept_and_asked_twice_only() -> None:
    desk, one = Desk(lambda _: answer("no JSON")), work(response_format=LABELLED)
    row = await desk.ask(one)
    assert (row.status, row.reason, row.result, row.result_json) == (
        Status.FAILED,
        Reason.INVALID_OUTPUT,
        "no JSON",
        None,
    )
    assert len(desk.lines(one)) == 2


@virtual
async def test_a_body_that_breaks_our_own_reader_is_malformed_and_breaks_nothing_else() -> None:
    desk, one = Desk(lambda _: Reply(200, {}, None)), work()  # type: ignore[arg-type]
    row = await desk.ask(one)
    assert (row.status, row.reason) == (Status.FAILED, Reason.MALFORMED_RESPONSE)


@virtual
async def test_an_address_that_leads_nowhere_is_a_settings_error_that_says_where() -> None:
    desk = Desk(lambda _: error(404), nowhere=True)
    with pytest.raises(WrongSettingsError, match=r"vllm-a:8000.*/v1"):
        await desk.ask(work())


@virtual
async def test_a_404_after_an_answer_or_at_a_right_address_is_only_a_fault_of_the_run() -> None:
    desk = Desk(script(answer(), error(404, "model_not_found"), answer()), nowhere=True)
    await desk.ask(work("r-1"))
    assert (await desk.ask(work("r-2"))).status is Status.SUCCEEDED
    right = Desk(script(error(404, "model_not_found"), answer()), nowhere=False)
    assert (await right.ask(work())).status is Status.SUCCEEDED


@virtual
async def test_the_time_a_server_wants_to_be_left_alone_counts_once_however_many_were_told() -> None:
    limited = error(429, headers={"retry-after": "30"})
    desk = Desk(lambda _: limited if now() < 1030 else answer(), latency=1)
    await asyncio.gather(*(desk.ask(work(f"r-{nth}")) for nth in range(8)))
    assert desk.telemetry.paused_seconds["vllm-a:8000"] == pytest.approx(30, abs=0.1)


@virtual
async def test_a_call_that_is_cut_off_is_recorded_as_perhaps_billed() -> None:
    desk, one = Desk(lambda _: answer(), latency=60), work()
    asking = asyncio.create_task(desk.ask(one))
    await asyncio.sleep(20)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await desk.writer.flush()
    (line,) = desk.lines(one)
    assert (line["outcome"], line["billed"], line["latency_ms"]) == ("abandoned", "maybe", 20_000)
    assert (desk.asker.asking, desk.upstreams.inside) == (0, 0)


@virtual
async def test_a_stop_ends_waits_at_once_and_lets_calls_go_on() -> None:
    desk = Desk(lambda request: error(500) if request.id == "resting" else answer(), latency=60)
    calling, resting = asyncio.create_task(desk.ask(work("calling"))), asyncio.create_task(desk.ask(work("resting")))
    await asyncio.sleep(60.1)
    late = asyncio.create_task(desk.ask(work("late")))
    assert calling.done()
    desk.asker.waits.stop()
    await asyncio.gather(resting, return_exceptions=True)
    assert resting.cancelled()
    await asyncio.sleep(0)
    begun = len(desk.requests)
    await asyncio.gather(late, return_exceptions=True)
    assert len(desk.requests) == begun
    assert desk.asker.asking == 0


@virtual
async def test_after_a_stop_no_call_begins() -> None:
    desk = Desk(lambda _: answer())
    desk.asker.waits.stop()
    asking = asyncio.create_task(desk.ask(work()))
    await asyncio.gather(asking, return_exceptions=True)
    assert asking.cancelled()
    assert desk.requests == []


@virtual
async def test_a_claim_that_is_known_to_be_fenced_makes_no_further_call() -> None:
    desk, one = Desk(lambda _: error(503, headers={"retry-after": "60"}), latency=1), work()
    asking = asyncio.create_task(desk.ask(one))
    await asyncio.sleep(5)
    one.fenced = True
    with pytest.raises(FencedError):
        await asking
    assert len(desk.requests) == 1
    assert (desk.asker.asking, desk.upstreams.inside) == (0, 0)


@virtual
async def test_a_claim_that_may_have_run_out_waits_for_its_renewal_and_holds_no_place() -> None:
    desk, one = Desk(lambda _: answer()), work()
    one.sure_until = now() - 1
    asking = asyncio.create_task(desk.ask(one))
    await asyncio.sleep(30)
    assert (len(desk.requests), desk.upstreams.inside) == (0, 0)
    one.sure_until = now() + 40
    assert (await asking).status == Status.SUCCEEDED
    assert now() - 1000 < 32


@virtual
async def test_a_claim_that_had_run_out_and_was_taken_over_makes_no_call() -> None:
    desk, one = Desk(lambda _: answer()), work()
    one.sure_until = now() - 1
    asking = asyncio.create_task(desk.ask(one))
    await asyncio.sleep(5)
    one.fenced = True
    with pytest.raises(FencedError):
        await asking
    assert (len(desk.requests), desk.asker.asking, desk.upstreams.inside) == (0, 0, 0)


class AwayUntil(FakeStore):
    """A store that takes no ends before an instant."""

    until = 0.0

    async def finish(self, rows: Sequence[FinishedRow], attempts: Sequence[AttemptRow]) -> list[bool]:
        if now() < self.until:
            raise StoreUnavailableError("OperationalError")
        return await super().finish(rows, attempts)


@pytest.mark.parametrize(("first", "waits"), [(Broken(Break.CONNECTION, "x"), True), (error(500), False)])
def test_a_call_that_may_be_billed_is_on_record_before_the_next_one_leaves(
    first: Broken | Reply, waits: bool
) -> None:
    @virtual
    async def asked() -> None:
        desk = Desk(script(first, answer()))
        store = AwayUntil(desk.store.tables, "a")
        store.until = now() + 60
        desk.writer = desk.asker._writer = Writer(store, BatchRule(), desk.telemetry, half)
        await desk.ask(work())
        assert (desk.waits()[0] >= 60) is waits

    asked()


@virtual
async def test_a_clock_that_is_set_back_leaves_waits_and_latencies_alone() -> None:
    desk = Desk(script(error(503, headers={"retry-after": "30"}), answer()), latency=1.0)
    desk.asker._wall = lambda: wall() - 3600
    row = await desk.ask(work())
    assert (row.latency_ms, row.status) == (1000, Status.SUCCEEDED)
    assert 31 <= now() - 1000 < 45
