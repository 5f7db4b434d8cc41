"""Ends and ledger lines: fenced, repeatable, and whatever text they hold."""

from __future__ import annotations

import asyncio
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from schemas.statuses import Billed, Status
from schemas.text import clean_json
from tests.contract.stores import StoreHarness
from tests.contract.test_store_claims import claim, finish
from tests.fakes.samples import called, finished, work
from worker.core.claims import Verdict
from worker.ports import Store, Work

HOSTILE = [
    "'; DROP TABLE headrace.results;--",
    '"; DROP TABLE results;--',
    "$1",
    "%s",
    "%(id)s",
    "{x}",
    "\\x00",
    "\\",
    "a\nb",
    "\x1b[31m",
    "\u202e",
    "é",
    "e\u0301",
    "🦊" * 128,
    "NULL",
    "{a,b}",
    '{"a": 1}',
    "x" * 512,
    "\ufffd",
    "\U0010ffff",
]


async def claimed(store: Store, *ids: str) -> list[Work]:
    works = [work(id_) for id_ in ids]
    await claim(store, *works)
    return works


async def test_an_end_is_stored_whole(harness: StoreHarness) -> None:
    store = await harness.store("a")
    (one,) = await claimed(store, "r-1")
    values: dict[str, Any] = {
        "result_json": {"label": "a", "n": [1, None, 2.5]},
        "sanitised": True,
        "finish_reason": "stop",
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "latency_ms": 120,
        "result_length": 3,
        "retry_count": 2,
        "model_answered": "served-1",
        "endpoint": "vllm-a:8000",
        "cost_usd": Decimal("0.000123456789"),
    }
    line = called(one, cost_usd=Decimal("0.000123456789"), detail="said: x")
    assert await store.finish([finished(one, "yes", **values)], [line]) == [True]
    row = await harness.row("r-1")
    assert {name: row[name] for name in values} == values
    assert (row["status"], row["reason"], row["result"], row["error_msg"]) == ("succeeded", None, "yes", None)
    assert (row["worker"], row["claimed_until"]) == ("a", None)
    assert row["completed_at"] >= row["claimed_at"]
    (stored,) = await harness.calls("r-1")
    assert (stored["attempt"], stored["outcome"], stored["http_status"], stored["billed"]) == (
        1,
        "answered",
        200,
        "yes",
    )
    assert (stored["cost_usd"], stored["detail"], stored["worker"]) == (Decimal("0.000123456789"), "said: x", "a")


async def test_what_a_call_may_have_cost_is_kept_until_somebody_knows_what_it_did(harness: StoreHarness) -> None:
    a, b = await harness.store("a"), await harness.store("b")
    (late,) = await claimed(a, "r-1")
    unknown: dict[str, Any] = {"billed": Billed.MAYBE, "prompt_tokens": None, "completion_tokens": None}
    bound = {"cost_bound_usd": Decimal("0.07"), "tokens_bound": 70}
    await a.finish([], [called(late, 1, outcome="timeout", **unknown, **bound)])
    await harness.lapse()
    await claimed(b, "r-1")
    await a.finish([], [called(late, 2, cost_usd=Decimal("0.02"))])
    first, second = await harness.calls("r-1")
    assert {name: first[name] for name in bound} == bound
    assert (second["cost_usd"], second["cost_bound_usd"], second["tokens_bound"]) == (Decimal("0.02"), None, None)


async def test_unknown_is_null_and_not_nothing(harness: StoreHarness) -> None:
    store = await harness.store("a")
    (one,) = await claimed(store, "r-1")
    await store.finish([finished(one, prompt_tokens=None, completion_tokens=None, cost_usd=None)], [called(one)])
    row = await harness.row("r-1")
    assert (row["prompt_tokens"], row["completion_tokens"], row["cost_usd"]) == (None, None, None)


async def test_a_late_writer_changes_nothing(harness: StoreHarness) -> None:
    a, b = await harness.store("a"), await harness.store("b")
    (late,) = await claimed(a, "r-1")
    await harness.lapse()
    (owner,) = await claimed(b, "r-1")
    assert await finish(a, late, "late") is False
    assert (await harness.row("r-1"))["status"] == "claimed"
    assert await finish(b, owner, "theirs") is True
    assert await finish(a, late, "late") is False
    assert (await harness.row("r-1"))["result"] == "theirs"


