"""Many prompts at an endpoint that is limited, broken or away: who waits, who is given up, what it costs in calls."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from schemas.statuses import Reason, Status
from tests.fakes.endpoint import FakeEndpoint, answer, error
from tests.fakes.fleet import upstream, upstreams
from tests.fakes.samples import work
from tests.fakes.store import FakeStore, Tables
from tests.fakes.telemetry import FakeTelemetry
from tests.fakes.virtual_time import EPOCH, now, virtual, wall
from worker.asking import Asker
from worker.core.batch import BatchRule
from worker.core.reply import Break, Broken, Reply
from worker.core.rows import FinishedRow
from worker.ports import Request
from worker.upstreams import Upstreams
from worker.writer import Writer


def crowd(some: Upstreams, outage: float = 86_400.0, seed: int = 7) -> Asker:
    jitter = random.Random(seed).random
    writer = Writer(FakeStore(Tables(wall), "a"), BatchRule(), FakeTelemetry(), jitter)
    return Asker(some, writer, FakeTelemetry(), wall=wall, jitter=jitter, outage=outage)


async def ask_all(asker: Asker, ids: Sequence[str], at_once: int = 10_000) -> list[FinishedRow]:
    store = FakeStore(Tables(wall), "a")
    works = [work(id_) for id_ in ids]
    for one, claim in zip(works, await store.claim(works), strict=True):
        one.claim = claim

    places = asyncio.Semaphore(at_once)

    async def ask(nth: int) -> FinishedRow:
        async with places:
            asker.expect(works[nth])
            return (await asker.ask(works[nth]))[0]

    assert isinstance(asker._writer, Writer)
    writing = asyncio.create_task(asker._writer.run())
    try:
        return await asyncio.gather(*(ask(nth) for nth in range(len(works))))
    finally:
        writing.cancel()


def ids(count: int) -> list[str]:
    return [f"r-{nth}" for nth in range(count)]


def statuses(rows: Sequence[FinishedRow]) -> Counter[str]:
    return Counter(row.reason or row.status for row in rows)


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        ({"retry-after": "10"}, 10.0),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:17:40 GMT"}, 60.0),
    ],
)
def test_while_a_server_wants_to_be_left_alone_nobody_calls_it(headers: dict[str, str], asked: float) -> None:
    assert EPOCH == 1_767_225_600

    @virtual
    async def asked_() -> None:
        limited_until = now() + asked
        endpoint = FakeEndpoint(lambda _: error(429, headers=headers) if now() < limited_until else answer())
        rows = await ask_all(crowd(upstreams(upstream(endpoint, most=8))), ids(40))
        assert statuses(rows) == {"succeeded": 40}
        during = [call for call in endpoint.asked if 1000 < call.at < limited_until]
        assert during == []
        assert now() <= limited_until + min(max(asked / 4, 0.5), 15) + 1

    asked_()


@virtual
async def test_thirty_who_were_told_the_same_instant_come_back_one_after_the_other() -> None:
    began, allowed = now(), Counter[int]()

    def handler(_request: Request) -> Reply:
        allowed[int(now())] += 1
        limited = now() < began + 10 or allowed[int(now())] > 5
        return error(429, headers={"retry-after": "10"}) if limited else answer()

    endpoint = FakeEndpoint(handler)
    rows = await ask_all(crowd(upstreams(upstream(endpoint, most=30))), ids(30))
    assert statuses(rows) == {"succeeded": 30}
    again = [call.at - began for call in endpoint.asked if call.at > began]
    assert min(again) >= 10
    assert len(endpoint.asked) <= 30 * 4
    assert max(Counter(at for at in again if at < 13).values()) <= 2


@virtual
async def test_one_error_in_ten_costs_at_most_a_fifth_more_calls() -> None:
    chance = random.Random(3)
    endpoint = FakeEndpoint(lambda _: error(500) if chance.random() < 0.1 else answer(), latency=1.0)
    rows = await ask_all(crowd(upstreams(upstream(endpoint))), ids(1000))
    assert statuses(rows) == {"succeeded": 1000}
    assert len(endpoint.asked) <= 1200


@pytest.mark.parametrize(
    "failure", [error(500), error(503), error(502), Broken(Break.NOT_SENT, "ConnectError"), error(429)]
)
def test_an_outage_of_hours_writes_off_no_row_and_is_hardly_called(failure: Reply | Broken) -> None:
    @virtual
    async def outage() -> None:
        back = now() + 6 * 3600
        endpoint = FakeEndpoint(lambda _: failure if now() < back else answer(), latency=0.1)
        rows = await ask_all(crowd(upstreams(upstream(endpoint))), ids(100))
        assert statuses(rows) == {"succeeded": 100}
        during = [call for call in endpoint.asked if call.at < back]
        assert len(during) < 100 + 6 * 60 * 4
        assert now() < back + 120

    outage()


@virtual
async def test_an_outage_that_outlasts_its_hours_expires_what_waited() -> None:
    endpoint = FakeEndpoint(lambda _: Broken(Break.NOT_SENT, "ConnectError"))
    rows = await ask_all(crowd(upstreams(upstream(endpoint)), outage=3600.0), ids(3))
    assert statuses(rows) == {Reason.EXPIRED: 3}
    assert 3600 < now() - 1000 < 3600 * 2


@virtual
async def test_a_brown_out_costs_few_rows_and_an_outage_none() -> None:
    began, chance = now(), random.Random(5)

    def handler(_request: Request) -> Reply:
        minutes = (now() - began) / 60
        bad = (minutes < 10 and chance.random() < 0.3) or 10 <= minutes < 20
        return error(500) if bad else answer()

    endpoint = FakeEndpoint(handler, latency=5.0)
    rows = await ask_all(crowd(upstreams(upstream(endpoint, most=32))), ids(6000))
    assert statuses(rows)["succeeded"] >= 5900
    outage = [call.at for call in endpoint.asked if began + 640 < call.at < began + 1200]
    assert len(outage) < 60
    recovered = [call.at for call in endpoint.asked if call.at >= began + 1200]
    assert min(recovered) <= began + 1260


@virtual
async def test_a_wrong_key_stops_the_calls_and_not_the_data_and_heals_without_a_restart() -> None:
    fixed = now() + 3600
    endpoint = FakeEndpoint(lambda _: error(401, "invalid_api_key") if now() < fixed else answer(), latency=0.2)
    some = upstreams(upstream(endpoint, most=4))
    asking = asyncio.create_task(ask_all(crowd(some), ids(500)))
    await asyncio.sleep(1800)
    assert not some.usable
    assert some.faults == {"vllm-a:8000": "run_fault, status 401, invalid_api_key"}
    assert len(endpoint.asked) < 10 + 1800 / 15
    assert statuses(await asking) == {"succeeded": 500}
    assert now() < fixed + 120
    assert len(endpoint.asked) < 500 + 10 + 3600 / 15


@pytest.mark.parametrize("code", ["unsupported_parameter", "model_not_found", "insufficient_quota"])
def test_faults_of_the_run_by_their_codes_write_off_no_row(code: str) -> None:
    @virtual
    async def asked() -> None:
        endpoint = FakeEndpoint(lambda _: error(400, code))
        some = upstreams(upstream(endpoint, most=4))
        asking = asyncio.create_task(ask_all(crowd(some), ids(1000)))
        await asyncio.sleep(24 * 3600 * 2)
        assert not asking.done()
        assert len(endpoint.asked) < 2 * 24 * 60 + 20
        asking.cancel()

    asked()


@virtual
async def test_one_of_two_endpoints_dead_leaves_the_rest_unaffected() -> None:
    dead = FakeEndpoint(lambda _: Broken(Break.NOT_SENT, "ConnectError"))
    good = FakeEndpoint(lambda _: answer(), latency=1.0)
    some = upstreams(upstream(dead, name="dead", most=8), upstream(good, name="good", most=8))
    rows = await ask_all(crowd(some), ids(400))
    assert statuses(rows) == {"succeeded": 400}
    assert now() - 1000 < 120
    assert len([call for call in dead.asked if call.at > 1010]) < 20


@virtual
async def test_a_poisoned_row_that_fails_for_ever_does_not_hold_back_the_others() -> None:
    endpoint = FakeEndpoint(lambda request: error(500) if request.id == "r-3" else answer(), latency=0.5)
    rows = await ask_all(crowd(upstreams(upstream(endpoint, most=4))), ids(200), at_once=6)
    assert statuses(rows) == {"succeeded": 199, Reason.SERVER_ERROR: 1}
    assert sum(call.request.id == "r-3" for call in endpoint.asked) == 4
    assert now() - 1000 < 60


def fates() -> list[tuple[str, Callable[[], Reply | Broken]]]:
    return [("a", answer), ("b", lambda: error(400)), ("c", lambda: Broken(Break.TIMEOUT, "ReadTimeout"))]


@virtual
async def test_each_of_a_batch_has_its_own_end() -> None:
    by_id = dict(fates())
    endpoint = FakeEndpoint(lambda request: by_id[request.id[0]](), latency=0.1)
    rows = await ask_all(crowd(upstreams(upstream(endpoint))), ["a-1", "b-1", "a-2", "c-1", "a-3"])
    assert [(row.status, row.reason) for row in rows] == [
        (Status.SUCCEEDED, None),
        (Status.FAILED, Reason.REJECTED_REQUEST),
        (Status.SUCCEEDED, None),
        (Status.FAILED, Reason.TIMEOUT),
        (Status.SUCCEEDED, None),
    ]
    assert Counter(call.request.id for call in endpoint.asked)["a-1"] == 1


@virtual
async def test_a_crowd_that_waits_for_retries_costs_little_more_than_its_calls() -> None:
    chance, looks = random.Random(3), Counter[str]()
    endpoint = FakeEndpoint(lambda _: error(500) if chance.random() < 0.5 else answer(), latency=1.0)
    asker = crowd(upstreams(upstream(endpoint, most=128), limit=128))
    asker.fewer = lambda: looks.update(["look"])
    await ask_all(asker, ids(1000), at_once=400)
    assert len(endpoint.asked) > 1500
    assert looks["look"] < 3 * len(endpoint.asked)
