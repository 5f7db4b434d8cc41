"""Claims: who is to ask, who waits, who is too late. The same on the fake and on Postgres."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from schemas.database import LEASE_SECONDS
from schemas.statuses import Reason, Status
from tests.contract.stores import StoreHarness, in_utc
from tests.fakes.samples import called, finished, work
from worker.core.claims import Claim, Verdict
from worker.ports import Store, Work

DAY = timedelta(days=1)
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


async def claim(store: Store, *works: Work) -> list[Verdict]:
    """Claim, keeping each claim with its work."""
    for one, claimed in zip(works, await store.claim(works), strict=True):
        one.claim = claimed
    return [one.claim.verdict for one in works if one.claim]


async def finish(store: Store, one: Work, text: str = "yes", **fields: object) -> bool:
    (stored,) = await store.finish([finished(one, text, **fields)], [called(one)])
    return stored


async def fail(store: Store, one: Work) -> bool:
    return await finish(store, one, status=Status.FAILED, reason=Reason.SERVER_ERROR)


async def test_a_new_row_is_ours(harness: StoreHarness) -> None:
    store, one = await harness.store("a"), work("r-1", job="reviews", run="run-1", offset=7, log="log/3")
    (got,) = await store.claim([one])
    assert (got.verdict, got.ours, got.attempts, got.lost) == (Verdict.NEW, True, 0, False)
    assert got.claimed_at is not None
    row = await harness.row("r-1", "reviews")
    assert (row["status"], row["reason"], row["run"], row["worker"]) == ("claimed", None, "run-1", "a")
    assert (row["fingerprint"], row["model"], row["prompt_length"]) == (one.prompt.fingerprint, "small", 4)
    assert (row["log"], row["log_offset"], row["fence"], row["starts"]) == ("log/3", 7, got.fence, 1)
    held = in_utc(row["claimed_until"]) - in_utc(row["claimed_at"])
    assert held == timedelta(seconds=LEASE_SECONDS)


async def test_answers_come_in_the_order_of_the_question(harness: StoreHarness) -> None:
    store = await harness.store("a")
    done = work("b")
    await claim(store, done)
    await finish(store, done)
    works = [work(id_) for id_ in ("c", "b", "a")]
    assert await claim(store, *works) == [Verdict.NEW, Verdict.DONE, Verdict.NEW]
    assert [one.claim.ours for one in works if one.claim] == [True, False, True]


async def test_the_publishing_time_of_the_message_counts_else_the_records(harness: StoreHarness) -> None:
    store = await harness.store("a")
    await claim(store, work("own", published_at="2026-01-05T00:00:00+00:00"), work("record", timestamp=MONDAY + DAY))
    assert in_utc((await harness.row("own"))["published_at"]) == MONDAY
    assert in_utc((await harness.row("record"))["published_at"]) == MONDAY + DAY


async def test_an_answered_row_is_done(harness: StoreHarness) -> None:
    store, one = await harness.store("a"), work("r-1")
    await claim(store, one)
    await finish(store, one)
    for again in (work("r-1"), work("r-1", offset=99), work("r-1", run="another"), work("r-1", log="log/1")):
        assert await claim(await harness.store("b"), again) == [Verdict.DONE]
    assert (await harness.row("r-1"))["result"] == "yes"


async def test_a_row_that_another_owner_holds_is_live(harness: StoreHarness) -> None:
    await claim(await harness.store("a"), work("r-1"))
    other = work("r-1")
    assert await claim(await harness.store("b"), other) == [Verdict.LIVE]
    assert await claim(await harness.store("b"), work("r-1", offset=5)) == [Verdict.LIVE]
    row = await harness.row("r-1")
    assert (row["worker"], row["starts"], row["fence"]) == ("a", 1, 1)


async def test_a_claim_whose_answer_was_lost_is_found_again_as_ones_own(harness: StoreHarness) -> None:
    store, first, second = await harness.store("a"), work("r-1"), work("r-1")
    await claim(store, first)
    assert await claim(store, second) == [Verdict.HELD]
    assert first.claim is not None
    assert second.claim is not None
    assert (second.claim.fence, second.claim.claimed_at) == (first.claim.fence, first.claim.claimed_at)
    assert not second.claim.ours
    assert await harness.calls("r-1") == []
    assert await finish(store, second)
    assert (await harness.row("r-1"))["starts"] == 1


async def test_a_lapsed_claim_is_taken_over_and_the_lost_call_is_perhaps_billed(harness: StoreHarness) -> None:
    first, second = work("r-1", run="run-1"), work("r-1", run="run-2")
    await claim(await harness.store("a"), first)
    await harness.lapse()
    assert await claim(await harness.store("b"), second) == [Verdict.LOST]
    assert first.claim is not None
    assert second.claim is not None
    assert (second.claim.lost, second.claim.attempts, second.claim.fence) == (True, 1, first.claim.fence + 1)
    (line,) = await harness.calls("r-1")
    assert (line["attempt"], line["outcome"], line["billed"], line["worker"]) == (1, "lost", "maybe", "a")
    assert (line["run"], line["model"], line["claimed_at"]) == ("run-1", "small", first.claim.claimed_at)
    assert line["finished_at"] >= line["started_at"]
    row = await harness.row("r-1")
    assert (row["status"], row["worker"], row["run"], row["starts"]) == ("claimed", "b", "run-2", 2)


async def test_a_lease_that_is_renewed_does_not_lapse(harness: StoreHarness) -> None:
    store, one = await harness.store("a"), work("r-1")
    await claim(store, one)
    await harness.lapse()
    assert await store.renew([one]) == [True]
    assert await claim(await harness.store("b"), work("r-1")) == [Verdict.LIVE]


async def test_renewing_tells_whose_claims_are_no_longer_theirs(harness: StoreHarness) -> None:
    store = await harness.store("a")
    kept, taken, ended = works = [work(id_) for id_ in ("kept", "taken", "ended")]
    await claim(store, *works)
    await finish(store, ended)
    await claim(await harness.store("b"), newer := work("taken", "another version", offset=9))
    assert await store.renew(works) == [True, False, False]
    row = await harness.row("taken")
    assert (row["worker"], row["fence"]) == ("b", newer.claim.fence if newer.claim else None)
    assert kept.claim is not None
    assert taken.claim is not None


async def test_a_released_claim_counts_no_death_and_no_lost_call(harness: StoreHarness) -> None:
    store, one = await harness.store("a"), work("r-1")
    for _ in range(10):
        await claim(store, one)
        await store.release([one])
    assert await claim(await harness.store("b"), other := work("r-1")) == [Verdict.RELEASED]
    assert other.claim is not None
    assert not other.claim.lost
    assert await harness.calls("r-1") == []
    assert (await harness.row("r-1"))["starts"] == 1


async def test_releasing_or_renewing_what_one_no_longer_holds_changes_nothing(harness: StoreHarness) -> None:
    store, one = await harness.store("a"), work("r-1")
    await claim(store, one)
    await harness.lapse()
    await claim(await harness.store("b"), work("r-1"))
    before = await harness.row("r-1")
    await store.release([one])
    assert await store.renew([one]) == [False]
    assert await harness.row("r-1") == before
    await store.release([])
    assert await store.renew([]) == []


async def test_the_fourth_start_of_a_message_whose_owners_died_is_its_end(harness: StoreHarness) -> None:
    verdicts = []
    for nth in range(5):
        verdicts += await claim(await harness.store(f"w-{nth}"), work("r-1"))
        await harness.lapse()
    assert verdicts == [Verdict.NEW, Verdict.LOST, Verdict.LOST, Verdict.CRASHED, Verdict.DONE]
    row = await harness.row("r-1")
    assert (row["status"], row["reason"], row["starts"]) == ("failed", "crashed", 3)
    assert row["completed_at"] is not None
    assert row["error_msg"] == "its owner died during each of 3 starts"
    lines = await harness.calls("r-1")
    assert [(line["outcome"], line["billed"], line["worker"]) for line in lines] == [
        ("lost", "maybe", f"w-{nth}") for nth in range(3)
    ]


async def test_a_newer_version_starts_with_a_clean_slate(harness: StoreHarness) -> None:
    for nth in range(3):
        await claim(await harness.store(f"w-{nth}"), work("r-1"))
        await harness.lapse()
    assert await claim(await harness.store("b"), work("r-1", "v2", offset=5)) == [Verdict.NEWER]
    assert (await harness.row("r-1"))["starts"] == 1


@pytest.mark.parametrize("end", ["succeeded", "failed", "claimed", "lapsed", "released"])
async def test_a_later_version_takes_the_row_whatever_its_state(harness: StoreHarness, end: str) -> None:
    store, old = await harness.store("a"), work("r-1", "v1", offset=10)
    await claim(store, old)
    await _bring_to(harness, store, old, end)
    new = work("r-1", "v2", offset=20)
    assert await claim(await harness.store("b"), new) == [Verdict.NEWER]
    assert not await finish(store, old, "late")
    assert await finish(await harness.store("b"), new, "to v2")
    row = await harness.row("r-1")
    assert (row["result"], row["fingerprint"], row["log_offset"]) == ("to v2", new.prompt.fingerprint, 20)


async def _bring_to(harness: StoreHarness, store: Store, one: Work, end: str) -> None:
    if end == "succeeded":
        await finish(store, one, "to v1")
    elif end == "failed":
        await fail(store, one)
    elif end == "lapsed":
        await harness.lapse()
    elif end == "released":
        await store.release([one])


async def test_a_later_version_forgets_all_that_the_earlier_one_had(harness: StoreHarness) -> None:
    store, old = await harness.store("a"), work("r-1", "v1", offset=10)
    await claim(store, old)
    await finish(
        store, old, "to v1", result_json={"a": 1}, error_msg="x", cost_usd=None, sanitised=True, retry_count=3
    )
    await claim(store, work("r-1", "v2", offset=20))
    row = await harness.row("r-1")
    forgotten = """result result_json finish_reason prompt_tokens completion_tokens latency_ms result_length
        model_answered endpoint cost_usd error_msg reason completed_at""".split()
    assert {name: row[name] for name in forgotten} == dict.fromkeys(forgotten)
    assert (row["sanitised"], row["retry_count"]) == (False, 0)


@pytest.mark.parametrize("end", ["succeeded", "failed", "claimed", "lapsed"])
async def test_an_earlier_version_never_comes_back(harness: StoreHarness, end: str) -> None:
    store, new = await harness.store("a"), work("r-1", "v2", offset=20)
    await claim(store, new)
    await _bring_to(harness, store, new, end)
    before = await harness.row("r-1")
    assert await claim(await harness.store("b"), work("r-1", "v1", offset=10)) == [Verdict.SUPERSEDED]
    assert await harness.row("r-1") == before


@pytest.mark.parametrize(
    ("held", "incoming", "verdict"),
    [
        (MONDAY, MONDAY + DAY, Verdict.NEWER),
        (MONDAY, MONDAY - DAY, Verdict.SUPERSEDED),
        (MONDAY, MONDAY, Verdict.NEWER),
        (None, MONDAY, Verdict.NEWER),
        (MONDAY, None, Verdict.NEWER),
    ],
)
async def test_between_two_logs_the_publishing_time_decides(
    harness: StoreHarness, held: datetime | None, incoming: datetime | None, verdict: Verdict
) -> None:
    store = await harness.store("a")
    await claim(store, work("r-1", "v1", offset=500, log="old/0", timestamp=held))
    assert await claim(store, work("r-1", "v2", offset=3, log="new/0", timestamp=incoming)) == [verdict]


async def test_within_a_log_the_offset_decides_whatever_the_clock_says(harness: StoreHarness) -> None:
    store = await harness.store("a")
    await claim(store, work("r-1", "v1", offset=10, timestamp=MONDAY))
    assert await claim(store, work("r-1", "v2", offset=11, timestamp=MONDAY - DAY)) == [Verdict.NEWER]


async def test_the_first_version_sent_again_is_a_newer_one(harness: StoreHarness) -> None:
    store = await harness.store("a")
    assert await claim(store, work("r-1", "v1", offset=1)) == [Verdict.NEW]
    assert await claim(store, work("r-1", "v2", offset=2)) == [Verdict.NEWER]
    assert await claim(store, work("r-1", "v1", offset=1)) == [Verdict.SUPERSEDED]
    assert await claim(store, work("r-1", "v1", offset=3)) == [Verdict.NEWER]


@pytest.mark.parametrize(
    ("offset", "run", "verdict"),
    [
        (20, "run-2", Verdict.AGAIN),
        (20, None, Verdict.AGAIN),
        (20, "run-1", Verdict.DONE),
        (10, "run-2", Verdict.DONE),
        (5, "run-2", Verdict.DONE),
    ],
)
async def test_a_failed_row_is_asked_again_by_a_later_run_only(
    harness: StoreHarness, offset: int, run: str | None, verdict: Verdict
) -> None:
    store, one = await harness.store("a"), work("r-1", run="run-1", offset=10)
    await claim(store, one)
    await fail(store, one)
    again = work("r-1", offset=offset, **({"run": run} if run else {}))
    assert await claim(store, again) == [verdict]
    if verdict is Verdict.AGAIN:
        assert again.claim is not None
        assert again.claim.attempts == 1
        assert await finish(store, again, "better")
        row = await harness.row("r-1")
        assert (row["status"], row["reason"], row["result"], row["error_msg"]) == ("succeeded", None, "better", None)


async def test_jobs_are_namespaces(harness: StoreHarness) -> None:
    store = await harness.store("a")
    assert await claim(store, work("r-1", job="a"), work("r-1", job="b")) == [Verdict.NEW, Verdict.NEW]
    assert await harness.count() == 2


def test_a_claim_knows_whether_it_is_ours() -> None:
    assert Claim(Verdict.LOST).ours