async def test_the_bill_of_a_late_writer_takes_the_place_of_the_lost_call(harness: StoreHarness) -> None:
    a, b = await harness.store("a"), await harness.store("b")
    (late,) = await claimed(a, "r-1")
    await harness.lapse()
    (owner,) = await claimed(b, "r-1")
    await a.finish([finished(late, "late")], [called(late, 1, prompt_tokens=11)])
    await b.finish([finished(owner, "theirs")], [called(owner, 2)])
    lines = await harness.calls("r-1")
    assert [(line["attempt"], line["outcome"], line["billed"], line["worker"]) for line in lines] == [
        (1, "answered", "yes", "a"),
        (2, "answered", "yes", "b"),
    ]
    assert lines[0]["prompt_tokens"] == 11


async def test_so_does_the_bill_of_the_second_owner_whose_numbers_went_on(harness: StoreHarness) -> None:
    a, b, c = [await harness.store(name) for name in "abc"]
    (first,) = await claimed(a, "r-1")
    await a.finish([], [called(first, 1, outcome="trouble", billed=Billed.NO)])
    await harness.lapse()
    (second,) = await claimed(b, "r-1")
    assert second.claim is not None
    assert second.claim.attempts == 2
    await harness.lapse()
    (third,) = await claimed(c, "r-1")
    assert third.claim is not None
    assert third.claim.attempts == 3
    await b.finish([finished(second, "late")], [called(second, 3)])
    await c.finish([finished(third, "theirs")], [called(third, 4)])
    lines = await harness.calls("r-1")
    assert [(line["attempt"], line["outcome"], line["worker"]) for line in lines] == [
        (1, "trouble", "a"),
        (2, "lost", "a"),
        (3, "answered", "b"),
        (4, "answered", "c"),
    ]


async def test_a_write_whose_answer_was_lost_is_repeated_without_harm(harness: StoreHarness) -> None:
    store = await harness.store("a")
    works = await claimed(store, "r-1", "r-2")
    rows, lines = [finished(one) for one in works], [called(one) for one in works]
    for _ in range(3):
        assert await store.finish(rows, lines) == [True, True]
    assert len(await harness.calls("r-1")) == 1
    assert (await harness.row("r-1"))["result"] == "yes"


async def test_a_repeated_write_does_not_change_what_is_stored(harness: StoreHarness) -> None:
    store = await harness.store("a")
    (one,) = await claimed(store, "r-1")
    await finish(store, one, "first")
    before = await harness.row("r-1")
    assert await finish(store, one, "second") is True
    assert await harness.row("r-1") == before


async def test_a_part_of_a_batch_that_was_written_before_counts_as_stored(harness: StoreHarness) -> None:
    a, b = await harness.store("a"), await harness.store("b")
    stored, taken, new = await claimed(a, "stored", "taken", "new")
    await finish(a, stored)
    await harness.lapse()
    await claimed(b, "taken")
    rows = [finished(one) for one in (taken, stored, new)]
    assert await a.finish(rows, []) == [False, True, True]


async def test_ledger_lines_may_come_alone_and_rows_too(harness: StoreHarness) -> None:
    store = await harness.store("a")
    (one,) = await claimed(store, "r-1")
    assert await store.finish([], [called(one, 1), called(one, 2)]) == []
    assert await store.finish([finished(one)], []) == [True]
    assert await store.finish([], []) == []
    assert [line["attempt"] for line in await harness.calls("r-1")] == [1, 2]


async def test_both_versions_calls_are_in_the_ledger(harness: StoreHarness) -> None:
    store = await harness.store("a")
    old, new = work("r-1", "v1", offset=1), work("r-1", "v2", offset=2)
    await claim(store, old)
    await claim(store, new)
    await store.finish([finished(new, "to v2"), finished(old, "to v1")], [called(new, 1), called(old, 1)])
    assert (await harness.row("r-1"))["result"] == "to v2"
    assert [line["outcome"] for line in await harness.calls("r-1")] == ["answered", "answered"]


async def test_tokens_beyond_four_bytes(harness: StoreHarness) -> None:
    store = await harness.store("a")
    (one,) = await claimed(store, "r-1")
    many: dict[str, Any] = {"prompt_tokens": 3_000_000_000, "completion_tokens": 2**63 - 1}
    await store.finish([finished(one, latency_ms=2**40, result_length=2**40, **many)], [called(one, **many)])
    row = await harness.row("r-1")
    assert (row["prompt_tokens"], row["completion_tokens"], row["latency_ms"]) == (3_000_000_000, 2**63 - 1, 2**40)
    assert (await harness.calls("r-1"))[0]["completion_tokens"] == 2**63 - 1


async def test_ten_thousand_rows_in_one_batch(harness: StoreHarness) -> None:
    store = await harness.store("a")
    works = await claimed(store, *(f"r-{nth}" for nth in range(10_000)))
    rows, lines = [finished(one, f"answer {one.prompt.id}") for one in works], [called(one) for one in works]
    assert await store.finish(rows, lines) == [True] * 10_000
    assert await harness.count() == 10_000
    assert (await harness.row("r-9999"))["result"] == "answer r-9999"


@pytest.mark.parametrize("id_", HOSTILE)
async def test_ids_are_data_and_stay_as_they_are(harness: StoreHarness, id_: str) -> None:
    store = await harness.store("a")
    (one,) = await claimed(store, id_)
    assert await finish(store, one, id_)
    row = await harness.row(id_)
    assert (row["id"], row["result"], row["status"]) == (id_, id_, "succeeded")
    assert [line["id"] for line in await harness.calls(id_)] == [id_]
    assert await harness.count() == 1


async def test_ids_that_look_alike_are_different_rows(harness: StoreHarness) -> None:
    ids = ["1", "01", "1.0", "1 1", "é", "e\u0301", "É", "a", "A", "true", "1e5", "100000"]
    await claimed(await harness.store("a"), *ids)
    assert await harness.count() == len(ids)


@pytest.mark.parametrize(
    "value",
    [{"a": math.nan, "b": [math.inf, -math.inf]}, {"\x00": "\ud800"}, [[[]]], "text", 7, None, {"n": 10**40}, 1e-300],
)
async def test_json_is_stored_as_it_is_once_cleaned(harness: StoreHarness, value: Any) -> None:
    cleaned, _ = clean_json(value)
    store = await harness.store("a")
    (one,) = await claimed(store, "r-1")
    assert await store.finish([finished(one, result_json=cleaned)], [])
    stored = (await harness.row("r-1"))["result_json"]
    assert json.dumps(stored) == json.dumps(cleaned)


async def test_two_workers_with_opposite_orders_do_not_meet_in_a_deadlock(harness: StoreHarness) -> None:
    a, b = await harness.store("a"), await harness.store("b")
    ids = [f"r-{nth}" for nth in range(20)]

    async def write(store: Store, order: list[str], nth: int) -> None:
        works = [work(id_, f"v{nth}", offset=nth) for id_ in order]
        await claim(store, *works)
        ours = [one for one in works if one.claim and one.claim.ours]
        await store.finish([finished(one) for one in ours], [called(one) for one in ours])

    for nth in range(100):
        await asyncio.gather(write(a, ids, 2 * nth), write(b, ids[::-1], 2 * nth + 1))
    assert await harness.count() == 20


async def test_of_many_who_claim_at_once_one_is_to_ask(harness: StoreHarness) -> None:
    stores = [await harness.store(f"w-{nth}") for nth in range(6)]
    for nth in range(20):
        works = [work(f"r-{nth}") for _ in stores]
        claims = await asyncio.gather(*(store.claim([one]) for store, one in zip(stores, works, strict=True)))
        verdicts = [got.verdict for (got,) in claims]
        assert verdicts.count(Verdict.NEW) == 1
        assert verdicts.count(Verdict.LIVE) == len(stores) - 1


async def test_of_many_who_take_over_at_once_one_does(harness: StoreHarness) -> None:
    stores = [await harness.store(f"w-{nth}") for nth in range(6)]
    for nth in range(10):
        await claimed(await harness.store("dead"), f"r-{nth}")
        await harness.lapse()
        claims = await asyncio.gather(*(store.claim([work(f"r-{nth}")]) for store in stores))
        assert sum(got.ours for (got,) in claims) == 1
        assert len(await harness.calls(f"r-{nth}")) == 1


async def test_failed_ends_keep_their_words(harness: StoreHarness) -> None:
    store = await harness.store("a")
    (one,) = await claimed(store, "r-1")
    await finish(store, one, None, status=Status.FAILED, reason="truncated", error_msg="unfit, status 200")  # type: ignore[arg-type]
    row = await harness.row("r-1")
    assert (row["status"], row["reason"], row["result"], row["error_msg"]) == (
        "failed",
        "truncated",
        None,
        "unfit, status 200",
    )
